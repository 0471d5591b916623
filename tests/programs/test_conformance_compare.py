"""Decoders are compared on mutants: ``conformance/compare.py`` finds a disagreement, and both decoders have none."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from conformance import compare
from conformance.compare import read_seeds
from conformance.file_mutants.layers import LAYERS, Mutants, list_parts, replace_part
from conformance.file_mutants.opcodes import is_pickle
from conformance.file_mutants.texts import find_pickle
from sbformat.container.reader import Container
from sbformat.errors import SbformatError
from tests.helpers.bundled import ROOT
from tests.helpers.conformance_commands import run_program, share_processes
from tests.helpers.sampling import with_exhaustive

if TYPE_CHECKING:
    from collections.abc import Iterator

NODE: Final = shutil.which("node")
PYTHON: Final = shlex.join([sys.executable, str(ROOT / "conformance" / "harness" / "python" / "decode.py")])
JAVASCRIPT: Final = f"{NODE} {ROOT / 'conformance' / 'harness' / 'javascript' / 'decode.js'}"
SEEDS: Final = read_seeds([])
FORMS: Final = ("container", "data", "pickle", "tensor", "legacy")
"""The layers that both decoders read."""

OTHER: Final = """
import sys
sys.path.insert(0, {folder!r})
import decode, protocol
def answer(source, arguments):
    found = decode.decode(source, arguments)
    {fault}
    return found
sys.exit(protocol.main(answer))
"""


@pytest.fixture(scope="module", autouse=True)
def shared() -> Iterator[None]:
    """Both decoders run in a process each, and are not asked again whether they support batches."""
    with share_processes(compare, shlex.split(PYTHON), shlex.split(JAVASCRIPT)):
        yield


def run_compare(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_program(compare.main, "--jobs", "1", *arguments)


def write_other(tmp_path: Path, fault: str) -> str:
    """A decoder that differs from the Python one in what it accepts."""
    program = tmp_path / "other.py"
    folder = str(ROOT / "conformance" / "harness" / "python")
    program.write_text(OTHER.format(folder=folder, fault=fault), encoding="utf-8")
    return shlex.join([sys.executable, str(program)])


def read_table(text: str) -> dict[str, dict[str, int]]:
    """The counts of the table, by layer and result."""
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if line.split()[:2] == ["accepted", "refused"])
    names = lines[start].split()
    return {line.split()[0]: dict(zip(names, map(int, line.split()[1:]))) for line in lines[start + 1 :]}


@pytest.mark.parametrize("layer", LAYERS)
def test_a_number_and_a_seed_determine_a_mutant(layer: str) -> None:
    made = [[mutants.make(number) for number in range(8)] for mutants in (Mutants(layer, SEEDS, n) for n in (0, 0, 1))]
    assert made[0] == made[1] != made[2]
    contents = {seed.name: seed.content for seed in SEEDS}
    changed = [mutant for mutant in made[0] if mutant.content != contents[mutant.name]]
    assert len(changed) >= 6
    assert len({mutant.content for mutant in changed}) == len(changed)


@pytest.mark.parametrize("layer", ["pickle", "tensor"])
def test_what_is_above_a_layer_is_right(layer: str) -> None:
    """A zip with right CRCs and sizes, and base64 that can be decoded: a decoder comes as far as the layer."""
    mutants = Mutants(layer, SEEDS, 5)
    pickles = 0
    for number in range(100):
        mutant = mutants.make(number)
        if mutant.content.startswith(b"PK\x03\x04"):
            container = Container(mutant.content, names="record")
            assert [bytes(container.read(name)) for name in container]
        for part in list_parts(mutant.content):
            key = mutant.value_of("--blob") or ""
            found = part.content if part.name.endswith(b"data.pkl") else find_pickle(part.content, key)
            pickles += found is not None and is_pickle(found)
    assert pickles >= 50


def test_mutants_of_the_container_are_zips_with_and_without_a_fault() -> None:
    mutants = Mutants("container", SEEDS, 5)
    read = 0
    for number in range(60):
        try:
            Container(mutants.make(number).content, names="record")
        except SbformatError:
            continue
        read += 1
    assert 5 < read < 55


def test_a_part_that_is_replaced_is_the_only_change() -> None:
    for seed in SEEDS[::50]:
        parts = list(list_parts(seed.content))
        whole = [one for one in parts if not one.content.startswith(b"PK")]
        for part in parts:
            if part.path and not part.content.startswith(b"PK"):
                changed = list(list_parts(replace_part(seed.content, part.path, b"other")))
                leaves = [(one.name, b"other" if one is part else one.content) for one in whole]
                found = [(one.name, one.content) for one in changed if not one.content.startswith(b"PK")]
                assert found == leaves, (seed.name, part.name)


@pytest.mark.exhaustive
def test_a_decoder_agrees_with_itself() -> None:
    done = run_compare("--decoder", PYTHON, "--decoder", PYTHON, "--mutants", "40", "--strict")
    assert done.returncode == 0, done.stdout
    table = read_table(done.stdout)
    assert list(table) == list(LAYERS)
    for layer, counts in table.items():
        assert counts["accepted"] + counts["refused"] == 40, layer
        assert min(counts["accepted"], counts["refused"]) >= 2, layer


FAULTS: Final = {
    "accept": "if len(source) % 2: import sbformat; raise sbformat.UnsupportedError('odd')",
    "value": "found['more'] = 1",
    "crash": "raise KeyError('why')",
    "unknown": "raise protocol.WrongArgumentsError('none')",
}


@pytest.mark.parametrize("kind", with_exhaustive(["value"], FAULTS))
def test_a_disagreement_is_found_saved_and_reproduced(kind: str, tmp_path: Path) -> None:
    decoders = ["--decoder", PYTHON, "--decoder", write_other(tmp_path, FAULTS[kind])]
    options = ["--layer", "pickle", "--mutants", "30", "--save", str(tmp_path / "saved")]
    done = run_compare(*decoders, *options, "--seed", "7")
    counts = read_table(done.stdout)["pickle"]
    assert counts[kind] > 0
    assert counts["accepted"] == 0 or kind == "accept"
    assert done.returncode == (kind != "unknown")
    if kind == "unknown":
        return
    shown = re.search(
        rf"^{kind}: [0-9]+ of pickle, as (--layer pickle --seed 7 --mutant ([0-9]+)) ", done.stdout, re.MULTILINE
    )
    assert shown
    again = run_compare(*decoders, *shown[1].split())
    assert read_table(again.stdout)["pickle"][kind] == 1
    saved = sorted((tmp_path / "saved").iterdir())
    assert len(saved) == 2 * counts[kind]
    name = f"{kind}-pickle-7-{shown[2]}"
    facts: dict[str, Any] = json.loads((tmp_path / "saved" / f"{name}.json").read_bytes())
    assert facts["arguments"][0] == "--blob"
    assert len(facts["answers"]) == 2
    assert (tmp_path / "saved" / f"{name}.bin").read_bytes() == Mutants("pickle", SEEDS, 7).make(int(shown[2])).content


def test_a_malformed_answer_is_a_crash_of_one_mutant(tmp_path: Path) -> None:
    other = write_other(tmp_path, r"import os; os.write(1, b'[' * 100000 + b'\n')")
    done = run_compare("--decoder", PYTHON, "--decoder", other, "--layer", "data", "--mutants", "5")
    assert (done.returncode, done.stderr) == (1, "")
    assert read_table(done.stdout)["data"]["crash"] > 0


def test_a_missing_file_and_a_selection_without_mutants_are_errors(tmp_path: Path) -> None:
    decoders = ["--decoder", PYTHON, "--decoder", PYTHON]
    missing = str(tmp_path / "missing.zip")
    for words, message in (
        ([missing], f"compare.py: cannot read {missing!r}: No such file or directory\n"),
        (["--mutants", "0"], "compare.py: expected a number >= 1 for --mutants, got 0\n"),
    ):
        done = run_compare(*decoders, *words)
        assert (done.returncode, done.stderr, done.stdout) == (2, message, "")


@pytest.mark.exhaustive
def test_another_outcome_fails_only_if_that_is_asked_for(tmp_path: Path) -> None:
    program = """
    try: found = decode.decode(source, arguments)
    except decode.sbformat.SbformatError: raise decode.MissingEntryError("x")
"""
    other = write_other(tmp_path, "").replace("other.py", "renames.py")
    text = (tmp_path / "other.py").read_text("utf-8").replace("    found = decode.decode(source, arguments)\n", program)
    (tmp_path / "renames.py").write_text(text, encoding="utf-8")
    options = ["--decoder", PYTHON, "--decoder", other, "--layer", "data", "--mutants", "40"]
    lenient, strict = run_compare(*options), run_compare(*options, "--strict")
    assert (lenient.returncode, strict.returncode) == (0, 1), lenient.stdout + lenient.stderr
    counts = read_table(lenient.stdout)["data"]
    assert counts["outcome"] > 0
    assert counts["crash"] == counts["accept"] == counts["value"] == 0


def test_limits_and_files_are_used(tmp_path: Path) -> None:
    done = run_compare(
        "--decoder", PYTHON, "--decoder", PYTHON, "--layer", "data", "--mutants", "20", "--limit", "json_bytes=1"
    )
    assert read_table(done.stdout)["data"]["refused"] == 20
    path = tmp_path / "own.json"
    path.write_text('{"own": 1}', encoding="utf-8")
    assert read_seeds([str(path)])[-1].content == b'{"own": 1}'
    for words in (["--decoder", PYTHON], ["--decoder", PYTHON, "--decoder", PYTHON, "--layer", "no"]):
        assert run_compare(*words).returncode == 2


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize("count", with_exhaustive([40], [100]))
def test_the_two_decoders_hardly_disagree(count: int) -> None:
    """A few mutants, which are others after each change of the vectors; the exhaustive test allows no disagreement."""
    layers = [word for layer in FORMS for word in ("--layer", layer)]
    done = run_compare("--decoder", PYTHON, "--decoder", JAVASCRIPT, *layers, "--mutants", str(count))
    for counts in read_table(done.stdout).values():
        assert counts["crash"] == counts["unknown"] == 0
        assert min(counts["accepted"], counts["refused"]) >= count / 10
        assert counts["accept"] + counts["value"] <= 2
        assert counts["outcome"] <= 10


@pytest.mark.exhaustive
@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize("layer", [*FORMS, "statistics", "replay-buffer", "algorithm"])
def test_the_two_decoders_agree(layer: str) -> None:
    done = run_compare("--decoder", PYTHON, "--decoder", JAVASCRIPT, "--layer", layer, "--mutants", "10000", "--strict")
    assert done.returncode == 0, done.stdout
