"""Tables, and random work on them that knows which changes it makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from binlog_format.gtids.gtid import Gtid
from binlog_format.rows.decoding import DEFAULT_DECODING
from binlog_format.rows.table_events import TableMaps
from binlog_format.views.table_index import TableIndex, TouchedTable
from binlog_lab.event_encoding.event_encoding import Origin
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableEncoder, TableSpec
from tests.format.views.made_log import MadeGroup, query, xid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hypothesis.strategies import DrawFn

    from binlog_format.block import Block
    from binlog_lab.event_encoding.value_encoding import Value

Row = tuple["Value", ...]

ITEMS = TableSpec(
    "shop",
    "items",
    (ColumnSpec("id", "int"), ColumnSpec('na"me', "varchar(40)", nullable=True), ColumnSpec("n", "bigint unsigned")),
    ("id",),
)
LOG = TableSpec("audit", "log", (ColumnSpec("at", "int unsigned"), ColumnSpec("raw", "varbinary(20)", nullable=True)))
WIDE = TableSpec("shop", "wide", tuple(ColumnSpec(f"c{i}", "smallint", nullable=True) for i in range(9)))
SPECS = (ITEMS, LOG, WIDE)

_VALUES = {
    ITEMS: st.tuples(st.integers(-(2**31), 2**31 - 1), st.none() | st.text(max_size=10), st.integers(0, 2**64 - 1)),
    LOG: st.tuples(st.integers(0, 2**32 - 1), st.none() | st.binary(max_size=20)),
    WIDE: st.tuples(*[st.none() | st.integers(-(2**15), 2**15 - 1)] * 9),
}


@dataclass(frozen=True, slots=True)
class Change:
    """A change as it is expected."""

    group: int
    event_no: int
    row_no: int
    op: str
    spec: TableSpec
    before: Row | None
    after: Row | None

    def named(self, row: Row | None) -> dict[str, object] | None:
        """A row by column name."""
        return None if row is None else dict(zip((column.name for column in self.spec.columns), row, strict=True))


@dataclass(slots=True)
class Work:
    """Groups and the changes in them."""

    groups: list[MadeGroup]
    changes: list[Change]


@st.composite
def works(draw: DrawFn) -> Work:
    """Random transactions over three tables: statements of any number of events, each of any number of rows."""
    work = Work([], [])
    encoders = {spec: TableEncoder(spec, 100 + i, rows_size_max=1 << 20) for i, spec in enumerate(SPECS)}
    for number in range(draw(st.integers(0, 6))):
        gtid = draw(st.none() | st.builds(Gtid, st.integers(0, 1), st.integers(1, 3), st.integers(1, 2**64 - 1)))
        group = MadeGroup(gtid, 1_700_000_000 + number)
        work.groups.append(group)
        for _ in range(draw(st.integers(0, 4))):
            _statement(draw, work, encoders[draw(st.sampled_from(SPECS))])
        group.events.append(xid(number))
    return work


def _statement(draw: DrawFn, work: Work, encoder: TableEncoder) -> None:
    number, group, spec = len(work.groups) - 1, work.groups[-1], encoder.spec
    origin = Origin(group.timestamp + 1, 7)
    if draw(st.booleans()):
        group.events.append(query("SAVEPOINT `s`"))
    group.events.append(encoder.table_map(origin))
    for _ in range(draw(st.integers(1, 2))):
        op = draw(st.sampled_from(["insert", "update", "delete"]))
        row = _VALUES[spec]
        pairs = draw(st.lists(st.tuples(row, row), min_size=1, max_size=5))
        event_no = len(group.all_events())
        if op == "update":
            (event,) = encoder.update(pairs, origin)
        elif op == "insert":
            (event,) = encoder.insert([after for _, after in pairs], origin)
        else:
            (event,) = encoder.delete([before for before, _ in pairs], origin)
        group.events.append(event)
        work.changes += [
            Change(
                number,
                event_no,
                row_no,
                op,
                spec,
                None if op == "insert" else before,
                None if op == "delete" else after,
            )
            for row_no, (before, after) in enumerate(pairs)
        ]


def table_indexes(blocks: Iterable[Block]) -> list[TableIndex]:
    """What the view `tables` builds, through its bytes."""
    maps = TableMaps()
    tables: dict[str, TouchedTable] = {}
    for block in blocks:
        for touched in maps.resolve(block):
            table = tables.setdefault(touched.layout.digest, TouchedTable(touched.layout))
            table.add(block, touched, DEFAULT_DECODING)
    return [table_index(table) for table in tables.values()]


def table_index(table: TouchedTable) -> TableIndex:
    """Index of one table."""
    (row,) = table.rows()
    content = row["index"]
    assert isinstance(content, bytes)
    return TableIndex.from_bytes(content)
