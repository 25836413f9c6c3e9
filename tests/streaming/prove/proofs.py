"""Proofs of a job on a live server: `prove`, and a foreign writer's hands on its tables."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import write_deltalake

from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.prove.run import JobProof
from binlog_streaming.settings import Job, Sink, Source, TableFormat, TableRule
from tests.streaming.snapshot.live import session_on

if TYPE_CHECKING:
    import pyarrow as pa

    from binlog_lab.demo.mariadb.server import DatabaseServer
    from binlog_streaming.prove.comparison import ProofResult


def job_on(
    server: DatabaseServer, folder: Path, *rules: TableRule, table_format: TableFormat = TableFormat.DELTA
) -> Job:
    """A job about the server's log; without rules it mirrors all tables."""
    return Job(
        source=Source(path=str(server.binlog_directory)),
        sink=Sink(directory=str(folder / "tables"), format=table_format),
        checkpoint=str(folder / "checkpoint"),
        tables=rules or (TableRule(),),
    )


def prove(
    server: DatabaseServer, job: Job, tables: str | None = None, *, repairs: bool = False
) -> dict[tuple[str, str], ProofResult]:
    """What a proof finds, by table and mode."""
    proof = JobProof(job, lambda: session_on(server), lambda _: None, lambda _: None, repairs)
    return {(one.table, str(one.mode)): one for one in proof.prove(tables)}


def held(job: Job, table: str) -> pa.Table:
    """All rows of a table of a job."""
    with contextlib.closing(DeltaTarget.at(job.sink, place(job, table))) as target:
        return target.read().read_all()


def overwrite(job: Job, table: str, rows: pa.Table) -> None:
    """Put other rows into a table of a job, as a foreign writer would."""
    write_deltalake(place(job, table), rows, mode="overwrite")


def place(job: Job, table: str) -> str:
    """Where a table of a job is."""
    return str(Path(job.sink.directory, *table.split(".")))
