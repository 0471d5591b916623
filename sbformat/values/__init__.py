"""What a pickle means, without running it: inert trees to values that people know (FORMAT.md 13).

Exact names and exact shapes, arguments checked; what is not known stays an inert tree. Nothing is imported, called or
built but the plain values of ``values`` and Python's own containers, dates and paths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbformat.globals.releases import NEWEST, target_of
from sbformat.limits import DEFAULT_LIMITS, Budget
from sbformat.pkl.decode import decode_pickle
from sbformat.values.context import Doubt, Recognition, is_known
from sbformat.values.registry import find

if TYPE_CHECKING:
    from sbformat.data import Serialized
    from sbformat.globals.releases import Target
    from sbformat.globals.torch import Pair
    from sbformat.limits import Limits
    from sbformat.pkl.decode import Pickle
    from sbformat.pth.context import Scope

__all__ = ["Doubt", "Recognition", "decode", "decode_blob", "encode", "is_known", "recognise"]


def decode(serialized: Serialized, *, limits: Limits = DEFAULT_LIMITS) -> object:
    """Return what a blob of ``data`` means.

    :param serialized: as it stands in ``data``
    :param limits: what it may ask for
    :return: a value of :mod:`sbformat.values.types`, of Python, or, where it is not known, a node of
        :mod:`sbformat.pkl.tree`
    :raises PickleError: when it is no pickle
    :raises LimitError: when it asks for more than allowed
    """
    return decode_blob(serialized.pickle, Budget(limits))


def decode_blob(data: bytes, budget: Budget) -> object:
    """Like :func:`decode`, of a blob's bytes within an operation's budget."""
    return recognise(decode_pickle(data, budget), budget)[0]


def encode(value: object, target: str | Target = NEWEST, *, foreign: frozenset[Pair] = frozenset()) -> bytes:
    """Return a pickle of a value, the mirror of :func:`decode`: what the target's libraries load without warnings.

    :param value: as :func:`decode` gives it; spaces of gym become gymnasium's, a published schedule function the
        schedule that it computes (FORMAT.md 13.7)
    :param target: a release of SB3, ``2.9``; it decides which classes there are
    :param foreign: names that are not known and may stand in it as they are
    :return: one pickle of protocol 4, the same for the same value
    :raises UnsupportedError: for a value that has no form without code, or that is not known
    """
    from sbformat.values.encoder import written

    return written(value, target_of(target), foreign)


def recognise(
    pickle: Pickle, budget: Budget, tensors: Scope | None = None, *, reads_all: bool = False
) -> tuple[object, Recognition]:
    """Return the value of a pickle, and the account of what was understood in it.

    :param pickle: decoded
    :param budget: the operation's
    :param tensors: of a ``.pth``: finds its storages
    :param reads_all: check what was left in a file, too
    """
    recognition = Recognition(pickle, budget, find, tensors, reads_all=reads_all)
    value = recognition.make(pickle.value)
    recognition.tensors.check_totals()
    return value, recognition
