"""The entry ``data``: strict JSON, counted before it is parsed; what SB3 pickled stays opaque."""

from __future__ import annotations

import base64
import binascii
import copy
import glob
import json
import math
import os
import pickle
import struct
import sys
import zipfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.generators.build_zips import BIDI, is_terminal_safe
from sbformat.data import LargeValue, Serialized, decode_large, dumps, equal_json, loads, to_json
from sbformat.errors import DataError, LimitError, SbformatError
from sbformat.io.source import BytesSource
from sbformat.limits import Budget, Limits
from tests.helpers import thresholds
from tests.helpers.sampling import more_examples, with_exhaustive
from tests.helpers.shared_files import SHARED

BLOB = b"\x80\x05K\x07."
BASE64 = base64.b64encode(BLOB).decode("ascii")


def refused(raw: bytes, match: str = ".", **limits: int) -> DataError:
    with pytest.raises(DataError, match=match) as caught:
        loads(raw, limits=Limits(**limits))
    assert is_terminal_safe(str(caught.value))
    return caught.value


def beyond(raw: bytes, **limits: int) -> LimitError:
    with pytest.raises(LimitError) as caught:
        loads(raw, limits=Limits(**limits))
    assert is_terminal_safe(str(caught.value))
    return caught.value


def serialized(raw: str) -> Serialized:
    found = loads(raw.encode())["x"]
    assert isinstance(found, Serialized)
    return found


# -- JSON ---------------------------------------------------------------------------------------------


def test_an_object_is_read_with_its_keys_in_order() -> None:
    found = loads(b'{"b": 1, "a": [null, true, 1.5, "x", {}], "": {}}')
    assert list(found.items()) == [("b", 1), ("a", [None, True, 1.5, "x", {}]), ("", {})]


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_any_bytes_like_is_taken(wrap: Any) -> None:
    assert loads(wrap(b'{"a":1}')) == {"a": 1}


def test_white_space_around_the_object_is_fine() -> None:
    assert loads(b' \t\r\n{"a":1}\n') == {"a": 1}


@pytest.mark.parametrize("raw", [b"[]", b"1", b'"x"', b"null", b"true", b"NaN"])
def test_json_that_is_no_object_is_refused(raw: bytes) -> None:
    refused(raw, "expected a JSON object")


@pytest.mark.parametrize(
    ("raw", "offset"),
    [
        (b"", 0), (b" ", 1), (b"{", 1), (b'{"a"', 4), (b'{"a":', 5), (b'{"a":1', 6), (b"{a:1}", 1),
        (b"{'a':1}", 1),
        (b'{"a":1}x', 7), (b'{"a":1}{}', 7), (b'{"a":01}', 6), (b'{"a":+1}', 5), (b'{"a":.5}', 5), (b'{"a":1.}', 6),
        (b'{"a":0x10}', 6),
        (b'{"a":nan}', 5), (b'{"a":None}', 5), (b'{"a":"\n"}', 6), (b'{"a":"\x00"}', 6), (b'{"a":"\\x41"}', 6),
        (b'{"a":"\\u12"}', 7),
        (b'{"a":/**/1}', 5), ('{"\u00e9":\u00e9}'.encode(), 6), (b'{"a":"', 5), (b'{"a":[1 2]}', 8), (b"{" * 10, 1),
        (b'\0{"a":1}', 0),
    ],
)  # fmt: skip
def test_what_is_not_json_is_refused_at_its_byte(raw: bytes, offset: int) -> None:
    assert refused(raw, "expected JSON").offset == offset


def test_a_byte_order_mark_is_refused() -> None:
    assert refused(b'\xef\xbb\xbf{"a":1}', "byte order mark").offset == 0


@pytest.mark.parametrize(
    ("raw", "offset"),
    [
        (b'{"a":"\xff"}', 6),
        (b'{"a":"\xed\xa0\x80"}', 6),
        (b'{"a":"\xc0\x80"}', 6),
        (b'{"a":"\xf4\x90\x80\x80"}', 6),
        (b'{"\xe2\x82"}', 2),
    ],
)
def test_what_is_not_strict_utf8_is_refused_at_its_byte(raw: bytes, offset: int) -> None:
    assert refused(raw, "expected UTF-8").offset == offset


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-16-be"])
def test_other_encodings_are_refused(encoding: str) -> None:
    refused('{"a": "x"}'.encode(encoding))


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        (b'{"a":1,"a":1}', "a"),
        (b'{"a":1,"b":2,"a":{}}', "a"),
        (b'{"a":1,"\\u0061":2}', "a"),
        (b'{"x":{"k":[{"b":1,"b":2}]}}', "b"),
        (b'{"x":{":serialized:":"","k":0,"k":0}}', "k"),
        (b'{"x":{":serialized:":"",":serialized:":""}}', ":serialized:"),
        (b'{"":1,"":2}', ""),
    ],
)
def test_a_key_that_stands_twice_in_one_object_is_refused_at_any_depth(raw: bytes, key: str) -> None:
    assert refused(raw).message == f"expected unique keys in an object, got '{key}' twice"


@pytest.mark.parametrize("key", ["\x1b[31m", "\n", "\ud800", "\u0000", *BIDI])
def test_a_hostile_key_is_escaped_in_the_message(key: str) -> None:
    twice = json.dumps(key).encode()
    refused(b"{" + twice + b":1," + twice + b":2}", "twice")
    refused(b"{" + twice + b':{":serialized:":1}}', "expected strings")
    refused(b"{" + twice + b':{":serialized:":"A"}}', "not base64")


def test_nan_and_infinities_are_kept() -> None:
    found = loads(b'{"a": NaN, "b": Infinity, "c": -Infinity, "d": 1e999}')
    assert math.isnan(found["a"])
    assert [found[key] for key in "bcd"] == [math.inf, -math.inf, math.inf]


def test_lone_surrogates_are_kept_and_written_back() -> None:
    found = loads(b'{"a": "\\ud800", "\\udfff": 1}')
    assert found == {"a": "\ud800", "\udfff": 1}
    assert json.dumps(to_json(found)) == '{"a": "\\ud800", "\\udfff": 1}'


def test_integers_of_any_size_stay_whole() -> None:
    assert loads(b'{"t": 1690000000000000001, "n": -18446744073709551616}') == {"t": 1690000000000000001, "n": -(2**64)}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(st.characters(codec=None),
        max_size=8)
    | st.sampled_from(['"', "\\", '\\"', "[]{},:", ":serialized:", "\\\\", '"\\']),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4) | st.sampled_from(['"', "\\",
                "[{,"]), inner, max_size=4),
    max_leaves=15,
)  # fmt: skip


@more_examples(100)
@given(st.dictionaries(st.text(max_size=5), JSON, max_size=5), st.booleans(), st.sampled_from([None, 1, 4]))
def test_what_json_dumps_writes_is_read_as_json_loads_reads_it(
    value: Any,
    ascii_only: bool,  # noqa: FBT001
    indent: int | None,
) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")
    try:
        raw.decode()
    except UnicodeDecodeError:
        refused(raw, "UTF-8")
        return
    assert equal_json(loads(raw), json.loads(raw))


@given(st.text(st.sampled_from('{}[],:"\\ \n0123456789.eE+-truefalsnNaInity\u00e9'), max_size=30), st.booleans())
@more_examples(400)
def test_any_text_is_refused_or_read_as_json_loads_reads_it(body: str, wrapped: bool) -> None:  # noqa: FBT001
    raw = (f'{{"a":{body}}}' if wrapped else body).encode()
    try:
        found = loads(raw)
    except SbformatError as error:
        assert is_terminal_safe(str(error))  # noqa: PT017
    else:
        assert equal_json(found, json.loads(raw))


@more_examples(100)
@given(st.binary(max_size=40))
def test_any_bytes_are_refused_or_read(raw: bytes) -> None:
    for body in (raw, b'{"a":"' + raw + b'"}', b'{"a":{":serialized:":"' + raw + b'"}}'):
        try:
            loads(body)
        except SbformatError as error:
            assert is_terminal_safe(str(error))  # noqa: PT017


# -- limits, counted before anything is parsed --------------------------------------------------------


def cost(value: Any) -> tuple[int, int]:
    """Depth and values: one for each comma and seven for each opening bracket."""
    if not isinstance(value, (list, dict)):
        return 0, 0
    children = [cost(item) for item in (value.values() if isinstance(value, dict) else value)]
    depth = 1 + max((depth for depth, _ in children), default=0)
    return depth, 7 + max(len(value) - 1, 0) + sum(count for _, count in children)


@more_examples(100)
@given(st.dictionaries(st.text(max_size=5), JSON, max_size=5), st.booleans())
def test_depth_and_values_are_counted_exactly_whatever_the_strings_hold(value: Any, ascii_only: bool) -> None:  # noqa: FBT001
    raw = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "replace")
    depth, count = cost(value)
    loads(raw, limits=Limits(json_depth=depth, json_nodes=1 + count))
    if depth > 1:
        assert beyond(raw, json_depth=depth - 1).actual == depth
    assert beyond(raw, json_nodes=count).actual == 1 + count


def test_bytes_are_limited() -> None:
    raw = b'{"a":1}'
    assert loads(raw, limits=Limits(json_bytes=7))
    assert beyond(raw, json_bytes=6).actual == 7


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_depth_is_limited(opening: str, closing: str) -> None:
    per = opening.count("[") + opening.count("{")
    times = 63 // per
    raw = ('{"x":' + opening * times + "0" + closing * times + "}").encode()
    assert loads(raw)
    assert beyond(raw, json_depth=per * times).limit == "json_depth"
    deeper = ('{"x":' + opening * 64 + "0" + closing * 64 + "}").encode()
    assert beyond(deeper).limit == "json_depth"


@pytest.mark.parametrize("unit", [b"[", b'{"a":', b'[{"":[', b"[[[["])
def test_hostile_nesting_is_a_limit_not_a_recursion_error(unit: bytes) -> None:
    assert beyond(b'{"a":' + unit * 50_000).limit == "json_depth"


def test_nesting_that_the_interpreter_refuses_is_our_error_too() -> None:
    raw = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(SbformatError):
        loads(raw, limits=Limits(json_depth=10**6))


def test_brackets_in_strings_and_behind_escaped_quotes_are_no_depth() -> None:
    assert loads(
        b'{"a":"' + b"[" * 100 + b'\\"' + b"{" * 100 + b'\\\\","b":"\\\\\\"[["}',
        limits=Limits(json_depth=1, json_nodes=9),
    )


@pytest.mark.parametrize(
    "raw", [b'{"a":"\\\\",' + b"[" * 100, b'{"a":"\\\\\\\\",' + b"[" * 100, b'{"\\\\":' + b"[" * 100]
)
def test_brackets_behind_a_string_that_ends_with_backslashes_are_counted(raw: bytes) -> None:
    assert beyond(raw).limit == "json_depth"


def test_values_are_limited() -> None:
    raw = b'{"a":[1,2,3],"b":{}}'
    assert loads(raw, limits=Limits(json_nodes=25))  # 1, three commas, and seven for each of three containers
    assert beyond(raw, json_nodes=24).actual == 25


@pytest.mark.parametrize("number", ["%s", "-%s", "%s.5", "0.%s", "1e%s", "1E+%s"])
def test_digits_of_a_number_are_limited(number: str) -> None:
    raw = ('{"a":' + number % ("1" * 20) + "}").encode()
    assert loads(raw, limits=Limits(json_digits=20))
    assert beyond(raw, json_digits=19).limit == "json_digits"


def test_digits_in_strings_are_not_limited() -> None:
    assert loads(b'{"' + b"1" * 9000 + b'":"' + b"1" * 9000 + b'"}')


def test_a_string_ends_a_run_of_digits() -> None:
    refused(b'{"a":1' + b'"b"1' * 30_000, "expected JSON", json_digits=3)  # in several pieces


def test_a_number_with_more_digits_than_python_converts_is_our_error() -> None:
    raw = b'{"a":' + b"1" * 5000 + b"}"
    assert beyond(raw).limit == "json_digits"
    refused(raw, ".", json_digits=10_000)


@pytest.mark.skipif(not hasattr(sys, "set_int_max_str_digits"), reason="CPython 3.10.7")
def test_a_lower_cap_of_the_interpreter_is_our_error_too(monkeypatch: pytest.MonkeyPatch) -> None:
    before = sys.get_int_max_str_digits()
    try:
        sys.set_int_max_str_digits(640)
        refused(b'{"a":' + b"1" * 1000 + b"}")
    finally:
        sys.set_int_max_str_digits(before)


def test_blobs_are_limited_each_and_together() -> None:
    raw = b'{"a":{":serialized:":"AAAA"},"b":{":serialized:":"AAAAAAAA"}}'
    assert loads(raw, limits=Limits(blob_bytes=6, blobs_bytes=9))
    assert beyond(raw, blob_bytes=5).limit == "blob_bytes"
    assert beyond(raw, blobs_bytes=8).actual == 9


# -- serialized values --------------------------------------------------------------------------------


def test_a_serialized_value_keeps_type_pickle_hints_and_text() -> None:
    found = serialized(
        json.dumps({"x": {":type:": "<class 'a.B'>", ":serialized:": BASE64, "low": "[-1.]", "n": [1, None]}})
    )
    assert (found.type, found.pickle, found.hints, found.text) == (
        "<class 'a.B'>",
        BLOB,
        {"low": "[-1.]", "n": [1, None]},
        BASE64,
    )
    assert found.is_canonical


@pytest.mark.parametrize("kind", ["", ',":type:":null'])
def test_the_type_may_be_missing_or_null(kind: str) -> None:
    found = serialized(f'{{"x":{{":serialized:":"{BASE64}"{kind}}}}}')
    assert found.type is None
    assert found.pickle == BLOB


def test_an_empty_pickle_is_opaque_too() -> None:
    assert serialized('{"x":{":serialized:":""}}').pickle == b""


@pytest.mark.parametrize("value", ["1", "null", "true", "[]", "{}", '{":serialized:":""}', "1.5"])
def test_markers_that_are_not_text_are_refused(value: str) -> None:
    refused(b'{"x":{":serialized:":' + value.encode() + b"}}", "expected strings")
    if value != "null":
        refused(b'{"x":{":serialized:":"",":type:":' + value.encode() + b"}}", "expected strings")


@pytest.mark.parametrize(
    "raw", ['{"x":{":type:":"a"}}', '{"x":{"y":{":serialized:":"AAAA"}}}', '{"x":[{":serialized:":"AAAA"}]}']
)
def test_only_top_level_objects_with_the_marker_are_serialized_values(raw: str) -> None:
    assert loads(raw.encode()) == json.loads(raw)


def test_the_object_itself_is_no_serialized_value() -> None:
    assert loads(b'{":serialized:":"AAAA",":type:":"x"}') == {":serialized:": "AAAA", ":type:": "x"}


@pytest.mark.parametrize(
    "text",
    [
        BASE64 + "\n", BASE64[:4] + "\n" + BASE64[4:], " " + BASE64, "!" + BASE64, "\u00e9" + BASE64,
        BASE64.replace("=", "") + "====",
        BASE64[:-2] + "=!=", BASE64.rstrip("=")[:-1] + "5" + "=", "-_" + BASE64, "\0" + BASE64,
    ],
)  # fmt: skip
def test_unusual_base64_is_read_as_leniently_as_sb3_reads_it_and_flagged(text: str) -> None:
    found = serialized(json.dumps({"x": {":serialized:": text}}))
    assert found.pickle == base64.b64decode(text.encode())
    assert found.text == text
    assert not found.is_canonical


@more_examples(100)
@given(st.text(st.sampled_from("AB+/=9-_ \n!\u00e9"), max_size=12))
def test_base64_is_read_or_refused_exactly_as_by_the_decoder_of_sb3(text: str) -> None:
    raw = json.dumps({"x": {":serialized:": text}}).encode()
    try:
        expected = base64.b64decode(text.encode())
    except binascii.Error:
        refused(raw, "not base64")
        return
    found = serialized(raw.decode())
    assert found.pickle == expected
    assert found.is_canonical == (base64.b64encode(expected).decode() == text)


@pytest.mark.parametrize("text", ["A", "AAAAA", "AA", "AAA", "AA=", "\ud800", "A\ud800AAA"])
def test_what_no_decoder_reads_is_refused(text: str) -> None:
    refused(json.dumps({"x": {":serialized:": text}}).encode(), "'x': :serialized: is not base64")


def test_to_json_gives_back_what_stood_in_the_file() -> None:
    value = {"a": 1, "x": {":type:": "t", ":serialized:": BASE64, "hint": [1]}, "y": {":serialized:": BASE64 + "\n"}}
    assert to_json(loads(json.dumps(value).encode())) == value


# -- Serialized is a value ----------------------------------------------------------------------------


def test_the_text_of_a_new_value_is_canonical() -> None:
    made = Serialized("t", BLOB)
    assert made.text == BASE64
    assert made.is_canonical
    assert made.hints == {}


def test_values_are_equal_by_type_pickle_and_hints_in_order() -> None:
    one = Serialized("t", BLOB, {"a": 1, "b": math.nan})
    assert one == Serialized("t", BLOB, {"a": 1, "b": math.nan}, text=BASE64 + "\n")
    assert one != Serialized("u", BLOB, {"a": 1, "b": math.nan})
    assert one != Serialized("t", b"", {"a": 1, "b": math.nan})
    assert one != Serialized("t", BLOB, {"b": math.nan, "a": 1})
    assert one != Serialized("t", BLOB, {"a": True, "b": math.nan})
    assert one != "t"


def test_values_cannot_be_changed_or_hashed() -> None:
    made = Serialized("t", BLOB)
    with pytest.raises(AttributeError, match="cannot be changed"):
        made.type = "u"
    with pytest.raises(AttributeError):
        del made.pickle
    with pytest.raises(TypeError, match="unhashable"):
        hash(made)


@pytest.mark.parametrize("trip", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_values_survive_copies_and_process_pools(trip: Any) -> None:
    made = Serialized("t", BLOB, {"a": [1]}, text=BASE64 + "\n")
    other = trip(made)
    assert other == made
    assert other.text == made.text


@pytest.mark.parametrize("kind", ["<class 'a'>", "\x1b[31m" * 100, "\u202e", "\n", "x" * 10_000, None])
def test_the_repr_shows_type_and_size_never_bytes(kind: str | None) -> None:
    shown = repr(Serialized(kind, b"secret" * 100))
    assert "600 bytes" in shown
    assert "secret" not in shown
    assert len(shown) < 1000
    assert is_terminal_safe(shown)


# -- equality of JSON values --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1),
        (math.nan, float("nan")),
        ({"a": [math.nan]}, {"a": [float("nan")]}),
        ([], []),
        ({}, {}),
        (None, None),
        ("\ud800", "\ud800"),
    ],
)
def test_equal_values(left: Any, right: Any) -> None:
    assert equal_json(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1.0), (1, True), (0, False), (0, None), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ([1], [1, 2]), ([1], [2]),
        ({"a": 1}, {"a": 2}),
        (math.nan, 1.0), (1.0, math.nan), ({}, []), ("1", 1), ({"a": {}}, {"a": []}), ([math.nan], [0.0]),
    ],
)  # fmt: skip
def test_values_that_are_not_equal(left: Any, right: Any) -> None:
    assert not equal_json(left, right)


@pytest.mark.parametrize("levels", with_exhaustive([10_000], [100_000]))
def test_deep_values_are_compared_without_recursion(levels: int) -> None:
    left: list[Any] = []
    right: list[Any] = []
    for _ in range(levels):
        left, right = [left], [right]
    assert equal_json(left, right)


@more_examples(100)
@given(JSON)
def test_every_value_equals_itself_read_again(value: Any) -> None:
    assert equal_json(value, json.loads(json.dumps(value)))


def test_floats_travel_bit_for_bit() -> None:
    for number in (0.1, 5e-324, 1.7976931348623157e308, -0.0, 3e-05):
        found = loads(json.dumps({"a": number}).encode())["a"]
        assert struct.pack("<d", found) == struct.pack("<d", number)


# -- written again ------------------------------------------------------------------------------------


@more_examples(100)
@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_what_is_written_is_what_json_dumps_gives_and_comes_back(value: dict[str, Any]) -> None:
    """``dumps`` is ``json.dumps(indent=4)`` in ASCII, and ``loads`` of it is the value."""
    raw = dumps(value)
    assert raw == json.dumps(value, indent=4).encode("ascii")
    assert equal_json(loads(raw), value)
    assert dumps(loads(raw)) == raw


def test_serialized_values_are_written_as_they_were_read() -> None:
    """The base64 text is the file's own, canonical or not; the type comes first, the hints last."""
    text = json.dumps(
        {
            "a": {":type:": "<class 'a.B'>", ":serialized:": BASE64 + "\n", "low": "[-1.]", "n": [1, {"x": None}]},
            "b": {":serialized:": "", "z": math.nan},
            "c": {"deep": {":serialized:": "no blob"}},
            "d": [1, -0.0, 1e300, 10**30, "\ud800", True, None, [], {}],
        },
        indent=4,
    )
    assert dumps(loads(text.encode())) == text.encode()


def test_a_new_serialized_value_is_canonical() -> None:
    raw = dumps({"x": Serialized("<class 'int'>", BLOB, {"hint": 1}), "y": Serialized(None, b"")})
    assert loads(raw) == {"x": Serialized("<class 'int'>", BLOB, {"hint": 1}), "y": Serialized(None, b"")}
    assert json.loads(raw)["x"] == {":type:": "<class 'int'>", ":serialized:": BASE64, "hint": 1}


def test_tuples_become_arrays() -> None:
    assert loads(dumps({"a": (1, (2, [3]))})) == {"a": [1, [2, [3]]]}


def unwritable(value: Any, match: str = ".") -> None:
    with pytest.raises(DataError, match=match) as caught:
        dumps(value)
    assert is_terminal_safe(str(caught.value))


@pytest.mark.parametrize(
    "value",
    [object(), b"bytes", {1}, 1j, Serialized(None, b""), {1: 2}, {None: 1}, {"a": {True: 1}}, [b""], range(3), {(): 1}],
)
def test_what_json_has_no_word_for_is_refused_by_its_key(value: Any) -> None:
    unwritable({"fine": 1, "the key": {"deep": [value]}}, "in 'the key'")


@pytest.mark.parametrize("key", [1, None, True, 1.5, ("a",), b"a"])
def test_keys_that_would_come_back_as_text_are_refused(key: Any) -> None:
    unwritable({key: 1}, "expected a string as key")


@pytest.mark.parametrize("hints", [{1: 2}, {"a": object()}, {"a": [b""]}, {"a": Serialized(None, b"")}])
def test_hints_are_json_too(hints: Any) -> None:
    unwritable({"x": Serialized(None, b"", hints)}, "'x'")


@pytest.mark.parametrize(
    "value",
    [
        {":serialized:": "gAQu"}, {":serialized:": 5, "a": 1}, Serialized(None, b"", {":serialized:": "gAQu"}),
        Serialized("t", b"", {":type:": "other"}), Serialized(None, b"", {":type:": "other"}),
    ],
)  # fmt: skip
def test_markers_that_would_make_another_value_are_refused(value: Any) -> None:
    """A plain dict would come back as a blob, and a hint in place of the type or the blob itself."""
    unwritable({"x": value}, "'x' has a key")


def test_a_plain_dict_may_hold_a_type_and_deeper_markers() -> None:
    value = {"x": {":type:": "text"}, "y": {"z": {":serialized:": 1}}}
    assert loads(dumps(value)) == value


def test_what_holds_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds.WALKED_VALUES, 10_000)
    for made in ([], {}):
        value: Any = made
        value.append(value) if isinstance(value, list) else value.update(k=value)
        unwritable({"x": value}, "contains itself|cannot represent")


def test_depth_beyond_the_interpreter_is_refused() -> None:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    unwritable({"x": value}, "cannot represent it")


def test_the_data_of_real_archives_is_written_byte_for_byte() -> None:
    """WRITER.md 12.4: for every archive that SB3 wrote, the bytes of the file."""
    paths = sorted(glob.glob(os.path.join(SHARED, "corpus", "sb3", "*")))
    if not paths:
        pytest.skip("there are no real archives beside the project")
    for path in paths:
        try:
            with zipfile.ZipFile(path) as opened:
                raw = opened.read("data")
        except (zipfile.BadZipFile, KeyError):
            continue
        assert dumps(loads(raw)) == raw, path


# -- large values -------------------------------------------------------------------------------------


def read_large(raw: bytes, step: int = 7, **limits: int) -> Any:
    chunks = [raw[at : at + step] for at in range(0, len(raw), step)]
    return decode_large(chunks, Budget(Limits(**limits)), lambda: BytesSource(raw))


def texts(found: Any) -> dict[str, bytes]:
    return {
        key: bytes(value.source().view(0, value.nbytes))
        for key, value in found.items()
        if isinstance(value, LargeValue)
    }


LARGE = json.dumps(
    {"a": 1, "big": {":type:": "<class 'x'>", ":serialized:": BASE64 * 20}, "b": [1, ']}\\",{'], "c": None}, indent=4
).encode()


@pytest.mark.parametrize("step", [1, 2, 3, 7, 64, 10_000])
def test_the_largest_value_is_left_out_and_the_rest_is_read(step: int) -> None:
    found = read_large(LARGE, step, json_bytes=200)
    assert {key: value for key, value in found.items() if key != "big"} == {"a": 1, "b": [1, '"]}\\",{'[1:]], "c": None}
    assert list(found) == ["a", "big", "b", "c"]
    assert json.loads(texts(found)["big"]) == json.loads(LARGE)["big"]
    assert found["big"].type == "<class 'x'>"
    assert found["big"].needs["json_bytes"] == len(LARGE)
    assert "Limits(json_bytes=" in str(found["big"].error)
    for get in (lambda: found["big"].pickle, lambda: found["big"].text, found["big"].to_json):
        with pytest.raises(LimitError, match="'big' is left out"):
            get()
    assert pickle.loads(pickle.dumps(found["big"])).nbytes == found["big"].nbytes
    assert found["big"] == read_large(LARGE, json_bytes=200)["big"] != found["a"]


def test_the_limits_that_an_error_names_are_enough() -> None:
    for limits in ({"json_bytes": 200}, {"json_nodes": 15}, {"blob_bytes": 99}, {"memory_bytes": 3000}):
        left_out = [value for value in read_large(LARGE, **limits).values() if isinstance(value, LargeValue)]
        assert left_out, limits
        enough = {**limits, **left_out[0].needs}
        assert not texts(read_large(LARGE, **enough)), limits


@pytest.mark.parametrize("marker", ['":type:": "' + "x" * 2000 + '", ":serialized:"', '"\\u003aserialized:"'])
def test_a_pickle_whose_marker_is_late_or_escaped_is_left_out_by_name(marker: str) -> None:
    found = read_large(f'{{"a": {{{marker}: "{BASE64 * 20}"}}, "b": 1}}'.encode(), blob_bytes=50)
    assert found["a"].needs["blob_bytes"] >= 60
    assert "Limits(blob_bytes=" in str(found["a"].error)
    assert found["a"].open_pickle(Limits()) is None
    assert copy.deepcopy(found["a"]) is found["a"]


def test_blobs_that_another_entry_used_up_are_left_out_by_name() -> None:
    budget = Budget(Limits(blobs_bytes=100, blob_bytes=90))
    budget.spend("blobs_bytes", 80)
    raw = f'{{"a": {{":serialized:": "{BASE64 * 6}"}}, "b": "{"x" * 100}"}}'.encode()
    found = decode_large([raw], budget, lambda: BytesSource(raw))
    assert "blobs_bytes=" in str(found["a"].error)
    assert found["b"] == "x" * 100


def test_wide_characters_count_as_the_parser_counts_them() -> None:
    raw = json.dumps({"a": "x" * 30_000, "b": "\U0001f600"}, ensure_ascii=False).encode()
    found = read_large(raw, memory_bytes=100_000)
    assert (type(found["a"]), found["b"]) == (LargeValue, "\U0001f600")


def test_small_values_are_not_left_out() -> None:
    raw = json.dumps({str(number): "x" * 10 for number in range(1000)}).encode()
    with pytest.raises(LimitError, match="json_bytes"):
        read_large(raw, json_bytes=10_000)


def test_values_are_counted_where_they_are_left_out() -> None:
    raw = b'{"a": [' + b"0," * 5000 + b'0], "b": 1}'
    assert isinstance(read_large(raw, json_nodes=400)["a"], LargeValue)
    with pytest.raises(LimitError, match="json_nodes"):
        read_large(raw, json_nodes=300)


@pytest.mark.parametrize(
    "text", ['{"a": [[1, 2}, "b": 1}', '{"a": "x', '{"a": 1, "a": 2}', '["a", {"b": 1}]', "{", "", "\\"]
)
def test_damage_is_refused(text: str) -> None:
    for limit in (1, 10, 1000):
        with pytest.raises(SbformatError):
            read_large(text.encode(), json_bytes=limit)


def test_a_value_that_is_only_space_is_refused() -> None:
    with pytest.raises(DataError, match="'a'"):
        read_large(b'{"a":' + b" " * 1000 + b"}", json_bytes=100)


def test_brackets_that_do_not_match_are_refused_at_once() -> None:
    with pytest.raises(DataError, match="brackets"):
        read_large(b'{"a": 1' + b"}" * 1000, json_bytes=100)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 10**6) | st.text('ab"\\{}[],: \n\u00e9\U0001f600', max_size=30),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text('ab"\\[{:', max_size=3), inner, max_size=4),
    max_leaves=20,
)


@given(
    data=st.dictionaries(st.text('abc"\\{[:,', max_size=4), _JSON, max_size=6),
    step=st.integers(1, 40),
    limit=st.integers(8, 300),
    form=st.fixed_dictionaries({"indent": st.sampled_from([None, 4]), "ensure_ascii": st.booleans()}),
)
@more_examples(400)
def test_any_value_may_be_left_out(data: dict[str, Any], step: int, limit: int, form: dict[str, Any]) -> None:
    raw = json.dumps(data, **form).encode()
    for limits in ({"json_bytes": limit}, {"json_nodes": limit // 4}, {}):
        try:
            found = read_large(raw, step, **limits)
        except LimitError:
            continue
        left_out = texts(found)
        assert list(found) == list(data)
        assert {key: json.loads(text) for key, text in left_out.items()} == {key: data[key] for key in left_out}
        assert {key: value for key, value in found.items() if key not in left_out} == {
            key: value for key, value in loads(raw).items() if key not in left_out
        }
        written = dumps(found)
        again = written if isinstance(written, bytes) else bytes(written.view(0, written.size))
        assert json.loads(again) == data
