"""Names in C source: the one that the caller chooses, those made of the file's texts, and texts in comments.

Texts of a file are hostile. Of a key of a Dict only letters and digits become part of an identifier, after a prefix of
ours. In comments, characters that could end the comment, join lines or form a trigraph are written as ``%XX``.
"""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Final

from sbformat.errors import quote, require_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sbformat.policies.export.interface import Port

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
