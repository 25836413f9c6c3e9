"""MariaDB GTIDs in any order, and what plain loops over them find."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from binlog_format.gtids.gtid import Gtid, GtidPosition

if TYPE_CHECKING:
    from collections.abc import Sequence

GTIDS = st.builds(Gtid, st.integers(0, 2), st.integers(1, 2), st.integers(1, 9))
ANY_ORDER = st.lists(GTIDS, min_size=1, max_size=40)
"""Several servers in a domain, numbers that go back, and the same GTID again."""


@st.composite
def nearly_growing(draw: st.DrawFn) -> list[Gtid]:
    """As busy servers log: numbers grow, but for a few that change places."""
    gtids: list[Gtid] = []
    for number in range(1, draw(st.integers(2, 40))):
        gtids.append(Gtid(draw(st.integers(0, 1)), draw(st.sampled_from([1, 1, 2])), number))
    for row in draw(st.lists(st.integers(0, len(gtids) - 1), max_size=5)):
        other = min(row + 2, len(gtids) - 1)
        gtids[row], gtids[other] = gtids[other], gtids[row]
    return gtids


def ends_of(gtids: Sequence[str | None], wanted: GtidPosition, base: GtidPosition) -> list[dict[int, int]] | None:
    """For each way to take *wanted*: by domain the row after which it goes on; several, where a GTID comes again.

    Args:
        gtids: Of a log, in its order.
        wanted: What has been taken.
        base: What was logged before.

    Returns:
        None: it has been purged.
    """
    ways: list[dict[int, int]] = [{}]
    for domain, gtid in wanted.last.items():
        rows = [row for row, text in enumerate(gtids) if text == str(gtid)]
        if base.last.get(domain) == gtid:
            rows.insert(0, -1)
        if not rows and domain in base.last and base.last[domain].seqno > gtid.seqno:
            return None
        if not rows:
            found = [None if text is None else Gtid.parse(text) for text in gtids]
            larger = (r for r, g in enumerate(found) if g is not None and g.domain == domain and g.seqno > gtid.seqno)
            rows = [next(larger, len(gtids)) - 1]
        ways = [{**way, domain: row} for way in ways for row in rows]
    return ways


def has_diverged(gtids: Sequence[str | None], wanted: GtidPosition, base: GtidPosition) -> bool:
    """Whether a log has another server's transaction where one of *wanted* should be; arguments as of `ends_of`."""
    found = [Gtid.parse(text) for text in gtids if text is not None]
    for domain, gtid in wanted.last.items():
        last = base.last.get(domain)
        if gtid in found or gtid == last:
            continue
        not_before = [other for other in found if other.domain == domain and other.seqno >= gtid.seqno]
        place = last if last is not None and last.seqno >= gtid.seqno else next(iter(not_before), None)
        if place is not None and place.seqno == gtid.seqno:
            return True
    return False


def first_after(gtids: Sequence[str | None], wanted: GtidPosition) -> int | None:
    """The row where reading goes on after *wanted*, each of which comes once; None: there is none."""
    ways = ends_of(gtids, wanted, GtidPosition({}))
    assert ways is not None
    return next(iter(rows_after(gtids, ways[0])), None)


def rows_after(gtids: Sequence[str | None], ends: dict[int, int]) -> list[int]:
    """Rows that have not been taken when each domain has been up to the row of *ends*."""
    found = []
    for row, text in enumerate(gtids):
        if text is not None and row > ends.get(Gtid.parse(text).domain, -1):
            found.append(row)
    return found


def rows_before(gtids: Sequence[str | None], ends: dict[int, int]) -> list[int]:
    """Rows up to those of *ends*, of their domains alone."""
    return [row for row, text in enumerate(gtids) if text is not None and row <= ends.get(Gtid.parse(text).domain, -1)]
