"""Logs of other rows than sysbench's: `wide_log()`, `blob_log()`, `transaction_log(size)`.

A few thousand rows are encoded and then used again and again: decoding sees each time anew where their values lie.
"""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from functools import partial
from itertools import cycle, islice
from typing import TYPE_CHECKING

from bench.logs.datasets import FIRST_SECOND, SBTEST, SERVER_ID, Form, kept_log
from binlog_format.gtids.gtid import Gtid
from binlog_lab.event_encoding.event_encoding import Origin, encode_gtid, encode_xid
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableEncoder, TableSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.logs.datasets import GroupWriter, KeptLog
    from binlog_lab.event_encoding.value_encoding import Value

    Make = Callable[[random.Random], Value]
    Row = tuple[Value, ...]

SIZE = 250_000_000
WIDE_COLUMNS = 40
_VERSION = 1
"""Counts up when the data below changes."""
_ORIGIN = Origin(FIRST_SECOND, SERVER_ID)
_ROWS = 4096
_NULL_SHARE = 0.2
_LARGE_ROWS = 512
_FOREIGN = ("über", "Straße", "naïve", "garçon", "señor", "żółć", "данные", "数据")
_ASCII = ("order", "item", "price", "note", "the", "of", "and", "to", "in", "a", "is", "that", "for")


def wide_log() -> KeptLog:
    """Statements of one to twenty rows of 40 columns of all kinds of types, a fifth of the values NULL."""
    return kept_log(f"wide-{_VERSION}-{SIZE}", Form.INNODB, _write_wide)


def blob_log() -> KeptLog:
    """Rows with a long text and a blob, 1 to 100 KB each, mostly short; one in seventeen words is not ASCII."""
    return kept_log(f"blobs-{_VERSION}-{SIZE}", Form.INNODB, _write_blobs)


def transaction_log(size: int, form: Form = Form.INNODB) -> KeptLog:
    """One transaction of *size* bytes: an INSERT of rows as sysbench has them, in row events of 8 KiB."""
    return kept_log(f"transaction-{_VERSION}-{size}", form, partial(_write_transaction, size=size))


def _write_wide(writer: GroupWriter) -> int:
    numbers = random.Random(1)
    columns = _wide_columns()
    table = TableSpec("shop", "orders", tuple(column for column, _ in columns), ("c1",))
    encoder = TableEncoder(table, 20)
    rows = [_wide_row(number, columns, numbers) for number in range(_ROWS)]
    statements = list(_statements(encoder, rows, numbers, rows_max=20))
    return _repeat(writer, statements)


def _write_blobs(writer: GroupWriter) -> int:
    numbers = random.Random(2)
    columns = (
        ColumnSpec("id", "bigint"),
        ColumnSpec("title", "varchar(200)"),
        ColumnSpec("body", "mediumtext", nullable=True),
        ColumnSpec("content", "longblob", nullable=True),
    )
    encoder = TableEncoder(TableSpec("shop", "documents", columns, ("id",)), 21)
    rows: list[Row] = [
        (number, _text(numbers, 60), _text(numbers, _long(numbers)), numbers.randbytes(_long(numbers)))
        for number in range(_LARGE_ROWS)
    ]
    return _repeat(writer, list(_statements(encoder, rows, numbers, rows_max=1)))


def _write_transaction(writer: GroupWriter, size: int) -> int:
    encoder = TableEncoder(SBTEST, 20)
    rows = [(row, 7 * row, f"{row:0119d}", f"{row:059d}") for row in range(_ROWS)]
    statement = list(encoder.insert(rows, _ORIGIN))
    times = -(-size // sum(map(len, statement)))
    gtid = Gtid(0, SERVER_ID, 1)
    events = [encoder.table_map(_ORIGIN), *(times * statement), encode_xid(1, _ORIGIN)]
    writer.write_group(gtid, encode_gtid(gtid, FIRST_SECOND), events)
    return times * _ROWS


def _repeat(writer: GroupWriter, statements: list[tuple[list[bytes], int]]) -> int:
    """Write transactions of four of the statements each until there is enough; how many rows they change."""
    written = changes = seqno = 0
    endless = cycle(statements)
    while written < SIZE:
        seqno += 1
        gtid = Gtid(0, SERVER_ID, seqno)
        chosen = list(islice(endless, 4))
        events = [event for statement, _ in chosen for event in statement]
        writer.write_group(gtid, encode_gtid(gtid, FIRST_SECOND), [*events, encode_xid(seqno, _ORIGIN)])
        written += sum(map(len, events))
        changes += sum(count for _, count in chosen)
    return changes


def _statements(
    encoder: TableEncoder, rows: Sequence[Row], numbers: random.Random, *, rows_max: int
) -> list[tuple[list[bytes], int]]:
    """Inserts, updates and deletes of the rows: the events of each, and how many rows it changes."""
    made: list[tuple[list[bytes], int]] = []
    first = 0
    while first < len(rows):
        count = min(numbers.randint(1, rows_max), len(rows) - first)
        part = rows[first : first + count]
        changed = [rows[numbers.randrange(len(rows))] for _ in part]
        ways = (
            encoder.insert(part, _ORIGIN),
            encoder.update(zip(part, changed, strict=True), _ORIGIN),
            encoder.delete(part, _ORIGIN),
        )
        made += [([encoder.table_map(_ORIGIN), *way], count) for way in ways]
        first += count
    return made


def _wide_row(number: int, columns: list[tuple[ColumnSpec, Make]], numbers: random.Random) -> Row:
    values = [None if numbers.random() < _NULL_SHARE else make(numbers) for _, make in columns[1:]]
    return (number, *values)


def _wide_columns() -> list[tuple[ColumnSpec, Make]]:
    start = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)

    def moment(numbers: random.Random) -> datetime.datetime:
        return start + datetime.timedelta(microseconds=numbers.randrange(10**14))

    def span(numbers: random.Random) -> datetime.timedelta:
        return datetime.timedelta(microseconds=numbers.randint(-(10**12), 10**12))

    kinds: list[tuple[str, Make]] = [
        ("bigint", lambda numbers: numbers.getrandbits(40)),
        ("tinyint", lambda numbers: numbers.randint(-128, 127)),
        ("smallint unsigned", lambda numbers: numbers.getrandbits(16)),
        ("mediumint", lambda numbers: numbers.randint(-(1 << 23), (1 << 23) - 1)),
        ("int", lambda numbers: numbers.randint(-(1 << 31), (1 << 31) - 1)),
        ("bigint unsigned", lambda numbers: numbers.getrandbits(64)),
        ("decimal(10,2)", lambda numbers: Decimal(numbers.randint(-(10**9), 10**9)).scaleb(-2)),
        ("decimal(30,10)", lambda numbers: Decimal(numbers.getrandbits(90)).scaleb(-10)),
        ("float", lambda numbers: numbers.uniform(-1000, 1000)),
        ("double", lambda numbers: numbers.gauss(0, 1e6)),
        ("date", lambda numbers: moment(numbers).date()),
        ("datetime", moment),
        ("datetime(6)", moment),
        ("timestamp", moment),
        ("timestamp(3)", moment),
        ("time(6)", span),
        ("enum('new','paid','sent','returned')", lambda numbers: numbers.choice(("new", "paid", "sent", "returned"))),
        ("char(12)", lambda numbers: f"{numbers.getrandbits(40):x}"),
        ("varchar(60)", lambda numbers: _text(numbers, numbers.randrange(60))),
        ("varbinary(16)", lambda numbers: numbers.randbytes(16)),
    ]
    doubled = kinds + kinds[1:] + [("text", lambda numbers: _text(numbers, numbers.randrange(200)))]
    assert len(doubled) == WIDE_COLUMNS
    return [
        (ColumnSpec(f"c{number}", kind, nullable=number > 1), make) for number, (kind, make) in enumerate(doubled, 1)
    ]


def _long(numbers: random.Random) -> int:
    return min(int(numbers.lognormvariate(9, 1)) + 1000, 100_000)


def _text(numbers: random.Random, size: int) -> str:
    """Words of *size* characters in all."""
    words = numbers.choices(_FOREIGN + _ASCII, [1] * len(_FOREIGN) + [10] * len(_ASCII), k=size // 3 + 1)
    return " ".join(words)[:size]
