"""Sets of MySQL's GTIDs, `GtidSet`, and what takes GTIDs of either vendor: `parse_gtids`, `parse_gtid`.

Places of a position's GTIDs in a log: `DomainStarts`; and `Taken`, the groups that filters skip.

MariaDB's sequence numbers may go back within a domain, so no comparison of numbers tells what comes after a GTID: only
its place in the log does. MySQL counts in sets, which tell it by themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from binlog_format.errors import DataLossError, OptionError
from binlog_format.gtids.gtid import Gtid, GtidPosition, GtidSource
from binlog_format.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from binlog_format.block import Table
    from binlog_format.kernels import Mask

    Interval = tuple[int, int]
    """First and last number, both included."""


SEQNO_MAX = 2**63 - 2
"""The largest number that MySQL gives a transaction."""

TAG_SIZE_MAX = 32

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}")
_TAG = re.compile(r"[a-z_][a-z0-9_]*")
_EXAMPLE = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77"


@dataclass(frozen=True, slots=True, order=True)
class MysqlGtid:
    """`uuid:number`, or `uuid:tag:number`: one transaction of a MySQL server."""

    source: GtidSource
    seqno: int

    def __str__(self) -> str:
        return f"{self.source}:{self.seqno}"


@dataclass(frozen=True, slots=True)
class GtidSet:
    """The transactions that have been taken, as in MySQL's `gtid_executed`; empty means from the very beginning.

    Attributes:
        intervals: The numbers of each source, ascending; they neither meet nor overlap, and none is empty.
    """

    intervals: Mapping[GtidSource, tuple[Interval, ...]]

    def __str__(self) -> str:
        """The text that the server gives, in one line: `uuid:1-77:80:tag:1-5,...`."""
        by_uuid: dict[str, str] = {}
        for source, intervals in sorted(self.intervals.items()):
            numbers = ":".join(f"{first}" if first == last else f"{first}-{last}" for first, last in intervals)
            tagged = f"{source.tag}:{numbers}" if source.tag else numbers
            by_uuid[source.uuid] = f"{by_uuid.get(source.uuid, source.uuid)}:{tagged}"
        return ",".join(by_uuid.values())

    def __bool__(self) -> bool:
        return bool(self.intervals)

    @classmethod
    def of(cls, intervals: Iterable[tuple[GtidSource, Interval]]) -> GtidSet:
        """The set of these intervals, in any order; they may overlap."""
        found: dict[GtidSource, list[Interval]] = {}
        for source, interval in intervals:
            found.setdefault(source, []).append(interval)
        return cls({source: _merged(parts) for source, parts in found.items()})

    @classmethod
    def parse(cls, text: str) -> GtidSet:
        """Read what the server accepts: any order, upper case and white space do not matter.

        Raises:
            ValueError: *text* is no set of GTIDs.
        """
        found: list[tuple[GtidSource, Interval]] = []
        for part in text.split(","):
            if part.strip():
                found.extend(_parse_part(part.strip()))
        return cls.of(found)

    def covers(self, gtid: AnyGtid) -> bool:
        """True if *gtid* is in the set."""
        if not isinstance(gtid, MysqlGtid):
            return False
        return any(first <= gtid.seqno <= last for first, last in self.intervals.get(gtid.source, ()))

    def advanced_by(self, later: GtidPoint) -> GtidPoint:
        """The union with *later*."""
        if not later:
            return self
        if not isinstance(later, GtidSet):
            if self:
                raise ValueError(f"GTIDs of two kinds of servers: {self} and {later}")
            return later
        united = dict(self.intervals)
        for source, intervals in later.intervals.items():
            united[source] = _merged([*united.get(source, ()), *intervals])
        return GtidSet(united)

    def without(self, taken: GtidPoint) -> GtidSet:
        """The transactions of this set that *taken* does not cover."""
        if not isinstance(taken, GtidSet):
            return self
        left = {
            source: _subtracted(intervals, taken.intervals.get(source, ()))
            for source, intervals in self.intervals.items()
        }
        return GtidSet({source: intervals for source, intervals in left.items() if intervals})

    def of_sources(self, sources: Iterable[GtidSource]) -> GtidSet:
        """The part of this set that has these sources."""
        wanted = set(sources)
        return GtidSet({source: intervals for source, intervals in self.intervals.items() if source in wanted})


AnyGtid: TypeAlias = Gtid | MysqlGtid
"""One transaction."""

GtidPoint: TypeAlias = GtidPosition | GtidSet
"""GTIDs that have been taken from a log. Empty ones of either kind mean the same: none have been."""

NO_GTIDS: GtidPoint = GtidPosition({})


def is_gtid_set(text: str) -> bool:
    """True if *text* begins like a GTID of MySQL: with a UUID. Positions (`0:12:3`) and MariaDB's GTIDs do not."""
    return _UUID.match(text.strip().lower()) is not None


def parse_gtids(text: str) -> GtidPoint:
    """Read up to where a log has been taken: `0-1-100,1-2-7` (MariaDB) or `uuid:1-77` (MySQL); empty: nothing.

    Raises:
        ValueError: *text* is neither.
    """
    if is_gtid_set(text) or ":" in text:
        return GtidSet.parse(text)
    return GtidPosition.parse(text)


def parse_gtid(text: str) -> AnyGtid:
    """Read one GTID: `0-1-100` (MariaDB), `uuid:77` or `uuid:tag:77` (MySQL).

    Raises:
        ValueError: *text* is none of them.
    """
    if not is_gtid_set(text) and ":" not in text:
        return Gtid.parse(text)
    found = GtidSet.parse(text).intervals
    numbers = [(source, *interval) for source, intervals in found.items() for interval in intervals]
    if len(numbers) != 1 or numbers[0][1] != numbers[0][2]:
        raise ValueError(f"GTID {text!r}: expected one transaction, for example uuid:77")
    source, seqno, _ = numbers[0]
    return MysqlGtid(source, seqno)


def check_kind(known: GtidPoint, given: GtidPoint) -> None:
    """See that *given* can be of a log.

    Args:
        known: What the log records of itself; a MySQL log records a `GtidSet`, be it empty.
    """
    if not given or isinstance(given, GtidSet) == isinstance(known, GtidSet):
        return
    if isinstance(known, GtidSet):
        reason = f"{given} is a GTID position of MariaDB, the log is of a MySQL server"
        hint = f"Its GTIDs are sets like {_EXAMPLE}, as in gtid_executed"
    else:
        reason = f"{given} is a GTID set of MySQL, the log is of a MariaDB server"
        hint = "Its GTIDs are like 0-1-575,1-2-7, as in gtid_binlog_pos"
    raise OptionError("INVALID_VALUE", reason, hint=hint)


def gtids_purged(before: GtidPoint, start: GtidPoint, purged: GtidPoint) -> DataLossError:
    """The error for a start that lies before what a log still has.

    Args:
        purged: What of *before* the start does not cover.
    """
    if isinstance(purged, GtidSet):
        missing = f"{purged} has been purged"
        hint = "Give all that has been taken, as in gtid_executed; or start at the earliest position"
    else:
        missing = f"what lies between has been purged, up to {str(purged).replace(',', ', ')}"
        hint = "Name a GTID of every domain, none older than where the log begins; or start at the earliest position"
    reason = f"the log begins after {before}, the start is {start or 'empty'}: {missing}"
    return DataLossError("GTID_PURGED", reason, hint=hint)


def _parse_part(text: str) -> Iterable[tuple[GtidSource, Interval]]:
    """`uuid:1-77:80:tag:1-5`."""
    said, *fields = ("".join(field.split()).lower() for field in text.split(":"))
    if _UUID.fullmatch(said) is None:
        raise ValueError(f"GTID set: expected a server's UUID before the first colon, got {said!r}, as in {_EXAMPLE}")
    digits = said.replace("-", "")
    uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    source = GtidSource(uuid)
    lacks_numbers = True
    for field in fields:
        if _TAG.fullmatch(field) is None:
            yield source, _parse_interval(field, text)
            lacks_numbers = False
            continue
        if len(field) > TAG_SIZE_MAX:
            raise ValueError(f"GTID set: tag {field!r} has {len(field)} characters, there may be {TAG_SIZE_MAX}")
        if lacks_numbers and source.tag:
            break
        source, lacks_numbers = GtidSource(uuid, field), True
    if lacks_numbers:
        raise ValueError(f"GTID set: {source} has no numbers after it, as in {_EXAMPLE}")


def _parse_interval(text: str, within: str) -> Interval:
    first, dash, last = text.partition("-")
    numbers = (first, last) if dash else (first, first)
    if not all(number.isascii() and number.isdecimal() for number in numbers):
        raise ValueError(f"GTID set {within!r}: expected a number, a range like 1-77, or a tag, got {text!r}")
    low, high = (int(number) for number in numbers)
    if not 1 <= low <= high <= SEQNO_MAX:
        raise ValueError(f"GTID set {within!r}: {text!r}: numbers go from 1 to {SEQNO_MAX}, the smaller one first")
    return low, high


def _merged(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """Intervals in order, those that overlap or meet made one."""
    merged: list[Interval] = []
    for first, last in sorted(intervals):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


def _subtracted(intervals: Iterable[Interval], taken: Iterable[Interval]) -> tuple[Interval, ...]:
    """Parts of *intervals* outside of *taken*; both are in order, and their parts do not overlap."""
    left: list[Interval] = []
    holes = iter(taken)
    hole = next(holes, None)
    for first, last in intervals:
        at = first
        while hole is not None and hole[0] <= last:
            if hole[1] >= at:
                if hole[0] > at:
                    left.append((at, hole[0] - 1))
                at = hole[1] + 1
            if hole[1] > last:
                break
            hole = next(holes, None)
        if at <= last:
            left.append((at, last))
    return tuple(left)


NOT_REACHED = Position(2**62, 0, 0)
"""After everything: the log has not come to a GTID yet."""


@dataclass(frozen=True, slots=True)
class DomainStarts:
    """The place in a log, for each domain, after which no group has been taken.

    Attributes:
        places: By domain, a place after the last group that has been taken and not after the next one of that domain;
            `NOT_REACHED`: all groups that are there have been taken. Of other domains nothing has been.
    """

    places: Mapping[int, Position]

    def __bool__(self) -> bool:
        return bool(self.places)

    def __str__(self) -> str:
        return ",".join(f"{domain}={self.places[domain]}" for domain in sorted(self.places))

    @classmethod
    def parse(cls, text: str) -> DomainStarts:
        """Read what `str()` writes: `0=3:12:4,1=4:1:0`. Raises `ValueError`: *text* has another form."""
        found = {}
        for part in text.split(",") if text else ():
            domain, _, place = part.partition("=")
            if not (domain.isascii() and domain.isdecimal()):
                raise ValueError(f"starts of domains {text!r}: expected domain=position, for example 0=3:12:4")
            found[int(domain)] = Position.parse(place)
        return cls(found)

    def is_open(self, domain: int) -> bool:
        """True if the log has not reached the GTID of a domain yet."""
        return self.places.get(domain) == NOT_REACHED

    def covered(self, groups: Table) -> Mask:
        """True for each row of a group table (`GROUP_DTYPE`) that has been taken; never for one without GTID."""
        covered = np.zeros(len(groups), dtype=np.bool_)
        for domain, place in self.places.items():
            covered |= (groups["domain"] == domain) & _is_before(groups, place)
        covered &= groups["has_gtid"] & (groups["gtid_source"] < 0)
        return covered

    def after(self, position: Position) -> DomainStarts:
        """The part that still matters at *position*: domains that start later."""
        return DomainStarts({domain: place for domain, place in self.places.items() if place > position})


NO_STARTS = DomainStarts({})

Taken: TypeAlias = DomainStarts | GtidSet
"""Groups that have been taken already, whatever the order of their GTIDs."""


def _is_before(groups: Table, place: Position) -> Mask:
    file_no, page = groups["file_no"], groups["page"]
    in_page = (page == place.page) & (groups["chunk"] < place.chunk)
    is_before = (file_no < place.file_no) | ((file_no == place.file_no) & ((page < place.page) | in_page))
    return np.asarray(is_before)
