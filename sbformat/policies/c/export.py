"""``export_c``: a policy as C99 source, to compile where it runs, and its header.

*In*: :class:`~sbformat.policies.export.lowering.Lowered`. *Out*: the text of the file and of its header.

1. :func:`name_arguments` names the arguments of the function. Texts of the file are hostile: of a key of a Dict only
   letters and digits become part of an identifier, after a prefix of ours. In comments, characters that could end the
   comment, join lines or form a trigraph are ``%XX``.
2. :class:`~sbformat.policies.c.calls.Memory` decides where each value is.
3. :class:`~sbformat.policies.c.calls.Writer` turns nodes into calls, and collects the functions that they use.
4. Of the constants, those that a statement names are written; weights of layers with the inputs first.
5. Results are copied to the outputs after the last node, then next states to the state: nothing that a node reads has
   been written before.

At the end, within ``#ifdef``, is a program for tests: numbers from standard input, actions to its output.
"""

from __future__ import annotations

import os
import re
import textwrap
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from sbformat.errors import quote, require_type
from sbformat.immutable import FrozenDict, Record
from sbformat.policies.c.calls import (
    ARRAYS,
    INDENT,
    Memory,
    Place,
    Writer,
    has_turned_weight,
    write_array,
)
from sbformat.policies.c.functions import C_DTYPES, C_TYPES, SIZES, write_part
from sbformat.policies.export.files import NEXT, ExportReport, summarize_origin, write_files
from sbformat.policies.export.lowering import expand, lower, read_types
from sbformat.policies.graph import Node
from sbformat.policies.loading import open_policy
from sbformat.policies.operators import OPERATORS
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sbformat.archive.archive import Archive
    from sbformat.io.opening import SourceLike
    from sbformat.known.spaces import Space
    from sbformat.policies.export.files import Port
    from sbformat.policies.export.lowering import Lowered
    from sbformat.policies.operators import Shape
    from sbformat.policies.run.kernels import Array
    from sbformat.policies.run.policy import Policy


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

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
LONGEST_NAME: Final = 31 - len("_predict")
"""Characters of a name: every C99 compiler distinguishes external identifiers by their first 31."""
_UNSAFE_IN_COMMENT: Final = re.compile(r"[^ -~]|[*\\?%]|//")
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


class Arguments(Record):
    """All arguments."""

    inputs: tuple[Argument, ...]
    """Without states."""
    states: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    """Without next states."""
    next_states: tuple[Port, ...]
    """For each state, the output with its next value."""

    @property
    def arrays(self) -> tuple[Argument, ...]:
        """The parameters of the function that are arrays, in order; the state is between inputs and outputs."""
        return *self.inputs, *self.outputs


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
        tuple(item for item in made if item.port.role == "output"),
        tuple(next_states[f"{NEXT}{port.name}"] for port in states),
    )


def _describe(port: Port, nodes: Sequence[Node], observations: Space, actions: Space) -> str:
    if port.role != "observation" and port.name != "action":
        return _MEANINGS.get(port.role if port.role != "output" else port.name, "")
    space = observations.parts().get(port.key, observations) if port.role == "observation" else actions
    # choices count from 0, not from start (POLICIES.md 19.8)
    text = escape_comment(render_line(space)) + ", counted from 0" * (space.observed == "one-hot")
    if port.role == "observation":
        text += _name_axes(port.value, nodes)
    return text if port.key is None else f"{text}; key {escape_comment(port.key[:80])}"


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
    """Refuse a name that cannot begin the names of C and C++."""
    require_type(name, str, "an identifier of C as name")
    problem = ""
    if not _NAME.fullmatch(name):
        problem = "an identifier of C: ASCII letters, digits and underscores, after a letter"
    elif name in KEYWORDS:
        problem = "a name that is not a keyword of C or C++"
    elif "__" in name or name.endswith("_"):
        problem = "a name without two underscores in a row or one at the end, which C++ reserves"
    elif len(name) > LONGEST_NAME:
        problem = f"a name of at most {LONGEST_NAME} characters"
    if problem:
        raise ValueError(f"expected {problem}, got {quote(name)}")


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
    return _UNSAFE_IN_COMMENT.sub(
        lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass")), text
    )


def wrap_comment(lines: Iterable[str]) -> str:
    """Return a comment of lines, of which long ones are broken.

    :param lines: escaped where they have texts of a file
    """
    pieces = [piece for line in lines for piece in textwrap.wrap(line, _WIDTH, break_on_hyphens=False) or [""]]
    return "\n".join(["/*", *(f" * {piece}".rstrip() for piece in pieces), " */", ""])


_UNSAFE: Final = frozenset("\"'\\?<>")  # characters that an ``#include`` cannot have, or only with some compilers
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def export_c(
    policy: Policy | Archive | SourceLike,
    path: str | os.PathLike[str],
    *,
    name: str = "policy",
    outputs: Iterable[str] = ("action",),
    raw: bool = False,
    deterministic: bool = True,
    overwrite: bool = False,
) -> ExportReport:
    """Write a policy as C99 source: a function from an observation to an action, and a header beside it.

    The source allocates no memory, needs nothing but ``<math.h>`` and ``<stdint.h>``, has the weights as ``static
    const``, and can be compiled as C++17 as well. The function computes in float32::

        void NAME_predict(const float *observation, int32_t *action);

    The header describes the arguments: observations, ``action_masks``, ``episode_start``, the state of a recurrent
    policy (a struct, which ``NAME_reset`` starts), then the outputs. All are arrays without a batch axis. A float64 is
    a ``double``, an integer of 64 bits an ``int32_t``, a bool a ``uint8_t``. With ``-DNAME_MAIN`` the source is a
    program for tests. POLICIES.md 20.

    :param policy: a loaded policy, or what :func:`sbformat.load_policy` takes
    :param path: of the source, which ends in ``.c``; the header has the same name with ``.h``
    :param name: what all names in the source begin with: an identifier in C and C++, with which no argument begins
    :param outputs: names of outputs of the policy's graph, such as ``action``, ``value``, ``logits``
    :param raw: leave out what clips or scales a continuous action to the bounds of its space. Statistics remain: load
        the policy with ``vecnormalize=False`` to leave these out too
    :param deterministic: False is refused: the source has no random numbers
    :param overwrite: replace files that exist
    :return: the files, arguments (with their dtypes in C), and numbers of operations and constants
    :raises ValueError: for a name that C does not have or an argument begins with, another suffix, or an output that
        the policy does not have
    :raises FileExistsError: when one of the two files exists and ``overwrite`` is False
    :raises UnsupportedError: for what cannot be exported: sampled actions, modules that are functions of Python
    :raises ContainerError: when the file has changed since the policy was loaded
    :raises SbformatError: as :func:`sbformat.load_policy`

    Example::

        sbformat.export_c("ppo_cartpole.zip", "policy.c", outputs=("action", "value"))
    """
    check_name(name)
    target, header = _name_files(path)
    opened = open_policy(policy)
    lowered = lower(opened, outputs, raw=raw, deterministic=deterministic)
    arguments = name_arguments(lowered, name, opened.observation_space, opened.action_space)
    for parameter in (argument.name for argument in arguments.arrays):
        if parameter.upper().startswith(f"{name}_".upper()):  # it could be that of a function, type or macro
            other = f"expected another name (--name) than {quote(name)}"
            raise ValueError(f"{other}: the argument {quote(parameter)} begins with it")
    source = write_source(lowered, arguments, name, os.path.basename(header))
    files = write_files({target: source.code.encode(), header: source.header.encode()}, overwrite=overwrite)
    inputs, results = (
        tuple(port._replace(dtype=C_DTYPES.get(port.dtype, port.dtype)) for port in ports)
        for ports in (lowered.inputs, lowered.outputs)
    )
    return ExportReport("c", files, inputs, results, len(lowered.nodes), lowered.constant_count, lowered.metadata)


def _name_files(path: str | os.PathLike[str]) -> tuple[str, str]:
    """Return the paths of the source and the header."""
    text = os.fspath(path)
    base = os.path.basename(text)
    stem, suffix = os.path.splitext(base)
    if suffix.lower() != ".c" or not stem:
        raise ValueError(f"expected a path that ends in .c, got {quote(base)}")
    if not base.isprintable() or _UNSAFE & set(base):
        message = f"expected a file name without quotes, backslashes, question marks and brackets, got {quote(base)}"
        raise ValueError(message)
    return text, text[:-1] + ("h" if suffix == ".c" else "H")


# -- the source ---------------------------------------------------------------------------------------


class Source(Record):
    """The two files."""

    code: str
    header: str


def write_source(lowered: Lowered, arguments: Arguments, name: str, header_name: str) -> Source:
    """Return the C file and its header.

    :param name: what all names begin with
    :param header_name: the name of the header's file
    """
    lowered = expand(lowered, lambda node: OPERATORS[node.op].c is not None, "C")
    nodes, results, copied = _separate_states(lowered)
    types = read_types(lowered._replace(nodes=nodes))
    constants, places, turned = _name_constants(lowered, name)
    places.update({argument.port.value: Place(argument.name) for argument in arguments.inputs})
    places.update({argument.port.value: Place(f"state->{argument.name}") for argument in arguments.states})
    memory = Memory(nodes, places, types, results.values(), copied)
    writer = Writer(name, memory, types, turned)
    body = []
    for node in memory.steps:
        body += [f"/* {escape_comment(node.name[:80])}: {node.op} */", *writer.write(node)]
    # results are copied to outputs, then next states to the state, which nothing reads after that
    copies = [(argument, argument.name, argument.port) for argument in arguments.outputs]
    copies += [(state, f"state->{state.name}", port) for state, port in zip(arguments.states, arguments.next_states)]
    for item, target, port in copies:
        if item.size:
            body.append(writer.copy(item.type, item.size, target, memory.places[results[port.name]]))
    used = {name for line in body if not line.startswith("/*") for name in _IDENTIFIER.findall(line)}
    reset = [writer.clear(item.type, item.size, f"state->{item.name}") for item in arguments.states if item.size]
    kept = {identifier: found for identifier, found in constants.items() if identifier in used}
    flash = sum(array.size * SIZES[C_TYPES[array.dtype.name]] for _, array in kept.values())
    stack = sum(SIZES[kind] * size for kind, size in memory.sizes.items())
    figures = [
        f"Constants: {flash:,} bytes (flash).",
        f"Intermediate values: {stack:,} bytes (stack).",
        f"Multiply-adds of layers: {writer.multiply_adds:,} per call.",
    ]
    parameters = [argument.name for argument in arguments.arrays] + ["state"] * bool(arguments.states)
    variables = [f"{kind} {ARRAYS[kind]}[{size}];" for kind, size in memory.sizes.items()]
    unused = [f"(void){parameter};" for parameter in parameters if parameter not in used]
    parts = [
        _write_title(lowered, f"{name}_predict", header_name, figures),
        f'#include "{header_name}"\n\n#include <math.h>\n#include <stdint.h>\n',
        write_part("unfused"),
    ]
    restrict = f"{name.upper()}_RESTRICT"
    if any(restrict in text for text in writer.definitions.values()):
        parts.append(write_part("restrict", name=restrict))
    for identifier, (key, array) in kept.items():
        title = f"/* {escape_comment(key[:80])}, {describe_shape(array.shape)} */"
        parts.append(f"{title}\n{write_array(identifier, array)}")
    parts += writer.definitions.values()
    if arguments.states:
        parts.append(_write_function(f"void {name}_reset({name}_state *state)", reset or ["(void)state;"]))
    parts.append(_write_function(declare_function(arguments, name), [*variables, *unused, *body]))
    parts.append(write_main(arguments, name))
    return Source("\n".join(parts), write_header(lowered, arguments, name, figures))


def _name_constants(
    lowered: Lowered, name: str
) -> tuple[dict[str, tuple[str, Array]], dict[str, Place], dict[str, Place]]:
    """Return names and arrays of all constants by identifier, and their places: as they are, and with inputs first."""
    constants = {f"{name}_constant_{at}": item for at, item in enumerate(lowered.constants.items())}
    places = {key: Place(identifier) for identifier, (key, _) in constants.items()}
    turned: dict[str, Place] = {}
    for key, op in {node.inputs[1]: node.op for node in lowered.nodes if has_turned_weight(node)}.items():
        array = lowered.constants[key].transpose((1, 0) if op == "Gemm" else (1, 2, 3, 0))
        turned[key] = Place(f"{name}_weight_{len(turned)}")
        constants[turned[key].base] = key, np.ascontiguousarray(array)
    return constants, places, turned


def _separate_states(lowered: Lowered) -> tuple[tuple[Node, ...], dict[str, str], frozenset[str]]:
    """Return nodes, the value of each output by its name, and copies among the nodes.

    A next state that is another state, or a part of one, is copied: that one may be overwritten first.
    """
    roots: dict[str, str] = {port.value: port.role for port in lowered.inputs}
    for node in lowered.nodes:
        if OPERATORS[node.op].view:
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


def _write_title(lowered: Lowered, function: str, header_name: str, figures: Sequence[str]) -> str:
    """Return the comment at the top: what it is, and where it comes from."""
    has_doubles = any(node.dtype == "float64" for node in lowered.nodes)
    precision = "float32 (means are subtracted in double)" if has_doubles else "float32"
    metadata = [escape_comment(f"{key}: {text}") for key, text in lowered.metadata.items()]
    return wrap_comment([
        escape_comment(summarize_origin(lowered.metadata)), "",
        f"{function} computes one step; {escape_comment(header_name)} describes its arguments.",
        f"It is C99 and C++17, in {precision}, without allocation and without state of its own.", "",
        *figures, "", *metadata,
    ])  # fmt: skip


def _write_function(declaration: str, body: Sequence[str]) -> str:
    return "\n".join([declaration, "{", *(f"{INDENT}{line}" for line in body), "}", ""])


# -- the header ---------------------------------------------------------------------------------------


def write_header(lowered: Lowered, arguments: Arguments, name: str, figures: Sequence[str]) -> str:
    """Return the text of the header.

    :param figures: sentences about memory and time
    """
    guard = f"{name}_H".upper()
    every = *arguments.inputs, *arguments.states, *arguments.outputs
    explanation = ["Computes one step. Arrays are in C order: the last index changes fastest.", ""]
    explanation += [f"{argument.name}: {_describe_argument(argument)}" for argument in arguments.inputs]
    explanation += ["state: read, and replaced by the state after this step"] if arguments.states else []
    explanation += [f"{argument.name}, written: {_describe_argument(argument)}" for argument in arguments.outputs]
    members = [f"    {state.type} {state.name}[{max(1, state.size)}];" for state in arguments.states]
    return "\n".join([
        wrap_comment([escape_comment(summarize_origin(lowered.metadata)), "", *figures]),
        f"#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n",
        "/* Items of each array. */",
        *(f"#define {argument.size_name} {argument.size}" for argument in every),
        '\n#ifdef __cplusplus\nextern "C" {\n#endif\n',
        *([write_part("state", name=name, members="\n".join(members))] if members else []),
        wrap_comment(explanation) + f"{declare_function(arguments, name)};",
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


def describe_shape(shape: Shape) -> str:
    """Return a shape for a comment."""
    return f"({', '.join(map(str, shape))})"


def _describe_argument(argument: Argument) -> str:
    shape = argument.port.shape
    items = f"an array of the shape {describe_shape(shape)}" if shape else "a number"
    dtype = f"{argument.port.dtype} in Python" if argument.port.dtype in ("int64", "uint64") else ""
    return "; ".join(filter(None, (items, dtype, argument.meaning)))


# -- the program for tests ----------------------------------------------------------------------------


_RANGES: Final = {
    "uint8_t": ("0.0", "255.0"), "int8_t": ("-128.0", "127.0"), "uint16_t": ("0.0", "65535.0"),
    "int16_t": ("-32768.0", "32767.0"), "uint32_t": ("0.0", "4294967295.0"),
    "int32_t": ("-2147483648.0", "2147483647.0"),
}  # fmt: skip
_CODES: Final = {"float": "%f", "double": "%lf"}
_DIGITS: Final = {"float": 9, "double": 17}


def write_main(arguments: Arguments, name: str) -> str:
    """Return the program, within ``#ifdef``."""
    inputs = [argument for argument in arguments.inputs if argument.size]
    readers = {argument.type: _write_reader(argument.type, name) for argument in inputs}
    variables = [f"    static {item.type} {item.name}[{max(1, item.size)}];" for item in arguments.arrays]
    names = [argument.name for argument in arguments.arrays]
    start = ""
    if arguments.states:
        variables.append(f"    static {name}_state state;")
        names.insert(len(arguments.inputs), "&state")
        start = f"    {name}_reset(&state);\n"
    body: list[str] = []
    for argument in inputs:
        part, reader = "read" if body else "read_first", f"{name}_read_{argument.type.removesuffix('_t')}"
        body.append(write_part(part, name=name, reader=reader, size=argument.size_name, argument=argument.name))
    body = body or [write_part("read_nothing", name=name)]
    body.append(f"        {name}_predict({', '.join(names)});\n")
    for at, item in enumerate(arguments.outputs):
        if item.size:
            separator, digits = '" "' if at else '""', str(_DIGITS.get(item.type, 10))
            body.append(
                write_part("print", size=item.size_name, digits=digits, separator=separator, argument=item.name)
            )
    return write_part(
        "main", upper=name.upper(), name=name, readers="\n".join(readers.values()), variables="\n".join(variables),
        start=start, body="".join(body),
    )  # fmt: skip


def _write_reader(kind: str, name: str) -> str:
    scanned, check, what, converted = kind, "", "a number", "number"
    if kind not in _CODES:
        low, high = _RANGES[kind]
        scanned, what, converted = "double", f"an integer from {low[:-2]} to {high[:-2]}", f"({kind})number"
        check = f" || !(number >= {low} && number <= {high}) || floor(number) != number"
    return write_part(
        "reader", name=name, short=kind.removesuffix("_t"), type=kind, scanned=scanned, code=_CODES[scanned],
        range=check, what=what, converted=converted,
    )  # fmt: skip
