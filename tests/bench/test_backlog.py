"""The backlog that tables are measured on must be a log that makes sense."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from bench.logs.backlog import CHANGES, Shop, write_groups
from bench.logs.datasets import Form, write_log
from binlog_format import open_log
from binlog_format.views.changefeed import ChangefeedView
from tests.bench.parts import rows_left

if TYPE_CHECKING:
    from pathlib import Path

    from bench.logs.backlog import Group

TABLES = 3
ROWS = 1000
TRANSACTIONS = 1200


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("log")
    write = partial(write_groups, transactions=TRANSACTIONS, tables=TABLES, rows_per_table=ROWS)
    changes, _ = write_log(directory, Form.INNODB, write)
    assert changes == CHANGES * TRANSACTIONS + TABLES * ROWS
    return directory


def test_every_image_before_is_what_the_changes_before_left(log: Path) -> None:
    kinds: Counter[str] = Counter()
    with open_log(str(log)) as opened:
        for number in range(1, TABLES + 1):
            rows, of_table = rows_left(opened, f"sbtest.sbtest{number}")
            assert sorted(rows) == list(range(1, ROWS + 1))
            assert abs(of_table["delete"] - 3 * TRANSACTIONS / TABLES) <= 9  # spread over tables
            kinds += of_table
    of_changes = [kinds["update_postimage"], kinds["insert"] - TABLES * ROWS, kinds["delete"]]
    assert [count / TRANSACTIONS / CHANGES for count in of_changes] == [0.7, 0.15, 0.15]


def test_updates_change_what_they_say(log: Path) -> None:
    with open_log(str(log)) as opened:
        batches = list(ChangefeedView(table="sbtest.sbtest1").batches(opened.committed_blocks()))
    rows = pa.Table.from_batches(batches).to_pylist()
    before = [row for row in rows if row["_change_type"] == "update_preimage"]
    after = [row for row in rows if row["_change_type"] == "update_postimage"]
    ways = Counter(
        (new["k"] - old["k"], new["c"] != old["c"], new["pad"] != old["pad"])
        for old, new in zip(before, after, strict=True)
    )
    assert ways[(1, False, False)] == len(before) / 2
    # A text may be drawn that is there.
    assert ways[(1, False, False)] + ways[(0, True, False)] + ways[(0, False, False)] == len(before)


def test_chosen_tables_alone_are_loaded_and_changed() -> None:
    shop = Shop(TABLES, ROWS)

    def tables(groups: list[Group]) -> set[int]:
        named = [statements for _, _, (statements, _) in groups]
        return {table for table in range(TABLES) if any(b"sbtest%d" % (table + 1) in one for one in named)}

    assert tables(list(shop.load(range(1)))) == {0}
    assert tables(list(shop.load(range(1, TABLES)))) == {1, 2}
    assert tables(list(shop.transactions(4, range(1, 2)))) == {1}
