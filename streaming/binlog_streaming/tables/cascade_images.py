"""Log images of tables that foreign keys link, in one order: `CascadeImages`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.rows.images import ImageKind, read_images
from binlog_format.views.cascading import are_checked
from binlog_streaming.modes.cascades import TIMES
from binlog_streaming.modes.row_batches import RowBatch, version_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from binlog_connector.schema.definitions import TableName
    from binlog_format.kernels import Indices, Mask
    from binlog_format.log.log import Log
    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.plan.cascade_links import Link, LinkedRowsStep
    from binlog_streaming.plan.cascades import CascadeLog


@dataclass(frozen=True)
class CascadeImages:
    """Row images of several tables; numbers of images count over all row batches, table after table.

    Attributes:
        row_batches: Of each table, in log order.
    """

    row_batches: Mapping[TableName, Sequence[RowBatch]]
    log: Log

    @cached_property
    def flat(self) -> list[RowBatch]:
        """All row batches."""
        return [row_batch for row_batches in self.row_batches.values() for row_batch in row_batches]

    @cached_property
    def names(self) -> list[TableName]:
        """Table of each row batch."""
        return [name for name, row_batches in self.row_batches.items() for _ in row_batches]

    @cached_property
    def times(self) -> Indices:
        """Rank of each image's row change among all, in steps of `TIMES`."""
        if not self.flat:
            return np.empty(0, np.int64)
        places = [(*row_batch.places(), row_batch.images.table["row_no"].astype(np.int64)) for row_batch in self.flat]
        columns = np.stack([np.concatenate(column) for column in zip(*places, strict=True)])
        order = np.lexsort(columns[::-1])
        sorted_columns = columns[:, order]
        begins = np.ones(len(order), dtype=np.bool_)
        begins[1:] = (sorted_columns[:, 1:] != sorted_columns[:, :-1]).any(axis=0)
        times = np.empty(len(order), dtype=np.int64)
        times[order] = np.cumsum(begins) * TIMES
        return times

    @property
    def row_changes(self) -> int:
        """Number of row changes."""
        return int(self.times.max(initial=0)) // TIMES

    def images_at(self, times: Indices) -> Indices:
        """The first image of the row change at each of *times*, all of which there are."""
        order = np.argsort(self.times, kind="stable")
        return order[np.searchsorted(self.times[order], times)]

    def start(self, name: TableName) -> int:
        """Number of a table's first image."""
        return sum(_size(row_batch) for row_batch in self.flat[: self.names.index(name)]) if name in self.names else 0

    def times_of(self, name: TableName) -> Indices:
        """Times of a table's images."""
        start = self.start(name)
        return self.times[start : start + sum(_size(row_batch) for row_batch in self.row_batches[name])]

    def changes_of(self, parent: TableName, link: Link, removed: Mask) -> Indices:
        """Images of *parent* of deletes and before updates that its server carried on by a foreign key.

        Args:
            removed: Which of the table's images are of rows that go.
        """
        start = self.start(parent)
        kinds = [row_batch.images.table["kind"] for row_batch in self.row_batches[parent]]
        if not kinds:
            return np.empty(0, np.int64)
        chosen = removed | (np.concatenate(kinds) == ImageKind.UPDATE_BEFORE) if link.key.on_update else removed.copy()
        chosen &= np.concatenate([self._is_carried(row_batch) for row_batch in self.row_batches[parent]])
        numbers = np.flatnonzero(chosen)
        return numbers[self.is_within(numbers + start, link)]

    def is_within(self, numbers: Indices, link: Link) -> Mask:
        """Mask of the images at places where a foreign key exists."""
        versions = self._versions[numbers]
        mask: Mask = (versions >= version_of(link.since)) & (versions < version_of(link.until))
        return mask

    @cached_property
    def _versions(self) -> Indices:
        versions = [row_batch.places()[0] for row_batch in self.flat]
        return np.concatenate(versions) if versions else np.empty(0, np.int64)

    def _is_carried(self, row_batch: RowBatch) -> Mask:
        events = row_batch.images.table["event"].astype(np.int64)
        return are_checked(row_batch.images.data, row_batch.events, events, row_batch.layout.vendor)


def _size(row_batch: RowBatch) -> int:
    return len(row_batch.images.table)


def outside_row_batches(step: LinkedRowsStep, log: CascadeLog, decoding: Decoding) -> dict[TableName, list[RowBatch]]:
    """Images of parents without targets, read out of the log."""
    found: dict[TableName, list[RowBatch]] = {}
    for part in step.outside:
        for block, touched in log.events_of(part.table, part.start, part.end):
            images = read_images(
                block.data, block.events, touched.events, touched.layout, place=block.place, decoding=decoding
            )
            row_batch = RowBatch(images, block.events, block.groups, touched.layout, block.gtid_sources, decoding)
            cut = row_batch.between(step.after, step.before)
            found.setdefault(part.table, []).extend([] if cut is None else [cut])
    return {name: sorted(row_batches, key=RowBatch.start) for name, row_batches in found.items()}
