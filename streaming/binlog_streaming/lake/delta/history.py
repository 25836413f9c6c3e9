"""Search of a Delta log for the steps of jobs and for RESTOREs since: `LogHistory`.

A RESTORE makes a new version with the files of an older one. The transactions of applications stay as they are: by
them alone the table would seem to hold the steps that were taken away.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_streaming.lake.delta.actions import Line


@dataclass(slots=True)
class LogHistory:
    """Commits that have been read.

    Attributes:
        steps: Version of the newest commit with a transaction of an application, by application.
        restores: Versions that are a RESTORE, and to which version each one went; None: it does not tell.
    """

    steps: dict[str, int] = field(default_factory=dict)
    restores: dict[int, int | None] = field(default_factory=dict)

    def copy(self) -> LogHistory:
        """The same, to be changed by itself."""
        return replace(self, steps=dict(self.steps), restores=dict(self.restores))

    def take(self, version: int, lines: Iterable[Line]) -> None:
        """Take a commit in; they may come in any order."""
        for line in lines:
            if line.txn is not None:
                self.steps[line.txn.app_id] = max(version, self.steps.get(line.txn.app_id, version))
            if line.commit_info is not None and line.commit_info.operation == "RESTORE":
                self.restores[version] = _restored_version(line.commit_info.operation_parameters)

    def is_set_back(self, application: str) -> bool:
        """True if the table lacks a step that it had, by a RESTORE that no other RESTORE has undone."""
        step = self.steps.get(application)
        lost: dict[int, bool] = {}
        for version, to in sorted(self.restores.items()):
            if step is None or version < step:
                continue
            earlier = [is_lost for at, is_lost in lost.items() if to is not None and at <= to]
            lost[version] = to is None or to < step or (earlier or [False])[-1]
        return any(list(lost.values())[-1:])


def _restored_version(parameters: msgspec.Raw) -> int | None:
    # Spark and deltalake write a number, or the text of one; a RESTORE to a time has none.
    try:
        given = msgspec.json.decode(parameters)
    except msgspec.MsgspecError:
        return None
    text = str(given.get("version")).strip('"') if isinstance(given, dict) else ""
    return int(text) if text.isdecimal() else None
