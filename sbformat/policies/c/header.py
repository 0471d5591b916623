"""The header of a policy in C: sizes, the state, and the functions, with a comment on each argument."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbformat.policies.c.names import escape_comment, wrap_comment
from sbformat.policies.export.metadata import summarize_origin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbformat.policies.c.arguments import Argument, Arguments
    from sbformat.policies.export.lowering import Lowered
    from sbformat.policies.operators import Shape


def write_header(lowered: Lowered, arguments: Arguments, name: str, figures: Sequence[str]) -> str:
    """Return the text of the header.

    :param figures: sentences about memory and time
    """
    guard = f"{name}_H".upper()
    every = (*arguments.inputs, *arguments.states, *arguments.outputs)
    return "\n".join([
        wrap_comment([escape_comment(summarize_origin(lowered.metadata)), "", *figures]),
        f"#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n",
        "/* Items of each array. */",
        *(f"#define {argument.size_name} {argument.size}" for argument in every),
        '\n#ifdef __cplusplus\nextern "C" {\n#endif\n',
        *(_declare_state(arguments, name) if arguments.states else []),
        wrap_comment(_explain(arguments)) + f"{declare_function(arguments, name)};",
        "\n#ifdef __cplusplus\n}\n#endif\n",
        f"#endif /* {guard} */\n",
    ])  # fmt: skip


def declare_function(arguments: Arguments, name: str) -> str:
    """Return the declaration of the function that predicts."""
    parameters = [
        *(f"const {argument.type} *{argument.name}" for argument in arguments.inputs),
        *([f"{name}_state *state"] if arguments.states else []),
        *(f"{argument.type} *{argument.name}" for argument in arguments.outputs),
    ]
    return f"void {name}_predict({', '.join(parameters)})"


def declare_reset(name: str) -> str:
    """Return the declaration of the function that starts an episode."""
    return f"void {name}_reset({name}_state *state)"


def describe_shape(shape: Shape) -> str:
    """Return a shape for a comment."""
    return f"({', '.join(map(str, shape))})"


def _declare_state(arguments: Arguments, name: str) -> list[str]:
    return [
        f"/* What the policy remembers from step to step: one for each environment; {name}_reset starts it. */",
        "typedef struct {",
        *(f"    {state.type} {state.name}[{max(1, state.size)}];" for state in arguments.states),
        f"}} {name}_state;\n",
        "/* Makes a state that of the start of an episode: zeros. */",
        f"{declare_reset(name)};\n",
    ]


def _explain(arguments: Arguments) -> list[str]:
    lines = ["Computes one step. Arrays are in C order: the last index changes fastest.", ""]
    lines += [f"{argument.name}: {_describe(argument)}" for argument in arguments.inputs]
    if arguments.states:
        lines.append("state: read, and replaced by the state after this step")
    return [*lines, *(f"{argument.name}, written: {_describe(argument)}" for argument in arguments.outputs)]


def _describe(argument: Argument) -> str:
    shape = argument.port.shape
    items = f"an array of the shape {describe_shape(shape)}" if shape else "a number"
    dtype = f"{argument.port.dtype} in Python" if argument.port.dtype in ("int64", "uint64") else ""
    return "; ".join(filter(None, (items, dtype, argument.meaning)))
