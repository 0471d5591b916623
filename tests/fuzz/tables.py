"""The cases of the tests' own tables, as seeds: each constructor that readers know, right and with one thing wrong."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from conformance.generators.build_pth import floats, legacy_stream, storage, tensor, torch_zip
from sbformat import pkl
from sbformat.values import encode
from tests.helpers.build_blobs import tree

if TYPE_CHECKING:
    from collections.abc import Iterator

_STORAGES = {"0": bytes(32)}


def pickles() -> Iterator[bytes]:
    """Blobs: values that are known, and calls that are nearly those."""
    from tests.values.test_arrays import ARRAYS, STORED
    from tests.values.test_decoder import REFUSED
    from tests.values.test_encoder import CHANGED, SAME
    from tests.values.test_functions import CHANGES, WRONG
    from tests.values.test_hostile import PLACES, STRANGE
    from tests.values.test_spaces import REFUSED as SPACES
    from tests.values.test_spaces import TEXTS

    yield from (encode(value) for value in (*SAME.values(), *CHANGED.values()))
    yield from (pickle.dumps(value, protocol) for value in ARRAYS.values() for protocol in (2, 5))
    for table in (REFUSED, STORED, WRONG, SPACES, TEXTS, {name: made for name, (_, made) in CHANGES.items()}):
        yield from map(_pickled, table.values())
    for make in PLACES.values():
        yield from (b"\x80\x05" + make(STRANGE[kind]) + b"." for kind in ("levels", "itself"))


def _pickled(make: Any) -> bytes:
    content = make()
    return content if type(content) is bytes else pkl.dumps(tree(content))


def torch_files() -> Iterator[bytes]:
    """State dicts: tensors of each kind, dtype and byte order, and torch's small values."""
    from tests.pth.test_encode import DTYPES, LONGS, MADE_OF, QUANTIZED, RECORDS, SPARSE, STORED, quantized

    for made in (*STORED.values(), *MADE_OF.values()):
        yield torch_zip({"v": made}, _STORAGES)
        yield legacy_stream({"v": made})
    yield from (torch_zip({"s": sparse}, LONGS) for sparse in SPARSE.values())
    for cls, scheme in QUANTIZED.values():
        yield torch_zip({"q": quantized(cls, scheme)}, {**RECORDS, "q": bytes(24 if cls == "QInt32Storage" else 6)})
    for name, size in DTYPES.items():
        numel = 32 // size
        stored = {"w": tensor(storage(numel, "0", name), (numel,)), "s": storage(numel, "0", name)}
        yield from (torch_zip(stored, _STORAGES, byte_order=order) for order in (b"little", b"big"))
    yield torch_zip({"w": floats((8,))}, _STORAGES, deflated=True)
