"""Place and time of a change, as columns: `PlaceColumns`; and `pair_images`, the images that make a change.

The row images of a block in parts of which each fits into memory as columns: `bounded(images)`.

A few bytes of a row event can be a row of a table of 4096 columns, nearly all of them NULL or absent: of 2 MiB of such
rows the columns are many gigabytes, however few of the bytes are values. Full images of any table come in one part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.kernels import empty_bytes
from binlog_format.rows.arrow_arrays import joined_texts, numbers_array, struct_array, text_array
from binlog_format.rows.column_types import check_text_size
from binlog_format.views.place_kernels import (
    NO_SUCH_TEXT,
    fill_places,
    gtid_offsets,
    pair_changes,
    spread_offsets,
    spread_texts,
    write_gtids,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from binlog_format.block import Table
    from binlog_format.gtids.gtid import GtidSource
    from binlog_format.kernels import Bytes, Int32s, Int64s, Mask
    from binlog_format.rows.images import Images

POSITION_TYPE = pa.struct(
    [pa.field("file_no", pa.int64()), pa.field("page", pa.int64()), pa.field("chunk", pa.int32())]
)
SURE_POSITION_TYPE = pa.struct([field.with_nullable(False) for field in POSITION_TYPE])
"""`POSITION_TYPE` where every row has a position."""
COMMIT_TIME_TYPE = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class Pairs:
    """The changes in some images, in log order.

    Attributes:
        first: Of each change: its first image (rows of `Images.table`).
        before: The image of the row before the change; -1 for an insert.
        after: The image of the row after the change; -1 for a delete.
        events: Row of the first image's event in the event table.
        row_nos: Number of the changed row in its event.
        kinds: `ImageKind` of the first image.
    """

    first: Int64s
    before: Int64s
    after: Int64s
    events: Int64s
    row_nos: Int32s
    kinds: Bytes

    def __len__(self) -> int:
        return len(self.first)


def pair_images(images: Images) -> Pairs:
    """Bring the two images of each update together."""
    room = len(images.table)
    first, before, after, events = (np.empty(room, dtype=np.int64) for _ in range(4))
    row_nos, kinds = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.uint8)
    count = pair_changes(images.table, first, before, after, events, row_nos, kinds)
    assert count >= 0, "an update has two images"
    return Pairs(first[:count], before[:count], after[:count], events[:count], row_nos[:count], kinds[:count])


class PlaceColumns:
    """Columns of the groups and events to which some rows belong.

    Args:
        groups: `GROUP_DTYPE`, what `events["group"]` counts.
        rows: For each row of the columns: its row in *events*.
    """

    def __init__(self, events: Table, groups: Table, rows: Int64s, sources: tuple[GtidSource, ...]) -> None:
        self._groups = groups
        self._sources = sources
        self._group, self._file_no, self._page, self._micros, self._server_id = (
            np.empty(len(rows), dtype=np.int64) for _ in range(5)
        )
        self._chunk, self._event_no = (np.empty(len(rows), dtype=np.int32) for _ in range(2))
        unknown = fill_places(
            events,
            groups,
            np.ascontiguousarray(rows),
            self._group,
            self._file_no,
            self._page,
            self._chunk,
            self._event_no,
            self._micros,
            self._server_id,
        )
        assert unknown < 0, f"row {unknown} belongs to no event or group that is given"

    def position(self, kind: pa.StructType = POSITION_TYPE) -> pa.Array:
        """The position of the row's group; *kind*: `POSITION_TYPE` or `SURE_POSITION_TYPE`."""
        arrays = [numbers_array(numbers) for numbers in (self._file_no, self._page, self._chunk)]
        return struct_array(kind, arrays)

    def event_no(self) -> pa.Array:
        """Number of the row's event in its group."""
        return numbers_array(self._event_no)

    def gtid(self) -> pa.Array:
        """GTID of the group as text; null without."""
        valid = self._groups["has_gtid"][self._group]
        return texts_of_rows(*gtid_bytes(self._groups, self._sources), self._group, valid)

    def commit_time(self) -> pa.Array:
        """Time of the group's first event."""
        return numbers_array(self._micros, COMMIT_TIME_TYPE)

    def server_id(self) -> pa.Array:
        """Server on which the change was made."""
        return numbers_array(self._server_id)


def texts_of_rows(offsets: Int32s, texts: Bytes, rows: NDArray[np.integer], valid: Mask | None = None) -> pa.Array:
    """Take the text of each of *rows*; null where not *valid*. Arrow's `take` takes three times as long."""
    out_offsets = np.empty(len(rows) + 1, dtype=np.int32)
    size = spread_offsets(offsets, rows, out_offsets)
    assert size != NO_SUCH_TEXT, "a row asks for a text that is not there"
    check_text_size(size)
    out = empty_bytes(size)
    spread_texts(offsets, texts, rows, out_offsets, out)
    return text_array(pa.string(), out_offsets, out, valid)


def position_array(groups: Table, rows: Int64s) -> pa.Array:
    """`POSITION_TYPE`: the positions of some rows of a group table."""
    arrays = [numbers_array(groups[field.name][rows], field.type) for field in POSITION_TYPE]
    return struct_array(POSITION_TYPE, arrays)


def gtid_texts(groups: Table, sources: tuple[GtidSource, ...]) -> pa.Array:
    """The GTID of each group as text; null where it has none."""
    return text_array(pa.string(), *gtid_bytes(groups, sources), groups["has_gtid"])


def gtid_bytes(groups: Table, sources: tuple[GtidSource, ...]) -> tuple[Int32s, Bytes]:
    """Start of each group's text, and end of the last one; and the texts. Without a GTID: whatever."""
    domains, servers, seqnos = (groups[name].astype(np.uint64) for name in ("domain", "server_id", "seqno"))
    source = np.ascontiguousarray(groups["gtid_source"])
    prefix_offsets, prefixes = joined_texts([f"{known}:" for known in sources])
    unknown, offsets = gtid_offsets(domains, servers, seqnos, source, prefix_offsets)
    assert unknown < 0, f"group {unknown} counts in a source that is not given"
    data = empty_bytes(int(offsets[-1]))
    write_gtids(domains, servers, seqnos, source, prefixes, prefix_offsets, offsets, data)
    return offsets, data


CELLS_MAX = 1 << 21
"""Values of a part, NULL and absent ones counted: each takes about 50 bytes on its way to JSON."""


def bounded(images: Sequence[Images], *, cells_max: int = CELLS_MAX) -> Iterator[list[Images]]:
    """The same images, in parts that follow each other in the order of their events.

    Args:
        cells_max: Values of a part, unless a single change has more.

    Yields:
        Images of some of the layouts; both images of an update are in the same part.
    """
    cells = sum(len(part) * len(part.layout.columns) for part in images)
    if cells <= cells_max:
        yield list(images)
        return
    pairs = [pair_images(part) for part in images]
    edges = np.cumsum([len(pair) for pair in pairs])[:-1]
    events = np.concatenate([pair.events for pair in pairs])
    if len(events) <= 1:
        yield list(images)
        return
    is_late = np.empty(len(events), dtype=np.bool_)
    is_late[np.argsort(events, kind="stable")] = np.arange(len(events)) >= len(events) // 2
    for wanted in (False, True):
        half = []
        for part, pair, late in zip(images, pairs, np.split(is_late, edges), strict=True):
            owner = np.searchsorted(pair.first, np.arange(len(part)), side="right") - 1
            chosen = late[owner] == wanted
            if chosen.any():
                half.append(part.select(chosen))
        yield from bounded(half, cells_max=cells_max)
