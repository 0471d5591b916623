"""Expressions and names of a generated module: what a node computes, as text, and the lines of a statement."""

from __future__ import annotations

import ast
import builtins
import itertools
import keyword
import re
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, Final

from sbformat.immutable import Record
from sbformat.policies.operators import OPERATORS

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from sbformat.policies.graph import Node
    from sbformat.policies.operators import Shape

WIDTH: Final = 88
LONGEST: Final = 32
"""Characters of a name."""
_NUMBER: Final = re.compile(r"-?(math\.(inf|nan)|[0-9][0-9.e+-]*)|True|False")
_LARGE: Final = 1e5
"""Numbers from here are written with an exponent."""


# -- templates ----------------------------------------------------------------------------------------


def fill(template: str, **parts: Any) -> str:
    """Return an expression whose names are replaced, with the parentheses that it needs and no others.

    A part is an expression, a number, or a list of these; ``*name`` stands for the items of a list.

    >>> fill("f(x * y, *rest)", x="a + b", y="c * d", rest=["e", 1e8])
    'f((a + b) * (c * d), e, 1e8)'
    """
    known = {name: ast.parse(write_literal(part), mode="eval").body for name, part in parts.items()}
    return write_expression(_Fill(known).visit(ast.parse(template, mode="eval").body))


class _Fill(ast.NodeTransformer):
    def __init__(self, parts: Mapping[str, ast.expr]) -> None:
        self._parts = parts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._parts.get(node.id, node)

    def visit_Starred(self, node: Any) -> list[ast.expr]:
        items: Any = self._parts[node.value.id]
        return list(items.elts)


class _Constants(ast.NodeTransformer):
    """Replaces numbers and strings by their text here, which :mod:`ast` would write otherwise."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if not isinstance(node.value, (str, float)):
            return node
        return ast.Name(write_string(node.value) if isinstance(node.value, str) else write_literal(node.value))


def write_expression(expression: ast.AST) -> str:
    """Return the text of an expression."""
    return ast.unparse(_Constants().visit(expression))


def write_literal(value: Any) -> str:
    """Return a number, or a list of numbers and expressions, as an expression; infinity and NaN by ``math``."""
    if isinstance(value, str):
        return value
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(write_literal, value))}]"
    text = repr(value)
    if isinstance(value, float):
        if not isfinite(value):
            return "math.nan" if isnan(value) else "math.inf" if value > 0 else "-math.inf"
        short = f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
        if abs(value) > _LARGE and len(short) < len(text) and float(short) == value:
            return short  # 1e8 instead of 100000000.0
    return text


def write_string(text: str) -> str:
    """Return a text of a file as a string in Python, in ASCII; no quote of it remains."""
    escaped = text.encode("unicode_escape").decode("ascii")
    return '"' + escaped.replace('"', "\\x22") + '"'


def is_number(text: str) -> bool:
    """Return whether an expression is a number."""
    return bool(_NUMBER.fullmatch(text))


def split_brackets(text: str) -> tuple[str, list[str], str]:
    """Return what a call, a list or an index is up to its items, the items, and the bracket after them.

    >>> split_brackets("x.clamp(0.0, max=1.0)"), split_brackets("x + f(y)")
    (('x.clamp(', ['0.0', 'max=1.0'], ')'), ('(', ['x + f(y)'], ')'))
    """
    statement: Any = ast.parse(text).body[0]
    match statement.value:
        case ast.Call(ast.Attribute(ast.Call() | ast.Subscript() as value, name), [], []):
            opening, items, close = split_brackets(write_expression(value))
            return opening, items, f"{close}.{name}()"
        case ast.Call(function, items, keywords):
            return f"{write_expression(function)}(", list(map(write_expression, [*items, *keywords])), ")"
        case ast.Tuple(items):
            return "(", list(map(write_expression, items)), ")"
        case ast.List(items):
            return "[", list(map(write_expression, items)), "]"
        case ast.Subscript(_, index):
            written = write_expression(index)
            written = written[1:-1] if isinstance(index, ast.Tuple) else written
            return write_expression(statement.value)[: -len(written) - 1], [written], "]"
    return "(", [text], ")"


# -- operators ----------------------------------------------------------------------------------------


class Operand(Record):
    """An operand of a node, in the terms of a module."""

    x: str
    shape: Shape
    is_batch: bool
    """Whether it has a batch axis, which what depends on weights alone does not have."""


def write_node(node: Node, operands: Sequence[Operand]) -> str:
    """Return what a node computes, by the column ``torch`` of its operator."""
    row = OPERATORS[node.op]
    if row.is_elementwise:
        operands = [_align(operand, len(node.shape)) for operand in operands]
    if row.torch.startswith("write_"):
        function: Callable[..., str] = globals()[row.torch]
        return function(node, *operands)
    if row.torch.isidentifier() and len(row.torch) > 1:  # a reduction
        keep = ", keepdim=True" * node.attributes.get("keepdims", False)
        return fill(f"x.{row.torch}(axis{keep})", x=operands[0].x, axis=node.attributes["axis"])
    named = dict(zip("xyz", (operand.x for operand in operands)))
    return fill(row.torch, **named, **{"shape": node.shape, **node.attributes})


def _align(operand: Operand, rank: int) -> Operand:
    """Return an operand with axes after that of the batch, up to the rank of the result."""
    missing = rank - len(operand.shape) if operand.is_batch else 0
    return operand._replace(x=fill("x" + ".unsqueeze(1)" * missing, x=operand.x))


def write_cast(node: Node, x: Operand) -> str:
    """Return ``Cast``."""
    return fill(find_cast(node.dtype), x=x.x)


def find_cast(dtype: str) -> str:
    """Return the template of a conversion to a dtype."""
    methods = {"float32": "float()", "float64": "double()", "int64": "long()"}
    return f"x.{methods.get(dtype, f'to(torch.{dtype})')}"


def write_division(node: Node, x: Operand, y: Operand) -> str:
    """Return ``Div``; integers are truncated."""
    template = "x / y" if node.dtype.startswith("float") else 'torch.div(x, y, rounding_mode="trunc")'
    return fill(template, x=x.x, y=y.x)


def write_bound(node: Node, x: Operand, y: Operand) -> str:
    """Return ``Max`` or ``Min``; one after the other is ``clamp``."""
    x, y = (y, x) if is_number(x.x) else (x, y)
    opening, items, _ = split_brackets(x.x)
    if node.op == "Min" and is_number(y.x) and opening.endswith(".clamp(") and len(items) == 1:
        return fill(f"{opening}low, y)", low=items[0].removeprefix("min="), y=y.x)
    if node.op == "Min" and not y.is_batch and opening == "torch.maximum(":
        return fill("torch.clamp(*bounds)", bounds=[*items, y.x])
    side, name = ("min", "maximum") if node.op == "Max" else ("max", "minimum")
    return fill(f"x.clamp({side}=y)" if is_number(y.x) else f"torch.{name}(x, y)", x=x.x, y=y.x)


def write_choice(node: Node, condition: Operand, x: Operand, y: Operand) -> str:
    """Return ``Where``; a number for what is not chosen is ``masked_fill``."""
    is_fill = is_number(y.x) and x.shape == condition.shape == node.shape and x.is_batch == condition.is_batch
    template = "x.masked_fill(~c, y)" if is_fill else "torch.where(c, x, y)"
    return fill(template, c=condition.x, x=x.x, y=y.x)


def write_transpose(node: Node, x: Operand) -> str:
    """Return ``Transpose``."""
    axes = node.attributes["axes"]
    return fill("x.permute(*axes)", x=x.x, axes=[0, *(axis + 1 for axis in axes)] if x.is_batch else axes)


def write_reshape(node: Node, x: Operand) -> str:
    """Return ``Reshape``, by the method that says what changes."""
    shape = node.shape
    if x.is_batch and len(shape) == 1 < len(x.shape):
        return fill("x.flatten(1)", x=x.x)
    for axis in (-1, -2):
        if len(shape) >= -axis and shape[axis] == 1 and x.shape == shape[:axis] + shape[len(shape) + axis + 1 :]:
            return fill("x.unsqueeze(axis)", x=x.x, axis=axis)
    if x.shape == (*shape, 1):
        return fill("x.squeeze(-1)", x=x.x)
    batch = [fill("x.shape[0]", x=x.x) if 0 in shape else -1] * x.is_batch
    return fill("x.reshape(*sizes)", x=x.x, sizes=[*batch, *shape] or [[]])


def write_concat(node: Node, *operands: Operand) -> str:
    """Return ``Concat``; of rows of their own it is ``stack``."""
    axis = node.attributes["axis"]
    if len(operands) == 1:
        return operands[0].x
    parts = [operand.x for operand in operands]
    whole = next((operand for operand in operands if operand.is_batch), None)
    if whole is not None:
        count = fill("x.shape[0]", x=whole.x)
        parts = [
            operand.x if operand.is_batch else fill("x.expand(*sizes)", x=operand.x, sizes=[count, *operand.shape])
            for operand in operands
        ]
    end = f".unsqueeze({axis})"
    if all(part.endswith(end) and split_brackets(part)[0] == f"{part.removesuffix(end)}.unsqueeze(" for part in parts):
        return fill("torch.stack(rows, axis)", rows=[part.removesuffix(end) for part in parts], axis=axis)
    return fill("torch.cat(parts, axis)", parts=parts, axis=axis)


def write_slice(node: Node, x: Operand) -> str:
    """Return ``Slice``."""
    axis, start, end = (node.attributes[name] for name in ("axis", "start", "end"))
    if axis == -1:
        return fill("x[..., start:end]", x=x.x, start=start, end=end)
    return fill("x.narrow(axis, start, count)", x=x.x, axis=axis, start=start, count=end - start)


def write_linear(node: Node, x: Operand, weight: Operand, *bias: Operand) -> str:
    """Return a ``Gemm`` whose weights are not those of a layer."""
    made = fill("F.linear(x, w)" if node.attributes["transB"] else "x @ w", x=x.x, w=weight.x)
    return fill("x + b", x=made, b=bias[0].x) if bias else made


def write_convolution(node: Node, x: Operand, *weights: Operand) -> str:
    """Return a ``Conv`` whose weights are not those of a layer."""
    top, left, bottom, right = node.attributes["pads"]
    image = "F.pad(x, pads)" if any(node.attributes["pads"]) else "x"
    return fill(
        f"F.conv2d({image}, *weights, stride=strides)", x=x.x, pads=[left, right, top, bottom],
        weights=[weight.x for weight in weights], strides=node.attributes["strides"],
    )  # fmt: skip


# -- names --------------------------------------------------------------------------------------------

_MODULE: Final = frozenset({
    "T_destination", "apply", "bfloat16", "bool", "buffers", "children", "code", "code_with_constants", "compile",
    "cpu", "cuda", "define", "double", "eval", "extra_repr", "float", "forward", "forward_magic_method", "graph",
    "graph_for", "half", "hpu", "inlined_graph", "ipu", "modules", "mtia", "original_name", "parameters", "save",
    "state_dict", "to", "to_empty", "train", "training", "type", "xpu",
})  # fmt: skip
"""Attributes of ``nn.Module`` and ``torch.jit.ScriptModule``; the others begin with a verb."""
_VERB: Final = re.compile("(add|call|dump|get|load|named|register|requires|save|set|share|zero)_")
OWN: Final = frozenset(["load", "act", "reset_noise", "initial_state", "noise", "action_low", "action_high"])
GLOBALS: Final = frozenset({
    "F", "Final", "NamedTuple", "Outputs", "Policy", "State", "Tensor", "load_file", "math", "nn", "part", "torch",
})  # fmt: skip
"""Names of a generated module, and the variable of its loops."""
_SAFE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def make_identifier(text: str, prefix: str, taken: Iterable[str] = ()) -> str:
    """Return an identifier for a text of a file: itself if it is one that has no meaning, or letters and digits of it.

    >>> make_identifier("pi_fc0", "module"), make_identifier("train", "module"), make_identifier("a'; b", "module")
    ('pi_fc0', 'module_train', 'module_a_b')
    """
    reserved = _MODULE | OWN | {"self", *keyword.kwlist, *keyword.softkwlist, *taken}
    is_safe = _SAFE.fullmatch(text) and len(text) <= LONGEST and "__" not in text and not _VERB.match(text)
    made = text
    if not is_safe or text in reserved:
        made = "_".join([prefix, *re.findall(r"[A-Za-z0-9]+", text)])[:LONGEST].strip("_")
    return number_name(made, reserved)


def number_name(name: str, taken: Container[str], separator: str = "_") -> str:
    """Return a name, with a number if it is taken."""
    names = (name + f"{separator}{number}" * (number > 1) for number in itertools.count(1))
    return next(name for name in names if name not in taken)


def make_class_name(text: str, taken: Iterable[str]) -> str:
    """Return the name of a class: ``mlp_extractor`` is ``MlpExtractor``."""
    made = "".join(part[0].upper() + part[1:] for part in text.split("_") if part) or "Module"
    return number_name(made, {*taken, *GLOBALS, *dir(builtins), *keyword.kwlist}, "")


# -- lines --------------------------------------------------------------------------------------------


def break_line(start: str, text: str, end: str = "", comment: str = "") -> list[str]:
    """Return a statement or an argument in lines, broken as ``ruff format`` does.

    :param start: what precedes the expression, with its indentation
    :param text: the expression
    """
    for tail in (end + comment, end):
        if len(start + text + tail) <= WIDTH:
            return [start + text + tail]
    indent = " " * (len(start) - len(start.lstrip()))
    inner = f"{indent}    "
    opening, items, close = split_brackets(text)
    is_chain = ")." in opening and split_brackets(opening.rpartition(".")[0])[0] != "("
    if is_chain and len(inner + text) <= WIDTH:
        opening, items, close = "(", [text], ")"
    if opening == "(" and start.isspace():
        return [start + text + end]
    lines = [inner + ", ".join(items)]
    is_list = opening == "[" or (opening != "(" and close[0] != "]")  # a comma after an index would change it
    if opening == "(" and text.startswith("["):  # a loop
        opening, lines, close = "[", [inner + text[1:-1].replace(" for ", f"\n{inner}for ")], "]"
    elif (len(items) > 1 and opening == "(") or (is_list and len(lines[0]) > WIDTH):
        lines = [line for item in items for line in break_line(inner, item, ",")]
    return [start + opening, *lines, indent + close + end + comment]


def write_head(name: str, parameters: Sequence[str], returned: str) -> str:
    """Return the head of a method, in one line or with a line for each parameter."""
    whole = f"    def {name}({', '.join(('self', *parameters))}) -> {returned}:"
    rows = "".join(f"        {part},\n" for part in ("self", *parameters))
    last = f"    ) -> {returned}:"
    if len(last) > WIDTH:  # many tensors
        last = "    ) -> tuple[\n" + "        Tensor,\n" * returned.count("Tensor") + "    ]:"
    return whole if len(whole) <= WIDTH else f"    def {name}(\n{rows}{last}"


def escape_text(text: str) -> str:
    """Return a text for a comment or docstring: without quotes, backslashes and line breaks."""
    return re.sub(r"[^ -~]|[\"\\%]", lambda found: f"%{ord(found[0]):02X}", text)


def render_shape(shape: Shape) -> str:
    """Return the shape of a batch for a comment."""
    return f"({', '.join(map(str, ('batch', *shape)))})" if shape else "(batch,)"
