"""What a `Change` does to a table, in plain Python: `ModelTable`; a sink must do the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from binlog_streaming.lake.row_values import rows_with

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_streaming.lake.change import Change, Patches

    Row = dict[str, object]


class ModelTable:
    """A table with columns.

    Args:
        keys: Names of the key columns.
    """

    def __init__(self, schema: pa.Schema, keys: Sequence[str]) -> None:
        self.schema = schema
        self.keys = keys
        self.rows: list[Row] = []

    def merge(self, change: Change) -> None:
        """Bring *change* in."""
        upserts, deletes = self._by_key(change.upserts), self._by_key(change.deletes)
        patches = self._by_key(change.patches.rows) if change.patches is not None else {}
        assert len(upserts) == change.upserts.num_rows
        assert len(upserts | deletes | patches) == len(upserts) + len(deletes) + len(patches), "a key comes twice"
        kept = []
        for row in self.rows:
            key = tuple(row[name] for name in self.keys)
            if change.current is not None and not row[change.current]:
                kept.append(row)
            elif key in upserts or key in deletes:
                continue
            elif key in patches:
                assert change.patches is not None
                kept.append(row | _patch(change.patches, patches[key]))
            else:
                kept.append(row)
        new = change.upserts.to_pylist() + ([] if change.appends is None else change.appends.to_pylist())
        assert all(list(row) == self.schema.names for row in new)
        self.rows = kept + new

    def with_keys(self, keys: pa.Table) -> pa.Table:
        """Rows that may have one of *keys*, as a target that is read gives them."""
        return rows_with(pa.Table.from_pylist(self.rows, self.schema).to_reader(max_chunksize=3), keys)

    def _by_key(self, rows: pa.Table) -> dict[tuple[object, ...], int]:
        keys = rows.select(self.keys).to_pylist()
        numbers = {tuple(key.values()): number for number, key in enumerate(keys)}
        assert len(numbers) == len(keys), "a key comes twice"
        return numbers


def _patch(patches: Patches, number: int) -> Row:
    row: Row = patches.rows.slice(number, 1).to_pylist()[0]
    return {
        name: value
        for name, value in row.items()
        if name not in patches.present.column_names or patches.present.column(name)[number].as_py()
    }
