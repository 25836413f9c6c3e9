"""Which row events views take: of wanted tables, with layouts that schemas complete for the place of each group."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.errors import SchemaError, UnsupportedError
from binlog_format.gtids.gtid import Gtid
from binlog_format.log.log import ReadRange
from binlog_format.position import Position
from binlog_format.rows.declared.completion import ColumnCompletion, LayoutCompletion
from binlog_format.rows.declared.declared_types import Generated
from binlog_format.rows.decoding import Decoding
from binlog_format.rows.images import read_images
from binlog_format.vendor import Vendor
from binlog_format.views.filters import GroupFilter, TableFilter
from binlog_format.views.selection import Selection
from binlog_lab.event_encoding.event_encoding import Origin
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableEncoder, TableSpec
from tests.format.views.made_log import MadeGroup, MadeLog, xid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_format.block import Block
    from binlog_format.events.table_map import TableLayout

ORIGIN = Origin(1_700_000_000, 1)
ITEMS = TableSpec("shop", "items", (ColumnSpec("id", "int"),))
LOG = TableSpec("shop", "log", (ColumnSpec("id", "int"),))


class Schemas:
    """Says the number of edges up to a group as the completion of its layout."""

    def __init__(self, edges: Sequence[Position]) -> None:
        self._edges = sorted(edges)
        self.asked: list[Position] = []

    def edges(self, database: str, table: str) -> Sequence[Position]:
        assert database == "shop"
        return self._edges if table == "items" else ()

    def completed(self, layout: TableLayout, position: Position, *, needs_generated: bool = False) -> TableLayout:
        self.asked.append(position)
        if layout.table == "log":
            raise SchemaError("COLUMN_COUNT_MISMATCH", "of the wrong table")
        return replace(layout, completion=str(sum(edge <= position for edge in self._edges)))


def _group(number: int, *specs: TableSpec) -> MadeGroup:
    events = [
        event
        for table_id, spec in enumerate(specs)
        for event in (
            TableEncoder(spec, table_id).table_map(ORIGIN),
            *TableEncoder(spec, table_id).insert([(number,)], ORIGIN),
        )
    ]
    return MadeGroup(Gtid(0, 1, number), 1_700_000_000, [*events, xid()])


@given(st.sets(st.integers(0, 11), max_size=5), st.integers(1, 12), st.sampled_from([2, 1000]))
def test_layouts_are_those_of_the_place_of_each_group(cuts: set[int], block_groups: int, piece_events: int) -> None:
    log = MadeLog(
        [_group(n, LOG, ITEMS, ITEMS) for n in range(12)], block_groups=block_groups, piece_events=piece_events
    )
    schemas = Schemas([log.position(cut) for cut in cuts])
    wanted = TableFilter("shop.items")
    selection = Selection(wanted, GroupFilter(), decoding=Decoding(schemas))
    plain = Selection(wanted, GroupFilter())
    found: list[tuple[int, str]] = []
    for block in log.committed_blocks():
        selected = selection.of(block)
        rows = [row for touched in selected for row in touched.events.tolist()]
        assert rows == [row for touched in plain.of(block) for row in touched.events.tolist()]
        found += [
            (int(block.groups["seqno"][block.events["group"][row]]), touched.layout.completion)
            for touched in selected
            for row in touched.events.tolist()
        ]
    assert found == [(n, str(sum(cut <= n for cut in cuts))) for n in range(12) for _ in range(2)]
    assert len(schemas.asked) == len({completion for _, completion in found}), "once for each definition"


def test_schema_of_a_table_that_is_not_wanted_is_not_asked_for() -> None:
    log = MadeLog([_group(1, LOG, ITEMS)])
    (block,) = log.blocks()
    schemas = Schemas([])
    (touched,) = Selection(TableFilter(exclude="shop.log"), GroupFilter(), decoding=Decoding(schemas)).of(block)
    assert touched.layout.table == "items"
    with pytest.raises(SchemaError, match="COLUMN_COUNT_MISMATCH"):
        Selection(TableFilter(), GroupFilter(), decoding=Decoding(schemas)).of(block)
    after = ReadRange.of(log, "0-1-1", None).groups
    assert Selection(TableFilter(), after, decoding=Decoding(schemas)).of(block) == []


@pytest.mark.parametrize("decoding", [Decoding(), Decoding(Schemas([]))])
def test_table_map_that_is_not_read_stops_only_those_who_want_its_table(decoding: Decoding) -> None:
    (block,) = MadeLog([_group(1, LOG, ITEMS)]).blocks()
    # The type of the one column: after id, flags, two names with their lengths and zeros, and the number of columns.
    at = int(block.events["start"][1]) + 19 + 8 + 2 + len("shop") + 2 + len("log") + 1
    assert block.data[at] == 3
    block.data[at] = 99
    wanted = Selection(TableFilter(), GroupFilter(), table="shop.items", decoding=decoding)
    assert [touched.layout.table for touched in wanted.of(block)] == ["items"]
    unwanted = Selection(TableFilter(), GroupFilter(), table="shop.log", decoding=decoding)
    if decoding.schemas is None:
        (touched,) = unwanted.of(block)
        assert isinstance(touched.layout.problem, UnsupportedError)
    else:
        with pytest.raises(UnsupportedError, match="COLUMN_TYPE"):
            unwanted.of(block)


class OneSchema:
    """Says the same of each table. *sources*, *generated*: of the VIRTUAL column `v`."""

    def __init__(self, sources: tuple[str, ...] | None = ("id",), generated: Generated = Generated.VIRTUAL) -> None:
        virtual = ColumnCompletion("v", "int(11)", generated=generated, sources=sources)
        self._completion = LayoutCompletion((ColumnCompletion("id", "int(11)"), virtual)).to_json()

    def edges(self, _database: str, _table: str) -> Sequence[Position]:
        return ()

    def completed(self, layout: TableLayout, _position: Position, *, needs_generated: bool = False) -> TableLayout:
        columns = [replace(column, name=name) for column, name in zip(layout.columns, ("id", "v"), strict=True)]
        return replace(layout, columns=tuple(columns), completion=self._completion)


class SequenceFrom:
    """States that the table `log` is a sequence from a position on."""

    def __init__(self, start: Position) -> None:
        self._start = start

    def edges(self, _database: str, _table: str) -> Sequence[Position]:
        return (self._start,)

    def completed(self, layout: TableLayout, position: Position, *, needs_generated: bool = False) -> TableLayout:
        return replace(layout, is_sequence=layout.table == "log" and position >= self._start)


@pytest.mark.parametrize("keeps_sequences", [False, True])
def test_rows_of_sequences_are_left_out_for_who_wants_tables_alone(keeps_sequences: bool) -> None:
    (block,) = MadeLog([_group(1, LOG, ITEMS), _group(2, LOG, ITEMS), _group(3, LOG)]).blocks()
    start = Position.of(block.groups[1])
    selection = Selection(TableFilter(), GroupFilter(), decoding=Decoding(SequenceFrom(start)))
    selection.keeps_sequences = keeps_sequences
    found: dict[str, list[int]] = {}
    for touched in selection.of(block):
        found.setdefault(touched.layout.table, []).extend(block.events["group"][touched.events].tolist())
    assert found == {"log": [0, 1, 2] if keeps_sequences else [0], "items": [0, 1]}


def _virtual_values(*, updated: bool = False) -> Block:
    spec = TableSpec("shop", "items", (ColumnSpec("id", "int"), ColumnSpec("v", "int", nullable=True)))
    encoder = TableEncoder(spec, 1)
    rows = encoder.update([((1, None), (2, None)), ((2, None), (2, None)), ((2, None), (2, 20))], ORIGIN)
    rows = rows if updated else encoder.insert([(1, None), (2, 20)], ORIGIN)
    (block,) = MadeLog([MadeGroup(Gtid(0, 1, 1), 0, [encoder.table_map(ORIGIN), *rows, xid()])]).blocks()
    return block


def _absent(selection: Selection, block: Block) -> list[bool]:
    (touched,) = selection.of(block)
    mask: list[bool] = read_images(block.data, block.events, touched.events, touched.layout).absent_mask(1).tolist()
    return mask


@pytest.mark.parametrize("versions", [(100432, 100500), (100500, 100432), (None,)])
def test_null_in_virtual_columns_tells_nothing_where_mariadb_logs_no_values(versions: tuple[int | None, ...]) -> None:
    """Whoever defined the table, and where: each block is of one server, and a server may be upgraded."""
    selection = Selection(TableFilter(), GroupFilter(), decoding=Decoding(OneSchema()))
    for version in versions:
        block = replace(_virtual_values(), server_version=version)
        assert _absent(selection, block) == [version == 100432, False]


@pytest.mark.parametrize(("version", "is_stale"), [(100432, True), (100500, False), (None, False)])
def test_virtual_columns_outside_of_innodb_tell_nothing_but_in_inserts_where_mariadb_logs_no_values(
    version: int | None, is_stale: bool
) -> None:
    """MariaDB 10.1 and 10.2 log `''`, 0 or an earlier value in them."""
    schema = OneSchema(generated=Generated.VIRTUAL_OUTSIDE_INNODB)
    selection = Selection(TableFilter(), GroupFilter(), decoding=Decoding(schema))
    inserted = replace(_virtual_values(), server_version=version)
    assert _absent(selection, inserted) == [is_stale, False]
    updated = replace(_virtual_values(updated=True), server_version=version)
    assert _absent(selection, updated) == [is_stale] * 6


@pytest.mark.parametrize(
    ("vendor", "version", "kind", "is_replica", "inserted", "updated"),
    [
        (Vendor.MARIADB, 101119, Generated.VIRTUAL_NUMBERED, False, True, False),
        (Vendor.MARIADB, 101119, Generated.VIRTUAL_NUMBERED, True, True, True),
        (Vendor.MARIADB, 101119, Generated.VIRTUAL_INDEXED, False, False, False),
        (Vendor.MARIADB, 100211, Generated.VIRTUAL_INDEXED, False, True, True),
        (Vendor.MYSQL, 90704, Generated.VIRTUAL_INDEXED, False, True, False),
        (Vendor.MYSQL, 90704, Generated.VIRTUAL_INDEXED, True, True, True),
    ],
)
def test_virtual_columns_tell_nothing_where_a_server_logs_other_values_than_rows_have(
    vendor: Vendor, version: int, kind: Generated, *, is_replica: bool, inserted: bool, updated: bool
) -> None:
    selection = Selection(TableFilter(), GroupFilter(), decoding=Decoding(OneSchema(generated=kind)))
    for is_update, is_absent in ((False, inserted), (True, updated)):
        block = replace(
            _virtual_values(updated=is_update),
            vendor=vendor,
            server_version=version,
            writer_id=2 if is_replica else 1,
        )
        assert _absent(selection, block) == [is_absent] * (6 if is_update else 2)


@pytest.mark.parametrize(("writer_id", "is_replica"), [(1, False), (2, True), (None, False)])
def test_null_in_virtual_columns_tells_nothing_in_updates_that_a_replica_of_mysql_logs(
    writer_id: int | None, is_replica: bool
) -> None:
    """But for the image after an update that changes what the column is computed of."""
    selection = Selection(TableFilter(), GroupFilter(), decoding=Decoding(OneSchema()))
    inserted = replace(_virtual_values(), vendor=Vendor.MYSQL, server_version=90704, writer_id=writer_id)
    assert _absent(selection, inserted) == [False, False]
    block = replace(_virtual_values(updated=True), vendor=Vendor.MYSQL, writer_id=writer_id)
    told = [True, False, True, True, True, False] if is_replica else [False] * 6
    assert _absent(selection, block) == told


def test_null_of_a_replica_in_a_column_of_unknown_sources_is_refused() -> None:
    selection = Selection(TableFilter(), GroupFilter(), decoding=Decoding(OneSchema(None)))
    block = replace(_virtual_values(updated=True), vendor=Vendor.MYSQL, writer_id=2)
    with pytest.raises(UnsupportedError, match=r"ROW_IMAGE\].*shop\.items\.v: a VIRTUAL column"):
        _absent(selection, block)


# Rows of one event, and which of its images tell nothing of `v`.
_INSERTED = (([(1, None)], [True]), ([(1, None), (2, 20)], [False, False]))
_UPDATED = (
    ([((1, 5), (2, 5))], [False, True]),
    ([((1, 5), (2, None))], [False, True]),
    ([((1, None), (2, None))], [False, True]),
    ([((1, 5), (1, 5)), ((2, None), (2, None)), ((3, 5), (3, None))], [False] * 6),
    ([((1, 5), (2, 6)), ((3, 7), (4, 7))], [False] * 4),
    ([((1, 5), (2, None)), ((3, 7), (4, 7))], [False, True, False, True]),
)


@pytest.mark.parametrize(("version", "is_untold"), [(101119, True), (110809, False), (None, False)])
def test_virtual_columns_tell_nothing_where_mariadb_may_log_what_its_source_left_out(
    version: int | None, is_untold: bool
) -> None:
    """All rows of an event come from one statement, whose source logs the column or does not."""
    spec = TableSpec("shop", "items", (ColumnSpec("id", "int"), ColumnSpec("v", "int", nullable=True)))
    encoder = TableEncoder(spec, 1)
    inserted = [event for rows, _ in _INSERTED for event in encoder.insert(rows, ORIGIN)]
    updated = [event for rows, _ in _UPDATED for event in encoder.update(rows, ORIGIN)]
    events = [*inserted, *updated]
    untold = [mask for _, masks in (*_INSERTED, *_UPDATED) for mask in masks]
    (block,) = MadeLog([MadeGroup(Gtid(0, 1, 1), 0, [encoder.table_map(ORIGIN), *events, xid()])]).blocks()
    selection = Selection(TableFilter(), GroupFilter(), decoding=Decoding(OneSchema()))
    replica = replace(block, server_version=version, writer_id=2)
    assert _absent(selection, replica) == (untold if is_untold else [False] * len(untold))
    assert not any(_absent(selection, replace(replica, writer_id=1)))
    trusting = Selection(TableFilter(), GroupFilter(), decoding=Decoding(OneSchema(), full_source_images=True))
    assert not any(_absent(trusting, replica))
    (touched,) = selection.of(replica)
    shown = read_images(replica.data, replica.events, touched.events, touched.layout).column(1).to_pylist()
    assert shown[9:15] == [5, 5, None, None, 5, 5 if is_untold else None]
