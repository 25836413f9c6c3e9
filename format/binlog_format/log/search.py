"""Search for a GTID or a time in a log: `find_gtid`, `find_time`, `end_of_gtids`."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_format.errors import DataLossError, StartError
from binlog_format.gtids.gtid import Gtid, GtidPosition
from binlog_format.gtids.gtid_history import gtid_of, gtids_of
from binlog_format.gtids.gtid_search import GtidSearch
from binlog_format.gtids.gtid_set import DomainStarts, GtidSet, MysqlGtid, check_kind
from binlog_format.position import Position

if TYPE_CHECKING:
    from binlog_format.gtids.gtid_set import AnyGtid, GtidPoint, Taken
    from binlog_format.log.log import Log
    from binlog_format.log_format import Heads

CLOCK_SLACK_SECONDS = 3600
"""Commit times go back when transactions take long or a clock is set: so much earlier a search by time begins."""


def find_gtid(log: Log, gtid: AnyGtid) -> Position:
    """Position of the group with this GTID.

    The GTID lists of a log lead to it: see `GtidSearch`; of a MySQL log the groups of one file are looked at.
    """
    _, known = log.gtids_before_start()
    point = GtidPosition.of([gtid]) if isinstance(gtid, Gtid) else GtidSet.of([(gtid.source, (gtid.seqno, gtid.seqno))])
    check_kind(known, point)
    found = _in_sets(log, gtid) if isinstance(gtid, MysqlGtid) else GtidSearch(log).find(gtid)
    if isinstance(found, Position):
        return found
    if found is not None:
        return found.position
    if known.covers(gtid):
        raise DataLossError(
            "GTID_PURGED",
            f"{gtid} is older than the log, which begins after {known}",
            hint="The server has purged its file",
        )
    raise StartError(
        "GTID_NOT_FOUND",
        f"{gtid} is not in the log",
        hint="It may not have been written to disk yet: FLUSH BINARY LOGS forces it out",
    )


def _in_sets(log: Log, gtid: MysqlGtid) -> Position | None:
    """Looks into the last file that begins without *gtid*."""
    starts = log.file_starts()
    number = bisect.bisect_left(starts, True, key=lambda place: log.gtid_position_at(place).covers(gtid))
    if number == 0:
        return None
    for heads in log.heads(starts[number - 1], starts[number] if number < len(starts) else None):
        for row in np.flatnonzero(heads.groups["begins"] & (heads.groups["seqno"] == np.uint64(gtid.seqno))).tolist():
            if gtid_of(heads.groups[row], heads.sources) == gtid:
                return heads.position(row)
    return None


def find_time(log: Log, seconds: int) -> Position:
    """Position of the first group that was committed at *seconds* since 1970 UTC, or later.

    Files that end more than `CLOCK_SLACK_SECONDS` before that are not looked into.
    """
    for block in log.blocks(_start_for_time(log, seconds)):
        groups = block.groups
        rows = np.flatnonzero(groups["begins"] & (groups["timestamp"] >= seconds))
        if len(rows):
            return Position.of(groups[int(rows[0])])
    raise StartError("TIMESTAMP_NOT_FOUND", "all event groups of the log were committed before that time")


class GtidEnd(NamedTuple):
    """The end of a range that ends with certain GTIDs.

    Attributes:
        position: After the last group that they cover; not before the start of the log.
        taken: Which groups they cover.
        missing: Those that have not been logged.
    """

    position: Position
    taken: Taken
    missing: GtidPoint


def end_of_gtids(log: Log, gtids: GtidPoint) -> GtidEnd:
    """Find the end of a range that ends with *gtids*; domains or sources that they do not name are left out."""
    first, known = log.gtids_before_start()
    check_kind(known, gtids)
    if isinstance(known, GtidSet):
        return _end_of_set(log, gtids if isinstance(gtids, GtidSet) else GtidSet({}))
    wanted = gtids if isinstance(gtids, GtidPosition) else GtidPosition({})
    taken = GtidSearch(log).end(wanted)
    missing = GtidPosition({domain: gtid for domain, gtid in wanted.last.items() if taken.is_open(domain)})
    reached = (place for domain, place in taken.places.items() if not taken.is_open(domain))
    return GtidEnd(max([first, *reached]), taken, missing)


def check_is_logged(log: Log, name: str, gtids: GtidPoint, taken: Taken) -> None:
    """See that the log has come as far as *gtids* in each domain, or with each source, that it knows; and knows one.

    Args:
        taken: What that is in the log: `Log.position_of`.
    """
    missing: GtidPoint = gtids
    if isinstance(gtids, GtidPosition):
        assert isinstance(taken, DomainStarts)
        missing = GtidPosition({domain: gtid for domain, gtid in gtids.last.items() if taken.is_open(domain)})
        if not missing:
            return
    logged = log.gtid_position_at(log.end_position())
    if not logged:
        return
    if isinstance(missing, GtidPosition) and isinstance(logged, GtidPosition):
        known: GtidPoint = GtidPosition({d: gtid for d, gtid in missing.last.items() if d in logged.last})
    elif isinstance(missing, GtidSet) and isinstance(logged, GtidSet):
        known = missing.of_sources(logged.intervals).without(logged)
        missing = missing.without(logged)
    is_all_unknown = bool(gtids) and missing == gtids and not known
    if known or is_all_unknown:
        raise StartError(
            "GTID_NOT_FOUND",
            f"{log.path}: {name}: {known or missing} has not been logged, the log's last GTIDs are {logged}",
            hint="Give what has been taken, for example the server's gtid_binlog_pos, or MySQL's gtid_executed, at the "
            "copy",
        )


def _end_of_set(log: Log, wanted: GtidSet) -> GtidEnd:
    start = log.position_of(wanted)
    waiting, position = wanted.without(start.before), start.position
    for heads in log.heads(start.position, None) if waiting else ():
        before, waiting = waiting, _still_waiting(waiting, heads)
        position = heads.next_position
        if not waiting:
            rows = range(1, len(heads.groups) + 1)
            position = heads.position(
                1 + bisect.bisect_left(rows, True, key=lambda row: not _still_waiting(before, heads, row))
            )
            break
    return GtidEnd(position, wanted, waiting)


def _still_waiting(waiting: GtidSet, heads: Heads, count: int | None = None) -> GtidSet:
    groups = heads.groups[:count]
    passed = gtids_of(groups[groups["ends"]], heads.sources)
    return waiting.without(passed)


def _start_for_time(log: Log, seconds: int) -> Position:
    """The start of the last file that begins long enough before a time, by halving."""
    places = log.file_starts()
    low, high = 0, len(places)
    while high - low > 1:
        middle = (low + high) // 2
        # A group is taken whatever its size, and no more than one.
        first = log.span(places[middle], size_max=1).last_timestamp
        is_before = first is not None and first < seconds - CLOCK_SLACK_SECONDS
        low, high = (middle, high) if is_before else (low, middle)
    return places[low] if places else log.start_position()
