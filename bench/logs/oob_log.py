"""Logs of large transactions, which go out of band: `oob_log(size)`; made once, and kept."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.logs.datasets import DATA, FIRST_SECOND, SBTEST, SERVER_ID
from binlog_format.gtids.gtid import Gtid
from binlog_lab.event_encoding.event_encoding import Origin, encode_gtid, encode_xid
from binlog_lab.event_encoding.table_encoding import TableEncoder
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter

if TYPE_CHECKING:
    from pathlib import Path

FILE_SIZE = 256 << 20
_ROWS = 4096
_VERSION = 1
"""Counts up when the data below changes."""


@dataclass(frozen=True, slots=True)
class OobLog:
    """A log and what is in it.

    Attributes:
        size: Bytes of the files up to the end of the log.
    """

    path: Path
    groups: int
    events: int
    size: int


def oob_log(group_size: int, total: int) -> OobLog:
    """A log with INSERTs of about *group_size* bytes in row events of 8 KiB, *total* bytes of them."""
    directory = DATA / f"oob-{_VERSION}-{group_size}-{total}"
    about = directory / "about.json"
    if not about.exists():
        partial = directory.with_name(f"{directory.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        made = _write(partial, group_size, total)
        (partial / "about.json").write_text(json.dumps(made))
        shutil.rmtree(directory, ignore_errors=True)
        partial.rename(directory)
    made = json.loads(about.read_text())
    return OobLog(directory, made["groups"], made["events"], made["size"])


def _write(directory: Path, group_size: int, total: int) -> dict[str, int]:
    options = WriterOptions(max_binlog_size=FILE_SIZE, sync=False, preallocate=False)
    origin = Origin(FIRST_SECOND, SERVER_ID)
    encoder = TableEncoder(SBTEST, 20)
    rows = [(row, 7 * row, f"{row:0119d}", f"{row:059d}") for row in range(_ROWS)]
    statement = [encoder.table_map(origin), *encoder.insert(rows, origin)]
    groups = events = 0
    with BinlogWriter(directory, options) as writer:
        for seqno in range(1, max(total // group_size, 1) + 1):
            gtid = Gtid(0, SERVER_ID, seqno)
            writer.begin(1)
            size = place = 0
            while size < group_size:
                event = statement[place % len(statement)]
                writer.event(1, event)
                size += len(event)
                place += 1
            writer.event(1, encode_xid(seqno, origin))
            writer.commit(1, gtid, encode_gtid(gtid, FIRST_SECOND))
            groups += 1
            events += place + 2
        writer.checkpoint()
        end = writer.position
        size = end.file_no * options.page_count * options.page_size + end.file_offset
    return {"groups": groups, "events": events, "size": size}
