"""A catalogue as Parquet, written and read by pyarrow (extra ``catalog``)."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from sbformat.catalogue.files.columns import OTHER, drop_empty, join_other
from sbformat.catalogue.files.formats import refuse_file, require_columns
from sbformat.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sbformat.catalogue.files.columns import Column, Columns
    from sbformat.catalogue.flat_rows import Row
    from sbformat.catalogue.rows import Scalar

_GROUP: Final = 1000
"""Rows that are written together, and in memory together."""
_KEY: Final = b"sbformat.catalog"
_TEXT: Final = "_text"


def require_packages() -> None:
    """Refuse to begin without pyarrow.

    :raises UnsupportedError: if it is not installed
    """
    try:
        import pyarrow  # noqa: F401, ICN001 -- whether it is there
    except ImportError:
        message = "to write and read Parquet, the package pyarrow is needed: pip install 'sbformat[catalog]'"
        raise UnsupportedError(message) from None


def write(path: str, rows: Iterable[Row], columns: Columns) -> None:
    """Write a new file; see :class:`.formats.TableFormat`."""
    import pyarrow as pa
    from pyarrow import parquet

    split = name_texts(columns)
    schema = pa.schema(_list_fields(columns, split), {_KEY: json.dumps({"texts": split}).encode()})
    remaining = iter(rows)
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        while group := list(islice(remaining, _GROUP)):
            lines = [columns.arrange(row) for row in group]
            arrays = []
            for position, name in enumerate(columns.names):
                arrays += _divide([line[position] for line in lines], schema.field(name).type, is_split=name in split)
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def name_texts(columns: Columns) -> dict[str, str]:
    """Return the names of the second columns, for the texts of columns that have numbers or truth values as well."""
    used = set(columns.names)
    split: dict[str, str] = {}
    for column in columns.listed:
        if str in column.types and len(column.types) > 1:
            name = column.name + _TEXT
            while name in used:
                name += "_"
            used.add(name)
            split[column.name] = name
    return split


def _list_fields(columns: Columns, split: dict[str, str]) -> list[Any]:
    import pyarrow as pa

    fields = []
    for column in columns.listed:
        fields.append(pa.field(column.name, _choose_type(column)))
        if column.name in split:
            fields.append(pa.field(split[column.name], pa.string()))
    return fields + ([pa.field(OTHER, pa.string())] if columns.has_other else [])


def _choose_type(column: Column) -> Any:
    """Return the type of a column, or of its values that are not texts."""
    import pyarrow as pa

    types = column.types - {str} or column.types
    if types == {bool}:
        return pa.bool_()
    if float in types:
        return pa.float64()
    return pa.string() if types == {str} else pa.int64()


def _divide(values: list[Scalar], kind: Any, *, is_split: bool) -> list[Any]:
    """Return the array of a column, and that of its texts if it has other values as well."""
    import pyarrow as pa

    if pa.types.is_string(kind):
        return [pa.array(values, kind)]
    convert = bool if pa.types.is_boolean(kind) else float if pa.types.is_floating(kind) else int
    numbers = [None if value is None or isinstance(value, str) else convert(value) for value in values]
    texts = [pa.array([value if isinstance(value, str) else None for value in values], pa.string())]
    return [pa.array(numbers, kind), *(texts if is_split else [])]


def read(path: str) -> Iterator[Row]:
    """Yield the rows of a file; see :class:`.formats.TableFormat`."""
    require_packages()
    import pyarrow as pa

    with open(path, "rb") as stream:
        try:
            yield from _read_groups(stream, path)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(*error.args) from None


def _read_groups(stream: BinaryIO, path: str) -> Iterator[Row]:
    from pyarrow import parquet

    with parquet.ParquetFile(stream) as file:
        schema = file.schema_arrow
        if _KEY not in (schema.metadata or {}):
            raise refuse_file(path)
        require_columns(schema.names, path)
        split = json.loads(schema.metadata[_KEY])["texts"]
        for batch in file.iter_batches(_GROUP):
            for row in batch.to_pylist():
                for name, text in split.items():
                    found = row.pop(text)
                    row[name] = row[name] if found is None else found
                yield drop_empty(join_other(row))
