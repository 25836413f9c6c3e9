"""New rows laid over old ones: `Overlay`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from binlog_streaming.lake.row_values import one_array

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Indices = NDArray[np.int64]


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
