"""Write what depends on the tables of data in ``schema/tables/``, so that each row is maintained in one place.

    python schema/generate_tables.py [--check]

Most tables are edited by hand. This program formats them, with one row per line, and writes their rows into FORMAT.md
and into modules of the package, between the lines ``begin`` and ``end`` that name the table. The package does not read
JSON when it starts. The tables whose head has ``generated`` are written by this program: the names that
``sbformat/known`` maintains, and Unicode's characters, the latter only by a CPython with the same version of Unicode.
With ``--check`` nothing is written, and the exit status is 1 if a file differs from what would be written.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import textwrap
import unicodedata
from typing import TYPE_CHECKING, Any, Final, NamedTuple

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]

import table_sources  # noqa: E402 -- they are beside this program
import unicode_tables  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Row = dict[str, Any]
Table = dict[str, Any]
Tables = dict[str, list[Row]]

ROOT: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM: Final = "schema/generate_tables.py"
FOLDER: Final = "schema/tables"
_WIDTH: Final = 120
_SIZES: Final = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))

MAINTAINED: Final = (
    "opcodes", "renamed-modules", "renamed-names", "storages", "dtypes", "limits", "refused-attributes", "white-space",
)  # fmt: skip
"""Tables that are edited by hand."""


class Source(NamedTuple):
    """A table that this program writes whole."""

    sections: tuple[str, ...]
    description: str
    origin: str
    rows: Callable[[], list[Row]]
    unicode: str | None = None
    """The version of Unicode that the interpreter must have."""


_UNICODE: Final = unicode_tables.VERSION
GENERATED: Final = {
    "case-folding": Source(
        ("2.6", "6.1"), "Full case folding.", "Unicode", unicode_tables.list_case_folding, _UNICODE
    ),
    "nfkc": Source(
        ("2.6",), "The normalization form NFKC, without Hangul syllables, which are composed by arithmetic.", "Unicode",
        unicode_tables.list_nfkc, _UNICODE,
    ),
    "roles": Source(
        ("5.4", "6.5", "6.6", "13", "22"), "Known names, and what a pickle may do with each.", "sbformat/known",
        table_sources.list_roles,
    ),
    "dangerous-names": Source(
        ("14",), "Names that are known to run, import, open, connect or unpickle; no such list is complete.",
        "sbformat/known/dangerous.py", table_sources.list_dangerous_names,
    ),
    "agent-attributes": Source(
        ("14.1",), "Keys of data that Stable-Baselines uses.", "sbformat/known/sb3.py",
        table_sources.list_agent_attributes,
    ),
}  # fmt: skip


# -- the tables ----------------------------------------------------------------------------------------


def format_table(table: Table) -> str:
    """Format a table with one row per line."""
    head = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in table.items() if key != "rows"]
    rows = ",\n".join("  " + json.dumps(row) for row in table["rows"])
    return "{\n" + ",\n".join(head) + f',\n "rows": [\n{rows}\n ]\n}}\n'


def generate_table(name: str, source: Source) -> Table:
    """Generate a table that is not edited by hand."""
    head = {
        "$schema": "tables.schema.json",
        "table": name,
        "generated": f"from {source.origin} by {PROGRAM}",
        "sections": list(source.sections),
        "description": source.description,
    }
    version = {} if source.unicode is None else {"unicode": source.unicode}
    return {**head, **version, "rows": source.rows()}


def table_path(name: str) -> str:
    """Return the path of a table, relative to the repository."""
    return f"{FOLDER}/{name}.json"


# -- blocks of modules ---------------------------------------------------------------------------------


def opcode_rows(tables: Tables) -> str:
    """Rows of the table of opcodes."""
    lines = []
    for row in tables["opcodes"]:
        effect = " -- ".join((row["before"], row["after"])).strip()
        lines.append(
            f'Opcode(0x{row["byte"].upper()}, "{row["name"]}", {row["protocol"]}, "{row["argument"]}", "{effect}"),'
        )
    return _indent(lines)


def dtype_rows(tables: Tables) -> str:
    """Rows of the table of dtypes."""
    codes = {row["name"]: row["numpy"] for row in tables["dtypes"]}
    rows = []
    for row in tables["dtypes"]:
        code = row["numpy"] or codes.get(row["read_as"]) or f"ml_dtypes.{row['name']}"
        rows.append(f'DType("{row["name"]}", {row["bytes"]}, "{code}", {row["swapped_by"]}),')
    return _wrap(rows)


def quantized_names(tables: Tables) -> str:
    """The quantized dtypes."""
    return _indent([_join(f'"{row["name"]}"' for row in tables["dtypes"] if row["kind"] == "quantized")])


def dtype_names(tables: Tables) -> str:
    """The names of the dtypes."""
    return _wrap(f'"{row["name"]}",' for row in tables["dtypes"])


def storage_rows(tables: Tables) -> str:
    """The storages by module and class."""
    rows = [row for row in tables["storages"] if row["is_supported"]]
    return _indent(
        [f'("{module}", "{row["name"]}"): "{row["dtype"] or ""}",' for row in rows for module in row["modules"]]
    )


def packed_storages(tables: Tables) -> str:
    """The packed storages by module and class."""
    rows = [row for row in tables["storages"] if not row["is_supported"]]
    return _indent([f'("{module}", "{row["name"]}"),' for row in rows for module in row["modules"]], 8)


def safetensors_words(tables: Tables) -> str:
    """The words of safetensors by dtype."""
    return _wrap(f'"{row["name"]}": "{row["safetensors"]}",' for row in tables["dtypes"] if row["safetensors"])


def refused_attributes(tables: Tables) -> str:
    """The refused attributes."""
    return _wrap((f'"{row["name"]}",' for row in tables["refused-attributes"]), 8)


def limit_names(tables: Tables) -> str:
    """The names of the limits."""
    return _wrap(f'"{row["name"]}",' for row in tables["limits"])


def limit_sums(tables: Tables) -> str:
    """The limits of sums."""
    return _wrap((f'"{row["name"]}",' for row in tables["limits"] if row["is_sum"]), 8)


def limit_fields(tables: Tables) -> str:
    """The fields of ``Limits``, each with its docstring."""
    lines = []
    for row in tables["limits"]:
        lines.append(f"    {row['name']}: int = {_python_number(row)}")
        unit = " bytes" if row["unit"] == "bytes" and row["largest"].isdigit() else ""
        largest = f" (largest real: {row['largest']}{unit})" if row["largest"] else ""
        text = (row["counts"][0].upper() + row["counts"][1:] + largest).replace("`", "``")
        lines.append(textwrap.fill(f'"""{text}."""', _WIDTH, initial_indent="    ", subsequent_indent="    "))
    return "\n".join(lines)


def _python_number(row: Row) -> str:
    value: int = row["default"]
    if value == 2**31 - 1:
        return "2**31 - 1"
    for unit, size in _SIZES:
        if row["unit"] == "bytes" and value % size == 0:
            return f"{value // size} * _{unit.upper()}" if value != size else f"_{unit.upper()}"
    return f"{value:_}" if value >= 10_000 else str(value)


def _indent(lines: Iterable[str], spaces: int = 4) -> str:
    return "\n".join(" " * spaces + line for line in lines)


def _wrap(words: Iterable[str], spaces: int = 4) -> str:
    indent = " " * spaces
    text = " ".join(word.replace(" ", "\0") for word in words)
    filled = textwrap.fill(
        text, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return filled.replace("\0", " ")


def _join(words: Iterable[str]) -> str:
    return ", ".join(words)


# -- blocks of FORMAT.md -------------------------------------------------------------------------------


def opcode_text(tables: Tables) -> str:
    """The table of 5.1."""
    rows = [
        [row["byte"], row["name"], row["argument"], str(row["protocol"]), f"{row['before']} -- {row['after']}".strip(),
         row["note"]]
        for row in tables["opcodes"]
    ]  # fmt: skip
    return _markdown(("byte", "name", "argument", "protocol", "before -- after", "note"), rows)


def dtype_text(tables: Tables) -> str:
    """The table of 6.4."""
    storages = {row["dtype"]: f"`{row['name']}`" for row in tables["storages"]}
    rows = [
        [row["name"], str(row["bytes"]), str(row["swapped_by"]) if row["swapped_by"] > 1 else "-",
         storages.get(row["name"], "-")]
        for row in sorted(tables["dtypes"], key=lambda row: (row["kind"] == "quantized", row["bytes"]))
    ]  # fmt: skip
    return _markdown(("dtype", "bytes", "swapped by", "storage"), rows)


def limit_text(tables: Tables) -> str:
    """The table of section 8, and a list of what does not fit into it."""
    rows, long = [], []
    for row in tables["limits"]:
        cells = [f"`{row['name']}`", render_size(row), row["largest"], row["counts"]]
        if len(_markdown_row(cells)) > _WIDTH:
            long.append(
                textwrap.fill(
                    f"- `{row['name']}`: {row['counts']}", _WIDTH, subsequent_indent="  ", break_on_hyphens=False
                )
            )
            cells[3] = "see below"
        rows.append(cells)
    return _markdown(("name", "default", "largest real", "counts"), rows) + "\n\n" + "\n".join(long)


def render_size(row: Row) -> str:
    """Return a default as the text shows it: sizes in binary units, counts with separators."""
    value: int = row["default"]
    if value == 2**31 - 1:
        return "2^31 - 1"
    for unit, size in _SIZES:
        if row["unit"] == "bytes" and value % size == 0:
            return f"{value // size} {unit}"
    return f"{value:,}"


def _markdown(header: tuple[str, ...], rows: list[list[str]]) -> str:
    return "\n".join([_markdown_row(header), "|---" * len(header) + "|", *(_markdown_row(row) for row in rows)])


def _markdown_row(cells: Iterable[str]) -> str:
    return "".join(f"| {cell}".rstrip() + " " for cell in (cell.replace("|", r"\|") for cell in cells)) + "|"


# -- the files -----------------------------------------------------------------------------------------


class Block(NamedTuple):
    """Lines of a file that are generated from a table."""

    name: str
    path: str
    table: str
    render: Callable[[Tables], str]


BLOCKS: Final = (
    Block("opcodes", "sbformat/pkl/opcodes.py", "opcodes", opcode_rows),
    Block("dtypes", "sbformat/pth/values.py", "dtypes", dtype_rows),
    Block("quantized", "sbformat/pth/values.py", "dtypes", quantized_names),
    Block("dtypes", "sbformat/pkl/tree.py", "dtypes", dtype_names),
    Block("storages", "sbformat/pkl/tree.py", "storages", storage_rows),
    Block("packed", "sbformat/pkl/tree.py", "storages", packed_storages),
    Block("words", "sbformat/arrayfiles/headers.py", "dtypes", safetensors_words),
    Block("refused", "sbformat/pth/constructors.py", "refused-attributes", refused_attributes),
    Block("names", "sbformat/limits.py", "limits", limit_names),
    Block("fields", "sbformat/limits.py", "limits", limit_fields),
    Block("sums", "sbformat/limits.py", "limits", limit_sums),
    Block("opcodes", "schema/FORMAT.md", "opcodes", opcode_text),
    Block("dtypes", "schema/FORMAT.md", "dtypes", dtype_text),
    Block("limits", "schema/FORMAT.md", "limits", limit_text),
)


def fill_block(block: Block, text: str, tables: Tables) -> str:
    """Replace the lines of a block.

    :raises ValueError: when the file does not have them once
    """
    lines = block.render(tables)
    origin = f"generated from {table_path(block.table)} by {PROGRAM}"
    if block.path.endswith(".md"):
        first, last, blank = f"<!-- begin {block.name}: {origin} -->", f"<!-- end {block.name} -->", "\n"
    else:
        first, last, blank = f"# begin {block.name}: {origin}", f"# end {block.name}", ""
    pattern = rf"^( *){re.escape(first)}\n(?:.*\n)*? *{re.escape(last)}\n"
    filled, count = re.subn(
        pattern, lambda match: f"{match[1]}{first}\n{blank}{lines}\n{blank}{match[1]}{last}\n", text, flags=re.MULTILINE
    )
    if count != 1:
        message = f"expected {block.path} to have the lines {first!r} and {last!r} once, got {count}"
        raise ValueError(message)
    return filled


def generate_files(root: str) -> dict[str, str]:
    """Return the text of every file that this program writes, by its path relative to the repository."""
    made: dict[str, str] = {}
    tables: Tables = {}
    for name in MAINTAINED:
        table = json.loads(_read(root, table_path(name)))
        tables[name] = table["rows"]
        made[table_path(name)] = format_table(table)
    for name, source in GENERATED.items():
        if source.unicode in (None, unicodedata.unidata_version):
            made[table_path(name)] = format_table(generate_table(name, source))
    for block in BLOCKS:
        made[block.path] = fill_block(block, made.get(block.path) or _read(root, block.path), tables)
    return made


def main(argv: list[str] | None = None) -> int:
    """Write the files, or compare them."""
    parser = argparse.ArgumentParser(description="Write what depends on the tables of data in schema/tables/.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file would change")
    parser.add_argument("--root", default=ROOT, help="where schema/ and sbformat/ are")
    options = parser.parse_args(argv)
    changed = {path: text for path, text in generate_files(options.root).items() if _read(options.root, path) != text}
    for path, text in changed.items():
        if options.check:
            print(f"{path} is not what {PROGRAM} writes", file=sys.stderr)  # noqa: T201 -- a program
        else:
            with open(os.path.join(options.root, *path.split("/")), "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
    return 1 if options.check and changed else 0


def _read(root: str, path: str) -> str:
    try:
        with open(os.path.join(root, *path.split("/")), encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
