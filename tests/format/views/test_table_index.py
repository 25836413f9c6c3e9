"""Indexes of events that stand compressed in the log, and what an index carries beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.block import BLOCK_SIZE
from binlog_format.errors import DataLossError
from binlog_format.events.layout import EventType
from binlog_format.gtids.gtid import Gtid, GtidSource
from binlog_format.rows.declared.completion import ColumnCompletion, LayoutCompletion, apply_completion
from binlog_format.rows.decoding import DEFAULT_DECODING
from binlog_format.rows.images import read_images
from binlog_format.rows.table_events import TableMaps
from binlog_format.transactions.expansion import expanded
from binlog_format.vendor import Vendor
from binlog_format.views.changefeed import changefeed_batch, changefeed_schema
from binlog_format.views.table_index import TableIndex, TouchedTable
from binlog_lab.event_encoding.event_encoding import Origin, compress_event, encode_payload
from binlog_lab.event_encoding.table_encoding import TableEncoder, TableSpec
from tests.format.views.made_log import MadeGroup, MadeLog, xid
from tests.format.views.made_tables import ITEMS, LOG, Work, table_index, table_indexes, works

if TYPE_CHECKING:
    from binlog_format.block import Block, Table
    from binlog_format.kernels import Bytes
    from binlog_format.rows.table_events import TableEvents
    from binlog_lab.event_encoding.value_encoding import Value

ORIGIN = Origin(1_700_000_001, 7)
_COMPRESSIBLE = (EventType.QUERY, EventType.WRITE_ROWS_V1, EventType.UPDATE_ROWS_V1, EventType.DELETE_ROWS_V1)


class CountingLog(MadeLog):
    """A log that knows what has been read of it again.

    Attributes:
        read: Places and sizes of all extents, in the order of reading.
        sizes: Bytes of each reading.
    """

    read: list[tuple[int, int]]
    sizes: list[int]

    def read_extents(self, extents: Table) -> Bytes:
        self.read += zip(extents["file_offset"].tolist(), extents["size"].tolist(), strict=True)
        self.sizes.append(int(extents["size"].sum()))
        return super().read_extents(extents)


def _log(groups: list[MadeGroup], *, page_size: int = 1 << 40, block_groups: int = 3) -> CountingLog:
    log = CountingLog(groups, page_size=page_size, block_groups=block_groups)
    log.read, log.sizes = [], []
    return log


def _rows(index: TableIndex, log: MadeLog, size_max: int | None = None) -> list[dict[str, object]]:
    pieces = [index.load(log)] if size_max is None else index.pieces(log, size_max=size_max)
    batches = []
    for piece in pieces:
        images = read_images(piece.data, piece.events, piece.rows, piece.layout)
        batches.append(changefeed_batch(images, piece.events, piece.groups))
    rows: list[dict[str, object]] = pa.Table.from_batches(batches, schema=changefeed_schema(index.layout)).to_pylist()
    return rows


def _stored_group(draw: st.DrawFn, group: MadeGroup) -> MadeGroup:
    form = draw(st.sampled_from(["plain", "compressed", "some", "payload", "payloads"]))
    events = group.events
    if form in ("compressed", "some"):
        events = [
            compress_event(event)
            if event[4] in _COMPRESSIBLE and (form == "compressed" or draw(st.booleans()))
            else event
            for event in events
        ]
    elif form == "payload":
        events = [encode_payload(events, ORIGIN, compressed=draw(st.booleans()))]
    elif form == "payloads":
        cut = draw(st.integers(0, len(events) - 1))
        events = [*events[:cut], encode_payload(events[cut:], ORIGIN)]
    return replace(group, events=events)


@st.composite
def stored_works(draw: st.DrawFn) -> tuple[Work, list[MadeGroup]]:
    """Work, and its groups as they are stored."""
    work = draw(works())
    return work, [_stored_group(draw, group) for group in work.groups]


def _without_places(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return [
        {name: value for name, value in row.items() if name not in ("_position", "_commit_version")} for row in rows
    ]


@given(stored_works(), st.sampled_from([64, 300, 1 << 20]), st.sampled_from([None, 1, 100, 1000]))
def test_index_of_compressed_events_gives_the_plain_ones(
    made: tuple[Work, list[MadeGroup]], page_size: int, size_max: int | None
) -> None:
    """Numbers, GTIDs and values are those of a log that holds the same events plain."""
    work, groups = made
    plain, log = _log(work.groups), _log(groups, page_size=page_size)
    expected, found = table_indexes(plain.blocks()), table_indexes(expanded(log.blocks()))
    assert [index.layout for index in found] == [index.layout for index in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.size == other.size
        assert one.checks == other.checks
        rows = _without_places(_rows(one, log, size_max))
        assert rows == _without_places(_rows(other, plain))


@given(stored_works(), st.sampled_from([None, 1, 100]), st.integers(1, 400), st.sampled_from([1, 150]))
def test_cut_index_gives_the_same_rows_and_each_part_knows_its_bytes(
    made: tuple[Work, list[MadeGroup]], size_max: int | None, size: int, checked: int
) -> None:
    _, groups = made
    log = _log(groups, block_groups=1)
    with patch("binlog_format.views.table_index.CHECKED_BYTES", checked):
        indexes = table_indexes(expanded(log.blocks()))
    for index in indexes:
        parts = [TableIndex.from_bytes(part.to_bytes()) for part in index.cut(size)]
        assert [check for part in parts for check in part.checks] == list(index.checks)
        assert all(part.size >= size for part in parts[:-1])
        assert [row for part in parts for row in _rows(part, log, size_max)] == _rows(index, log)
        outline, loaded = index.outline(), index.load(log)
        assert np.array_equal(outline.events, loaded.events)
        assert np.array_equal(outline.groups, loaded.groups)
        for part in parts:
            wrong = replace(part, checks=(*part.checks[:-1], part.checks[-1]._replace(crc=part.checks[-1].crc ^ 1)))
            with pytest.raises(DataLossError, match=r"PAGE_REWRITTEN.*CRC-32C"):
                _rows(wrong, log, size_max)


def _transaction(number: int, *, tables: tuple[TableSpec, ...] = (ITEMS, LOG), rows: int = 3) -> list[bytes]:
    events = []
    for table_id, spec in enumerate(tables, 5):
        encoder = TableEncoder(spec, table_id)
        values: list[tuple[Value, ...]]
        if spec is LOG:
            values = [(number * 100 + i, b"row %d" % i) for i in range(rows)]
        else:
            values = [(number * 100 + i, f"row {i}", 7) for i in range(rows)]
        events += [encoder.table_map(ORIGIN), *encoder.insert(values, ORIGIN)]
    return [*events, xid(number)]


def _group(number: int, events: list[bytes]) -> MadeGroup:
    return MadeGroup(Gtid(0, 1, number), 1_700_000_000, events)


def test_stored_event_is_read_once_and_with_its_neighbours() -> None:
    """Several row events come out of each payload: they cost one reading of it, and payloads are read together."""
    groups = [_group(n, [encode_payload(_transaction(n, tables=(ITEMS, LOG, ITEMS)), ORIGIN)]) for n in range(1, 40)]
    log = _log(groups)
    for index in table_indexes(expanded(log.blocks())):
        log.read, log.sizes = [], []
        assert len(_rows(index, log, BLOCK_SIZE)) == (2 if index.layout.table == "items" else 1) * 3 * 39
        assert len(log.sizes) == 1
        assert len(log.read) == len(set(log.read)) == 39
        assert sum(log.sizes) == sum(len(group.events[0]) for group in groups)


def test_parts_are_bounded_by_stored_and_plain_bytes() -> None:
    groups = [_group(n, [encode_payload(_transaction(n), ORIGIN)]) for n in range(1, 40)]
    log = _log(groups)
    (index, _) = table_indexes(expanded(log.blocks()))
    stored = max(len(group.events[0]) for group in groups)
    pieces = list(index.pieces(log, size_max=1000))
    assert all(len(piece.data) <= 1000 for piece in pieces)
    assert all(size <= max(1000, stored) for size in log.sizes)
    assert len(pieces) > 4


def test_index_is_small_however_many_events_a_payload_has() -> None:
    encoder = TableEncoder(ITEMS, 5)
    events = [encoder.table_map(ORIGIN)]
    for number in range(20_000):
        events += encoder.insert([(number, "x", number)], ORIGIN)
    log = _log([_group(1, [encode_payload([*events, xid()], ORIGIN)])])
    (index,) = table_indexes(expanded(log.blocks()))
    assert len(index.to_bytes()) < 20_000
    assert len(_rows(index, log)) == 20_000


def test_large_payload_comes_back_in_pieces() -> None:
    """Two tables take turns in many blocks."""
    events = _transaction(1, rows=10_000)[:-1] * 28
    group = _group(1, [encode_payload([*events, xid()], ORIGIN)])
    plain, log = _log([_group(1, [*events, xid()])]), _log([group])
    blocks = list(expanded(log.blocks()))
    assert len(blocks) > 3
    size = len(group.events[0])
    for one, other in zip(table_indexes(blocks), table_indexes(plain.blocks()), strict=True):
        log.sizes = []
        pieces = list(one.pieces(log, size_max=1 << 20))
        assert log.sizes == [size]
        assert len(pieces) > 1
        assert max(len(piece.data) for piece in pieces) <= 2 * BLOCK_SIZE
        loaded = other.load(plain)
        assert b"".join(piece.data.tobytes() for piece in pieces) == loaded.data.tobytes()
        event_nos = np.concatenate([piece.events["event_no"] for piece in pieces])
        assert event_nos.tolist() == loaded.events["event_no"].tolist()
        for piece in pieces:
            assert (piece.groups["seqno"].tolist(), int(piece.events["size"].sum())) == ([1], len(piece.data))


@pytest.mark.parametrize("form", ["compressed", "payload"])
def test_changed_log_is_named(form: str) -> None:
    """Whatever bit has changed: an error of expanding is the same news as a wrong checksum."""
    events = _transaction(1)
    stored = [compress_event(e) if e[4] in _COMPRESSIBLE else e for e in events]
    log = _log([_group(1, stored if form == "compressed" else [encode_payload(events, ORIGIN)])])
    (index, _) = table_indexes(expanded(log.blocks()))
    start = int(index.columns["extent_offset"][0])
    end = start + int(index.columns["extent_size"][0])
    same = index.load(log).data.tobytes()
    changed = 0
    for byte in range(start, end):
        for bit in range(8):
            log.file[byte] ^= 1 << bit
            try:
                assert index.load(log).data.tobytes() == same
            except DataLossError as error:
                changed += 1
                condition = error.condition
            log.file[byte] ^= 1 << bit
    assert condition == "BINLOG_DATA_LOSS.PAGE_REWRITTEN"
    # The rest does not matter to this table: headers that the container reads, rows of the other table in the payload.
    assert changed > 0.5 * 8 * (end - start)


def test_rewritten_log_is_named_with_the_table() -> None:
    log = _log([_group(1, [encode_payload(_transaction(1), ORIGIN)])])
    (index, _) = table_indexes(expanded(log.blocks()))
    at = int(index.columns["extent_offset"][0] + index.columns["extent_size"][0]) - 3
    log.file[at : at + 3] = b"xxx"
    with pytest.raises(DataLossError, match=r"PAGE_REWRITTEN.*table shop.items: 1 row events in binlog files 0 to 0"):
        index.load(log)


def _touched(block: Block) -> TableEvents:
    (touched,) = TableMaps().resolve(block)
    return touched


def test_index_carries_the_sources_of_mysql() -> None:
    """Only those that it needs, under numbers of its own."""
    sources = tuple(GtidSource(f"0000000{n}-0000-0000-0000-000000000000", "tag" * (n % 2)) for n in range(4))
    log = _log([_group(n, _transaction(n, tables=(ITEMS,))) for n in range(1, 5)], block_groups=2)
    table = None
    for block, numbers in zip(log.blocks(), [(3, 1), (1, -1)], strict=True):
        block.groups["gtid_source"] = numbers
        touched = _touched(block)
        table = table or TouchedTable(replace(touched.layout, vendor=Vendor.MYSQL))
        table.add(replace(block, vendor=Vendor.MYSQL, gtid_sources=sources), touched, DEFAULT_DECODING)
    assert table is not None
    index = table_index(table)
    assert index.layout.vendor is Vendor.MYSQL
    (piece,) = index.pieces(log)
    found = [None if n < 0 else piece.gtid_sources[n] for n in piece.groups["gtid_source"].tolist()]
    assert found == [sources[3], sources[1], sources[1], None]
    assert len(piece.gtid_sources) == 2


def test_index_carries_what_a_schema_has_said() -> None:
    """Declared types are in no table map."""
    log = _log([_group(1, _transaction(1, tables=(ITEMS,)))])
    (block,) = log.blocks()
    touched = _touched(block)
    said = (
        ColumnCompletion("id", "int(11)", unsigned=False),
        ColumnCompletion('na"me', "varchar(40)", charset="utf8mb4"),
        ColumnCompletion("n", "bigint(20) unsigned", unsigned=True),
    )
    completed = apply_completion(touched.layout, LayoutCompletion(said, ((0,),)).to_json())
    assert [column.declared for column in completed.columns] == [column.declared for column in said]
    table = TouchedTable(completed)
    table.add(block, touched, DEFAULT_DECODING)
    assert table_index(table).layout == completed


def test_rows_may_lie_elsewhere_than_their_group() -> None:
    """As those of an XA transaction, which were logged when it was prepared."""
    log = _log([_group(1, _transaction(1, tables=(ITEMS,))), _group(2, _transaction(2, tables=(ITEMS,)))])
    (block,) = log.blocks()
    touched = _touched(block)
    groups = block.groups.copy()
    groups[["file_no", "page", "chunk"]] = groups[["file_no", "page", "chunk"]][::-1]
    groups["file_no"] += 5
    table = TouchedTable(touched.layout)
    table.add(replace(block, groups=groups), touched, DEFAULT_DECODING)
    (piece,) = table_index(table).pieces(log)
    assert piece.groups["file_no"].tolist() == [5, 5]
    assert piece.groups["chunk"].tolist() == groups["chunk"].tolist()
    assert np.array_equal(
        piece.data,
        np.concatenate([block.data[s : s + n] for s, n in block.events[["start", "size"]][touched.events].tolist()]),
    )
