"""Errors are values: class, outcome, place and message, bounded and printable."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.generators.build_zips import BIDI, is_terminal_safe
from sbformat import errors
from sbformat.errors import (
    MESSAGE_BYTES,
    ContainerError,
    DataError,
    FormatError,
    LimitError,
    MissingEntryError,
    PickleError,
    SbformatError,
    TensorError,
    UnsupportedError,
    ValidationError,
    escape,
    quote,
)
from tests.helpers.sampling import more_examples

OUTCOMES = {
    ContainerError: "container failure",
    DataError: "data failure",
    PickleError: "pickle failure",
    TensorError: "tensor failure",
    LimitError: "limit exceeded",
    UnsupportedError: "unsupported",
    ValidationError: "invalid",
    MissingEntryError: "missing",
}
FORMAT_ERRORS = (ContainerError, DataError, PickleError, TensorError)
HOSTILE_NAMES = (
    "\x1b[31mred\x1b[0m", "a\nb", "a\rb", "\x00", "\x7f", "\x9b31m", *BIDI, "\u2028", "\ud800", "\U000e0041", "\u00ad",
    "\ufeff", "'", "\\", "\t",
)  # fmt: skip


def every_error() -> list[SbformatError]:
    return [
        *[cls("a message", entry="data", offset=3) for cls in FORMAT_ERRORS],
        LimitError("json_bytes", allowed=10, actual=20, entry="data", offset=1),
        UnsupportedError("a message", entry="data"),
        ValidationError("a message", problems=["p", "q"], entry="data"),
        MissingEntryError("polciy", present=["policy"]),
    ]


# -- classes and outcomes -----------------------------------------------------------------------------


@pytest.mark.parametrize("cls", OUTCOMES)
def test_each_class_has_the_outcome_word_of_the_reports(cls: type[SbformatError]) -> None:
    assert cls.outcome == OUTCOMES[cls]
    assert issubclass(cls, SbformatError)


def test_every_error_class_of_the_module_is_in_the_table() -> None:
    found = {
        cls for cls in vars(errors).values()
        if isinstance(cls, type) and issubclass(cls, SbformatError) and cls not in (SbformatError, FormatError)
    }  # fmt: skip
    assert found == set(OUTCOMES)
    assert len(set(OUTCOMES.values())) == len(OUTCOMES)


@pytest.mark.parametrize("cls", FORMAT_ERRORS)
def test_errors_of_the_layers_are_format_errors_and_value_errors(cls: type[FormatError]) -> None:
    assert issubclass(cls, FormatError)
    assert issubclass(cls, ValueError)


def test_a_limit_and_an_unsupported_file_are_no_value_errors() -> None:
    assert not issubclass(LimitError, (ValueError, FormatError))
    assert not issubclass(UnsupportedError, (ValueError, FormatError))


def test_validation_is_a_value_error_and_a_missing_entry_a_key_error() -> None:
    assert issubclass(ValidationError, ValueError)
    assert issubclass(MissingEntryError, KeyError)


# -- the text -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "offset", "shown"),
    [
        (None, None, "it broke"),
        (None, 0, "at byte 0: it broke"),
        ("data", None, "data: it broke"),
        ("policy.pth/archive/data.pkl", 12, "policy.pth/archive/data.pkl at byte 12: it broke"),
    ],
)
def test_the_text_leads_with_the_place_as_far_as_it_is_known(entry: str | None, offset: int | None, shown: str) -> None:
    error = PickleError("it broke", entry=entry, offset=offset)
    assert str(error) == shown
    assert (error.entry, error.offset, error.message) == (entry, offset, "it broke")


def test_within_grows_the_path_from_the_inside_out_and_returns_the_same_error() -> None:
    error = PickleError("it broke", offset=4)
    assert error.within("archive/data.pkl") is error
    assert error.within("policy.pth") is error
    assert str(error) == "policy.pth/archive/data.pkl at byte 4: it broke"


def test_a_limit_error_names_the_argument_that_lifts_it() -> None:
    error = LimitError("json_bytes", allowed=1000, actual=123456)
    assert (error.limit, error.allowed, error.actual) == ("json_bytes", 1000, 123456)
    assert "Limits(json_bytes=" in str(error)
    assert "123,456" in str(error)
    assert "1,000" in str(error)


def test_a_validation_error_holds_all_problems() -> None:
    assert ValidationError("two problems", problems=["a", "b"]).problems == ("a", "b")
    assert ValidationError("none given").problems == ()


# -- a name that is not there -------------------------------------------------------------------------


def test_a_missing_name_suggests_the_nearest_one() -> None:
    error = MissingEntryError("polcy", present=["data", "policy", "policy.optimizer"])
    assert error.name == "polcy"
    assert str(error) == "there is no entry 'polcy'; did you mean 'policy'?"


def test_a_missing_name_suggests_names_with_the_same_words() -> None:
    names = ["loss", "norm_reward", "mean_reward_of_all", "best/reward", "reward_of_steps", "rewards"]
    error = MissingEntryError("reward", present=names[:5], what="column")
    assert error.hint == "did you mean 'norm_reward', 'mean_reward_of_all' or 'best/reward'?"
    assert error.message == f"there is no column 'reward'; {error.hint}"
    assert MissingEntryError("reward", present=names).hint == "did you mean 'rewards'?"  # almost the same
    assert MissingEntryError("norm_rewrd", present=names).hint == "did you mean 'norm_reward'?"


def test_a_hint_is_a_part_of_the_message() -> None:
    error = UnsupportedError("it is large", hint="raise the limit", entry="data")
    assert (error.message, error.hint) == ("it is large; raise the limit", "raise the limit")
    assert UnsupportedError("it is large: raise it", hint="raise it").message == "it is large: raise it"
    assert (error.again().hint, copy.deepcopy(error).hint) == ("raise the limit", "raise the limit")
    assert UnsupportedError("it is large").hint == ""
    error.add_hint("or else")
    assert str(error) == f"data: it is large; {error.hint}"


def test_without_a_near_one_the_names_there_are_get_listed_up_to_eight() -> None:
    assert str(MissingEntryError("zzz", present=["a", "b"])) == "there is no entry 'zzz'; available: 'a', 'b'"
    many = str(MissingEntryError("zzz", present=[f"name{i}" for i in range(20)], what="tensor"))
    assert many.startswith("there is no tensor 'zzz'")
    assert "'name7'" in many
    assert "'name8'" not in many
    assert many.endswith("\u2026")


def test_a_missing_name_without_any_present_is_just_missing() -> None:
    assert str(MissingEntryError("zzz")) == "there is no entry 'zzz'"


def test_a_missing_name_is_shown_as_text_not_as_the_repr_of_a_key_error() -> None:
    assert not str(MissingEntryError("a")).startswith('"')


def test_a_missing_name_takes_any_iterable_of_names() -> None:
    assert "'policy'" in str(MissingEntryError("polic", present=(name for name in ["policy"])))


@pytest.mark.parametrize("name", [*HOSTILE_NAMES, "x" * 100_000, "\x1b" * 5000])
def test_missing_names_and_suggestions_from_a_file_are_escaped_and_bounded(name: str) -> None:
    assert is_terminal_safe(str(MissingEntryError(name, present=[name + "x", name * 2])))
    assert is_terminal_safe(str(MissingEntryError("other", present=[name] * 20)))


# -- what came from a file ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_hostile_characters_are_shown_as_escapes(name: str) -> None:
    assert is_terminal_safe(escape(name))
    assert is_terminal_safe(quote(name))
    assert is_terminal_safe(str(ContainerError("broken", entry=name)))


def test_printable_text_of_any_script_stays_as_it_is() -> None:
    assert escape("gr\u00fc\u00dfe \u4f60\u597d policy.pth") == "gr\u00fc\u00dfe \u4f60\u597d policy.pth"


def test_long_text_is_cut_and_says_so() -> None:
    assert escape("x" * 200) == "x" * 200
    assert escape("x" * 201) == "x" * 200 + "\u2026"
    assert escape("abcdef", 3) == "abc\u2026"


def test_quote_takes_any_object() -> None:
    assert quote(5) == "'5'"
    assert quote("a") == "'a'"


class Unreadable:
    """A part of a tree whose text must not be asked for: trees are deep, shared and endless."""

    def __repr__(self) -> str:
        raise AssertionError


@pytest.mark.parametrize("kind", [list, tuple, set, frozenset])
def test_quote_never_spells_out_what_a_container_holds(kind: Any) -> None:
    assert is_terminal_safe(quote(kind([Unreadable()])))
    assert is_terminal_safe(quote({"key": Unreadable()}))


def test_quote_takes_deep_values_and_numbers_of_more_digits_than_python_converts() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (deep, 10**5000, b"x" * 100_000):
        assert len(quote(value)) < 300


@more_examples(100)
@given(st.text(st.characters(codec=None)))
def test_no_text_can_choose_the_bytes_of_a_terminal(name: str) -> None:
    assert is_terminal_safe(quote(name))
    assert is_terminal_safe(str(DataError(f"the key {quote(name)} stands twice", entry=name, offset=1)))


@pytest.mark.parametrize("character", ["x", "\u00fc", "\u4f60", "\U0001f600"])
@pytest.mark.parametrize("count", [400, 511, 512, 513, 682, 683, 1024, 1025, 2047, 2048, 2049, 100_000])
def test_a_message_is_cut_to_two_kib_of_utf8_between_characters(character: str, count: int) -> None:
    shown = str(DataError(character * count))
    size = len((character * count).encode())
    assert len(shown.encode()) <= MESSAGE_BYTES == 2048
    if size <= MESSAGE_BYTES:
        assert shown == character * count
    else:
        assert shown.endswith("\u2026")
        assert set(shown[:-1]) == {character}
        assert len(shown.encode()) > MESSAGE_BYTES - 8


def test_the_entry_counts_in_the_bound_of_the_message() -> None:
    error = DataError("m" * 1900, entry="e" * 190)
    assert len(str(error).encode()) <= MESSAGE_BYTES


# -- errors travel ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", every_error(), ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("trip", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_errors_survive_copies_and_process_pools(error: SbformatError, trip: Any) -> None:
    other = trip(error.within("outer"))
    assert type(other) is type(error)
    assert str(other) == str(error)
    assert vars(other) == vars(error)
