"""The releases that can be written for, by their names, and that each fact about a release is stated once."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import sbformat
from sbformat import UnsupportedError
from sbformat.known import changes
from sbformat.known.changes import ERAS, RELEASES, Release, parse_release, parse_target
from sbformat.values import encode

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_a_target_is_a_release_with_its_patch_number_or_without() -> None:
    assert list(RELEASES) == [*(Release(1, minor) for minor in (6, 7, 8)), *(Release(2, minor) for minor in range(10))]
    for target, version in RELEASES.items():
        assert parse_target(str(target)) == parse_target(version) == parse_target(target) == target
        assert target.version == version == f"{target}.{version[-1]}"


NONSENSE: Final = ("1.5", "3.0", "2.10", "", "2", "2.", ".9", "v2.9", " 2.9", "-2.9", "29", "12.9", "2.0001", "nan",
                   "\x1b[2J", "x" * 10_000, "2" * 10_000, "2." + "9" * 10_000, "\0", "\ud800")  # fmt: skip
TAKEN: Final = ("2.9e", "2.9" + "x" * 10_000, "2.9.", "2.9\n", "\u0662.\u0669", Release(1, 5), Release(3, 0))


@pytest.mark.parametrize("text", [*NONSENSE, *TAKEN])
def test_any_other_target_is_refused_with_what_there_is(text: str) -> None:
    for ask in (parse_target, lambda target: encode(None, target)):
        with pytest.raises(UnsupportedError, match="expected SB3 1.6 to 2.9") as caught:
            ask(text)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 200


def test_a_version_begins_with_its_release() -> None:
    assert parse_release("2.10.0a1") == (2, 10) > (2, 9)
    assert parse_release("1.13.1+cpu") == (1, 13)
    assert [parse_release(text) for text in (None, "", "2", "v2.9", "1234567.0")] == [None] * 5
    assert [str(Release(*pair).before) for pair in ((2, 9), (2, 0), (1, 0), (4, 0))] == ["2.8", "1.8", "0.11", "2.9"]


def test_networks_are_equal_within_an_era() -> None:
    assert [str(era) for era in ERAS] == ["2.9", "2.1", "1.7", "1.6", "1.5", "1.2", "0.9", "0.7"]


# -- one place for each fact ---------------------------------------------------------------------------

NAMES: Final = (
    *(row.stored for row in changes.RENAMED_MODULES), changes.NOISE_LAYERS, changes.NOISE_ARGUMENT,
    changes.SHARED_LAYERS, changes.ACTOR_EXTRACTOR, changes.CRITIC_EXTRACTOR,
)  # fmt: skip
TEXT: Final = re.compile(
    rf"\b(?:SB3|torch|gym|cloudpickle|since|before) (?:before |< )?[0-9]\.[0-9]+(?!\.)|{'|'.join(NAMES)}"
)
CODE: Final = re.compile(r"[<>]=? \([0-9], [0-9]+\)|\([0-9], [0-9]+\) [<>]|\bRelease\([0-9]")


def find_release_facts(source: str) -> Iterator[str]:
    """Yield the comparisons with a release, and the sentences and names of old releases, outside of docstrings."""
    if not (TEXT.search(source) or CODE.search(source)):
        return
    tree = ast.parse(source)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield from [node.value] if TEXT.search(node.value) else []
        elif isinstance(node, (ast.Compare, ast.Call)):
            yield from CODE.findall(ast.unparse(node))


def test_a_release_fact_is_stated_in_one_module() -> None:
    package = Path(sbformat.__file__).parent
    found = {
        path.relative_to(package).as_posix(): facts
        for path in package.rglob("*.py")
        if "sb2" not in path.as_posix()  # another library
        if (facts := list(find_release_facts(path.read_text("utf-8"))))
    }
    assert list(found) == ["known/changes.py"]
    wrong = 'if release < (1, 7): x = "q1_net"; y = f"since SB3 0.8 {x}"; z = Release(1, 7)'
    assert len(list(find_release_facts(wrong))) == 4
