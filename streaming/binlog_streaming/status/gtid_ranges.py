"""The GTIDs of a part of a log, as people read them: `gtid_range`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.gtids.gtid import Gtid, GtidPosition

if TYPE_CHECKING:
    from binlog_format.gtids.gtid_set import GtidPoint


def gtid_range(before: GtidPoint, after: GtidPoint) -> str:
    """What *after* covers and *before* does not: `0-1-101 to 0-1-230`, of MySQL's the set; empty: nothing."""
    new = after.without(before) if after else after
    if not isinstance(new, GtidPosition):
        return str(new)
    known = before.last if isinstance(before, GtidPosition) else {}
    return ", ".join(_of_domain(known.get(domain), gtid) for domain, gtid in sorted(new.last.items()))


def _of_domain(before: Gtid | None, last: Gtid) -> str:
    first = None if before is None else before.seqno + 1
    if first is None:
        return f"up to {last}"
    return str(last) if first == last.seqno else f"{last.domain}-{last.server}-{first} to {last}"
