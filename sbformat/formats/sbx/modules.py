"""What the pickled policy of SBX says about its networks beside their weights: classes, numbers, activations.

A network is an object of a flax module: a dataclass whose fields are its attributes. Classes are referred to by name.
Activations are functions of jax, which pickle as objects around a function by value: they are identified by the module
and the name that jax gives them, and their code is not looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.formats.pickled.kinds import attributes_of, class_of
from sbformat.immutable import Record
from sbformat.known.types import Function
from sbformat.pkl.tree import Call, Dict, Global
from sbformat.values import decode_tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.limits import Budget
    from sbformat.pkl.decode import Pickle
    from sbformat.pkl.names import Pair

NETWORKS: Final = ("actor", "qf", "vf")
_PLAIN: Final = (str, int, float, bool, type(None))
_JIT: Final = "fun"
"""The attribute of a compiled function with the function itself."""
_JAX: Final = ("jax.", "jax._src.", "flax.")
"""Where the modules of published activations begin."""


class Module(Record):
    """A network of a policy."""

    pair: Pair
    """Module and name of its class."""
    settings: Mapping[str, Any]
    """Those of its fields that are numbers, texts, or lists of them."""
    activation: str | None
    """The name of the function of jax between its layers; None if it is another function. Empty before SBX 0.13, where
    the class determines it."""
    features_extractor: Pair | None
    """The class of its features extractor; None without one."""


def read_modules(pickle: Pickle, budget: Budget) -> dict[str, Module]:
    """Return the networks of a policy, by the names of its attributes: those of ``NETWORKS`` that it has.

    :param pickle: of the policy
    :param budget: the operation's
    :raises SbformatError: when an activation cannot be decoded
    """
    found = {}
    for name, part in attributes_of(pickle.value):
        made = class_of(part)
        if name in NETWORKS and type(name) is str and made is not None:
            found[name] = _read_module(made.pair, attributes_of(part), pickle, budget)
    return found


def _read_module(pair: Pair, attributes: Dict, pickle: Pickle, budget: Budget) -> Module:
    settings: dict[str, Any] = {}
    activation: str | None = ""
    extractor = None
    for name, part in attributes:
        if name == "activation_fn":
            activation = _name_activation(part, pickle, budget)
        elif name == "features_extractor" and isinstance(part, Global):
            extractor = part.pair
        elif type(name) is str and _is_plain(part):
            settings[name] = part
    return Module(pair, settings, activation, extractor)


def _is_plain(part: object) -> bool:
    items = part if type(part) in (list, tuple) else [part]
    return all(type(item) in _PLAIN for item in items)  # type: ignore[attr-defined]


def _name_activation(node: object, pickle: Pickle, budget: Budget) -> str | None:
    """Return the name of a function of jax; None for a function of another author, and for a value that is not one.

    A compiled function has it in ``fun``, a function with a derivative of its own in its ``__name__``.
    """
    if isinstance(node, Global):
        return node.name if f"{node.module}.".startswith(_JAX) else None
    parts = dict(attributes_of(node)) if isinstance(node, Call) else {}
    name, module = parts.get("__name__"), parts.get("__module__")
    if isinstance(name, str) and isinstance(module, str):
        return name if module.startswith(_JAX) else None
    wrapped = parts.get(_JIT, node)
    if not isinstance(wrapped, Call):
        return _name_activation(wrapped, pickle, budget) if isinstance(wrapped, Global) else None
    value, _ = decode_tree(pickle._replace(value=wrapped), budget)
    if isinstance(value, Function) and (value.module or "").startswith(_JAX):
        return value.qualname
    return None
