"""Where reading goes on behind a GTID position: `find_gtid_start`, by halving over GTID states and a short scan.

Reading specification, section 7; writing specification, section 10.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import DataLossError
from binlog_format.gtid import GtidPosition
from binlog_format.innodb.end_of_data import written_page_count
from binlog_format.innodb.group_heads import GroupHeads, last_gtids
from binlog_format.innodb.gtid_state import GtidState, read_state
from binlog_format.innodb.layout import FIRST_DATA_PAGE
from binlog_format.innodb.scanner import CommitScanner
from binlog_format.log import GtidStart
from binlog_format.position import Position

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.block import Table
    from binlog_format.gtid import Gtid
    from binlog_format.innodb.files import OpenFile
    from binlog_format.innodb.pages import PageReader

SCAN_PAGES = 16
"""Pages read at a time: what is looked for is mostly near."""

_NO_STATE = GtidState((), None)


def find_gtid_start(
    reader: PageReader, numbers: list[int], wanted: GtidPosition, end: Position | None = None
) -> GtidStart:
    """The first group that *wanted* does not cover.

    Args:
        reader: Where pages come from.
        numbers: Numbers of the files, ascending; at least one.
        wanted: What has been taken.
        end: Look no further; None: to the end of data.

    Raises:
        DataLossError: `GTID_PURGED`: groups between *wanted* and the first file are not there any more.
    """
    search = _Search(reader, wanted)
    file_no, state, behind = search.find_file(numbers)
    file = reader.files.begun(file_no)
    if file is None:
        return GtidStart(Position(file_no, FIRST_DATA_PAGE, 0), GtidPosition({}))
    stretch = search.find_page(file, state, behind)
    start = Position(file_no, max(stretch.page, FIRST_DATA_PAGE), 0)
    scan = _Scan(reader, wanted, start, stretch.before, window_size=SCAN_PAGES * file.page_size)
    # The group is most often before the next state, which may also be in the next file: no page behind it is read.
    next_state = Position(file_no, stretch.page_end + 1, 0)
    if stretch.page_end == 0:
        next_state = Position(file_no + 1, FIRST_DATA_PAGE + 1, 0)
    if behind is not None or stretch.page_end > 0:
        scan.run(next_state if end is None else min(next_state, end))
    if not scan.is_found:
        scan.run(end)
    return GtidStart(scan.position, scan.before)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Where in a file to scan.

    Attributes:
        page: Everything before it is covered.
        page_end: The first page with a state that does not say so; 0: there is none.
        before: GTIDs before `page`; of a domain that state records have forgotten, maybe an older one.
    """

    page: int
    page_end: int
    before: GtidPosition


class _Search:
    def __init__(self, reader: PageReader, wanted: GtidPosition) -> None:
        self._reader = reader
        self._wanted = wanted

    def find_file(self, numbers: list[int]) -> tuple[int, GtidState, GtidState | None]:
        """The last file before which everything is covered, its full state, and the next file's if it is known."""
        states: dict[int, GtidState | None] = {}
        low, high = -1, len(numbers)
        while high - low > 1:
            middle = (low + high) // 2
            state = states[middle] = self._full_state(numbers[middle])
            is_before = state is not None and self._covers(state.gtids)
            low, high = (middle, high) if is_before else (low, middle)
        if low >= 0:
            return numbers[low], states[low] or _NO_STATE, states.get(high)
        first = states[0]
        if first is None:
            return numbers[0], _NO_STATE, None  # nothing is on disk yet
        purged = [gtid for gtid in first.gtids if not self._wanted.covers(gtid)]
        raise DataLossError(
            "GTID_PURGED",
            f"the log begins behind {first.position()}, the start is {self._wanted}: what lies between has been "
            "purged, up to " + ", ".join(str(gtid) for gtid in sorted(purged)),
            hint="Name a GTID of every domain, none older than where the log begins; or start at the earliest position",
        )

    def find_page(self, file: OpenFile, full: GtidState, behind: GtidState | None) -> _Stretch:
        """The last page with a state in *file* before which everything is covered.

        Args:
            file: The file.
            full: Its full state.
            behind: The full state of the next file.
        """
        interval = file.header.state_interval
        best, best_state = 0, _NO_STATE
        page_end = 0
        if interval > 0:
            # A fresh server says bytes where pages are meant: then there is no such page in the file.
            low, high = 0, (written_page_count(file) - 1) // interval + 1
            while high - low > 1:
                middle = here = (low + high) // 2
                state = read_state(self._reader, file, here * interval)
                while state is None and here > low + 1:
                    here -= 1  # the last one of a file may be left out
                    state = read_state(self._reader, file, here * interval)
                if state is not None and self._is_before(full, state, behind):
                    low, best, best_state = middle, here * interval, state
                else:
                    high = here
                    page_end = here * interval if state is not None else page_end
        before = full.position().advanced_by(best_state.position())
        return _Stretch(best, page_end, before)

    def _full_state(self, file_no: int) -> GtidState | None:
        file = self._reader.files.begun(file_no)
        return None if file is None else read_state(self._reader, file)

    def _is_before(self, full: GtidState, changed: GtidState, behind: GtidState | None) -> bool:
        """Whether everything before a state record is covered; when that cannot be told, it is not.

        A state record in a file tells what has changed since its start, but forgets that when the server is restarted
        (section 10, rule 6). Of a domain that it names it has the last GTID all the same. A domain that it does not
        name may have gone on before a restart, but not further than the next file's full state says.
        """
        if not self._covers(changed.gtids):
            return False
        named = {gtid.domain for gtid in changed.gtids}
        if behind is not None:
            was = set(full.gtids)
            return all(gtid.domain in named or gtid in was or self._wanted.covers(gtid) for gtid in behind.gtids)
        # Nothing tells what the last file has before a restart: an idle domain makes this a longer scan, and one that
        # neither the full state nor what is wanted names, used there for the first and last time, is not seen.
        return all(domain in named for domain in (*self._wanted.last, *full.position().last))

    def _covers(self, gtids: tuple[Gtid, ...]) -> bool:
        return all(self._wanted.covers(gtid) for gtid in gtids)


class _Scan:
    """Passes over groups until one is not covered.

    Attributes:
        position: Of that group, or how far the scan has come.
        before: GTIDs before it.
        is_found: There is one.
    """

    def __init__(
        self, reader: PageReader, wanted: GtidPosition, start: Position, before: GtidPosition, *, window_size: int
    ) -> None:
        self._reader = reader
        self._window_size = window_size
        self._wanted = wanted
        self._heads = GroupHeads()
        self.position = start
        self.before = before
        self.is_found = False

    def run(self, end: Position | None) -> None:
        """Go on up to *end*."""
        scanner = CommitScanner(self._reader, self.position, end, window_size=self._window_size)
        for window in scanner.windows():
            if window.long_record is not None:
                groups = self._heads.of_long(window.long_record, self._reader)
                if not self._pass(groups):
                    self.position = window.long_record.position
                    return
            groups = self._heads.of(window, len(window.records))
            if not self._pass(groups):
                row = int(np.argmin(self._is_covered(groups)))
                chunk = window.chunks[int(window.records["first"][row])]
                self.position = window.pages.position(int(chunk["page"]), int(chunk["number"]))
                return
            self.position = window.next_position

    def _pass(self, groups: Table) -> bool:
        """Take the groups up to the first that is not covered; False: there is one."""
        covered = self._is_covered(groups)
        passed = groups if covered.all() else groups[: int(np.argmin(covered))]
        self.before = self.before.advanced_by(GtidPosition(last_gtids(passed)))
        self.is_found = not bool(covered.all())
        return not self.is_found

    def _is_covered(self, groups: Table) -> NDArray[np.bool_]:
        # A group without GTID holds no rows: the description of a server that was started.
        covered = ~groups["has_gtid"]
        for domain, gtid in self._wanted.last.items():
            covered |= (groups["domain"] == domain) & (groups["seqno"] <= np.uint64(gtid.seqno))
        return np.asarray(covered)
