"""What foreign keys do to a large child table, without Spark: `lake.cascade.rows_per_cpu_s`."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa

from bench.registry import benchmark, share
from binlog_connector.schema.statement_rows import find_statement_rows
from binlog_format import open_log
from binlog_format.events.layout import GTID_FLAG_DDL, GTID_FLAG_STANDALONE
from binlog_format.gtids.gtid import Gtid
from binlog_format.rows.decoding import DEFAULT_DECODING
from binlog_format.views.filters import TableFilter
from binlog_format.views.tables import TablesView
from binlog_lab.event_encoding.event_encoding import (
    Origin,
    QueryContext,
    encode_format_description,
    encode_gtid,
    encode_query,
    encode_xid,
)
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableEncoder, TableSpec
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter
from binlog_streaming.lake.commit_id import CommitId
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.plan.cascades import CascadeLog
from binlog_streaming.plan.job_state import JobState, TableSelection
from binlog_streaming.plan.plan import plan_batch
from binlog_streaming.settings import Job, Mode
from binlog_streaming.tables.apply import apply_component
from binlog_streaming.tables.batch_run import BatchRun

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from binlog_format.position import Position
    from binlog_lab.event_encoding.value_encoding import Value

CHILDREN = 1_000_000
CHILDREN_OF_ONE = 10
DELETES = 1000
_TEXTS = 1 << 16
_SECOND = 1_767_225_600
_ORIGIN = Origin(_SECOND, 1)
_PARENT = TableSpec("shop", "parent", (ColumnSpec("id", "int"),), ("id",))
_TABLES = (
    "CREATE TABLE parent (id INT PRIMARY KEY)",
    """CREATE TABLE child (id INT PRIMARY KEY, p INT, c CHAR(120), pad CHAR(60),
    FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)""",
)


@benchmark("lake.cascade.rows_per_cpu_s", unit="rows/s")
def cascade() -> float:
    """1,000 deletes of parents anywhere, with 10 rows each in a child of 1,000,000, into its mirror, by CPU second."""
    children = round(share() * CHILDREN)
    parents = children // CHILDREN_OF_ONE
    deleted = np.random.default_rng(1).choice(parents, min(DELETES, parents // 2), replace=False)
    ids = np.arange(children)
    with tempfile.TemporaryDirectory(prefix="binlog-stream-bench-") as work:
        job, log = _job(work), Path(work, "log")
        _write(log, 0, _TABLES, [])
        end = _apply(job, 0, None)
        child = DeltaTarget.at(job.sink, f"{work}/tables/child")
        child.append(_rows(ids, ids % parents).to_reader(), _commit_id())
        _write(log, len(_TABLES), (), deleted.tolist())
        started = time.process_time()
        _apply(job, 1, end)
        seconds = time.process_time() - started
        left = DeltaTarget.at(job.sink, child.uri).read().read_all().sort_by("id")
    stays = ~np.isin(ids % parents, deleted)
    assert left.equals(_rows(ids[stays], ids[stays] % parents)), "the child holds other rows"
    return float((~stays).sum() / seconds)


def _job(work: str) -> Job:
    sections = {
        "source": {"path": f"{work}/log"},
        "sink": {"directory": f"{work}/tables"},
        "checkpoint": f"{work}/checkpoint",
        # The parents that go were never inserted: their changes have nothing to prove.
        "tables": [{"select": "shop.*", "target": "{table}", "foreign_keys": "apply", "evidence": "off"}],
    }
    return msgspec.convert(sections, Job)


def _write(log: Path, count: int, statements: Iterable[str], deleted: Iterable[Value]) -> None:
    # Statements, then one transaction for each deleted parent, after *count* others.
    start = encode_format_description("12.3.1-MariaDB-log", _SECOND, _ORIGIN)
    encoder = TableEncoder(_PARENT, 20)
    with BinlogWriter(log, WriterOptions(sync=False), format_description=start) as writer:
        for number, statement in enumerate(statements, start=count + 1):
            gtid = Gtid(0, 1, number)
            query = encode_query(statement, _ORIGIN, QueryContext("shop"))
            writer.write_group(gtid, encode_gtid(gtid, _SECOND, flags=GTID_FLAG_STANDALONE | GTID_FLAG_DDL), [query])
        for number, key in enumerate(deleted, start=count + 1):
            gtid = Gtid(0, 1, number)
            rows = [encoder.table_map(_ORIGIN), *encoder.delete([(key,)], _ORIGIN)]
            writer.write_group(gtid, encode_gtid(gtid, _SECOND), [*rows, encode_xid(number, _ORIGIN)])


def _apply(job: Job, batch_id: int, start: Position | None) -> Position:
    # What follows in the log; gives its end.
    cascade_log, tables = CascadeLog(job), TableSelection(job.tables, None)
    view = TablesView(tables=TableFilter("shop.*"), find_statements=find_statement_rows, counts_others=True)
    with open_log(job.source.path) as log:
        start = log.start_position() if start is None else start
        end = log.span(start).end
        rows = [row for found in view.batches(log.committed_blocks(start, end)) for row in found.to_pylist()]
        plan = plan_batch(rows, DEFAULT_DECODING, tables, JobState(), log=cascade_log)
        assert plan.end is not None
        run = BatchRun("bench", batch_id, job.sink, plan.end, cascade_log=cascade_log)
        for component in plan.components:
            apply_component(run, component, log, DeltaTarget)
        return end


def _commit_id() -> CommitId:
    return CommitId("bench", 0, 99, "shop.child", Mode.MIRROR, ("id",), "0:0:0", "0:0:0:0", None)


def _rows(ids: NDArray[np.int64], parents: NDArray[np.int64]) -> pa.Table:
    texts = np.frombuffer(np.random.default_rng(2).integers(48, 58, _TEXTS * 120, np.uint8).tobytes(), "S120")
    return pa.table(
        {
            "id": pa.array(ids, pa.int32()),
            "p": pa.array(parents, pa.int32()),
            "c": pa.array(texts[ids % _TEXTS]).cast(pa.string()),
            "pad": pa.array(texts[ids % _TEXTS].astype("S60")).cast(pa.string()),
        }
    )
