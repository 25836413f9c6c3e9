"""The changes of one table in one batch: `load_row_batches` reads them, `StepImages` are those of one step."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from binlog_format.gtids.gtid_history import gtid_text
from binlog_format.position import Position
from binlog_format.rows.arrow_arrays import numbers_array
from binlog_format.rows.decoding import DEFAULT_DECODING
from binlog_format.rows.images import IMAGE_DTYPE, Images, read_images
from binlog_format.views.changefeed import commit_versions
from binlog_format.views.columns import COMMIT_TIME_TYPE
from binlog_format.views.table_index import TableIndex
from binlog_streaming.modes.absent_columns import ImageFacts
from binlog_streaming.modes.layout_cast import has_column, has_columns
from binlog_streaming.modes.mode_columns import place_texts
from binlog_streaming.prefetch import prefetch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from binlog_format.block import Table
    from binlog_format.events.table_map import TableLayout
    from binlog_format.gtids.gtid import GtidSource
    from binlog_format.kernels import Bytes, Indices, Mask
    from binlog_format.log.log import Log
    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.modes.absent_columns import AbsentFacts

    _ColumnReader = Callable[["RowBatch", Indices, Mask], pa.Array]

    EventPlace = tuple[Position, int]
    """Position of a group, and the number of an event in it."""

NO_IMAGE = -1
"""Number in place of an image's number: there is no image, the value is null."""

_Number = TypeVar("_Number", bound=np.generic)

_MICROS = 1_000_000


class ChangePlace(NamedTuple):
    """Place of a row image or a statement in the log; places are ordered as the log is.

    Attributes:
        position: Position of its event group.
        event_no: Number of its event in the group.
        commit_time: Of the group, seconds since 1970 UTC.
        gtid: Of the group, if it has one.
    """

    position: Position
    event_no: int
    commit_time: int
    gtid: str | None

    def __str__(self) -> str:
        return f"{self.position}:{self.event_no}"


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Part of what one index row points to: images of one table layout in log order, about a block of them.

    Attributes:
        events: `EVENT_DTYPE`; what `images.table["event"]` counts.
        groups: `GROUP_DTYPE`; what `events["group"]` counts.
        gtid_sources: What `gtid_source` in `groups` counts.
        snapshot: Of which these are existing rows, all of them inserts; empty: they are changes.
        facts: Of columns that the images lack; None: as the layout defines.
        expected: What the first one of the images expects that each of these stands for, `Expected`; None: each stands
            for itself alone, and expects what its kind does.
        is_derived: No log has them: foreign keys make them of changes of other tables.
    """

    images: Images
    events: Table
    groups: Table
    layout: TableLayout
    gtid_sources: tuple[GtidSource, ...] = ()
    decoding: Decoding = DEFAULT_DECODING
    snapshot: str = ""
    facts: AbsentFacts | None = None
    expected: Bytes | None = None
    is_derived: bool = False

    def places(self) -> tuple[Indices, Indices]:
        """Number of each image's group, growing in log order, and of its event in the group."""
        rows = self._event_rows()
        return commit_versions(self.groups)[self.events["group"][rows]], self.events["event_no"][rows]

    def commit_times(self) -> Indices:
        """Commit time of each image's group: microseconds since 1970 UTC."""
        seconds = self.groups["timestamp"].astype(np.int64)
        times: Indices = seconds[self.events["group"][self._event_rows()]] * _MICROS
        return times

    def place_texts(self, images: Indices) -> pa.Array:
        """Places of some images as text that sorts as the log does; `StepImages.place_texts`."""
        return place_texts(self.images.table[images], self.events, self.groups)

    def between(self, start: EventPlace | None, end: EventPlace | None) -> RowBatch | None:
        """The part from *start* (None: the beginning) to before *end* (None: the end); None if it is empty."""
        if start is end is None:
            return self
        places = self.places()
        low = 0 if start is None else _images_before(places, start)
        high = len(places[0]) if end is None else _images_before(places, end)
        if (low, high) == (0, len(places[0])):
            return self
        return replace(self, images=self.images.select(np.arange(low, high))) if low < high else None

    def start(self) -> ChangePlace:
        """Place of the first image."""
        return self.place_of(0)

    def end(self) -> ChangePlace:
        """Place of the last image."""
        return self.place_of(-1)

    def place_of(self, image: int) -> ChangePlace:
        """Place of an image."""
        event = self.events[int(self.images.table["event"][image])]
        group = self.groups[int(event["group"])]
        gtid = gtid_text(group, self.gtid_sources)
        return ChangePlace(Position.of(group), int(event["event_no"]), int(group["timestamp"]), gtid)

    def _event_rows(self) -> Indices:
        return self.images.table["event"].astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Split:
    # Of images by *numbers*: in each row batch which ones, and which of these are none; *back* restores their order.
    numbers: Indices
    parts: list[tuple[RowBatch, Indices, Mask]]
    back: pa.Array | None


@dataclass(frozen=True)
class StepImages:
    """The row images of one table between two statements of a batch; all have the same columns.

    An image's number counts over all row batches, one after the other; `ranks` tells which comes first in the log.

    Attributes:
        source_table: `database.table` in the log, for messages.
        row_batches: Parts, by their first image.
    """

    source_table: str
    row_batches: tuple[RowBatch, ...]
    _last_splits: dict[int, _Split] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return int(self._starts[-1])

    @cached_property
    def kinds(self) -> Bytes:
        """`ImageKind` of each image."""
        return _joined([row_batch.images.table["kind"] for row_batch in self.row_batches], np.uint8)

    @cached_property
    def existing(self) -> Mask:
        """Mask of the images that are existing rows, put into the log by a snapshot."""
        return _joined(
            [np.full(len(row_batch.images.table), bool(row_batch.snapshot)) for row_batch in self.row_batches], np.bool_
        )

    def place_of(self, number: int) -> tuple[RowBatch, int]:
        """The row batch of an image, and its number there."""
        owner = int(np.searchsorted(self._starts, number, side="right")) - 1
        return self.row_batches[owner], number - int(self._starts[owner])

    @cached_property
    def ranks(self) -> Indices | None:
        """Place of each image in log order; None when they are numbered in log order."""
        return log_order(self.row_batches)

    @cached_property
    def commit_times(self) -> Indices:
        """Commit time of each image, microseconds since 1970 UTC."""
        return _joined([row_batch.commit_times() for row_batch in self.row_batches], np.int64)

    @cached_property
    def has_absent(self) -> bool:
        """True if any image lacks any column."""
        return any(row_batch.images.has_absent() for row_batch in self.row_batches)

    @cached_property
    def has_changes(self) -> bool:
        """True if any image has only changes to a JSON value."""
        return self.has_absent and any(row_batch.images.has_changes() for row_batch in self.row_batches)

    def check_changes(self) -> None:
        """Like `Images.check_changes`, of all images."""
        for row_batch in self.row_batches:
            row_batch.images.check_changes()

    @cached_property
    def facts(self) -> ImageFacts:
        """Facts of columns that images lack, by image."""
        return ImageFacts.of(self.row_batches)

    def absent_mask(self, column: int) -> Mask:
        """Mask of the images that lack a column."""
        return _joined([row_batch.images.absent_mask(column) for row_batch in self.row_batches], np.bool_)

    def has_values(self, column: int) -> Mask:
        """Mask of the images that have a column; not those that lack it, or are older than it."""
        return _joined([has_column(row_batch.images, column) for row_batch in self.row_batches], np.bool_)

    @property
    def has_same_columns(self) -> bool:
        """True if no image is older than one of the columns."""
        return all(has_columns(row_batch.images) for row_batch in self.row_batches)

    def in_log_order(self) -> Indices:
        """Numbers of all images as they come in the log."""
        if self.ranks is None:
            return np.arange(len(self), dtype=np.int64)
        order = np.empty(len(self.ranks), dtype=np.int64)
        order[self.ranks] = np.arange(len(self.ranks))
        return order

    def values(self, column: int, kind: pa.DataType, numbers: Indices | None = None) -> pa.ChunkedArray:
        """Values of a column; only those asked for are decoded.

        Args:
            numbers: Of images, in any order, often the same ones; `NO_IMAGE` gives null. None: all images, in order.
        """
        numbers = self._all if numbers is None else numbers
        return self._gathered(
            numbers, kind, lambda row_batch, images, missing: row_batch.images.column_of(column, images, missing)
        )

    def times(self, numbers: Indices) -> pa.Array:
        """Commit times of some images; `NO_IMAGE` gives null."""
        missing = numbers == NO_IMAGE
        micros = self.commit_times[np.where(missing, 0, numbers)] if len(self) else numbers
        return pa.array(micros, pa.int64(), mask=missing).cast(COMMIT_TIME_TYPE)

    def place_texts(self, numbers: Indices) -> pa.ChunkedArray:
        """Places of some images as text that sorts as the log does: file, page, chunk, event and row, with zeros.

        Args:
            numbers: Of images, in any order.
        """
        return self._gathered(numbers, pa.string(), lambda row_batch, images, _: row_batch.place_texts(images))

    def _gathered(self, numbers: Indices, kind: pa.DataType, read: _ColumnReader) -> pa.ChunkedArray:
        # What *read* gives for images of one row batch, for images of all of them; it is told which images are none.
        thread = threading.get_ident()  # several may ask, each for column after column of its own numbers
        if (split := self._last_splits.get(thread)) is None or split.numbers is not numbers:
            split = self._last_splits[thread] = self._split(numbers)
        joined = pa.chunked_array([read(*part) for part in split.parts], kind)
        return joined if split.back is None else joined.take(split.back)

    def _split(self, numbers: Indices) -> _Split:
        owners = np.searchsorted(self._starts, numbers, side="right") - 1  # NO_IMAGE falls before the first row batch
        owners[numbers == NO_IMAGE] = 0
        chosen, back = numbers, None
        if not (owners[1:] >= owners[:-1]).all():
            order = np.argsort(owners, kind="stable")
            places = np.empty(len(order), dtype=np.int64)
            places[order] = np.arange(len(order))
            chosen, owners, back = numbers[order], owners[order], numbers_array(places)
        edges = np.searchsorted(owners, np.arange(len(self.row_batches) + 1))
        parts = []
        for row_batch, start, low, high in zip(self.row_batches, self._starts[:-1], edges[:-1], edges[1:], strict=True):
            if low < high:
                missing = chosen[low:high] == NO_IMAGE
                parts.append((row_batch, np.where(missing, 0, chosen[low:high] - start), missing))
        return _Split(numbers, parts, back)

    @cached_property
    def _all(self) -> Indices:
        return np.arange(len(self), dtype=np.int64)

    @cached_property
    def _starts(self) -> Indices:
        return np.cumsum([0, *(len(row_batch.images.table) for row_batch in self.row_batches)], dtype=np.int64)


def load_row_batches(indexes: Iterable[TableIndex], log: Log, decoding: Decoding = DEFAULT_DECODING) -> list[RowBatch]:
    """Read the events that *indexes* name, and find the row images in them; row batches come by their first image.

    Raises:
        DataLossError: `PAGE_REWRITTEN`: the bytes are not those that were indexed.
    """
    row_batches = []
    for index in indexes:
        # All are read before anything is written: only after the last one is it known that the bytes are right.
        for part in prefetch(index.pieces(log)):
            images = read_images(part.data, part.events, part.rows, part.layout, decoding=decoding)
            if len(images.table):
                sources = part.gtid_sources
                row_batches.append(
                    RowBatch(images, part.events, part.groups, images.layout, sources, decoding, index.snapshot)
                )
    row_batches.sort(key=RowBatch.start)
    return row_batches


def outlined(
    indexes: Iterable[bytes], after: EventPlace | None, before: EventPlace | None, decoding: Decoding
) -> list[RowBatch]:
    """Make row batches without values, from indexes alone, for the rows between two places.

    Instead of images it has the first event and the last one, so it is small however many there are.
    """
    row_batches = []
    for content in indexes:
        row_batch = _outline(TableIndex.from_bytes(content), decoding).between(after, before)
        if row_batch is not None:
            row_batches.append(_ends_of(row_batch))
    row_batches.sort(key=RowBatch.start)
    return row_batches


def _outline(index: TableIndex, decoding: Decoding) -> RowBatch:
    outline = index.outline()
    table = np.zeros(len(outline.events), IMAGE_DTYPE)
    table["event"] = outline.rows
    layout = decoding.shown(index.layout)
    slots, cells = np.zeros(len(layout.columns), np.int64), np.empty((0, len(table)), np.int32)
    images = Images(layout, outline.data, table, cells, slots, decoding)
    return RowBatch(images, outline.events, outline.groups, layout, index.gtid_sources, decoding, index.snapshot)


def _ends_of(row_batch: RowBatch) -> RowBatch:
    ends = row_batch.images.table["event"][[0, -1]].astype(np.int64)
    events = row_batch.events[ends]
    groups = row_batch.groups[events["group"]]
    events["group"] = [0, 1]
    images = row_batch.images.select(np.array([0, -1]))
    images.table["event"] = [0, 1]
    return replace(row_batch, images=images, events=events, groups=groups)


def version_of(position: Position) -> int:
    """The number that `RowBatch.places` gives for a group at *position*."""
    group = np.zeros(1, dtype=[("file_no", np.int64), ("page", np.int64), ("chunk", np.int64)])
    group[0] = (position.file_no, position.page, position.chunk)
    return int(commit_versions(group)[0])


def log_order(row_batches: Sequence[RowBatch]) -> Indices | None:
    """Rank in the log of every image of all *row_batches*, one after the other; None when they are in order already.

    Row batches of one layout follow each other; those of two layouts may interleave, when sessions differ in how they
    write, and so do images that foreign keys add; of one row change the logged images come first, if their batch does.
    """
    if all(before.end() < after.start() for before, after in itertools.pairwise(row_batches)):
        return None
    places = [row_batch.places() for row_batch in row_batches]
    versions, event_nos = (np.concatenate(column) for column in zip(*places, strict=True))
    row_nos = np.concatenate([row_batch.images.table["row_no"] for row_batch in row_batches])
    in_order = np.lexsort((row_nos, event_nos, versions))  # stable: both images of an update stay in order
    ranks = np.empty(len(in_order), dtype=np.int64)
    ranks[in_order] = np.arange(len(in_order))
    return ranks


def _images_before(places: tuple[Indices, Indices], place: EventPlace) -> int:
    # Both columns ascend together, so the images before a place are the first ones.
    position, event_no = place
    version = version_of(position)
    low, high = np.searchsorted(places[0], (version, version + 1))
    return int(low + np.searchsorted(places[1][low:high], event_no))


def _joined(arrays: Sequence[NDArray[_Number]], kind: type[_Number]) -> NDArray[_Number]:
    return np.concatenate(arrays) if arrays else np.empty(0, kind)
