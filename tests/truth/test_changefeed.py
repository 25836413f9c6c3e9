"""The view `changefeed` of every table: the same images as the truth, before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from binlog_format import open_log
from binlog_format.views.changefeed import ChangefeedView
from tests.truth.cases import NAMED, case
from tests.truth.comparison import Comparison
from tests.truth.reading import Change
from tests.truth.test_changes import tables_of

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_format import Position

OPS = {"insert": "insert", "update_preimage": "update", "delete": "delete"}


def fed_changes(path: Path, table: str, start: Position | None, end: Position | None) -> list[Change]:
    """Changes made of the rows of the view."""
    with open_log(str(path)) as log:
        view = ChangefeedView(table=table)
        rows = [row for batch in view.batches(log.committed_blocks(start, end)) for row in batch.to_pylist()]
    found: list[Change] = []
    for row in rows:
        image = {name: value for name, value in row.items() if not name.startswith("_")}
        kind = row["_change_type"]
        order = _order(row)
        if kind == "update_postimage":
            assert found[-1].order == order
            last = found.pop()
            found.append(Change(last.gtid, "update", table, last.before, image, (), order))
        elif kind == "insert":
            found.append(Change(row["_gtid"], "insert", table, None, image, (), order))
        else:
            found.append(Change(row["_gtid"], OPS[kind], table, image, None, (), order))
    return found


def _order(row: dict[str, Any]) -> tuple[int, ...]:
    place = row["_position"]
    return (place["file_no"], place["page"], place["chunk"], row["_event_no"], row["_row_no"])


@pytest.mark.parametrize(("name", "table"), tables_of(NAMED))
def test_changefeed_of_one_table(name: str, table: str) -> None:
    truth = case(name)
    compared = 0
    for epoch in truth.epochs(table):
        got = fed_changes(truth.path, table, epoch.start, epoch.end)
        compared += Comparison(truth, typed=True).compare(got, epoch.changes).all_changes
    assert compared == len(truth.logged(table))
