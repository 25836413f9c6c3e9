"""What the source costs on the driver when nothing is new: `spark.idle.latest_offset_ms`, `spark.trigger_ms`.

In processor time, as it does not wait for anything.
"""

from __future__ import annotations

import statistics
import time
from functools import partial
from typing import TYPE_CHECKING

from bench.logs.datasets import DATA, FIRST_SECOND, SBTEST, SERVER_ID
from bench.registry import benchmark
from binlog_format.gtids.gtid import Gtid
from binlog_lab.event_encoding.event_encoding import Origin, encode_format_description, encode_gtid, encode_xid
from binlog_lab.event_encoding.table_encoding import TableEncoder
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from binlog_connector.spark.stream_reader import BinlogStreamReader

FILES = 1000
FILE_SIZE = 4 * 16384
CALLS = 200
_ROW = (1, 2, "c" * 119, "d" * 59)


@benchmark("spark.idle.latest_offset_ms", unit="ms")
def idle_latest_offset() -> float:
    """`latestOffset` of a log of 1,000 files to which nothing has been added; median of 200 calls."""
    reader, end = _caught_up()
    return _median_ms(partial(reader.latestOffset, end, reader.getDefaultReadLimit()))


@benchmark("spark.trigger_ms", unit="ms")
def idle_trigger() -> float:
    """All that Spark asks of the source in a trigger that finds nothing, on the same log; median of 200."""
    reader, end = _caught_up()

    def trigger() -> None:
        reader.latestOffset(end, reader.getDefaultReadLimit())
        reader.reportLatestOffset()

    return _median_ms(trigger)


def _median_ms(action: Callable[[], object]) -> float:
    taken = []
    for _ in range(CALLS):
        started = time.process_time()
        action()
        taken.append(time.process_time() - started)
    return 1000 * statistics.median(taken)


def _caught_up() -> tuple[BinlogStreamReader, Mapping[str, object]]:
    from binlog_connector.spark.source import BinlogDataSource

    options = {"path": str(_many_files()), "startingOffsets": "latest"}
    source = BinlogDataSource(options)
    reader = source.streamReader(source.schema())
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    return reader, end


def _many_files() -> Path:
    directory = DATA / f"files-1-{FILES}"
    done = directory / "done"
    if not done.exists():
        origin = Origin(FIRST_SECOND, SERVER_ID)
        encoder = TableEncoder(SBTEST, 20)
        start = encode_format_description("12.3.1-MariaDB-log", FIRST_SECOND, origin)
        options = WriterOptions(max_binlog_size=FILE_SIZE, sync=False)
        seqno = 0
        with BinlogWriter(directory, options, format_description=start) as writer:
            while writer.position.file_no < FILES - 1:
                seqno += 1
                gtid = Gtid(0, SERVER_ID, seqno)
                events = [encoder.table_map(origin), *encoder.insert([_ROW] * 20, origin), encode_xid(seqno, origin)]
                writer.write_group(gtid, encode_gtid(gtid, FIRST_SECOND), events)
            writer.checkpoint()
        done.write_text("")
    return directory
