"""Decode pickles to values that people know, without running them, and encode such values (VALUES.md 13).

A pickle is decoded by exact names and checked arguments; what is not known stays an inert node of
:mod:`sbformat.pkl.tree`. Nothing is imported or called. The types of the values are in :mod:`sbformat.known.types`.

    >>> space = sbformat.read("agent.zip").decode("observation_space")
    >>> space.shape, np.asarray(space.low)
    ((4,), array([-4.8, -3.4028235e+38, -0.41887903, -3.4028235e+38], dtype=float32))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sbformat.data import Serialized
from sbformat.errors import require_type
from sbformat.known.changes import NEWEST, parse_target
from sbformat.known.context import Issue
from sbformat.limits import DEFAULT_LIMITS, Budget
from sbformat.pkl.decode import decode_pickle
from sbformat.values.decoder import Decoder

if TYPE_CHECKING:
    from sbformat.known.changes import Release
    from sbformat.limits import Limits
    from sbformat.pkl.decode import Pickle
    from sbformat.pkl.tree import Pair
    from sbformat.pth.context import DecodeContext

__all__ = ["Decoder", "Issue", "decode", "decode_blob", "decode_tree", "encode"]


def decode(serialized: Serialized, *, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Return what a serialized value of ``data`` means, without running it.

    The type depends on the file, as that of :func:`json.loads` does: check it with ``isinstance``.

    :param serialized: as ``Archive.data`` has it
    :param limits: bounds on what the pickle may use
    :return: plain Python values (numbers, text, containers, dates, paths), a type of :mod:`sbformat.known.types`
        (spaces, schedules, functions, ...), an :class:`~sbformat.pkl.numpy.ArrayInfo` for a numpy array or scalar;
        where a constructor is not known, a node of :mod:`sbformat.pkl.tree`
    :raises PickleError: when it is not a pickle
    :raises LimitError: when it exceeds a limit

    Example::

        archive = sbformat.read("agent.zip")
        schedule = sbformat.values.decode(archive.data["lr_schedule"])  # FloatSchedule(schedule=ConstantSchedule(...))
    """
    require_type(serialized, Serialized, "a Serialized")
    return decode_blob(serialized.pickle, Budget(limits))


def decode_blob(data: bytes, budget: Budget) -> Any:
    """Like :func:`decode`, for the bytes of a pickle within an operation's budget."""
    return decode_tree(decode_pickle(data, budget), budget)[0]


def encode(value: object, target: str | Release = NEWEST, *, foreign: frozenset[Pair] = frozenset()) -> bytes:
    """Return a pickle of a value, the inverse of :func:`decode`, which the target's libraries load without warnings.

    Spaces of gym become gymnasium's, and a published schedule function becomes the schedule that it computes
    (VALUES.md 13.7).

    :param value: as :func:`decode` returns it
    :param target: a release of SB3, such as ``2.9``: it decides which classes exist
    :param foreign: pairs of module and name that are not known and may be referred to unchanged
    :return: one pickle of protocol 4; equal values give equal bytes

    Example::

        encode(ConstantSchedule(3e-4), "2.4")  # a call of stable_baselines3.common.utils.constant_fn
    """
    from sbformat.known.encoder import Encoder
    from sbformat.pkl.encode import encode_pickle

    return encode_pickle(Encoder(parse_target(target), foreign).tree(value), protocol=4)


def decode_tree(
    pickle: Pickle, budget: Budget, tensors: DecodeContext | None = None, *, checks_unread: bool = False
) -> tuple[Any, Decoder]:
    """Return the value of a pickle's tree, and the record of what was understood in it.

    :param pickle: decoded to a tree
    :param budget: the operation's
    :param tensors: of a ``.pth``: finds its storages
    :param checks_unread: also check arrays that were left in the file
    """
    decoder = Decoder(pickle, budget, tensors, checks_unread=checks_unread)
    value = decoder.decode(pickle.value)
    decoder.tensors.check_totals()
    return value, decoder
