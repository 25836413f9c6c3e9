"""The log of a backlog: tables that are filled, then changed everywhere, in sysbench's shape: `backlog()`.

After the load every transaction has, on one table, seven updates of the indexed column, seven of the text, and three
rows deleted and inserted again, as `sysbench oltp_write_only --index-updates=7 --non-index-updates=7
--delete-inserts=3` has them: 70, 15 and 15 of a hundred row changes. Each is of a row of its own, anywhere in the
table. Rows that change are those that are there: played through, the log gives the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bench.logs.datasets import FIRST_SECOND, SERVER_ID, SYSBENCH_COLUMNS, Form, kept_log
from bench.logs.templates import Template, decimal_digits, digit_groups
from binlog_format.gtids.gtid import Gtid
from binlog_lab.event_encoding.event_encoding import Origin, encode_annotate_rows, encode_gtid, encode_xid
from binlog_lab.event_encoding.table_encoding import TableEncoder, TableSpec
from binlog_lab.innodb_writer.server import BinlogWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from bench.logs.datasets import GroupWriter, KeptLog

    Int32s = NDArray[np.int32]
    Texts = NDArray[np.uint8]
    Group = tuple[Gtid, bytes, list[bytes]]

TABLES = 4
ROWS_PER_TABLE = 250_000
GIGABYTE_TRANSACTIONS = 70_000
"""As many as make 1 GB, with the load of 200 MB."""
INDEX_UPDATES = 7
TEXT_UPDATES = 7
DELETE_INSERTS = 3
CHANGES = INDEX_UPDATES + TEXT_UPDATES + 2 * DELETE_INSERTS
"""Row changes of a transaction."""
INSERT_ROWS = 40
"""Rows of one INSERT of the load; they fit into one row event."""
LOAD_INSERTS = 25
"""INSERTs of one transaction of the load."""
TEXTS = 4096
BATCH = 1024
"""Transactions made at once."""
_SESSION = 1
_VERSION = 1
"""Counts up when the data below changes."""

# Marks in the templates that are looked for and replaced; no other bytes of a statement look like them.
_ID, _ID_TEXT = 1_111_111_111, "7777777777"
_K = (1_222_222_201, 1_222_222_202)  # before, after
_C = ("a" * 119, "b" * 119)
_PAD = ("e" * 59, "f" * 59)


def backlog(
    *, transactions: int = GIGABYTE_TRANSACTIONS, tables: int = TABLES, rows_per_table: int = ROWS_PER_TABLE
) -> KeptLog:
    """The log, as `.ibb`; written if it is not there, which takes a minute."""
    name = f"backlog-{_VERSION}-{transactions}-{tables}-{rows_per_table}"
    write = partial(write_groups, transactions=transactions, tables=tables, rows_per_table=rows_per_table)
    return kept_log(name, Form.INNODB, write)


def write_groups(writer: GroupWriter, *, transactions: int, tables: int, rows_per_table: int) -> int:
    """Write the groups; how many rows they change."""
    shop = Shop(tables, rows_per_table)
    for group in shop.load():
        writer.write_group(*group)
    for first in range(0, transactions, BATCH):
        for group in shop.transactions(min(BATCH, transactions - first)):
            writer.write_group(*group)
    return CHANGES * transactions + tables * rows_per_table


def large_transaction(rows: int) -> KeptLog:
    """A log with one transaction, which fills one table; 200 bytes a row. Written if it is not there."""
    return kept_log(f"transaction-{_VERSION}-{rows}", Form.INNODB, partial(_write_transaction, rows=rows))


def _write_transaction(writer: GroupWriter, *, rows: int) -> int:
    assert isinstance(writer, BinlogWriter)
    writer.begin(_SESSION)
    for _, _, (statements, _) in Shop(1, rows).load():
        writer.event(_SESSION, statements)
    gtid = Gtid(0, SERVER_ID, 1)
    writer.event(_SESSION, encode_xid(1, Origin(FIRST_SECOND, SERVER_ID)))
    writer.commit(_SESSION, gtid, encode_gtid(gtid, FIRST_SECOND))
    return rows


class _Kind(IntEnum):
    INDEX_UPDATE = 0
    TEXT_UPDATE = 1
    DELETE_INSERT = 2


@dataclass(frozen=True, slots=True)
class _Values:
    # Before and after a statement, of each.
    k: tuple[Int32s, Int32s]
    c: tuple[Texts, Texts]
    pad: tuple[Texts, Texts]


class Shop:
    """The tables while a log is made: of each row its k, and which texts it has.

    Args:
        rows: Of each; a multiple of what one transaction of the load inserts.
    """

    def __init__(self, tables: int, rows: int, *, database: str = "sbtest") -> None:
        assert rows % (INSERT_ROWS * LOAD_INSERTS) == 0, "a transaction of the load would be cut"
        self._numbers = np.random.default_rng(1)
        self._rows = rows
        self._seqno = 0
        specs = [TableSpec(database, f"sbtest{number}", SYSBENCH_COLUMNS, ("id",)) for number in range(1, tables + 1)]
        self._statements = [_Statements(TableEncoder(spec, 20 + i)) for i, spec in enumerate(specs)]
        self._c_texts, self._pad_texts = (digit_groups(self._numbers, size, count=TEXTS) for size in (10, 5))
        shape = (tables, rows)
        self._k = self._numbers.integers(1, rows, shape, dtype=np.int32)
        self._c, self._pad = (self._numbers.integers(0, TEXTS, shape, dtype=np.int32) for _ in range(2))

    def load(self, tables: range | None = None) -> Iterator[Group]:
        """Transactions that fill *tables* (0-based; default: all)."""
        size = INSERT_ROWS * LOAD_INSERTS
        for table in range(len(self._statements)) if tables is None else tables:
            for first in range(0, self._rows, size):
                rows = np.arange(first, first + size)
                texts = self._c_texts[self._c[table, rows]], self._pad_texts[self._pad[table, rows]]
                yield self._group(self._statements[table].load(rows, self._k[table, rows], *texts))

    def transactions(self, count: int, tables: range | None = None) -> Iterator[Group]:
        """Transactions on *tables* (0-based; default: all), on each the same number, give or take one."""
        chosen = range(len(self._statements)) if tables is None else tables
        turns = self._numbers.permutation(count) % len(chosen)
        made = {table: iter(self._changes(table, int((turns == i).sum()))) for i, table in enumerate(chosen)}
        for turn in turns.tolist():
            yield self._group(next(made[chosen[turn]]).tobytes())

    def _group(self, statements: bytes) -> Group:
        self._seqno += 1
        gtid = Gtid(0, SERVER_ID, self._seqno)
        second = FIRST_SECOND + self._seqno // 1000
        return gtid, encode_gtid(gtid, second), [statements, encode_xid(self._seqno, Origin(second, SERVER_ID))]

    def _changes(self, table: int, count: int) -> NDArray[np.uint8]:
        # Statements of *count* transactions, a row each; one kind after the other, as sysbench has them.
        draw = self._numbers.integers
        kinds = np.repeat(list(_Kind), (INDEX_UPDATES, TEXT_UPDATES, DELETE_INSERTS))
        rows = draw(0, self._rows, (count, len(kinds)))
        new_k, new_c, new_pad = new = [draw(1, TEXTS, rows.shape, dtype=np.int32) for _ in range(3)]
        k, c, pad = self._before(table, rows, new, kinds)
        parts = []
        for kind in _Kind:
            own = (slice(None), kinds == kind)
            values = _Values(
                k=(k[own].ravel(), (k[own] + 1 if kind is _Kind.INDEX_UPDATE else new_k[own]).ravel()),
                c=(self._c_texts[c[own].ravel()], self._c_texts[new_c[own].ravel()]),
                pad=(self._pad_texts[pad[own].ravel()], self._pad_texts[new_pad[own].ravel()]),
            )
            statements = self._statements[table].changes(kind, rows[own].ravel(), values)
            parts.append(statements.reshape(count, -1))
        return np.hstack(parts)

    def _before(
        self, table: int, rows: NDArray[np.int64], new: list[Int32s], kinds: NDArray[np.int64]
    ) -> tuple[Int32s, Int32s, Int32s]:
        # The same row may come twice: what it is before is what the statement before made of it.
        touched, numbers = np.unique(rows, return_inverse=True)
        k, c, pad = now = [values[table, touched].tolist() for values in (self._k, self._c, self._pad)]
        found: list[tuple[int, int, int]] = []
        new_values = zip(*(values.ravel().tolist() for values in new), strict=True)
        of_kind = np.tile(kinds, len(rows)).tolist()
        for row, kind, (new_k, new_c, new_pad) in zip(numbers.ravel().tolist(), of_kind, new_values, strict=True):
            found.append((k[row], c[row], pad[row]))
            if kind == _Kind.INDEX_UPDATE:
                k[row] += 1
            elif kind == _Kind.TEXT_UPDATE:
                c[row] = new_c
            else:
                k[row], c[row], pad[row] = new_k, new_c, new_pad
        for values, column in zip((self._k, self._c, self._pad), now, strict=True):
            values[table, touched] = column
        found_k, found_c, found_pad = np.array(found, np.int32).reshape(*rows.shape, 3).transpose(2, 0, 1)
        return found_k, found_c, found_pad


class _Statements:
    # What the statements of a table look like; a row in what they give is a statement, or a transaction of the load.
    def __init__(self, encoder: TableEncoder) -> None:
        origin = Origin(FIRST_SECOND, SERVER_ID)
        name = encoder.spec.table
        before, after = ((_ID, _K[i], _C[i], _PAD[i]) for i in range(2))

        def statement(text: str, events: Iterable[bytes]) -> bytes:
            return b"".join([encode_annotate_rows(text, origin), encoder.table_map(origin), *events])

        def update(text: str, row: tuple[int, int, str, str]) -> Template:
            return Template(statement(text, encoder.update([(before, row)], origin)))

        values = f"({_ID_TEXT}, 0, '{_C[1]}', '{_PAD[1]}')"
        delete = statement(f"DELETE FROM {name} WHERE id={_ID_TEXT}", encoder.delete([before], origin))
        insert = f"INSERT INTO {name} (id, k, c, pad) VALUES {values}"
        self._templates = {
            _Kind.INDEX_UPDATE: update(f"UPDATE {name} SET k=k+1 WHERE id={_ID_TEXT}", (_ID, _K[1], _C[0], _PAD[0])),
            _Kind.TEXT_UPDATE: update(
                f"UPDATE {name} SET c='{_C[1]}' WHERE id={_ID_TEXT}", (_ID, _K[0], _C[1], _PAD[0])
            ),
            _Kind.DELETE_INSERT: Template(delete + statement(insert, encoder.insert([after], origin))),
        }
        self._row = Template(encoder.pack_row(before))
        rows = encoder.insert([before] * INSERT_ROWS, origin)
        self._load = statement(f"INSERT INTO {name} (id, k, c, pad) VALUES (...)", rows)

    def changes(self, kind: _Kind, rows: NDArray[np.int64], values: _Values) -> NDArray[np.uint8]:
        """Statements of a kind on *rows*."""
        template = self._templates[kind]
        made = template.copies(len(rows))
        template.fill(made, _ID, rows + 1, np.int32)
        template.fill_text(made, _ID_TEXT, decimal_digits(rows + 1, len(_ID_TEXT)))
        template.fill(made, _K[0], values.k[0], np.int32)
        template.fill_text(made, _C[0], values.c[0])
        template.fill_text(made, _PAD[0], values.pad[0])
        if kind is not _Kind.TEXT_UPDATE:
            template.fill(made, _K[1], values.k[1], np.int32)
        if kind is not _Kind.INDEX_UPDATE:
            template.fill_text(made, _C[1], values.c[1])
        if kind is _Kind.DELETE_INSERT:
            template.fill_text(made, _PAD[1], values.pad[1])
        return made

    def load(self, rows: NDArray[np.int64], k: Int32s, c: Texts, pad: Texts) -> bytes:
        """Statements that insert *rows*, as many as are in a number of statements."""
        images = self._row.copies(len(rows))
        self._row.fill(images, _ID, rows + 1, np.int32)
        self._row.fill(images, _K[0], k, np.int32)
        self._row.fill_text(images, _C[0], c)
        self._row.fill_text(images, _PAD[0], pad)
        made = Template(self._load).copies(len(rows) // INSERT_ROWS)
        of_statement = images.reshape(len(made), -1)
        start = self._load.index(self._row.content * INSERT_ROWS)
        made[:, start : start + of_statement.shape[1]] = of_statement
        return made.tobytes()
