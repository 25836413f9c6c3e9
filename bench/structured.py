"""From the bytes of a structured log to event tables, typed arguments and text: `structured.*`."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import numpy as np

from bench.logs.structured_log import EVENTS, structured_log
from bench.registry import benchmark
from binlog_format import open_log
from binlog_format.source_file import LocalFile
from binlog_format.structured.arguments.source_decoder import SourceDecoder
from binlog_format.structured.event_filter import EventFilter, SourceRules
from binlog_format.structured.file_scan import StructuredFileScan
from binlog_format.structured.reader import StructuredLog
from binlog_format.structured.scan import EntryScanner
from binlog_format.structured.text.event_format import DEFAULT_EVENT_FORMAT, EventFormat
from binlog_format.structured.text.lines import LineWriter
from binlog_format.structured.view import LogsView

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from binlog_format.structured.event_log import LogBlock

RUNS = 9
"""After a first one that loads the kernels and the page cache; the median counts, in processor time of one core."""


@benchmark("structured.events_per_s", unit="events/s")
def events() -> float:
    """From a file of events of 62 bytes to event tables, one core, page cache warm."""
    return _per_second(lambda block: len(block.events))


@benchmark("structured.text.events_per_s", unit="events/s")
def text() -> float:
    """The same to the lines that `bread` prints by default."""
    writer = LineWriter(EventFormat(DEFAULT_EVENT_FORMAT))
    return _per_second(lambda block: sum(len(lines.ends) for lines in writer.lines(block)))


@benchmark("structured.text.cold_s", unit="s")
def cold_text() -> float:
    """Processor time of `bread` for the file as text, with the start of the program: the least of some runs."""
    command = [sys.executable, "-c", "from binlog_streaming.cli import main; main()", "bread", str(structured_log())]
    times = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(times)


@benchmark("structured.arrow.events_per_s", unit="events/s")
def arrow() -> float:
    """From event tables to typed arguments: each source by itself, out of blocks in which all are mixed."""
    with open_log(str(structured_log())) as log:
        assert isinstance(log, StructuredLog)
        blocks = list(log.entries())
    wanted = [
        (SourceDecoder(source), block, np.flatnonzero(block.events["source"] == number))
        for block in blocks
        for number, source in enumerate(block.sources)
    ]
    assert sum(len(rows) for _, _, rows in wanted) == EVENTS
    times = []
    for _ in range(RUNS + 1):
        start = time.process_time()
        for decoder, block, rows in wanted:
            decoder.decode(block, rows)
        times.append(time.process_time() - start)
    return EVENTS / statistics.median(times[1:])


@benchmark("structured.filter.events_per_s", unit="events/s")
def filtered() -> float:
    """The same to rows of view `logs`, of which a filter on severity keeps 1 %; all events that are read count."""
    view = LogsView(EventFilter(rules=SourceRules(min_severity="critical")))

    def take(block: LogBlock) -> int:
        for _ in view.batches([block]):
            continue
        return len(block.events)

    return _per_second(take)


def _per_second(take: Callable[[LogBlock], int]) -> float:
    path = structured_log()
    assert _read(path, take) == EVENTS
    times = []
    for _ in range(RUNS):
        start = time.process_time()
        _read(path, take)
        times.append(time.process_time() - start)
    return EVENTS / statistics.median(times)


def _read(path: Path, take: Callable[[LogBlock], int]) -> int:
    file = LocalFile(path)
    try:
        return sum(take(block) for block in StructuredFileScan(file, 0, EntryScanner()).blocks())
    finally:
        file.close()
