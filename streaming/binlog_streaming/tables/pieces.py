"""The changes of one table in one batch: `load_pieces` reads what the index rows of the source point to."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.gtid_groups import gtid_of
from binlog_format.position import Position
from binlog_format.rows.decoding import DEFAULT_DECODING
from binlog_format.rows.images import Images, read_images
from binlog_format.views.changefeed import commit_versions
from binlog_format.views.table_index import TableIndex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from binlog_format.block import Table
    from binlog_format.events.table_map import TableLayout
    from binlog_format.gtid import GtidSource
    from binlog_format.log import Log
    from binlog_format.rows.decoding import Decoding

    Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of what one index row points to: images of one table layout in log order, about a block of them.

    Attributes:
        images: The row images.
        events: `EVENT_DTYPE`; what `images.table["event"]` counts.
        groups: `GROUP_DTYPE`; what `events["group"]` counts.
        layout: What the rows look like.
        gtid_sources: What `gtid_source` in `groups` counts.
    """

    images: Images
    events: Table
    groups: Table
    layout: TableLayout
    gtid_sources: tuple[GtidSource, ...] = ()

    def places(self) -> tuple[Indices, Indices]:
        """Of each image the number of its group, growing in log order, and that of its event in the group."""
        rows = self.images.table["event"].astype(np.int64)
        return commit_versions(self.groups)[self.events["group"][rows]], self.events["event_no"][rows]

    def start(self) -> tuple[int, int]:
        """Place of the first image."""
        group = int(self.events["group"][0])
        return int(commit_versions(self.groups[group : group + 1])[0]), int(self.events["event_no"][0])

    def last_change(self) -> tuple[Position, int]:
        """Position of the last image's group, and number of its event there."""
        event = self.events[int(self.images.table["event"][-1])]
        group = self.groups[int(event["group"])]
        return Position(int(group["file_no"]), int(group["page"]), int(group["chunk"])), int(event["event_no"])

    def commit_time(self) -> int:
        """Of the last group, seconds since 1970 UTC."""
        return int(self.groups[int(self.events["group"][-1])]["timestamp"])

    def gtid(self) -> str | None:
        """GTID of the last group, if it has one."""
        gtid = gtid_of(self.groups[int(self.events["group"][-1])], self.gtid_sources)
        return None if gtid is None else str(gtid)


def load_pieces(indexes: Sequence[bytes], log: Log, decoding: Decoding = DEFAULT_DECODING) -> list[Piece]:
    """Read the events that *indexes* name, and find the row images in them; pieces come by their first image.

    Raises:
        DataLossError: `PAGE_REWRITTEN`: the bytes are not those that were indexed.
    """
    pieces = []
    for content in indexes:
        # All pieces are read before anything is written: only behind the last one is it known that the bytes are right.
        for part in TableIndex.from_bytes(content).pieces(log):
            images = read_images(part.data, part.events, part.rows, part.layout, decoding=decoding)
            if len(images.table):
                pieces.append(Piece(images, part.events, part.groups, part.layout, part.gtid_sources))
    pieces.sort(key=Piece.start)
    return pieces


def log_order(pieces: Sequence[Piece]) -> Indices | None:
    """Rank in the log of every image of all *pieces*, taken one after the other; None when they are in order already.

    Pieces of one layout follow each other; those of two layouts may interleave, when sessions differ in how they write.
    """
    places = [piece.places() for piece in pieces]
    edges = [((version[0], event_no[0]), (version[-1], event_no[-1])) for version, event_no in places]
    if all(before[1] < after[0] for before, after in itertools.pairwise(edges)):
        return None
    versions, event_nos = (np.concatenate(column) for column in zip(*places, strict=True))
    in_order = np.lexsort((event_nos, versions))  # stable: images of one event stay in order
    ranks = np.empty(len(in_order), dtype=np.int64)
    ranks[in_order] = np.arange(len(in_order))
    return ranks
