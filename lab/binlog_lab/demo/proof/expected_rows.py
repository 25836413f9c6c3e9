"""Expected rows of the tables in the end: `ExpectedTable`; `save` and `load` keep them in files."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.feather

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
    from binlog_lab.event_encoding.value_encoding import Value

    Row = tuple[Value, ...]

CHANGE_TYPE = "_change_type"
GTID = "_gtid"
VALID_FROM = "_valid_from"
VALID_TO = "_valid_to"
IS_CURRENT = "_is_current"

_INTEGERS = {
    "tinyint": (pa.int8(), pa.int16()),
    "smallint": (pa.int16(), pa.int32()),
    "mediumint": (pa.int32(), pa.int32()),
    "int": (pa.int32(), pa.int64()),
    "bigint": (pa.int64(), pa.decimal128(20, 0)),
}
_OTHERS = {
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "datetime": pa.timestamp("us"),
    "timestamp": pa.timestamp("us", "UTC"),
    "binary": pa.binary(),
    "varbinary": pa.binary(),
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob"), pa.binary()),
}
_TIME = re.compile(r"time(?:\((\d)\))?")


@dataclass(frozen=True, slots=True)
class ExpectedTable:
    """One table.

    Attributes:
        name: `database.table`.
        key: Names of the primary key's columns.
        rows: Its rows in the end, in no order.
        changes: Every row image committed, in commit order: the columns, then `_change_type` and `_gtid`. None where
            only the final rows are known.
        versions: Every version of every row, in the order in which they began: the columns, then `_valid_from`,
            `_valid_to` and `_is_current`. None where only the final rows are known.
        added: Columns (NOT NULL) that came while rows were there, and what those got.
        renamed: Columns that got another name, by their old one.
    """

    name: str
    key: tuple[str, ...]
    rows: pa.Table
    changes: pa.Table | None = None
    versions: pa.Table | None = None
    added: Mapping[str, Value] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)


def arrow_type(column: ColumnSpec) -> pa.DataType:
    """The Arrow type that a column of this SQL type must have."""
    name = re.match(r"[a-z]+", column.sql_type.lower())
    assert name is not None
    if name[0] in _INTEGERS:
        return _INTEGERS[name[0]]["unsigned" in column.sql_type]
    if name[0] == "decimal":
        precision, scale = re.findall(r"\d+", column.sql_type)
        return pa.decimal128(int(precision), int(scale))
    return _OTHERS.get(name[0], pa.string())


def arrow_schema(spec: TableSpec) -> pa.Schema:
    """The columns of a table."""
    return pa.schema([pa.field(column.name, arrow_type(column)) for column in spec.columns])


def time_text(span: datetime.timedelta, precision: int) -> str:
    """A TIME value as the server prints it."""
    sign = "-" if span < datetime.timedelta(0) else ""
    seconds, microseconds = divmod(abs(span) // datetime.timedelta(microseconds=1), 1_000_000)
    text = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{microseconds:06}"[: len(text) + 1 + precision] if precision else text


def to_arrow(spec: TableSpec, rows: Iterable[Row]) -> pa.Table:
    """Rows of plain values as an Arrow table."""
    columns = list(zip(*rows, strict=True)) or [()] * len(spec.columns)
    schema = arrow_schema(spec)
    arrays = []
    for column, values, kind in zip(spec.columns, columns, schema.types, strict=True):
        time = _TIME.fullmatch(column.sql_type)
        if time is None:
            arrays.append(pa.array(values, kind))
        else:
            texts = [None if value is None else time_text(value, int(time[1] or 0)) for value in values]
            arrays.append(pa.array(texts, kind))
    return pa.Table.from_arrays(arrays, schema=schema)


_KEY_METADATA = b"binlog-stream.key"


def save(expected_tables: Iterable[ExpectedTable], directory: Path) -> None:
    """Write truths, but for what was added and renamed, into *directory*, to be read by `load`."""
    directory.mkdir(parents=True, exist_ok=True)
    for expected_table in expected_tables:
        rows = expected_table.rows.replace_schema_metadata({_KEY_METADATA: ",".join(expected_table.key).encode()})
        pa.feather.write_feather(rows, str(directory / f"{expected_table.name}.rows.arrow"), compression="zstd")
        for kind, table in (("changes", expected_table.changes), ("versions", expected_table.versions)):
            if table is not None:
                pa.feather.write_feather(
                    table, str(directory / f"{expected_table.name}.{kind}.arrow"), compression="zstd"
                )


def load(directory: Path) -> list[ExpectedTable]:
    """Read what `save` wrote, by name of the table."""
    expected_tables = []
    for path in sorted(directory.glob("*.rows.arrow")):
        name = path.name.removesuffix(".rows.arrow")
        rows = pa.feather.read_table(str(path))
        changes, versions = (_read_if_there(directory / f"{name}.{kind}.arrow") for kind in ("changes", "versions"))
        key = tuple(rows.schema.metadata[_KEY_METADATA].decode().split(","))
        expected_tables.append(ExpectedTable(name, key, rows.replace_schema_metadata(None), changes, versions))
    return expected_tables


def _read_if_there(path: Path) -> pa.Table | None:
    return pa.feather.read_table(str(path)) if path.exists() else None
