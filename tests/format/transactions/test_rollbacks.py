"""Rows that a later statement of their transaction takes back: which events those are."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.errors import CorruptError
from binlog_format.events.layout import EVENT_TYPE_OFFSET, GTID_FLAG_TRANSACTIONAL, EventType
from binlog_format.gtids.gtid import Gtid
from binlog_format.transactions.control_statements import outcome_of, read_control_statements
from tests.format.classic.logs import file_of, raw_events, with_checksum
from tests.format.transactions.transaction_log import Transaction, TransactionLog, Vendor, reported
from tests.format.views.made_log import MadeGroup, MadeLog, query, xid

if TYPE_CHECKING:
    from binlog_format.log.log import Log


def _log(*transactions: list[str], piece_events: int = 1000, flags: int = 0) -> MadeLog:
    groups = [
        MadeGroup(Gtid(0, 1, number), 1_700_000_000, [_event(sql) for sql in statements] + [xid()], flags)
        for number, statements in enumerate(transactions, start=1)
    ]
    return MadeLog(groups, block_groups=100, piece_events=piece_events)


def _event(sql: str) -> bytes:
    """A statement; for "row" an event of another type, with the same bytes."""
    event = bytearray(query(sql))
    if sql == "row":
        event[EVENT_TYPE_OFFSET] = EventType.WRITE_ROWS_V1
    return bytes(event)


def _kept(log: MadeLog) -> list[tuple[int, int]]:
    """Group and number of each event that is left."""
    return [
        (int(block.groups["seqno"][event["group"]]), int(event["event_no"]))
        for block in log.committed_blocks()
        for event in block.events
    ]


def _undone(*statements: str) -> list[int]:
    """Numbers of the events that a transaction takes back; event 0 is the GTID."""
    log = _log(list(statements))
    (block,) = log.blocks()
    outcome = outcome_of(read_control_statements(block).of_group(0), block)
    undone = np.flatnonzero(outcome.is_undone(block.events["event_no"])).tolist()
    is_row = block.events["type"] == EventType.WRITE_ROWS_V1
    expected = [number for number in range(len(block.events)) if number not in undone or not is_row[number]]
    assert [number for _, number in _kept(log)] == expected
    assert [number for _, number in _kept(_log(list(statements), piece_events=2))] == expected
    return undone


def test_nothing_is_undone_without_a_rollback() -> None:
    assert _undone("SAVEPOINT `a`", "row", "SAVEPOINT `b`", "row") == []
    assert _undone("CALL log('ROLLBACK TO `a`')", "ROLLBACKS") == []


def test_block_without_marks_passes_as_it_is() -> None:
    (block,) = _log(["row"], ["SAVEPOINT `a`", "row"]).blocks()
    assert len(read_control_statements(block).table) == 1
    log = _log(["row"], ["SAVEPOINT `a`", "row"])
    log.blocks = lambda *_, **__: iter([block])  # type: ignore[method-assign]
    (passed,) = log.committed_blocks()
    assert passed is block


def test_events_after_the_savepoint_are_undone() -> None:
    assert _undone("row", "SAVEPOINT `a`", "row", "row", "ROLLBACK TO `a`", "row") == [3, 4]


def test_outer_savepoint_takes_inner_one_with_it() -> None:
    statements = ["SAVEPOINT `a`", "row", "SAVEPOINT `b`", "row", "ROLLBACK TO `a`", "row", "ROLLBACK TO `a`"]
    assert _undone(*statements) == [2, 3, 4, 5, 6]


def test_later_savepoint_of_the_same_name_counts() -> None:
    assert _undone("SAVEPOINT `a`", "row", "savepoint `A`", "row", "rollback to `a`") == [4]


def test_names_are_the_same_however_they_are_quoted() -> None:
    assert _undone("SAVEPOINT `a``b`", "row", 'ROLLBACK WORK TO SAVEPOINT "A`B"') == [2]
    assert _undone("/* app */ SAVEPOINT a", "row", "-- why\nROLLBACK /* not */ TO `a`") == [2]


def test_rollback_at_the_end_undoes_the_group_alone() -> None:
    log = _log(["row"], ["row", "row", "ROLLBACK"], ["row"])
    assert _kept(log) == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 3), (2, 4), (3, 0), (3, 1), (3, 2)]


def test_statements_are_kept_where_rows_are_taken_back() -> None:
    """They may be about tables without transactions, or temporary ones."""
    log = _log(["INSERT INTO myisam VALUES (1)", "row", "CREATE TEMPORARY TABLE t (a int)", "ROLLBACK"])
    assert _kept(log) == [(1, 0), (1, 1), (1, 3), (1, 4), (1, 5)]


def test_savepoint_of_another_group_does_not_count() -> None:
    with pytest.raises(
        CorruptError, match=r"BAD_EVENT.*binlog file 0.*savepoint a, which the event group does not have"
    ):
        _kept(_log(["SAVEPOINT `a`", "row"], ["row", "ROLLBACK TO `a`"]))


@pytest.mark.parametrize("flags", [0, GTID_FLAG_TRANSACTIONAL])
def test_savepoint_in_an_earlier_piece_counts(flags: int) -> None:
    log = _log(["row", "row", "SAVEPOINT `a`", "row", "row", "ROLLBACK TO `a`", "row"], piece_events=2, flags=flags)
    assert _kept(log) == [(1, number) for number in (0, 1, 2, 3, 6, 7, 8)]


def test_rollback_at_the_end_undoes_earlier_pieces() -> None:
    assert _kept(_log(["row", "row", "ROLLBACK"], piece_events=2)) == [(1, 0), (1, 3), (1, 4)]


def test_large_transaction_that_may_be_undone_is_read_ahead_once() -> None:
    log = _log(["row"] * 20, piece_events=3)
    reads = _count_reads(log)
    assert len(_kept(log)) == 22
    assert len(reads) == 2


@pytest.mark.parametrize("vendor", [Vendor.MARIADB, Vendor.MARIADB_COMPRESSED, Vendor.MYSQL])
@pytest.mark.parametrize(("end", "count"), [("commit", 1), ("rollback", 2)])
def test_large_transaction_of_a_classic_log_is_read_once_when_it_ends_in_an_xid(
    vendor: Vendor, end: str, count: int
) -> None:
    """A rollback of a temporary table's transaction looks safe to MariaDB, too."""
    made = TransactionLog([Transaction([("row", 300)] * 20, end, is_safe=True)], vendor)
    log = made.open(500)
    reads = _count_reads(log)
    rows = reported(log.committed_blocks())
    assert len(rows) == (20 if end == "commit" else 0)
    assert len(reads) == count


def test_large_group_that_contradicts_its_end_is_damage() -> None:
    """Its first rows have been given: it ends as one that takes nothing back."""
    made = TransactionLog([Transaction([("row", 300)] * 20)], Vendor.MARIADB)
    events = raw_events(made.files["bin.000001"])
    events.insert(-1, with_checksum(query("ROLLBACK TO `a`")))
    made.files["bin.000001"] = file_of(events)
    with pytest.raises(CorruptError, match=r"BAD_EVENT.*takes back rows, though"):
        reported(made.open(500).committed_blocks())


def _count_reads(log: Log) -> list[object]:
    reads: list[object] = []
    blocks = log.blocks

    def counted(start: object = None, end: object = None) -> object:
        reads.append(start)
        return blocks(start, end)  # type: ignore[arg-type]

    log.blocks = counted  # type: ignore[method-assign, assignment]
    return reads


def test_query_event_that_is_too_short_is_damage() -> None:
    (block,) = _log(["SAVEPOINT `a`"]).blocks()
    block.events["size"][1] = 25
    with pytest.raises(CorruptError, match="BAD_EVENT"):
        read_control_statements(block)


@given(st.lists(st.tuples(st.sampled_from(["row", "save", "back"]), st.integers(0, 2)), max_size=25))
def test_savepoints_nest_as_in_a_server(actions: list[tuple[str, int]]) -> None:
    """Against a model that keeps the rows of a transaction in a list."""
    statements: list[str] = []
    kept: list[int] = []
    points: list[tuple[int, int]] = []
    for action, name in actions:
        event = len(statements) + 1
        if action == "row":
            statements.append("row")
            kept.append(event)
        elif action == "save":
            statements.append(f"SAVEPOINT `s{name}`")
            points = [point for point in points if point[0] != name]
            points.append((name, len(kept)))
        elif any(point[0] == name for point in points):
            statements.append(f"ROLLBACK TO `s{name}`")
            while points[-1][0] != name:
                points.pop()
            del kept[points[-1][1] :]
    undone = _undone(*statements)
    rows = [number for number, sql in enumerate(statements, start=1) if sql == "row"]
    assert [row for row in rows if row not in undone] == kept


@given(st.binary(min_size=1, max_size=120), st.integers(0, 200))
def test_damaged_query_events_never_make_a_kernel_read_past_them(junk: bytes, place: int) -> None:
    (block,) = _log(["SAVEPOINT `a`", "row", "ROLLBACK TO `a`"]).blocks()
    place = min(place, len(block.data) - 1)
    block.data[place : place + len(junk)] = np.frombuffer(junk, np.uint8)[: len(block.data) - place]
    with contextlib.suppress(CorruptError):
        outcome = outcome_of(read_control_statements(block).of_group(0), block)
        assert all(0 < first < stop <= len(block.events) for first, stop in outcome.undone)
