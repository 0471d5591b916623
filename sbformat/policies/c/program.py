"""The program for tests that ``-DNAME_MAIN`` adds to the C file: numbers from standard input, actions to its output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sbformat.policies.c.arguments import Argument, Arguments

_RANGES: Final = {
    "uint8_t": ("0.0", "255.0"),
    "int8_t": ("-128.0", "127.0"),
    "uint16_t": ("0.0", "65535.0"),
    "int16_t": ("-32768.0", "32767.0"),
    "uint32_t": ("0.0", "4294967295.0"),
    "int32_t": ("-2147483648.0", "2147483647.0"),
}
_CODES: Final = {"float": "%f", "double": "%lf"}
_DIGITS: Final = {"float": 9, "double": 17}

_READ: Final = """\
/* Reads numbers: 1 if there are any, 0 at the end of the input before the first, -1 for something else. */
static int {name}_read_{short}(int32_t n, {type} *out, const char *argument)
{{
    int32_t i;
    for (i = 0; i < n; i++) {{
        {scanned} number;
        const int found = scanf("{code}", &number);
        if (found == EOF && i == 0) {{
            return 0;
        }}
        if (found != 1{range}) {{
            fprintf(stderr, "expected {what} as item %ld of %s\\n", (long)i, argument);
            return -1;
        }}
        out[i] = {converted};
    }}
    return 1;
}}
"""

_MAIN: Final = """\
#ifdef {upper}_MAIN
/* For tests: reads the numbers of all inputs in order, call after call, and prints the outputs of each on a line. */
#include <stdio.h>

{readers}
/* At the end of the input: 0 if all of it was read, and all outputs are written. */
static int {name}_finish(void)
{{
    if (ferror(stdin)) {{
        fprintf(stderr, "cannot read the input\\n");
        return 1;
    }}
    if (fflush(stdout) || ferror(stdout)) {{
        fprintf(stderr, "cannot write the output\\n");
        return 1;
    }}
    return 0;
}}

int main(void)
{{
{variables}
{start}    for (;;) {{
        int found;
{body}    }}
}}
#endif
"""


def write_main(arguments: Arguments, name: str) -> str:
    """Return the program, within ``#ifdef``."""
    inputs = [argument for argument in arguments.inputs if argument.size]
    readers = {argument.type: _write_reader(argument.type, name) for argument in inputs}
    variables = [
        f"    static {argument.type} {argument.name}[{max(1, argument.size)}];"
        for argument in (*arguments.inputs, *arguments.outputs)
    ]
    names = [argument.name for argument in (*arguments.inputs, *arguments.outputs)]
    start = ""
    if arguments.states:
        variables.append(f"    static {name}_state state;")
        names.insert(len(arguments.inputs), "&state")
        start = f"    {name}_reset(&state);\n"
    body = [line for at, argument in enumerate(inputs) for line in _write_read(argument, name, is_first=not at)]
    if not inputs:
        body += ["found = getchar();", "if (found == EOF) {", f"    return {name}_finish();", "}"]
    body.append(f"{name}_predict({', '.join(names)});")
    for at, argument in enumerate(arguments.outputs):
        body += _write_print(argument, is_first=not at)
    body.append('printf("\\n");')
    return _MAIN.format(
        upper=name.upper(), name=name, readers="\n".join(readers.values()), variables="\n".join(variables), start=start,
        body="".join(f"        {line}\n" for line in body),
    )  # fmt: skip


def _write_reader(kind: str, name: str) -> str:
    short = kind.removesuffix("_t")
    if kind in _CODES:
        return _READ.format(
            name=name, short=short, type=kind, scanned=kind, code=_CODES[kind], range="", what="a number",
            converted="number",
        )  # fmt: skip
    low, high = _RANGES[kind]
    return _READ.format(
        name=name, short=short, type=kind, scanned="double", code="%lf",
        what=f"an integer from {low[:-2]} to {high[:-2]}", converted=f"({kind})number",
        range=f" || !(number >= {low} && number <= {high}) || floor(number) != number",
    )  # fmt: skip


def _write_read(argument: Argument, name: str, *, is_first: bool) -> list[str]:
    reader = f"{name}_read_{argument.type.removesuffix('_t')}"
    lines = [f'found = {reader}({argument.size_name}, {argument.name}, "{argument.name}");']
    if is_first:
        return [*lines, "if (found != 1) {", f"    return found ? 1 : {name}_finish();", "}"]
    lines += ["if (found != 1) {"]
    lines += [f'    fprintf(stderr, "%s", found ? "" : "expected more numbers, for {argument.name}\\n");']
    return [*lines, "    return 1;", "}"]


def _write_print(argument: Argument, *, is_first: bool) -> list[str]:
    if not argument.size:
        return []
    separator = '""' if is_first else '" "'
    digits = _DIGITS.get(argument.type, 10)
    return [
        f"for (int32_t i = 0; i < {argument.size_name}; i++) {{",
        f'    printf("%s%.{digits}g", i ? " " : {separator}, (double){argument.name}[i]);',
        "}",
    ]
