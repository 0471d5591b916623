"""Laws of ``sbformat.pth``, on trees and files drawn at random: each law is its test's docstring."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from conformance.generators.build_pth import (
    REBUILD_V2,
    Apply,
    Change,
    Name,
    Pairs,
    Persist,
    Run,
    legacy_stream,
    ordered,
    storage,
    tensor,
    torch_zip,
)
from sbformat import SbformatError, pth
from sbformat.pkl.tree import (
    CALLS,
    DTYPES,
    LAYOUTS,
    MEMORY_FORMATS,
    NUMPY_DTYPE,
    QUANTIZATION_SCHEMES,
    STORAGES,
    TENSOR_CLASSES,
)
from tests.helpers.sampling import more_examples

EIGHT: Final = np.arange(8, dtype="<f4").tobytes()

_PAIRS: Final = {*CALLS, *DTYPES, *MEMORY_FORMATS, *QUANTIZATION_SCHEMES, *STORAGES, *TENSOR_CLASSES, NUMPY_DTYPE}
_MORE: Final = [("numpy", "ndarray"), ("os", "system"), *(("torch", name) for name in sorted(LAYOUTS))]
KNOWN: Final = [Name(*pair) for pair in sorted(_PAIRS) + _MORE]
TEXTS: Final = [
    "storage",
    "0",
    "1",
    "cpu",
    "conj",
    "neg",
    "latin1",
    "torch.sparse_coo",
    "f8",
    "<",
    "C",
    "_metadata",
    "",
]

plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 9),
    st.sampled_from([2**31, 2**63, 2**64, -(2**70), 10**25]),
    st.sampled_from([0.0, 0.5, -0.0, float("nan")]),
    st.sampled_from(TEXTS),
    st.sampled_from([b"", b"abcdefgh", bytes(16)]),
)
names = st.sampled_from(KNOWN)
storages = st.builds(
    storage,
    st.sampled_from([8, 2, 32, 4, 0, 7]),
    st.sampled_from(["0", "1", "2"]),
    st.sampled_from(
        ["FloatStorage", "LongStorage", "BoolStorage", "QInt8Storage", "ComplexHalfStorage", "ByteStorage"]
    ),
)
shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)
tensors = st.builds(tensor, storages, shapes, shapes, st.integers(0, 8), st.booleans())
leaves = st.one_of(plain, plain, names, storages, tensors)


def as_callable(part: Any) -> Any:
    """Return a node, or a name in place of a value that nothing can call."""
    return part if isinstance(part, (Name, Apply, Persist)) else Name("collections", "OrderedDict")


def nodes(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Containers, calls and changes of anything, in the shapes that constructors take and in others."""
    some = st.lists(parts, max_size=8)
    tuples = some.map(tuple)
    changes = st.builds(Change, st.sampled_from(["BUILD"]), parts)
    items = st.lists(parts, max_size=2).map(lambda found: Change("SETITEMS", found * 2))
    return st.one_of(
        some,
        tuples,
        st.lists(st.tuples(parts, parts), max_size=4).map(lambda pairs: Pairs(*pairs)),
        st.builds(Apply, names, tuples),
        st.builds(Apply, names, tuples, changes),
        st.builds(Apply, names, tuples, items, changes),
        st.builds(Apply, names, tuples, how=st.sampled_from(["NEWOBJ", "OBJ"])),
        st.builds(Apply, parts.map(as_callable), tuples),
        st.builds(Persist, tuples),
        st.dictionaries(st.sampled_from(TEXTS), parts, max_size=4).map(ordered),
    )


trees = st.recursive(leaves, nodes, max_leaves=12)


def questions(data: bytes, **options: Any) -> list[str]:
    """Ask a file for all there is; what each question came to."""
    found = []

    def ask(question: Any) -> Any:
        try:
            answer = question()
        except SbformatError as error:
            answer, shown = None, str(error)
            found.append(error.outcome)
        else:
            found.append("read")
            shown = ""
        assert shown.isprintable()
        return answer

    state_dict = ask(lambda: pth.loads(data, **options))
    if state_dict is not None:
        for question in (state_dict.tensors, state_dict.storages, state_dict.check, state_dict.to_numpy):
            ask(question)
        for path in ask(state_dict.tensors) or ():
            ask(lambda path=path: state_dict.array(path))
        assert repr(state_dict).isprintable()
        same = ask(lambda: state_dict == pth.loads(data, **options))
        assert same in (True, None)
    return found


@more_examples(600)
@given(trees, st.booleans())
def test_any_tree_is_read_or_refused(tree: object, inert: bool) -> None:  # noqa: FBT001
    """Whatever a pickle says, each question is answered or raises ``SbformatError``; a file equals itself."""
    options = {"on_unknown": "inert"} if inert else {}
    questions(torch_zip(tree, {"0": EIGHT, "1": bytes(8), "2": bytes(4)}), **options)
    questions(legacy_stream(tree, [Run("0", 8, EIGHT)]), **options)


@more_examples(300)
@given(st.lists(st.one_of(leaves, st.lists(plain, max_size=3).map(tuple)), min_size=6, max_size=7), names)
def test_any_arguments_of_a_known_name_are_read_or_refused(arguments: list[Any], name: Name) -> None:
    """A known name called with anything gives a value or ``SbformatError``."""
    for count in range(len(arguments) + 1):
        questions(torch_zip(Apply(name, tuple(arguments[:count])), {"0": EIGHT, "1": bytes(8), "2": bytes(4)}))


@more_examples(100)
@given(
    st.lists(st.integers(0, 5), max_size=4),
    st.data(),
)
def test_a_geometry_is_read_exactly_when_it_stays_within_its_storage(shape: list[int], data: st.DataObject) -> None:
    """A view is read when its last item lies in the storage, and is refused otherwise; its items are those of
    the storage at offset + index x strides."""
    strides = data.draw(st.lists(st.integers(0, 9), min_size=len(shape), max_size=len(shape)))
    offset = data.draw(st.integers(0, 9))
    call = Apply(REBUILD_V2, (storage(8), offset, tuple(shape), tuple(strides), False, ordered()))
    fits = 0 in shape or offset + sum((size - 1) * step for size, step in zip(shape, strides)) < 8
    try:
        made = pth.loads(torch_zip(call, {"0": EIGHT})).to_numpy()
    except SbformatError:
        made = None
    assert (made is not None) == fits
    if made is None:
        return
    assert made.shape == tuple(shape)
    for index in np.ndindex(*shape):
        assert made[index] == offset + sum(at * step for at, step in zip(index, strides))


@more_examples(150)
@given(st.dictionaries(st.text(max_size=5), st.integers(0, 3), max_size=6), st.booleans())
def test_equality_is_that_of_the_values(numbers: dict[str, int], nested: bool) -> None:  # noqa: FBT001
    """Two files are equal exactly when their keys, in order, and their tensors are."""

    def decode(pairs: dict[str, int]) -> pth.StateDict:
        raw = {f"k{at}": np.full(2, number, "<f4").tobytes() for at, number in enumerate(pairs.values())}
        made: Any = {key: tensor(storage(2, f"k{at}"), (2,)) for at, key in enumerate(pairs)}
        return pth.loads(torch_zip([made, made] if nested else made, raw))

    assert decode(numbers) == decode(numbers)
    for key, number in numbers.items():
        assert decode(numbers) != decode({**numbers, key: number + 1})
        assert decode(numbers) != decode({other: held for other, held in numbers.items() if other != key})
    backwards = dict(reversed(numbers.items()))
    assert (decode(numbers) == decode(backwards)) == (list(numbers) == list(backwards))
