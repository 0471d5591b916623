"""What pickles of plain data and small objects mean, and what stays inert because of one thing in it."""

from __future__ import annotations

import collections
import datetime as dt
import enum
import functools
import json
import pathlib
import pickle
from collections import Counter, OrderedDict, defaultdict, deque
from typing import TYPE_CHECKING, Any, Final

import hypothesis.strategies as st
import pytest
from hypothesis import given

from sbformat import LimitError, Limits, SbformatError, pkl
from sbformat.data import Serialized
from sbformat.known.table import TABLE
from sbformat.known.types import (
    Cycle,
    DefaultDict,
    Described,
    EnumMember,
    Instance,
    Partial,
    Reference,
    RNNStates,
    TrainFreq,
)
from sbformat.limits import Budget
from sbformat.pkl import Call, Dict, Global
from sbformat.values import decode, decode_blob
from sbformat.values.render import render_json, render_line
from tests.helpers.build_blobs import (
    array,
    call,
    change,
    decode_outcome,
    discrete,
    dtype,
    new,
    refused,
    understood,
)
from tests.helpers.many_cases import check_each
from tests.helpers.sampling import more_examples

if TYPE_CHECKING:
    from collections.abc import Callable

PROTOCOLS: Final = (0, 1, 2, 3, 4, 5)

# -- plain data ---------------------------------------------------------------------------------------

leaves = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | st.binary(max_size=5)
    | st.complex_numbers(allow_nan=False) | st.binary(max_size=5).map(bytearray) | st.datetimes() | st.dates()
    | st.times(timezones=st.none() | st.just(dt.timezone.utc)) | st.timedeltas()
    | st.datetimes(timezones=st.builds(
        dt.timezone, st.timedeltas(dt.timedelta(hours=-23), dt.timedelta(hours=23))
    ))
    | st.builds(dt.datetime.replace, st.datetimes(), fold=st.just(1))
)  # fmt: skip
hashable = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | st.binary(max_size=5)
)
plain = st.recursive(
    leaves | st.sets(hashable, max_size=4) | st.frozensets(hashable, max_size=4),
    lambda parts: (
        st.lists(parts, max_size=4)
        | st.lists(parts, max_size=4).map(tuple)
        | st.dictionaries(hashable, parts, max_size=4)
        | st.dictionaries(st.text(max_size=5), parts, max_size=4).map(OrderedDict)
        | st.builds(deque, st.lists(parts, max_size=4), st.none() | st.integers(0, 5))
    ),
    max_leaves=12,
)


@given(plain, st.sampled_from(PROTOCOLS))
@more_examples(400)
def test_what_python_pickles_of_plain_data_is_that_data(value: object, protocol: int) -> None:
    pickled = pickle.dumps(value, protocol)
    loaded = pickle.loads(pickled)  # protocols below 4 drop folds
    found = understood(pickled)
    assert found == loaded
    assert spelled(found) == spelled(loaded)


def spelled(value: Any) -> object:
    """With types, for what Python calls equal across them."""
    if isinstance(value, (list, tuple, deque)):
        return type(value), getattr(value, "maxlen", None), [spelled(part) for part in value]
    if isinstance(value, dict):
        return type(value), [(spelled(key), spelled(part)) for key, part in value.items()]
    if isinstance(value, (set, frozenset)):
        return type(value), Counter(map(repr, value))
    return type(value), repr(value), getattr(value, "fold", None)


@given(plain, st.sampled_from((2, 4, 5)))
@more_examples(100)
def test_and_what_we_encode_of_it(value: object, protocol: Any) -> None:
    inert = pkl.loads(pickle.dumps(value, 4))
    assert understood(pkl.dumps(inert, protocol=protocol)) == value


@more_examples(100)
@given(st.dictionaries(st.tuples(st.integers(), st.text(max_size=3)), st.integers(), min_size=1, max_size=4))
def test_keys_whose_hash_a_file_could_choose_stay_pairs(value: dict[Any, Any]) -> None:
    found = understood(pickle.dumps(value))
    assert type(found) is Dict
    assert dict(found) == value


def test_sets_of_tuples_stay_lists_of_their_own_kind() -> None:
    assert type(understood(pickle.dumps({(1, 2)}))) is pkl.Set
    assert type(understood(pickle.dumps(frozenset({(1, 2)})))) is pkl.FrozenSet


@check_each("protocol", PROTOCOLS)
def test_small_values_of_python(protocol: int) -> None:
    for value, means in (
        (range(1, 9, 2), Described("builtins.range", (1, 9, 2))),
        (slice(None, 3), Described("builtins.slice", (None, 3, None))),
        (defaultdict(int, {"a": 1}), DefaultDict(Reference("builtins", "int"), {"a": 1})),
        (defaultdict(None, {1: 2}), DefaultDict(None, {1: 2})),
        (pathlib.PurePosixPath("/a/b"), pathlib.PurePosixPath("/a/b")),
        (pathlib.PureWindowsPath("C:\\a"), pathlib.PureWindowsPath("C:/a")),
        (type(None), Reference("types", "NoneType")),
        (int, Reference("builtins", "int")),
        (..., ...),
        (NotImplemented, NotImplemented),
        (dt.datetime, Reference("datetime", "datetime")),
    ):  # fmt: skip
        assert understood(pickle.dumps(value, protocol)) == means, value


FIRST: Final = dt.datetime(1, 1, 1, tzinfo=dt.timezone.utc)
LAST: Final = dt.datetime(9999, 12, 31, 23, 59, 59, 999999, dt.timezone.utc)


@check_each(
    "moment",
    [
        *(moment.replace(tzinfo=None) for moment in (FIRST, LAST)), dt.date.min, dt.date.max, dt.time.min,
        dt.time.max, FIRST, LAST, dt.timedelta.min, dt.timedelta.max, dt.timezone.utc,
        dt.timezone(dt.timedelta(hours=-23, minutes=-59)), dt.timezone(dt.timedelta(1e-3), "x"),
        dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.timezone.utc, fold=1), dt.time(1, fold=1),
    ],
)  # fmt: skip
def test_the_range_of_dates(moment: Any) -> None:
    for protocol in PROTOCOLS[4 if getattr(moment, "fold", 0) else 0 :]:
        found = understood(pickle.dumps(moment, protocol))
        assert (type(found), found, repr(found)) == (type(moment), moment, repr(moment))


class Color(enum.Enum):
    RED = 1


UNIT: Final = call("stable_baselines3.common.type_aliases", "TrainFrequencyUnit", "step")
NOISE: Final = ("stable_baselines3.common.noise", "NormalActionNoise")


def test_enumerations_named_tuples_and_plain_objects() -> None:
    member = EnumMember(Reference("stable_baselines3.common.type_aliases", "TrainFrequencyUnit"), "step")
    assert understood(UNIT) == member
    freq = new("stable_baselines3.common.type_aliases", "TrainFreq", None, 4, UNIT)
    assert understood(freq) == TrainFreq(4, member)
    states = new("sb3_contrib.common.recurrent.type_aliases", "RNNStates", None, (1, 2), (3,))
    assert understood(states) == RNNStates((1, 2), (3,))
    attributes = {"_mu": 0.0, "_sigma": 1.0}
    assert understood(new(*NOISE, attributes)) == Instance(Reference(*NOISE), attributes)
    made = call("copyreg", "_reconstructor", Global(*NOISE), Global("builtins", "object"), None)
    assert understood(change(made, attributes)) == Instance(Reference(*NOISE), attributes)


def test_a_value_that_holds_itself_says_so() -> None:
    knot: list[Any] = []
    knot.append(knot)
    assert understood(pickle.dumps(knot)) == [Cycle()]
    space = new("gymnasium.spaces.dict", "Dict")
    refused(change(space, {"spaces": {"a": space}}), "changed afterwards")


def getter(cls: tuple[str, str], name: object) -> Call:
    return call("builtins", "getattr", Global(*cls), name)


def test_partials_and_getters() -> None:
    # a partial of a known class, with plain arguments
    leaky = Global("torch.nn.modules.activation", "LeakyReLU")
    made = understood(change(call("functools", "partial", leaky), (leaky, (0.2,), {"inplace": True}, None)))
    assert made == Partial(Reference(*leaky.pair), (0.2,), {"inplace": True})
    refused = decode_outcome(pickle.dumps(functools.partial(collections.deque, (1, 2), maxlen=8)))
    assert [issue.rule for issue in refused.issues] == ["arguments"]
    policy = ("stable_baselines3.common.policies", "BasePolicy")
    assert understood(getter(policy, "_dummy_schedule")) == Described(
        "getattr", (Reference(*policy), "_dummy_schedule")
    )


DATES: Final = ("datetime", "datetime")
MOMENT: Final = bytes([7, 228, 1, 2, 3, 4, 5, 0, 0, 6])
REFUSED: Final[dict[str, Callable[[], Any]]] = {
    "an OrderedDict of no pairs": lambda: call("collections", "OrderedDict", [[1]]),
    "an OrderedDict with attributes": lambda: change(call("collections", "OrderedDict"), {"x": 1}),
    "a deque with a state": lambda: change(call("collections", "deque"), {}),
    "a deque of negative length": lambda: call("collections", "deque", [], -1),
    "a deque of text": lambda: call("collections", "deque", "abc"),
    "a defaultdict of two factories": lambda: call("collections", "defaultdict", Global("builtins", "int"), 1),
    "a defaultdict of a class": lambda: call("collections", "defaultdict", Global(*NOISE)),
    "a set of text": lambda: call("builtins", "set", "abc"),
    "a set with a state": lambda: change(call("builtins", "set", []), {}),
    "a range of text": lambda: call("builtins", "range", "a"),
    "an enumeration of two values": lambda: call("stable_baselines3.common.type_aliases", "TrainFrequencyUnit", 1, 2),
    "an enumeration of a list": lambda: call("stable_baselines3.common.type_aliases", "TrainFrequencyUnit", [1]),
    "a TrainFreq of text": lambda: new("stable_baselines3.common.type_aliases", "TrainFreq", None, "a", UNIT),
    "a TrainFreq of no unit": lambda: new("stable_baselines3.common.type_aliases", "TrainFreq", None, 1, "step"),
    "a plain object with arguments": lambda: new(*NOISE, {"_mu": 1}, 5),
    "a plain object with a foreign attribute": lambda: new(*NOISE, {"_mu": 1, "__class__": 2}),
    "a plain object without a state": lambda: new(*NOISE),
    "a plain object built twice": lambda: change(new(*NOISE, {"_mu": 1}), {"_mu": 2}),
    "a plain object given slots": lambda: new(*NOISE, (None, {"_mu": 1})),
    "copyreg with a state": lambda: call("copyreg", "_reconstructor", Global(*NOISE), Global("builtins", "object"), 1),
    "copyreg from int": lambda: call("copyreg", "_reconstructor", Global(*NOISE), Global("builtins", "int"), None),
    "getattr of a class that is not known": lambda: getter(("os", "x"), "_dummy_schedule"),
    "getattr of another name": lambda: getter(("torch", "Tensor"), "__init__"),
    "getattr of a number": lambda: getter(("torch", "Tensor"), 1),
    "a date of text": lambda: call(*DATES, "\u20ac" * 10),
    "a date that is too short": lambda: call(*DATES, b"123"),
    "a date out of range": lambda: call(*DATES, bytes(10)),
    "a day with a fold": lambda: call("datetime", "date", bytes([7, 228, 0x81, 2])),
    "a date in a zone of its own": lambda: call(*DATES, MOMENT, UNIT),
    "a day in a zone": lambda: call("datetime", "date", bytes([7, 228, 1, 2]), None),
    "a huge timedelta": lambda: call("datetime", "timedelta", 10**400),
    "a timedelta of a float": lambda: call("datetime", "timedelta", 0.5),
    "a timezone of two offsets": lambda: call("datetime", "timezone", *[call("datetime", "timedelta", 0)] * 2),
    "a timezone of a day": lambda: call("datetime", "timezone", call("datetime", "timedelta", 1)),
    "a path of bytes": lambda: call("pathlib", "PosixPath", b"a"),
    "the type of a number": lambda: call("builtins", "type", 1),
    "a partial without a state": lambda: call("functools", "partial", Global("builtins", "int")),
    "a partial of two functions": lambda: change(
        call("functools", "partial", Global("builtins", "int")), (Global("builtins", "float"), (), {}, None)
    ),
    "a partial with attributes": lambda: change(
        call("functools", "partial", Global("builtins", "int")), (Global("builtins", "int"), (), {}, {"x": 1})
    ),
    "a partial of what is not known": lambda: change(
        call("functools", "partial", Global("os", "system")), (Global("os", "system"), (), {}, None)
    ),
}  # fmt: skip


@check_each("what", REFUSED)
def test_what_no_library_writes_stays_inert(what: str) -> None:
    refused(REFUSED[what]())


# -- laws ---------------------------------------------------------------------------------------------

NAMES: Final = [
    *(pair for pair, row in TABLE.items() if row.role or row.kind),
    ("builtins", "int"),
    ("numpy", "ndarray"),
    ("os", "system"),
    ("a", "b"),
]
WORDS: Final = [
    "PCG64", "MT19937", "f4", "O8", "V8", "U1", "CodeType", "LambdaType", "_dummy_schedule", "step", "C", "K", "<", "",
    "spaces", "low", "high", "_shape", "dtype", "n", "val", "value_schedule", "closure_values", "__closure__", "state",
]  # fmt: skip
atoms = (
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(WORDS) | st.floats()
    | st.sampled_from([b"", bytes(4)])
    | st.builds(lambda pair: Global(*pair), st.sampled_from(NAMES)) | st.builds(pow, st.just(10), st.just(5000))
    | st.sampled_from([array((1,), bytes(4)), dtype("f4"), UNIT, discrete()])
)  # fmt: skip


def calls(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Calls of any name, mostly of those in the tables, with changes of any kind."""
    args = st.lists(parts, max_size=6).map(tuple)
    pairs = st.lists(st.tuples(st.sampled_from(WORDS), parts), max_size=4)
    made = st.builds(
        lambda how, pair, given: Call(how, Global(*pair), given),
        st.sampled_from(["REDUCE", "NEWOBJ"]),
        st.sampled_from(NAMES),
        args,
    )
    computed = st.builds(lambda func, given: Call("REDUCE", func, given), made, args)
    changes = st.one_of(
        st.tuples(st.just("BUILD"), parts | pairs.map(Dict) | args),
        st.tuples(st.just("SETITEMS"), pairs),
        st.tuples(st.just("APPENDS"), st.lists(parts, max_size=3)),
    )
    return (
        st.builds(with_changes, made | computed, st.lists(changes, max_size=2))
        | pairs.map(Dict)
        | args
        | args.map(list)
    )


def with_changes(node: Call, changes: list[tuple[Any, Any]]) -> Call:
    for how, value in changes:
        change(node, value, how)
    return node


CALLED: Final = frozenset(pair for pair, row in TABLE.items() if row.role)
MADE: Final = frozenset(pair for pair, row in TABLE.items() if row.new)


@given(st.recursive(atoms, calls, max_leaves=25))
@more_examples(500)
def test_any_tree_is_decoded_or_refused_by_an_error_of_ours(value: object) -> None:
    """And what is understood is called, made or changed by exact names of the tables alone."""
    try:
        outcome = decode_outcome(value)
    except SbformatError:
        return
    log = {id(node): node for node in outcome.decoder.pickle.log}
    for node in (log[key] for key in outcome.decoder.understood if key in log):
        target = node.target if isinstance(node, pkl.Update) else node
        if isinstance(node, pkl.Update):
            assert id(target) in outcome.decoder.understood
        if isinstance(target, Call) and isinstance(target.func, Call):
            target = target.func
        if isinstance(target, Call):
            assert isinstance(target.func, Global)
            assert target.func.pair in (CALLED if target.how == "REDUCE" else MADE)


def test_decode_takes_what_stands_in_data() -> None:
    blob = Serialized("<class 'collections.deque'>", pickle.dumps(deque([1], 3)), {})
    assert decode(blob) == deque([1], 3)
    assert decode_blob(pickle.dumps([1.5]), Budget()) == [1.5]
    with pytest.raises(SbformatError):
        decode_blob(b"abc", Budget())


def test_keys_in_keys_are_told_without_an_end() -> None:
    """As deep as a value may be: a key is told without what stands in it."""
    value: object = 1
    for _ in range(95):
        value = Dict([((value,), 2)])
    decoded = decode(Serialized(None, pkl.dumps(value, protocol=4)))
    assert render_line(decoded).isprintable()
    assert json.dumps(render_json(decoded))
    assert render_line({(1, 2): {3: 4}}) == "{[\u2026, \u2026]: {3: 4}}"


def test_depth_counts_shared_containers_of_plain_values() -> None:
    inner = b"]q\x00]K\x01aa"  # [[1]]
    raw = b"\x80\x02](" + inner + b"]]h\x00aae."
    assert decode_blob(raw, Budget(Limits(value_depth=5))) == [[[1]], [[[[1]]]]]
    with pytest.raises(LimitError, match="value_depth"):
        decode_blob(raw, Budget(Limits(value_depth=4)))


def test_a_container_of_plain_values_is_charged_for_each_call_that_gets_it() -> None:
    shared = b"](" + b"K\x01" * 2000 + b"eq\x000"
    calls = b"](ccollections\nOrderedDict\nq\x01h\x00\x85R" + b"h\x01h\x00\x85R" * 1999 + b"e."
    with pytest.raises(LimitError, match="pickle_nodes"):
        decode_blob(b"\x80\x02" + shared + calls, Budget())
