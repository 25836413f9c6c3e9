"""Row images that lack columns: `fill_rows` tells what a step makes of each row, `PartialRows` gives the values.

Per key and column the last image counts that has the column; an INSERT or a DELETE ends what was before it. A row that
is known as a whole from the step alone takes the place of the one in the target; of others only the columns that some
image has are changed. The image before an update serves for columns that the one after leaves out
(`binlog_row_image=FULL_NODUP`).

An update that changes the key moves the row, with columns that may be in no image. Where an earlier image of the step
has them, they come along; else they are only in the target, under the old key, and are read from there.

Errors of steps whose row images lack columns: `generated_absent`, `kind_unknown`, `lacking_columns`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.errors import UnsupportedError
from binlog_format.messages import count_text
from binlog_format.rows.arrow_arrays import mask_array, numbers_array
from binlog_streaming.lake.change import Patches
from binlog_streaming.lake.key_lookup import KeyRuns
from binlog_streaming.lake.row_values import matching_rows
from binlog_streaming.modes.absent_columns import GENERATED_HINT, UNCLEAR_HINT, WHOLE_IMAGES_HINT, AbsentKinds
from binlog_streaming.modes.partial_row_kernels import (
    COMPUTED,
    DEFAULT,
    GONE,
    MOVED,
    TOUCHED,
    UNCHANGED,
    UNKNOWN,
    fill_forward,
)
from binlog_streaming.modes.row_batches import NO_IMAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from binlog_format.kernels import Indices, Int64s, Mask
    from binlog_streaming.modes.row_batches import StepImages
    from binlog_streaming.modes.row_keys import KeyTable

    Lookup = Callable[[pa.Table], pa.Table]
    """Function from keys to the target's rows with these keys (it may return others too), with all columns, in any
    order."""


def generated_absent(
    source_table: str, names: Sequence[str], count: int, *, hint: str = GENERATED_HINT
) -> UnsupportedError:
    """The error for generated columns that row images lack."""
    why = (
        "generated columns that row images lack: the server computes them anew, and does not log them, or logs another "
        "value with an INSERT"
    )
    return lacking_columns(source_table, names, count, why, hint=hint)


def kind_unknown(source_table: str, names: Sequence[str], count: int) -> UnsupportedError:
    """The error for columns that images after updates lack, and that may be generated."""
    why = (
        "missing from images of updates, and it is not known whether these columns are generated: others are "
        "unchanged then, and generated ones the server computes anew"
    )
    return lacking_columns(source_table, names, count, why, hint=UNCLEAR_HINT)


def lacking_columns(source_table: str, names: Sequence[str], count: int, why: str, *, hint: str) -> UnsupportedError:
    """The error for columns that row images lack.

    Args:
        source_table: `database.table`.
        why: What they are missing from, and what is not known of them.
    """
    return UnsupportedError(
        "ROW_IMAGE", f"{source_table}: {', '.join(names)}: {why} ({count_text(count, 'row')})", hint=hint
    )


@dataclass(frozen=True)
class PartialRows:
    """Rows of a step by key.

    Attributes:
        columns: Indices of the columns that are no keys.
        runs: The images key by key.
        sources: Shape (keys, columns): the image that has the value, or one of `partial_row_kernels`' marks.
        gone: For each key whether there is no row with it after the step.
        touched: For each key whether the step inserts or updates it.
        origins: For each key the number of the key that its row had before the step.
    """

    images: StepImages
    schema: pa.Schema
    keys: KeyTable
    columns: tuple[int, ...]
    runs: KeyRuns
    sources: Int64s
    gone: Mask
    touched: Mask
    origins: Indices

    @cached_property
    def first(self) -> Indices:
        """For each key its first image."""
        return self.runs.first

    @cached_property
    def last(self) -> Indices:
        """For each key its last image."""
        return self.runs.last

    def is_whole(self) -> Mask:
        """Mask of the keys whose rows are known completely."""
        whole: Mask = ~(self.sources == UNCHANGED).any(axis=1)
        return whole

    def has_moved(self) -> Mask:
        """Mask of the keys whose rows have values that are only in the target, under other keys."""
        moved: Mask = (self.sources == MOVED).any(axis=1)
        return moved

    def check(self, rows: Indices, *, computed_is_null: bool) -> None:
        """See that values can be found for all columns of some keys' rows that are not left alone.

        Args:
            rows: Numbers of keys.
            computed_is_null: Generated columns that the images lack become null.
        """
        sources = self.sources[rows]
        lacking = sources <= DEFAULT
        for number, column in enumerate(self.columns):
            has_default = [self.schema.names[column] in facts.defaults for facts in self.images.facts.known]
            left_out = np.flatnonzero(lacking[:, number])
            lacking[left_out, number] = ~np.array(has_default, np.bool_)[DEFAULT - sources[left_out, number]]
        if lacking.any():
            raise self._refusal(lacking, "missing from inserts, and their defaults are not known from the log")
        if (sources == UNKNOWN).any():
            raise kind_unknown(self.images.source_table, *self._told(sources == UNKNOWN))
        if (sources == COMPUTED).any() and not computed_is_null:
            raise generated_absent(self.images.source_table, *self._told(sources == COMPUTED))

    def upserts(self, rows: Indices) -> pa.Table:
        """The whole rows of some keys; nothing of them is in the target alone."""
        return self._rows(rows, [self._values(number, rows) for number in range(len(self.columns))])

    def moved(self, rows: Indices, there: Lookup | None) -> tuple[pa.Table, Indices]:
        """The whole rows of keys that come out of other keys' rows in the target.

        Returns:
            The rows, and their numbers among all keys. A row that the target does not have is left out: as are updates
            of such rows that keep the key.
        """
        if there is None:
            raise self._refusal(self.sources[rows] == MOVED, "missing from updates that change the key")
        origins = self.keys.taken(self.last[self.origins[rows]])
        found = there(origins)
        places = matching_rows(found.select(self.keys.names), origins)
        rows, places = rows[places >= 0], places[places >= 0]
        arrays = []
        for number, column in enumerate(self.columns):
            values, field = self._values(number, rows), self.schema.field(column)
            old = found.column(field.name).cast(field.type)
            chosen = np.arange(len(rows), dtype=np.int64)
            is_moved = self.sources[rows, number] == MOVED
            chosen[is_moved] = len(rows) + places[is_moved]
            both = pa.chunked_array([*values.chunks, *old.chunks], field.type)
            arrays.append(both.take(numbers_array(chosen)))
        return self._rows(rows, arrays), rows

    def patches(self, rows: Indices) -> Patches:
        """The columns of some keys' rows that the step changes."""
        table, present = self.keys.taken(self.last[rows]), {}
        for number, column in enumerate(self.columns):
            changed = self.sources[rows, number] != UNCHANGED
            if not changed.any():
                continue
            field = self.schema.field(column)
            table = table.append_column(field, self._values(number, rows))
            if not changed.all():
                present[field.name] = mask_array(changed)
        return Patches(table, pa.table(present))

    def _rows(self, rows: Indices, columns: Sequence[pa.ChunkedArray]) -> pa.Table:
        arrays = dict(zip(self.keys.names, self.keys.taken(self.last[rows]).columns, strict=True))
        arrays |= {self.schema.names[index]: values for index, values in zip(self.columns, columns, strict=True)}
        return pa.Table.from_arrays([arrays[name] for name in self.schema.names], schema=self.schema)

    def _values(self, number: int, rows: Indices) -> pa.ChunkedArray:
        column = self.columns[number]
        sources = self.sources[rows, number]
        values = self.images.values(column, self.schema.field(column).type, np.maximum(sources, NO_IMAGE))
        return self.images.facts.with_defaults(self.schema.names[column], values, DEFAULT - sources)

    def _told(self, lacking: Mask) -> tuple[list[str], int]:
        # The columns that some rows lack, and how many rows do.
        names = [self.schema.names[self.columns[number]] for number in np.flatnonzero(lacking.any(axis=0))]
        return names, int(np.count_nonzero(lacking.any(axis=1)))

    def _refusal(self, lacking: Mask, why: str) -> UnsupportedError:
        return lacking_columns(self.images.source_table, *self._told(lacking), why, hint=WHOLE_IMAGES_HINT)


def fill_rows(images: StepImages, schema: pa.Schema, key_columns: Sequence[int], keys: KeyTable) -> PartialRows:
    """Follow the rows through the images of a step."""
    columns = tuple(index for index in range(len(schema)) if index not in key_columns)
    ids, count = keys.ids()
    present = np.empty((len(images), len(columns)), dtype=np.bool_)
    absent_kinds, facts = np.empty((len(images), len(columns)), dtype=np.uint8), AbsentKinds(images, schema)
    for number, column in enumerate(columns):
        present[:, number] = ~images.absent_mask(column)
        absent_kinds[:, number] = facts.of(column)
    sources = np.full((count, len(columns)), UNCHANGED, dtype=np.int64)
    rows = np.stack([np.zeros(count, dtype=np.int64), np.arange(count, dtype=np.int64)], axis=1)
    order = images.in_log_order()
    fill_forward(order, images.kinds, ids, present, absent_kinds, images.facts.numbers, sources, rows)
    gone, touched = (rows[:, 0] & flag != 0 for flag in (GONE, TOUCHED))
    return PartialRows(images, schema, keys, columns, KeyRuns.of(ids, order), sources, gone, touched, rows[:, 1])
