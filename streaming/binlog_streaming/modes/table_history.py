"""The rows of a table through a step, from those before it to the last image: `TableHistory`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from binlog_format.errors import SchemaError, UnsupportedError
from binlog_format.names import folded_name
from binlog_format.rows.arrow_arrays import numbers_array
from binlog_format.rows.images import ImageKind
from binlog_streaming.lake.row_values import comparable_table, row_ids
from binlog_streaming.modes.absent_columns import GENERATED, UNCHANGED_IF_ABSENT, AbsentKinds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_format.kernels import Bytes, Indices, Mask
    from binlog_streaming.modes.row_batches import StepImages

BEFORE_ALL, AFTER_ALL = -1, np.iinfo(np.int64).max
"""Values in place of a time: before the first change of a step, and after the last one."""

_HINT = 'Set binlog_row_image=FULL on the server, or foreign_keys = "ignore" for the child table'
_COMPUTED_HINT = (
    "The server leaves this generated column out of updates (MariaDB 11.8 with binlog_row_image=FULL too): set "
    'generated = "null" for the table, if it has no changelog and no foreign key needs the column; or '
    'foreign_keys = "ignore" for the child table'
)


class RowVersions(NamedTuple):
    """States that rows were in.

    Attributes:
        nodes: The state, see `TableHistory`.
        starts: Time from which on the row was in it.
        ends: Time up to which.
        rows: A number for each row, the same as long as it keeps its key.
    """

    nodes: Indices
    starts: Indices
    ends: Indices
    rows: Indices


@dataclass(frozen=True)
class TableHistory:
    """Images of a table, and those rows before them that come into question.

    A *node* is a state of a row: the numbers of images, and after these those of the rows before the step. A time is
    the rank of a row change among all changes of the step; both images of an update have the same.

    Attributes:
        images: Of the step; none where it has no row batches.
        keys: Indices of its key columns; empty: it has none, and equal rows are copies of one.
        times: Of each image.
        before: Rows before the step, in these columns.
        nullable: Indices of columns that are null in whole rows where the server computed a value that images lack.
    """

    images: StepImages
    schema: pa.Schema
    keys: tuple[int, ...]
    times: Indices
    before: pa.Table
    nullable: frozenset[int] = frozenset()

    def column(self, name: str) -> int:
        """Index of a column; the server does not tell upper from lower case."""
        names = [folded_name(known) for known in self.schema.names]
        if folded_name(name) not in names:
            raise SchemaError(
                "COLUMN_MISMATCH",
                f"{self.images.source_table}: a foreign key names column {name}, and its rows have "
                f"{', '.join(self.schema.names)}",
                hint='Give the definitions (option schemaFile), or set foreign_keys = "ignore" for the child table',
            )
        return names.index(folded_name(name))

    def part(self, columns: Sequence[int]) -> pa.Schema:
        """Schema of the *columns*."""
        return pa.schema([self.schema.field(column) for column in columns])

    def keys_of_images(self) -> pa.Table:
        """The keys of all images, under their names."""
        images = np.arange(len(self.images), dtype=np.int64)
        arrays = [self._key_values(key, images) for key in self.keys]
        return pa.Table.from_arrays(arrays, schema=self.part(self.keys))

    def rows(self, nodes: Indices) -> pa.Table:
        """Whole rows."""
        arrays = [
            self.values(column, nodes, unknown_is_null=column in self.nullable and self._is_computed(column))
            for column in range(len(self.schema))
        ]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def values(self, column: int, nodes: Indices, *, unknown_is_null: bool = False) -> pa.ChunkedArray:
        """A column of some nodes.

        Args:
            nodes: In any order.
            unknown_is_null: Null where the value is in no image, and in no row before them.
        """
        kind, count = self.schema.field(column).type, len(self.images)
        name = self.schema.names[column]
        sources = self._sources(column)[nodes]
        facts = sources - self._by_default
        has_default = np.array([name in known_facts.defaults for known_facts in self.images.facts.known], np.bool_)
        lacking = sources == self._unknown
        lacking[facts >= 0] = ~has_default[facts[facts >= 0]]
        if lacking.any() and not unknown_is_null:
            raise self.lacking(column)
        own = sources < count
        known_before = ~own & (sources < self._unknown)
        chunks = [
            *self.images.values(column, kind, sources[own]).chunks,
            *self.before.column(column).take(numbers_array(sources[known_before] - count)).chunks,
            pa.nulls(1, kind),
        ]
        places = np.full(len(nodes), own.sum() + known_before.sum(), dtype=np.int64)
        places[own] = np.arange(own.sum())
        places[known_before] = own.sum() + np.arange(known_before.sum())
        return self.images.facts.with_defaults(name, pa.chunked_array(chunks, kind).take(numbers_array(places)), facts)

    def lacking(self, column: int) -> UnsupportedError:
        """The error for a column that images leave out, and that nobody knows."""
        is_computed = self._is_computed(column)
        return UnsupportedError(
            "ROW_IMAGE",
            f"{self.images.source_table}: {self.schema.names[column]}: missing from row images; what foreign keys do "
            "cannot be computed without it",
            hint=_COMPUTED_HINT if is_computed else _HINT,
        )

    def _is_computed(self, column: int) -> bool:
        """True if the server computes a column with each update, and images after updates leave it out for that."""
        left_out = self.images.absent_mask(column) & (self.images.kinds == ImageKind.UPDATE_AFTER)
        return bool((self._absent_kinds.of(column)[left_out] == GENERATED).all() and left_out.any())

    def versions(self) -> RowVersions:
        """The states that rows are in after an image, and before all."""
        count, kinds = len(self.images), self.images.kinds
        nodes = np.concatenate([np.flatnonzero(_begins(kinds)), count + np.arange(self.before.num_rows)])
        following = self._chains[1][nodes]
        ends = np.where(following < 0, AFTER_ALL, self.times[following] if count else AFTER_ALL)
        starts = np.concatenate([self.times[_begins(kinds)], np.full(self.before.num_rows, BEFORE_ALL)])
        return RowVersions(nodes, starts, ends, self._row_ids[nodes])

    def ends_of(self, rows: pa.Table, times: Indices) -> Indices:
        """Time of the next image of each row's key after the given time, as `RowVersions.ends`."""
        ids = self._ids_with(rows)
        own, wanted = ids[: len(self.images)], ids[len(self.images) :]
        # Key and time as one number.
        width = max(int(times.max(initial=0)), int(self.times.max(initial=0))) + 1
        order = np.argsort(own * width + self.times)
        places = np.searchsorted((own * width + self.times)[order], wanted * width + times, side="right")
        found = np.append(order, -1)[places]
        is_same = (found >= 0) & (np.append(own, -1)[found] == wanted)
        return np.where(is_same, np.append(self.times, 0)[found], AFTER_ALL)

    def is_carried(self, columns: Sequence[int]) -> tuple[Indices, Indices]:
        """Images after updates that have a value of *columns* from states before the update.

        Returns:
            Their times, and the row that they are of.
        """
        if not self.images.has_absent:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        after = np.flatnonzero(self.images.kinds == ImageKind.UPDATE_AFTER)
        carried = np.zeros(len(after), dtype=np.bool_)
        for column in columns:
            sources = self._sources(column)[after]
            carried |= (sources != after) & (sources != after - 1)
        return self.times[after[carried]], self._row_ids[after[carried] - 1]

    @cached_property
    def _row_ids(self) -> Indices:
        return self._ids_with(self.before) if self.keys else self._copy_ids()

    def _copy_ids(self) -> Indices:
        """A number for each image and each row before, where rows are told apart by nothing: that of a copy of a row.

        Of equal rows the one that came last is the first to go. Which one goes is all the same, but for those that a
        foreign key deleted in between, all at once, as they refer to the same: it must be none of these.
        """
        ids = self._ids_with(self.before, tuple(range(len(self.schema))))
        order = self._in_log_order
        order = order[np.argsort(ids[order], kind="stable")]
        begins = np.append(_begins(self.images.kinds), np.ones(self.before.num_rows, np.bool_))[order]
        # How many copies there are with the one that comes or goes; below a start that is the same for all of a row.
        depths = np.cumsum(np.where(begins, 1, -1)) + ~begins
        same = np.append(False, ids[order][1:] == ids[order][:-1])[: len(order)]
        first = np.maximum.accumulate(np.where(same, 0, np.arange(len(order))))
        depths -= depths[first]
        copies = np.empty(len(order), dtype=np.int64)
        _, copies[order] = np.unique(np.stack([ids[order], depths]), axis=1, return_inverse=True)
        return copies

    @property
    def _in_log_order(self) -> Indices:
        rows = len(self.images) + np.arange(self.before.num_rows, dtype=np.int64)
        return np.concatenate([rows, self.images.in_log_order()]).astype(np.int64)

    def _ids_with(self, rows: pa.Table, columns: tuple[int, ...] = ()) -> Indices:
        """A number for each image and each row of *rows*, the same for the same key, or the same in *columns*."""
        images = np.arange(len(self.images), dtype=np.int64)
        arrays = []
        for key in columns or self.keys:
            chunks = [*self._key_values(key, images).chunks, *rows.column(key).chunks]
            arrays.append(pa.chunked_array(chunks, self.schema.field(key).type))
        ids, _ = row_ids(comparable_table(arrays))
        return ids

    def _key_values(self, column: int, images: Indices) -> pa.ChunkedArray:
        # The image after an update may leave it out: then it is that of the image before.
        if self.images.has_absent:
            absent = self.images.absent_mask(column)
            images = np.where(absent & (self.images.kinds == ImageKind.UPDATE_AFTER), images - 1, images)
            if absent[images].any():
                raise self.lacking(column)
        return self.images.values(column, self.schema.field(column).type, images)

    @cached_property
    def _chains(self) -> tuple[Indices, Indices]:
        # For each node the one before it of the same row, and the one after it; -1: there is none.
        total, order = len(self._row_ids), self._in_log_order
        order = order[np.argsort(self._row_ids[order], kind="stable")]
        same = self._row_ids[order[1:]] == self._row_ids[order[:-1]]
        previous, following = np.full(total, -1, dtype=np.int64), np.full(total, -1, dtype=np.int64)
        previous[order[1:][same]] = order[:-1][same]
        following[order[:-1][same]] = order[1:][same]
        return previous, following

    @property
    def _unknown(self) -> int:
        # In place of a node: nobody knows; and those after it: the default of an insert, by the facts at its place.
        return len(self.images) + int(self.before.num_rows)

    @property
    def _by_default(self) -> int:
        return self._unknown + 1

    def _sources(self, column: int) -> Indices:
        """The node that has each node's value of a column."""
        everything = np.arange(self._by_default + len(self.images.facts.known), dtype=np.int64)
        if not self.images.has_absent:
            return everything
        absent = np.flatnonzero(self.images.absent_mask(column))
        ahead = everything.copy()
        ahead[absent] = self._predecessors[absent]
        kinds = self._absent_kinds.of(column)[absent]
        is_computed = (self.images.kinds[absent] == ImageKind.UPDATE_AFTER) & (kinds != UNCHANGED_IF_ABSENT)
        ahead[absent[is_computed]] = self._unknown
        while True:
            further = ahead[ahead]
            if (further == ahead).all():
                return ahead
            ahead = further

    @cached_property
    def _absent_kinds(self) -> AbsentKinds:
        return AbsentKinds(self.images, self.schema)

    @cached_property
    def _predecessors(self) -> Indices:
        kinds = self.images.kinds
        images = np.arange(len(kinds), dtype=np.int64)
        previous = self._chains[0][images] if self.keys else np.full(len(kinds), -1, dtype=np.int64)
        has_row = (previous >= len(kinds)) | ((previous >= 0) & _begins(kinds)[np.clip(previous, 0, len(kinds) - 1)])
        found = np.where(has_row, previous, self._unknown)
        is_new = kinds == ImageKind.INSERT
        found[is_new] = self._by_default + self.images.facts.numbers[is_new]
        is_after = kinds == ImageKind.UPDATE_AFTER
        found[is_after] = images[is_after] - 1
        return found


def _begins(kinds: Bytes) -> Mask:
    mask: Mask = np.isin(kinds, (ImageKind.INSERT, ImageKind.UPDATE_AFTER))
    return mask
