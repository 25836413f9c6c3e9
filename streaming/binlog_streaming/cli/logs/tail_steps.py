"""The loop of `binlog-stream tail`: `Saving`; and what it does with the events of a structured log: `EventLines`."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from binlog_streaming.cli.output import write_json, write_output

if TYPE_CHECKING:
    from binlog_connector.following.offsets import OffsetFile, SourceOffset
    from binlog_connector.following.steps import Step
    from binlog_connector.following.tailer import Tailer
    from binlog_connector.metrics.follower import Follower

REFRESH_SECONDS = 0.25
"""Seconds between two drawings of the live view."""


class Taker(Protocol):
    """Receiver of steps."""

    def take(self, step: Step) -> int:
        """Give out what is in a step; it is out when this returns. How many rows that was."""

    def draw(self) -> None:
        """A moment to draw anew what has changed."""


@dataclass(slots=True)
class Saving:
    """Step, rows out, offset saved. In this order, so that after a crash rows may repeat, but never lack.

    Attributes:
        offset_file: Where the offset is saved; None: nowhere.
        follower: What is measured of it; None: nothing.
    """

    tailer: Tailer
    offset_file: OffsetFile | None
    follower: Follower | None
    _saved: SourceOffset | None = None

    def run(self, taker: Taker, idle_seconds: float | None) -> None:
        """Run until the end, or until nothing has come for *idle_seconds*."""
        self._save(self.tailer.offset)  # `latest` is now, also for one who comes back after being killed
        last = time.monotonic()
        while True:
            step = self.tailer.step(REFRESH_SECONDS if idle_seconds is None else min(REFRESH_SECONDS, idle_seconds))
            if step is not None:
                rows = taker.take(step)
                self._note(step, rows)
                self._save(step.end)
                last = time.monotonic()
            elif self.tailer.is_ended or (idle_seconds is not None and time.monotonic() - last >= idle_seconds):
                break
            taker.draw()
        self._save(self.tailer.offset)

    def _note(self, step: Step, rows: int) -> None:
        if self.follower is not None:
            self.follower.progress.took(
                step.end, rows=rows, size=step.size, groups=step.group_count, last_timestamp=step.last_timestamp
            )

    def _save(self, offset: SourceOffset) -> None:
        if self.offset_file is not None and offset != self._saved:
            self.offset_file.save(offset)
            self._saved = offset


class EventLines:
    """Events of a structured log on standard output: a line each.

    Args:
        is_readable: Lines as the library's own reader prints them; else JSON.
    """

    def __init__(self, is_readable: bool) -> None:
        self._is_readable = is_readable

    def take(self, step: Step) -> int:
        """Write the events; how many there were."""
        from binlog_format.rows.json.json_rows import json_lines
        from binlog_format.structured.text.event_format import DEFAULT_EVENT_FORMAT, EventFormat
        from binlog_format.structured.text.lines import LineWriter, damage_error
        from binlog_format.structured.views.view import LogsView

        count = 0
        if self._is_readable:
            writer = LineWriter(EventFormat(DEFAULT_EVENT_FORMAT))
            for block in step.entries():
                for lines in writer.lines(block):
                    write_output(lines.text)
                    count += len(lines.ends)
                    if lines.damage is not None:
                        raise damage_error(block, lines.damage)
        else:
            view = LogsView()
            for batch in view.batches(step.entries()):
                write_json(json_lines(batch, view.json_styles()))
                count += batch.num_rows
        sys.stdout.buffer.flush()
        return count

    def draw(self) -> None:
        """Do nothing: there is no view to draw."""
