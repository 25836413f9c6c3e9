"""`binlog-stream groups`: the event groups of a log, one after the other."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from binlog_format import open_log
from binlog_format.events.layout import EventType
from binlog_format.gtid_groups import gtid_of
from binlog_streaming.cli.output import Output, OutputOption, PathArgument, write_json_lines
from binlog_streaming.cli.ranges import EndOption, StartOption  # noqa: TC001 (typer looks at annotations)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import typer

    from binlog_format import Block, Log
    from binlog_format.views.read_range import ReadRange


_EVENT_NAMES = {int(event_type): event_type.name.lower() for event_type in EventType}


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("groups")(groups)


def groups(
    path: PathArgument, output: OutputOption = Output.TABLE, start: StartOption = None, end: EndOption = None
) -> None:
    """List the event groups of a log in commit order: where they are, what they hold, and a digest of their bytes."""
    from binlog_format.views.read_range import ReadRange  # compiled code takes a moment to load: not for --help

    with open_log(path) as log:
        found = read_groups(log, ReadRange.of(log, start, end))
        if output is Output.JSONL:
            write_json_lines(found)
        else:
            _print_table(found)


def read_groups(log: Log, part: ReadRange) -> Iterator[dict[str, object]]:
    """One dictionary for each group; a group that comes in pieces is put together."""
    from binlog_format.views.group_filter import GroupFilter

    wanted = GroupFilter(part.skip, part.until)
    collected: _Group | None = None
    for block in part.stored_blocks(log):
        keep = wanted.keep(block)
        for group in block.groups if keep is None else block.groups[keep]:
            if group["begins"] or collected is None:
                collected = _Group(group, block)
            collected.add(block, group)
            if group["ends"]:
                yield collected.row()
                collected = None


class _Group:
    """A group being put together; only the digest of its bytes is kept."""

    def __init__(self, group: np.void, block: Block) -> None:
        self._group = group
        self._gtid = gtid_of(group, block.gtid_sources)
        self._event_types: list[int] = []
        self._size = 0
        self._digest = hashlib.sha256()

    def add(self, block: Block, group: np.void) -> None:
        first = int(group["first_event"])
        events = block.events[first : first + int(group["event_count"])]
        self._event_types.extend(events["type"].tolist())
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

    def row(self) -> dict[str, object]:
        group = self._group
        return {
            "file_no": int(group["file_no"]),
            "page": int(group["page"]),
            "chunk": int(group["chunk"]),
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


def _print_table(found: Iterator[dict[str, object]]) -> None:
    table = Table(title="Event groups", title_justify="left")
    table.add_column("position", no_wrap=True)
    table.add_column("gtid", overflow="fold")
    for column in ("events", "bytes", "out-of-band"):
        table.add_column(column, justify="right")
    table.add_column("event types")
    for row in found:
        oob = f"{row['oob_records']} + {row['oob_records_second_set']}" if row["oob_records"] else "-"
        position = f"{row['file_no']}:{row['page']}:{row['chunk']}"
        types = row["event_types"]
        assert isinstance(types, list)
        table.add_row(
            position, str(row["gtid"] or "-"), f"{row['events']:,}", f"{row['bytes']:,}", oob, type_summary(types)
        )
    Console(emoji=False).print(table)


def type_summary(types: list[int]) -> str:
    """The event types in order of appearance, with how often each is there."""
    counts: dict[int, int] = {}
    for code in types:
        counts[code] = counts.get(code, 0) + 1
    names = (_EVENT_NAMES.get(code, f"type {code}") for code in counts)
    return ", ".join(
        name if count == 1 else f"{name} x{count}" for name, count in zip(names, counts.values(), strict=True)
    )
