"""Dump the code objects of nested functions, compiled from source and never run: the child of generate_published.py.

Runs on CPython 3.6 to 3.14 (hence the quoted annotations). Standard input holds JSON:
``{"texts": [source in hex, ...], "qualnames": [wanted, ...]}``. Standard output holds
``{"python": "3.9.18", "codes": [[text's index, optimisation level, qualname, first line, arguments], ...],
"refused": [text's index, ...]}``: the arguments are those that cloudpickle hands to ``types.CodeType``, each value
beside its type; ``refused`` are the texts that this interpreter cannot compile.
"""

import json
import sys
import types

LEVELS = (0, 1, 2)
CO_OPTIMIZED = 1  # functions have it, modules and classes do not

COUNTS = ("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_nlocals", "co_stacksize", "co_flags")
BODY = ("co_code", "co_consts", "co_names", "co_varnames", "co_filename", "co_name")
OUTER = ("co_freevars", "co_cellvars")


def layout(version: "tuple[int, int]") -> "tuple[str, ...]":
    """Name the attributes in the order in which cloudpickle passes them to ``types.CodeType`` on a CPython."""
    if version >= (3, 11):
        return (*COUNTS, *BODY, "co_qualname", "co_firstlineno", "co_linetable", "co_exceptiontable", *OUTER)
    counts = COUNTS if version >= (3, 8) else tuple(name for name in COUNTS if name != "co_posonlyargcount")
    return (*counts, *BODY, "co_firstlineno", "co_lnotab", *OUTER)


def walk(code: types.CodeType, inside: str = "") -> "list[tuple[str, types.CodeType]]":
    """List the nested code objects with their qualified names, which code objects do not contain before 3.11."""
    found = []
    for value in code.co_consts:
        if isinstance(value, types.CodeType):
            name = inside + value.co_name
            found.append((name, value))
            found += walk(value, name + (".<locals>." if value.co_flags & CO_OPTIMIZED else "."))
    return found


def spelled(value: object, names: "tuple[str, ...]") -> "list[object]":
    """Encode a value as JSON that preserves its type."""
    kind = type(value).__name__
    if isinstance(value, types.CodeType):
        return [kind, arguments(value, names)]
    if isinstance(value, (tuple, frozenset)):
        return [kind, [spelled(item, names) for item in value]]
    if isinstance(value, (bytes, float)):
        return [kind, value.hex()]
    if isinstance(value, complex):
        return [kind, [value.real.hex(), value.imag.hex()]]
    return [kind, None if value is ... else value]


def arguments(code: types.CodeType, names: "tuple[str, ...]") -> "list[object]":
    """Encode the arguments that would create a code object."""
    return [spelled(getattr(code, name), names) for name in names]


def main() -> None:
    """Compile every text at every level and dump the requested functions."""
    asked = json.load(sys.stdin)
    order = layout(sys.version_info[:2])
    codes = []
    refused = []
    for index, text in enumerate(asked["texts"]):
        for level in LEVELS:
            try:
                module = compile(bytes.fromhex(text), "source.py", "exec", dont_inherit=True, optimize=level)
            except SyntaxError:
                refused.append(index)
                break
            wanted = [pair for pair in walk(module) if pair[0] in asked["qualnames"]]
            codes += [
                [index, level, qualname, code.co_firstlineno, arguments(code, order)] for qualname, code in wanted
            ]
    python = ".".join(str(part) for part in sys.version_info[:3])
    json.dump({"python": python, "codes": codes, "refused": refused}, sys.stdout)


if __name__ == "__main__":
    main()
