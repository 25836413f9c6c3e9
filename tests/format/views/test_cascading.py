"""Row events that foreign keys may carry on: how many there are, and where the first one is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pytest

from binlog_format import open_log
from binlog_format.events.layout import EventType
from binlog_format.events.table_map_layout import (
    ROWS_FLAG_NO_FOREIGN_KEY_CHECKS,
    ROWS_FLAG_SQL_FOREIGN_KEYS,
    TABLE_FLAGS_OFFSET,
)
from binlog_format.gtids.gtid import Gtid
from binlog_format.gtids.gtid_set import DomainStarts
from binlog_format.position import Position
from binlog_format.vendor import Vendor
from binlog_format.views.cascading import RowEnds, first_cascading, have_logged_cascades
from binlog_format.views.filters import GroupFilter, TableFilter
from binlog_format.views.tables import TablesView
from binlog_lab.event_encoding.event_encoding import Origin, encode_event
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableEncoder, TableSpec
from tests.format.views.made_log import MadeGroup, MadeLog, xid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_format.views.cascading import CascadingChange
    from binlog_lab.demo.mariadb.server import MariaDbServer
    from binlog_lab.event_encoding.value_encoding import Value

ORIGIN = Origin(1_700_000_001, 7)
PARENT = TableSpec("shop", "parent", (ColumnSpec("id", "int"), ColumnSpec("Code", "int", nullable=True)), ("id",))
OTHER = TableSpec("shop", "other", PARENT.columns, ("id",))
Pair = tuple[tuple["Value", ...], tuple["Value", ...]]


def _unchecked(event: bytes, flag: int = ROWS_FLAG_NO_FOREIGN_KEY_CHECKS) -> bytes:
    """As of a session with foreign_key_checks=0."""
    flags = event[TABLE_FLAGS_OFFSET] | flag
    return event[:TABLE_FLAGS_OFFSET] + bytes([flags]) + event[TABLE_FLAGS_OFFSET + 1 :]


def _deletes(*ids: int, spec: TableSpec = PARENT, checked: bool = True) -> list[bytes]:
    encoder = TableEncoder(spec, 5 if spec is PARENT else 6)
    events = encoder.delete([(number, number) for number in ids], ORIGIN)
    return [encoder.table_map(ORIGIN), *(event if checked else _unchecked(event) for event in events)]


def _updates(*pairs: Pair, spec: TableSpec = PARENT, checked: bool = True) -> list[bytes]:
    encoder = TableEncoder(spec, 5 if spec is PARENT else 6)
    events = encoder.update(pairs, ORIGIN)
    return [encoder.table_map(ORIGIN), *(event if checked else _unchecked(event) for event in events)]


def _log(*groups: list[bytes], block_groups: int = 3) -> MadeLog:
    made = [
        MadeGroup(Gtid(0, 1, number), 1_700_000_000, [*events, xid(number)]) for number, events in enumerate(groups, 1)
    ]
    return MadeLog(made, block_groups=block_groups)


def _rows(view: TablesView, log: MadeLog) -> list[dict[str, object]]:
    return [row for batch in view.batches(log.committed_blocks()) for row in batch.to_pylist()]


def _first(
    log: MadeLog, *, deletes: bool = False, columns: Iterable[str] = (), groups: GroupFilter | None = None
) -> CascadingChange | None:
    return first_cascading(
        log.committed_blocks(),
        "shop.parent",
        deletes=deletes,
        columns=frozenset(columns),
        groups=groups or GroupFilter(),
    )


SAME: Pair = ((1, 2), (1, 2))
CODE: Pair = ((1, 2), (1, 3))
CODE_NULL: Pair = ((1, 2), (1, None))
ID: Pair = ((1, 2), (7, 2))


def test_events_without_checks_of_foreign_keys_are_not_counted() -> None:
    log = _log(
        _deletes(1, 2), _deletes(3, checked=False), _updates(SAME, CODE), _updates(ID, checked=False), _deletes(4)
    )
    (row,) = _rows(TablesView(), log)
    assert (row["updates"], row["deletes"]) == (3, 4)
    assert (row["checked_updates"], row["checked_deletes"]) == (1, 2)


def _by_sql_layer(events: list[bytes]) -> list[bytes]:
    """As of MySQL 9.6 and newer with its default `innodb_native_foreign_keys=OFF`."""
    return [events[0], *(_unchecked(event, ROWS_FLAG_SQL_FOREIGN_KEYS) for event in events[1:])]


def test_each_event_states_whether_its_cascades_are_logged() -> None:
    """One log may have both kinds: a replica logs what an older source sent without the flag."""
    groups = (_by_sql_layer(_deletes(1)), _by_sql_layer(_updates(ID)), _deletes(2), _updates(CODE))
    (block,) = _log(*groups, block_groups=9).committed_blocks()
    of_mysql = replace(block, vendor=Vendor.MYSQL)
    (row,) = (row for batch in TablesView().batches([of_mysql]) for row in batch.to_pylist())
    assert (row["checked_updates"], row["checked_deletes"]) == (1, 1)
    first = first_cascading([of_mysql], "shop.parent", deletes=True, columns={"id"})
    assert first is not None
    assert first.position == Position.of(block.groups[2])
    events = [np.flatnonzero(block.events["group"] == group)[2:3] for group in range(4)]
    assert [have_logged_cascades(of_mysql, one) for one in events] == [True, True, False, False]
    # MariaDB gives that bit no meaning: what it does not define proves nothing.
    of_mariadb = first_cascading([block], "shop.parent", deletes=True)
    assert of_mariadb is not None
    assert of_mariadb.position == Position.of(block.groups[0])


@pytest.mark.parametrize("block_groups", [1, 3])
def test_tables_that_are_not_wanted_are_counted_where_asked_for(block_groups: int) -> None:
    log = _log(
        _deletes(1),
        _deletes(1, spec=OTHER),
        _updates(SAME, spec=OTHER),
        _deletes(2, spec=OTHER),
        block_groups=block_groups,
    )
    wanted = TableFilter("shop.parent")
    (alone,) = _rows(TablesView(tables=wanted), log)
    both = _rows(TablesView(tables=wanted, counts_others=True), log)
    assert both[0] == alone
    (other,) = both[1:]
    told = {name: value for name, value in other.items() if value is not None}
    assert told == {
        "start": alone["start"], "end": alone["end"], "database": "shop", "table": "other", "checked_updates": 1,
        "checked_deletes": 2, "checked_outside": 0,
    }  # fmt: skip


def test_tables_in_which_nothing_can_be_carried_on_are_not_told() -> None:
    inserting = TableEncoder(OTHER, 6)
    inserts = [inserting.table_map(ORIGIN), *inserting.insert([(1, 1)], ORIGIN)]
    log = _log(inserts, _deletes(1, spec=OTHER, checked=False))
    assert _rows(TablesView(tables=TableFilter("shop.parent"), counts_others=True), log) == []


def test_groups_that_are_not_wanted_do_not_count() -> None:
    log = _log(_deletes(1, spec=OTHER), _deletes(2, spec=OTHER))
    (block,) = log.committed_blocks()
    groups = GroupFilter(skip=DomainStarts({0: Position.of(block.groups[1])}))
    (row,) = _rows(TablesView(tables=TableFilter("shop.parent"), groups=groups, counts_others=True), log)
    assert row["checked_deletes"] == 1
    found = _first(_log(_deletes(1), _deletes(2)), deletes=True, groups=groups)
    assert found is not None
    assert found.gtid == "0-1-2"


@pytest.mark.parametrize("block_groups", [1, 2, 9])
def test_first_change_is_found_with_its_place(block_groups: int) -> None:
    log = _log(
        _deletes(1, spec=OTHER),
        _deletes(1, checked=False),
        _updates(SAME),
        _updates(SAME, CODE),
        _deletes(2),
        _updates(ID),
        block_groups=block_groups,
    )
    for settings, group in (
        ({"deletes": True}, 4),
        ({"columns": ["code"]}, 3),
        ({"columns": ["ID"]}, 5),
        ({"columns": ["id"], "deletes": True}, 4),
        ({"columns": ["id", "CODE"], "deletes": True}, 3),
    ):
        found = _first(log, **settings)
        assert found is not None
        assert (found.position, found.gtid) == (log.position(group), f"0-1-{group + 1}")
        assert (found.event_no, found.is_delete) == (2, group == 4)
    assert _first(log) is None
    assert _first(log, columns=["other"]) is None


@pytest.mark.parametrize(("pair", "changes"), [(SAME, False), (CODE, True), (CODE_NULL, True), (CODE_NULL[::-1], True),
                                               (((1, None), (1, None)), False), (ID, False)])  # fmt: skip
def test_update_changes_a_column_when_its_values_differ(pair: Pair, changes: bool) -> None:
    assert (_first(_log(_updates(SAME, pair)), columns=["code"]) is not None) is changes
    assert _first(_log(_updates(pair, checked=False)), columns=["code"]) is None


def _minimal(before: bytes, after: bytes, rows: bytes) -> list[bytes]:
    # Table id 5, no flags, 2 columns; then which columns the images have.
    body = (5).to_bytes(6, "little") + bytes(2) + b"\2" + before + after + rows
    return [TableEncoder(PARENT, 5).table_map(ORIGIN), encode_event(EventType.UPDATE_ROWS_V1, body, ORIGIN)]


def test_column_that_the_image_before_lacks_was_changed_when_it_was_set() -> None:
    """As with binlog_row_image=MINIMAL: the key before, what was set after."""
    seven = (7).to_bytes(4, "little")
    log = _log(_minimal(b"\1", b"\2", b"\0" + seven + b"\0" + seven))
    assert _first(log, columns=["code"]) is not None
    assert _first(log, columns=["id"]) is None


_PERIOD = (ColumnSpec("row_start", "timestamp(6)"), ColumnSpec("row_end", "timestamp(6)"))
VERSIONED = TableSpec("shop", "parent", (*PARENT.columns, *_PERIOD), ("id", "row_end"))
NUMBERED = TableSpec(
    "shop",
    "parent",
    (*PARENT.columns, ColumnSpec("rs", "bigint unsigned"), ColumnSpec("re", "bigint unsigned")),
    ("id",),
)
_BEGUN, _ENDED = (datetime(2026, 5, day, tzinfo=UTC) for day in (1, 2))
_OPEN_ENDS = [datetime(*last, 999_999, tzinfo=UTC) for last in ((2038, 1, 19, 3, 14, 7), (2106, 2, 7, 6, 28, 15))]


def _is_delete(spec: TableSpec, events: Iterable[bytes], ends: RowEnds | None) -> bool:
    log = _log([TableEncoder(spec, 5).table_map(ORIGIN), *events])
    first = first_cascading(
        log.committed_blocks(), "shop.parent", deletes=True, ends_of=None if ends is None else lambda *_: ends
    )
    return first is not None and first.is_delete


@pytest.mark.parametrize("open_end", _OPEN_ENDS)
def test_end_of_a_version_is_a_delete_for_foreign_keys(open_end: datetime) -> None:
    encoder = TableEncoder(VERSIONED, 5)
    current, ended = (1, 1, _BEGUN, open_end), (1, 1, _BEGUN, _ENDED)
    events = [
        list(encoder.update([(current, ended)], ORIGIN)),
        list(encoder.update([(current, (1, 2, _ENDED, open_end))], ORIGIN)),
        list(encoder.delete([ended], ORIGIN)),
        list(encoder.delete([current], ORIGIN)),
    ]
    known, not_versioned = RowEnds((3,), True), RowEnds((), True)
    assert [_is_delete(VERSIONED, one, known) for one in events] == [True, False, False, True]
    assert [_is_delete(VERSIONED, one, not_versioned) for one in events] == [False, False, True, True]
    # What nothing states may be: each delete counts, and each update that looks like the end of a version.
    assert [_is_delete(VERSIONED, one, None) for one in events] == [True, False, True, True]


def test_end_of_a_version_with_numbers_of_transactions() -> None:
    encoder, last = TableEncoder(NUMBERED, 5), (1 << 64) - 1
    assert _is_delete(NUMBERED, encoder.update([((1, 1, 5, last), (1, 1, 5, 9))], ORIGIN), RowEnds((3,), True))
    assert not _is_delete(NUMBERED, encoder.update([((1, 1, 5, last), (1, 2, 9, last))], ORIGIN), RowEnds((3,), True))


def test_update_of_a_table_that_may_have_versions_counts_as_both() -> None:
    encoder = TableEncoder(VERSIONED, 5)
    update = encoder.update([((1, 1, _BEGUN, _OPEN_ENDS[0]), (1, 2, _ENDED, _OPEN_ENDS[0]))], ORIGIN)
    (row,) = _rows(TablesView(), _log([encoder.table_map(ORIGIN), *update]))
    assert (row["updates"], row["deletes"], row["checked_updates"], row["checked_deletes"]) == (1, 0, 1, 1)


@pytest.mark.server
def test_server_marks_events_of_sessions_without_checks(mariadb_server: MariaDbServer) -> None:
    with mariadb_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET binlog_format=ROW")
        cursor.execute("SET GLOBAL binlog_row_metadata=FULL")
        cursor.execute("CREATE DATABASE shop")
        cursor.execute("CREATE TABLE shop.parent (id INT PRIMARY KEY, code INT)")
        cursor.execute("CREATE TABLE shop.child (p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)")
        cursor.execute("INSERT INTO shop.parent VALUES (1, 1), (2, 2), (3, 3)")
        cursor.execute("INSERT INTO shop.child VALUES (1), (2), (3)")
        cursor.execute("SET foreign_key_checks=0")
        cursor.execute("DELETE FROM shop.parent WHERE id = 1")
        cursor.execute("SET foreign_key_checks=1")
        cursor.execute("UPDATE shop.parent SET code = 9 WHERE id = 2")
        cursor.execute("DELETE FROM shop.parent WHERE id = 2")
        cursor.execute("SELECT p FROM shop.child ORDER BY p")
        assert cursor.fetchall() == ((1,), (3,))
        cursor.execute("SELECT @@last_insert_id, @@gtid_binlog_pos")
        gtid = cursor.fetchone()[1]
    with open_log(str(mariadb_server.binlog_directory)) as log:
        view = TablesView(tables=TableFilter(r"shop\.child"), counts_others=True)
        rows = [row for batch in view.batches(log.committed_blocks()) for row in batch.to_pylist()]
        (parent,) = [row for row in rows if row["table"] == "parent"]
        first = first_cascading(log.committed_blocks(), "shop.parent", deletes=True, columns={"id"})
    assert (parent["checked_updates"], parent["checked_deletes"]) == (1, 1)
    assert first is not None
    assert (first.gtid, first.is_delete) == (gtid, True)
