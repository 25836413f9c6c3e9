"""The logs of published workloads give the rows that tables are compared with, and the comparison sees others."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from bench.logs.datasets import Form, write_log
from bench.logs.published import TABLES, write_firenibble, write_taxi
from bench.tables.run import RunPlan, compare_tables, measured_run
from binlog_format import open_log
from binlog_format.views.changefeed import ChangefeedView

if TYPE_CHECKING:
    from pathlib import Path

SHARE = 0.0005
WRITERS = {
    "firenibble": (partial(write_firenibble, share=SHARE), [f"bench.firenibble{n}" for n in range(1, TABLES + 1)]),
    "taxi": (partial(write_taxi, share=SHARE), ["nyc.trips"]),
}


def rows_at_the_end(log: Path, table: str) -> pa.Table:
    """What the log leaves of a table; every row image before a change is what the changes before left."""
    with open_log(str(log)) as opened:
        batches = list(ChangefeedView(table=table).batches(opened.committed_blocks()))
    columns = [name for name in batches[0].schema.names if not name.startswith("_")]
    rows: dict[int, dict[str, object]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            values = {name: row[name] for name in columns}
            if row["_change_type"] in ("delete", "update_preimage"):
                assert rows.pop(row[columns[0]]) == values
            else:
                assert row[columns[0]] not in rows
                rows[row[columns[0]]] = values
    return pa.Table.from_pylist([rows[key] for key in sorted(rows)])


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_the_log_leaves_what_is_expected(tmp_path: Path, name: str) -> None:
    write, tables = WRITERS[name]
    changes, _ = write_log(tmp_path / "log", Form.INNODB, lambda writer: write(writer, tmp_path / "expected"))
    assert changes == {"firenibble": 5000 + 1000, "taxi": 5000}[name]
    assert sorted(path.stem for path in (tmp_path / "expected").iterdir()) == sorted(tables)
    for table in tables:
        expected = pq.read_table(tmp_path / "expected" / f"{table}.parquet")
        assert rows_at_the_end(tmp_path / "log", table).cast(expected.schema).equals(expected)


def test_a_table_that_differs_is_seen(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array(np.arange(10)), "k": pa.array(np.arange(10) * 2)})
    (tmp_path / "expected").mkdir()
    pq.write_table(rows, tmp_path / "expected" / "a.b.parquet")
    wrong = rows.set_column(1, "k", pa.array(np.arange(10) * 2 + (np.arange(10) == 7)))
    for number, (held, fails) in enumerate([(rows, False), (wrong, True), (rows.slice(1), True)]):
        write_deltalake(tmp_path / str(number) / "a" / "b", held)
        try:
            compare_tables(tmp_path / str(number), tmp_path / "expected")
        except AssertionError:
            assert fails
        else:
            assert not fails
    write_deltalake(tmp_path / "0" / "a" / "c", rows)
    with pytest.raises(AssertionError):
        compare_tables(tmp_path / "0", tmp_path / "expected")


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(WRITERS))
def test_a_run_over_it_is_measured_and_proved(tmp_path: Path, name: str) -> None:
    write, _ = WRITERS[name]
    changes, _ = write_log(tmp_path / "log", Form.INNODB, lambda writer: write(writer, tmp_path / "expected"))
    log = str(tmp_path / "log")
    source = (("maxBytesPerTrigger", "2m"),)
    run = measured_run(RunPlan(log, changes, log, "mirror", source=source, expected=str(tmp_path / "expected")))
    assert run.rows_per_s > 0
