"""The log that speed is measured on must be a log that makes sense."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from bench.logs.datasets import Form, write_log
from bench.logs.sysbench_log import TABLES, write_groups
from binlog_format import open_log
from tests.bench.parts import rows_left

if TYPE_CHECKING:
    from pathlib import Path

TRANSACTIONS = 1500
ROWS = 300


@pytest.fixture(scope="module", params=list(Form))
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("log")
    write = partial(write_groups, transactions=TRANSACTIONS, tables=TABLES, rows_per_table=ROWS)
    changes, size = write_log(directory, request.param, write)
    assert (changes, size > 1 << 20) == (4 * TRANSACTIONS + TABLES * ROWS, True)
    return directory


def test_every_image_before_is_what_the_changes_before_left(log: Path) -> None:
    changes = 0
    with open_log(str(log)) as opened:
        for number in range(1, TABLES + 1):
            rows, kinds = rows_left(opened, f"sbtest.sbtest{number}")
            changes += kinds.total() - kinds["update_preimage"]
            assert len(rows) == ROWS
    assert changes == 4 * TRANSACTIONS + TABLES * ROWS


def test_transactions_have_sysbench_s_events(log: Path) -> None:
    with open_log(str(log)) as opened:
        last = list(opened.blocks())[-1]
    group = last.groups[-1]
    events = last.events[group["first_event"] : group["first_event"] + group["event_count"]]
    statement = [160, 19]
    assert events["type"].tolist() == [162, *statement, 24, *statement, 24, *statement, 25, *statement, 23, 16]
    loads = TABLES * -(-ROWS // 500)
    assert (group["seqno"], group["oob_records"]) == (TRANSACTIONS + loads, 0)
