"""The tools take the same sources as ``read``, and archives; anything else is a clear error."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any, Final

import pytest

import sbformat
from sbformat.tools.bundle import bundle, unbundle
from sbformat.tools.compare_system import compare_system
from sbformat.tools.convert import convert
from sbformat.tools.diff import diff
from sbformat.tools.edit import edit
from sbformat.tools.extract import extract
from sbformat.tools.inspect import inspect
from tests.helpers.bundled import PPO

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VECNORMALIZE: Final = os.path.join(os.path.dirname(PPO), "vecnormalize-pendulum.pkl")
TOOLS: Final[dict[str, Callable[[Any, Path], Any]]] = {
    "bundle": lambda source, _: bundle(source, VECNORMALIZE, allow_mismatch=True),
    "unbundle": lambda source, _: unbundle(source),
    "compare_system": lambda source, _: compare_system(source),
    "convert": lambda source, folder: convert(source, folder / "out.safetensors", overwrite=True)._replace(output=""),
    "diff": lambda source, _: diff(source, PPO),
    "edit": lambda source, _: edit(source, assign={"gamma": 0.5}),
    "extract": lambda source, folder: extract(source, folder / "out.npz", overwrite=True)._replace(output=""),
    "inspect": lambda source, _: inspect(source)._replace(data=None, hyperparameters=None, entries=()),
}
NOT_SOURCES: Final[dict[str, Any]] = {"int": 123, "None": None, "tuple": (sbformat.read(PPO),), "list": [PPO]}


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_gives_the_same_for_every_kind_of_source(tmp_path: Path, tool: str) -> None:
    path = os.fspath(PPO)
    if tool == "unbundle":
        path = os.fspath(tmp_path / "bundle.zip")
        sbformat.write(bundle(PPO, VECNORMALIZE, allow_mismatch=True), path)
    with open(path, "rb") as file:
        data = file.read()
    expected = TOOLS[tool](sbformat.read(path), tmp_path)
    for source in (path, data, bytearray(data), io.BytesIO(data)):
        assert TOOLS[tool](source, tmp_path) == expected


@pytest.mark.parametrize("kind", NOT_SOURCES)
@pytest.mark.parametrize("tool", [*TOOLS, "scan", "read"])
def test_what_is_not_a_source_is_named_in_the_error(tmp_path: Path, tool: str, kind: str) -> None:
    call = TOOLS.get(tool, lambda source, _: getattr(sbformat, tool)(source))
    with pytest.raises(TypeError, match=f"expected an Archive, a path, bytes or a binary file, got {kind}"):
        call(NOT_SOURCES[kind], tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", NOT_SOURCES)
def test_what_is_not_statistics_is_named_in_the_error(kind: str) -> None:
    with pytest.raises(TypeError, match=f"got {kind}"):
        bundle(PPO, NOT_SOURCES[kind])


@pytest.mark.parametrize("change", [None, {"gamma": 0.5}])
def test_scanning_an_archive_in_memory_gives_the_findings_of_its_file(
    tmp_path: Path, change: dict[str, Any] | None
) -> None:
    archive = sbformat.read(PPO)
    if change is not None:
        archive = archive.replace(data={**archive.data, **change}, extra={"x.pkl": b"cos\nsystem\n(S'x'\ntR."})
    sbformat.write(archive, tmp_path / "a.zip")
    expected, found = sbformat.scan(tmp_path / "a.zip"), sbformat.scan(archive)
    assert (found.verdict, found.findings) == (expected.verdict, expected.findings)
    assert (found.imports, found.pickles, found.format) == (expected.imports, expected.pickles, "sb3")
    assert found.sha256 is None
