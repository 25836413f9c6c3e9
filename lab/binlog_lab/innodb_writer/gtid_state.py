"""GTIDs of a log, as its state records contain them: `WrittenGtidState`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.gtids.gtid import Gtid, GtidPosition
from binlog_lab.innodb_writer.encoding import encode_compressed_ints

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class _Latest:
    """The newest sequence number of every (domain, server); in each domain the last one given comes last."""

    def __init__(self) -> None:
        self._domains: dict[int, dict[int, int]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._domains.values()))

    def __iter__(self) -> Iterator[Gtid]:
        for domain, servers in self._domains.items():
            for server, seqno in servers.items():
                yield Gtid(domain, server, seqno)

    def put(self, gtid: Gtid) -> None:
        servers = self._domains.get(gtid.domain)
        if servers is None:
            servers = self._domains[gtid.domain] = {}
        elif len(servers) > 1:
            servers.pop(gtid.server, None)  # so that it becomes the last one
        servers[gtid.server] = gtid.seqno

    def clear(self) -> None:
        self._domains.clear()


class WrittenGtidState:
    """The full state, and the difference since page 1 of the active file.

    The order of domains is that in which they were first seen (in the server: the order of a hash table).
    """

    def __init__(self) -> None:
        self._full = _Latest()
        self._since_file_start = _Latest()

    def update(self, gtid: Gtid) -> None:
        """Take in *gtid*: the first byte of its commit record has got its place in a page."""
        self._full.put(gtid)
        self._since_file_start.put(gtid)

    def start_file(self) -> None:
        """Page 1 of a file holds the full state from here on."""
        self._since_file_start.clear()

    def replace(self, gtids: Iterable[Gtid]) -> None:
        """Put *gtids* in place of the full state (`DELETE_DOMAIN_ID`, `SET GLOBAL gtid_binlog_state`, a restart)."""
        self._full.clear()
        self._since_file_start.clear()
        for gtid in gtids:
            self._full.put(gtid)

    def gtids(self) -> list[Gtid]:
        """The full state, all servers of all domains; in each domain the most recent one last."""
        return list(self._full)

    def position(self) -> GtidPosition:
        """The last GTID of each domain."""
        return GtidPosition.of(self._full)

    def record(self, *, full: bool, of_first_file: bool, xa_file_no: int | None) -> bytes:
        """Payload of a state record.

        Args:
            full: For page 1 of a file; else the difference since then, cumulative.
            of_first_file: In file 0 a full state of one GTID with sequence number 1 is written as empty.
            xa_file_no: Lowest file with a pending XA transaction.
        """
        gtids = list(self._full if full else self._since_file_start)
        if full and of_first_file and len(gtids) == 1 and gtids[0].seqno == 1:
            gtids = []
        numbers = [len(gtids), 0 if xa_file_no is None else xa_file_no + 1]
        for gtid in gtids:
            numbers += (gtid.domain, gtid.server, gtid.seqno)
        return encode_compressed_ints(numbers)
