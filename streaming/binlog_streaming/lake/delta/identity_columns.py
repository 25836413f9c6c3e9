"""Identity columns of a Delta table that are GENERATED ALWAYS: `identity_columns`.

New rows get the next numbers; the last one is in the column's metadata, and moves in the commit that brings the rows.
So a commit by another writer who numbered rows meanwhile makes it fail, and the step is done again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from binlog_format.errors import TableError
from binlog_streaming.lake.delta.actions import Metadata
from binlog_streaming.lake.row_values import one_array

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from binlog_streaming.lake.delta.log import Named

EXPLICIT = "delta.identity.allowExplicitInsert"
"""Metadata of an identity column: whether rows may bring a value (BY DEFAULT); false: the table makes all (ALWAYS)."""
NUMBERED = "delta.identity.schemaUpdate"
"""Tag of commits that change nothing of the metadata but last numbers: Spark's OPTIMIZE does not mind these."""
_START, _STEP, _LAST = (f"delta.identity.{name}" for name in ("start", "step", "highWaterMark"))
_LONGS = np.iinfo(np.int64)


@dataclass(slots=True)
class IdentityColumn:
    """A column in which the table numbers its rows.

    Attributes:
        last: The last number that was given, or the one that others must be beyond; None: there is none.
    """

    name: str
    start: int
    step: int
    last: int | None

    def put(self, uri: str, rows: pa.Table) -> pa.Table:
        """*rows* with numbers where they have none; rows that are copied or updated keep theirs.

        Raises:
            TableError: `TABLE_FEATURE`: there are no numbers left.
        """
        given = one_array(rows.column(self.name))
        count = given.null_count
        if not count:
            return rows
        beyond = 0 if self.last is None else max((self.last - self.start) // self.step + 1, 0)
        first, last = (self.start + self.step * (beyond + place) for place in (0, count - 1))
        if not _LONGS.min <= last <= _LONGS.max:
            raise TableError(
                "TABLE_FEATURE",
                f"{uri}: the next numbers of column {self.name} (identityColumns) are not within 64 bits",
                hint="Name another target and let this job build the table anew from the log",
            )
        self.last = last
        values = np.zeros(len(given), np.int64) if count == len(given) else given.fill_null(0).to_numpy().copy()
        values[given.is_null().to_numpy(zero_copy_only=False)] = first + self.step * np.arange(count)
        index = rows.schema.get_field_index(self.name)
        return rows.set_column(index, rows.schema.field(index), pa.array(values))


def identity_columns(metadata: Metadata) -> list[IdentityColumn]:
    """Columns in which new rows get their numbers here."""
    columns = json.loads(metadata.schema_string)["fields"]
    return [
        IdentityColumn(column["name"], facts[_START], facts[_STEP], facts.get(_LAST))
        for column in columns
        if (facts := column.get("metadata", {})).get(EXPLICIT) is False
    ]


def is_numbered(column: Mapping[str, Any]) -> bool:
    """True if an identity column, as `schemaString` has it, tells what is needed to number rows."""
    start, step = (column["metadata"].get(name) for name in (_START, _STEP))
    return column["type"] == "long" and isinstance(start, int) and isinstance(step, int) and step != 0


def with_last_numbers(actions: Sequence[Named], metadata: Metadata, columns: Sequence[IdentityColumn]) -> list[Named]:
    """*actions* of a commit, with the last numbers in the table's metadata, if they have moved.

    Args:
        metadata: Of the table before the commit.
    """
    known = next((action for _, action in actions if isinstance(action, Metadata)), metadata)
    schema, last = json.loads(known.schema_string), {column.name: column.last for column in columns}
    moved = [field for field in schema["fields"] if field["metadata"].get(_LAST) != last.get(field["name"])]
    moved = [field for field in moved if last.get(field["name"]) is not None]
    for field in moved:
        field["metadata"][_LAST] = last[field["name"]]
    if not moved:
        return list(actions)
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    others = [named for named in actions if not isinstance(named[1], Metadata)]
    return [*others, ("metaData", replace(known, schema_string=text))]
