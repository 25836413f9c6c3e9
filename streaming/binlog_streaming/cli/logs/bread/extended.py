"""Destinations of blocks for options that the library's reader lacks: `FilteredSink`, `ClockSink`, `JsonSink`.

They take what text alone does not need, and a start of `bread` would pay for: Arrow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_format.errors import CorruptError
from binlog_format.messages import odd_clock
from binlog_format.rows.json.json_rows import json_lines
from binlog_format.structured.event_log import event_times
from binlog_format.structured.layout import NS_PER_SECOND
from binlog_format.structured.view import LogsView, chosen
from binlog_streaming.cli.logs.bread.streams import BreadSink
from binlog_streaming.cli.output import write_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_format.structured.event_filter import EventFilter
    from binlog_format.structured.event_log import LogBlock
    from binlog_streaming.cli.logs.bread.streams import OnDamage


class PassingSink(BreadSink):
    """Hands on all that it is told."""

    def __init__(self, sink: BreadSink) -> None:
        self._sink = sink

    def take(self, block: LogBlock) -> None:
        """Hand on a block."""
        self._sink.take(block)

    def pause(self) -> float:
        """See `BreadSink`."""
        return self._sink.pause()

    def finish(self) -> None:
        """All blocks have been taken."""
        self._sink.finish()


class FilteredSink(PassingSink):
    """Hands on the events that are wanted; arguments of others are not looked at."""

    def __init__(self, sink: BreadSink, wanted: EventFilter) -> None:
        super().__init__(sink)
        self._wanted = wanted

    def take(self, block: LogBlock) -> None:
        """Hand on the events of a block that are wanted."""
        found = chosen(block, self._wanted)
        if len(found.events):
            super().take(found)


class ClockSink(PassingSink):
    """Hands on all events, and tells once of a time among them that cannot be."""

    def __init__(self, sink: BreadSink, complain: Callable[[str], None]) -> None:
        super().__init__(sink)
        self._complain: Callable[[str], None] | None = complain

    def take(self, block: LogBlock) -> None:
        """Hand on the events of a block."""
        super().take(block)
        ns, has_time = event_times(block)
        seconds = ns[has_time] // NS_PER_SECOND
        if self._complain is None or not len(seconds):
            return
        told = odd_clock([int(seconds.min()), int(seconds.max())])
        if told is not None:
            self._complain(f"[bread] Warning: {told}")
            self._complain = None


class JsonSink(BreadSink):
    """A JSON object a line on standard output.

    Args:
        on_damage: Called instead of raising an error for an event that cannot be written; the event is left out.
    """

    def __init__(self, on_damage: OnDamage | None) -> None:
        self._view = LogsView()
        self._on_damage = on_damage

    def take(self, block: LogBlock) -> None:
        """Write the events of a block.

        Raises:
            CorruptError: `BAD_ENTRY`: an argument cannot be read, and damage is not skipped. The events of the block
                before it have been written.
        """
        try:
            rows = self._view.batch(block)
        except CorruptError:
            self._take_one_by_one(block)
        else:
            write_json(json_lines(rows, self._view.json_styles()))

    def _take_one_by_one(self, block: LogBlock) -> None:
        # A block with damage is rare: which of its events are sound is tried out.
        for row in range(len(block.events)):
            try:
                rows = self._view.batch(replace(block, events=block.events[row : row + 1]))
            except CorruptError as error:
                if self._on_damage is None:
                    raise
                self._on_damage(error)
            else:
                write_json(json_lines(rows, self._view.json_styles()))
