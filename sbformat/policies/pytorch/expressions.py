"""Expressions and names of a generated module: what a node computes, as a tree of :mod:`ast`, and lines of text."""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import itertools
import keyword
import re
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, Final

from sbformat.immutable import Record
from sbformat.policies.operators import OPERATORS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sbformat.policies.graph import Node
    from sbformat.policies.operators import Shape

WIDTH: Final = 88
_NUMBER: Final = re.compile(r"-?(math\.(inf|nan)|[0-9][0-9.e+-]*)|True|False")
_LARGE: Final = 1e5
"""Numbers from here are written with an exponent."""
LONGEST: Final = 32
"""Characters of a name."""


# -- expressions --------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def parse(template: str) -> ast.expr:
    """Return a template as an expression."""
    return ast.parse(template, mode="eval").body


class _Fill(ast.NodeTransformer):
    def __init__(self, parts: Mapping[str, ast.expr]) -> None:
        self._parts = parts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._parts.get(node.id, node)


def fill(template: str, **parts: Any) -> ast.expr:
    """Return an expression whose names are replaced, by expressions or by numbers."""
    made = {name: part if isinstance(part, ast.expr) else make_literal(part) for name, part in parts.items()}
    filled: ast.expr = _Fill(made).visit(copy.deepcopy(parse(template)))
    return filled


def make_literal(value: Any) -> ast.expr:
    """Return a number, or a list of numbers, as an expression; infinity and NaN by the module ``math``."""
    if isinstance(value, (tuple, list)):
        return ast.List([make_literal(item) for item in value], ast.Load())
    if isinstance(value, float) and not isfinite(value):
        return parse("math.nan" if isnan(value) else "math.inf" if value > 0 else "-math.inf")
    text = min(repr(value), f"{value:.0e}".replace("e+0", "e").replace("e+", "e"), key=len)
    if isinstance(value, float) and abs(value) > _LARGE and len(text) < len(repr(value)) and float(text) == value:
        return ast.Name(text, ast.Load())  # 1e8 instead of 100000000.0
    return parse(repr(value)) if value < 0 else ast.Constant(value)


def unparse(expression: ast.expr) -> str:
    """Return the text of an expression, without strings of a file."""
    return ast.unparse(ast.fix_missing_locations(expression)).replace("'", '"')


def is_literal(expression: ast.expr) -> bool:
    """Return whether an expression is a number."""
    return bool(_NUMBER.fullmatch(unparse(expression)))


class Operand(Record):
    """An operand of a node, in the terms of a module."""

    x: ast.expr
    shape: Shape
    is_batch: bool
    """Whether it has a batch axis, which what depends on weights alone does not have."""


def make_call(target: str, operands: Iterable[ast.expr], **parts: ast.expr) -> ast.expr:
    """Return a call of a function, whose text is a template."""
    made: Any = fill(f"{target}()", **parts)
    made.args = list(operands)
    return made  # type: ignore[no-any-return]


CASTS: Final = {"float32": "x.float()", "float64": "x.double()", "int64": "x.long()"}


def write_cast(node: Node, x: Operand) -> ast.expr:
    """Write ``Cast``."""
    return fill(CASTS.get(node.dtype, f"x.to(torch.{node.dtype})"), x=x.x)


def write_division(node: Node, x: Operand, y: Operand) -> ast.expr:
    """Write ``Div``; integers are truncated."""
    template = "x / y" if node.dtype.startswith("float") else 'torch.div(x, y, rounding_mode="trunc")'
    return fill(template, x=x.x, y=y.x)


def write_bound(node: Node, x: Operand, y: Operand) -> ast.expr:
    """Write ``Max`` and ``Min``; one after the other is ``clamp``."""
    if is_literal(x.x):
        x, y = y, x
    inner: Any = x.x
    name = unparse(inner.func) if isinstance(inner, ast.Call) else ""
    is_number = is_literal(y.x)
    if node.op == "Min" and is_number and name.endswith(".clamp") and len(inner.keywords) == 1:
        return make_call("x.clamp", [inner.keywords[0].value, y.x], x=inner.func.value)
    if node.op == "Min" and not y.is_batch and name == "torch.maximum":
        return make_call("torch.clamp", [*inner.args, y.x])
    if is_number:
        return fill("x.clamp(min=y)" if node.op == "Max" else "x.clamp(max=y)", x=x.x, y=y.x)
    return fill("torch.maximum(x, y)" if node.op == "Max" else "torch.minimum(x, y)", x=x.x, y=y.x)


def write_choice(node: Node, condition: Operand, x: Operand, y: Operand) -> ast.expr:
    """Write ``Where``; a number for what is not chosen is ``masked_fill``."""
    if is_literal(y.x) and x.shape == condition.shape == node.shape and x.is_batch == condition.is_batch:
        return fill("x.masked_fill(~c, y)", c=condition.x, x=x.x, y=y.x)
    return fill("torch.where(c, x, y)", c=condition.x, x=x.x, y=y.x)


def write_transpose(node: Node, x: Operand) -> ast.expr:
    """Write ``Transpose``."""
    axes = node.attributes["axes"]
    numbers = [0, *(axis + 1 for axis in axes)] if x.is_batch else axes
    return make_call("x.permute", map(make_literal, numbers), x=x.x)


def write_reshape(node: Node, x: Operand) -> ast.expr:
    """Write ``Reshape``, by the method that says what changes."""
    shape = node.shape
    if x.is_batch and len(shape) == 1 < len(x.shape):
        return fill("x.flatten(1)", x=x.x)
    for axis in (-1, -2):
        if len(shape) >= -axis and shape[axis] == 1 and x.shape == shape[:axis] + shape[len(shape) + axis + 1 :]:
            return fill("x.unsqueeze(a)", x=x.x, a=axis)
    if x.shape == (*shape, 1):
        return fill("x.squeeze(-1)", x=x.x)
    batch = [fill("x.shape[0]", x=x.x) if 0 in shape else make_literal(-1)] * x.is_batch
    return make_call("x.reshape", [*batch, *map(make_literal, shape)] or [make_literal([])], x=x.x)


def write_concat(node: Node, *operands: Operand) -> ast.expr:
    """Write ``Concat``; of rows of their own it is ``stack``."""
    axis = node.attributes["axis"]
    parts = [operand.x for operand in operands]
    if any(operand.is_batch for operand in operands):
        whole = next(operand for operand in operands if operand.is_batch)
        count = fill("x.shape[0]", x=whole.x)
        for at, operand in enumerate(operands):
            if not operand.is_batch:
                parts[at] = make_call("x.expand", [count, *map(make_literal, operand.shape)], x=operand.x)
    rows: list[Any] = parts
    if all(isinstance(row, ast.Call) and unparse(row).endswith(f".unsqueeze({axis})") for row in rows):
        return fill("torch.stack(parts, axis)", parts=ast.List([row.func.value for row in rows], ast.Load()), axis=axis)
    return fill("torch.cat(parts, axis)", parts=ast.List(parts, ast.Load()), axis=axis)


def write_slice(node: Node, x: Operand) -> ast.expr:
    """Write ``Slice``."""
    axis, start, end = (node.attributes[name] for name in ("axis", "start", "end"))
    if axis == -1:
        return fill("x[..., start:end]", x=x.x, start=start, end=end)
    return fill("x.narrow(axis, start, count)", x=x.x, axis=axis, start=start, count=end - start)


def write_linear(node: Node, x: Operand, weight: Operand, *bias: Operand) -> ast.expr:
    """Write a ``Gemm`` whose weights are not those of a layer."""
    template = "F.linear(x, w)" if node.attributes["transB"] else "x @ w"
    made = fill(template, x=x.x, w=weight.x)
    return fill("y + b", y=made, b=bias[0].x) if bias else made


def write_convolution(node: Node, x: Operand, *weights: Operand) -> ast.expr:
    """Write a ``Conv`` whose weights are not those of a layer."""
    top, left, bottom, right = node.attributes["pads"]
    image = fill("F.pad(x, pads)", x=x.x, pads=(left, right, top, bottom)) if any(node.attributes["pads"]) else x.x
    parts = [operand.x for operand in weights]
    made: Any = make_call("F.conv2d", [image, *parts])
    made.keywords = [ast.keyword("stride", make_literal(node.attributes["strides"]))]
    return made  # type: ignore[no-any-return]


def write_normalization(node: Node, x: Operand, scale: Operand, bias: Operand) -> ast.expr:
    """Write a ``LayerNormalization`` whose weights are not those of a layer."""
    shape, epsilon = node.shape, node.attributes["epsilon"]
    return fill("F.layer_norm(x, shape, scale, bias, e)", x=x.x, shape=shape, scale=scale.x, bias=bias.x, e=epsilon)


def write_node(node: Node, operands: Sequence[Operand]) -> ast.expr:
    """Return what a node computes, by the column ``torch`` of its operator."""
    row = OPERATORS[node.op]
    if row.is_elementwise:
        operands = [_align(operand, len(node.shape)) for operand in operands]
    if row.torch.startswith("write_"):
        function: Callable[..., ast.expr] = globals()[row.torch]
        return function(node, *operands)
    if row.torch.isidentifier() and len(row.torch) > 1:  # a reduction
        made: Any = fill(f"x.{row.torch}(axis)", x=operands[0].x, axis=node.attributes["axis"])
        if node.attributes.get("keepdims", False):
            made.keywords = [ast.keyword("keepdim", make_literal(True))]
        return made  # type: ignore[no-any-return]
    return fill(row.torch, **dict(zip("xy", (operand.x for operand in operands))), **node.attributes)


def _align(operand: Operand, rank: int) -> Operand:
    """Return an operand with axes after that of the batch, up to the rank of the result."""
    x = operand.x
    if operand.is_batch:
        for _ in range(rank - len(operand.shape)):
            x = fill("x.unsqueeze(1)", x=x)
    return operand._replace(x=x)


# -- names --------------------------------------------------------------------------------------------


_MODULE: Final = frozenset({
    "T_destination", "add_module", "apply", "bfloat16", "bool", "buffers", "call_super_init", "children", "compile",
    "cpu", "cuda", "double", "dump_patches", "eval", "extra_repr", "float", "forward", "get_buffer",
    "get_extra_state", "get_parameter", "get_submodule", "half", "hpu", "ipu", "load_state_dict", "modules", "mtia",
    "named_buffers", "named_children", "named_modules", "named_parameters", "parameters", "register_backward_hook",
    "register_buffer", "register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook",
    "register_full_backward_pre_hook", "register_load_state_dict_post_hook", "register_load_state_dict_pre_hook",
    "register_module", "register_parameter", "register_state_dict_post_hook", "register_state_dict_pre_hook",
    "requires_grad_", "set_extra_state", "set_submodule", "share_memory", "state_dict", "to", "to_empty", "train",
    "training", "type", "xpu", "zero_grad", "code", "code_with_constants", "define", "forward_magic_method",
    "get_debug_state", "graph", "graph_for", "inlined_graph", "original_name", "save", "save_to_buffer",
})  # fmt: skip
"""Attributes of ``nn.Module`` and ``torch.jit.ScriptModule``."""
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
    reserved = _MODULE | OWN | {"self", *taken}
    is_safe = _SAFE.fullmatch(text) and len(text) <= LONGEST and "__" not in text
    made = text
    if not is_safe or keyword.iskeyword(text) or keyword.issoftkeyword(text) or text in reserved:
        made = "_".join([prefix, *re.findall(r"[A-Za-z0-9]+", text)])[:LONGEST].strip("_")
    names = (made if number == 1 else f"{made}_{number}" for number in itertools.count(1))
    return next(name for name in names if name not in reserved)


def make_class_name(text: str, taken: Iterable[str]) -> str:
    """Return the name of a class: ``mlp_extractor`` is ``MlpExtractor``."""
    made = "".join(part[0].upper() + part[1:] for part in text.split("_") if part) or "Module"
    names = (made if number == 1 else f"{made}{number}" for number in itertools.count(1))
    used = {*taken, *GLOBALS, *dir(builtins), *keyword.kwlist}
    return next(name for name in names if name not in used)


def split_path(text: str) -> tuple[str, ...]:
    """Return the modules around a tensor, and its name: of SB3 with dots, of SB2 and SBX with slashes."""
    return tuple(part for part in re.split(r"[./]", text.removesuffix(":0")) if part)


# -- text ---------------------------------------------------------------------------------------------


def break_line(start: str, expression: ast.expr, comment: str = "") -> list[str]:
    """Return an assignment or a return in lines, broken as ``ruff format`` does.

    :param start: what precedes the expression, with its indentation
    """
    text, end = unparse(expression), f"  # {comment}" if comment else ""
    if isinstance(expression, ast.Tuple):
        text = text[1:-1]
    if len(start + text + end) <= WIDTH:
        return [start + text + end]
    if len(start + text) <= WIDTH:
        return [start + text]
    lines = _break_expression(start, expression)
    return [*lines[:-1], lines[-1] + end]


def _break_expression(start: str, expression: ast.expr, end: str = "") -> list[str]:
    """Return an expression that is longer than a line."""
    node: Any = expression
    indent = " " * (len(start) - len(start.lstrip()))
    inner = f"{indent}    "
    if isinstance(node, ast.ListComp):
        loop = node.generators[0]
        rows = [unparse(node.elt), f"for {unparse(loop.target)} in {unparse(loop.iter)}"]
        return [f"{start}[", *(inner + row for row in rows), f"{indent}]{end}"]
    if isinstance(node, ast.Subscript):
        return [f"{start}{unparse(node.value)}[", inner + unparse(node.slice), f"{indent}]{end}"]
    is_chain = isinstance(getattr(getattr(node, "func", None), "value", None), ast.Call)
    if isinstance(node, (ast.Call, ast.List)) and not (is_chain and len(inner + unparse(node)) <= WIDTH):
        open_bracket, close = ("(", ")") if isinstance(node, ast.Call) else ("[", "]")
        head = start + (unparse(node.func) if isinstance(node, ast.Call) else "") + open_bracket
        items = node.args if isinstance(node, ast.Call) else node.elts
        keywords = [f"{part.arg}={unparse(part.value)}" for part in getattr(node, "keywords", ())]
        texts = [*map(unparse, items), *keywords]
        if len(inner + ", ".join(texts)) <= WIDTH:
            return [head, inner + ", ".join(texts), f"{indent}{close}{end}"]
        lines = [head]
        for item, text in zip(items, texts):
            is_short = len(f"{inner}{text},") <= WIDTH
            lines += [f"{inner}{text},"] if is_short else _break_expression(inner, item, ",")
        return [*lines, *(f"{inner}{text}," for text in keywords), f"{indent}{close}{end}"]
    if start.isspace():
        return [f"{start}{unparse(node)}{end}"]
    return [f"{start}(", inner + unparse(node), f"{indent}){end}"]


def break_call(start: str, arguments: Sequence[str], indent: str) -> list[str]:
    """Return a call of our own, in one line or with its arguments in one."""
    whole = f"{start}({', '.join(arguments)})"
    return [whole] if len(whole) <= WIDTH else [f"{start}(", f"{indent}    {', '.join(arguments)}", f"{indent})"]


def write_string(text: str) -> str:
    """Return a text of a file as a string in Python, in ASCII."""
    made = "".join(
        char if " " <= char <= "~" and char not in "\"\\'"
        else f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}" if ord(char) < 65536
        else f"\\U{ord(char):08x}"
        for char in text
    )  # fmt: skip
    return f'"{made}"'


def escape_text(text: str) -> str:
    """Return a text for a comment or docstring: without quotes, backslashes and line breaks."""
    return re.sub(r"[^ -~]|[\"\\%]", lambda found: f"%{ord(found[0]):02X}", text)


def render_shape(shape: Shape) -> str:
    """Return the shape of a batch for a comment."""
    return f"({', '.join(map(str, ('batch', *shape)))})" if shape else "(batch,)"
