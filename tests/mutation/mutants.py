"""Find mutants in the modules of a package, choose some of them, and write a package that contains those."""

from __future__ import annotations

import ast
import copy
import fnmatch
import hashlib
import re
import shutil
import textwrap
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

RUNTIME: Final = Path(__file__).with_name("runtime.py")
GENERATED: Final = ("known/published.py",)
"""Modules that a program writes, without code."""

COMPARISONS: Final = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
BOUNDARIES: Final = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
ARITHMETIC: Final = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr, ast.BitXor: ast.BitOr,
}  # fmt: skip
TEXT: Final = (ast.JoinedStr, ast.List, ast.Tuple)
"""Operands that have no other operator than ``+``."""

REFUSING: Final = re.compile(r"_?(refuse|reject)\w*|exceeded|too_long|\w*(Error|Warning)|warn")
"""Functions and classes whose arguments are a message to people."""

UNCHANGED_KEYWORDS: Final = {"message", "help", "description", "epilog", "metavar", "prog", "usage"}
UNCHANGED_NAMES: Final = {"message", "__all__", "__slots__"}
UNCHANGED_CALLS: Final = {"cast", "TypeVar", "ParamSpec", "NewType"}
SENTENCE: Final = re.compile(r"\S+ \S+ \S")
"""Text of three words or more is for people."""


@dataclass(frozen=True)
class Mutant:
    """A change of one expression."""

    file: str
    """Relative to the package."""
    line: int
    operator: str
    code: str
    """The line of the source without the white space around it."""
    occurrence: int
    """How many lines of the file before this one are equal to it."""
    original: str
    replacement: str
    column: int
    """Where the expression begins in ``code``."""
    start: int
    end: int
    """Where the expression begins and ends in the file, in bytes."""
    at_import: bool
    """The code is outside of functions."""

    @property
    def key(self) -> tuple[str, str, int, str, str, int]:
        """What identifies the mutant after lines of other code have moved."""
        return (self.file, self.code, self.occurrence, self.original, self.replacement, self.column)

    @property
    def package(self) -> str:
        """The subpackage, or ``.`` for modules of the package itself."""
        return self.file.partition("/")[0] if "/" in self.file else "."

    def __str__(self) -> str:
        """Describe the mutant on one line."""
        original, replacement = (textwrap.shorten(text, 90) for text in (self.original, self.replacement))
        return f"{self.file}:{self.line}: {original} -> {replacement} [{self.operator}]"


def get_name(node: ast.AST) -> str:
    """Return the last part of the name that an expression consists of or calls."""
    if isinstance(node, ast.Call):
        node = node.func
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def is_refusal(node: ast.stmt) -> bool:
    """Whether a statement raises, or calls a function that does."""
    called = get_name(node.value) if isinstance(node, ast.Expr) else ""
    return isinstance(node, ast.Raise) or bool(REFUSING.fullmatch(called))


class Finder(ast.NodeVisitor):
    """Collect ``(expression, operator, replacement, outside of functions)`` for every change of a module."""

    def __init__(self) -> None:
        self.found: list[tuple[ast.expr, str, str, bool]] = []
        self.functions = 0

    def add(self, node: ast.expr, operator: str, replacement: ast.expr | str) -> None:
        """Add a mutant."""
        text = replacement if isinstance(replacement, str) else ast.unparse(replacement)
        self.found.append((node, operator, text, not self.functions))

    def add_changed(self, node: ast.expr, operator: str, **fields: Any) -> None:
        """Add a mutant that differs in the given fields of the node."""
        changed = copy.copy(node)
        for name, value in fields.items():
            setattr(changed, name, value)
        self.add(node, operator, changed)

    def visit_all(self, nodes: Iterable[ast.AST | None]) -> None:
        """Visit nodes."""
        for node in nodes:
            if node is not None:
                self.visit(node)

    # Statements, and what of them is not changed: annotations, decorators, bases, docstrings, messages.

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.visit_all([*node.args.defaults, *node.args.kw_defaults])
        self.functions += 1
        self.visit_all(node.body)
        self.functions -= 1

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 -- a name of ast

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit_all([*node.args.defaults, *node.args.kw_defaults])
        self.functions += 1
        self.visit(node.body)
        self.functions -= 1

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.visit_all(node.body)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(isinstance(target, ast.Name) and target.id in UNCHANGED_NAMES for target in node.targets):
            self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if get_name(node.annotation) != "TypeAlias" and get_name(node.target) not in UNCHANGED_NAMES:
            self.visit_all([node.value])

    def visit_Raise(self, node: ast.Raise) -> None:
        """Change nothing: messages are for people."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """Change nothing: an assertion is a note for the type checker."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Change nothing: most are messages, and their parts have no positions before Python 3.12."""

    def visit_match_case(self, node: ast.match_case) -> None:
        self.visit_all([node.guard, *node.body])

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call) and not is_refusal(node):
            self.add(node.value, "call removed", "None")
        if not isinstance(node.value, ast.Constant):
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if get_name(node.test) == "TYPE_CHECKING" or ast.unparse(node.test) == "__name__ == '__main__'":
            self.visit_all(node.orelse)
            return
        if is_refusal(node.body[-1]) and not node.orelse:
            self.add(node.test, "check removed", "False")
        else:
            self.add(node.test, "condition true", "True")
            self.add_swapped(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        if not isinstance(node.test, ast.Constant):
            self.add(node.test, "loop removed", "False")
            self.generic_visit(node)
        else:
            self.visit_all(node.body)

    # Expressions

    def add_swapped(self, test: ast.expr) -> None:
        """Swap the branches of a condition, unless another operator does."""
        if not isinstance(test, ast.Compare) and not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
            self.add(test, "branches swapped", ast.UnaryOp(ast.Not(), test))

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.add_swapped(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self.add(test, "condition true", "True")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for index, found in enumerate(node.ops):
            for operator, table in (("comparison", COMPARISONS), ("boundary", BOUNDARIES)):
                if type(found) in table:
                    ops = [*node.ops[:index], table[type(found)](), *node.ops[index + 1 :]]
                    self.add_changed(node, operator, ops=ops)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.add_changed(node, "and/or", op=ast.And() if isinstance(node.op, ast.Or) else ast.Or())
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self.add(node, "branches swapped", node.operand)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        is_text = any(
            isinstance(side, TEXT) or (isinstance(side, ast.Constant) and isinstance(side.value, (str, bytes)))
            for side in (node.left, node.right)
        )
        if not is_text and type(node.op) in ARITHMETIC:
            self.add_changed(node, "arithmetic", op=ARITHMETIC[type(node.op)]())
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if get_name(node.value) not in ("Literal", "Annotated"):
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = get_name(node)
        if not REFUSING.fullmatch(name) and name not in UNCHANGED_CALLS:
            self.visit_all([node.func, *node.args])
            self.visit_all(keyword.value for keyword in node.keywords if keyword.arg not in UNCHANGED_KEYWORDS)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self.add(node, "constant", repr(not value))
        elif isinstance(value, int):
            self.add(node, "constant", repr(value + 1))
            self.add(node, "constant", repr(value - 1))
        elif isinstance(value, float):
            self.add(node, "constant", repr(value + 1.0))
        elif isinstance(value, bytes):
            self.add(node, "constant", repr(value + b"_"))
        elif isinstance(value, str) and not SENTENCE.search(value):
            self.add(node, "constant", repr(value + "_"))


def find_mutants(package: Path) -> Iterator[Mutant]:
    """Find every mutant of a package."""
    for path in sorted(package.rglob("*.py")):
        file = path.relative_to(package).as_posix()
        source = path.read_bytes()
        if file in GENERATED:
            continue
        lines = source.splitlines(keepends=True)
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line))
        occurrences: Counter[bytes] = Counter()
        numbers = []
        for line in lines:
            numbers.append(occurrences[line.strip()])
            occurrences[line.strip()] += 1
        finder = Finder()
        finder.visit(ast.parse(source))
        for node, operator, replacement, at_import in finder.found:
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            row = node.lineno - 1
            start, end = starts[row] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
            yield Mutant(
                file, node.lineno, operator, lines[row].decode().strip(), numbers[row],
                " ".join(source[start:end].decode().split()), replacement,
                node.col_offset - len(lines[row]) + len(lines[row].lstrip()), start, end, at_import,
            )  # fmt: skip


def find_importers(package: Path) -> dict[str, frozenset[str]]:
    """Map each module to the subpackages, and the modules of the package itself, that import from it."""
    files = {path.relative_to(package).as_posix(): ast.parse(path.read_bytes()) for path in package.rglob("*.py")}
    importers: dict[str, set[str]] = {file: set() for file in files}
    for importer, tree in files.items():
        names = {f"{package.name}.{importer}".removesuffix(".py")}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
        for path in (name.replace(".", "/").partition("/")[2] for name in names):
            for file in (f"{path}.py", f"{path}/__init__.py"):
                if file in files:
                    importers[file].add(importer.removesuffix(".py").partition("/")[0])
    for file in files:  # a package exports names of its modules
        importers[file] |= importers.get(f"{file.rpartition('/')[0]}/__init__.py", set())
    return {file: frozenset(names) for file, names in importers.items()}


def matches(mutant: Mutant, patterns: Sequence[str], only: Sequence[str]) -> bool:
    """Whether ``--file`` and ``--only`` select a mutant."""
    return any(fnmatch.fnmatchcase(mutant.file, pattern) for pattern in patterns) and (
        not only or f"{mutant.file}:{mutant.line}" in only
    )


def get_rank(seed: int, *parts: object) -> str:
    """Return a random text that is the same in every run."""
    return hashlib.sha256("\0".join(map(str, (seed, *parts))).encode()).hexdigest()


def sample_mutants(mutants: Iterable[Mutant], size: int, seed: int) -> list[Mutant]:
    """Choose lines at random, an operator of each line, and one of its mutants; a constant if there is nothing else.

    Lines are chosen by a hash of their text. After a change of the package, the same mutants are chosen of the lines
    that have not changed.
    """
    by_line: dict[tuple[object, ...], list[Mutant]] = {}
    for mutant in mutants:
        by_line.setdefault((mutant.file, mutant.code, mutant.occurrence), []).append(mutant)
    chosen = []
    for line in sorted(by_line, key=lambda line: get_rank(seed, *line))[:size]:
        operators = {mutant.operator for mutant in by_line[line]}
        operator = min(operators - {"constant"} or operators, key=lambda name: get_rank(seed, *line, name))
        same = [mutant for mutant in by_line[line] if mutant.operator == operator]
        chosen.append(min(same, key=lambda mutant: get_rank(seed, *mutant.key)))
    return chosen


def instrument(source: bytes, mutants: Sequence[tuple[int, Mutant]], runtime: str) -> bytes:
    """Put numbered mutants into a module: ``x < 3`` becomes ``(x <= 3 if _is_active(17) else (x < 3))``.

    Lines keep their numbers. Expressions may contain each other: the outer one begins first and ends last.
    """
    insertions: list[tuple[int, int, int, str]] = []
    ordered = sorted(mutants, key=lambda row: (row[1].start, -row[1].end, row[0]))
    for order, (number, mutant) in enumerate(ordered):
        insertions += [
            (mutant.end, 0, -order, "))"),
            (mutant.start, 1, order, f"({mutant.replacement} if _is_active({number}) else ("),
        ]
    head = [
        node for index, node in enumerate(ast.parse(source).body)
        if (isinstance(node, ast.ImportFrom) and node.module == "__future__")
        or (index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]  # fmt: skip
    statement = f"from {runtime} import is_active as _is_active"
    if head:
        last = head[-1]
        assert last.end_col_offset is not None
        offset = sum(map(len, source.splitlines(keepends=True)[: (last.end_lineno or 0) - 1])) + last.end_col_offset
        insertions.append((offset, 0, 0, f"; {statement}"))
    else:
        insertions.append((0, 0, 0, f"{statement}\n"))
    parts, position = [], 0
    for offset, _, _, text in sorted(insertions):
        parts += [source[position:offset], text.encode()]
        position = offset
    edited = b"".join([*parts, source[position:]])
    ast.parse(edited)
    return edited


def write_mutants(package: Path, mutants: Sequence[Mutant]) -> None:
    """Put the mutants into the modules of a package; the number of each is its index."""
    shutil.copyfile(RUNTIME, package / "_mutation.py")
    for file in {mutant.file for mutant in mutants}:
        chosen = [(number, mutant) for number, mutant in enumerate(mutants) if mutant.file == file]
        path = package / file
        path.write_bytes(instrument(path.read_bytes(), chosen, f"{package.name}._mutation"))
