"""Changed rows of a target in one step: `Change`, which a mode makes; new rows laid over old ones: `Overlay`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from binlog_streaming.lake.row_values import one_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from binlog_streaming.lake.rows_before import RowsBefore

    Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Patches:
    """New values for some columns of the target's rows; a key without a row changes nothing.

    Attributes:
        rows: Key columns, and the columns that any of the patches changes; one row for a key.
        present: For every column of *rows* that is no key and that some of the patches leave alone, which patches
            change it: booleans under the column's name. Columns that are not here are changed by all.
    """

    rows: pa.Table
    present: pa.Table


@dataclass(frozen=True, slots=True)
class Change:
    """Changed rows, by key; no key comes twice in `upserts`, `deletes` and `patches` together.

    Attributes:
        upserts: Whole rows: each takes the place of the row with its key, or comes new.
        deletes: Keys of rows that go; key columns only.
        patches: Some columns of rows; None: there are none.
        appends: Rows that come new, whatever has their key; None: there are none.
        current: Boolean column of the target: only rows that have true in it count as being there (`scd2`); None: all.
        expected: What the target must hold before: `Expected` of each key, those of `upserts`, `deletes` and `patches`
            one after the other; None: it may hold anything.
        gone: Boolean column of the target: to `expected`, rows with true in it are not there (marked deletes); None:
            all rows are.
        firsts: Of each key the number of its first image, as `expected` counts keys; None: where that is None.
        before: What `expected` has to be compared with beside keys; None: keys alone.
    """

    upserts: pa.Table
    deletes: pa.Table
    patches: Patches | None = None
    appends: pa.Table | None = None
    current: str | None = None
    expected: NDArray[np.uint8] | None = None
    gone: str | None = None
    firsts: NDArray[np.int64] | None = None
    before: RowsBefore | None = None

    def key_rows(self, keys: Sequence[str]) -> pa.Table:
        """The columns *keys* of `upserts`, `deletes` and `patches`, one after the other."""
        tables = [self.upserts, self.deletes, *([] if self.patches is None else [self.patches.rows])]
        return pa.concat_tables([table.select(list(keys)) for table in tables], promote_options="permissive")

    @property
    def row_count(self) -> int:
        """Rows and keys."""
        count = self.upserts.num_rows + self.deletes.num_rows
        count += 0 if self.patches is None else self.patches.rows.num_rows
        return int(count + (0 if self.appends is None else self.appends.num_rows))


@dataclass(frozen=True, slots=True)
class Overlay:
    """Rows that take the place of others, or of some of their columns.

    Attributes:
        first: Number of the first one among all keys of the change.
        rows: These.
        present: `Patches.present`.
        kept: Columns of the old rows that are looked at, at least one.
    """

    first: int
    rows: pa.Table
    present: pa.Table
    kept: pa.Schema

    @property
    def after(self) -> int:
        """Number of the key after the last one."""
        return self.first + int(self.rows.num_rows)

    def over(self, old: pa.RecordBatch, numbers: Indices, schema: pa.Schema) -> pa.Table:
        """The new rows, in *schema*; *numbers*: for each old row, that of its new one."""
        at = pa.array(numbers - self.first)
        columns = []
        for field in schema:
            if field.name not in self.rows.column_names:
                columns.append(old.column(field.name))
                continue
            value = one_array(self.rows.column(field.name).take(at))
            if field.name in self.present.column_names:
                flags = one_array(self.present.column(field.name).take(at))
                value = pc.if_else(flags, value, old.column(field.name))
            columns.append(value)
        return pa.table(columns, schema=schema)
