"""What a reader gives, through the product's own way: `json_changes`, `typed_changes`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from binlog_format import open_log
from tests.truth.truth_values import Number

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pyarrow as pa

    from binlog_format.position import Position
    from binlog_format.rows.decoding import Decoding

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
