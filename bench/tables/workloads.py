"""The main job on published workloads, contents proved, and on inserts alone: `lake.firenibble.*`, `lake.olake.*`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bench.logs.backlog import ROWS_PER_TABLE, TABLES, backlog
from bench.logs.published import firenibble_log, taxi_log
from bench.processes import Role
from bench.registry import benchmark, share
from bench.tables.run import RunPlan, measured_run

if TYPE_CHECKING:
    from bench.logs.published import PublishedLog

WARM_UP_SHARE = 0.002
APPEND_ROWS = 16 * ROWS_PER_TABLE


@benchmark("lake.firenibble.rows_per_s", unit="rows/s")
def firenibble() -> float:
    """2 M inserts, 6 M updates, 2 M deletes of single rows in ten mirrors; the load before is not timed."""
    return measured_run(firenibble_plan()).merged_rows_per_s


@benchmark("lake.firenibble.worker.rss_mb", unit="MB")
def firenibble_memory() -> float:
    """Most memory of any one worker meanwhile: ten tables of 16 columns change in each batch of the default size."""
    return measured_run(replace(firenibble_plan(), watches_memory=True)).largest[Role.WORKERS] / 1e6


@benchmark("lake.olake.rows_per_s", unit="rows/s")
def olake() -> float:
    """10 M inserts of taxi trips, as in OLake's benchmark, into a mirror."""
    return measured_run(_plan(taxi_log(share()), taxi_log(WARM_UP_SHARE))).rows_per_s


@benchmark("lake.append.rows_per_s", unit="rows/s")
def append() -> float:
    """4 M inserts in sysbench's shape into four mirrors: nothing in them is superseded."""
    rows = max(1, round(share() * APPEND_ROWS / TABLES / 1000)) * 1000
    log = backlog(transactions=0, tables=TABLES, rows_per_table=rows)
    warm_up = backlog(transactions=0, tables=TABLES, rows_per_table=2000)
    return measured_run(RunPlan(str(log.path), log.changes, str(warm_up.path), "mirror")).rows_per_s


def firenibble_plan() -> RunPlan:
    """Mirrors of ten tables that change."""
    return _plan(firenibble_log(share()), firenibble_log(WARM_UP_SHARE))


def _plan(published: PublishedLog, warm_up: PublishedLog) -> RunPlan:
    return RunPlan(
        str(published.log.path),
        published.log.changes,
        str(warm_up.log.path),
        "mirror",
        expected=str(published.expected),
    )
