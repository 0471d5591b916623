"""The kind of a pickled file, detected from the root object of the pickle (SB2.md 16.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.errors import PickleError, UnsupportedError, escape
from sbformat.known.rows import describe_node
from sbformat.known.table import find
from sbformat.pkl.tree import Call, Dict, Global

if TYPE_CHECKING:
    from sbformat.archive.kinds import Kind
    from sbformat.pkl.decode import Pickle

_CLASSES: Final[dict[str, Kind]] = {"VecNormalize": "vecnormalize", "RunningMeanStd": "running-mean-std"}
_BUFFER: Final = "ReplayBuffer"
_SUBCLASSES: Final[tuple[tuple[frozenset[str], Kind], ...]] = (
    (frozenset({"obs_rms", "ret_rms", "clip_obs"}), "vecnormalize"),
    (frozenset({"observations", "actions", "rewards", "pos", "full"}), "replay-buffer"),
)
"""Attributes by which a user's subclass of an SB3 class is recognized."""
_RECONSTRUCTOR: Final = ("copyreg", "_reconstructor")
_OBJECT: Final = ("builtins", "object")


def classify_pickle(pickle: Pickle) -> Kind:
    """Detect the kind of a pickled file.

    :raises UnsupportedError: if it does not belong to an agent
    :raises PickleError: if names of attributes are not distinct texts
    """
    root = pickle.value
    if type(root) is tuple and len(root) == 2 and type(root[0]) is Dict:
        return "sb2-pickle"
    kind = _kind_of_object(root)
    if kind is not None:
        _check_names(root)
        return kind
    message = (
        f"a pickle of {_named(root)}: neither statistics of VecNormalize, nor a replay buffer of Stable-Baselines3, "
        f"nor an agent of Stable Baselines 2"
    )
    raise UnsupportedError(message)


def _kind_of_object(root: object) -> Kind | None:
    made = class_of(root)
    kind = None if made is None else _known_kind(made)
    if kind is not None:
        return kind
    if made is not None:
        names = {key for key, _ in attributes_of(root) if type(key) is str}
        for needed, alike in _SUBCLASSES:
            if needed <= names:
                return alike
    return None


def _known_kind(made: Global) -> Kind | None:
    if not find(made.pair).is_plain:
        return None
    return "replay-buffer" if made.name.endswith(_BUFFER) else _CLASSES.get(made.name)


def require_plain_pickle(pickle: Pickle) -> Pickle:
    """Return a pickle, or refuse it if unpicklers may disagree about its value.

    :raises PickleError: if it leaves values on the stack, or changes a part after its use
    """
    if pickle.flags:
        message = f"{'; '.join(pickle.flags)}: no pickler of plain data writes that"
        raise PickleError(message)
    return pickle


def require_distinct_names(root: object) -> None:
    """Refuse an object of these kinds with two attributes of one name, of which readers could use either.

    :raises PickleError: if names of attributes are not distinct texts
    """
    if _kind_of_object(root) is not None:
        _check_names(root)


def _check_names(root: object) -> None:
    names = [key for key, _ in attributes_of(root)]
    if not all(type(name) is str for name in names) or len({*names}) != len(names):
        message = "expected distinct texts as the names of its attributes"
        raise PickleError(message)


def class_of(root: object) -> Global | None:
    """Return the class of an object that consists of its attributes only, set once; None for other values."""
    if not isinstance(root, Call) or type(root.func) is not Global or type(root.args) is not tuple:
        return None
    updates = root.updates or []
    if root.func.updates or len(updates) != 1 or updates[0].how != "BUILD" or type(updates[0].value) is not Dict:
        return None
    if root.how == "NEWOBJ" and root.args == ():
        return root.func
    if root.how != "REDUCE" or root.func.pair != _RECONSTRUCTOR or len(root.args) != 3:  # class, base, its state
        return None
    made, base, state = root.args
    is_plain = type(base) is Global and base.pair == _OBJECT and not base.updates and state is None
    return made if type(made) is Global and not made.updates and is_plain else None


def attributes_of(root: object) -> Dict:
    """Return the attributes of an object: the state that BUILD sets."""
    updates = (root.updates if class_of(root) is not None else None) or ()  # type: ignore[attr-defined]
    return next((update.value for update in updates), Dict())


def _named(root: object) -> str:
    if isinstance(root, (Call, Global)):
        return describe_node(root)
    return f"a {escape(type(root).__name__.lower())}"
