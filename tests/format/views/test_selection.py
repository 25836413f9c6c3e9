"""Rows that a later statement of their transaction takes back are never given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.errors import CorruptError, UnsupportedError
from binlog_format.gtid import Gtid
from binlog_format.views.selection import undone_events
from tests.format.views.made_log import MadeGroup, MadeLog, query, xid

if TYPE_CHECKING:
    from binlog_format.block import Block


def _block(*transactions: list[str], piece_events: int = 1000) -> list[Block]:
    groups = [
        MadeGroup(Gtid(0, 1, number), 1_700_000_000, [query(sql) for sql in statements] + [xid()])
        for number, statements in enumerate(transactions, start=1)
    ]
    return list(MadeLog(groups, block_groups=100, piece_events=piece_events).blocks())


def _undone(*transactions: list[str]) -> list[int] | None:
    (block,) = _block(*transactions)
    undone = undone_events(block)
    return None if undone is None else np.flatnonzero(undone).tolist()


def test_nothing_is_undone_without_a_rollback() -> None:
    assert (
        _undone(["SAVEPOINT `a`", "row", "SAVEPOINT `b`", "row"], ["CALL log('ROLLBACK TO `a`')", "ROLLBACKS"]) is None
    )


def test_events_behind_the_savepoint_are_undone() -> None:
    # Event 0 is the GTID, 1 the first row.
    assert _undone(["row", "SAVEPOINT `a`", "row", "row", "ROLLBACK TO `a`", "row"]) == [3, 4]


def test_outer_savepoint_takes_inner_one_with_it() -> None:
    statements = ["SAVEPOINT `a`", "row", "SAVEPOINT `b`", "row", "ROLLBACK TO `a`", "row", "ROLLBACK TO `a`"]
    assert _undone(statements) == [2, 3, 4, 5, 6]


def test_later_savepoint_of_the_same_name_counts() -> None:
    assert _undone(["SAVEPOINT `a`", "row", "savepoint `A`", "row", "rollback to `a`"]) == [4]


def test_rollback_at_the_end_undoes_the_group_alone() -> None:
    assert _undone(["row"], ["row", "row", "ROLLBACK"], ["row"]) == [3, 4, 5]


def test_savepoint_of_another_group_does_not_count() -> None:
    with pytest.raises(UnsupportedError, match="SAVEPOINT_ROLLBACK"):
        _undone(["SAVEPOINT `a`", "row"], ["row", "ROLLBACK TO `a`"])


@pytest.mark.parametrize("last", ["ROLLBACK TO `a`", "ROLLBACK"])
def test_rollback_over_a_block_border_is_refused(last: str) -> None:
    """The rows in the earlier block have been given already."""
    first, second = _block(["SAVEPOINT `a`", "row", "row", last], piece_events=4)
    assert undone_events(first) is None
    with pytest.raises(UnsupportedError, match="SAVEPOINT_ROLLBACK"):
        undone_events(second)


def test_query_event_that_is_too_short_is_damage() -> None:
    (block,) = _block(["row"])
    block.events["size"][1] = 25
    with pytest.raises(CorruptError, match="BAD_EVENT"):
        undone_events(block)


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
    (block,) = _block(statements)
    undone = undone_events(block)
    rows = [number for number, sql in enumerate(statements, start=1) if sql == "row"]
    assert [row for row in rows if undone is None or not undone[row]] == kept
