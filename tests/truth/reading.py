"""What a reader gives, through the product's own way: `json_changes`, `typed_changes`.

What a reader may be told about tables: `decoding_of_file`, `decoding_of_log`.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from binlog_connector.schema.history import SchemaHistory
from binlog_format import open_log
from binlog_format.rows.decoding import Decoding
from tests.truth.truth_values import Number

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from binlog_format.position import Position
    from tests.truth.truth_case import Case


Image = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """A change as the view gives it; images by column name, without absent columns where they are JSON."""

    gtid: str | None
    op: str
    table: str
    before: Image | None
    after: Image | None
    absent: tuple[str, ...]
    order: tuple[int, ...]


def json_changes(
    path: Path,
    *,
    decoding: Decoding | None = None,
    start: Position | str | None = None,
    end: Position | str | None = None,
    tables: str | None = None,
) -> list[Change]:
    """All changes of the log, from the JSON texts of the view."""
    with open_log(str(path)) as log:
        return changes_of(log.changes(start=start, end=end, tables=tables, **_options(decoding)))


def changes_of(batches: Iterable[pa.RecordBatch]) -> list[Change]:
    """What is in batches of the view with JSON texts."""
    return [change for batch in batches for change in _of_batch(batch, from_json)]


def typed_changes(
    path: Path,
    table: str,
    *,
    decoding: Decoding | None = None,
    start: Position | None = None,
    end: Position | None = None,
) -> list[Change]:
    """Changes of one table, from the structs of the view."""
    with open_log(str(path)) as log:
        batches = log.changes(table=table, start=start, end=end, **_options(decoding))
        return [change for batch in batches for change in _of_batch(batch, _from_struct)]


def _options(decoding: Decoding | None) -> dict[str, Any]:
    return {} if decoding is None else {"decoding": decoding}


def from_json(text: str | None) -> Image | None:
    """An image; numbers with a point or an exponent stay as they are written."""
    return None if text is None else json.loads(text, parse_float=Number)


def _from_struct(value: Image | None) -> Image | None:
    return value


def _of_batch(batch: pa.RecordBatch, image: Any) -> list[Change]:
    batch.validate(full=True)
    found = []
    for row in batch.to_pylist():
        place = row["position"]
        found.append(
            Change(
                gtid=row["gtid"],
                op=row["op"],
                table=f"{row['database']}.{row['table']}",
                before=image(row["before"]),
                after=image(row["after"]),
                absent=tuple(row["absent"] or ()),
                order=(place["file_no"], place["page"], place["chunk"], row["event_no"], row["row_no"]),
            )
        )
    return found


def schema_text(case: Case) -> str:
    """A dump of CREATE TABLEs: what SHOW CREATE TABLE returned for each table when it was first there."""
    parts = []
    for table in dict.fromkeys(schema.table for schema in case.schemas):
        database, _, _ = table.partition(".")
        create = next(schema.create for schema in case.schemas if schema.table == table and not schema.dropped)
        parts.append(f"USE `{database}`;\n{create};\n")
    # Servers keep labels in utf8mb3 and show '?' for what it lacks: what the table was made with instead.
    return "\n".join(parts).replace(",'?')", ",'😀')")


def decoding_of_file(case: Case) -> Decoding:
    """The tables' definitions come from a schema file; the DDL in the log is not looked at."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "schema.sql"
        path.write_text(schema_text(case))
        return Decoding(schemas=SchemaHistory.from_schema_file(str(path)))


def decoding_of_log(path: Path) -> Decoding:
    """The tables' definitions come from the DDL in the log."""
    history = SchemaHistory()
    with open_log(str(path)) as log:
        assert history.scan_ddl(log) > 0
    return Decoding(schemas=history)
