"""Environment variables of the command line: what they set, what replaces them, and that the library reads none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import sbformat
from sbformat.cli import _files, _options, build_parser, main
from tests.helpers.bundled import PPO, SAC
from tests.helpers.reports import unfold
from tests.helpers.site_hooks import load_hook

if TYPE_CHECKING:
    import argparse

Capture = pytest.CaptureFixture[str]


def parse(*words: str) -> argparse.Namespace:
    """The arguments of a command as it gets them."""
    parser = build_parser(*words)
    args = parser.parse_args(words)
    _options.complete_options(args, parser.commands[args.command])
    return args


def fail(capsys: Capture, *words: object) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    assert ended.value.code == 2
    return unfold(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("variable", "text", "name", "value", "usual", "option"),
    [
        ("SBFORMAT_JOBS", "3", "jobs", 3, None, ["--jobs", "2"]),
        ("SBFORMAT_JOBS", "3", "jobs", 3, None, ["--dask", "local"]),
        ("SBFORMAT_COLOR", "never", "color", "never", "auto", ["--color", "always"]),
        ("SBFORMAT_TIMEOUT", "1.5", "timeout", 1.5, 30, ["--timeout", "7"]),
        ("SBFORMAT_WORKER_TIMEOUT", "9", "worker_timeout", 9, 30, ["--worker-timeout", "7"]),
        ("SBFORMAT_QUIET", "1", "quiet", True, False, ["--verbose"]),
        ("SBFORMAT_VERBOSE", "1", "verbose", True, False, ["--quiet"]),
    ],
)
def test_a_variable_is_the_value_of_its_option(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str, name: str, value: Any, usual: Any, option: list[str]
) -> None:
    for given, expected in ((None, usual), ("", usual), (text, value)):
        if given is not None:
            monkeypatch.setenv(variable, given)
        assert getattr(parse("inspect", "x"), name) == expected
    assert getattr(parse("inspect", "x", *option), name) != value
    assert not hasattr(parse("completion", "bash"), name)


def test_variables_reach_the_output(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBFORMAT_QUIET", "1")
    assert main(["validate", str(PPO)]) == 0
    assert capsys.readouterr() == ("", "")
    assert main(["validate", str(PPO), "-v"]) == 0
    assert "exit status 0" in capsys.readouterr().err
    monkeypatch.setenv("SBFORMAT_QUIET", "0")
    assert main(["validate", str(PPO)]) == 0
    assert capsys.readouterr().out == f"{PPO}: valid\n"


def test_every_limit_has_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for number, name in enumerate(sbformat.Limits._fields):
        monkeypatch.setenv(f"SBFORMAT_LIMIT_{name.upper()}", str(number))
    assert list(_files.make_limits(parse("inspect", "x"))) == list(range(len(sbformat.Limits._fields)))
    assert _files.make_limits(parse("inspect", "x", "--limit", "ratio=1000")).ratio == 1000


def test_limits_have_units_and_options_win(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBFORMAT_LIMIT_TOTAL_BYTES", "1KiB")
    assert _files.make_limits(parse("inspect", "x")).total_bytes == 1024
    assert main(["validate", str(PPO)]) == 2
    assert "limit exceeded: expected total_bytes <= 1,024" in capsys.readouterr().err
    assert main(["validate", str(PPO), "--limit", "total_bytes=1MB"]) == 0


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("SBFORMAT_JOBS", "many", "environment variable SBFORMAT_JOBS: expected a number from 1 to 1024, got many"),
        ("SBFORMAT_COLOR", "blue", "SBFORMAT_COLOR: expected auto, always or never, got blue"),
        ("SBFORMAT_TIMEOUT", "-1", "SBFORMAT_TIMEOUT: expected seconds, such as 30 or 0.5, got -1"),
        ("SBFORMAT_QUIET", "yes", "SBFORMAT_QUIET: expected 1 or 0, got yes"),
        ("SBFORMAT_LIMIT_TENSORS", "5MB", "SBFORMAT_LIMIT_TENSORS: tensors is a number of items, not of bytes"),
        ("SBFORMAT_LIMIT_TENSOR", "5", "SBFORMAT_LIMIT_TENSOR: unknown limit tensor; did you mean tensors?"),
    ],
)
def test_a_wrong_value_names_the_variable(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, variable: str, text: str, message: str
) -> None:
    monkeypatch.setenv(variable, text)
    assert message in fail(capsys, "inspect", PPO)
    assert main(["help"]) == 0


def test_the_library_reads_no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in sbformat.Limits._fields:
        monkeypatch.setenv(f"SBFORMAT_LIMIT_{name.upper()}", "1")
    assert main(["inspect", str(SAC)]) == 2
    assert sbformat.read(SAC).algorithm.name == "SAC"
    assert sbformat.scan(SAC).verdict == "clean"
    assert sbformat.Limits().ratio == 200


def test_every_variable_is_on_the_page() -> None:
    page = load_hook("environment_reference").render_environment()
    names = [*_options.VARIABLES, *(f"limit_{name}" for name in sbformat.Limits._fields)]
    missing = [name for name in names if f"| `SBFORMAT_{name.upper()}` | " not in page]
    assert missing == []
    assert "| `NO_COLOR` | " in page
    assert "%(" not in page


def test_a_variable_that_is_misspelled_is_a_warning(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBFORMAT_COLOUR", "never")
    monkeypatch.setenv("SBFORMAT_PATH", "of another program")
    assert main(["inspect", str(PPO)]) == 0
    warning = "sbformat: warning: the environment variable SBFORMAT_COLOUR is not known\n"
    assert capsys.readouterr().err == f"{warning}  hint: did you mean SBFORMAT_COLOR?\n"
    assert main(["inspect", "-q", str(PPO)]) == 0
    assert capsys.readouterr().err == ""


def test_help_prints_the_tables_of_the_pages(capsys: Capture) -> None:
    assert main(["help", "limits"]) == 0
    out = capsys.readouterr().out
    assert all(f"    {name} " in out for name in sbformat.Limits._fields)
    assert out.splitlines()[0].endswith("is a section of the format: https://sbformat.github.io/sbformat/format/")
    assert "`" not in out
    assert main(["help", "environment"]) == 0
    out = capsys.readouterr().out
    assert all(f"    SBFORMAT_{name.upper()} " in out for name in _options.VARIABLES)
    assert all(f"    SBFORMAT_LIMIT_{name.upper()} " in out for name in sbformat.Limits._fields)
    assert main(["help", "rules"]) == 0
    out = capsys.readouterr().out
    page = load_hook("rule_reference").render_rules()
    names = re.findall(r"(?m)^## (.+)$", page)
    assert [line.split()[0] for line in out.splitlines()[2:]] == names
    assert "unknown, or dangerous" in out
    assert "`" not in out
    assert main(["help"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "sbformat help limits" in out
    assert "sbformat help environment" in out
