"""A large log in sysbench's shape on one table or several: `sysbench_log()`; made once by NumPy templates, and kept.

A transaction has four statements on one table, as `oltp_write_only` has: an update of the indexed column, an update of
the text, a delete and an insert. Rows that change are those that are there: played through, the log gives a table.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bench.logs.datasets import FIRST_SECOND, SERVER_ID, SYSBENCH_COLUMNS, Form, kept_log
from bench.logs.templates import Template, decimal_digits, digit_groups
from binlog_format.gtids.gtid import Gtid
from binlog_lab.event_encoding.event_encoding import Origin, encode_annotate_rows, encode_gtid, encode_xid
from binlog_lab.event_encoding.table_encoding import TableEncoder, TableSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.logs.datasets import GroupWriter, KeptLog

TRANSACTIONS = 60_000
GIGABYTE_TRANSACTIONS = 455_000
"""As many as make an `.ibb` log of 1 GB."""
TABLES = 4
ROWS_PER_TABLE = 10_000
LOAD_ROWS = 500
"""Rows of one INSERT that fills the tables."""
TEXTS = 4096
BATCH = 4096
"""Transactions made at once."""
_VERSION = 2
"""Counts up when the data below changes."""

# Marks in the template that are looked for and replaced; no other bytes of a transaction look like them.
_ID, _ID_TEXT = 1_111_111_111, "7777777777"
_K = (1_222_222_201, 1_222_222_202, 1_222_222_203)  # before, updated, inserted
_C = ("a" * 119, "b" * 119, "d" * 119)  # before, updated, inserted
_PAD = ("e" * 59, "f" * 59)  # before, inserted
_SEQNO = 0x1122_3344_5566_7788
_XID = 0x1234_5678_1234_5678
_SECOND = 0x6A6B_6C6D


def sysbench_log(form: Form = Form.INNODB, *, transactions: int = TRANSACTIONS, tables: int = TABLES) -> KeptLog:
    """The log; written if it is not there, which takes some seconds. In both formats it has the same content."""
    name = f"sysbench-{_VERSION}-{transactions}-{tables}-{ROWS_PER_TABLE}"
    write = partial(write_groups, transactions=transactions, tables=tables, rows_per_table=ROWS_PER_TABLE)
    return kept_log(name, form, write)


def write_groups(writer: GroupWriter, *, transactions: int, tables: int, rows_per_table: int) -> int:
    """Write the groups; how many rows they change."""
    shop = _Tables(tables, rows_per_table, np.random.default_rng(1))
    seqno = 0
    for events in shop.load():
        seqno += 1
        gtid = Gtid(0, SERVER_ID, seqno)
        writer.write_group(gtid, encode_gtid(gtid, FIRST_SECOND), [*events, encode_xid(seqno, shop.origin)])
    for first in range(0, transactions, BATCH):
        for gtid_event, rest in shop.transactions(seqno + 1, min(BATCH, transactions - first)):
            seqno += 1
            writer.write_group(Gtid(0, SERVER_ID, seqno), gtid_event, [rest])
    return 4 * transactions + tables * rows_per_table


class _Tables:
    # The tables while the log is made: of each row its k, and which texts it has.
    def __init__(self, tables: int, rows: int, numbers: np.random.Generator) -> None:
        self.origin = Origin(FIRST_SECOND, SERVER_ID)
        self._numbers = numbers
        self._rows = rows
        self._specs = [_spec(number) for number in range(1, tables + 1)]
        self._encoders = [TableEncoder(spec, 20 + i) for i, spec in enumerate(self._specs)]
        self._templates = [_Template(encoder) for encoder in self._encoders]
        self._c_texts, self._pad_texts = (digit_groups(numbers, size, count=TEXTS) for size in (10, 5))
        shape = (tables, rows)
        self._k = numbers.integers(1, rows, shape, dtype=np.int32)
        self._c = numbers.integers(0, TEXTS, shape, dtype=np.int32)
        self._pad = numbers.integers(0, TEXTS, shape, dtype=np.int32)

    def load(self) -> Iterator[list[bytes]]:
        for table, encoder in enumerate(self._encoders):
            for first in range(0, self._rows, LOAD_ROWS):
                rows = [
                    (
                        row + 1,
                        int(self._k[table, row]),
                        self._c_texts[self._c[table, row]].tobytes(),
                        self._pad_texts[self._pad[table, row]].tobytes(),
                    )
                    for row in range(first, min(first + LOAD_ROWS, self._rows))
                ]
                yield [encoder.table_map(self.origin), *encoder.insert(rows, self.origin)]

    def transactions(self, first_seqno: int, count: int) -> Iterator[tuple[bytes, bytes]]:
        draw = self._numbers.integers
        tables, rows = draw(0, len(self._specs), count), draw(0, self._rows, count)
        new_k = draw(1, self._rows, count, dtype=np.int32)
        updated_c, new_c, new_pad = (draw(0, TEXTS, count, dtype=np.int32) for _ in range(3))
        before = np.empty((3, count), np.int32)
        # The same row may come twice: what it is before is what the transaction before made of it.
        for i, (table, row) in enumerate(zip(tables.tolist(), rows.tolist(), strict=True)):
            before[:, i] = self._k[table, row], self._c[table, row], self._pad[table, row]
            self._k[table, row], self._c[table, row], self._pad[table, row] = new_k[i], new_c[i], new_pad[i]
        seqnos = np.arange(first_seqno, first_seqno + count, dtype=np.uint64)
        made: list[tuple[bytes, bytes]] = [(b"", b"")] * count
        for table, template in enumerate(self._templates):
            chosen = np.flatnonzero(tables == table)
            events = template.copies(len(chosen))
            template.fill(events, _SEQNO, seqnos[chosen], np.uint64)
            template.fill(events, _XID, seqnos[chosen], np.uint64)
            template.fill(events, _SECOND, FIRST_SECOND + seqnos[chosen] // 1000, np.uint32)
            template.fill(events, _ID, rows[chosen] + 1, np.int32)
            template.fill_text(events, _ID_TEXT, decimal_digits(rows[chosen] + 1, len(_ID_TEXT)))
            for k_mark, values in zip(_K, (before[0], before[0] + 1, new_k), strict=True):
                template.fill(events, k_mark, values[chosen], np.int32)
            for c_mark, texts in zip(_C, (before[1], updated_c, new_c), strict=True):
                template.fill_text(events, c_mark, self._c_texts[texts[chosen]])
            for pad_mark, texts in zip(_PAD, (before[2], new_pad), strict=True):
                template.fill_text(events, pad_mark, self._pad_texts[texts[chosen]])
            for place, transaction in zip(chosen.tolist(), events, strict=True):
                made[place] = (
                    transaction[: template.gtid_size].tobytes(),
                    transaction[template.gtid_size :].tobytes(),
                )
        yield from made


class _Template(Template):
    # One transaction with marks in it.
    def __init__(self, encoder: TableEncoder) -> None:
        origin = Origin(_SECOND, SERVER_ID)
        name = encoder.spec.table
        before = (_ID, _K[0], _C[0], _PAD[0])
        k_updated = (_ID, _K[1], _C[0], _PAD[0])
        c_updated = (_ID, _K[1], _C[1], _PAD[0])
        inserted = (_ID, _K[2], _C[2], _PAD[1])
        values = f"({_ID_TEXT}, 0, '{_C[2]}', '{_PAD[1]}')"
        events = [
            encode_gtid(Gtid(0, SERVER_ID, _SEQNO), _SECOND),
            encode_annotate_rows(f"UPDATE {name} SET k=k+1 WHERE id={_ID_TEXT}", origin),
            encoder.table_map(origin),
            *encoder.update([(before, k_updated)], origin),
            encode_annotate_rows(f"UPDATE {name} SET c='{_C[1]}' WHERE id={_ID_TEXT}", origin),
            encoder.table_map(origin),
            *encoder.update([(k_updated, c_updated)], origin),
            encode_annotate_rows(f"DELETE FROM {name} WHERE id={_ID_TEXT}", origin),
            encoder.table_map(origin),
            *encoder.delete([c_updated], origin),
            encode_annotate_rows(f"INSERT INTO {name} (id, k, c, pad) VALUES {values}", origin),
            encoder.table_map(origin),
            *encoder.insert([inserted], origin),
            encode_xid(_XID, origin),
        ]
        self.gtid_size = len(events[0])
        super().__init__(b"".join(events))


def _spec(number: int) -> TableSpec:
    return TableSpec("sbtest", f"sbtest{number}", SYSBENCH_COLUMNS, ("id",))
