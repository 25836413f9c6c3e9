"""GTIDs that a start leaves out and that follow an offset: `Skip`, `skip_after`, `taken_in`.

The domains of a `startingGtid` need not all stop at the same place. MariaDB's numbers may go back, so what is left out
of a domain is told by where its GTID is in the log; only one that had not been logged yet is waited for by its number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from binlog_format.gtids.domain_starts import NO_STARTS, DomainStarts
from binlog_format.gtids.gtid import GtidPosition
from binlog_format.gtids.gtid_set import NO_GTIDS, GtidSet

if TYPE_CHECKING:
    from binlog_connector.following.offsets import SourceOffset
    from binlog_format.gtids.domain_starts import Taken
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_format.log.log import Log
    from binlog_format.position import Position


class Skip(NamedTuple):
    """GTIDs after an offset that are left out; the fields `skip_gtid` and `skip_to` of offsets."""

    skip_gtid: GtidPoint = NO_GTIDS
    skip_to: DomainStarts = NO_STARTS


NOTHING_SKIPPED = Skip()


def skip_at(gtids: GtidPoint, taken: Taken, position: Position, consumed: GtidPoint) -> Skip:
    """Select the GTIDs of *gtids* that may follow *position*.

    Args:
        gtids: What has been taken.
        taken: Where that is in the log.
        position: Where reading goes on.
        consumed: The log's GTIDs before it.
    """
    if not isinstance(gtids, GtidPosition) or not isinstance(taken, DomainStarts):
        return Skip(gtids.without(consumed))
    left = taken.after(position).places
    known = {domain: place for domain, place in left.items() if not taken.is_open(domain)}
    return Skip(GtidPosition({domain: gtids.last[domain] for domain in left}), DomainStarts(known))


def taken_in(log: Log, offset: SourceOffset, end: Position | None) -> Taken | None:
    """Groups from *offset* to *end* that are left out; None: none are."""
    if not offset.skip_gtid:
        return None
    if isinstance(offset.skip_gtid, GtidSet):
        return offset.skip_gtid
    unknown = {domain: gtid for domain, gtid in offset.skip_gtid.last.items() if domain not in offset.skip_to.places}
    if not unknown:
        return offset.skip_to
    from binlog_format.gtids.gtid_search import starts_seen  # compiled code takes a moment to load

    seen = starts_seen(log.heads(offset.position, end), GtidPosition(unknown))
    return DomainStarts({**offset.skip_to.places, **seen.places})


def skip_after(log: Log, offset: SourceOffset, position: Position, consumed: GtidPoint) -> Skip:
    """Select what is still left out at *position*, the end of a batch from *offset*.

    Args:
        log: The log.
        offset: Where the batch begins.
        position: Where it ends.
        consumed: The log's GTIDs before *position*.
    """
    taken = taken_in(log, offset, position)
    return NOTHING_SKIPPED if taken is None else skip_at(offset.skip_gtid, taken, position, consumed)
