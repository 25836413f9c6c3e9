"""With which file the run of the server began that wrote a file: `ServerRuns(log).of(file_no)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.classic.reader import ClassicLog

if TYPE_CHECKING:
    from binlog_format.log import Log


class ServerRuns:
    """Looks at heads of files, each one once.

    Args:
        log: Of which `innodb` logs have the starts of the server among their events, not in the heads of files.
    """

    def __init__(self, log: Log) -> None:
        self._log = log if isinstance(log, ClassicLog) else None
        self._known: dict[int, int] = {}

    def of(self, file_no: int) -> int:
        """Number of the newest file up to *file_no* that a server start began, or of the log's first; 0: not known."""
        if self._log is None:
            return 0
        passed: list[int] = []
        first = 0 if file_no in self._known else self._log.start_position().file_no
        while file_no not in self._known:
            passed.append(file_no)
            if file_no <= first or self._log.start_event(file_no) is not None:
                self._known[file_no] = file_no
            else:
                file_no -= 1
        self._known.update(dict.fromkeys(passed, self._known[file_no]))
        return self._known[file_no]
