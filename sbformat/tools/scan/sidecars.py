"""Judge files next to an archive that run code: YAML with Python tags, and scripts (SCANNING.md 14.2).

rl_zoo3 loads ``args.yml`` and ``config.yml`` with ``yaml.UnsafeLoader``, which imports and calls what a tag names.
Sources: rl_zoo3 ``exp_manager.py`` (``_save_config``), ``utils.py``; PyYAML ``constructor.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.errors import escape
from sbformat.globals.dangerous import explain_danger
from sbformat.tools.scan.location import SHOWN
from sbformat.tools.scan.yaml_tags import PREFIX, TooManyTokensError, iter_python_tags
from sbformat.values import is_known

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.globals.torch import Pair
    from sbformat.tools.scan.location import Location
    from sbformat.tools.scan.report import Finding

_MAX_TAGS: Final = 1000
_PLAIN: Final = frozenset({
    "none", "bool", "str", "unicode", "bytes", "int", "long", "float", "complex", "list", "tuple", "dict",
})  # fmt: skip
"""Tags of values that PyYAML creates from the text alone."""
_IMPORTS: Final = {"name": "is imported", "module": "is imported as a module"}
_CALLS: Final = {"object/apply": "is called", "object/new": "is called", "object": "is the class of an object"}
_BUILTIN: Final = ("builtins", "__builtin__")
_CONTAINERS: Final = frozenset({
    ("collections", "OrderedDict"),  # rl_zoo3 writes it into every folder
    *((module, name) for module in _BUILTIN for name in (
        "dict", "list", "tuple", "set", "frozenset", "bool", "int", "float", "complex", "str", "bytes",
    )),
})  # fmt: skip
"""Classes that may be called, because they only store their arguments."""

_SCRIPT_SUFFIXES: Final = (
    ".py", ".pyw", ".pyc", ".pyo", ".pyx", ".ipynb", ".so", ".pyd", ".dll", ".dylib", ".exe", ".sh", ".bash", ".zsh",
    ".fish", ".ksh", ".csh", ".bat", ".cmd", ".ps1", ".jar",
)  # fmt: skip
_SCRIPT_HEADS: Final = (
    b"#!", b"\x7fELF", b"MZ", b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf", b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
)  # fmt: skip
"""First bytes of scripts, and of programs for Linux, Windows and macOS."""


def is_script(name: str, head: bytes) -> bool:
    """Return whether a file is a script or program, which is listed and not judged.

    :param name: of the file
    :param head: its first bytes
    """
    return head.startswith(_SCRIPT_HEADS) or name.lower().endswith(_SCRIPT_SUFFIXES)


def judge_yaml(data: memoryview, location: Location, allow: frozenset[str]) -> Iterator[Finding]:
    """Judge the Python tags of a text by what ``yaml.UnsafeLoader`` does with them.

    :param data: a file of any type
    :param location: of the file
    :param allow: dotted names to treat as known
    """
    said: set[str] = set()
    try:
        for tag in iter_python_tags(data):
            if tag.name not in said and len(said) < _MAX_TAGS:
                said.add(tag.name)
                yield from _judge_tag(tag.name.removeprefix(PREFIX), tag.line, location, allow)
    except TooManyTokensError:
        yield location.finding("broken", "the file contains more YAML than is examined")


def _judge_tag(tag: str, line: int, location: Location, allow: frozenset[str]) -> Iterator[Finding]:
    kind, colon, name = tag.partition(":")
    if tag in _PLAIN or (colon and kind in _CALLS and _split_name(name) in _CONTAINERS):
        return
    if colon and kind in (*_IMPORTS, *_CALLS):
        module, pair = name.rpartition(".")[0], _split_name(name)
        what, is_called = {**_IMPORTS, **_CALLS}[kind], kind in _CALLS
        if name in allow or (kind == "name" and is_known(pair)):
            return
        why = explain_danger((name, "")) if kind == "module" else explain_danger(pair)
        tail = f": it {why}" if why else f", which imports {escape(module or 'builtins', SHOWN)}"
        text = f"{escape(name, SHOWN)} {what} by a YAML tag in line {line}{tail if why or is_called or module else ''}"
        yield location.finding("python-tag", text, names=(name,), reason="harmful" if why else None)
    else:
        message = f"a YAML tag in line {line} creates a Python object in a way that sbformat does not know"
        yield location.finding("python-tag", message, names=(tag,))


def _split_name(name: str) -> Pair:
    """Return the module and the name in it, as PyYAML splits them."""
    module, _, last = name.rpartition(".")
    return module or "builtins", last
