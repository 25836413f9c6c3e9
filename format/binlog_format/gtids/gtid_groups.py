"""GTIDs of whole group tables: `gtids_of`, what they advance a log by; `covered_groups`, which a set covers.

MySQL counts in `Block.gtid_sources`, so these take those along with the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.gtids.gtid import Gtid, GtidPosition
from binlog_format.gtids.gtid_set import NO_GTIDS, AnyGtid, GtidPoint, GtidSet, MysqlGtid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from binlog_format.block import Table
    from binlog_format.gtids.gtid import GtidSource


def gtid_of(group: np.void, sources: Sequence[GtidSource]) -> AnyGtid | None:
    """The GTID of a row of a group table; None: it has none.

    Args:
        group: A row of `GROUP_DTYPE`.
        sources: `Block.gtid_sources`.
    """
    if not group["has_gtid"]:
        return None
    if group["gtid_source"] >= 0:
        return MysqlGtid(sources[int(group["gtid_source"])], int(group["seqno"]))
    return Gtid(int(group["domain"]), int(group["server_id"]), int(group["seqno"]))


def gtids_of(groups: Table, sources: Sequence[GtidSource]) -> GtidPoint:
    """MariaDB: the last GTID of each domain in a group table; MySQL: the set of all.

    Args:
        groups: `GROUP_DTYPE`, in log order.
        sources: `Block.gtid_sources`.
    """
    rows = np.flatnonzero(groups["has_gtid"])  # a copy of these groups would take longer than all that is done here
    if len(rows) == 0:
        return NO_GTIDS
    if groups["gtid_source"][rows[0]] >= 0:
        return _set_of(groups["gtid_source"][rows], groups["seqno"][rows], sources)
    return _position_of(groups, rows)


def covered_groups(point: GtidSet, groups: Table, sources: Sequence[GtidSource]) -> NDArray[np.bool_]:
    """MySQL: true for each row of a group table that *point* covers; a group without GTID is covered by nothing.

    Args:
        point: What has been taken.
        groups: `GROUP_DTYPE`.
        sources: `Block.gtid_sources`.
    """
    covered = np.zeros(len(groups), dtype=np.bool_)
    for number in np.unique(groups["gtid_source"]).tolist():
        intervals = point.intervals.get(sources[number], ()) if number >= 0 else ()
        if intervals:
            rows = np.flatnonzero(groups["gtid_source"] == number)
            covered[rows] = _within(groups["seqno"][rows], intervals)
    covered &= groups["has_gtid"]
    return covered


def _within(seqnos: NDArray[np.uint64], intervals: tuple[tuple[int, int], ...]) -> NDArray[np.bool_]:
    edges = np.array(intervals, dtype=np.uint64)
    # Of the intervals that begin at or before a number, only the last one can hold it.
    row = np.searchsorted(edges[:, 0], seqnos, side="right") - 1
    return np.asarray((row >= 0) & (seqnos <= edges[np.maximum(row, 0), 1]))


def _position_of(groups: Table, rows: NDArray[np.int64]) -> GtidPosition:
    # From the last row on, `unique` gives each domain's first place.
    backwards = rows[::-1]
    domains, places = np.unique(groups["domain"][backwards], return_index=True)
    last = {}
    for domain, row in zip(domains.tolist(), backwards[places].tolist(), strict=True):
        last[domain] = Gtid(domain, int(groups["server_id"][row]), int(groups["seqno"][row]))
    return GtidPosition(last)


def _set_of(numbers: NDArray[np.int64], all_seqnos: NDArray[np.uint64], sources: Sequence[GtidSource]) -> GtidSet:
    found: dict[GtidSource, tuple[tuple[int, int], ...]] = {}
    for number in np.unique(numbers).tolist():
        seqnos = np.unique(all_seqnos[numbers == number])
        breaks = np.flatnonzero(np.diff(seqnos) != 1) + 1
        firsts = seqnos[np.concatenate([[0], breaks])]
        lasts = seqnos[np.concatenate([breaks - 1, [len(seqnos) - 1]])]
        found[sources[number]] = tuple(zip(firsts.tolist(), lasts.tolist(), strict=True))
    return GtidSet(found)
