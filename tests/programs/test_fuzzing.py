"""The fuzzers' mutator: what it takes apart it puts together again, and what it changes keeps right CRCs.

It runs without atheris, and so do the targets, on a few inputs: a finding can be replayed anywhere.
"""

from __future__ import annotations

import io
import os
import pickle
import random
import subprocess
import sys
import zipfile
from itertools import islice
from pathlib import Path
from typing import Final

import pytest

from conformance.file_mutants import archives, zips
from conformance.generators import build_pth, build_zips
from conformance.generators.build_zips import Member, build_zip, extra_field, zip64_field
from sbformat import SbformatError, pkl, reads
from sbformat import data as data_entry
from sbformat.container.reader import Container
from sbformat.limits import Budget
from tests.fuzz import ROOT, seeds
from tests.fuzz.command import TARGETS
from tests.fuzz.mutator import pickles, texts
from tests.fuzz.mutator.chance import Chance
from tests.fuzz.mutator.fragments import FRAGMENTS, LEAVES
from tests.fuzz.mutator.whole import mutate
from tests.helpers import attacks, bundled
from tests.helpers.sampling import with_exhaustive

SENTINELS: Final = {"size": build_zips.MAX32, "compressed": build_zips.MAX32}
SIZES: Final = zip64_field(2, 2)
WIDE: Final = Member(b"data", b"{}", extra=SIZES, central_extra=SIZES, local={**SENTINELS}, central={**SENTINELS})
ZIPS: Final = {
    "an archive by hand": build_zips.sb3_archive(),
    "of Python": bundled.PPO.read_bytes(),
    "deflated": bundled.zipped(bundled.entries(), zipfile.ZIP_DEFLATED),
    "of torch": build_zips.state_dict_zip(build_zips.POLICY),
    "wide": build_zip(WIDE),
    "redundant sizes": build_zip(Member(b"a", b"xy", extra=zip64_field(2, 2))),
    "wide offsets": build_zip(
        Member(b"a", b"xy"), Member(b"b", b"z", central_extra=zip64_field(33), central={"offset": build_zips.MAX32})
    ),
    "long descriptors": build_zip(Member(b"a", b"xy", descriptor="64"), Member(b"b", descriptor="32")),
    "another order": build_zip(Member(b"a", b"xy"), Member(b"b", b"z"), Member(b"c"), order=[2, 0, 1]),
    "a comment and extras": build_zip(Member(b"a", extra=extra_field(0x5455, b"12345"), comment=b"c"), comment=b"zip"),
}
zips_of_all_kinds = pytest.mark.parametrize("raw", ZIPS.values(), ids=list(ZIPS))


def parsed(raw: bytes) -> zips.Zip:
    made = zips.parse(raw)
    assert made is not None
    return made


@zips_of_all_kinds
def test_a_zip_that_is_not_changed_comes_back_byte_for_byte(raw: bytes) -> None:
    assert zips.build(parsed(raw)) == raw


@zips_of_all_kinds
def test_a_changed_member_has_the_right_sizes_and_crc_and_the_others_are_as_before(raw: bytes) -> None:
    before = Container(raw, names="record")
    for index, name in enumerate(before):
        for content in (b"", b"changed", bytes(5000)):
            made = parsed(raw)
            changed = next(part for part in made.parts if part.name == name.encode())
            changed.replace(content)
            after = Container(zips.build(made), names="record")
            assert list(after) == list(before)
            for at, other in enumerate(after):
                assert after.read(other) == (content if at == index else before.read(other))
            with zipfile.ZipFile(io.BytesIO(zips.build(made))) as file:
                assert file.testzip() is None


@pytest.mark.parametrize(
    "raw", [b"", b"PK\x03\x04", build_zips.sb3_archive()[:-30], b"PK\x05\x06" + bytes(18), bytes(100)]
)
def test_what_has_no_directory_is_no_zip(raw: bytes) -> None:
    assert zips.parse(raw) is None


def test_a_fault_is_one_field_that_is_wrong() -> None:
    for where, name in (("local", "crc"), ("central", "size"), ("end", "count"), ("locator", "disk")):
        made = parsed(build_zips.state_dict_zip(build_zips.POLICY))
        made.faults.append(zips.Fault(where, name, 77))  # type: ignore[arg-type]
        with pytest.raises(SbformatError):
            Container(zips.build(made), names="record")


def test_every_change_of_a_zip_can_be_written() -> None:
    for seed in range(600):
        chance = Chance(seed)
        made = parsed(chance.choice(list(ZIPS.values())))
        archives.changed(chance, made)
        assert zips.build(made)


@pytest.mark.parametrize("protocol", range(6))
def test_pickles_are_split_into_opcodes_and_joined(protocol: int) -> None:
    raw = pickle.dumps([{"a": (1, 2.5, None)}, {b"x", "y"}, 10**30, [pickle.PickleError]] * 3, protocol)
    tokens, rest = pickles.split(raw + b"behind")
    assert rest == b"behind"
    assert pickles.join(tokens) == raw
    assert pickles.spans(tokens)[-1].stop == len(tokens) - 1


def test_a_frame_holds_what_it_holds_after_a_change() -> None:
    tokens, _ = pickles.split(pickle.dumps(["text"], 4))
    tokens[-2:-2] = [b"N", b"0"]
    assert pkl.loads(pickles.join(tokens)) == ["text"]


@pytest.mark.parametrize("fragment", [*LEAVES, *FRAGMENTS])
def test_every_fragment_is_one_value(fragment: bytes) -> None:
    tokens, rest = pickles.split(fragment)
    assert b"".join(tokens) == fragment
    assert not rest
    found = pkl.decode_pickle(attacks.pickle(fragment), Budget())
    assert not any("left on the stack" in flag for flag in found.flags)


def test_most_changed_pickles_are_pickles() -> None:
    seeds = [attacks.pickle(fragment) for fragment in FRAGMENTS]
    read = 0
    for seed in range(1000):
        try:
            pkl.loads(pickles.changed(Chance(seed), random.Random(seed).choice(seeds)))  # noqa: S311 -- no secrets
            read += 1
        except SbformatError:
            pass
    assert read > 300


@pytest.mark.parametrize("count", with_exhaustive([250], [1000]))
def test_most_changed_archives_are_archives_down_to_their_weights_and_blobs(count: int) -> None:
    """Without right CRCs hardly any would get behind the zip."""
    raw = build_zips.sb3_archive()
    opened = weights = blobs = 0
    for seed in range(count):
        try:
            archive = reads(mutate(raw, 1 << 16, seed))
            opened += 1
            weights += archive.state_dict("policy.pth") != reads(raw).state_dict("policy.pth")
            blobs += archive.decode("policy_class") != 7
        except SbformatError:
            pass
    assert opened > 0.7 * count
    assert min(weights, blobs) > 0.02 * count


def test_a_torch_zip_within_an_archive_has_right_crcs_after_a_change() -> None:
    raw = build_zips.state_dict_zip(build_zips.POLICY)
    changed = 0
    for seed in range(300):
        made = parsed(raw)
        part = Chance(seed).choice(made.parts)
        part.replace(mutate(part.data, 1 << 16, seed))
        again = Container(zips.build(made), names="record")
        assert bytes(again.read(part.name.decode())) == part.data
        changed += part.data != bytes(Container(raw, names="record").read(part.name.decode()))
    assert changed > 200


@pytest.mark.parametrize("count", with_exhaustive([20], [100]))
def test_a_seed_gives_one_mutant_of_at_most_the_size_that_was_asked_for(count: int) -> None:
    files = [*ZIPS.values(), attacks.hostile_data(), build_pth.legacy_stream({}), b"", b"no file at all"]
    for seed in range(count):
        for raw in files:
            made = mutate(raw, 40_000, seed)
            assert len(made) <= 40_000
            assert mutate(raw, 40_000, seed) == made


def test_bytes_without_a_meaning_are_changed_by_what_is_given() -> None:
    asked = []

    def change(data: bytes, size: int) -> bytes:
        asked.append(data)
        return data[:size]

    for seed in range(50):
        mutate(b"no file at all", 100, seed, change)
    assert asked


def test_text_is_changed_as_json_and_its_blobs_as_pickles() -> None:
    raw = attacks.hostile_data()
    read = 0
    for seed in range(500):
        try:
            data_entry.loads(texts.changed(Chance(seed), raw))
            read += 1
        except SbformatError:
            pass
    assert read > 300


@pytest.mark.parametrize("step", with_exhaustive([5], [1]))
def test_each_target_has_seeds_of_its_own_layer(step: int) -> None:
    counts = dict.fromkeys(TARGETS, 0)
    for data in seeds.layers(islice(seeds.files(), 0, None, step)):
        if len(data) < 1 << 13:
            for target in (target for target, count in counts.items() if count <= 300 // step):
                counts[target] += seeds.FITS[target](data)
        if min(counts.values()) > 300 // step:
            break
    assert min(counts.values()) > 300 // step, counts


@pytest.mark.parametrize("count", with_exhaustive([1], [5]))
def test_targets_keep_their_law_without_atheris(count: int, tmp_path: Path) -> None:
    """The command replays files, where atheris cannot be imported: each file, and so many changes of it."""
    files = [
        build_zips.sb3_archive(), build_zips.state_dict_zip(build_zips.POLICY), build_pth.legacy_stream({}),
        attacks.hostile_data(), attacks.PAYLOAD, b"", bundled.PPO.read_bytes(),
    ]  # fmt: skip
    files = [made for raw in files for made in (raw, *(mutate(raw, 1 << 16, seed) for seed in range(count)))]
    names = [str(tmp_path / str(at)) for at in range(len(files))]
    for name, content in zip(names, files):
        Path(name).write_bytes(content)
    (tmp_path / "atheris.py").write_text("raise ImportError\n", "ascii")
    command = [sys.executable, str(bundled.ROOT / "tests" / "fuzz"), "all", *names]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("keeps the law") == len(TARGETS) * len(files)


def test_the_command_names_the_extra_when_atheris_is_missing() -> None:
    script = (
        f"import sys; sys.path[:0] = [{str(ROOT)!r}]; sys.modules['atheris'] = None\n"
        "from tests.fuzz.command import main\n"
        "main(['pkl'])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 1
    assert "sbformat[fuzz]" in done.stderr
