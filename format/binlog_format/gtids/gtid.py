"""Global transaction ids of MariaDB: `Gtid` and `GtidPosition`, the last one of each domain; MySQL's `GtidSource`.

Sets of MySQL's GTIDs, and what takes either kind, are in `binlog_format.gtids.gtid_set`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from binlog_format.gtids.gtid_set import AnyGtid, GtidPoint

_UINT32_MAX = 2**32 - 1
_UINT64_MAX = 2**64 - 1


@dataclass(frozen=True, slots=True, order=True)
class Gtid:
    """`domain-server-seqno`; seqno grows within a domain."""

    domain: int
    server: int
    seqno: int

    def __str__(self) -> str:
        return f"{self.domain}-{self.server}-{self.seqno}"

    @classmethod
    def parse(cls, text: str) -> Gtid:
        """Read `domain-server-seqno`. Raises `ValueError`: *text* has another form, or a number is out of range."""
        parts = text.strip().split("-")
        if len(parts) != 3 or not all(part.isascii() and part.isdecimal() for part in parts):
            raise ValueError(f"GTID {text!r}: expected domain-server-seqno, for example 0-1-100")
        domain, server, seqno = (int(part) for part in parts)
        if domain > _UINT32_MAX or server > _UINT32_MAX or seqno > _UINT64_MAX:
            raise ValueError(f"GTID {text!r}: a number is out of range")
        return cls(domain, server, seqno)


@dataclass(frozen=True, slots=True, order=True)
class GtidSource:
    """A source that MySQL counts transactions by: the server that committed them first, and a tag (since MySQL 8.3)."""

    uuid: str
    tag: str = ""

    def __str__(self) -> str:
        return f"{self.uuid}:{self.tag}" if self.tag else self.uuid


@dataclass(frozen=True, slots=True)
class GtidPosition:
    """The last GTID of each domain: everything up to it has been taken.

    The server calls this form `gtid_slave_pos`, for example `0-1-100,1-2-7`; empty means from the very beginning.
    """

    last: Mapping[int, Gtid]

    def __str__(self) -> str:
        return ",".join(str(self.last[domain]) for domain in sorted(self.last))

    @classmethod
    def parse(cls, text: str) -> GtidPosition:
        """Read a comma-separated list of GTIDs, one for each domain.

        Raises:
            ValueError: An entry is not a GTID, or a domain is there twice.
        """
        last: dict[int, Gtid] = {}
        for part in text.split(","):
            if not part.strip():
                continue
            gtid = Gtid.parse(part)
            if gtid.domain in last:
                raise ValueError(f"GTID position {text!r}: domain {gtid.domain} is there twice")
            last[gtid.domain] = gtid
        return cls(last)

    @classmethod
    def of(cls, gtids: Iterable[Gtid]) -> GtidPosition:
        """The position after *gtids*, in log order: in each domain the last one counts."""
        return cls({gtid.domain: gtid for gtid in gtids})

    def __bool__(self) -> bool:
        return bool(self.last)

    def covers(self, gtid: AnyGtid) -> bool:
        """True if *gtid* is at or before this position."""
        if not isinstance(gtid, Gtid):
            return False
        last = self.last.get(gtid.domain)
        return last is not None and gtid.seqno <= last.seqno

    @overload
    def advanced_by(self, later: GtidPosition) -> GtidPosition: ...

    @overload
    def advanced_by(self, later: GtidPoint) -> GtidPoint: ...

    def advanced_by(self, later: GtidPoint) -> GtidPoint:
        """This position with the domains of *later* replaced."""
        if not later:
            return self
        if not isinstance(later, GtidPosition):
            if self:
                raise ValueError(f"GTIDs of two kinds of servers: {self} and {later}")
            return later
        return GtidPosition({**self.last, **later.last})

    def without(self, taken: GtidPoint) -> GtidPosition:
        """The domains of this position whose last GTID *taken* does not cover."""
        return GtidPosition({domain: gtid for domain, gtid in self.last.items() if not taken.covers(gtid)})
