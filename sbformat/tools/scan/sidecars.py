"""Judge files next to an archive that run code: YAML with Python tags, and scripts (SCANNING.md 14.2).

rl_zoo3 loads ``args.yml`` and ``config.yml`` with ``yaml.UnsafeLoader``, which imports and calls what a tag names.
Sources: rl_zoo3 ``exp_manager.py`` (``_save_config``), ``utils.py``; PyYAML ``constructor.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.errors import escape
from sbformat.known.dangerous import explain_danger
from sbformat.known.table import find
from sbformat.tools.scan.location import SHOWN

if TYPE_CHECKING:
    from sbformat.pkl.names import Pair
    from sbformat.tools.scan.location import Location
    from sbformat.tools.scan.report import Finding
    from sbformat.tools.scan.yaml_tags import Tag

_PLAIN: Final = frozenset({
    "none", "bool", "str", "unicode", "bytes", "int", "long", "float", "complex", "list", "tuple", "dict",
})  # fmt: skip
"""Tags of values that PyYAML creates from the text alone."""
_IMPORTS: Final = {"name": "is imported", "module": "is imported as a module"}
_CALLS: Final = {"object/apply": "is called", "object/new": "is called", "object": "is the class of an object"}
_NAMED: Final = ("torch.nn.", "torch.optim.")
"""Where classes are that may be named. Others may not, also if importing them is harmless: an ``OrderedDict`` is given
its attributes first, and then its attribute ``extend`` is called, which the text can have set to any name."""
_AFTER_TAG: Final = ",:;?'()[]"
"""Characters that follow a tag in a text. No name ends with them, so a loader fails if they are part of the tag."""

_SCRIPT_SUFFIXES: Final = (
    ".py", ".pyw", ".pyc", ".pyo", ".pyx", ".ipynb", ".so", ".pyd", ".dll", ".dylib", ".exe", ".sh", ".bash", ".zsh",
    ".fish", ".ksh", ".csh", ".bat", ".cmd", ".ps1", ".jar",
)  # fmt: skip
_SCRIPT_HEADS: Final = (
    b"#!", b"\x7fELF", b"MZ", b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf", b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
)  # fmt: skip
"""First bytes of scripts, and of programs for Linux, Windows and macOS."""


def _only_stores(pair: Pair) -> bool:
    """Return whether a class only stores its arguments; rl_zoo3 writes OrderedDict into every folder."""
    row = find(("builtins", pair[1]) if pair[0] == "__builtin__" else pair)
    return "plain type" in row.uses or row.role == "ordered_dict"


def is_script(name: str, head: bytes) -> bool:
    """Return whether a file is a script or program, which is listed and not judged.

    :param name: of the file
    :param head: its first bytes
    """
    return head.startswith(_SCRIPT_HEADS) or name.lower().endswith(_SCRIPT_SUFFIXES)


def judge_tag(tag: Tag, location: Location, allow: frozenset[str]) -> Finding | None:
    """Judge a YAML tag by what ``yaml.UnsafeLoader`` does with it; None for one that is known.

    :param tag: a tag, or text that is spelled as one
    :param location: of the file
    :param allow: dotted names to treat as known
    """
    tail = tag.name.rstrip(_AFTER_TAG)
    kind, colon, name = tail.partition(":")
    pair, line = _split_name(name), tag.line
    if not tag.name:
        message = f"the %TAG directive in line {line} may name Python objects, and its tags were not examined"
        return location.finding("python-tag", message, line=line)
    if not colon or kind not in (*_IMPORTS, *_CALLS):
        if tail in _PLAIN:
            return None
        message = f"a YAML tag in line {line} creates a Python object in a way that sbformat does not know"
        return location.finding("python-tag", message, names=(tail,), line=line)
    is_called = kind in _CALLS
    is_class_of_torch = kind == "name" and name.startswith(_NAMED) and find(pair).is_known
    if name in allow or (is_called and _only_stores(pair)) or is_class_of_torch:
        return None
    why = explain_danger((name, "") if kind == "module" else pair)
    module = name.rpartition(".")[0]
    more = (
        f": it {why}"
        if why
        else f", which imports {escape(module or 'builtins', SHOWN)}"
        if module or is_called
        else ""
    )
    message = f"{escape(name, SHOWN)} {(_IMPORTS | _CALLS)[kind]} by a YAML tag in line {line}{more}"
    return location.finding("python-tag", message, names=(name,), reason="harmful" if why else None, line=line)


def _split_name(name: str) -> Pair:
    """Return the module and the name in it, as PyYAML splits them."""
    module, _, last = name.rpartition(".")
    return module or "builtins", last
