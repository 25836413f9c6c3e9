"""The views against random work whose changes are known."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format import Log, open_log
from binlog_format.errors import DataLossError, SchemaError, UnsupportedError
from binlog_format.events.layout import GTID_FLAG_DDL, EventType
from binlog_format.events.table_map import TableLayout, parse_table_map
from binlog_format.gtids.gtid import Gtid
from binlog_format.log.log import ReadRange
from binlog_format.rows.images import read_images
from binlog_format.rows.json.json_rows import json_lines
from binlog_format.views.changefeed import ChangefeedView, changefeed_batch, changefeed_schema
from binlog_format.views.changes import ChangesView, changes_schema
from binlog_format.views.filters import TableFilter
from binlog_format.views.table_index import TableIndex
from binlog_format.views.tables import STATEMENT_TYPE, TABLES_SCHEMA, TablesView
from binlog_lab.event_encoding.event_encoding import Origin, encode_event
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableEncoder, TableSpec
from tests.corpus import SERVER_CASES, corpus
from tests.format.views.made_log import MadeGroup, MadeLog, query, xid
from tests.format.views.made_tables import ITEMS, LOG, SPECS, WIDE, Change, Work, works

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from binlog_format.block import Block
    from binlog_lab.event_encoding.value_encoding import Value

ORIGIN = Origin(1_700_000_001, 7)


@st.composite
def logs(draw: st.DrawFn) -> tuple[Work, MadeLog]:
    """Work in a log whose groups come in any blocks and pieces."""
    work = draw(works())
    log = MadeLog(
        work.groups,
        page_size=draw(st.sampled_from([64, 300, 1 << 20])),
        block_groups=draw(st.integers(1, 4)),
        piece_events=draw(st.sampled_from([1000, 3])),
    )
    return work, log


def _rows(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> list[dict[str, object]]:
    table = pa.Table.from_batches(list(batches), schema=schema)
    table.validate(full=True)
    rows: list[dict[str, object]] = table.to_pylist()
    return rows


def _expected(work: Work, log: MadeLog, change: Change) -> dict[str, object]:
    group = work.groups[change.group]
    at = log.position(change.group)
    return {
        "position": {"file_no": at.file_no, "page": at.page, "chunk": at.chunk},
        "event_no": change.event_no,
        "row_no": change.row_no,
        "gtid": None if group.gtid is None else str(group.gtid),
        "commit_time": datetime.fromtimestamp(group.timestamp, UTC),
        "server_id": 7,
        "op": change.op,
        "database": change.spec.database,
        "table": change.spec.table,
        "before": change.named(change.before),
        "after": change.named(change.after),
        "absent": None,
    }


def _parsed(row: dict[str, object]) -> dict[str, object]:
    def image(text: object) -> object:
        return None if text is None else json.loads(str(text))

    return row | {"before": image(row["before"]), "after": image(row["after"])}


def _in_json(row: dict[str, object]) -> dict[str, object]:
    def image(values: object) -> object:
        if not isinstance(values, dict):
            return values
        return {
            name: base64.b64encode(value).decode() if isinstance(value, bytes) else value
            for name, value in values.items()
        }

    return row | {"before": image(row["before"]), "after": image(row["after"])}


@given(logs())
def test_changes_of_all_tables_come_in_total_order(made: tuple[Work, MadeLog]) -> None:
    work, log = made
    rows = [_parsed(row) for row in _rows(ChangesView().batches(log.committed_blocks()), changes_schema(pa.string()))]
    assert rows == [_in_json(_expected(work, log, change)) for change in work.changes]


@given(logs(), st.sampled_from(SPECS))
def test_typed_changes_are_those_of_the_table(made: tuple[Work, MadeLog], spec: TableSpec) -> None:
    work, log = made
    view = ChangesView(table=spec.full_name)
    rows = _rows(view.batches(log.committed_blocks()), view.schema(_layout(spec)))
    assert rows == [_expected(work, log, change) for change in work.changes if change.spec == spec]


@given(logs(), st.sampled_from(SPECS))
def test_changefeed_has_the_images_in_order(made: tuple[Work, MadeLog], spec: TableSpec) -> None:
    work, log = made
    view = ChangefeedView(table=spec.full_name)
    rows = _rows(view.batches(log.committed_blocks()), view.schema(_layout(spec)))
    assert rows == list(_expected_images(work, log, spec, rows))
    versions = [row["_commit_version"] for row in rows]
    assert versions == sorted(versions, key=lambda version: int(str(version)))


@given(logs(), st.sampled_from(SPECS))
def test_sequences_of_the_changefeed_are_unique_texts_in_log_order(made: tuple[Work, MadeLog], spec: TableSpec) -> None:
    _, log = made
    view = ChangefeedView(table=spec.full_name, include_sequence=True)
    found = [str(row["_seq"]) for row in _rows(view.batches(log.committed_blocks()), view.schema(_layout(spec)))]
    assert found == sorted(set(found))
    assert {len(text) for text in found} <= {34}


def _expected_images(
    work: Work, log: MadeLog, spec: TableSpec, rows: list[dict[str, object]]
) -> Iterator[dict[str, object]]:
    version_of = {str(row["_position"]): row["_commit_version"] for row in rows}
    assert len(set(version_of.values())) == len(version_of)
    for change in work.changes:
        if change.spec != spec:
            continue
        told = _expected(work, log, change)
        images = [("update_preimage", "before"), ("update_postimage", "after")]
        if change.op != "update":
            images = [(change.op, "after" if change.op == "insert" else "before")]
        for change_type, name in images:
            image = told[name]
            assert isinstance(image, dict)
            yield image | {
                "_change_type": change_type,
                "_commit_version": version_of[str(told["position"])],
                "_commit_timestamp": told["commit_time"],
                "_position": told["position"],
                "_event_no": change.event_no,
                "_row_no": change.row_no,
                "_gtid": told["gtid"],
            }


@given(logs())
def test_index_gives_what_the_blocks_give(made: tuple[Work, MadeLog]) -> None:
    """Round trip: blocks -> index -> bytes -> index -> events out of the log -> typed rows."""
    work, log = made
    found = _rows(TablesView().batches(log.committed_blocks()), TABLES_SCHEMA)
    assert len(found) == len({change.spec.full_name for change in work.changes})
    for row in found:
        name = f"{row['database']}.{row['table']}"
        changes = [change for change in work.changes if change.spec.full_name == name]
        counts = [sum(change.op == op for change in changes) for op in ("insert", "update", "delete")]
        assert [row["inserts"], row["updates"], row["deletes"]] == counts
        assert (row["start"], row["end"], row["ddl"]) == (_struct(log, 0), _struct(log, len(work.groups)), None)
        index = _index(row)
        assert index.layout.digest == row["layout"]
        assert (
            row["bytes"]
            == index.size
            == sum(len(work.groups[g].all_events()[e]) for g, e in {(c.group, c.event_no) for c in changes})
        )
        view = ChangefeedView(table=name)
        direct = _rows(view.batches(log.committed_blocks()), changefeed_schema(index.layout))
        for size_max in (None, 100, 1000):
            assert _rows(_from_index(index, log, size_max=size_max), changefeed_schema(index.layout)) == direct


@given(works())
def test_table_of_many_events_has_several_rows(work: Work) -> None:
    log = MadeLog(work.groups, page_size=1 << 40, block_groups=1)
    (whole,) = [batch.to_pylist() for batch in TablesView().batches(log.committed_blocks())] or [[]]
    with patch("binlog_format.views.table_index.INDEX_EVENTS", 1):
        (parts,) = [batch.to_pylist() for batch in TablesView().batches(log.committed_blocks())] or [[]]
    assert len(parts) >= len(whole)
    for row in whole:
        own = [part for part in parts if (part["table"], part["layout"]) == (row["table"], row["layout"])]
        for name in ("inserts", "updates", "deletes", "bytes", "checked_updates", "checked_deletes"):
            assert sum(part[name] for part in own) == row[name]
        schema = changefeed_schema(_index(row).layout)
        batches = [batch for part in own for batch in _from_index(_index(part), log)]
        assert _rows(batches, schema) == _rows(_from_index(_index(row), log), schema)


def _index(row: dict[str, object]) -> TableIndex:
    content = row["index"]
    assert isinstance(content, bytes)
    return TableIndex.from_bytes(content)


def _from_index(index: TableIndex, log: Log, *, size_max: int | None = None) -> list[pa.RecordBatch]:
    pieces = [index.load(log)] if size_max is None else index.pieces(log, size_max=size_max)
    batches = []
    for piece in pieces:
        data, events, groups, layout, _ = piece
        batches.append(changefeed_batch(read_images(data, events, piece.rows, layout), events, groups))
    return batches


def _struct(log: MadeLog, group: int) -> dict[str, int]:
    at = log.position(group)
    return {"file_no": at.file_no, "page": at.page, "chunk": at.chunk}


def _layout(spec: TableSpec) -> TableLayout:
    return parse_table_map(TableEncoder(spec, 1).table_map(ORIGIN))


def _group(number: int, *events: bytes, flags: int = 0) -> MadeGroup:
    return MadeGroup(Gtid(0, 1, number), 1_700_000_000, [*events, xid(number)], flags)


def _inserts(spec: TableSpec, *rows: tuple[Value, ...]) -> list[bytes]:
    encoder = TableEncoder(spec, 5)
    return [encoder.table_map(ORIGIN), *encoder.insert(rows, ORIGIN)]


def _ids(log: MadeLog, view: ChangesView) -> list[int]:
    rows = _rows(view.batches(log.committed_blocks()), changes_schema(pa.string()))
    return [json.loads(str(row["after"]))["id"] for row in rows]


ONE, TWO, THREE = ((number, "x", 0) for number in (1, 2, 3))


def test_rolled_back_rows_are_not_given() -> None:
    events = [*_inserts(ITEMS, ONE), query("SAVEPOINT `a`"), *_inserts(ITEMS, TWO), query("ROLLBACK TO `a`")]
    log = MadeLog([_group(1, *events, *_inserts(ITEMS, THREE))])
    assert _ids(log, ChangesView()) == [1, 3]
    (row,) = _rows(TablesView().batches(log.committed_blocks()), TABLES_SCHEMA)
    assert row["inserts"] == 2
    assert [batch.num_rows for batch in _from_index(_index(row), log)] == [2]


def _partial_rows(kind: EventType, bitmaps: bytes, rows: bytes) -> list[bytes]:
    # Table id 5, no flags, 3 columns; then which columns the images have.
    event = encode_event(kind, (5).to_bytes(6, "little") + bytes(2) + b"\3" + bitmaps + rows, ORIGIN)
    return [TableEncoder(ITEMS, 5).table_map(ORIGIN), event]


def test_columns_that_the_log_does_not_carry_are_absent() -> None:
    """As with binlog_row_image=MINIMAL: the key before, what was set after; a null there is a null."""
    seven = (7).to_bytes(4, "little")
    update = _partial_rows(EventType.UPDATE_ROWS_V1, b"\1\2", b"\0" + seven + b"\0" + b"\1y" + b"\0" + seven + b"\1")
    delete = _partial_rows(EventType.DELETE_ROWS_V1, b"\1", b"\0" + seven)
    log = MadeLog([_group(1, *update), _group(2, *_inserts(ITEMS, ONE)), _group(3, *delete)])
    rows = _rows(ChangesView().batches(log.committed_blocks()), changes_schema(pa.string()))
    assert [(row["before"], row["after"], row["absent"]) for row in rows] == [
        ('{"id":7}', '{"na\\"me":"y"}', ["id", "n"]),
        ('{"id":7}', '{"na\\"me":null}', ["id", "n"]),
        (None, '{"id":1,"na\\"me":"x","n":0}', None),
        ('{"id":7}', None, ['na"me', "n"]),
    ]
    view = ChangesView(table="shop.items")
    typed = _rows(view.batches(log.committed_blocks()), view.schema(_layout(ITEMS)))
    assert [row["absent"] for row in typed] == [row["absent"] for row in rows]
    assert typed[0]["after"] == {"id": None, 'na"me': "y", "n": None}
    feed = ChangefeedView(table="shop.items", include_absent=True)
    images = _rows(feed.batches(log.committed_blocks()), feed.schema(_layout(ITEMS)))
    assert [(row["id"], row['na"me'], row["n"], row["_change_type"], row["_absent"]) for row in images] == [
        (7, None, None, "update_preimage", ['na"me', "n"]),
        (None, "y", None, "update_postimage", ["id", "n"]),
        (7, None, None, "update_preimage", ['na"me', "n"]),
        (None, None, None, "update_postimage", ["id", "n"]),
        (1, "x", 0, "insert", None),
        (7, None, None, "delete", ['na"me', "n"]),
    ]


def test_null_in_the_changefeed_never_stands_for_what_the_log_does_not_carry() -> None:
    seven = (7).to_bytes(4, "little")
    delete = _partial_rows(EventType.DELETE_ROWS_V1, b"\1", b"\0" + seven)
    log = MadeLog([_group(1, *_inserts(ITEMS, ONE)), _group(2, *delete)])
    with pytest.raises(UnsupportedError, match=r'ROW_IMAGE\] .*: row images without na"me, n: .*includeAbsent'):
        list(ChangefeedView(table="shop.items").batches(log.committed_blocks()))


def test_gtids_choose_the_groups() -> None:
    log = MadeLog([_group(number, *_inserts(ITEMS, (number, "x", 0))) for number in range(1, 8)])
    assert _ids(log, ChangesView(groups=ReadRange.of(log, "0-1-2", "0-1-5").groups)) == [3, 4, 5]


def test_tables_are_chosen_by_name() -> None:
    log = MadeLog([_group(1, *_inserts(LOG, (1, b"")), *_inserts(ITEMS, ONE))])
    assert _ids(log, ChangesView(tables=TableFilter(exclude=r"audit\..*"))) == [1]
    assert list(ChangefeedView(table="shop.items", tables=TableFilter("audit.*")).batches(log.committed_blocks())) == []


OTHER_ITEMS = TableSpec("shop", "items", (ColumnSpec("id", "bigint"), ColumnSpec("note", "varchar(9)")))


@pytest.mark.parametrize("block_groups", [1, 2])
def test_changed_table_ends_a_typed_view(block_groups: int) -> None:
    groups = [_group(1, *_inserts(ITEMS, ONE)), _group(2, *_inserts(OTHER_ITEMS, (2, "y")))]
    log = MadeLog(groups, block_groups=block_groups)
    expected = (
        r"SCHEMA_CHANGED\] table shop\.items: expected columns \(id int32, na\"me string, n decimal128\(20, 0\)\), "
        r"got \(id int64, note string\)"
    )
    for view in (ChangesView(table="shop.items"), ChangefeedView(table="shop.items")):
        with pytest.raises(SchemaError, match=expected):
            list(view.batches(log.committed_blocks()))
    with pytest.raises(SchemaError, match=r"expected columns \(id int64, note string\)"):
        list(ChangefeedView(table="shop.items", layout=_layout(OTHER_ITEMS)).batches(log.committed_blocks()))
    assert _ids(log, ChangesView()) == [1, 2]


def test_table_whose_layout_changes_has_two_rows_in_tables() -> None:
    log = MadeLog([_group(1, *_inserts(ITEMS, ONE)), _group(2, *_inserts(OTHER_ITEMS, (2, "y"), (3, "z")))])
    rows = _rows(TablesView().batches(log.committed_blocks()), TABLES_SCHEMA)
    assert [(row["table"], row["inserts"]) for row in rows] == [("items", 1), ("items", 2)]
    assert rows[0]["layout"] != rows[1]["layout"]


def _statement(text: str) -> dict[str, object]:
    return dict.fromkeys(STATEMENT_TYPE.names) | {"text": text}


def _queries(block: Block) -> Iterator[tuple[int, dict[str, object]]]:
    """A finder that takes every Query event for DDL, and gives the number of its group."""
    for row in np.flatnonzero(block.events["type"] == EventType.QUERY).tolist():
        seqno = int(block.groups["seqno"][block.events["group"][row]])
        yield row, _statement(f"statement {seqno}")


def _ddl(number: int) -> MadeGroup:
    return MadeGroup(Gtid(0, 1, number), 1_700_000_000, [query("ALTER TABLE items ADD x int")], GTID_FLAG_DDL)


def test_statements_of_the_range_stand_in_a_row_of_their_own() -> None:
    log = MadeLog([_ddl(1), _group(2, *_inserts(ITEMS, ONE)), _ddl(3)])
    table, statements = _rows(TablesView(find_statements=_queries).batches(log.committed_blocks()), TABLES_SCHEMA)
    assert (table["table"], table["ddl"]) == ("items", None)
    assert {name for name, value in statements.items() if value is not None} == {"start", "end", "ddl"}
    assert statements["ddl"] == [_statement("statement 1"), _statement("statement 3")]
    assert (statements["start"], statements["end"]) == (table["start"], table["end"])


def test_statements_are_told_where_no_wanted_table_is_touched() -> None:
    log = MadeLog([_ddl(1), _group(2, *_inserts(ITEMS, ONE)), _ddl(3)])
    other = TablesView(tables=TableFilter("audit.*"), find_statements=_queries)
    (row,) = _rows(other.batches(log.committed_blocks()), TABLES_SCHEMA)
    assert row["database"] is None
    assert row["ddl"] == [_statement("statement 1"), _statement("statement 3")]


def test_statements_in_groups_that_are_not_wanted_are_left_out() -> None:
    log = MadeLog([_ddl(1), _group(2, *_inserts(ITEMS, ONE)), _ddl(3)])
    groups = ReadRange.of(log, "0-1-2", None).groups
    (row,) = _rows(TablesView(groups=groups, find_statements=_queries).batches(log.committed_blocks()), TABLES_SCHEMA)
    assert row["ddl"] == [_statement("statement 3")]
    groups = ReadRange.of(log, "0-1-3", None).groups
    assert list(TablesView(groups=groups, find_statements=_queries).batches(log.committed_blocks())) == []


def test_index_of_changed_bytes_is_data_loss() -> None:
    log = MadeLog([_group(1, *_inserts(ITEMS, ONE, TWO))])
    (row,) = _rows(TablesView().batches(log.committed_blocks()), TABLES_SCHEMA)
    index = _index(row)
    log.file[int(index.columns["extent_offset"][0]) + 30] ^= 1
    with pytest.raises(DataLossError, match=r"PAGE_REWRITTEN\] table shop\.items: 1 row events in binlog files 0 to 0"):
        index.load(log)


def test_index_takes_a_few_bytes_an_event() -> None:
    groups = [_group(number, *_inserts(WIDE, (number % 7,) * 9)) for number in range(1, 2001)]
    (row,) = _rows(TablesView().batches(MadeLog(groups, page_size=16384).committed_blocks()), TABLES_SCHEMA)
    assert len(_index(row).to_bytes()) < 3 * 2000 + 3000


def test_huge_texts_come_in_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [
        _group(n, *_inserts(ITEMS, (n, "x" * 30, 0), (-n, None, 1)), *_inserts(LOG, (n, b"y"))) for n in range(1, 9)
    ]
    log = MadeLog(groups, block_groups=100)
    (whole,) = ChangesView().batches(log.committed_blocks())
    monkeypatch.setattr("binlog_format.views.changes.TEXT_SIZE_MAX", 200)
    batches = list(ChangesView().batches(log.committed_blocks()))
    assert len(batches) > 4
    assert pa.Table.from_batches(batches).to_pylist() == whole.to_pylist()
    monkeypatch.setattr("binlog_format.views.changes.TEXT_SIZE_MAX", 20)
    with pytest.raises(UnsupportedError, match=r"ROW_IMAGE\] .*a row of more than 20 bytes as JSON"):
        list(ChangesView().batches(log.committed_blocks()))


@given(logs())
def test_lines_of_typed_and_untyped_changes_are_equal(made: tuple[Work, MadeLog]) -> None:
    _, log = made
    for spec in SPECS:
        typed, texts = ChangesView(table=spec.full_name), ChangesView(tables=TableFilter(spec.full_name))
        lines = [
            b"".join(json_lines(b, v.json_styles()) for b in v.batches(log.committed_blocks())) for v in (typed, texts)
        ]
        assert lines[0] == lines[1]


def test_log_gives_changes_itself() -> None:
    log = MadeLog(
        [_group(number, *_inserts(ITEMS, (number, "x", 0)), *_inserts(LOG, (1, b""))) for number in range(1, 8)]
    )
    texts = _rows(log.changes(tables="shop.*", start="0-1-2", end=log.position(5)), changes_schema(pa.string()))
    assert [json.loads(str(row["after"]))["id"] for row in texts] == [3, 4, 5]
    typed = pa.Table.from_batches(list(log.changes(table="shop.items", end="0-1-2"))).to_pylist()
    assert [row["after"] for row in typed] == [{"id": number, 'na"me': "x", "n": 0} for number in (1, 2)]
    assert list(log.changes(exclude_tables=".*")) == []


def test_index_of_a_real_log_gives_its_images() -> None:
    _check_index(SERVER_CASES / "mariadb-10.11" / "oltp_small")


def test_index_of_a_log_with_pages_gives_its_images() -> None:
    _check_index(corpus("innodb-binlog") / "innodb-binlog" / "oltp")


def _check_index(path: Path) -> None:
    with open_log(str(path)) as log, open_log(str(path)) as other:
        (batch,) = TablesView().batches(log.committed_blocks())
        rows = batch.to_pylist()
        assert {row["table"] for row in rows} == {"sbtest1", "sbtest2", "sbtest3", "sbtest4"}
        assert sum(row["inserts"] + row["updates"] + row["deletes"] for row in rows) == 1600
        for row in rows:
            index = _index(row)
            whole = pa.Table.from_batches(ChangefeedView(table=f"sb.{row['table']}").batches(log.committed_blocks()))
            assert pa.Table.from_batches(_from_index(index, other, size_max=20_000)).equals(whole)
            assert len(row["index"]) < 4 * index.columns["page"].size + 3000
