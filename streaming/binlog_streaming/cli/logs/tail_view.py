"""Display of `binlog-stream tail`: `TailView`; of the events of a structured log: `EventLines`.

Its loop, which saves what was shown: `Saving`.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from binlog_connector.metrics.exporter import lag_of
from binlog_format.messages import count_text
from binlog_streaming.cli.logs.changes import OP_COLORS, change_text
from binlog_streaming.cli.output import write_json, write_output
from binlog_streaming.cli.tabular import json_rows, shortened
from binlog_streaming.status.wording import bytes_text

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import RenderableType

    from binlog_connector.following.offsets import OffsetFile, SourceOffset
    from binlog_connector.following.steps import Step
    from binlog_connector.following.tailer import Tailer
    from binlog_connector.metrics.follower import Follower
    from binlog_connector.metrics.lag import Lag
    from binlog_format.views.changes import ChangesView


DRAW_SECONDS = 0.1
"""The screen is drawn no more often than this, however many steps there are."""

LAG_SECONDS = 1.0
"""Seconds between two measurements of the lag."""

ROWS_MAX = 60
"""Recent changes that are kept; as many are shown as the terminal has room for."""

_FRAME_LINES = 9
"""Lines of the view beside the changes."""

_GTID_WIDTH = 60
_NONE = "-"


class TailView:
    """A live view on a terminal; a context manager."""

    def __init__(self, path: str, format_name: str, follower: Follower, console: Console | None = None) -> None:
        self._path = path
        self._format_name = format_name
        self._follower = follower
        self._console = console or Console(highlight=False, emoji=False)
        self._live = Live(console=self._console, auto_refresh=False)
        self._recent: deque[dict[str, object]] = deque(maxlen=ROWS_MAX)
        self._drawn_at = self._measured_at = float("-inf")
        self._lag: Lag | None = None

    def __enter__(self) -> TailView:
        self._live.start()
        self._draw()
        return self

    def __exit__(self, *_: object) -> None:
        self._draw()
        self._live.stop()

    def take(self, batch: pa.RecordBatch, view: ChangesView) -> None:
        """Note the last changes of *batch*."""
        last = batch.slice(max(batch.num_rows - ROWS_MAX, 0))
        self._recent.extend(json_rows(iter([last]), view))

    def finish(self) -> None:
        """Do nothing: changes are on the screen when it is drawn."""

    def draw(self) -> None:
        """Draw, when it is time."""
        if time.monotonic() - self._drawn_at >= DRAW_SECONDS:
            self._draw()

    def render(self) -> RenderableType:
        """Contents of the screen."""
        return Group(self._title(), "", self._values(), self._changes())

    def _draw(self) -> None:
        self._measure()
        self._live.update(self.render(), refresh=True)
        self._drawn_at = time.monotonic()

    def _measure(self) -> None:
        if time.monotonic() - self._measured_at < LAG_SECONDS:
            return
        self._lag = lag_of(self._follower)
        self._measured_at = time.monotonic()

    def _title(self) -> Text:
        state, style = "", ""
        if self._lag is not None:
            state, style = ("● live", "green") if self._lag.transactions == 0 else ("● catching up", "yellow")
        return Text.assemble(
            ("binlog-stream tail ", "bold"),
            (f" {state} ", style),
            (f" {self._format_name} ", "dim"),
            (f" {self._path}", "cyan"),  # last: a long one is cut off
            no_wrap=True,
            overflow="ellipsis",
        )

    def _values(self) -> Table:
        progress, lag = self._follower.progress, self._lag
        consumed = progress.consumed
        offset, timestamp = (None, None) if consumed is None else (consumed.offset, consumed.timestamp)
        rows = (
            (
                ("changes", f"{progress.rows.total:,}"),
                ("changes/s", f"{progress.rows.per_second():,.0f}"),
                ("read", bytes_text(progress.size.total)),
                ("read/s", bytes_text(int(progress.size.per_second()))),
            ),
            (
                ("behind", _NONE if lag is None else count_text(lag.transactions, "transaction")),
                ("seconds", _NONE if lag is None else f"{lag.seconds:,} s"),
                ("bytes", _NONE if lag is None else bytes_text(lag.size)),
                ("pages", _NONE if lag is None else f"{lag.pages:,}"),
            ),
            (
                ("position", _NONE if offset is None else str(offset.position)),
                ("GTID", _NONE if offset is None else shortened(str(offset.gtid) or _NONE, _GTID_WIDTH)),
                (
                    "committed",
                    _NONE if timestamp is None else time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(timestamp)),
                ),
                ("oldest file needed", _NONE if lag is None else str(lag.oldest_file_no)),
            ),
        )
        table = Table.grid(padding=(0, 3))
        for _ in range(4):
            table.add_column(no_wrap=True)
        for row in rows:
            table.add_row(*(Text.assemble((f"{name} ", "dim"), (value, "bold")) for name, value in row))
        return table

    def _changes(self) -> RenderableType:
        room = max(self._console.height - _FRAME_LINES, 1)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=True)
        table.add_column("committed", no_wrap=True)
        table.add_column("GTID", no_wrap=True, max_width=24)
        table.add_column("table", no_wrap=True, max_width=32)
        table.add_column("op", no_wrap=True)
        table.add_column("change", no_wrap=True, overflow="ellipsis", ratio=1)
        for row in itertools.islice(self._recent, max(len(self._recent) - room, 0), None):
            op = str(row["op"])
            table.add_row(
                Text(str(row["commit_time"])[11:19]),
                Text(str(row["gtid"] or ""), style="dim"),
                Text(shortened(f"{row['database']}.{row['table']}", 32)),
                Text(op, style=OP_COLORS.get(op, "")),
                Text(change_text(row["before"], row["after"])),
            )
        return table if self._recent else Text("\nWaiting for changes ...", style="dim")


REFRESH_SECONDS = 0.25
"""Seconds between two drawings of the live view."""


class Taker(Protocol):
    """Receiver of steps."""

    def take(self, step: Step) -> int:
        """Give out what is in a step; it is out when this returns. How many rows that was."""

    def draw(self) -> None:
        """Draw what has changed, if it is time to."""


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
        from binlog_format.structured.view import LogsView

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
