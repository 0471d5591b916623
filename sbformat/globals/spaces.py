"""The classes of spaces in gym and gymnasium: the one table that the others are built from (VALUES.md 13.4).

Sources: gym ``spaces/`` of 0.10 to 0.26, gymnasium ``spaces/`` of 0.26 to 1.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sbformat.globals.torch import Pair

LIBRARIES: Final = ("gym", "gymnasium")

SPACE_MODULES: Final = {
    "Box": "box",
    "Discrete": "discrete",
    "MultiDiscrete": "multi_discrete",
    "MultiBinary": "multi_binary",
    "Dict": "dict",
    "Tuple": "tuple",
    "Text": "text",
    "Sequence": "sequence",
    "Graph": "graph",
    "OneOf": "oneof",  # gymnasium >= 1.0
}
"""Each class, and its module below ``gym.spaces`` and ``gymnasium.spaces``."""

OLD_MODULES: Final = {"Dict": "dict_space", "Tuple": "tuple_space"}
"""The module that two of them had before gym 0.12."""

SPACES: Final[dict[Pair, str]] = {
    (f"{library}.spaces.{module}", name): name
    for library in LIBRARIES
    for modules in (SPACE_MODULES, OLD_MODULES)
    for name, module in modules.items()
}
"""The name of the class by every pair that it has had."""

_MODULES: Final = {**SPACE_MODULES, "Space": "space", "GraphInstance": "graph"}

RENAMED_SPACES: Final[dict[Pair, Pair]] = {
    **{
        (f"gym.spaces.{module}", name): (f"gymnasium.spaces.{_MODULES[name]}", name)
        for modules in (_MODULES, OLD_MODULES)
        for name, module in modules.items()
        if name != "OneOf"
    },
    ("gym.core", "Space"): ("gymnasium.spaces.space", "Space"),  # gym before 0.12
}
"""Every class that gym defined, and its name in gymnasium."""

SPACE_REFERENCES: Final[frozenset[Pair]] = frozenset(
    {*RENAMED_SPACES, *RENAMED_SPACES.values(), ("gymnasium.spaces.oneof", "OneOf")}
)
"""Every class of either library that may be used as a value."""
