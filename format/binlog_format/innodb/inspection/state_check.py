"""Checks that GTID state records record the GTIDs of the groups before them: `StateCheck`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import CorruptError
from binlog_format.findings import NOTE, Finding
from binlog_format.gtids.gtid import Gtid
from binlog_format.gtids.gtid_history import GtidHistory
from binlog_format.innodb.layout import FIRST_DATA_PAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.block import Table
    from binlog_format.innodb.gtid_state import GtidState
    from binlog_format.innodb.inspection.file_views import FileView


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
            file: The file.
            states: Page and content of each, ascending.
            groups: `GROUP_DTYPE`: all groups of the file.
        """
        taken = 0
        for page, state in states:
            after = int(np.searchsorted(groups["page"], page))
            yield from self._apply(file, groups[taken:after])
            taken = after
            following = _gtid(groups[after]) if after < len(groups) and groups["has_gtid"][after] else None
            for reason in self._problems(file, page, state, following):
                yield _wrong(file, page, reason)
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


def _gtid(group: np.void) -> Gtid:
    return Gtid(int(group["domain"]), int(group["server_id"]), int(group["seqno"]))


def _wrong(file: FileView, page: int, reason: str) -> Finding:
    return Finding.of(
        CorruptError(
            "GTID_STATE",
            f"GTID state: {reason}",
            at=file.place(page),
            hint="Searching for a GTID may start at a wrong place; reading from the start is not affected",
        )
    )
