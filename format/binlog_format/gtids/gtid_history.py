"""GTIDs of the groups passed, to compare with those that the log records: `GtidHistory`, `SetHistory`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.gtids.gtid import Gtid
from binlog_format.gtids.gtid_groups import covered_groups, gtid_of, gtids_of
from binlog_format.gtids.gtid_set import GtidSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from binlog_format.block import Table
    from binlog_format.gtids.gtid import GtidSource
    from binlog_format.gtids.gtid_set import AnyGtid

    Source = tuple[int, int]
    """Domain and server id."""


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
        """Something could not be read: nothing is known until there is a new base."""
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
            said: The list.
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
            said: The list.
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
        """Something could not be read: nothing is known until there is a new base."""
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
