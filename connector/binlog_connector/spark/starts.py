"""From what the user wrote to where a query begins: `initial_offset`; and how far a log reaches: `end_of_log`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_connector.spark.edges import end_of_log, offset_at, start_of_log
from binlog_connector.spark.offsets import SourceOffset
from binlog_connector.spark.options import Edge
from binlog_connector.spark.resume import compare
from binlog_format.errors import DataLossError, StartError
from binlog_format.gtid import Gtid, GtidPosition
from binlog_format.position import Position

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_connector.spark.watched import WatchedLog
    from binlog_format.block import Block, Table
    from binlog_format.log import GtidStart


def initial_offset(watched: WatchedLog, start: Edge | SourceOffset | GtidPosition) -> SourceOffset:
    """Where a new query begins.

    Raises:
        StartError: `POSITION_NOT_FOUND`, `GTID_NOT_FOUND`: the log does not reach that far.
        DataLossError: What lies between the start and the earliest file has been purged.
    """
    if start is Edge.EARLIEST:
        return start_of_log(watched)
    if start is Edge.LATEST:
        return end_of_log(watched)
    if isinstance(start, GtidPosition):
        return _after_gtids(watched, start)
    assert isinstance(start, SourceOffset)
    return _at_position(watched, start)


def advance(watched: WatchedLog, start: SourceOffset, *, size_max: int | None) -> SourceOffset:
    """The offset behind *size_max* bytes from *start* on, or at the end of data; *start* itself when nothing is new."""
    span = watched.log.span(start.position, size_max=size_max)
    if span.groups == 0 and span.end.file_no == start.position.file_no:
        return start
    gtid = start.gtid.advanced_by(span.gtids)
    return offset_at(watched, span.end, gtid=gtid, skip_gtid=not_passed(start.skip_gtid, gtid))


def not_passed(skip: GtidPosition, consumed: GtidPosition) -> GtidPosition:
    """The domains of *skip* in which groups that it covers may still follow behind *consumed*."""
    if not skip.last:
        return skip
    return GtidPosition({domain: gtid for domain, gtid in skip.last.items() if not consumed.covers(gtid)})


def _at_position(watched: WatchedLog, start: SourceOffset) -> SourceOffset:
    decision = compare(watched, start)
    if decision.loss is not None:
        raise decision.loss
    if start.last_page_crc is None and start.position > end_of_log(watched).position:
        raise StartError(
            "POSITION_NOT_FOUND",
            f"{watched.log.path}: startingOffsets: the log ends before {start.position}",
            hint="Use an offset of this log, for example from a query's progress, or earliest or latest",
        )
    gtid = start.gtid if start.gtid.last else watched.log.gtid_position_at(start.position)
    return offset_at(watched, start.position, gtid=gtid, skip_gtid=start.skip_gtid)


def _after_gtids(watched: WatchedLog, wanted: GtidPosition) -> SourceOffset:
    """The first group that *wanted* does not cover."""
    end = end_of_log(watched)
    for domain, gtid in sorted(wanted.last.items()):
        last = end.gtid.last.get(domain)
        if last is not None and last.seqno < gtid.seqno:
            raise StartError(
                "GTID_NOT_FOUND",
                f"{watched.log.path}: startingGtid {gtid}: the log's last GTID of domain {domain} is {last}",
                hint="Give the last GTID that has been taken, for example the server's gtid_binlog_pos at the copy",
            )
    start = _start_behind(watched, wanted)
    state = start.before
    for block in watched.log.blocks(min(start.position, end.position), end.position):
        uncovered = np.flatnonzero(~_covered(block.groups, wanted))
        passed = block.groups if len(uncovered) == 0 else block.groups[: uncovered[0]]
        state = state.advanced_by(_last_gtids(passed))
        if len(uncovered):
            position = _position(block, int(uncovered[0]))
            return offset_at(watched, position, gtid=state, skip_gtid=not_passed(wanted, state))
    return offset_at(watched, end.position, gtid=end.gtid, skip_gtid=not_passed(wanted, end.gtid))


def _start_behind(watched: WatchedLog, wanted: GtidPosition) -> GtidStart:
    try:
        return watched.log.position_of(wanted)
    except DataLossError as error:
        if error.subclass != "GTID_PURGED":
            raise
        state = watched.log.gtid_position_at(watched.log.start_position())
        raise DataLossError(
            "GTID_PURGED",
            f"{watched.log.path}: startingGtid: the earliest file begins at GTID {state}, "
            f"so transactions between {wanted or '(none)'} and that have been purged",
            hint="Copy the tables again and start from the GTID of that copy",
        ) from error


def _covered(groups: Table, wanted: GtidPosition) -> NDArray[np.bool_]:
    # A group without GTID holds no rows (the description of a restarted server).
    covered = ~groups["has_gtid"]
    for domain, gtid in wanted.last.items():
        covered |= (groups["domain"] == domain) & (groups["seqno"] <= np.uint64(gtid.seqno))
    return np.asarray(covered)


def _last_gtids(groups: Table) -> GtidPosition:
    groups = groups[groups["has_gtid"]]
    last = {}
    for domain in np.unique(groups["domain"]).tolist():
        row = groups[groups["domain"] == domain][-1]
        last[domain] = Gtid(domain, int(row["server_id"]), int(row["seqno"]))
    return GtidPosition(last)


def _position(block: Block, row: int) -> Position:
    group = block.groups[row]
    return Position(int(group["file_no"]), int(group["page"]), int(group["chunk"]))
