"""Search for GTIDs in a MariaDB log, whatever their order: `GtidSearch`.

Sequence numbers mostly grow within a domain, so the lists of GTIDs that a log holds (at each file's start, in `.ibb`
files also in between) lead to a GTID in a few steps. But numbers may go back, and a list has only the last one of each
server: so the lists tell where to look first, and what is found is proof by itself. What is not found there is looked
for in all files that can hold its domain. Two things are taken from lists alone, in any order of numbers:

* The list at a place names a GTID as its domain's last one: what follows it in that domain lies after the place.
* The list at a file's start does not name a domain: no file before has a group of it (a server forgets a domain only
  when no file holds one of its groups).

MySQL's sets only grow, so halving over them is all that `start_after_set` needs.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_format.errors import StartError
from binlog_format.gtids.gtid import Gtid, GtidPosition
from binlog_format.gtids.gtid_history import covered_groups, gtids_of
from binlog_format.gtids.gtid_set import NOT_REACHED, DomainStarts, gtids_purged
from binlog_format.log_format import GtidStart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from binlog_format.block import Table
    from binlog_format.gtids.gtid_set import GtidPoint, GtidSet
    from binlog_format.kernels import Mask
    from binlog_format.log.log import Log
    from binlog_format.log_format import Heads
    from binlog_format.position import Position

    Listed = tuple[Gtid, ...]
    IsBefore = Callable[[int | None], bool]
    """Test if a place comes before the GTID that is searched; takes the number in the place's list, None if it has
    none."""


class FoundGroup(NamedTuple):
    """A group, and the place after it: of the next group, or the end of what has been read."""

    position: Position
    next_position: Position


class GtidSearch:
    """Looks for GTIDs in one log, as it is now; what lists have been read is kept. *log*: of a MariaDB server."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._files = log.file_starts()
        self._lists: dict[Position, Listed | None] = {}
        self._within: dict[Position, Sequence[Position]] = {}
        while len(self._files) > 1 and self._list(self._files[-1]) is None:
            self._files = self._files[:-1]  # a newest one whose list is not there yet

    def find(self, gtid: Gtid) -> FoundGroup | None:
        """The group with this GTID; of several the one that the lists lead to; None: there is none."""
        for start, end in self._ranges(gtid):
            found = _find_in(self._log.heads(start, end), gtid)
            if found is not None:
                return found
        return None

    def start(self, wanted: GtidPosition) -> GtidStart:
        """Position to continue after *wanted*."""
        if not self._files:
            first = self._log.start_position()
            return GtidStart(first, GtidPosition({}), DomainStarts(dict.fromkeys(wanted.last, NOT_REACHED)))
        before = GtidPosition.of(self._list(self._files[0]) or ())
        unnamed = GtidPosition({domain: gtid for domain, gtid in before.last.items() if domain not in wanted.last})
        if unnamed:
            raise gtids_purged(before, wanted, unnamed)
        taken = DomainStarts({domain: self._place_after(gtid, wanted) for domain, gtid in wanted.last.items()})
        begin = min([self._start_of_others(wanted), *taken.places.values()])
        place, listed = self._nearest_list(begin)
        state: GtidPoint = listed
        for heads in self._log.heads(place, None):
            rows = np.flatnonzero(heads.groups["has_gtid"] & ~taken.covered(heads.groups))
            passed = heads.groups if len(rows) == 0 else heads.groups[: rows[0]]
            state = state.advanced_by(gtids_of(passed, ()))
            place = heads.next_position if len(rows) == 0 else heads.position(int(rows[0]))
            if len(rows):
                break
        return GtidStart(place, state, taken)

    def end(self, wanted: GtidPosition) -> DomainStarts:
        """End of reading for each domain of *wanted*: for a GTID that has not been logged, `NOT_REACHED`."""
        return DomainStarts({domain: self._place_after(gtid, wanted) for domain, gtid in wanted.last.items()})

    def _place_after(self, gtid: Gtid, wanted: GtidPosition) -> Position:
        """A place after *gtid* and not after the next group of its domain.

        Where the log does not hold it (a replica leaves out what it filters), reading goes on with the first group of
        the domain that has a larger number. If another server's transaction has its number, what was taken is not what
        this log goes on from.
        """
        listed = self._list_that_ends_with(gtid)
        if listed is not None:
            return listed
        found = self.find(gtid)
        if found is not None:
            return found.next_position
        before = GtidPosition.of(self._list(self._files[0]) or ()) if self._files else GtidPosition({})
        last = before.last.get(gtid.domain)
        if last is not None and last.seqno > gtid.seqno:
            raise gtids_purged(before, wanted, GtidPosition({gtid.domain: last}))
        if last is not None and last.seqno == gtid.seqno:
            raise _diverged(gtid, last)
        return self._first_larger(gtid)

    def _list_that_ends_with(self, gtid: Gtid) -> Position | None:
        """A place whose list has *gtid* as the last of its domain, where growing numbers make it stand."""
        if not self._files:
            return None

        def is_before(seqno: int | None) -> bool:
            return seqno is None or seqno <= gtid.seqno

        row = self._last_file(gtid.domain, is_before)
        place = self._places(row, gtid.domain, is_before)[0]
        for candidate in dict.fromkeys((place, self._files[row], self._files[0])):
            if _last(self._list(candidate), gtid.domain) == gtid:
                return candidate
        return None

    def _first_larger(self, gtid: Gtid) -> Position:
        wanted = np.uint64(gtid.seqno)
        first = self._files[self._first_file(gtid.domain)] if self._files else self._log.start_position()
        for heads in self._log.heads(first, None):
            rows = np.flatnonzero(_of_domain(heads.groups, gtid.domain) & (heads.groups["seqno"] >= wanted))
            if len(rows) == 0:
                continue
            if heads.groups["seqno"][rows[0]] == wanted:
                other = Gtid(gtid.domain, int(heads.groups["server_id"][rows[0]]), gtid.seqno)
                if other != gtid:
                    raise _diverged(gtid, other)
                found = self.find(gtid)  # it has been logged since it was looked for
                return NOT_REACHED if found is None else found.next_position
            return heads.position(int(rows[0]))
        return NOT_REACHED

    def _start_of_others(self, wanted: GtidPosition) -> Position:
        """The last file before which no group is of a domain that *wanted* does not name."""

        def has_others(place: Position) -> bool:
            return any(gtid.domain not in wanted.last for gtid in self._list(place) or ())

        return self._files[max(bisect.bisect_left(self._files, True, key=has_others) - 1, 0)]

    def _nearest_list(self, position: Position) -> tuple[Position, GtidPosition]:
        """The last place with a list that is not after *position*, and the last GTIDs before it."""
        row = max(bisect.bisect_right(self._files, position) - 1, 0)
        state = GtidPosition.of(self._list(self._files[row]) or ())
        places = self._places_of_lists(self._files[row])
        for place in reversed(places[: bisect.bisect_right(places, position)]):
            changed = self._list(place)
            if changed is not None:
                return place, state.advanced_by(GtidPosition.of(changed))
        return self._files[row], state

    def _ranges(self, gtid: Gtid) -> Iterator[tuple[Position, Position | None]]:
        """Ranges that may contain a GTID, the likeliest first; together they are all that may contain its domain."""
        if not self._files:
            return

        def is_before(seqno: int | None) -> bool:
            return seqno is None or seqno < gtid.seqno

        first = self._first_file(gtid.domain)
        by_domain = max(self._last_file(gtid.domain, is_before), first)
        yield self._places(by_domain, gtid.domain, is_before)
        # Servers that count on their own in one domain; then the neighbours: numbers go back by a few most often.
        by_server = max(self._last_file(gtid.domain, is_before, gtid.server), first)
        near = (by_domain, by_server, by_domain + 1, by_domain - 1, by_server + 1, by_server - 1)
        count = len(self._files)
        for row in dict.fromkeys((*near, *range(first, count))):
            if first <= row < count:
                yield self._files[row], self._end_of(row)

    def _last_file(self, domain: int, is_before: IsBefore, server: int | None = None) -> int:
        """Row of the last file that begins before what is looked for, if numbers grow; else of some file."""

        def is_after(place: Position) -> bool:
            last = _last(self._list(place), domain, server)
            return not is_before(None if last is None else last.seqno)

        return max(bisect.bisect_left(self._files, True, key=is_after) - 1, 0)

    def _places(self, row: int, domain: int, is_before: IsBefore) -> tuple[Position, Position | None]:
        """The same among the places in a file that have lists: the last one before, and the one after it."""
        start, end = self._files[row], self._end_of(row)
        places = self._places_of_lists(start)
        at_start = _last(self._list(start), domain)

        def is_after(place: Position) -> bool:
            changed = self._list(place)
            # The last ones of a file may be left out; a restarted server's list lacks what changed before.
            last = _last(changed, domain) or at_start
            return changed is None or not is_before(None if last is None else last.seqno)

        row = bisect.bisect_left(places, True, key=is_after)
        return places[row - 1] if row else start, places[row] if row < len(places) else end

    def _first_file(self, domain: int) -> int:
        """Row of the first file that can hold a group of *domain*."""
        later = self._files[1:]
        return bisect.bisect_left(later, True, key=lambda place: _last(self._list(place), domain) is not None)

    def _end_of(self, row: int) -> Position | None:
        return self._files[row + 1] if row + 1 < len(self._files) else None

    def _places_of_lists(self, start: Position) -> Sequence[Position]:
        if start not in self._within:
            self._within[start] = self._log.places_of_lists(start)
        return self._within[start]

    def _list(self, place: Position) -> Listed | None:
        if place not in self._lists:
            self._lists[place] = self._log.listed_gtids(place)
        return self._lists[place]


def start_after_set(log: Log, wanted: GtidSet) -> GtidStart:
    """The place after the transactions of a set, in a log of MySQL."""
    position, state = log.gtids_before_start()
    purged = state.without(wanted)
    if purged:
        raise gtids_purged(state, wanted, purged)
    starts = log.file_starts()
    row = bisect.bisect_left(starts, True, key=lambda start: bool(log.gtid_position_at(start).without(wanted))) - 1
    if row >= 0:
        position, state = starts[row], log.gtid_position_at(starts[row])
    for heads in log.heads(position, None):
        # A group without GTID is an anonymous one, which nothing covers.
        rows = np.flatnonzero(~covered_groups(wanted, heads.groups, heads.sources))
        passed = heads.groups if len(rows) == 0 else heads.groups[: rows[0]]
        state = state.advanced_by(gtids_of(passed, heads.sources))
        position = heads.next_position if len(rows) == 0 else heads.position(int(rows[0]))
        if len(rows):
            break
    return GtidStart(position, state, wanted)


def starts_seen(parts: Iterable[Heads], wanted: GtidPosition) -> DomainStarts:
    """The same for GTIDs that had not been logged where *parts* begin, by these groups alone: `NOT_REACHED` without."""
    found: dict[int, Position] = dict.fromkeys(wanted.last, NOT_REACHED)
    for part in parts:
        for domain, gtid in wanted.last.items():
            if found[domain] is not NOT_REACHED:
                continue
            groups = part.groups
            seqnos = groups["seqno"]
            is_it = (seqnos == np.uint64(gtid.seqno)) & (groups["server_id"] == gtid.server)
            is_larger = seqnos > np.uint64(gtid.seqno)
            rows = np.flatnonzero(_of_domain(groups, domain) & (is_it | is_larger))
            if len(rows):
                row = int(rows[0])
                found[domain] = part.position(row + (1 if is_it[row] else 0))
    return DomainStarts(found)


def _find_in(parts: Iterable[Heads], gtid: Gtid) -> FoundGroup | None:
    wanted = np.uint64(gtid.seqno)
    position: Position | None = None
    for heads in parts:
        groups, row = heads.groups, 0
        if position is None:
            is_it = _of_domain(groups, gtid.domain) & (groups["seqno"] == wanted) & (groups["server_id"] == gtid.server)
            rows = np.flatnonzero(is_it & groups["begins"])
            if len(rows) == 0:
                continue
            row = int(rows[0])
            position = heads.position(row)
        if groups["ends"][row]:  # a large group comes in pieces
            return FoundGroup(position, heads.position(row + 1))
    return None


def _diverged(gtid: Gtid, other: Gtid) -> StartError:
    return StartError(
        "GTID_NOT_FOUND",
        f"{gtid} is not in the log, which has {other}, another server's transaction, in its place",
        hint="This server went on without transactions that were read from another one: read a log that has them, or "
        "copy the tables again",
    )


def _of_domain(groups: Table, domain: int) -> Mask:
    return np.asarray(groups["has_gtid"] & (groups["domain"] == domain))


def _last(gtids: Sequence[Gtid] | None, domain: int, server: int | None = None) -> Gtid | None:
    """The last GTID of a domain, or of one server in it."""
    for gtid in reversed(gtids or ()):
        if gtid.domain == domain and server in (None, gtid.server):
            return gtid
    return None
