"""Facts of columns that row images leave out: `absent_facts`.

A server leaves columns out of row images with `binlog_row_image` MINIMAL, NOBLOB and FULL_NODUP, MariaDB 11.8 also with
FULL. What such a column holds:

* After an INSERT its default, where the column's definition is known; else nobody knows. (Defaults that are expressions
  or the time of the statement are logged.)
* After an UPDATE what it held before, if a server logs the column whenever it changes. MySQL does so with all columns,
  MariaDB with all that are not generated: VIRTUAL ones, and in 11.8 STORED ones too, it computes anew and leaves out.

Only a definition tells which columns are generated; of MariaDB also that a column cannot be NULL. The decision
`docs/decisions/0030-what-an-image-lacks.md` has what servers were seen to log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.arrow_arrays import numbers_array
from binlog_format.rows.declared.completion import ColumnCompletion, LayoutCompletion
from binlog_format.rows.declared.default_values import layout_defaults
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from binlog_format.events.table_map import Column, TableLayout
    from binlog_format.rows.decoding import Decoding

GENERATED_HINT = (
    'Set generated = "null" for the table (they are null where the log lacks them), or leave them out of a new target '
    '(drop_columns, or generated = "drop" for all of them); '
    "MariaDB 10.11 logs them with binlog_row_image=FULL"
)
UNCLEAR_HINT = (
    "Put the table's definition into the log (binlog-stream snapshot --definitions), or give it as a schema file "
    "(option schemaFile); binlog_row_image=FULL on the server leaves out generated columns at most"
)
WHOLE_IMAGES_HINT = "Set binlog_row_image=FULL on the server, or use mode changelog for this table"

# Of a column that an UPDATE image lacks.
UNCHANGED_IF_ABSENT, GENERATED, UNCLEAR = range(3)

_BLOBS = frozenset(
    {
        ColumnType.BLOB,
        ColumnType.TINY_BLOB,
        ColumnType.MEDIUM_BLOB,
        ColumnType.LONG_BLOB,
        ColumnType.BLOB_COMPRESSED,
        ColumnType.GEOMETRY,
        ColumnType.JSON,
    }
)


@dataclass(frozen=True, slots=True)
class AbsentFacts:
    """Facts of definitions, by column name.

    Attributes:
        defaults: What an INSERT that leaves the column out puts there, where that is known.
        generated: Columns that the server computes anew with an UPDATE, and may leave out of its images.
        unchanged: Columns that an UPDATE leaves as they are when its images lack them. Of those that are in neither,
            nobody knows which kind they are.
        nullable: Columns that can be NULL. An image before an UPDATE that has one is not MINIMAL.
        blobs: Columns that `binlog_row_image=NOBLOB` leaves out.
    """

    defaults: Mapping[str, pa.Scalar] = field(default_factory=dict)
    generated: frozenset[str] = frozenset()
    unchanged: frozenset[str] = frozenset()
    nullable: frozenset[str] = frozenset()
    blobs: frozenset[str] = frozenset()

    def kind(self, name: str) -> int:
        """`UNCHANGED_IF_ABSENT`, `GENERATED` or `UNCLEAR`."""
        if name in self.generated:
            return GENERATED
        return UNCHANGED_IF_ABSENT if name in self.unchanged else UNCLEAR


def absent_facts(layout: TableLayout, decoding: Decoding) -> AbsentFacts:
    """Facts of a layout, from DDL or a schema file."""
    defaults = layout_defaults(layout, decoding)
    named = [(column.name, column, fact) for column, fact in zip(layout.columns, defaults, strict=True) if column.name]
    declared = _declared(layout)
    kinds = {name: _kind(column, declared.get(name), layout.vendor) for name, column, _ in named}
    return AbsentFacts(
        {name: fact.value for name, _, fact in named if fact.value is not None},
        frozenset(name for name, kind in kinds.items() if kind == GENERATED),
        frozenset(name for name, kind in kinds.items() if kind == UNCHANGED_IF_ABSENT),
        frozenset(name for name, column, _ in named if column.nullable),
        frozenset(name for name, column, _ in named if column.type in _BLOBS),
    )


def _declared(layout: TableLayout) -> dict[str, ColumnCompletion]:
    # What rules mask has lost its definition, and is what it was all the same.
    found: dict[str, ColumnCompletion] = {}
    for text in (layout.logged.completion if layout.logged else "", layout.completion):
        columns = LayoutCompletion.from_json(text).columns if text else ()
        found |= {column.name: column for column in columns if column.declared is not None}
    return found


def _kind(column: Column, declared: ColumnCompletion | None, vendor: Vendor) -> int:
    if vendor is Vendor.MYSQL:
        return UNCHANGED_IF_ABSENT
    if declared is not None:
        return GENERATED if declared.generated else UNCHANGED_IF_ABSENT
    # MariaDB's grammar has no NOT NULL for generated columns.
    return UNCLEAR if column.nullable else UNCHANGED_IF_ABSENT


def with_default(values: pa.ChunkedArray, chosen: NDArray[np.bool_], default: pa.Scalar) -> pa.ChunkedArray:
    """*values*, and *default* in the *chosen* rows."""
    if not chosen.any():
        return values
    # A take works for every type; `if_else` does not.
    rows = np.arange(len(values), dtype=np.int64)
    rows[chosen] = len(values)
    both = pa.chunked_array([*values.chunks, pa.array([default.as_py()], values.type)], values.type)
    return both.take(numbers_array(rows))
