"""One run of a job over a log, in a process of its own: `measured_run(...)` gives a `TableRun`.

A new process each time: so the memory is that of the run, and no run profits from what another has compiled. In it the
job first runs over a small log with the same tables; that starts Spark and its workers, loads the kernels, and has the
JVM compile most of what it runs. Then the clock starts, with the first batch of the log that is measured.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bench.processes import MemoryWatch, Role, cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from binlog_streaming.job_state.progress import BatchProgress

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What is run.

    Attributes:
        warm_up: Directory of a small one in the same shape.
        sink: Settings of the sink, beside the directory.
        source: Settings of the source, beside the path.
        has_limit: Whether the limit is measured too.
        watches_memory: Whether memory is looked at; while it is, the kernel holds up those that take some.
        tasks: That run at the same time, each with a core of its own: no more cores are taken.
        first_core: The first of these, counted from 0.
        evidence: What is compared of rows that change.
        expected: Directory with what the tables must hold in the end: `<database>.<table>.parquet` for each, in the
            order of their first columns; empty: they are not compared.
    """

    log: str
    changes: int
    warm_up: str
    mode: str
    sink: tuple[tuple[str, str], ...] = ()
    source: tuple[tuple[str, str], ...] = ()
    has_limit: bool = False
    watches_memory: bool = False
    tasks: int = 2
    first_core: int = 0
    evidence: str = "keys"
    expected: str = ""


@dataclass(frozen=True, slots=True)
class BatchRun:
    """A batch.

    Attributes:
        seconds: From the end of the batch before; of the first one, from its start.
    """

    changes: int
    updates: int
    seconds: float


@dataclass(frozen=True, slots=True)
class TableRun:
    """What came out.

    Attributes:
        batches: From the first to the last.
        cpu_s: Processor seconds, by role, from when the query was asked for to its end.
        peaks: Most memory in that time, in bytes, by role; none where it was not looked at.
        largest: The same of one process.
        limit_s: Seconds that deltalake took for the same data without a log, after the run: to append all of them in
            mode changelog, to merge those of the last batch in mode mirror. None: not for such tables.
    """

    batches: tuple[BatchRun, ...]
    cpu_s: dict[str, float]
    peaks: dict[str, int]
    largest: dict[str, int]
    limit_s: float | None

    @property
    def rows_per_s(self) -> float:
        """Row changes in a second of the time between the start of the first batch and the end of the last."""
        return _rate(self.batches)

    @property
    def rows_per_cpu_s(self) -> float:
        """Row changes in a processor second of all processes: what the machine does beside hardly matters for it."""
        return sum(batch.changes for batch in self.batches) / sum(self.cpu_s.values())

    @property
    def merged_rows_per_s(self) -> float:
        """The same without the load: from the first batch on of which more than half are updates, if there is one."""
        merged = (number for number, batch in enumerate(self.batches) if 2 * batch.updates > batch.changes)
        first = next(merged, 0)
        return _rate(self.batches[first:])


@functools.cache
def measured_run(plan: RunPlan) -> TableRun:
    """Run it; once for all benchmarks of this process that want it."""
    command = [sys.executable, "-m", "bench.tables.run", msgspec.json.encode(plan).decode()]
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=_ROOT)
    run = msgspec.json.decode(result.stdout.splitlines()[-1], type=TableRun)
    found = sum(batch.changes for batch in run.batches)
    assert found == plan.changes, f"{found} changes were applied, the log has {plan.changes}"
    return run


def run_here(plan: RunPlan) -> TableRun:
    """Run it in this process."""
    # Spark is imported only where it is measured.
    from binlog_streaming.spark_session import PLANNING_ONLY, local_session

    # Threads of a task would take the cores that no task has, and one task would seem as fast as two.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[plan.first_core : plan.first_core + plan.tasks])
    work = Path(tempfile.mkdtemp(prefix="binlog-stream-bench-"))
    log_file = Path(tempfile.gettempdir()) / "binlog-stream-bench.log"
    spark = local_session("bench", master=f"local[{plan.tasks}]", settings=PLANNING_ONLY, log_file=log_file)
    watch = MemoryWatch()
    try:
        _run(spark, plan, plan.warm_up, work / "warm-up")
        before = cpu_seconds()
        with watch if plan.watches_memory else nullcontext():
            batches = _run(spark, plan, plan.log, work / "measured")
        after = cpu_seconds()
        if plan.expected:
            compare_tables(work / "measured" / "tables", Path(plan.expected))
        limit_s = _limit(plan, work / "measured" / "tables", work) if plan.has_limit else None
    finally:
        shutil.rmtree(work)
        spark.stop()
    starts = [batches[0].finished_at - batches[0].seconds, *(batch.finished_at for batch in batches)]
    return TableRun(
        batches=tuple(
            BatchRun(batch.changes, sum(table.updates for table in batch.tables), batch.finished_at - start)
            for batch, start in zip(batches, starts, strict=False)
        ),
        cpu_s={role: after[role] - before[role] for role in Role},
        peaks={role: watch.peaks[role] for role in Role} if plan.watches_memory else {},
        largest={role: watch.largest[role] for role in Role} if plan.watches_memory else {},
        limit_s=limit_s,
    )


def compare_tables(tables: Path, expected: Path) -> None:
    """See that the Delta tables in a folder hold what they must, and that there are no others (`RunPlan.expected`)."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from deltalake import DeltaTable, QueryBuilder

    files = sorted(expected.glob("*.parquet"))
    found = sorted(folder.parent for folder in tables.glob("[!_.]*/*/_delta_log"))
    assert [f"{folder.parent.name}.{folder.name}" for folder in found] == [file.stem for file in files]
    for folder, file in zip(found, files, strict=True):
        rows = pa.table(QueryBuilder().register("t", DeltaTable(folder)).execute("SELECT * FROM t"))
        wanted = pq.read_table(file)
        rows = rows.select(wanted.column_names).cast(wanted.schema).sort_by(wanted.column_names[0])
        assert rows.combine_chunks().equals(wanted.combine_chunks()), f"{folder} does not hold what {file} contains"


def _limit(plan: RunPlan, tables: Path, work: Path) -> float:
    from bench.tables.limits import append_seconds, merge_seconds

    folders = sorted(folder.parent for folder in tables.glob("[!_]*/*/_delta_log"))
    return append_seconds(folders, work) if plan.mode == "changelog" else merge_seconds(folders, work, key="id")


def _run(spark: SparkSession, plan: RunPlan, log: str, work: Path) -> list[BatchProgress]:
    from binlog_streaming.settings import Job
    from binlog_streaming.tables.job import TablesJob

    sections = {
        "source": {"path": log, **dict(plan.source)},
        "sink": {"directory": str(work / "tables"), **dict(plan.sink)},
        "tables": [{"mode": plan.mode}],
        "checkpoint": str(work / "checkpoint"),
        "evidence": plan.evidence,
    }
    batches: list[BatchProgress] = []
    running = TablesJob(msgspec.convert(sections, Job), session=spark, listener=batches.append, once=True)
    running.run()
    return batches


def _rate(batches: Sequence[BatchRun]) -> float:
    return sum(batch.changes for batch in batches) / sum(batch.seconds for batch in batches)


if __name__ == "__main__":
    print(msgspec.json.encode(run_here(msgspec.json.decode(sys.argv[1], type=RunPlan))).decode())
