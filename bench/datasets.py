"""What is measured on: `sysbench_log()`, a large `.ibb` log of sysbench-shaped transactions, written once and kept."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_format.events.encoding import (
    Origin,
    encode_annotate_rows,
    encode_format_description,
    encode_gtid,
    encode_xid,
)
from binlog_format.events.table_encoding import ColumnSpec, TableEncoder, TableSpec
from binlog_format.gtid import Gtid
from binlog_format.innodb.writer.options import WriterOptions
from binlog_format.innodb.writer.server import BinlogWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = Path(__file__).parent / "data"
"""Not in the repository; delete it to have everything made anew."""

SBTEST = TableSpec(
    "sbtest",
    "sbtest1",
    (
        ColumnSpec("id", "int"),
        ColumnSpec("k", "int"),
        ColumnSpec("c", "char(120)"),
        ColumnSpec("pad", "char(60)"),
    ),
    ("id",),
)
TRANSACTIONS = 125_000
CHANGES_PER_TRANSACTION = 4
"""Two updates, a delete and an insert of the same row, each its own statement: sysbench oltp_read_write's writes."""
ROW_IDS = 100_000
SERVER_ID = 1
FIRST_SECOND = 1_767_225_600
_VERSION = 1
"""Counts up when the data below changes."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """A log and what is in it.

    Attributes:
        path: Directory of the files.
        table: Its one table.
        changes: Row changes.
        size: Bytes of the files up to the end of data.
    """

    path: Path
    table: str
    changes: int
    size: int


def sysbench_log(transactions: int = TRANSACTIONS) -> DataSet:
    """The log; written if it is not there, which takes some seconds."""
    directory = DATA / f"sysbench-{_VERSION}-{transactions}"
    about = directory / "about.json"
    if not about.exists():
        partial = directory.with_name(f"{directory.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        size = _write(partial, transactions)
        (partial / "about.json").write_text(json.dumps({"size": size}))
        shutil.rmtree(directory, ignore_errors=True)
        partial.rename(directory)
    size = json.loads(about.read_text())["size"]
    return DataSet(directory, SBTEST.full_name, transactions * CHANGES_PER_TRANSACTION, size)


def _write(directory: Path, transactions: int) -> int:
    start = encode_format_description("12.3.1-MariaDB-log", FIRST_SECOND, Origin(FIRST_SECOND, SERVER_ID))
    options = WriterOptions(max_binlog_size=128 << 20, sync=False)
    with BinlogWriter(directory, options, format_description=start) as writer:
        for number, events in enumerate(_transactions(transactions), start=1):
            gtid = Gtid(0, SERVER_ID, number)
            writer.write_group(gtid, encode_gtid(gtid, FIRST_SECOND + number // 1000), events)
        writer.checkpoint()
        end = writer.position
        return end.file_no * options.max_binlog_size + end.file_offset


def _transactions(count: int) -> Iterator[list[bytes]]:
    numbers = random.Random(1)
    encoder = TableEncoder(SBTEST, 20)
    # A few thousand texts are enough: nothing here compresses or compares them.
    texts = [_digits(numbers, 11, 10) for _ in range(4096)]
    pads = [_digits(numbers, 11, 5) for _ in range(4096)]
    for number in range(1, count + 1):
        origin = Origin(FIRST_SECOND + number // 1000, SERVER_ID)
        row_id, k = numbers.randrange(1, ROW_IDS), numbers.randrange(1, ROW_IDS)
        text, pad = texts[k % 4096], pads[row_id % 4096]
        before = (row_id, k, text, pad)
        index_updated = (row_id, k + 1, text, pad)
        text_updated = (row_id, k + 1, texts[number % 4096], pad)
        again = (row_id, numbers.randrange(1, ROW_IDS), texts[(number + 7) % 4096], pad)
        yield [
            encode_annotate_rows(f"UPDATE sbtest1 SET k=k+1 WHERE id={row_id}", origin),
            encoder.table_map(origin),
            *encoder.update([(before, index_updated)], origin),
            encode_annotate_rows(f"UPDATE sbtest1 SET c='{text_updated[2]}' WHERE id={row_id}", origin),
            encoder.table_map(origin),
            *encoder.update([(index_updated, text_updated)], origin),
            encode_annotate_rows(f"DELETE FROM sbtest1 WHERE id={row_id}", origin),
            encoder.table_map(origin),
            *encoder.delete([text_updated], origin),
            encode_annotate_rows(
                f"INSERT INTO sbtest1 (id, k, c, pad) VALUES ({row_id}, {again[1]}, '{again[2]}', '{pad}')", origin
            ),
            encoder.table_map(origin),
            *encoder.insert([again], origin),
            encode_xid(number, origin),
        ]


def _digits(numbers: random.Random, width: int, count: int) -> str:
    """`sysbench`'s texts: groups of digits, joined by dashes."""
    return "-".join("".join(numbers.choices("0123456789", k=width)) for _ in range(count))
