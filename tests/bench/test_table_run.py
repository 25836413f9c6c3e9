"""A run of the job over a small backlog, measured as the large one is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from bench.logs.backlog import CHANGES, write_groups
from bench.logs.datasets import Form, write_log
from bench.processes import Role
from bench.tables.run import BatchRun, RunPlan, TableRun, measured_run

if TYPE_CHECKING:
    from pathlib import Path


def test_rates_count_all_batches_or_those_after_the_load() -> None:
    batches = (BatchRun(60, 0, 0.5), BatchRun(40, 10, 0.5), BatchRun(40, 30, 2.0), BatchRun(20, 0, 2.0))
    run = TableRun(batches, {"driver": 1.0, "jvm": 3.0}, {}, {}, None)
    assert (run.rows_per_s, run.merged_rows_per_s, run.rows_per_cpu_s) == (32.0, 15.0, 40.0)


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["mirror", "changelog"])
def test_a_run_counts_every_change_and_says_what_it_took(tmp_path: Path, mode: str) -> None:
    write = partial(write_groups, transactions=50, tables=2, rows_per_table=1000)
    changes, _ = write_log(tmp_path / "log", Form.INNODB, write)
    assert changes == 50 * CHANGES + 2000
    log = str(tmp_path / "log")
    source = (("maxBytesPerTrigger", "500k"),)
    run = measured_run(RunPlan(log, changes, log, mode, source=source, has_limit=True, watches_memory=True))
    assert len(run.batches) > 1
    assert sum(batch.updates for batch in run.batches) == 50 * 14
    assert run.rows_per_s > 0
    assert min(run.cpu_s[role] for role in Role) > 0
    assert min(run.peaks[role] for role in Role) > 10_000_000
    assert run.limit_s is not None
    assert run.limit_s > 0
