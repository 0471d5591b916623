"""The uses of rows that decide a verdict or a value: words for nearly the same classes differ where they have to."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import sbformat
from sbformat import pkl
from sbformat.errors import UnsupportedError
from sbformat.known.changes import NEWEST, Release
from sbformat.known.rows import TABLE, known
from sbformat.known.spaces import Discrete, MultiDiscrete, Text, TupleSpace, convert_space
from sbformat.nets.arguments import choice_counts, require_choices
from sbformat.nets.sb2_orders import UncertainError, read_sizes
from sbformat.pkl.numpy import ArrayInfo
from tests.helpers.build_blobs import CLOUD, FAST, call, decode_outcome, tree
from tests.helpers.bundled import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = {"bool", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "set", "str", "tuple"}


def names_with(use: str) -> set[str]:
    return {row.name for row in TABLE.values() if use in row.uses}


def test_what_only_stores_is_listed_by_how_it_is_used() -> None:
    assert names_with("plain type") == PLAIN
    assert names_with("plain base") == PLAIN | {"object", "bytearray"}


@pytest.mark.parametrize("tag", ["object/apply:builtins.bytearray [9]", "object:builtins.object {x: 1}"])
def test_a_yaml_tag_may_call_containers_numbers_and_texts_alone(tmp_path: Path, tag: str) -> None:
    (tmp_path / "args.yml").write_text(f"a: !!python/{tag}\n")
    assert sbformat.scan(tmp_path / "args.yml").verdict == "dangerous"
    (tmp_path / "args.yml").write_text("a: !!python/object/apply:builtins.list [[1]]\n")
    assert sbformat.scan(tmp_path).verdict == "clean"


def test_copyreg_does_not_construct_a_bytearray() -> None:
    made = call(CLOUD, "_make_skeleton_class", pkl.Global("builtins", "type"), "C", (), {}, "1", None)
    found = decode_outcome(call("copyreg", "_reconstructor", made, pkl.Global("builtins", "bytearray"), 9))
    assert any("expected a built-in type" in issue.message for issue in found.issues)


@pytest.mark.parametrize(("module", "is_known"), [(CLOUD, True), ("cloudpickle", True), (FAST, False)])
def test_the_content_of_an_empty_cell_has_the_modules_that_define_it(module: str, *, is_known: bool) -> None:
    blob = pkl.dumps(tree(call(CLOUD, "_make_cell", pkl.Global(module, "_empty_cell_value"))))
    assert (sbformat.scan(blob).verdict == "clean") == is_known


def test_a_type_by_name_is_given_no_other_name() -> None:
    report = sbformat.scan(pkl.dumps(tree(call(CLOUD, "_builtin_type", pkl.Global("evil", "Thing")))))
    assert {row.rule for row in report.findings if "evil.Thing" in row.names} == {"called-name"}


def test_a_name_is_found_whatever_was_imported_before() -> None:
    code = "from sbformat.known.rows import find; assert find(('builtins', 'int')).is_reference"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_a_class_has_the_name_of_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    (old,) = known("a", "Old", "value", current=("a", "New"), until=Release(3, 0))
    (new,) = known("a", "New", "value", since=Release(3, 0))
    for row in (old, new):
        monkeypatch.setitem(TABLE, row.pair, row)
    for row in (old, new):
        assert (row.for_target(Release(3, 0)), row.for_target(NEWEST)) == (new, old)
    assert new.explain_missing(NEWEST) == f"exists since SB3 3.0, not in {NEWEST}"


# -- elements of spaces that a file describes ---------------------------------------------------------


def test_an_element_is_not_far_greater_than_its_file() -> None:
    np = pytest.importorskip("numpy")
    space = Discrete("gymnasium", 2, 0, "<i8", None)
    for _ in range(40):
        space = TupleSpace("gymnasium", (space, space), None)  # type: ignore[assignment]
    with pytest.raises(UnsupportedError, match="more than 10,000,000 items"):
        space.sample(np.random.default_rng(0))


@pytest.mark.parametrize(
    "space",
    [
        Text("gymnasium", 0, 3, "", None), Text("gymnasium", 5, 3, "a", None), Text("gymnasium", 0, 2**50, "a", None),
        Discrete("gymnasium", 0, 0, "<i8", None), Discrete("gymnasium", 3, 2**63, "<i8", None),
    ],
)  # fmt: skip
def test_a_space_without_elements_has_an_error_of_ours(space: Text) -> None:
    np = pytest.importorskip("numpy")
    with pytest.raises(UnsupportedError):
        space.sample(np.random.default_rng(0))


def test_a_number_of_choices_is_whole() -> None:
    def make(item: bytes) -> MultiDiscrete:
        return MultiDiscrete("gym", ArrayInfo("<f4", (1,), "C", item, is_scalar=False), None, "<i8", None)

    assert make(b"\0\0\x80@").choices() == (4,)
    odd = make(b"\0\0\x90@")
    with pytest.raises(UnsupportedError, match="whole numbers"):
        odd.choices()
    with pytest.raises(UncertainError, match="expected integers as nvec"):
        read_sizes(odd)
    with pytest.raises(UnsupportedError, match="nvec of action_space is not an array of whole numbers"):
        choice_counts(odd, "action_space")
    require_choices(odd, "action_space")


def test_a_space_of_another_class_is_what_it_extends() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    made = type("Sequence", (gymnasium.spaces.Discrete,), {})(3)
    assert convert_space(made, "o") == Discrete("gymnasium", 3, 0, "<i8", None)
