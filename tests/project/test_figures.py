"""Figures in documents are those of the code, of the files of the project, or of docs/speed.md.

A figure is a row of ``FIGURES``: the document, the words around it, and what it has to be. Every number with a unit in
the documents for users is in a row, or in ``UNCHECKED`` with the reason.
"""

from __future__ import annotations

import ast
import re
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

import sbformat
from benchmarks import page
from tests.helpers.bundled import ARCHIVES, PPO, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

REAL: Final = "2,900"
"""Real archives that the format was checked against; they are not in the repository."""
AGENTS: Final = "111"
"""Agents of rl-trained-agents, which are not in the repository."""
WORDS: Final = ("no", "one", "two", "three", "four")


@cache
def read(name: str) -> str:
    """The text of a document, with one space for each line end."""
    return " ".join((ROOT / name).read_text("utf-8").split())


def value(name: str) -> Any:
    """The value of a constant, by its dotted name."""
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def find_constant(name: str, path: str) -> Any:
    """The value of a constant of a program that is not imported."""
    for node in ast.parse((ROOT / path).read_text("utf-8")).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name and node.value is not None:
            return ast.literal_eval(node.value)
    raise KeyError(name)


def find_part(name: str) -> str:
    """Of how many cases a session of the noxfile runs one."""
    text: str = find_constant(name, "noxfile.py")
    return text.removeprefix("--one-in=")


def find_default(option: str) -> str:
    """The default of an option of ``python -m tests.mutation``."""
    text = (ROOT / "tests" / "mutation" / "__main__.py").read_text("utf-8")
    return re.findall(rf'"{option}", type=\w+, default=(\d+)', text)[0]


def find_timeout() -> int:
    """The seconds after which pytest ends a test."""
    return int(re.findall(r"^timeout = (\d+)", (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)[0])


def find_oldest_python() -> str:
    """The oldest Python that the package can be installed for."""
    return re.findall(r'^requires-python = ">=(.*)"', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)[0]


def count_vectors(step: int = 100) -> str:
    """The number of test vectors, rounded down to a multiple of ``step``."""
    lines = sum(path.read_bytes().count(b"\n") for path in (ROOT / "conformance" / "vectors").glob("*.jsonl"))
    return f"{lines // step * step:,}"


def count_optimizer_numbers() -> str:
    """How many numbers Adam keeps for each weight of the bundled agent."""
    archive = sbformat.read(PPO)
    weights = sum(info.numel for info in archive.parameters["policy"].tensors().values())
    state = archive.parameters["policy.optimizer"].tensors()
    return WORDS[sum(info.numel for name, info in state.items() if "exp_avg" in name) // weights]


def measure_payload() -> int:
    """The bytes of the pickle in the bundled dangerous file."""
    value = sbformat.read(ARCHIVES / "dangerous.zip").data["lr_schedule"]
    assert isinstance(value, sbformat.Serialized)
    return len(value.pickle)


class Figure(NamedTuple):
    """Figures of a document."""

    document: str
    pattern: str
    """The words around them; each figure is a group."""
    expected: Callable[[], Iterable[object]]


FIGURES: Final = [
    # files of the project
    Figure("README.md", r"with more than ([\d,]+) \[test vectors\]", lambda: [count_vectors()]),
    Figure("docs/index.md", r"with more than ([\d,]+) test vectors", lambda: [count_vectors()]),
    Figure("conformance/README.md", r"Of ([\d,]+) vectors", lambda: [count_vectors(1)]),
    Figure("docs/how-to/edit.md", r"optimizer state of Adam has (\w+) numbers", lambda: [count_optimizer_numbers()]),
    Figure("docs/tutorials/is-it-safe.md", r"a pickle of (\d+) bytes", lambda: [measure_payload()]),
    *(
        Figure(name, pattern, lambda: [find_oldest_python()])
        for name, pattern in (
            ("docs/install.md", r"needs Python ([\d.]+) or newer"),
            ("CONTRIBUTING.md", r"Python ([\d.]+) or newer; nothing else"),
        )
    ),
    # measurements in docs/speed.md, which the others quote
    *(
        Figure(quote.document, quote.pattern, partial(page.find_quotes, quote, (ROOT / page.PAGE).read_text("utf-8")))
        for quote in page.QUOTES
    ),
    # measurements of files that are not in the repository: all documents say the same
    *(
        Figure(name, r"(?:about|among) ([\d,]+) real archives", lambda: [REAL])
        for name in (
            "SECURITY.md",
            "schema/FORMAT.md",
            "CHANGELOG.md",
            "docs/hooks/limit_reference.py",
            "sbformat/limits.py",
            "docs/decisions/0003-two-levels-of-zip.md",
        )
    ),
    *(
        Figure(name, r"loads (\d) of the (\d+) agents", lambda: ["2", AGENTS])
        for name in ("README.md", "docs/index.md", "docs/how-to/old-agent.md")
    ),
    Figure("docs/comparison.md", r"Of all (\d+) agents .*? loads the same (\d)", lambda: [AGENTS, "2"]),
    # constants of the package
    Figure("SECURITY.md", r"sends nothing for (\d+) seconds", lambda: [int(value("sbformat.io.urls.TIMEOUT"))]),
    *(
        Figure(name, pattern, lambda: [value("sbformat.io.opening.LARGE_FILE_BYTES") >> 20])
        for name, pattern in (
            ("SECURITY.md", r"a pickle of more than (\d+) MiB"),
            ("docs/reference/files.md", r"archives of more than (\d+) MiB in chunks"),
        )
    ),
    Figure(
        "docs/how-to/remote.md",
        r"nothing for (\d+) seconds.*? take (\d+) seconds longer than its bytes at (\d+) KiB",
        lambda: [*[int(value("sbformat.io.urls.TIMEOUT"))] * 2, value("sbformat.io.remote.clients.SLOWEST") >> 10],
    ),
    Figure(
        "docs/how-to/remote.md",
        r"status ([\d, ]+)\) is tried again, (\w+) times at most, after half a second to (\d+) seconds.*?these (\d+)\.",
        lambda: [
            ", ".join(map(str, sorted(value("sbformat.io.remote.http._TEMPORARY")))),
            WORDS[value("sbformat.io.remote.http._TRIES") - 1],
            *[int(value("sbformat.io.remote.http._LONGEST_WAIT"))] * 2,
        ],
    ),
    Figure(
        "docs/how-to/catalogue.md",
        r"no workers for (\d+) seconds",
        lambda: [int(value("sbformat.parallel.WORKER_TIMEOUT"))],
    ),
    Figure(
        "docs/how-to/scan-in-ci.md",
        r"at most ([\d,]+) results",
        lambda: [f"{value('sbformat.tools.scan.sarif.MAX_RESULTS'):,}"],
    ),
    Figure(
        "docs/how-to/report.md",
        r"the (\d+) tensors that changed most",
        lambda: [value("sbformat.html_report.weights.MOST_OVERLAYS")],
    ),
    Figure(
        "docs/how-to/report.md",
        r"The weights in a page are (\d+) MiB at most",
        lambda: [value("sbformat.html_report.actions_panel.LARGEST_WEIGHTS") >> 20],
    ),
    Figure(
        "docs/reference/catalogue.md",
        r"shortened to (\d+) characters.*? the first (\d+) keys .*? the (\d+) hyper-parameters",
        lambda: [
            value("sbformat.catalogue.rows._CELL"),
            value("sbformat.catalogue.rows.MOST_KEYS"),
            value("sbformat.catalogue.table_files.MOST_COLUMNS"),
        ],
    ),
    Figure(
        "docs/export/c.md", r"has at most (\d+) characters", lambda: [value("sbformat.policies.c.export.LONGEST_NAME")]
    ),
    Figure(
        "docs/export/other.md",
        r"about (\d+) operators",
        lambda: [round(len(value("sbformat.policies.operators.OPERATORS")), -1)],
    ),
    Figure(
        "docs/decisions/0001-no-pickle-on-the-read-path.md",
        r"all (\d+) opcodes",
        lambda: [len(value("sbformat.pkl.opcodes.OPCODES"))],
    ),
    # constants of the project's programs
    Figure(
        "conformance/README.md",
        r"nested more than (\d+) levels deep",
        lambda: [value("conformance.runner.commands.LEVELS_ALLOWED")],
    ),
    Figure(
        "docs/architecture.md",
        r"at (\d+) and ([\d,]+) pixels",
        lambda: [value("tests.helpers.browser.NARROW"), f"{value('tests.helpers.browser.WIDE'):,}"],
    ),
    Figure(
        "CONTRIBUTING.md",
        r"ended after (\d+) minutes and a test after (\d+)",
        lambda: [find_constant("SESSION_MINUTES", ".ci/run_sessions.py"), find_timeout() // 60],
    ),
    Figure("CONTRIBUTING.md", r"runs one in (\d+) of the cases", lambda: [find_part("INTEROP_PART")]),
    Figure("CONTRIBUTING.md", r"`--one-in (\d+)`\), `nox", lambda: [find_part("INTEROP_PART")]),
    Figure("CONTRIBUTING.md", r"`nox -s browser` one in (\d+)", lambda: [find_part("BROWSER_PART")]),
    Figure(
        "CONTRIBUTING.md",
        r"chooses (\d+) lines .*? number of lines \((\d+)\).*? at most \((\d+)\);.*? processes \((\d+)\)",
        lambda: [*[find_default("--sample")] * 2, find_default("--seconds"), find_default("--jobs")],
    ),
]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: f"{figure.document}: {figure.pattern[:40]}")
def test_a_figure_is_that_of_its_source(figure: Figure) -> None:
    (found,) = re.findall(figure.pattern, read(figure.document))
    assert list(found if isinstance(found, tuple) else (found,)) == [str(part) for part in figure.expected()]


# -- completeness -------------------------------------------------------------------------------------

UNIT: Final = re.compile(
    r"\b\d[\d.,]*\s(?:bytes|k?B|[KMGT]i?B|m?s|us|seconds|minutes|hours|lines|vectors|archives|agents|processors|modules"
    r"|requests|tensors|operators|opcodes|results|keys|tests)\b"
)
OTHER_TESTS: Final = {
    "docs/speed.md": "generated: test_the_page_of_speeds_is_that_of_the_results",
    "docs/comparison.md": "its tables: nox -s scanners",
    "docs/ten-million.md": "a calculation, whose numbers of measurements have their commands beside them",
}
UNCHECKED: Final = {
    "CONTRIBUTING.md": {
        **dict.fromkeys(("700 MB", "2 GB", "4 GB", "6 GB"), "packages of others that a session installs"),
        "40 lines": "advice",
    },
    "benchmarks/README.md": {"9 MB": "the size of CPython in memory"},
    "conformance/README.md": {"20 seconds": "measured once, with two processors"},
    "SECURITY.md": {
        "2 MB": "a promise: tests/robustness/test_memory.py and both test_hostile.py",
        "2 s": "the same",
        "64 MiB": "the same",
    },
    "docs/export/c.md": {
        **dict.fromkeys(("100 bytes", "20 kB", "14 kB", "165 kB"), "the headers that the command writes"),
        **dict.fromkeys(
            ("1 kB", "2 kB", "3 kB", "4 kB", "8 kB", "9 kB", "10 kB", "32 kB", "0.5 kB", "0.9 kB"),
            "measured with gcc 12 and clang 14 on x86-64",
        ),
        "8 MB": "Linux and macOS",
    },
    "docs/export/game-engines.md": dict.fromkeys(("3 ms", "150 ms"), "measured once, with Godot 3.2.3"),
    "docs/how-to/remote.md": {"200 MB": "an example", "2 GB": "an example"},
    "docs/how-to/report.md": {"29.4 KiB": "describes a picture", "100,000 tensors": "a test of tests/browser"},
    "docs/how-to/replay-buffer.md": {
        **dict.fromkeys(("2 GiB", "37 MiB", "4 s"), "python -m benchmarks --only replay-buffer"),
        "250 MiB": "measured once, with pyarrow 22",
    },
    "docs/how-to/scan-in-ci.md": {"90 MB": "the packages that the Dockerfile installs", "10 MB": "GitHub"},
    "docs/reference/errors.md": {"130 bytes": "a pointer of Git LFS"},
    "docs/reference/files.md": {"512 MiB": "python -m benchmarks --only convert-large", "40 MB": "the same"},
    "docs/tutorials/is-it-safe.md": {"15 minutes": "for a reader"},
    "docs/tutorials/old-agent.md": {"10 minutes": "for a reader"},
    "docs/tutorials/run-without-torch.md": {"15 minutes": "for a reader"},
}
"""Numbers that no test compares with a source, with the reason."""
PAGES: Final = [
    path.relative_to(ROOT).as_posix()
    for path in (
        *(ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")),
        *(ROOT / name / "README.md" for name in ("conformance", "benchmarks")),
        *sorted((ROOT / "docs").rglob("*.md")),
    )
    if "decisions" not in path.parts  # which are not edited later
]


def read_prose(name: str) -> str:
    """The text of a document without its programs and their output."""
    text = (ROOT / name).read_text("utf-8")
    code = re.compile(r"^```.*?^```|^ {4}[^\n]*|`[^`\n]*`|<!--.*?-->", re.DOTALL | re.MULTILINE)
    return " ".join(code.sub("``", text).split())


def test_every_number_with_a_unit_has_a_source() -> None:
    assert len(PAGES) > 20
    found = set()
    for name in sorted({*PAGES} - {*OTHER_TESTS}):
        patterns = [row.pattern for row in FIGURES if row.document == name]
        checked = " ".join(match[0] for pattern in patterns for match in re.finditer(pattern, read(name)))
        found |= {(name, match[0]) for match in UNIT.finditer(read_prose(name))}
        found -= {(name, figure) for figure in UNIT.findall(checked)}
    assert found == {(name, figure) for name, figures in UNCHECKED.items() for figure in figures}


def test_the_page_of_speeds_is_that_of_the_results() -> None:
    assert (ROOT / page.PAGE).read_text("utf-8") == page.render_page(*page.read_results())
