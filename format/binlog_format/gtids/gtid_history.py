"""GTIDs of the groups passed, to compare with those that the log records: `GtidHistory`, `SetHistory`.

GTIDs of whole group tables: `gtids_of`, what they advance a log by; `covered_groups`, which a set covers.

MySQL counts in `Block.gtid_sources`, so these take those along with the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.gtids.gtid import Gtid, GtidPosition
from binlog_format.gtids.gtid_set import NO_GTIDS, AnyGtid, GtidPoint, GtidSet, MysqlGtid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from binlog_format.block import Table
    from binlog_format.gtids.gtid import GtidSource
    from binlog_format.gtids.gtid_set import AnyGtid
    from binlog_format.kernels import Int64s, Mask, Uint64s

    Source = tuple[int, int]
    """Domain and server id."""


def gtid_of(group: np.void, sources: Sequence[GtidSource]) -> AnyGtid | None:
    """The GTID of a row of a group table; None: it has none. *group*: A row of `GROUP_DTYPE`."""
    if not group["has_gtid"]:
        return None
    if group["gtid_source"] >= 0:
        return MysqlGtid(sources[int(group["gtid_source"])], int(group["seqno"]))
    return mariadb_gtid(group)


def mariadb_gtid(group: np.void) -> Gtid:
    """The GTID of a row of a group table of MariaDB, which has one."""
    return Gtid(int(group["domain"]), int(group["server_id"]), int(group["seqno"]))


def gtid_text(group: np.void, sources: Sequence[GtidSource]) -> str | None:
    """The same as text."""
    gtid = gtid_of(group, sources)
    return None if gtid is None else str(gtid)


def gtids_of(groups: Table, sources: Sequence[GtidSource]) -> GtidPoint:
    """MariaDB: the last GTID of each domain in a group table; MySQL: the set of all.

    Args:
        groups: `GROUP_DTYPE`, in log order.
    """
    rows = np.flatnonzero(groups["has_gtid"])  # a copy of these groups would take longer than all that is done here
    if len(rows) == 0:
        return NO_GTIDS
    if groups["gtid_source"][rows[0]] >= 0:
        return _set_of(groups["gtid_source"][rows], groups["seqno"][rows], sources)
    return _position_of(groups, rows)


def covered_groups(point: GtidSet, groups: Table, sources: Sequence[GtidSource]) -> Mask:
    """MySQL: true for each row of a group table that *point* covers; a group without GTID is covered by nothing."""
    covered = np.zeros(len(groups), dtype=np.bool_)
    for number in np.unique(groups["gtid_source"]).tolist():
        intervals = point.intervals.get(sources[number], ()) if number >= 0 else ()
        if intervals:
            rows = np.flatnonzero(groups["gtid_source"] == number)
            covered[rows] = _within(groups["seqno"][rows], intervals)
    covered &= groups["has_gtid"]
    return covered


def _within(seqnos: Uint64s, intervals: tuple[tuple[int, int], ...]) -> Mask:
    edges = np.array(intervals, dtype=np.uint64)
    # Of the intervals that begin at or before a number, only the last one can hold it.
    row = np.searchsorted(edges[:, 0], seqnos, side="right") - 1
    return np.asarray((row >= 0) & (seqnos <= edges[np.maximum(row, 0), 1]))


def _position_of(groups: Table, rows: Int64s) -> GtidPosition:
    # From the last row on, `unique` gives each domain's first place.
    backwards = rows[::-1]
    domains, places = np.unique(groups["domain"][backwards], return_index=True)
    last = {}
    for domain, row in zip(domains.tolist(), backwards[places].tolist(), strict=True):
        last[domain] = Gtid(domain, int(groups["server_id"][row]), int(groups["seqno"][row]))
    return GtidPosition(last)


def _set_of(numbers: Int64s, all_seqnos: Uint64s, sources: Sequence[GtidSource]) -> GtidSet:
    found: dict[GtidSource, tuple[tuple[int, int], ...]] = {}
    for number in np.unique(numbers).tolist():
        seqnos = np.unique(all_seqnos[numbers == number])
        breaks = np.flatnonzero(np.diff(seqnos) != 1) + 1
        firsts = seqnos[np.concatenate([[0], breaks])]
        lasts = seqnos[np.concatenate([breaks - 1, [len(seqnos) - 1]])]
        found[sources[number]] = tuple(zip(firsts.tolist(), lasts.tolist(), strict=True))
    return GtidSet(found)


class GtidHistory:
    """MariaDB: the last GTID of each source. Follows the GTIDs of a log from a full list on, the base.

    Attributes:
        changed: Sources that have logged something since the base.
    """

    def __init__(self) -> None:
        self._last: dict[Source, int] | None = None
        self.changed: set[Source] = set()

    @property
    def is_known(self) -> bool:
        """True if there is a base, and all groups since have been seen."""
        return self._last is not None

    def begin(self, gtids: Iterable[Gtid]) -> None:
        """Take a full list as the base."""
        self._last = {(gtid.domain, gtid.server): gtid.seqno for gtid in gtids}
        self.changed = set()

    def forget(self) -> None:
        """Forget the history: a part could not be read, so nothing is known until there is a new base."""
        self._last = None

    def take(self, groups: Table) -> Iterator[tuple[int, Gtid, Gtid]]:
        """Take *groups* (`GROUP_DTYPE`), in log order.

        Yields:
            Byte in the file, GTID and the GTID before it, where the sequence number of a source does not grow; for
            each source the first such group.
        """
        groups = groups[groups["has_gtid"]]
        if self._last is None or len(groups) == 0:
            return
        sources = groups["domain"].astype(np.uint64) << np.uint64(32) | groups["server_id"]
        for value in np.unique(sources):
            rows = groups[sources == value]
            source = int(rows["domain"][0]), int(rows["server_id"][0])
            seqnos = rows["seqno"]
            before = np.concatenate([np.array([self._last.get(source, 0)], dtype=np.uint64), seqnos[:-1]])
            for row in np.flatnonzero(seqnos <= before)[:1].tolist():
                yield int(rows["file_offset"][row]), Gtid(*source, int(seqnos[row])), Gtid(*source, int(before[row]))
            self._last[source] = int(seqnos[-1])
            self.changed.add(source)

    def differences(self, said: Iterable[Gtid], following: Gtid | None = None) -> Iterator[str]:
        """Differences between a list and the groups, for messages.

        Args:
            following: A group that the list may know of already.
        """
        last = self._last or {}
        for gtid in said:
            known = last.get((gtid.domain, gtid.server))
            if gtid.seqno != known and gtid != following:
                found = "no such GTID" if known is None else str(Gtid(gtid.domain, gtid.server, known))
                yield f"it records {gtid}, the groups before it {found}"

    def lacking(self, said: Iterable[Gtid], among: Iterable[Source] | None = None) -> Iterator[str]:
        """GTIDs that a list lacks, for messages.

        Args:
            among: Sources that it should name; None: all of the domains that it names, since domains can be deleted.
        """
        last = self._last or {}
        named = {(gtid.domain, gtid.server) for gtid in said}
        domains = {domain for domain, _ in named}
        wanted = set(among) if among is not None else {source for source in last if source[0] in domains}
        for source in sorted(wanted - named):
            yield f"it lacks {Gtid(*source, last[source])}"


class SetHistory:
    """MySQL: follows the set of all GTIDs of a log from what a file's start records on, the base."""

    def __init__(self) -> None:
        self._passed: GtidSet | None = None

    def begin(self, said: GtidSet) -> None:
        """Take a file's set as the base."""
        self._passed = said

    def forget(self) -> None:
        """Forget the history: a part could not be read, so nothing is known until there is a new base."""
        self._passed = None

    def take(self, groups: Table, sources: Sequence[GtidSource]) -> Iterator[tuple[int, AnyGtid]]:
        """Take *groups* (`GROUP_DTYPE`), in log order; *sources* is `Block.gtid_sources`.

        Yields:
            Byte in the file and GTID of the groups whose GTID has come before.
        """
        if self._passed is None:
            return
        groups = groups[groups["has_gtid"]]
        _, first = np.unique(groups[["gtid_source", "seqno"]], return_index=True)
        again = covered_groups(self._passed, groups, sources)
        again |= ~np.isin(np.arange(len(groups)), first)
        for row in np.flatnonzero(again).tolist():
            gtid = gtid_of(groups[row], sources)
            assert gtid is not None
            yield int(groups["file_offset"][row]), gtid
        passed = self._passed.advanced_by(gtids_of(groups, sources))
        assert isinstance(passed, GtidSet)
        self._passed = passed

    def lacking(self, said: GtidSet) -> GtidSet:
        """GTIDs that have been passed and that *said* lacks."""
        return GtidSet({}) if self._passed is None else self._passed.without(said)

    def beyond(self, said: GtidSet) -> GtidSet:
        """GTIDs that *said* has and that have not been passed."""
        return GtidSet({}) if self._passed is None else said.without(self._passed)
