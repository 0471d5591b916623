"""A state dict to a ``.pth`` entry: the mirror of ``decode`` (WRITER.md 12.2, 12.3).

The pickle is encoded immediately, because it is small; the bytes of the storages are read when they are written.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from sbformat.constants import BYTE_ORDER_RECORD, PICKLE_RECORD, STORAGE_FOLDER, TORCH_VERSION_RECORD
from sbformat.container.layout import Member
from sbformat.container.writer import TorchZip
from sbformat.pkl.encode import encode_pickle
from sbformat.pth.calls import Calls
from sbformat.pth.state_dict import StateDict

_ROOT: Final = "archive/"
_BYTE_ORDER: Final = b"little"
_VERSION: Final = b"3\n"
_PROTOCOL: Final = 2


def encode_pth(state_dict: StateDict) -> TorchZip:
    """Return the layout of the torch zip of a state dict; its bytes are created on access.

    :param state_dict: decoded, or of arrays; tensors that share a storage share it in the file, too
    :return: its ``size``, and its ``chunks()``
    :raises UnsupportedError: when a ``.pth`` cannot contain a value of it
    """
    return encode_tree(state_dict.tree)


def encode_tree(tree: object) -> TorchZip:
    """Do the same for a tree of values of a state dict, and of inert nodes."""
    calls = Calls()
    pickle = encode_pickle(tree, protocol=_PROTOCOL, reduce=calls.reduce)
    records = [_held(PICKLE_RECORD, pickle), _held(BYTE_ORDER_RECORD, _BYTE_ORDER)]
    for key, (storage, swap) in enumerate(calls.storages):
        name = f"{_ROOT}{STORAGE_FOLDER}{key}"
        records.append(Member(name, storage.nbytes, partial(storage.chunks, swap)))
    records.append(_held(TORCH_VERSION_RECORD, _VERSION))
    return TorchZip(records)


def dumps(state_dict: object) -> bytes:
    """Encode a state dict as torch saves it: what ``torch.load(..., weights_only=True)`` of torch >= 1.6 reads.

    :param state_dict: a :class:`StateDict`, or the arrays that :meth:`StateDict.from_arrays` takes
    :return: the bytes of a ``.pth``; the same for the same values
    :raises UnsupportedError: for a value or dtype that a ``.pth`` cannot contain, by its path
    """
    made = state_dict if isinstance(state_dict, StateDict) else StateDict.from_arrays(state_dict)
    return b"".join(encode_pth(made).chunks())


def _held(name: str, data: bytes) -> Member:
    return Member(_ROOT + name, len(data), lambda: (data,))
