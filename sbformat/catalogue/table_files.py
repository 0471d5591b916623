"""The file of a catalogue: rows in, a file of Parquet, CSV, JSON Lines or SQLite out; and back, with :func:`search`.

:func:`find_columns` finds the columns of all rows: those of every row, then the hyper-parameters of most files, and the
rest as JSON in one column. A format is a row of ``_FORMATS``. Rows that are read and written again are the same rows,
and for the same columns the same bytes:

* A column has numbers, truth values or texts, or, if files differ, several of them. Only Parquet needs one type for a
  column: it has the numbers under the name, and the texts in a second column ``NAME_text``.
* CSV writes numbers, ``true``, ``false``, ``NaN`` and ``Infinity`` as they are, and an apostrophe before a text that
  looks like one of them, or like a formula.
* JSON Lines has the numbers that JSON lacks as the texts ``NaN``, ``Infinity`` and ``-Infinity``; a hyper-parameter
  without a value is left out.
* SQLite stores NaN as a text, because it would make no value of it.
"""

from __future__ import annotations

import csv
import errno
import json
import math
import os
import posixpath
import re
import sqlite3
from collections import Counter
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sbformat.catalogue.rows import COLUMNS, order_column
from sbformat.errors import MissingEntryError, UnsupportedError, escape, need_extra, quote
from sbformat.immutable import Record
from sbformat.rendering import protect_text, read_number, unprotect_text, write_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sbformat.catalogue.rows import Row, Scalar

MOST_COLUMNS: Final = 900
"""Hyper-parameters that are columns. A table of SQLite has at most 2,000, and Parquet may need two for each."""
OTHER: Final = "other"
"""The column with the values that have none of their own, as JSON."""
_COUNTED: Final = 50_000  # names that are counted in memory; of more, those that are rare are forgotten
_LONGEST: Final = 1 << 24  # characters of a line or cell that is read


class DamagedTableError(UnsupportedError):
    """A catalogue whose rows are not those that were written: it was cut off, or changed by another program."""


# -- columns ------------------------------------------------------------------------------------------


class Columns(Record):
    """The columns of a catalogue, in their order."""

    types: Mapping[str, frozenset[type]]
    """The types of the values by the name of the column: int, float, bool and str."""
    has_other: bool

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return [*self.types, *([OTHER] if self.has_other else [])]

    def arrange(self, row: Row) -> list[Scalar]:
        """Return the values of a row in the order of the names."""
        values = [row.get(name) for name in self.types]
        if self.has_other:
            items = row.items()
            rest = {name: write_number(value) for name, value in items if name not in self.types and value is not None}
            values.append(json.dumps(rest, ensure_ascii=False, sort_keys=True) if rest else None)
        return values


def find_columns(rows: Iterable[Row]) -> Columns:
    """Return the columns of rows, which does not depend on their order unless there are very many names."""
    types: dict[str, set[type]] = {}
    counts: Counter[str] = Counter()
    is_cut = False
    for row in rows:
        for name, value in row.items():
            if value is not None and name not in COLUMNS:
                counts[name] += 1
                types.setdefault(name, set()).add(type(value))
        if len(counts) > _COUNTED:  # a hostile file may have any number of names, which all stay in memory
            is_cut = True
            for name, _ in counts.most_common()[_COUNTED // 2 :]:
                del counts[name], types[name]
    kept = sorted(counts, key=lambda name: (-counts[name], name))[:MOST_COLUMNS]
    found = {name: frozenset({kind}) for name, kind in COLUMNS.items()}
    found |= {name: frozenset(types[name]) for name in sorted(kept, key=lambda name: (*order_column(name), name))}
    return Columns(found, is_cut or len(counts) > len(kept))


def drop_empty(row: Row) -> Row:
    """Return a row without the hyper-parameters that have no value."""
    return {name: value for name, value in row.items() if value is not None or name in COLUMNS}


def _are_texts(names: Iterable[str]) -> list[bool]:
    """Return which columns have texts only."""
    return [COLUMNS.get(name) is str or name == OTHER for name in names]


# -- any format ---------------------------------------------------------------------------------------


class TableFormat(Record):
    """A format of catalogues."""

    write: Callable[[str, Iterable[Row], Columns], None]
    """Writes a new file, which the caller makes the output when it is complete; rows are consumed one by one."""
    read: Callable[[str], Iterator[Row]]
    """Yields the rows of a file as they are stored; :func:`read_table` restores them, and makes errors ours."""


def find_format(path: str) -> TableFormat:
    """Return the format of a file, by its suffix."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _FORMATS:
        message = f"expected a file that ends with {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}, got {quote(path)}"
        raise UnsupportedError(message)
    if suffix == ".parquet":
        try:
            import pyarrow  # noqa: F401, ICN001 -- whether it is there
        except ImportError:
            raise need_extra("to write and read Parquet, the package pyarrow is needed", "catalog") from None
    return _FORMATS[suffix]


def read_table(path: str) -> Iterator[Row]:
    """Yield the rows of a catalogue."""
    row = None
    try:
        for row in find_format(path).read(path):
            rest = row.pop(OTHER, None)
            if isinstance(rest, str):
                row.update((name, read_number(value)) for name, value in dict(json.loads(rest)).items())
            yield drop_empty(row)
    except DamagedTableError:
        raise
    except UnsupportedError:
        if row is None:
            raise
        raise refuse_rest(path) from None
    except (ValueError, LookupError, TypeError, RecursionError, csv.Error, sqlite3.Error):
        raise _refuse_file(path) if row is None else refuse_rest(path) from None


def _require_columns(names: Iterable[str], path: str) -> None:
    """Refuse a table that does not begin with the columns that every catalogue has."""
    if list(names)[: len(COLUMNS)] != list(COLUMNS):
        raise _refuse_file(path)


def _refuse_file(path: str) -> UnsupportedError:
    return UnsupportedError(f"{quote(path)} is not a catalogue that sbformat wrote")


def refuse_rest(path: str, place: str = "") -> DamagedTableError:
    """Return the error for a catalogue that is damaged.

    :param place: the row, if it is known: ``line 7``
    """
    where = f" in {place}" if place else ""
    repair = "'sbformat catalog SOURCE -o TABLE' repairs it"
    return DamagedTableError(f"{quote(path)} was cut off, or changed by another program{where}", hint=repair)


# -- CSV: for spreadsheets and pandas ----------------------------------------------------------------

_INTEGER: Final = re.compile(r"-?\d{1,19}", re.ASCII)
_FLOAT: Final = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", re.ASCII)
_WORDS: Final = {"true": True, "false": False}
_APOSTROPHE: Final = "'"


def _write_csv(path: str, rows: Iterable[Row], columns: Columns) -> None:
    is_text = _are_texts(columns.names)
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns.names)
        for row in rows:
            writer.writerow(map(_encode_cell, columns.arrange(row), is_text))


def _read_csv(path: str) -> Iterator[Row]:
    csv.field_size_limit(_LONGEST)
    with open(path, encoding="utf-8", newline="") as file:
        names = next(csv.reader(file, strict=True), [])
        _require_columns(names, path)
        is_text = _are_texts(names)
        for number, line in enumerate(csv.reader(_require_ends(file, path), strict=True), 2):
            if len(line) != len(names):
                raise refuse_rest(path, f"line {number}")
            yield dict(zip(names, map(_decode_cell, line, is_text)))


def _require_ends(lines: Iterable[str], path: str) -> Iterator[str]:
    """Yield the lines of a file, each of which ends: the last cell of one that does not may be cut off."""
    for line in lines:
        if not line.endswith(("\n", "\r")):
            raise refuse_rest(path, "its last line")
        yield line


def _encode_cell(value: Scalar, is_text: bool) -> str:  # noqa: FBT001 -- called by map
    """Return a value as a cell of a column that may have texts only."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        found = write_number(value)
        return found if isinstance(found, str) else repr(found)
    return _APOSTROPHE + value if _needs_apostrophe(value, is_text=is_text) or not value else protect_text(value)


def _decode_cell(cell: str, is_text: bool) -> Scalar:  # noqa: FBT001 -- called by map
    if not cell:
        return None
    if cell.startswith(_APOSTROPHE):
        rest = cell[1:]
        return rest if not rest or _needs_apostrophe(rest, is_text=is_text) else unprotect_text(cell)
    found = cell if is_text else _parse_cell(cell)
    return unprotect_text(found) if isinstance(found, str) else found


def _needs_apostrophe(text: str, *, is_text: bool) -> bool:
    """Return whether a text would be read as something else, a number for example, without an apostrophe before it."""
    return text.startswith(_APOSTROPHE) or (not is_text and not isinstance(_parse_cell(text), str))


def _parse_cell(cell: str) -> Scalar:
    """Return the number or truth value that a cell is, or the text."""
    if cell in _WORDS:
        return _WORDS[cell]
    if _INTEGER.fullmatch(cell):
        return int(cell)
    found: Scalar = float(cell) if _FLOAT.fullmatch(cell) else read_number(cell)
    return found


# -- JSON Lines: an object in each line ---------------------------------------------------------------


def _write_json_lines(path: str, rows: Iterable[Row], columns: Columns) -> None:
    names = columns.names
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            pairs = drop_empty(dict(zip(names, columns.arrange(row)))).items()
            shown = {name: write_number(value) for name, value in pairs}
            file.write(json.dumps(shown, ensure_ascii=False, allow_nan=False) + "\n")


def _read_json_lines(path: str) -> Iterator[Row]:
    with open(path, encoding="utf-8") as file:
        while line := file.readline(_LONGEST):
            row: Any = json.loads(line)
            if not isinstance(row, dict) or any(isinstance(value, (list, dict)) for value in row.values()):
                raise _refuse_file(path)
            _require_columns(row, path)
            for (name, value), is_text in zip(row.items(), _are_texts(row)):
                row[name] = value if is_text else read_number(value)
            yield row


# -- SQLite: the table "catalog" ----------------------------------------------------------------------

TABLE: Final = "catalog"
_TYPES: Final = {str: "TEXT", int: "INTEGER", float: "REAL", bool: "BOOLEAN"}


def _write_sqlite(path: str, rows: Iterable[Row], columns: Columns) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        try:
            fill_table(database, rows, columns)
        except sqlite3.OperationalError as error:
            raise make_system_error(error, path) from None


def make_system_error(error: sqlite3.Error, path: str) -> OSError:
    """Return the error of the operating system that SQLite has in its own words."""
    if "full" in str(error):
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    return OSError(errno.EIO, escape(str(error)), path)


def fill_table(database: sqlite3.Connection, rows: Iterable[Row], columns: Columns) -> None:
    """Create the table in a new database and fill it.

    Columns of facts have the type of their values. The others have none, so that SQLite converts nothing; truth values
    are 1 and 0 everywhere, as SQLite has them. There is no journal: a file that is not complete is removed.
    """
    declared = []
    for name in columns.names:
        kinds = columns.types.get(name, frozenset({str}))
        has_type = name in COLUMNS or (len(kinds) == 1 and kinds <= {str, bool})
        declared.append(f"{quote_name(name)} {_TYPES[next(iter(kinds))] if has_type else ''}".rstrip())
    marks = ", ".join("?" * len(declared))
    values = (["NaN" if value != value else value for value in columns.arrange(row)] for row in rows)  # noqa: PLR0124
    database.execute("PRAGMA journal_mode = OFF")
    database.execute("BEGIN")
    database.execute(f'CREATE TABLE "{TABLE}" ({", ".join(declared)})')
    database.executemany(f'INSERT INTO "{TABLE}" VALUES ({marks})', values)  # noqa: S608 -- our own names
    database.execute("COMMIT")


def quote_name(name: str) -> str:
    """Return the name of a column, which may be of a file of somebody else, as SQL has it."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _read_sqlite(path: str) -> Iterator[Row]:
    with closing(open_read_only(path)) as database:
        kind = database.execute("SELECT type FROM sqlite_master WHERE name = ?", (TABLE,)).fetchone()
        if kind != ("table",):  # a view runs a query of the author
            raise _refuse_file(path)
        found = database.execute(f'SELECT * FROM "{TABLE}" ORDER BY rowid')  # noqa: S608 -- our own name
        names = [column[0] for column in found.description]
        types = dict(database.execute(f"SELECT name, type FROM pragma_table_info('{TABLE}')"))  # noqa: S608
        _require_columns(names, path)
        numbers = [name for name in names if types.get(name) != _TYPES[str]]
        for line in found:
            row: Row = dict(zip(names, line))
            for name in numbers:
                value = row[name]
                if isinstance(value, str):
                    row[name] = read_number(value)
                elif isinstance(value, int) and types.get(name) == _TYPES[bool]:
                    row[name] = bool(value)
            yield row


def open_read_only(path: str) -> sqlite3.Connection:
    """Open a database that is not written to."""
    with open(path, "rb"):  # whose error names the reason
        pass
    database = sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
    database.execute("PRAGMA trusted_schema = OFF")
    database.text_factory = lambda data: data.decode("utf-8", "backslashreplace")
    return database


# -- Parquet, by pyarrow (extra ``catalog``) ----------------------------------------------------------

_GROUP: Final = 1000  # rows that are written together, and in memory together
_KEY: Final = b"sbformat.catalog"


def _write_parquet(path: str, rows: Iterable[Row], columns: Columns) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    used = set(columns.names)
    split: dict[str, str] = {}
    fields = []
    for name in columns.names:
        kinds = columns.types.get(name, frozenset({str}))
        fields.append(pa.field(name, _choose_type(kinds)))
        if str in kinds and len(kinds) > 1:  # the texts have a second column
            split[name] = f"{name}_text"
            while split[name] in used:
                split[name] += "_"
            used.add(split[name])
            fields.append(pa.field(split[name], pa.string()))
    schema = pa.schema(fields, {_KEY: json.dumps({"texts": split}).encode()})
    remaining = iter(rows)
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        while group := list(islice(remaining, _GROUP)):
            arrays = []
            for name, values in zip(columns.names, zip(*map(columns.arrange, group))):
                arrays += _divide(values, schema.field(name).type, is_split=name in split)
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _choose_type(kinds: frozenset[type]) -> Any:
    """Return the type of a column, or of its values that are not texts."""
    import pyarrow as pa

    kinds = kinds - {str} or kinds
    if kinds == {bool}:
        return pa.bool_()
    if float in kinds:
        return pa.float64()
    return pa.string() if kinds == {str} else pa.int64()


def _divide(values: Iterable[Scalar], kind: Any, *, is_split: bool) -> list[Any]:
    """Return the array of a column, and that of its texts if it has other values as well."""
    import pyarrow as pa

    if pa.types.is_string(kind):
        return [pa.array(values, kind)]
    convert = bool if pa.types.is_boolean(kind) else float if pa.types.is_floating(kind) else int
    numbers = [None if value is None or isinstance(value, str) else convert(value) for value in values]
    texts = [value if isinstance(value, str) else None for value in values]
    return [pa.array(numbers, kind), *([pa.array(texts, pa.string())] if is_split else [])]


def _read_parquet(path: str) -> Iterator[Row]:
    import pyarrow as pa
    from pyarrow import parquet

    with open(path, "rb") as stream:
        try:
            with parquet.ParquetFile(stream) as file:
                schema = file.schema_arrow
                if _KEY not in (schema.metadata or {}):
                    raise _refuse_file(path)
                _require_columns(schema.names, path)
                split = json.loads(schema.metadata[_KEY])["texts"]
                for row in (row for batch in file.iter_batches(_GROUP) for row in batch.to_pylist()):
                    for name, text in split.items():
                        found = row.pop(text)
                        row[name] = row[name] if found is None else found
                    yield row
        except (pa.ArrowException, OSError) as error:
            raise ValueError(*error.args) from None


_FORMATS: Final = {
    ".parquet": TableFormat(_write_parquet, _read_parquet),
    ".csv": TableFormat(_write_csv, _read_csv),
    ".jsonl": TableFormat(_write_json_lines, _read_json_lines),
    ".sqlite": TableFormat(_write_sqlite, _read_sqlite),
}
SUFFIXES: Final = tuple(_FORMATS)


# -- search: conditions of SQL, by SQLite, which may read the table and nothing else ------------------

_NO_COLUMN: Final = re.compile(r"no such column: \"?(?:\w+\.)?(.+?)\"?(?: - .*)?")
_TOKEN: Final = re.compile(
    r"""'(?:[^']|'')*'|"((?:[^"]|"")*)"|`(?:[^`]|``)*`|\[[^\]]*\]|--[^\n]*|/\*.*?(?:\*/|\Z)""", re.DOTALL
)
"""A text, a quoted name, or a comment of SQL; the first group is a name in double quotes."""
_VALUE: Final = r"""(?:[=<>]|\blike|\bin\s*\()\s*["`]?({}[\w./-]*)"""
"""What is compared with something, and begins with a name that is not a column: most likely a text without quotes."""
_ALLOWED: Final = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_REFUSED_FUNCTIONS: Final = frozenset({"load_extension", "fts3_tokenizer", "writefile", "edit", "readfile"})


class Found(Record):
    """The result of :func:`search`."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Scalar, ...]]
    """Read as they are taken. SQLite has 1 and 0 for truth values."""
    measures: tuple[str, ...]
    """With groups: the columns of numbers, of which the result has those with the suffixes ``MEASURES``."""
    failed: int
    """With groups: number of rows in them with an outcome other than ``ok``."""
    repeated: int
    """With groups: number of rows in them that have the logs of another row, such as checkpoints of one run."""


@contextmanager
def search(
    path: str,
    *,
    where: str | None = None,
    columns: Sequence[str] | None = None,
    group_by: Sequence[str] = (),
    sort: str | None = None,
    is_reversed: bool = False,
    most: int | None = None,
) -> Iterator[Found]:
    """Yield the rows of a catalogue that meet a condition; they can be read within the block.

    ::

        with search("runs.csv", where="algorithm = 'PPO' and gamma < 0.99", columns=["source", "gamma"]) as found:
            for source, gamma in found.rows:
                print(source, gamma)

    :param group_by: columns; rows that meet the condition and have the same values in these become one, as
        :func:`_select_groups` describes
    :param sort: the name of a column; rows without a value come last
    """
    with closing(_open(path)) as database:
        names = tuple(row[0] for row in database.execute(f"SELECT name FROM pragma_table_info('{TABLE}')"))  # noqa: S608
        chosen = names if columns is None else tuple(columns)
        _require_names((*group_by, *chosen), names)
        source = f'"{TABLE}"' if where is None else f'"{TABLE}" WHERE (\n{_TOKEN.sub(_requote, where)}\n)'
        for aggregate in (_Mean, _Deviation):
            database.create_aggregate(aggregate.__name__, 1, aggregate)
        database.create_function(_find_run.__name__, 2, _find_run)
        database.set_authorizer(_authorize)
        database.set_progress_handler(lambda: 0, _STEPS)  # so that Ctrl-C ends a condition that takes long
        try:
            if group_by:
                hidden = [name for name in names if name == sort and name not in chosen]
                select = _select_groups(database, source, group_by, chosen, hidden)
            else:
                select = _select_rows(names, chosen)
            _require_names([] if sort is None else [sort], [*select.sortable, *names])
            query = f"SELECT {', '.join(select.parts.values())} FROM {source}{select.grouping}"  # noqa: S608 -- see _authorize
            query += f" ORDER BY {_make_order(select, sort, 'DESC' if is_reversed else 'ASC')}"
            cursor = database.execute(query if most is None else f"{query} LIMIT {most}")
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise _explain(error, names, path, where or "") from None
        yield Found(tuple(select.parts), _fetch(cursor, names, path), select.measures, select.failed, select.repeated)


def _require_names(wanted: Iterable[str], present: Iterable[str]) -> None:
    """Refuse the name of a column that is not there."""
    for name in wanted:
        if name not in present:
            raise MissingEntryError(name, present=present, what="column")


class _Select(Record):
    """What is selected of a table, in SQL."""

    parts: Mapping[str, str]
    """Expressions, by the name of the column of the result."""
    sortable: Mapping[str, str]
    """Expressions to sort by, by the name of the column."""
    ties: tuple[str, ...]
    """Terms that order rows which are otherwise equal."""
    grouping: str = ""
    measures: tuple[str, ...] = ()
    failed: int = 0
    repeated: int = 0


def _select_rows(names: Sequence[str], chosen: Sequence[str]) -> _Select:
    sortable = {name: quote_name(name) for name in names}
    return _Select({name: sortable[name] for name in chosen}, sortable, ("rowid",))


def _make_order(select: _Select, sort: str | None, direction: str) -> str:
    if sort is None:
        return ", ".join(f"{term} {direction}" for term in select.ties)
    return ", ".join([f"{_put_last(select.sortable[sort])} {direction}", *select.ties])


def _put_last(expression: str) -> str:
    """Return the term of an order in which what has no value is last."""
    return f"{expression} IS NULL, {expression}"


_STEPS: Final = 1_000_000  # steps of SQLite's machine, some milliseconds


# -- groups of rows: runs that differ by their seed ---------------------------------------------------

COUNT: Final = "n"
"""The column with the number of rows of a group."""
MEASURES: Final = ("_mean", "_std", "_n")
"""Suffixes of the columns that a column of numbers has in a table of groups: ``mean_reward_mean``, ..."""
_NUMBERS: Final = "typeof({0}) IN ('integer', 'real', 'null') OR {0} = 'NaN'"
_ONE_TEXT: Final = "CASE WHEN count(DISTINCT {0}) > 1 THEN count(DISTINCT {0}) || ' values' ELSE max({0}) END"


def _select_groups(
    database: sqlite3.Connection, source: str, group_by: Sequence[str], chosen: Sequence[str], hidden: Sequence[str]
) -> _Select:
    """Select one row for each group of rows that have the same values in some columns; no value is a value there.

    A row has these values, the number of rows, and for each chosen column:

    * of numbers, their mean, their standard deviation and their number. Rows without a value are left out. The
      deviation is that of a sample, with the divisor n - 1: there is none of one number.
    * with texts, the value if all rows have the same or none; otherwise how many there are, ``3 values``.

    Whether a column has numbers is decided for the whole table. Groups are sorted by their means, and otherwise by the
    values that they have in common.

    :param source: the table, with the condition
    :param hidden: columns to sort by that are not chosen
    """
    others = [name for name in dict.fromkeys((*chosen, *hidden)) if name not in group_by]
    shared = [(name, quote_name(name)) for name in group_by]
    checks = ["sum(outcome IS NOT 'ok')", f"count(logs) - count(DISTINCT {_find_run.__name__}(source, logs))"]
    checks += [f"min({_NUMBERS.format(quote_name(name))})" for name in others]
    failed, repeated, *are_numbers = database.execute(f"SELECT {', '.join(checks)} FROM {source}").fetchone()  # noqa: S608
    parts = [*shared, (COUNT, "count(*)")]
    sortable = dict(parts)
    measures = []
    for name, is_number in zip(others, are_numbers):
        quoted = quote_name(name)
        made = [(name, _ONE_TEXT.format(quoted))]
        if is_number != 0 and COLUMNS.get(name) is not str:  # None without rows
            functions = (_Mean.__name__, _Deviation.__name__, "count")
            made = [(name + suffix, f"{function}({quoted})") for suffix, function in zip(MEASURES, functions)]
        sortable |= {**dict(made), name: made[0][1]}
        if name not in hidden:
            parts += made
            measures += [name] if len(made) > 1 else []
    named = dict(parts)
    for name, expression in parts:
        if named[name] != expression:
            raise UnsupportedError(f"two columns of the groups have the name {quote(name)}; choose others")
    return _Select(
        parts=named,
        sortable=sortable,
        ties=tuple(_put_last(quoted) for _, quoted in shared),
        grouping=f" GROUP BY {', '.join(quoted for _, quoted in shared)}",
        measures=tuple(measures),
        failed=failed or 0,
        repeated=repeated,
    )


def _find_run(source: Any, logs: Any) -> str | None:
    """Return the path of the first of the logs that belong to a source: the same for all files of a run."""
    if logs is None:
        return None
    folder = posixpath.dirname(str(source).replace("\\", "/"))
    return posixpath.normpath(posixpath.join(folder, str(logs).partition(", ")[0]))


class _Mean:
    """Mean of numbers, in one pass (Welford): of equal numbers exactly their value, of some that are not finite NaN."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self.squares = 0.0
        """Sum of the squares of the differences from the mean."""

    def step(self, value: Any) -> None:
        """Add a number as the table has it."""
        if value is not None:
            number = float(read_number(value))
            self.count += 1
            difference = number - self.mean
            self.mean += number / self.count - self.mean / self.count  # the difference may be infinite
            self.squares += difference * (number - self.mean)

    def compute(self) -> float | None:
        """Return the result for at least one number."""
        return self.mean

    def finalize(self) -> Any:
        """Return the result as the table has it: SQLite takes NaN for no value."""
        return "NaN" if math.isnan(self.squares) else self.compute() if self.count else None


class _Deviation(_Mean):
    """Standard deviation of a sample of numbers."""

    def compute(self) -> float | None:
        """Return the result; of one number there is none."""
        return math.sqrt(max(self.squares, 0.0) / (self.count - 1)) if self.count > 1 else None


def _open(path: str) -> sqlite3.Connection:
    """Open a catalogue as a database: one of SQLite itself, of another format a temporary copy."""
    next(read_table(path), None)  # whether it is one
    if path.lower().endswith(".sqlite"):
        return open_read_only(path)
    database = sqlite3.connect("", isolation_level=None)  # a temporary file, which SQLite removes
    try:
        fill_table(database, read_table(path), find_columns(read_table(path)))
    except BaseException as error:
        database.close()
        if isinstance(error, sqlite3.Error):  # names of columns that are equal but for their case, a full disk
            raise UnsupportedError(f"{quote(path)} cannot be searched: {escape(str(error))}") from None
        if isinstance(error, (UnicodeError, OverflowError)):  # half a character; an integer of more than 64 bits
            raise refuse_rest(path) from None
        raise
    return database


def _requote(token: re.Match[str]) -> str:
    """Return a name in double quotes in grave accents: with those, SQLite never takes a wrong name for a text."""
    if token[1] is None:
        return token[0]
    name = token[1].replace('""', '"').replace("`", "``")
    return f"`{name}`"


def _authorize(action: int, argument: str | None, name: str | None, *_: object) -> int:
    """Allow what only reads; SQLite asks when it compiles a statement."""
    is_function = action == sqlite3.SQLITE_FUNCTION and (name or argument or "").lower() in _REFUSED_FUNCTIONS
    return sqlite3.SQLITE_OK if action in _ALLOWED and not is_function else sqlite3.SQLITE_DENY


def _fetch(cursor: sqlite3.Cursor, names: Sequence[str], path: str) -> Iterator[tuple[Scalar, ...]]:
    try:
        for row in cursor:  # noqa: UP028 -- "yield from" would close the cursor at the end, after its database
            yield row
    except sqlite3.Error as error:
        raise _explain(error, names, path) from None


def _explain(
    error: Exception, names: Sequence[str], path: str, where: str = ""
) -> MissingEntryError | UnsupportedError:
    """Return the error for a condition: that of a column that is not there names the nearest one."""
    if "malformed" in str(error):
        return refuse_rest(path)
    found = _NO_COLUMN.fullmatch(str(error))
    if found is not None:
        value = re.search(_VALUE.format(re.escape(found[1])), where, re.IGNORECASE)
        if value is not None:
            return MissingEntryError(found[1], what="column", hint=f"texts are in single quotes: '{escape(value[1])}'")
        missing = MissingEntryError(found[1], present=names, what="column")
        missing.add_hint("texts are in single quotes")
        return missing
    what = "it may only read the table" if "not authorized" in str(error) else escape(str(error))
    hint = "in SQL, AND combines conditions, not &&" if "&&" in _TOKEN.sub("", where) else ""
    return UnsupportedError(f"the condition is not SQL that SQLite accepts: {what}", hint=hint)
