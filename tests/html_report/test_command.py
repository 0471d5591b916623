"""What ``sbformat report`` does with files of which there is nothing to show."""

from __future__ import annotations

import os
from hashlib import sha256
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sbformat
from sbformat.catalogue.collect import collect_file
from sbformat.catalogue.rows import make_lost_row
from sbformat.cli import main
from sbformat.html_report.report import write_report
from tests.helpers import attacks
from tests.helpers.bundled import ARCHIVES, PPO, SAC, changed, entries
from tests.helpers.reports import parse_reports

if TYPE_CHECKING:
    from pathlib import Path

REASONS = {
    "nowhere.zip": "cannot open: No such file or directory",
    "nothing.zip": "expected an archive, got an empty file: download it again (container failure at byte 0)\n"
    "  hint: https://sbformat.github.io/sbformat/reference/errors/#containererror lists what to do",
    "folder": "missing: the folder has no archive: .zip, .pth, .pkl or the file 'data' of an unzipped one",
    "/dev/null": "unsupported: expected a file, a folder or a pipe, got '/dev/null'",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with files to name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "nothing.zip").touch()
    (tmp_path / "good.zip").write_bytes(PPO.read_bytes())
    (tmp_path / "other.zip").write_bytes(SAC.read_bytes())
    (tmp_path / "entry.zip").write_bytes(changed(policy_optimizer_pth=b"x"))
    (tmp_path / "damaged.zip").write_bytes(PPO.read_bytes()[:9000])
    return tmp_path


def lines_of(*names: str) -> str:
    return "".join(f"sbformat: {name}: {REASONS[name]}\n" for name in names)


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        (["nowhere.zip"], ["nowhere.zip"]),
        (["nothing.zip"], ["nothing.zip"]),
        (["folder"], ["folder"]),
        pytest.param(["/dev/null"], ["/dev/null"], marks=pytest.mark.skipif(os.name == "nt", reason="no devices")),
        (["nowhere.zip", "folder"], ["nowhere.zip", "folder"]),
        (["good.zip", "nowhere.zip"], ["nowhere.zip"]),
        (["nothing.zip", "good.zip"], ["nothing.zip"]),
        (["nowhere.zip", "nothing.zip", "folder"], ["nowhere.zip", "nothing.zip", "folder"]),
    ],
)
def test_without_a_file_to_show_there_is_no_page_and_a_line_for_each(
    folder: Path, capsys: pytest.CaptureFixture[str], given: list[str], missing: list[str]
) -> None:
    assert main(["report", *given, "-o", "page.html"]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", lines_of(*missing))
    assert not (folder / "page.html").exists()


def test_of_many_files_the_page_lists_those_that_failed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["good.zip", "nowhere.zip", "other.zip", "nothing.zip", "folder", "damaged.zip", "entry.zip"]
    assert main(["report", *given, "-o", "page.html"]) == 2
    out, err = capsys.readouterr()
    assert err == lines_of("nowhere.zip", "nothing.zip", "folder")
    first, *broken = out.splitlines()
    assert first == "page.html: a page about 7 files"
    assert [line.split(": ")[1:4] for line in broken] == [
        ["damaged.zip", "container failure", "at byte 9000"],
        ["entry.zip", "policy.optimizer.pth", "tensor failure"],
    ]
    page = (folder / "page.html").read_text("utf-8").replace("<wbr>", "")
    for text in ("nowhere.zip", "No such file or directory", "expected an archive, got an empty file"):
        assert text in page


def test_json_has_an_object_for_each_file_that_failed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["-o", "page.html", "--format", "json", "--force"]
    assert main(["report", "good.zip", "nowhere.zip", "damaged.zip", *options]) == 2
    page, missing = parse_reports(capsys.readouterr().out)
    assert (page["path"], page["outcome"]) == ("page.html", "ok")
    assert (missing["path"], missing["outcome"]) == ("nowhere.zip", "cannot open")
    assert page["broken"] == ["damaged.zip"]
    assert "at byte 9000" in page["reasons"][0]
    assert main(["report", "folder", "nothing.zip", *options]) == 2
    assert [row["path"] for row in parse_reports(capsys.readouterr().out)] == ["folder", "nothing.zip"]


@pytest.mark.usefixtures("few_plots")
def test_a_broken_file_has_its_reason(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "entry.zip", "-o", "page.html"]) == 1
    assert "\n  broken: entry.zip: policy.optimizer.pth: tensor failure: " in capsys.readouterr().out
    assert main(["report", "good.zip", "damaged.zip", "-o", "other.html", "-q"]) == 1
    assert "\n  broken: damaged.zip: container failure: at byte 9000: " in capsys.readouterr().out


def test_a_limit_is_named_as_an_option(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "good.zip", "-o", "page.html", "--limit", "total_bytes=9"]) == 1
    assert "--limit total_bytes=" in capsys.readouterr().out


def test_an_output_that_cannot_be_written_is_refused_before_anything_is_read(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sbformat.catalogue.collect.open_once", lambda *_, **__: pytest.fail("it was read"))
    (folder / "page.html").touch()
    (folder / "folder.html").mkdir()
    assert main(["report", "good.zip", "-o", "page.html"]) == 2
    assert main(["report", "good.zip", "-o", "folder.html"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "sbformat: page.html already exists",
        "  hint: --force overwrites it",
        "sbformat: folder.html: cannot write: not a regular file",
    ]
    with pytest.raises(FileExistsError):
        sbformat.report(PPO, folder / "page.html")


def test_an_empty_source_is_an_error(folder: Path) -> None:
    for sources in (b"", [PPO, b""], [b"", b"", b""]):
        with pytest.raises(sbformat.ContainerError, match="got an empty file"):
            sbformat.report(sources, folder / "page.html")
    assert not (folder / "page.html").exists()
    written = sbformat.report([PPO, b"", SAC], folder / "page.html")
    assert written.broken == ("<bytes>",)
    assert "got an empty file" in written.reasons[0]


def test_a_file_whose_process_ended_is_broken(folder: Path) -> None:
    row = make_lost_row({"path": "a.zip", "outcome": "process ended", "message": "it was killed"})
    assert write_report([row], str(folder / "page.html")).reasons == ("process ended: it was killed",)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_pipe_is_read_once(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    writer = Thread(target=(folder / "pipe").write_bytes, args=(attacks.in_blob(attacks.PAYLOAD),))
    writer.start()
    found = collect_file(folder / "pipe")
    writer.join()
    assert found.failure is None
    assert found.scanned is not None
    assert found.scanned.verdict == "dangerous"


@pytest.fixture
def swapped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dangerous archive that is replaced by a harmless one between the first and the second reader."""
    path = folder / "swapped.zip"
    path.write_bytes(attacks.in_blob(attacks.PAYLOAD))
    original = sbformat.inspect

    def replace(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        finally:
            (folder / "harmless.zip").write_bytes(PPO.read_bytes())
            (folder / "harmless.zip").replace(path)

    monkeypatch.setattr("sbformat.tools.inspect.inspect", replace)
    return path


def test_the_verdict_is_that_of_the_bytes_that_are_shown(swapped: Path) -> None:
    content = swapped.read_bytes()
    found = collect_file(swapped)
    assert swapped.read_bytes() != content
    assert found.scanned is not None
    assert (found.scanned.verdict, found.scanned.sha256) == ("dangerous", sha256(content).hexdigest())


def test_a_large_file_that_was_replaced_has_no_other_verdict(swapped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sbformat.io.opening.LARGE_FILE_BYTES", 1000)
    found = collect_file(swapped)
    assert found.scanned is not None
    assert (found.scanned.verdict, found.scanned.sha256) == ("broken", None)
    assert "has changed since it was opened" in found.scanned.findings[0].message


@pytest.mark.parametrize("large", [0, 1 << 40])
@pytest.mark.parametrize("name", ["good.zip", "agent", "buffer.pkl", "weights.pth", "weights.npz"])
def test_a_page_has_the_report_of_inspect_and_the_verdict_of_scan(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, large: int
) -> None:
    monkeypatch.setattr("sbformat.io.opening.LARGE_FILE_BYTES", large)
    (folder / "agent.zip").write_bytes(PPO.read_bytes())  # named without its suffix
    (folder / "buffer.pkl").write_bytes((ARCHIVES / "replay-buffer-cartpole.pkl").read_bytes())
    (folder / "weights.pth").write_bytes(entries()["policy.pth"])
    np.savez(folder / "weights.npz", a=np.arange(3))
    found = collect_file(name)
    expected = sbformat.inspect(name)
    assert found.failure is None
    assert found.inspected is not None
    assert found.inspected.format == expected.format
    assert [entry.name for entry in found.inspected.entries] == [entry.name for entry in expected.entries]
    assert found.scanned == sbformat.scan(name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_pipe_is_in_a_table_with_its_verdict(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    writer = Thread(target=(folder / "pipe").write_bytes, args=(attacks.in_blob(attacks.PAYLOAD),))
    writer.start()
    written = sbformat.report([PPO, folder / "pipe", SAC], folder / "page.html")
    writer.join()
    assert written.broken == ()
    assert "os.system" in (folder / "page.html").read_text().replace("<wbr>", "")


def test_a_page_does_not_replace_its_source(folder: Path) -> None:
    with pytest.raises(sbformat.UnsupportedError, match="same file"):
        sbformat.report(["other.zip", "good.zip"], "good.zip", overwrite=True)
    assert (folder / "good.zip").read_bytes() == PPO.read_bytes()
