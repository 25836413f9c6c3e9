"""The main job, end to end: a backlog of 1 GB in sysbench's shape into four tables of each format, with `local[2]`.

The log fills the tables, 250,000 rows each, and then changes rows anywhere in them: 70 of a hundred row changes are
updates, 15 deletes, 15 inserts. What is timed is the job (`TablesJob`, which is what `binlog-stream run` starts) from
the start of its first batch to the end of its last: reading, merging, commits, and planning and checkpoints between
batches. Not timed are the start of Spark, of its workers and of the query's planner, and loading and compiling kernels:
a small log goes through the same session before.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from bench.logs.backlog import GIGABYTE_TRANSACTIONS, ROWS_PER_TABLE, TABLES, backlog, large_transaction
from bench.processes import Role
from bench.registry import benchmark
from bench.tables.run import RunPlan, measured_run

if TYPE_CHECKING:
    from bench.tables.run import TableRun

LARGE_ROWS = 5_000_000
LARGE_TRANSACTIONS = 20_000
"""On one table of that many rows: 400,000 row changes after a load of 1 GB."""
WARM_UP_TRANSACTIONS = 2_000
WARM_UP_ROWS = 2_000
HOT_WARM_UP_ROWS = 1_000_000
"""So many that steps are divided, as they are in what is measured."""
TRANSACTION_ROWS = 20_000_000
MARKED = ("merge", "mark")
HALF = GIGABYTE_TRANSACTIONS // 2


@benchmark("lake.delta.changelog.rows_per_s", unit="rows/s")
def changelog() -> float:
    """Row changes into four Delta tables, mode changelog: all of the log, from the start of the first batch."""
    return _run("changelog", has_limit=True).rows_per_s


@benchmark("lake.delta.changelog.rows_per_cpu_s", unit="rows/s")
def changelog_work() -> float:
    """Row changes of that run in a processor second of all its processes, the query's start included."""
    return _run("changelog", has_limit=True).rows_per_cpu_s


@benchmark("lake.delta.changelog.append_ratio", unit="x")
def changelog_limit() -> float:
    """The time of that run, by what deltalake takes to append the same Arrow data out of memory, in the same run."""
    run = _run("changelog", has_limit=True)
    assert run.limit_s is not None
    return sum(batch.seconds for batch in run.batches) / run.limit_s


@benchmark("lake.delta.mirror.rows_per_s", unit="rows/s")
def mirror() -> float:
    """Row changes into four Delta tables of 250,000 rows, mode mirror (merge): all of the log, measured in this way."""
    return _run("mirror", has_limit=True).rows_per_s


@benchmark("lake.delta.mirror.rows_per_cpu_s", unit="rows/s")
def mirror_work() -> float:
    """Row changes of that run in a processor second of all its processes, the query's start included."""
    return _run("mirror", has_limit=True).rows_per_cpu_s


@benchmark("lake.delta.mirror.merged_rows_per_s", unit="rows/s")
def mirror_merged() -> float:
    """The same without the load: from the first batch on of which more than half are updates."""
    return _run("mirror", has_limit=True).merged_rows_per_s


@benchmark("lake.delta.mirror.merge_ratio", unit="x")
def mirror_limit() -> float:
    """The time of the last batch, by what deltalake's MERGE takes for the same changed rows alone, in the same run."""
    run = _run("mirror", has_limit=True)
    assert run.limit_s is not None
    return run.batches[-1].seconds / run.limit_s


@benchmark("lake.delta.mirror5m.rows_per_s", unit="rows/s")
def large_mirror() -> float:
    """Row changes anywhere in one Delta table of 5,000,000 rows, mode mirror; the load is not timed."""
    return _large_run().merged_rows_per_s


@benchmark("lake.onetable.split2.speedup", unit="x")
def hot_table() -> float:
    """Row changes/s of one table that is filled and changed, mode mirror: two tasks on two cores by one on one."""
    plan = _hot_plan()
    return measured_run(replace(plan, tasks=2)).rows_per_s / measured_run(plan).rows_per_s


@benchmark("lake.onetable.split2.limit", unit="x")
def hot_table_limit() -> float:
    """The same of two jobs that share nothing but the machine, a core each, at the same time, by one of them alone."""
    plan = _hot_plan()
    alone = measured_run(plan).rows_per_s
    with ThreadPoolExecutor() as pool:
        both = list(pool.map(measured_run.__wrapped__, [replace(plan, first_core=core) for core in range(2)]))
    return sum(run.rows_per_s for run in both) / alone


@benchmark("lake.delta.mirror.marked.merged_rows_per_s", unit="rows/s")
def marked_mirror() -> float:
    """`lake.delta.mirror.merged_rows_per_s` with `merge = "mark"`: rows are marked, files stay."""
    return _run("mirror", MARKED).merged_rows_per_s


@benchmark("lake.iceberg.changelog.rows_per_s", unit="rows/s")
def iceberg_changelog() -> float:
    """The backlog into Iceberg tables, mode changelog."""
    return _run("changelog", ("format", "iceberg")).rows_per_s


@benchmark("lake.iceberg.mirror.rows_per_s", unit="rows/s")
def iceberg_mirror() -> float:
    """The backlog into Iceberg tables, mode mirror."""
    return _run("mirror", ("format", "iceberg")).rows_per_s


@benchmark("lake.iceberg.mirror5m.rows_per_s", unit="rows/s")
def large_iceberg_mirror() -> float:
    """`lake.delta.mirror5m.rows_per_s` for an Iceberg table."""
    return _large_run(("format", "iceberg")).merged_rows_per_s


@benchmark("lake.parquet.changelog.rows_per_s", unit="rows/s")
def parquet_changelog() -> float:
    """The backlog into plain Parquet files, mode changelog."""
    return _run("changelog", ("format", "parquet")).rows_per_s


@benchmark("lake.driver.rss_mb", unit="MB")
def driver_memory() -> float:
    """Most memory of the Python driver while the backlog went into mirrors."""
    return _peak_mb(Role.DRIVER)


@benchmark("lake.jvm.rss_mb", unit="MB")
def jvm_memory() -> float:
    """Most memory of the JVM in that run."""
    return _peak_mb(Role.JVM)


@benchmark("lake.workers.rss_mb", unit="MB")
def workers_memory() -> float:
    """Most memory of all Python workers together in that run, what they share counted once."""
    return _peak_mb(Role.WORKERS)


@benchmark("lake.half.workers.rss_mb", unit="MB")
def half_workers_memory() -> float:
    """The same for half of the backlog: the batch decides, not what comes after it."""
    return _peak_mb(Role.WORKERS, transactions=HALF)


@benchmark("lake.transaction.worker.rss_mb", unit="MB")
def transaction_memory() -> float:
    """Most memory of any one worker while one transaction of 4 GB (20,000,000 rows) goes into a mirror."""
    log = large_transaction(TRANSACTION_ROWS)
    warm_up = backlog(transactions=WARM_UP_TRANSACTIONS, tables=1, rows_per_table=WARM_UP_ROWS)
    plan = RunPlan(str(log.path), log.changes, str(warm_up.path), "mirror", watches_memory=True)
    return measured_run(plan).largest[Role.WORKERS] / 1e6


def _peak_mb(role: Role, *, transactions: int = GIGABYTE_TRANSACTIONS) -> float:
    # A run of its own: to look at the memory takes the time of those who work.
    return measured_run(replace(_plan("mirror", transactions=transactions), watches_memory=True)).peaks[role] / 1e6


def _run(mode: str, *sink: tuple[str, str], has_limit: bool = False) -> TableRun:
    return measured_run(replace(_plan(mode, *sink), has_limit=has_limit))


def _plan(mode: str, *sink: tuple[str, str], transactions: int = GIGABYTE_TRANSACTIONS) -> RunPlan:
    log = backlog(transactions=transactions, tables=TABLES, rows_per_table=ROWS_PER_TABLE)
    warm_up = backlog(transactions=WARM_UP_TRANSACTIONS, tables=TABLES, rows_per_table=WARM_UP_ROWS)
    return RunPlan(str(log.path), log.changes, str(warm_up.path), mode, sink)


def _hot_plan() -> RunPlan:
    log = backlog(transactions=LARGE_TRANSACTIONS, tables=1, rows_per_table=LARGE_ROWS)
    warm_up = backlog(transactions=WARM_UP_TRANSACTIONS, tables=1, rows_per_table=HOT_WARM_UP_ROWS)
    return RunPlan(str(log.path), log.changes, str(warm_up.path), "mirror", tasks=1)


def _large_run(*sink: tuple[str, str]) -> TableRun:
    log = backlog(transactions=LARGE_TRANSACTIONS, tables=1, rows_per_table=LARGE_ROWS)
    warm_up = backlog(transactions=WARM_UP_TRANSACTIONS, tables=1, rows_per_table=WARM_UP_ROWS)
    return measured_run(RunPlan(str(log.path), log.changes, str(warm_up.path), "mirror", sink))
