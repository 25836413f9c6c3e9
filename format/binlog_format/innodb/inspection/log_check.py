"""Checks an `.ibb` log file by file: `InnodbCheck`.

Checks on headers, each alone and beside those of the other files: `check_headers`.

Checks that GTID state records record the GTIDs of the groups before them: `StateCheck`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import BinlogError, CorruptError, DataLossError, StartError
from binlog_format.gtids.gtid_history import GtidHistory, mariadb_gtid
from binlog_format.innodb.files import LogFiles
from binlog_format.innodb.groups.forest import Forest
from binlog_format.innodb.gtid_state import read_state
from binlog_format.innodb.header import file_name
from binlog_format.innodb.inspection.contents import kind_name
from binlog_format.innodb.inspection.file_check import GroupCheck, PageCheck
from binlog_format.innodb.inspection.file_views import HeaderState, view_files
from binlog_format.innodb.inspection.page_walk import PageWalk
from binlog_format.innodb.layout import FIRST_DATA_PAGE, RecordKind
from binlog_format.innodb.log_end import check_file_end
from binlog_format.innodb.pages.pages import PageReader, PageRuns
from binlog_format.innodb.reader import InnodbLog
from binlog_format.innodb.records import RecordReader
from binlog_format.log_format import NOT_YET, NOTE, Finding, LogCheck
from binlog_format.position import Place, Position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.block import Table
    from binlog_format.gtids.gtid import Gtid
    from binlog_format.innodb.groups.forest import FilePlace
    from binlog_format.innodb.gtid_state import GtidState
    from binlog_format.innodb.inspection.file_views import FileView
    from binlog_format.log_format import CheckScope
    from binlog_format.source_file import Directory


class StateCheck:
    """Follows the GTIDs of a log, file by file.

    The full state of page 1 sets the base; a state further on lists what has changed since. A state may
    know of the group that begins directly after it.
    """

    def __init__(self) -> None:
        self._history = GtidHistory()
        self._has_restarted = False

    def forget(self) -> None:
        """Forget the GTIDs: pages could not be read in full, so the next full state is the base again."""
        self._history.forget()

    def take(self, file: FileView, states: list[tuple[int, GtidState]], groups: Table) -> Iterator[Finding]:
        """Check the states of a file.

        Args:
            states: Page and content of each, ascending.
            groups: `GROUP_DTYPE`: all groups of the file.
        """
        taken = 0
        for page, state in states:
            after = int(np.searchsorted(groups["page"], page))
            yield from self._apply(file, groups[taken:after])
            taken = after
            following = mariadb_gtid(groups[after]) if after < len(groups) and groups["has_gtid"][after] else None
            for reason in self._problems(file, page, state, following):
                yield Finding.of(
                    CorruptError(
                        "GTID_STATE",
                        f"GTID state: {reason}",
                        at=file.place(page),
                        hint="Searching for a GTID may start at a wrong place; reading from the start is not affected",
                    )
                )
            if page == FIRST_DATA_PAGE:
                self._history.begin(state.gtids)
                self._has_restarted = False
        yield from self._apply(file, groups[taken:])

    def _apply(self, file: FileView, groups: Table) -> Iterator[Finding]:
        # A server start logs a group without GTID, and forgets what has changed since page 1.
        self._has_restarted |= bool((~groups["has_gtid"]).any())
        for offset, gtid, before in self._history.take(groups):
            place = file.place(*divmod(offset, file.page_size))
            yield Finding.remark(NOTE, place, f"{gtid} comes after {before}")

    def _problems(self, file: FileView, page: int, state: GtidState, following: Gtid | None) -> Iterator[str]:
        if len({(gtid.domain, gtid.server) for gtid in state.gtids}) < len(state.gtids):
            yield "it names a domain and server id twice"
        if state.xa_reference_file_no is not None and state.xa_reference_file_no > file.file_no:
            yield f"it refers to XA transactions of file {state.xa_reference_file_no}"
        if not self._history.is_known:
            return
        yield from self._history.differences(state.gtids, following)
        if page == FIRST_DATA_PAGE:
            yield from self._history.lacking(state.gtids)
        elif not self._has_restarted:
            yield from self._history.lacking(state.gtids, self._history.changed)


def check_header(file: FileView, before: FileView | None, is_last: bool) -> Iterator[Finding]:
    """Check the header of a file. *before*: the last one before it that has a good header."""
    for error in file.problems:
        yield Finding.of(error)
    if file.header is not None or file.state is HeaderState.DAMAGED:
        yield from _check_size(file, is_last)
    if file.header is None:
        if file.state is HeaderState.EMPTY and not is_last and not file.problems:
            reason = "the file is empty, but a later one has been begun"
            yield Finding.of(CorruptError("HEADER", reason, at=file.place(0)))
        return
    header = file.header
    # FLUSH can add one page to a file that is full.
    if file.page_count > header.page_count + 1:
        yield _wrong(file, 24, f"page count: the header has {header.page_count}, the file has {file.page_count}")
    # A fresh server writes the interval of its first file in bytes: a power of two as well.
    if header.state_interval & (header.state_interval - 1):
        yield _wrong(file, 40, f"GTID state interval: expected a power of two or 0, got {header.state_interval}")
    if header.oob_reference_file_no > header.file_no:
        yield _wrong(
            file, 48, f"lowest file with out-of-band data: {header.oob_reference_file_no} comes after this one"
        )
    if header.xa_reference_file_no is not None and header.xa_reference_file_no > header.file_no:
        yield _wrong(file, 56, f"lowest file with prepared XA: {header.xa_reference_file_no} comes after this one")
    if before is not None and before.header is not None:
        if header.lsn < before.header.lsn:
            yield _wrong(file, 32, f"LSN {header.lsn} is lower than {before.header.lsn} of {before.name}")
        if header.page_size != before.header.page_size:
            yield _wrong(
                file, 4, f"page size: {before.name} has {before.header.page_size}, this one {header.page_size}"
            )


def _check_size(file: FileView, is_last: bool) -> Iterator[Finding]:
    rest = file.size % file.page_size
    if rest == 0:
        return
    reason = f"{rest} bytes after the last whole page"
    at = file.place(file.page_count)
    if is_last:
        yield Finding.remark(NOT_YET, at, reason)
    else:
        yield Finding.of(DataLossError("TRUNCATED_TRANSACTION", reason + ": the file was cut off", at=at))


def missing_files(files: list[FileView], directory: Directory) -> Iterator[tuple[int, Finding]]:
    """Gaps between the numbers of *files*, which are in *directory*, each with the number after it."""
    for before, file in pairwise(files):
        if file.file_no == before.file_no + 1:
            continue
        last = file.file_no - 1
        said = "" if last == before.file_no + 1 else f" (and all up to {file_name(last)})"
        yield (
            file.file_no,
            Finding.of(
                DataLossError(
                    "FILE_PURGED",
                    f"the file is not there{said}, but those before and after it are",
                    at=Place(directory.path_of(file_name(before.file_no + 1))),
                    hint="The files were not copied together; a server removes only the first ones",
                )
            ),
        )


def _wrong(file: FileView, byte: int, reason: str) -> Finding:
    return Finding.of(CorruptError("HEADER", reason, at=file.place(0, byte)))


class InnodbCheck(LogCheck):
    """See `LogCheck`."""

    def __init__(self, scope: CheckScope) -> None:
        super().__init__(scope)
        self._oob_indexes: dict[FilePlace, int] = {}

    def findings(self) -> Iterator[Finding]:
        """See `LogCheck`; each once."""
        seen: set[tuple[str, str, str]] = set()
        for finding in self._all():
            # Reading groups comes upon the same damage as looking at pages.
            key = (finding.condition, str(finding.at), "" if finding.condition.endswith("CHECKSUM") else finding.reason)
            place_key = (finding.condition, str(finding.at), "")
            if key in seen or (finding.condition == "BINLOG_CORRUPT.BAD_CHUNK" and place_key in seen):
                continue
            seen |= {key, place_key}
            yield finding

    def _all(self) -> Iterator[Finding]:
        files = view_files(self._directory, self._only)
        if self._start is not None or self._end is not None:
            files = [file for file in files if self._has_part_of(file)]
        if not files:
            raise StartError("NO_LOG_FILES", f"{self._directory.path}: there are no binlog files to check")
        # Pages are looked at one by one, then groups are read: each byte counts twice.
        self._total = sum(2 * file.size for file in files)
        gaps = dict(missing_files(files, self._directory))
        begun = [file.file_no for file in files if file.state is not HeaderState.EMPTY]
        log = InnodbLog(self._directory, self._only)
        walk = PageWalk(self._directory)
        states = StateCheck()
        before: FileView | None = None
        try:
            for file in files:
                if file.file_no in gaps:
                    yield gaps[file.file_no]
                    states.forget()
                is_last = not begun or file.file_no >= begun[-1]
                yield from check_header(file, before, is_last)
                successor = self._successor(files, file)
                yield from self._check_file(file, log, walk, states, successor)
                if is_last and file.state is not HeaderState.EMPTY:
                    yield from self._check_end_of_data(walk)
                before = file if file.header is not None else before
        finally:
            log.close()

    def _check_file(
        self, file: FileView, log: InnodbLog, walk: PageWalk, states: StateCheck, successor: str | None
    ) -> Iterator[Finding]:
        # Readers of their own: what a cache holds is as old as the file was then.
        reader = PageReader(LogFiles(self._directory, self._only), check_file_end)
        records = RecordReader(reader, PageRuns(reader))
        # References mostly lead back a little; those that lead further are read.
        self._oob_indexes = {place: index for place, index in self._oob_indexes.items() if place[0] >= file.file_no - 1}
        check = PageCheck(file, records, self._oob_indexes)
        base = self._done
        is_sound = file.header is not None
        first, end_page = self._pages_of(file)
        for batch in walk.batches(file, first, end_page):
            for finding in check.take(batch):
                is_sound = False
                yield finding
            self._progress(base + (batch.first_page + batch.page_count) * file.page_size)
        if end_page is None:
            for finding in check.finish(successor):
                is_sound = False
                yield finding
            yield from self._check_end(reader, file)
        self._progress(base + file.size)
        commits = np.concatenate([*check.commits, np.zeros((0, 2), dtype=np.int64)])
        groups = GroupCheck(log, file, commits, lambda size: self._progress(base + file.size + size))
        if file.state is not HeaderState.EMPTY:
            for finding in self._check_groups(groups, file):
                is_sound = False
                yield finding
            yield from self._check_prepared(reader, check, file)
        found: list[tuple[int, GtidState]] = []
        for page in check.states:
            try:
                state = read_state(reader, reader.files.existing(file.file_no), page)
            except BinlogError as error:
                is_sound = False
                yield Finding.of(error)
                continue
            if state is not None:
                found.append((page, state))
        if is_sound:
            yield from states.take(file, found, groups.groups)
        else:
            states.forget()
        reader.files.close()
        self._done = base + 2 * file.size
        self._progress(self._done)

    def _check_groups(self, groups: GroupCheck, file: FileView) -> Iterator[Finding]:
        start = Position(file.file_no, FIRST_DATA_PAGE, 0)
        end = Position(file.file_no + 1, 0, 0)
        if self._start is not None:
            start = max(start, self._start)
        if self._end is not None:
            end = min(end, self._end)
        for finding in groups.findings(start, end):
            if finding.condition.startswith("BINLOG_START.") and start == self._start:
                raise StartError("POSITION_NOT_FOUND", finding.reason, at=finding.at, hint=finding.hint)
            yield finding

    def _check_prepared(self, reader: PageReader, check: PageCheck, file: FileView) -> Iterator[Finding]:
        """Prepared XA transactions refer to out-of-band data, whether they will be committed or not."""
        forest = Forest(reader.files, RecordReader(reader, PageRuns(reader)))
        for oob, offset in check.prepared:
            try:
                for _ in forest.nodes(oob, (file.file_no, offset)):
                    continue
            except BinlogError as error:
                yield Finding.of(error)

    def _check_end(self, reader: PageReader, file: FileView) -> Iterator[Finding]:
        """Check if FLUSH has cut a file that is shorter than it was created, or something else."""
        try:
            opened = reader.files.begun(file.file_no)
            following = reader.files.begun(file.file_no + 1)
            if opened is not None and following is not None:
                check_file_end(reader, opened, following)
        except BinlogError as error:
            yield Finding.of(error)

    def _check_end_of_data(self, walk: PageWalk) -> Iterator[Finding]:
        if walk.open_record is None or self._end is not None:
            return
        kind, position = walk.open_record
        reason = f"a record of kind {kind_name(kind)} begins here that does not end on disk"
        if kind == RecordKind.COMMIT:
            reason += "; its group is not read"
        at = Place(LogFiles(self._directory, self._only).path(position.file_no), page=position.page)
        yield Finding.remark(NOT_YET, at, f"position {position}: {reason}")

    def _successor(self, files: list[FileView], file: FileView) -> str | None:
        """A file that shows that *file* is complete: the next one, begun, or any that comes later."""
        for other in files:
            is_next = other.file_no == file.file_no + 1 and other.state is not HeaderState.EMPTY
            if is_next or other.file_no > file.file_no + 1:
                return other.name
        return None

    def _has_part_of(self, file: FileView) -> bool:
        is_after_start = self._start is None or file.file_no >= self._start.file_no
        return is_after_start and (self._end is None or Position(file.file_no, 0, 0) < self._end)

    def _pages_of(self, file: FileView) -> tuple[int, int | None]:
        """The first page to look at and the one after the last; None: all."""
        first = FIRST_DATA_PAGE
        if self._start is not None and self._start.file_no == file.file_no:
            first = max(first, self._start.page)
        if self._end is None or self._end.file_no != file.file_no:
            return first, None
        return first, self._end.page + (1 if self._end.chunk > 0 else 0)
