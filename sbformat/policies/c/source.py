"""The C file of a policy: constants, functions, and the function that predicts.

Theory of operation
-------------------
*In*: :class:`~sbformat.policies.export.lowering.Lowered`. *Out*: the text of the file and of its header.

1. :class:`~sbformat.policies.c.memory.Memory` decides where each value is.
2. :class:`~sbformat.policies.c.calls.Writer` turns nodes into calls, and collects the functions that they use.
3. Of the constants, those that a statement names are written; weights of layers with the inputs first.
4. Results are copied to the outputs after the last node, then next states to the state: nothing that a node reads has
   been written before.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from sbformat.immutable import FrozenDict
from sbformat.policies.c.calls import INDENT, Writer, count_scratch, has_turned_weight
from sbformat.policies.c.header import declare_function, declare_reset, describe_shape, write_header
from sbformat.policies.c.memory import ARRAYS, Memory, Place
from sbformat.policies.c.names import escape_comment, wrap_comment
from sbformat.policies.c.numbers import C_TYPES, SIZES, write_array
from sbformat.policies.c.program import write_main
from sbformat.policies.export.metadata import summarize_origin
from sbformat.policies.graph import Node
from sbformat.policies.run.kernels import VIEWS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sbformat.policies.c.arguments import Arguments
    from sbformat.policies.export.lowering import Lowered
    from sbformat.policies.operators import Result
    from sbformat.policies.run.steps import Array

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNFUSED: Final = """\
/* A product is rounded before it is added, also where a processor has an instruction for both. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=off")
#elif defined(_MSC_VER) && !defined(__clang__)
#pragma fp_contract(off)
#else
#pragma STDC FP_CONTRACT OFF
#endif
"""
_RESTRICT: Final = """\
#if defined(__GNUC__) || defined(_MSC_VER)
#define {name} __restrict
#elif !defined(__cplusplus)
#define {name} restrict
#else
#define {name}
#endif
"""


class Source(NamedTuple):
    """The two files."""

    code: str
    header: str


class _Constant(NamedTuple):
    """An array of constants."""

    identifier: str
    name: str
    array: Array


def write_source(lowered: Lowered, arguments: Arguments, name: str, header_name: str) -> Source:
    """Return the C file and its header.

    :param name: what all names begin with
    :param header_name: the name of the header's file
    :raises UnsupportedError: for an operator or a number that C source cannot have
    """
    nodes, results, copied = _separate_states(lowered)
    types = _read_types(lowered, nodes)
    constants, places, turned = _name_constants(lowered, name)
    places.update({argument.port.value: Place(argument.name) for argument in arguments.inputs})
    places.update({argument.port.value: Place(f"state->{argument.name}") for argument in arguments.states})
    scratch = {node.name: count_scratch(node, types) for node in nodes}
    memory = Memory(nodes, places, types, results.values(), scratch, copied)
    writer = Writer(name, memory, types, turned)
    body = [line for node in memory.steps for line in _write_node(node, writer)]
    body += _write_results(arguments, writer, {name: memory.places[value] for name, value in results.items()})
    reset = [writer.clear(state.type, state.size, f"state->{state.name}") for state in arguments.states if state.size]
    used = {name for line in body if not line.startswith("/*") for name in _IDENTIFIER.findall(line)}
    kept = [constant for constant in constants if constant.identifier in used]
    arrays = {ARRAYS[kind]: (kind, size) for kind, size in memory.sizes.items()}
    restrict = f"{name.upper()}_RESTRICT"
    figures = _write_figures(kept, arrays.values(), writer.multiply_adds)
    parts = [
        _write_title(lowered, f"{name}_predict", header_name, figures),
        f'#include "{header_name}"\n\n#include <math.h>\n#include <stdint.h>\n',
        _UNFUSED,
        *([_RESTRICT.format(name=restrict)] if any(restrict in text for text in writer.definitions.values()) else []),
        *(_write_constant(constant) for constant in kept),
        *writer.definitions.values(),
        *([_write_function(declare_reset(name), [], reset or ["(void)state;"])] if arguments.states else []),
        _write_function(
            declare_function(arguments, name),
            [f"{kind} {array}[{size}];" for array, (kind, size) in arrays.items()],
            [*(f"(void){unused};" for unused in _find_unused(arguments, used)), *body],
        ),
        write_main(arguments, name),
    ]
    return Source("\n".join(parts), write_header(lowered, arguments, name, figures))


def _write_results(arguments: Arguments, writer: Writer, sources: Mapping[str, Place]) -> list[str]:
    """Return the statements that copy results to outputs, then next states to the state."""
    copies = [(argument, argument.name, sources[argument.port.name]) for argument in arguments.outputs]
    for state, port in zip(arguments.states, arguments.next_states):
        copies.append((state, f"state->{state.name}", sources[port.name]))
    return [writer.copy(item.type, item.size, target, str(source)) for item, target, source in copies if item.size]


def _name_constants(lowered: Lowered, name: str) -> tuple[list[_Constant], dict[str, Place], dict[str, Place]]:
    """Return all constants, and their places: as they are, and of layers with the inputs first."""
    constants: list[_Constant] = []
    places: dict[str, Place] = {}
    turned: dict[str, Place] = {}
    for at, (key, array) in enumerate(lowered.constants.items()):
        constants.append(_Constant(f"{name}_constant_{at}", key, array))
        places[key] = Place(constants[-1].identifier)
    for node in lowered.nodes:
        key = node.inputs[1] if has_turned_weight(node) else ""
        if has_turned_weight(node) and key not in turned:
            array = lowered.constants[key]
            axes = (1, 0) if node.op == "Gemm" else (1, 2, 3, 0)
            constants.append(
                _Constant(f"{name}_weight_{len(turned)}", key, np.ascontiguousarray(array.transpose(axes)))
            )
            turned[key] = Place(constants[-1].identifier)
    return constants, places, turned


def _separate_states(lowered: Lowered) -> tuple[tuple[Node, ...], dict[str, str], frozenset[str]]:
    """Return nodes, the value of each output by its name, and copies among the nodes.

    A next state that is another state, or a part of one, is copied: that one may be overwritten first.
    """
    roots: dict[str, str] = {port.value: port.role for port in lowered.inputs}
    for node in lowered.nodes:
        if node.op in VIEWS:
            roots[node.name] = roots.get(node.inputs[0], "")
    made, results = [], {}
    taken = {*roots, *lowered.constants, *(node.name for node in lowered.nodes)}
    for port in lowered.outputs:
        results[port.name] = port.value
        if roots.get(port.value) == "state":
            name = f"copy of {port.value}"
            while name in taken:
                name += "'"
            taken.add(name)
            results[port.name] = name
            made.append(Node(name, "Identity", (port.value,), FrozenDict(), port.dtype, port.shape))
    return (*lowered.nodes, *made), results, frozenset(node.name for node in made)


def _read_types(lowered: Lowered, nodes: Iterable[Node]) -> dict[str, Result]:
    """Return the dtype and shape of each value."""
    types: dict[str, Result] = {port.value: (port.dtype, port.shape) for port in lowered.inputs}
    types.update({name: (array.dtype.name, array.shape) for name, array in lowered.constants.items()})
    types.update({node.name: (node.dtype, node.shape) for node in nodes})
    return types


def _write_figures(constants: Iterable[_Constant], arrays: Iterable[tuple[str, int]], multiply_adds: int) -> list[str]:
    """Return sentences about memory and time."""
    flash = sum(constant.array.size * SIZES[C_TYPES[constant.array.dtype.name]] for constant in constants)
    return [
        f"Constants: {flash:,} bytes (flash).",
        f"Intermediate values: {sum(SIZES[kind] * size for kind, size in arrays):,} bytes (stack).",
        f"Multiply-adds of layers: {multiply_adds:,} per call.",
    ]


def _find_unused(arguments: Arguments, used: set[str]) -> list[str]:
    names = [argument.name for argument in (*arguments.inputs, *arguments.outputs)]
    return [name for name in (*names, *(["state"] if arguments.states else [])) if name not in used]


def _write_title(lowered: Lowered, function: str, header_name: str, figures: Sequence[str]) -> str:
    """Return the comment at the top: what it is, and where it comes from."""
    precision = "float32 (means are subtracted in double)" if _has_doubles(lowered) else "float32"
    metadata = [escape_comment(f"{key}: {text}") for key, text in lowered.metadata.items()]
    return wrap_comment([
        escape_comment(summarize_origin(lowered.metadata)), "",
        f"{function} computes one step; {escape_comment(header_name)} describes its arguments.",
        f"It is C99 and C++17, in {precision}, without allocation and without state of its own.", "",
        *figures, "", *metadata,
    ])  # fmt: skip


def _has_doubles(lowered: Lowered) -> bool:
    return any(node.dtype == "float64" for node in lowered.nodes)


def _write_constant(constant: _Constant) -> str:
    title = f"/* {escape_comment(constant.name[:80])}, {describe_shape(constant.array.shape)} */"
    return f"{title}\n{write_array(constant.identifier, constant.array)}"


def _write_node(node: Node, writer: Writer) -> list[str]:
    return [f"/* {escape_comment(node.name[:80])}: {node.op} */", *writer.write(node)]


def _write_function(declaration: str, variables: Sequence[str], body: Sequence[str]) -> str:
    lines = [f"{INDENT}{line}" for line in (*variables, *body)]
    return "\n".join([declaration, "{", *lines, "}", ""])
