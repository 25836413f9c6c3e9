"""Runs the real job on a log, without Spark: `run_once`; what Spark's tasks do is done here, one after the other."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import msgspec

from binlog_format.errors import BinlogError
from binlog_streaming.jobs.mirror import mirror_job
from binlog_streaming.settings import Json, Merge, OnError, TableFormat, TableRule
from tests.streaming.replay_runs import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from binlog_streaming.job_state.progress import BatchProgress
    from binlog_streaming.plan.job_state import SetAside
    from binlog_streaming.settings import Job

Result = TypeVar("Result")


@dataclass(frozen=True)
class LocalTasks:
    """Tasks of this process, with everything that Spark's take across: pickled, in piles."""

    parallelism: int = 1

    def run(self, items: Sequence[bytes], work: Callable[[Iterable[bytes]], Iterator[Result]]) -> list[Result]:
        """See `Tasks`."""
        return list(work(iter(items)))

    def run_sharded(
        self,
        items: Sequence[bytes],
        deal: Callable[[Iterable[bytes]], Iterator[tuple[int, bytes]]],
        shard_count: int,
        work: Callable[[Iterable[bytes]], Iterator[Result]],
    ) -> list[Result]:
        """See `Tasks`."""
        shards: list[list[bytes]] = [[] for _ in range(shard_count)]
        for shard, message in deal(iter(items)):
            shards[shard].append(message)
        return [result for messages in shards for result in work(iter(messages))]


@dataclass
class JobEnd:
    """How a job ended.

    Attributes:
        error: The named error that stopped it, as its user sees it; empty: none did.
        crash: The traceback of an error without a name; empty: there was none.
        set_aside: Tables that the job went on without.
    """

    error: str = ""
    crash: str = ""
    set_aside: list[SetAside] = field(default_factory=list)

    def saw(self, batch: BatchProgress) -> None:
        """Keep what a batch tells."""
        self.set_aside += batch.set_aside


def mirror_of(
    log: Path,
    directory: Path,
    *,
    rule: Mapping[str, object] | None = None,
    table_format: TableFormat = TableFormat.DELTA,
    on_error: OnError = OnError.STOP,
    bytes_max: str | None = None,
    merge: Merge = Merge.AUTO,
    json: Json = Json.TEXT,
    system_time_zone: str | None = None,
) -> Job:
    """The job of `binlog-stream mirror LOG --to DIRECTORY`.

    Args:
        rule: Settings of its `[[tables]]`.
        on_error: What becomes of it when a table cannot go on.
        bytes_max: Of a batch; None: no limit.
        merge: What becomes of files whose rows change.
        system_time_zone: Of the server, as the job states it; None: it does not.
    """
    job = mirror_job(
        str(log),
        str(directory),
        table_format=table_format,
        rule=msgspec.convert(rule or {}, TableRule),
        on_error=on_error,
    )
    source = msgspec.structs.replace(job.source, system_time_zone=system_time_zone)
    if bytes_max is not None:
        source = msgspec.structs.replace(source, max_bytes_per_trigger=bytes_max)
    return msgspec.structs.replace(job, source=source, sink=msgspec.structs.replace(job.sink, json=json, merge=merge))


def run_once(job: Job) -> JobEnd:
    """Take what the log has now, and end."""
    end = JobEnd()
    try:
        run(job, listener=end.saw, tasks=LocalTasks())
    except BinlogError as error:
        end.error = str(error)
    except Exception:  # whatever has no name is a finding
        end.crash = traceback.format_exc()
    return end
