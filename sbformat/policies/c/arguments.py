"""The arguments of the function in C: names, types, sizes, and what the header says about each.

Names are that which the caller chooses, and those made of the file's texts, which are hostile: of a key of a Dict only
letters and digits become part of an identifier, after a prefix of ours. In comments, characters that could end the
comment, join lines or form a trigraph are written as ``%XX``.
"""

from __future__ import annotations

import re
import textwrap
from math import prod
from typing import TYPE_CHECKING, Final

from sbformat.errors import quote, require_type
from sbformat.immutable import Record
from sbformat.policies.export.files import NEXT
from sbformat.policies.operators import OPERATORS
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sbformat.known.spaces import Space
    from sbformat.policies.export.files import Port
    from sbformat.policies.export.lowering import Lowered
    from sbformat.policies.graph import Node

C_TYPES: Final[Mapping[str, str]] = {
    "bool": "uint8_t", "uint8": "uint8_t", "int8": "int8_t", "uint16": "uint16_t", "int16": "int16_t",
    "uint32": "uint32_t", "int32": "int32_t", "uint64": "int32_t", "int64": "int32_t",
    "float16": "float", "float32": "float", "float64": "double",
}  # fmt: skip
"""By numpy's names. Indices have 32 bits: 64 cost several instructions each where registers have 32."""
C_DTYPES: Final[Mapping[str, str]] = {"uint64": "int32", "int64": "int32", "float16": "float32"}
"""The dtype that an array has in C, where it is another one."""
SIZES: Final[Mapping[str, int]] = {
    "uint8_t": 1, "int8_t": 1, "uint16_t": 2, "int16_t": 2, "uint32_t": 4, "int32_t": 4, "float": 4,
    "double": 8,
}  # fmt: skip
"""Bytes of an item, by type."""

KEYWORDS: Final = frozenset({
    "_Bool", "_Complex", "_Imaginary", "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor",
    "bool", "break", "case", "catch", "char", "char16_t", "char32_t", "class", "compl", "const", "const_cast",
    "constexpr", "continue", "decltype", "default", "delete", "do", "double", "dynamic_cast", "else", "enum",
    "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int", "long",
    "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq", "private",
    "protected", "public", "register", "reinterpret_cast", "restrict", "return", "short", "signed", "sizeof",
    "static", "static_assert", "static_cast", "struct", "switch", "template", "this", "thread_local", "throw",
    "true", "try", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual", "void", "volatile",
    "wchar_t", "while", "xor", "xor_eq",
})  # fmt: skip
"""Keywords of C99 and C++17."""

_IDENTIFIER: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
LONGEST_NAME: Final = 31 - len("_predict")
"""Characters of a name: every C99 compiler distinguishes external identifiers by their first 31."""
_UNSAFE: Final = re.compile(r"[^ -~]|[*\\?%]|//")
_WIDTH: Final = 110

_ORDER: Final = ("observation", "action_masks", "episode_start", "state", "output")
_MEANINGS: Final = {
    "action_masks": "1 for each choice that is allowed, 0 for the others",
    "episode_start": "1 at the first step of an episode, which makes the state zero; else 0",
    "value": "the value of the state of the environment",
    "logits": "the unnormalized logarithms of the probabilities of the choices",
    "probabilities": "the probabilities of the choices",
    "mean": "the mean of the distribution of actions, before it is scaled or clipped to the bounds",
    "log_std": "the logarithm of the standard deviation of the distribution of actions",
    "q_values": "the value of each action, or of the action by each critic",
    "quantiles": "the quantiles of the distribution of returns",
    "scores": "the number of each choice, of which the action has the greatest",
}


class Argument(Record):
    """An array that the function reads or writes."""

    port: Port
    name: str
    """An identifier: of a parameter, or of a member of the state."""
    size_name: str
    """The macro of its size."""
    meaning: str
    """For a comment."""

    @property
    def type(self) -> str:
        """The type of an item in C."""
        return C_TYPES[self.port.dtype]

    @property
    def size(self) -> int:
        """The number of items."""
        return prod(self.port.shape)

    @property
    def is_output(self) -> bool:
        """Whether the function writes it."""
        return self.port.role == "output"


class Arguments(Record):
    """All arguments."""

    inputs: tuple[Argument, ...]
    """Without states."""
    states: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    """Without next states."""
    next_states: tuple[Port, ...]
    """For each state, the output with its next value."""


def name_arguments(lowered: Lowered, name: str, observations: Space, actions: Space) -> Arguments:
    """Return the arguments of the function, in order.

    :param name: what the names of macros begin with, in lower case
    """
    inputs = sorted(lowered.inputs, key=lambda port: _ORDER.index(port.role))
    states = [port for port in inputs if port.role == "state"]
    following = {f"{NEXT}{port.name}" for port in states}
    next_states = {port.name: port for port in lowered.outputs if port.name in following}
    outputs = [port for port in lowered.outputs if port.name not in following]
    names = name_parameters([*inputs, *outputs])
    made = [
        Argument(
            port, names[port.name], f"{name}_{names[port.name]}_size".upper(),
            _describe(port, lowered.nodes, observations, actions),
        )
        for port in (*inputs, *outputs)
    ]  # fmt: skip
    return Arguments(
        tuple(item for item in made if item.port.role not in ("state", "output")),
        tuple(item for item in made if item.port.role == "state"),
        tuple(item for item in made if item.is_output),
        tuple(next_states[f"{NEXT}{port.name}"] for port in states),
    )


def _describe(port: Port, nodes: Sequence[Node], observations: Space, actions: Space) -> str:
    if port.role == "observation":
        space = observations.parts().get(port.key, observations)
        axes = _name_axes(port.value, nodes)
        key = "" if port.key is None else f"; key {escape_comment(port.key[:80])}"
        return f"{_describe_space(space)}{axes}{key}"
    if port.name == "action":
        return _describe_space(actions)
    return _MEANINGS.get(port.role if port.role != "output" else port.name, "")


def _describe_space(space: Space) -> str:
    """Return the kind, bounds and choices of a space; choices count from 0, not from ``start`` (POLICIES.md 19.8)."""
    text = escape_comment(render_line(space))
    return f"{text}, counted from 0" if space.observed == "one-hot" else text


def _name_axes(value: str, nodes: Iterable[Node]) -> str:
    """Return the axes of an image, as far as its way to a convolution shows them."""
    reached = {value}
    for node in nodes:
        if node.inputs[0] in reached and len(node.shape) == 3:
            if node.op == "Conv":
                return "; an image: channels, height, width"
            if node.op == "Transpose" and tuple(node.attributes["axes"]) == (2, 0, 1):
                return "; an image: height, width, channels"
            if OPERATORS[node.op].is_elementwise:
                reached.add(node.name)
    return ""


# -- names and comments -------------------------------------------------------------------------------


def check_name(name: str) -> None:
    """Refuse a name that cannot begin the names of C and C++.

    :raises TypeError: when it is not a text
    :raises ValueError: when it is not an identifier, a keyword, reserved, or too long
    """
    require_type(name, str, "an identifier of C as name")
    problem = ""
    if not _IDENTIFIER.fullmatch(name):
        problem = "an identifier of C: ASCII letters, digits and underscores, after a letter"
    elif name in KEYWORDS:
        problem = "a name that is not a keyword of C or C++"
    elif "__" in name or name.endswith("_"):
        problem = "a name without two underscores in a row or one at the end, which C++ reserves"
    elif len(name) > LONGEST_NAME:
        problem = f"a name of at most {LONGEST_NAME} characters"
    if problem:
        message = f"expected {problem}, got {quote(name)}"
        raise ValueError(message)


def refuse_clashes(name: str, parameters: Iterable[str]) -> None:
    """Refuse a name with which a parameter of the function could have the name of a function, type or macro.

    :param parameters: identifiers
    :raises ValueError: with the first parameter that begins with the name
    """
    for parameter in parameters:
        if parameter.upper().startswith(f"{name}_".upper()):
            message = (
                f"expected another name (--name) than {quote(name)}: the argument {quote(parameter)} begins with it"
            )
            raise ValueError(message)


def name_parameters(ports: Iterable[Port]) -> Mapping[str, str]:
    """Return an identifier for each input and output, by its name: all differ, in upper case too.

    The part of a Dict observation with the key ``arm`` is ``observation_arm``.
    """
    made: dict[str, str] = {}
    taken: set[str] = set()
    for port in sorted(ports, key=lambda port: port.key is not None):  # keys give way to other names
        text = port.name if port.key is None else f"observation {port.key}"
        identifier = base = "_".join(re.findall(r"[A-Za-z0-9]+", text)[:8])[:48].strip("_")
        count = 1
        while identifier.upper() in taken:
            count += 1
            identifier = f"{base}_{count}"
        taken.add(identifier.upper())
        made[port.name] = identifier
    return made


def escape_comment(text: str) -> str:
    """Return a text as it can be within a comment: other characters are ``%XX``, by their bytes in UTF-8."""

    def encode(match: re.Match[str]) -> str:
        return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))

    return _UNSAFE.sub(encode, text)


def wrap_comment(lines: Iterable[str]) -> str:
    """Return a comment of lines, of which long ones are broken.

    :param lines: escaped where they have texts of a file
    """
    made = []
    for line in lines:
        pieces = textwrap.wrap(line, _WIDTH, break_on_hyphens=False) or [""]
        made += [f" * {piece}".rstrip() for piece in pieces]
    return "\n".join(["/*", *made, " */", ""])
