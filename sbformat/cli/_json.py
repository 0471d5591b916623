"""JSON on a command line: the value of an option, the file that it names after ``@``, or standard input.

In: what was given. Out: the value, by the rules of ``data``. What is not JSON is an error that says what to write
instead: people write numbers, words and quotes as Python has them, and shells remove quotes.
"""

from __future__ import annotations

import codecs
import json
import os
import re
from typing import TYPE_CHECKING, Any, Final

from sbformat.cli import _files
from sbformat.errors import DataError, SbformatError, ValidationError, escape, quote
from sbformat.limits import Budget

if TYPE_CHECKING:
    import argparse

    from sbformat.archive.archive import Archive
    from sbformat.limits import Limits

FILE_MARK: Final = "@"
"""Begins the name of a file as the value of an option; no JSON begins so."""
UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
OBSERVATION: Final = "--observation"
"""The option whose value can also be lines, of which each is JSON."""
_NUMBERS: Final = r"[\s\d._,;eE+-]+"
_LONGEST: Final = 10_000  # characters of a text that is explained
_SHOWN: Final = 80  # characters of what to write
_WORDS: Final = {
    "true": "true", "false": "false", "null": "null", "none": "null", "nan": "NaN", "inf": "Infinity",
    "infinity": "Infinity",
}  # fmt: skip
"""What JSON has for a word, by the word in lower case."""
_SIGNS: Final = {"(": "[", ")": "]", "+": ""}
_PART: Final = r"""(?sx)
    (?P<text> "(?:[^"\\]|\\.)*" )
    | (?P<quoted> '(?:[^'\\]|\\.)*' )
    | (?P<open> ["'].* )
    | (?P<word> [A-Za-z_]\w* )
    | (?P<number> [+-]?(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)? )
    | (?P<comma> ,\s*(?=[\])}]) )
    | (?P<gap> (?<=[\w.\]"'])\s+(?=[\w.+\-\["']) )
    | (?P<sign> . )
"""
"""A part of a text that is nearly JSON, or the rest from a quote without its end; a comma and a gap are those that JSON
does not have there."""


def parse_value(text: str, option: str, args: argparse.Namespace) -> Any:
    """Parse the JSON of an option, or of the file that its value names after ``@``; strictly.

    :param option: its name, which the report of an error blames
    """
    limits = _files.make_limits(args)
    if text.startswith(FILE_MARK):
        return parse_document(read_file(text, limits), text[1:], option, limits)
    return parse_document(text.encode("utf-8", "surrogatepass"), option, option, limits)


def parse_object(text: str, option: str, args: argparse.Namespace) -> dict[str, Any]:
    """Parse the JSON object of an option, as :func:`parse_value` does."""
    found = parse_value(text, option, args)
    if not isinstance(found, dict):
        message = "expected a JSON object"
        raise _files.OtherFileError(option) from DataError(message)
    return found


def parse_document(data: bytes, source: str, option: str, limits: Limits) -> Any:
    """Parse JSON.

    :param source: the option or the file that an error blames; ``-`` is standard input
    :param option: the option that it was given by, for the hint of an error
    """
    from sbformat.data import parse

    try:
        return parse(decode_bytes(data), Budget(limits))
    except SbformatError as error:
        error.add_hint(explain_json(option, data.decode("utf-8", "replace")))
        raise _files.OtherFileError(source) from error


def parse_assignments(args: argparse.Namespace, archive: Archive) -> list[tuple[str, Any]]:
    """Return the keys and values of ``--set``, parsed by the rules of ``data``.

    :param archive: that of the command; its schema says whether a value that is not JSON can be a text
    """
    limits = _files.make_limits(args)
    return [(key, _parse_assigned(key, text, archive, limits)) for key, text in args.set]


def _parse_assigned(key: str, text: str, archive: Archive, limits: Limits) -> Any:
    from sbformat.data import loads

    is_file = text.startswith(FILE_MARK)
    data = read_file(text, limits) if is_file else text.encode("utf-8", "surrogatepass")
    name = escape(key)
    try:
        found = loads(b'{"":%b\n}' % decode_bytes(data), limits=limits)
    except SbformatError as error:
        hint = explain_json(f"--set {name}", data.decode("utf-8", "replace"))
        if is_file:
            error.add_hint(hint)
            error.offset = None  # it is of a longer text
            raise _files.OtherFileError(text[1:]) from error
        if not isinstance(error, DataError):
            raise
        message, other = f"not a JSON value ({error.message})", _explain_type(key, text, archive)
        quoted = _show_option(f"--set {name}", json.dumps(text)) or f": --set '{name}=\"...\"'"
        hint = hint or other or f"put a text in double quotes{quoted}"
        raise _files.OtherFileError(_name_assigned(key, text)) from ValidationError(message, hint=hint)
    if len(found) != 1:
        raise _files.OtherFileError(_name_assigned(key, text)) from ValidationError("more than one JSON value")
    return found[""]


def _name_assigned(key: str, text: str) -> str:
    """Return the option ``--set`` with its value, for errors."""
    return f"--set {key}={text[:_SHOWN]}{'...' if len(text) > _SHOWN else ''}"


def _explain_type(key: str, text: str, archive: Archive) -> str:
    """Return what a key, or what a pointer leads to, must have instead of a text; empty if it can have one.

    The schema says it. A serialized value, which nobody types, is not named.
    """
    from sbformat.schema.schemas import check_data, choose_schema

    pointer = key if key.startswith("/") else f"/{key}"
    made: Any = text
    for name in reversed(pointer[1:].split("/")):
        made = {name: made}
    problems = check_data(made, *choose_schema(archive))
    messages = (row.message for row in problems if row.kind == "type" and row.loc == pointer)
    expected = next((message.rpartition(", got ")[0] for message in messages), "")
    shorter = expected.removesuffix(" or a serialized value")
    return re.sub(r'(.*), (?=[a-z"])', r"\1 or ", shorter, count=1) if shorter != expected else expected


def read_file(text: str, limits: Limits) -> bytes:
    """Return the bytes of the file that a value of an option names after ``@``, one more than the limit at most."""
    path = text[1:]

    def read() -> bytes:
        with open(path, "rb") as file:
            return file.read(limits.json_bytes + 1)

    return _files.name_in_errors(path, read)


def decode_bytes(data: bytes) -> bytes:
    """Return JSON as UTF-8 without a byte order mark; PowerShell and editors of Windows write marks, and UTF-16."""
    if data[:2] not in UTF_16:
        return data.removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode("utf-16").encode()
    except UnicodeError as error:
        raise DataError(f"expected UTF-16 after its byte order mark: {error}") from None


# -- what to write instead ----------------------------------------------------------------------------


def explain_json(option: str, text: str) -> str:
    """Return how to write what is not JSON; empty when nothing is known.

    >>> explain_json("--observation", "[1, 0, .5]")
    'JSON wants 0.5 instead of .5: --observation "[1, 0, 0.5]"'

    :param option: its name, of ``--set`` with the key: ``--set gamma``; empty for a line
    """
    if len(text) <= _LONGEST:
        corrected, reasons = _correct(text)
        if reasons and _is_json(corrected):
            return f"{reasons[0]}{_show_option(option, corrected)}"
        if re.fullmatch(_NUMBERS, text) and any(map(str.isdigit, text)):
            numbers = re.split(r"[\s,;]+", corrected.strip(" ,;\n\t"))
            shown = escape(", ".join(numbers[:4]), 60) + (", ..." if len(numbers) > 4 else "")
            return f"put the numbers in brackets{_show_option(option, f'[{shown}]')}"
    if option and os.path.exists(text):
        return f"{quote(text)} is a file: {_give(option, f'{FILE_MARK}{escape(text)}')} reads JSON from it"
    lines = text[:_LONGEST].split("\n")
    if option == OBSERVATION and len(lines) > 1 and all(map(_is_json, lines[:2])):
        return "--lines reads an observation a line"
    return ""


def _correct(text: str) -> tuple[str, list[str]]:
    """Return a text as JSON has what people write, and the reason of each change."""
    reasons: list[str] = []
    has_keys = "{" in text

    def replace(found: re.Match[str]) -> str:
        new, reason = _correct_token(found, has_keys=has_keys)
        if new != found[0]:
            reasons.append(reason or f"JSON wants {escape(new, 60)} instead of {escape(found[0], 60)}")
        return new

    return re.sub(_PART, replace, text), reasons


def _correct_token(found: re.Match[str], *, has_keys: bool) -> tuple[str, str]:
    """Return a token as JSON has it, and why; empty for the reason that is usual.

    :param has_keys: there are objects: their keys are words in quotes, and perhaps their values
    """
    kind, old = found.lastgroup, found[0]
    if kind == "number":
        return _correct_number(old), ""
    if kind == "quoted":
        inside = old[1:-1].replace("\\'", "'").replace('"', '\\"')
        return f'"{inside}"', ""
    if kind == "word" and (old.lower() in _WORDS or not has_keys):
        return _WORDS.get(old.lower(), old), ""
    if kind == "word":
        reason = f'JSON wants "{escape(old, 60)}" in double quotes (some shells remove them; @FILE reads a file)'
        return f'"{old}"', reason
    if kind == "comma":
        return old[1:], "JSON wants no comma after the last value"
    if kind == "gap":
        return ", ", "JSON wants commas between the values"
    return _SIGNS.get(old, old), f"JSON wants no {old}" if old == "+" else ""


def _correct_number(text: str) -> str:
    """Return a number as JSON has it: ``0.5`` for ``.5``, ``1.0`` for ``1.``, ``1`` for ``+1`` and ``01``."""
    number = text.replace("_", "").lstrip("+")
    sign, number = number[: number.startswith("-")], number.removeprefix("-")
    size = len(number) - len(number.lstrip("0123456789.-"))
    whole, point, part = number[:size].partition(".")
    return f"{sign}{whole.lstrip('0') or '0'}{point}{(part or '0') if point else ''}{number[size:]}"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _show_option(option: str, value: str) -> str:
    """Return the option with a value to copy, in quotes that every shell reads if there are none in the value.

    :return: nothing for a value that is long, or that quotes would end
    """
    if len(value) > _SHOWN or not value.isprintable() or "'" in value:
        return ""
    name, _, key = option.partition(" ")
    shown = f"{key}={value}" if key else value
    if name and not re.fullmatch(r"[\w.=-]+", shown):
        shown = f"'{shown}'" if '"' in shown else f'"{shown}"'
    return f": {name} {shown}" if name else f": {shown}"


def _give(option: str, value: str) -> str:
    name, _, key = option.partition(" ")
    return f"{name} {key}={value}" if key else f"{name} {value}"
