"""Every public function takes every kind of source, and names what it expects in its errors."""

from __future__ import annotations

import io
import json
import os
import re
from inspect import isfunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from sbformat import spaces
from tests.helpers.bundled import ARCHIVES, PPO, SAC
from tests.helpers.environments import CountingEnv

if TYPE_CHECKING:
    from collections.abc import Callable

POLICY_FILE: Final = ARCHIVES / "policy-box.pth"
STATISTICS: Final = ARCHIVES / "vecnormalize-pendulum.pkl"
BUFFER: Final = ARCHIVES / "replay-buffer-cartpole.pkl"


def read_tensor(source: Any) -> list[float]:
    with sbformat.safe_open(source) as file:
        values: list[float] = file.get_tensor("action_net.bias").tolist()
    return values


def scan_findings(source: Any) -> tuple[Any, ...]:
    report = sbformat.scan(source)
    return report.verdict, report.findings, report.format, report.imports, report.pickles


def inspect_contents(source: Any) -> Any:
    return sbformat.inspect(source)._replace(data=None, hyperparameters=None, entries=())  # blobs have no equality


def extract_tensors(source: Any, folder: Path) -> Any:
    report = sbformat.extract(source, folder / "out.npz", overwrite=True)
    return report._replace(output=""), (folder / "out.npz").read_bytes()


def convert_archive(source: Any, folder: Path) -> Any:
    report = sbformat.convert(source, folder / "out.safetensors", overwrite=True)
    return report._replace(output=""), (folder / "out.safetensors").read_bytes()


def export_model(source: Any, folder: Path) -> Any:
    report = sbformat.export_onnx(source, folder / "out.onnx", overwrite=True)
    return report.nodes, report.inputs, report.outputs, report.constants


def export_source(source: Any, folder: Path) -> Any:
    report = sbformat.export_c(source, folder / "out.c", overwrite=True)
    return report.nodes, report.inputs, report.outputs, report.constants


def export_module(source: Any, folder: Path) -> Any:
    report = sbformat.export_javascript(source, folder / "out.js", overwrite=True)
    return report.nodes, report.inputs, report.outputs, report.constants


def export_by_suffix(source: Any, folder: Path) -> Any:
    report = sbformat.export(source, folder / "out.json", overwrite=True)
    return report.nodes, report.inputs, report.outputs, report.constants


def export_graph(source: Any, folder: Path) -> Any:
    sbformat.export_graph(source, folder / "out.json", overwrite=True)
    tensors = sbformat.read(folder / "out.safetensors").entries
    return json.loads((folder / "out.json").read_bytes())["nodes"], list(tensors)


def export_torch(source: Any, folder: Path) -> Any:
    report = sbformat.export_torch(source, folder / "out.py", overwrite=True)
    return report.nodes, report.inputs, report.outputs, report.constants


def write_page(source: Any, folder: Path) -> Any:
    """The page with texts for plots, and without what depends on the kind of source: the name, and the digest."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in ("histogram", "series", "intervals", "bars"):
            patch.setattr(
                f"sbformat.html_report.plots.Plots.draw_{kind}", lambda _, *given, **named: f"{given} {named}"
            )
        report = sbformat.report(source, folder / "out.html", overwrite=True, title="a page")
    page = (folder / "out.html").read_text("utf-8")
    (folder / "out.html").unlink()
    return report.broken, re.sub(
        r"<p class=\"(digest|kind)\">.*</p>|\d[\d.]* KiB|<code>(pickle|[\w-]+\.pkl)</code>", "", page
    )


def predict_action(source: Any) -> Any:
    policy = sbformat.load_policy(source)
    zeros = np.zeros(policy.observation_space.shape)  # type: ignore[attr-defined]
    return {name: value.tolist() for name, value in policy.outputs(zeros).items()}


SOURCES: Final[dict[str, tuple[Callable[[Any, Path], Any], Path]]] = {
    "bundle": (lambda source, _: sbformat.bundle(source, STATISTICS), SAC),
    "bundle, statistics": (lambda source, _: sbformat.bundle(SAC, source), STATISTICS),
    "catalog": (lambda source, _: [row["network"] for row in sbformat.catalog([source])], PPO),
    "check_target": (lambda source, _: sbformat.check_target(source, target="2.9"), PPO),
    "compare_system": (lambda source, _: sbformat.compare_system(source), PPO),
    "convert": (convert_archive, PPO),
    "diff": (lambda source, _: sbformat.diff(source, SAC), PPO),
    "diff, second": (lambda source, _: sbformat.diff(SAC, source), PPO),
    "edit": (lambda source, _: sbformat.edit(source, assign={"gamma": 0.5}), PPO),
    "evaluate": (lambda source, _: sbformat.evaluate(source, CountingEnv(), episodes=2), PPO),
    "export": (export_by_suffix, PPO),
    "export_c": (export_source, PPO),
    "export_graph": (export_graph, PPO),
    "export_javascript": (export_module, PPO),
    "export_onnx": (export_model, PPO),
    "export_torch": (export_torch, PPO),
    "extract": (extract_tensors, PPO),
    "extract, arrays": (extract_tensors, BUFFER),
    "inspect": (lambda source, _: inspect_contents(source), PPO),
    "iter_problems": (lambda source, _: list(sbformat.iter_problems(source)), PPO),
    "load_policy": (lambda source, _: predict_action(source), PPO),
    "policy_graph": (lambda source, _: sbformat.policy_graph(source).describe(), PPO),
    "read": (lambda source, _: sbformat.read(source), PPO),
    "read_parameters": (lambda source, _: repr(sbformat.read_parameters(source)), PPO),
    "read_replay_buffer": (lambda source, _: sbformat.read_replay_buffer(source).arrays["rewards"].tolist(), BUFFER),
    "read_vecnormalize": (lambda source, _: sbformat.read_vecnormalize(source), STATISTICS),
    "rebuild": (lambda source, _: sbformat.rebuild(source), PPO),
    "rebuild_policy": (lambda source, _: sbformat.rebuild_policy(source), POLICY_FILE),
    "rebuild_vecnormalize": (lambda source, _: sbformat.rebuild_vecnormalize(source), STATISTICS),
    "report": (lambda source, folder: write_page([source], folder), STATISTICS),
    "safe_open": (lambda source, _: read_tensor(source), PPO),
    "scan": (lambda source, _: scan_findings(source), PPO),
    "validate": (lambda source, _: sbformat.validate(source), PPO),
    "validate, statistics": (lambda source, _: sbformat.validate(source), STATISTICS),
}
"""Calls of the functions with a source, and a file that each takes."""

KINDS: Final[dict[str, Callable[[Path], Any]]] = {
    "str": str,
    "path": lambda path: path,
    "bytes": Path.read_bytes,
    "bytearray": lambda path: bytearray(path.read_bytes()),
    "memoryview": lambda path: memoryview(path.read_bytes()),
    "file object": lambda path: io.BytesIO(path.read_bytes()),
    "Archive": sbformat.read,
}

NOT_SOURCES: Final[dict[str, Any]] = {
    "None": None,
    "int": 123,
    "list": [PPO],
    "tuple": (sbformat.read(PPO),),
    "Rebuilt": sbformat.rebuild(PPO),
}

VALUES: Final[dict[str, tuple[Callable[[Any, Path], Any], str]]] = {
    "decode": (lambda value, _: sbformat.decode(value), "a Serialized"),
    "new": (lambda value, _: sbformat.new(value, {}), "an Archive"),
    "new, parameters": (lambda value, _: sbformat.new(sbformat.read(PPO), value), "state dicts by name"),
    "reads": (lambda value, _: sbformat.reads(value), "an Archive, a path, bytes or a binary file"),
    "write": (lambda value, folder: sbformat.write(value, folder / "a.zip"), "an Archive"),
    "writes": (lambda value, _: sbformat.writes(value), "an Archive"),
    "write_vecnormalize": (lambda value, folder: sbformat.write_vecnormalize(value, folder / "a"), "a VecNormalize"),
    "writes_vecnormalize": (lambda value, _: sbformat.writes_vecnormalize(value), "a VecNormalize"),
}
"""Calls of the functions whose first argument is not a source, and what they expect."""

SLIPS: Final[dict[str, tuple[Callable[[Path], Any], str]]] = {
    "write the result of rebuild": (
        lambda folder: sbformat.write(sbformat.rebuild(PPO), folder / "a.zip"),  # type: ignore[arg-type]
        "expected an Archive (its field archive), got Rebuilt",
    ),
    "write the result of edit": (
        lambda folder: sbformat.write(sbformat.edit(PPO), folder / "a.zip"),  # type: ignore[arg-type]
        "expected an Archive (its field archive), got EditReport",
    ),
    "write with swapped arguments": (
        lambda folder: sbformat.write(folder / "a.zip", sbformat.read(PPO)),  # type: ignore[arg-type]
        "expected an Archive, got ",
    ),
    "write without a path": (
        lambda _: sbformat.write(sbformat.read(PPO), None),  # type: ignore[arg-type]
        "expected a path, got None",
    ),
    "assign to a number": (
        lambda _: sbformat.edit(PPO, assign={5: 1}),  # type: ignore[dict-item]
        "expected keys in assign to be str, got int",
    ),
    "assign without values": (
        lambda _: sbformat.edit(PPO, assign=["gamma"]),  # type: ignore[list-item]
        "expected pairs of a key and a value in assign, got 'gamma'",
    ),
    "unset a number": (
        lambda _: sbformat.edit(PPO, unset=[5]),  # type: ignore[list-item]
        "expected names in unset, got int",
    ),
    "edit weights by number": (
        lambda _: sbformat.edit(PPO, weights={5: 1}),  # type: ignore[dict-item]
        "expected names in weights, got int",
    ),
    "replace an extra entry by text": (
        lambda _: sbformat.read(PPO).replace(extra={"notes": "text"}),  # type: ignore[dict-item]
        "expected 'notes' in extra to be bytes, got str",
    ),
    "replace an entry by number": (
        lambda _: sbformat.read(PPO).replace(extra={5: b""}),  # type: ignore[dict-item]
        "expected names in extra, got int",
    ),
    "replace parameters by number": (
        lambda _: sbformat.read(PPO).replace(parameters={5: {}}),  # type: ignore[dict-item]
        "expected names in parameters, got int",
    ),
    "read entries by number": (
        lambda _: sbformat.read_parameters(PPO, entries=[5]),  # type: ignore[list-item]
        "expected names in entries, got int",
    ),
    "convert to a number": (
        lambda _: sbformat.convert(PPO, 5),  # type: ignore[arg-type]
        "expected a path, got int",
    ),
    "extract to a number": (
        lambda _: sbformat.extract(PPO, 5),  # type: ignore[arg-type]
        "expected a path, got int",
    ),
    "rebuild with a number as policy": (
        lambda _: sbformat.rebuild(PPO, policy_class=5),  # type: ignore[arg-type]
        "expected a policy class or its name, got int",
    ),
    "rebuild with assignments of a list": (
        lambda _: sbformat.rebuild(PPO, assign=[5]),  # type: ignore[arg-type]
        "expected assign to be values by key, got list",
    ),
    "rebuild as a number": (
        lambda _: sbformat.rebuild(PPO, algorithm=5),  # type: ignore[arg-type]
        "expected the name of an algorithm, got int",
    ),
    "allow a number": (
        lambda _: sbformat.scan(PPO, allow=[5]),  # type: ignore[list-item]
        "expected names in allow, got int",
    ),
    "replace data by a number": (
        lambda _: sbformat.read(PPO).replace(data=3),  # type: ignore[arg-type]
        "expected data by key, got int",
    ),
    "replace parameters by a list": (
        lambda _: sbformat.read(PPO).replace(parameters=[]),  # type: ignore[arg-type]
        "expected parameters to be state dicts by name, got list",
    ),
    "replace the version by a number": (
        lambda _: sbformat.read(PPO).replace(stable_baselines3_version=2.9),  # type: ignore[arg-type]
        "expected the text of _stable_baselines3_version, got float",
    ),
    "edit without assignments": (
        lambda _: sbformat.edit(PPO, assign=None),  # type: ignore[arg-type]
        "expected assign to be a mapping or pairs, got None",
    ),
    "edit with a path to weights": (
        lambda _: sbformat.edit(PPO, weights="weights.npz"),  # type: ignore[arg-type]
        "expected weights to be arrays by name, got str",
    ),
    "remove one key": (
        lambda _: sbformat.edit(PPO, unset="gamma"),
        "unset: expected a collection of names, got the str 'gamma'; pass ['gamma']",
    ),
    "remove one entry": (
        lambda _: sbformat.edit(PPO, drop="system_info.txt"),
        "drop: expected a collection of names, got the str 'system_info.txt'; pass ['system_info.txt']",
    ),
    "allow one name in scan": (
        lambda _: sbformat.scan(PPO, allow="my.Policy"),
        "allow: expected a collection of names, got the str 'my.Policy'; pass ['my.Policy']",
    ),
    "allow one name in rebuild": (
        lambda _: sbformat.rebuild(PPO, allow="my.Policy"),
        "allow: expected a collection of names, got the str 'my.Policy'; pass ['my.Policy']",
    ),
    "a number as the target": (
        lambda _: sbformat.rebuild(PPO, target=2.9),  # type: ignore[arg-type]
        "expected a release of SB3 such as '2.9', got float",
    ),
    "limits as a dict": (
        lambda _: sbformat.read(PPO, limits={}),  # type: ignore[arg-type]
        "expected limits to be a Limits, got dict",
    ),
    "a text file": (
        lambda _: sbformat.read(io.StringIO("text")),  # type: ignore[arg-type]
        "expected a binary file object, whose read returns bytes; got str",
    ),
}


def test_every_public_function_is_called_here() -> None:
    called = {case.partition(",")[0] for case in (*SOURCES, *VALUES)} | {"unbundle", "find_agent", "inspect_folder"}
    assert called | set(spaces.__all__) == {name for name in dir(sbformat) if isfunction(getattr(sbformat, name))}


@pytest.mark.parametrize("case", SOURCES)
def test_the_result_is_the_same_for_every_kind_of_source(tmp_path: Path, case: str) -> None:
    call, path = SOURCES[case]
    expected = call(path, tmp_path)
    for name, convert in KINDS.items():
        assert call(convert(path), tmp_path) == expected, name
    with path.open("rb") as file:
        assert call(file, tmp_path) == expected


def test_unbundle_takes_every_kind_of_source(tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    sbformat.write(sbformat.bundle(SAC, STATISTICS), path)
    expected = (sbformat.read(SAC), sbformat.read_vecnormalize(STATISTICS))
    for convert in KINDS.values():
        assert sbformat.unbundle(convert(path)) == expected
        assert sbformat.read_vecnormalize(convert(path)) == expected[1]


@pytest.mark.parametrize("kind", ["bytes", "bytearray", "memoryview"])
def test_reads_takes_every_kind_of_bytes(kind: str) -> None:
    assert sbformat.reads(KINDS[kind](PPO)) == sbformat.read(PPO)


@pytest.mark.parametrize("kind", NOT_SOURCES)
@pytest.mark.parametrize("case", [*SOURCES, "unbundle"])
def test_what_is_not_a_source_is_refused(tmp_path: Path, case: str, kind: str) -> None:
    call = SOURCES[case][0] if case in SOURCES else lambda source, _: sbformat.unbundle(source)
    with pytest.raises(TypeError, match=f"expected an Archive, a path, bytes or a binary file, got {kind}"):
        call(NOT_SOURCES[kind], tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", NOT_SOURCES)
@pytest.mark.parametrize("case", VALUES)
def test_a_value_of_another_type_is_refused(tmp_path: Path, case: str, kind: str) -> None:
    call, expected = VALUES[case]
    with pytest.raises(TypeError, match=rf"^expected {expected}( \(.*\))?, got {kind}"):
        call(NOT_SOURCES[kind], tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_gets_a_clear_error(tmp_path: Path, slip: str) -> None:
    call, message = SLIPS[slip]
    with pytest.raises(TypeError, match=re.escape(message)):
        call(tmp_path)
    assert os.listdir(tmp_path) == []


def test_an_agent_given_as_statistics_is_refused() -> None:
    with pytest.raises(sbformat.MissingEntryError, match=r"no entry 'vecnormalize\.json'"):
        sbformat.bundle(PPO, PPO)
    with pytest.raises(sbformat.MissingEntryError, match=r"no entry 'vecnormalize\.json'"):
        sbformat.bundle(PPO, sbformat.read(PPO))


@pytest.mark.parametrize("change", [None, {"gamma": 0.5}])
def test_scanning_an_archive_in_memory_gives_the_findings_of_its_file(
    tmp_path: Path, change: dict[str, Any] | None
) -> None:
    archive = sbformat.read(PPO)
    if change is not None:
        archive = archive.replace(data={**archive.data, **change}, extra={"x.pkl": b"cos\nsystem\n(S'x'\ntR."})
    sbformat.write(archive, tmp_path / "a.zip")
    assert scan_findings(archive) == scan_findings(tmp_path / "a.zip")
    assert scan_findings(archive)[0] == ("clean" if change is None else "dangerous")
    assert sbformat.scan(archive).format == "sb3"
    assert sbformat.scan(archive).sha256 is None
