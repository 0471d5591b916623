"""``.safetensors`` and ``.npz`` files that ``convert`` and ``extract`` wrote, read as what they hold."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

import sbformat
from sbformat import pkl
from sbformat.archive.kinds import detect_kind
from sbformat.cli import main
from sbformat.data import Serialized
from sbformat.io.source import BytesSource
from sbformat.pkl import Call, Global
from tests.helpers.bundled import PPO
from tests.helpers.many_cases import check_each


def converted(tmp_path: Path, source: Path = PPO) -> Path:
    path = tmp_path / "made.safetensors"
    assert main(["convert", str(source), "-o", str(path)]) == 0
    return path


def test_an_archive_in_safetensors_is_that_archive(tmp_path: Path) -> None:
    path, archive = converted(tmp_path), sbformat.read(PPO)
    for source in (path, path.read_bytes()):
        again = sbformat.read(source)
        assert again == archive
        assert again.algorithm == archive.algorithm
    assert sbformat.scan(path).verdict == "clean"
    assert sbformat.scan(path).pickles > 5
    assert all(problem.level == "info" for problem in sbformat.validate(path))
    sbformat.write(sbformat.read(path), tmp_path / "back.zip")
    assert sbformat.read(tmp_path / "back.zip") == archive
    with sbformat.safe_open(path) as opened:
        assert np.array_equal(opened.get_tensor("action_net.bias"), archive.parameters["policy"]["action_net.bias"])


def test_what_an_archive_in_safetensors_would_run_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blob = pkl.dumps(Call("REDUCE", Global("os", "system"), ("true",)))
    archive = sbformat.read(PPO)
    sbformat.write(archive.replace(data={**archive.data, "x": Serialized(None, blob)}), tmp_path / "evil.zip")
    path = converted(tmp_path, tmp_path / "evil.zip")
    report = sbformat.scan(path)
    assert (report.verdict, {row.entry for row in report.findings}) == ("dangerous", {"data"})
    sbformat.write(archive.replace(extra={"a.pkl": blob}), tmp_path / "more.zip")
    assert sbformat.scan(converted(tmp_path / "..", tmp_path / "more.zip")).verdict == "dangerous"
    assert main(["scan", str(path)]) == 1
    capsys.readouterr()


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_arrays_alone_are_one_state_dict(suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"weights{suffix}"
    assert main(["extract", str(PPO), "-o", str(path)]) == 0
    archive, weights = sbformat.read(path), sbformat.read_parameters(PPO)["policy"]
    assert archive.format == suffix[1:]
    read = sbformat.read_parameters(path)["arrays"]
    assert list(read) == sorted(weights) if suffix == ".safetensors" else list(weights)
    assert all(np.array_equal(read[name], weights[name]) for name in weights)
    for command in ("scan", "validate", "inspect"):
        assert main([command, str(path)]) == 0
    capsys.readouterr()
    with pytest.raises(sbformat.UnsupportedError):
        sbformat.write(archive, tmp_path / "out.zip")
    with pytest.raises(sbformat.MissingEntryError):
        archive.state_dict("policy.pth")


def safetensors(header: dict[str, object], body: bytes = b"", *, length: int = 0) -> bytes:
    text = json.dumps(header).encode()
    text += b" " * max(length - len(text), 0)
    return struct.pack("<Q", len(text)) + text + body


@check_each("length", [0x80 + 256 * protocol for protocol in range(6)])
def test_a_header_whose_length_begins_as_a_pickle_does(length: int) -> None:
    data = safetensors({"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}, b"ab", length=length)
    assert detect_kind(BytesSource(data)) == "safetensors"
    assert bytes(sbformat.read_parameters(data)["arrays"]["a"]) == b"ab"
    assert sbformat.scan(data).verdict == "clean"


def test_damaged_ones_are_refused() -> None:
    header: dict[str, object] = {"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}
    for data in (safetensors(header, b"a"), safetensors(header, b"abc"), safetensors({"a": {"dtype": 1}})):
        with pytest.raises(sbformat.SbformatError):
            sbformat.read_parameters(data)
        assert sbformat.scan(data).verdict == "broken"
    metadata = {"__metadata__": {"sbformat": json.dumps({"version": 1, "entries": [{"name": "data", "tree": 1}]})}}
    with pytest.raises(sbformat.SbformatError):
        sbformat.read(safetensors(metadata))
    assert sbformat.scan(safetensors(metadata)).verdict == "broken"
