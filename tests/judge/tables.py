"""Tables of a server and tables of a job, value by value: `read_targets`, `differences`.

What SELECT gives are texts, as `final.json` of a case has them. A value of a target is what a reader of it gets. Both
become the same plain value, or the table is not equal. No code of the job takes part.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import struct
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from binlog_format.names import folded_name
from binlog_format.rows.json.variants import is_json, is_variant
from binlog_streaming.lake.commit_id import (
    DROPPED_COLUMNS_PROPERTY,
    DROPPED_PROPERTY,
    SET_ASIDE_PROPERTY,
    SOURCE_PROPERTY,
    split_keys,
)
from binlog_streaming.lake.evolution import cast_table, with_texts
from binlog_streaming.lake.file_reader import without_views
from binlog_streaming.lake.iceberg.catalog import open_catalog
from binlog_streaming.modes.mode_columns import DELETED, IS_CURRENT
from binlog_streaming.settings import TableFormat
from tests.truth.truth_values import GEOMETRIES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from binlog_streaming.settings import Sink

    Row = tuple[object, ...]

NUMBER = "number"
"""A decimal whose digits after the point do not count."""
JSON_VALUE = "JSON value"
"""A text that MariaDB keeps as it was written, of a target's column of variants."""
DOUBLE = struct.Struct("<d")
FLOATS = struct.Struct("<f")
FLOAT_MAX = float(np.finfo(np.float32).max)
BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit")
MOMENTS = ("date", "datetime", "timestamp")
SHOWN = 3
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


@dataclass(frozen=True)
class ServerTable:
    """A table as SELECT gives it.

    Attributes:
        columns: Names, in order.
        types: `DATA_TYPE` of each.
        rows: Texts; None is NULL.
    """

    columns: list[str]
    types: list[str]
    rows: list[list[str | None]]


@dataclass(frozen=True)
class TargetTable:
    """A table of a job, as its readers get it.

    Attributes:
        lacks_values: Where the log lacked a value, or a statement changed it, there may be null.
    """

    content: pa.Table
    properties: Mapping[str, str]
    lacks_values: bool = False

    @property
    def is_dropped(self) -> bool:
        """Whether it states that its source table is gone."""
        return bool(self.properties.get(DROPPED_PROPERTY))

    @property
    def set_aside(self) -> str:
        """Why it does not go on; empty: it does."""
        return self.properties.get(SET_ASIDE_PROPERTY, "")


def server_tables(final: Path) -> dict[str, ServerTable]:
    """What a `final.json` contains, by `database.table`."""
    found = json.loads(final.read_text())
    return {name: ServerTable(one["columns"], one["types"], one["rows"]) for name, one in found.items()}


def read_targets(sink: Sink, *, only_live: bool = False, lacks_values: bool = False) -> dict[str, TargetTable]:
    """The tables of a job, by the name of their source table.

    Args:
        only_live: Leave out rows that the source table does not have any more, and versions that have ended.
        lacks_values: See `TargetTable`.
    """
    read = _iceberg_tables if sink.format is TableFormat.ICEBERG else _delta_tables
    return {
        properties[SOURCE_PROPERTY]: TargetTable(_live(rows) if only_live else rows, properties, lacks_values)
        for rows, properties in read(sink)
    }


def _live(rows: pa.Table) -> pa.Table:
    """Rows that the source table has, of those that a mode keeps."""
    rows = without_views(rows)
    if IS_CURRENT in rows.column_names:
        return rows.filter(pc.field(IS_CURRENT))
    return rows.filter(~pc.field(DELETED)) if DELETED in rows.column_names else rows


def _delta_tables(sink: Sink) -> Iterator[tuple[pa.Table, Mapping[str, str]]]:
    for log in sorted(Path(sink.directory).rglob("_delta_log")):
        table = DeltaTable(str(log.parent))
        properties = table.metadata().configuration
        if SOURCE_PROPERTY in properties:
            yield _with_texts(table), properties


def _with_texts(table: DeltaTable) -> pa.Table:
    # Variants as JSON, which a scan gives as their two parts.
    rows, types = pa.table(table.scan().read_all()), pa.schema(table.schema().to_arrow())
    variants = [types.field(field.name) if is_variant(types.field(field.name).type) else field for field in rows.schema]
    return with_texts(cast_table(rows, pa.schema(variants)))


def _iceberg_tables(sink: Sink) -> Iterator[tuple[pa.Table, Mapping[str, str]]]:
    with closing(open_catalog(sink)) as catalog:
        for namespace in catalog.list_namespaces():
            for name in catalog.list_tables(namespace):
                table = catalog.load_table(name)
                if SOURCE_PROPERTY in table.properties:
                    yield table.scan().to_arrow(), table.properties


def _is_another_spelling(name: str, server: Mapping[str, ServerTable], targets: Mapping[str, TargetTable]) -> bool:
    # Of a table without rows no log shows under which letters a server that folds names has it.
    known = server.get(name.lower())
    return known is not None and not known.rows and name.lower() not in targets and not targets[name].content.num_rows


def differences(
    server: Mapping[str, ServerTable],
    targets: Mapping[str, TargetTable],
    *,
    left_out: Collection[str] = (),
) -> dict[str, str]:
    """What is wrong with tables, by name; empty: every one is equal.

    Args:
        server: What they are to be equal to.
        left_out: Columns that a setting leaves out of targets.
    """
    found = {}
    for name in sorted({*server, *targets}):
        wanted, target = server.get(name), targets.get(name)
        if wanted is None:
            assert target is not None
            why = "" if target.is_dropped else f"a target of {target.content.num_rows} rows that is no table"
            why = "" if _is_another_spelling(name, server, targets) else why
        elif target is None:
            why = f"no target, the server has {len(wanted.rows)} rows" if wanted.rows else ""
        else:
            why = difference(wanted, target, left_out=left_out)
        if why:
            found[name] = why
    return found


def difference(server: ServerTable, target: TargetTable, *, left_out: Collection[str] = ()) -> str:
    """What is wrong with one table; empty: it is equal."""
    if target.is_dropped:
        return "the target states that its source table was dropped"
    names = Counter(folded_name(name) for name in target.content.column_names)
    if names.total() != len(names):
        return f"columns of the target differ in case alone: {', '.join(target.content.column_names)}"
    known = {folded_name(name): name for name in target.content.column_names}
    pairs = [
        (name, _compared_as(kind, target, known.get(folded_name(name))))
        for name, kind in zip(server.columns, server.types, strict=True)
        if name not in left_out
    ]
    missing = [name for name, _ in pairs if folded_name(name) not in known]
    if missing and (server.rows or target.content.num_rows):
        return f"the target lacks the columns {', '.join(missing)}"
    dropped = {folded_name(name) for name in split_keys(target.properties.get(DROPPED_COLUMNS_PROPERTY, ""))}
    expected = {folded_name(name) for name in server.columns} | dropped
    more = [name for key, name in known.items() if key not in expected and not name.startswith("_")]
    if more:
        return f"the target has the columns {', '.join(more)}, the server does not"
    if missing:
        return ""
    read = [
        [read_value(value, kind) for value in _values(target.content.column(known[folded_name(name)]))]
        for name, kind in pairs
    ]
    places = [(server.columns.index(name), kind) for name, kind in pairs]
    got = Counter(zip(*read, strict=True))
    wanted = Counter(tuple(server_value(row[at], kind) for at, kind in places) for row in server.rows)
    if got == wanted or (target.lacks_values and _is_all_but_nulls(got - wanted, wanted - got)):
        return ""
    return _told(got, wanted, [kind for _, kind in pairs])


def _is_all_but_nulls(surplus: Counter[Row], lacking: Counter[Row]) -> bool:
    """True if each row that the server alone has is one of the target, with null for some of its values."""
    rest = sorted(surplus.elements(), key=lambda row: row.count(None))
    for row in lacking.elements():
        match = next((own for own in rest if all(x in (None, y) for x, y in zip(own, row, strict=True))), None)
        if match is None:
            return False
        rest.remove(match)
    return not rest


def _values(column: pa.ChunkedArray) -> list[Any]:
    try:
        return list(column.to_pylist())
    except OverflowError:  # a year that Python's dates do not have, and no server
        return list(column.cast(pa.string()).to_pylist())


def _compared_as(kind: str, target: TargetTable, name: str | None) -> str:
    column = None if name is None else target.content.schema.field(name)
    if column is None:
        return kind
    if kind != "json" and is_json(column):
        return JSON_VALUE
    # A decimal of the target may have more digits than the server's type, where that was made smaller.
    return NUMBER if kind == "decimal" and pa.types.is_decimal(column.type) else kind


def _told(got: Counter[Row], wanted: Counter[Row], kinds: Sequence[str]) -> str:
    surplus, lacking = list((got - wanted).elements()), list((wanted - got).elements())
    counts = f"{got.total()} rows, the server has {wanted.total()}"
    alone = f"the target alone has {_some(surplus)}; the server alone has {_some(lacking)}"
    return f"{counts}{_types_that_differ(surplus, lacking, kinds)}: {alone}"


def _some(rows: Sequence[Row]) -> str:
    return ", ".join([repr(row)[:300] for row in rows[:SHOWN]])


def _types_that_differ(surplus: Sequence[Row], lacking: Sequence[Row], kinds: Sequence[str]) -> str:
    """Types of the columns in which rows of the target differ from the server's row that is nearest."""
    found: set[str] = set()
    for row in surplus:
        pairs = [{kind for kind, mine, other in zip(kinds, row, one, strict=True) if mine != other} for one in lacking]
        if pairs:
            found |= min(pairs, key=lambda differing: len(differing))
    return f" (values of {', '.join(sorted(found))})" if found else ""


def server_value(text: str | None, kind: str) -> object:
    """The plain value of a text of the server."""
    if text is None:
        return None
    if kind == JSON_VALUE:
        return _json_value(text)
    if kind in INTEGERS:
        return int(text)
    if kind == NUMBER:
        return Decimal(text)
    if kind == "decimal":
        return _decimal(text)
    if kind == "double":
        return DOUBLE.pack(float(text))
    if kind == "float":
        return FLOATS.pack(float(text))
    if kind in MOMENTS:
        return _moment(text)
    if kind in BYTES:
        return bytes.fromhex(text)
    if kind in GEOMETRIES:
        srid, _, shape = text.partition(":")
        return int(srid), bytes.fromhex(shape)
    return text


def read_value(value: Any, kind: str) -> object:
    """The plain value of what a reader gets."""
    if value is None:
        return None
    if isinstance(value, dict | list) and kind not in GEOMETRIES:
        return repr(value)  # what the column was before it became another one
    if kind == JSON_VALUE:
        return _json_value(value)
    if kind in INTEGERS:
        return int(value) if isinstance(value, int | Decimal) else value
    if kind == "decimal":
        # Digits that Arrow's type has no room for are text; any other text is what another type was.
        is_number = isinstance(value, Decimal) or (isinstance(value, str) and _NUMBER.fullmatch(value) is not None)
        return _decimal(str(value)) if is_number else value
    if kind == "double" and isinstance(value, float):
        return DOUBLE.pack(value)
    if kind == "float" and isinstance(value, float):
        return value if FLOAT_MAX < abs(value) < math.inf else FLOATS.pack(value)
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    if kind in GEOMETRIES and isinstance(value, dict):
        # A NOT NULL column without a value has no bytes at all, of which the server's functions make NULL.
        return (value["srid"], value["wkb"]) if value["wkb"] else None
    return value


def _json_value(text: str) -> str:
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except json.JSONDecodeError:
        return text  # MariaDB puts an empty text into a NOT NULL column without a default


def _decimal(text: str) -> str:
    # With all digits of its fraction; ZEROFILL has zeros before it.
    return str(Decimal(text))


def _moment(text: str) -> dt.date | None:
    # Zero and partial dates, and days that are in no calendar, are null in targets.
    try:
        if len(text) == len("2024-01-01"):
            return dt.date.fromisoformat(text)
        return dt.datetime.fromisoformat(text)
    except ValueError:
        return None
