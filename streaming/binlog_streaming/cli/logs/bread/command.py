"""`binlog-stream bread`: `register`, `run`."""

from __future__ import annotations

import select
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from binlog_format.errors import CorruptError, OptionError
from binlog_streaming.cli.logs.bread.arguments import HELP, UsageError, parse_arguments
from binlog_streaming.cli.output import write_output

if TYPE_CHECKING:
    from binlog_format.structured.event_filter import EventFilter
    from binlog_format.structured.text.lines import LineWriter
    from binlog_streaming.cli.logs.bread.arguments import BreadArguments
    from binlog_streaming.cli.logs.bread.streams import BreadSink, OnDamage

WRONG_USE = 1
CANNOT_OPEN = 2
DAMAGED = 3


def bread() -> None:
    """Print structured logs (C++ Binlog) as text, as the library's bread does."""


def run(words: list[str]) -> int:
    """Print what *words* ask for; the exit status."""
    try:
        arguments = parse_arguments(words)
    except UsageError as error:
        _complain(f"bread: {error}")
        write_output(HELP.encode())
        return WRONG_USE
    if arguments.help:
        write_output(HELP.encode())
        return 0
    return _print(arguments)


def _print(arguments: BreadArguments) -> int:
    # Here and below: a start pays for what it needs alone.
    from binlog_streaming.cli.logs.bread.streams import LogDamage, OpenFailure

    skipped: list[str] = []

    def on_damage(error: CorruptError) -> None:
        skipped.append(error.condition)
        _complain(f"[bread] Skipped: {error}")

    try:
        sink = _sink(arguments, on_damage if arguments.skip_damaged else None)
    except (OptionError, ValueError) as error:
        _complain(f"bread: {error.reason if isinstance(error, OptionError) else error}")
        return WRONG_USE
    try:
        _read_all(arguments, sink, on_damage if arguments.skip_damaged else None)
    except OpenFailure as error:
        _complain(f"[bread] {error}")
        return CANNOT_OPEN
    except (LogDamage, CorruptError) as error:
        _complain(f"[bread] Exception: {error}")
        return DAMAGED
    return DAMAGED if skipped else 0


def _wanted(arguments: BreadArguments) -> EventFilter | None:
    """Filter of the events that are printed; None: all are."""
    if not arguments.wanted:
        return None
    from binlog_format.structured.event_filter import EventFilter, SourceRules

    names = {"min_severity": "--severity", "categories": "--category", "source_files": "--file"}
    rules = SourceRules(*(arguments.wanted.get(option) for option in names.values()))
    rules.check(lambda name: names[name])
    since = arguments.wanted.get("--since")
    try:
        moment = None if since is None else datetime.fromisoformat(since)
    except ValueError as error:
        raise ValueError(f"option '--since': expected a time such as 2026-01-31T12:00:00Z, got '{since}'") from error
    if moment is None:
        return EventFilter(rules=rules)
    passed = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return EventFilter(rules=rules, first_ns=passed // timedelta(microseconds=1) * 1_000)


def _sink(arguments: BreadArguments, on_damage: OnDamage | None) -> BreadSink:
    if not arguments.is_extended:
        return _text_sink(arguments, on_damage)
    from binlog_streaming.cli.logs.bread.extended import ClockSink, FilteredSink, JsonSink

    wanted = _wanted(arguments)
    sink: BreadSink
    if arguments.jsonl:
        sink = JsonSink(on_damage)
    elif arguments.sort_window is not None:
        from binlog_connector.options.view_options import duration_ns
        from binlog_format.structured.event_filter import ALL_EVENTS
        from binlog_streaming.cli.logs.bread.sorting import WindowSink

        window_ns = duration_ns("--sort-window", arguments.sort_window)
        sink = WindowSink(_writer(arguments), window_ns, wanted or ALL_EVENTS, _complain, on_damage)
        wanted = None
    else:
        sink = _text_sink(arguments, on_damage)
    sink = ClockSink(sink, _complain)
    return sink if wanted is None else FilteredSink(sink, wanted)


def _text_sink(arguments: BreadArguments, on_damage: OnDamage | None) -> BreadSink:
    if arguments.sort:
        from binlog_streaming.cli.logs.bread.sorting import SortedSink

        return SortedSink(_writer(arguments), on_damage)
    from binlog_streaming.cli.logs.bread.streams import TextSink

    return TextSink(_writer(arguments), on_damage)


def _writer(arguments: BreadArguments) -> LineWriter:
    from binlog_format.structured.text.event_format import EventFormat
    from binlog_format.structured.text.lines import LineWriter
    from binlog_streaming.cli.logs.bread.streams import severity_colors

    return LineWriter(EventFormat(arguments.event_format, severity_colors()), arguments.date_format)


def _read_all(arguments: BreadArguments, sink: BreadSink, on_damage: OnDamage | None) -> None:
    is_whole = False
    try:
        _read(arguments, sink, on_damage)
        is_whole = True
    finally:
        # What was read is written, whatever ends it; but what is sorted as a whole is not in parts.
        if is_whole or not arguments.sort:
            sink.finish()


def _read(arguments: BreadArguments, sink: BreadSink, on_damage: OnDamage | None) -> None:
    from binlog_format.structured.scan import EntryScanner
    from binlog_streaming.cli.logs.bread.streams import opened, stream_blocks

    scanner = EntryScanner()
    *files, last = arguments.wanted_files
    if not arguments.follow:
        files.append(last)
    for path in files:
        if on_damage is not None:
            from binlog_streaming.cli.logs.bread.following import read_file

            read_file(path, scanner, sink, on_damage)
            continue
        with opened(path) as descriptor:
            for block in stream_blocks(descriptor, path, scanner, partial(_wait, sink)):
                sink.take(block)
    if arguments.follow:
        from binlog_streaming.cli.logs.bread.following import follow

        follow(last, scanner, sink, on_damage)


def _wait(sink: BreadSink, descriptor: int) -> None:
    """Wait until there is something to read, or the end of it."""
    sys.stdout.buffer.flush()
    seconds = 0.0
    while not select.select([descriptor], [], [], seconds)[0]:
        seconds = sink.pause()
        sys.stdout.buffer.flush()


def _complain(text: str) -> None:
    # What has been printed comes first, also where both go to one place.
    sys.stdout.flush()
    sys.stderr.flush()
    sys.stderr.buffer.write(text.encode("utf-8", "surrogateescape") + b"\n")
    sys.stderr.buffer.flush()
