"""The first file of the server run that wrote a file: `ServerRuns(log).of(file_no)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from binlog_format.log.log import Log


class ServerRuns:
    """Looks at heads of files, each one once.

    Args:
        log: Not all have the starts of the server in the heads of files; others have them among their events.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: dict[int, int] = {}

    def of(self, file_no: int) -> int:
        """Number of the newest file up to *file_no* that a server start began, or of the log's first; 0: not known."""
        if self._log.begins_server_run(file_no) is None:
            return 0
        passed: list[int] = []
        first = 0 if file_no in self._known else self._log.start_position().file_no
        while file_no not in self._known:
            passed.append(file_no)
            if file_no <= first or self._log.begins_server_run(file_no):
                self._known[file_no] = file_no
            else:
                file_no -= 1
        self._known.update(dict.fromkeys(passed, self._known[file_no]))
        return self._known[file_no]
