"""The rows that a target holds of its source table: `TargetRows(target, mode, rule)`; `changed_files(target)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq

from binlog_format.rows.arrow_arrays import mask_array
from binlog_streaming.modes.mode_columns import DELETED, IS_CURRENT
from binlog_streaming.prove.rows import BUCKETS, Rows, Sums
from binlog_streaming.settings.choices import Deletes, Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from binlog_streaming.lake.target import RecordedFile, Target
    from binlog_streaming.prove.column_forms import TableForms
    from binlog_streaming.settings.model import TableRule


@dataclass(frozen=True, slots=True)
class TargetRows:
    """Rows of a target at one version; superseded versions of rows and deleted ones are left out.

    Attributes:
        target: As of the version.
    """

    target: Target
    mode: Mode
    rule: TableRule
    forms: TableForms

    def sums(self, on_rows: Callable[[int], None]) -> Sums:
        """Counts and sums of hashes by bucket; *on_rows* is told of rows as they are summed."""
        found = Sums.empty()
        for batch in self._batches():
            found.add_rows(*self._rows(batch))
            on_rows(batch.num_rows)
        return found

    def rows_of(self, buckets: Sequence[int]) -> Rows:
        """The rows of some buckets."""
        chosen = np.zeros(BUCKETS, np.bool_)
        chosen[list(buckets)] = True
        parts = []
        for batch in self._batches():
            rows, places = self._rows(batch)
            parts.append(rows.where(chosen[places]))
        return Rows.joined(parts)

    def columns_of(self, buckets: Sequence[int], keys: Sequence[bytes]) -> dict[bytes, tuple[int, ...]]:
        """Hash of each column's part of the message, of the rows with some keys, which are in some buckets."""
        chosen, wanted = np.zeros(BUCKETS, np.bool_), set(keys)
        chosen[list(buckets)] = True
        found: dict[bytes, tuple[int, ...]] = {}
        for batch in self._batches():
            rows, places = self._rows(batch)
            is_chosen = chosen[places]
            candidates = zip(np.flatnonzero(is_chosen).tolist(), rows.where(is_chosen).keys.to_pylist(), strict=True)
            numbers = [number for number, key in candidates if key in wanted]
            few = batch.take(numbers) if numbers else batch.slice(0, 0)
            hashes = self.forms.column_hashes(few.column, few.num_rows)
            for place, number in enumerate(numbers):
                found[rows.keys[number].as_py()] = tuple(int(values[place]) for values in hashes)
        return found

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self.target.read():
            if self.mode is Mode.SCD2:
                yield batch.filter(batch.column(IS_CURRENT))
            elif self.rule.deletes is Deletes.MARK:
                deleted = batch.column(DELETED).fill_null(False).to_numpy(zero_copy_only=False)
                yield batch.filter(mask_array(~deleted))
            else:
                yield batch

    def _rows(self, batch: pa.RecordBatch) -> tuple[Rows, np.ndarray]:
        return self.forms.rows(batch.column, np.ones(batch.num_rows, np.int64))


def changed_files(target: Target) -> list[str]:
    """Say which data files have been changed in place, and how.

    Reading trusts what a table format records: of a file into which somebody has put rows, only so many are read.

    Raises:
        OSError: A file cannot be read.
        pyarrow.ArrowException: A file is no Parquet file.
    """
    return [text for file in target.recorded_files() for text in _differences(file)]


def _differences(file: RecordedFile) -> list[str]:
    with file.open() as opened:
        opened.seek(0, 2)
        size = opened.tell()
        opened.seek(0)
        rows = pq.read_metadata(opened).num_rows
    found = []
    if file.row_count is not None and rows != file.row_count:
        found.append(f"{file.name} has {rows:,} rows, the table records {file.row_count:,}")
    elif size != file.size:
        found.append(f"{file.name} has {size:,} bytes, the table records {file.size:,}")
    return found
