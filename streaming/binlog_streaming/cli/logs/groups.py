"""`binlog-stream groups`: the event groups of a log, one after the other."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from binlog_format.events.layout import EventType
from binlog_format.gtids.gtid_history import gtid_of
from binlog_format.position import Position
from binlog_streaming.cli.logs.ranges import EndOption, StartOption, opened_log
from binlog_streaming.cli.output import Output, OutputOption, PathArgument, output_console, write_json_lines
from binlog_streaming.cli.tabular import position_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from binlog_format import Block, Log
    from binlog_format.log.log import ReadRange


TABLE_ROWS = 200
"""Rows printed for people when no limit is given."""

_EVENT_NAMES = {int(event_type): event_type.name.lower() for event_type in EventType}


def groups(
    path: PathArgument,
    output: OutputOption = Output.TABLE,
    start: StartOption = None,
    end: EndOption = None,
    limit: Annotated[
        int | None, typer.Option(min=0, help=f"Groups to print; default: all as jsonl, {TABLE_ROWS} as table.")
    ] = None,
) -> None:
    """List the event groups of a log in commit order: their places, their events, and a digest of their bytes.

    For example:

        binlog-stream groups /var/lib/mysql
        binlog-stream groups /var/lib/mysql --start 0-1-575 --limit 10

    docs/reading.md explains what it prints.
    """
    from binlog_format.log.log import ReadRange  # compiled code takes a moment to load: not for --help

    with opened_log(path) as log:
        found = read_groups(log, ReadRange.of(log, start, end))
        if output is Output.JSONL:
            write_json_lines(itertools.islice(found, limit))
        else:
            _print_table(found, TABLE_ROWS if limit is None else limit)


def read_groups(log: Log, part: ReadRange) -> Iterator[dict[str, object]]:
    """One dictionary for each group; a group that comes in pieces is put together."""
    from binlog_format.views.filters import GroupFilter

    wanted = GroupFilter(part.skip, part.until)
    collected: _Group | None = None
    for block in part.stored_blocks(log):
        keep = wanted.keep(block)
        for group in block.groups if keep is None else block.groups[keep]:
            if group["begins"] or collected is None:
                collected = _Group(group, block)
            collected.add(block, group)
            if group["ends"]:
                yield collected.row(log)
                collected = None


class _Group:
    """A group being put together; only the digest of its bytes is kept."""

    def __init__(self, group: np.void, block: Block) -> None:
        self._group = group
        self._gtid = gtid_of(group, block.gtid_sources)
        self._event_types: list[str] = []
        self._size = 0
        self._digest = hashlib.sha256()

    def add(self, block: Block, group: np.void) -> None:
        first = int(group["first_event"])
        events = block.events[first : first + int(group["event_count"])]
        self._event_types.extend(_EVENT_NAMES.get(code, f"type {code}") for code in events["type"].tolist())
        self._size += int(group["size"])
        if len(events) == 0:
            return
        start, last = int(events["start"][0]), events[-1]
        if int(last["start"] + last["size"]) - start == int(group["size"]):
            self._digest.update(block.data[start : start + int(group["size"])].data)
            return
        # Where files carry checksums, these lie between the events.
        for event_start, event_size in zip(events["start"].tolist(), events["size"].tolist(), strict=True):
            self._digest.update(block.data[event_start : event_start + event_size].data)

    def row(self, log: Log) -> dict[str, object]:
        group = self._group
        position = Position.of(group)
        of_server = log.server_position(position)
        return {
            "position": position.to_json(),
            **({} if of_server is None else {"server_position": of_server}),
            "file_offset": int(group["file_offset"]),
            "gtid": None if self._gtid is None else str(self._gtid),
            "commit_time": datetime.fromtimestamp(int(group["timestamp"]), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "events": len(self._event_types),
            "event_types": self._event_types,
            "bytes": self._size,
            "oob_records": int(group["oob_records"]),
            "oob_records_second_set": int(group["oob_records_second_set"]),
            "sha256": self._digest.hexdigest(),
        }


def _print_table(found: Iterator[dict[str, object]], limit: int) -> None:
    # One row more than is shown tells whether there are more.
    rows = list(itertools.islice(found, limit + 1))
    has_server_positions = any("server_position" in row for row in rows)
    table = Table(title="Event groups", title_justify="left")
    table.add_column("position", no_wrap=True)
    if has_server_positions:
        table.add_column("server's position", no_wrap=True)
    table.add_column("gtid", overflow="fold")
    for column in ("events", "bytes", "out-of-band"):
        table.add_column(column, justify="right")
    table.add_column("event types")
    for row in rows[:limit]:
        oob = f"{row['oob_records']} + {row['oob_records_second_set']}" if row["oob_records"] else "-"
        types = row["event_types"]
        assert isinstance(types, list)
        table.add_row(
            position_text(row["position"]),
            *([str(row["server_position"])] if has_server_positions else []),
            str(row["gtid"] or "-"),
            f"{row['events']:,}",
            f"{row['bytes']:,}",
            oob,
            type_summary(types),
        )
    console = output_console()
    console.print(table)
    if len(rows) > limit:
        console.print(f"The first {limit} groups; --limit shows more, --output jsonl all.", style="dim")


def type_summary(types: list[str]) -> str:
    """The event types in order of appearance, with how often each is there."""
    return ", ".join(name if count == 1 else f"{name} x{count}" for name, count in Counter(types).items())
