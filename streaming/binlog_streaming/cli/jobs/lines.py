"""Lines about a job that runs: `BatchLines` for one with tables, `PublishLines` for one that publishes; or as JSON."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from binlog_format.messages import count_text
from binlog_streaming.cli.output import say, write_json_lines
from binlog_streaming.job_state.progress import NOTE_TEXTS
from binlog_streaming.settings.source_models import TopicSource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from binlog_streaming.event_tables.run import EventTablesRun
    from binlog_streaming.job_state.progress import BatchProgress, Note, Progress
    from binlog_streaming.settings import EventTablesJob, Job, PublishJob, TopicTablesJob
    from binlog_streaming.tables.job import TablesJob
    from binlog_streaming.topic_tables.run import TopicTablesRun
    from binlog_streaming.topics.job import TopicsJob
    from binlog_streaming.topics.record import Published, PublishProgress

    TablesOf = Job | EventTablesJob | TopicTablesJob
    RunOf = TablesJob | EventTablesRun | TopicTablesRun

LINE_SECONDS = 1.0
"""A line tells of all transactions of so long: there may be hundreds."""


def say_addresses(addresses: Mapping[str, str]) -> None:
    """Print the addresses of metrics and page, for people."""
    for name, address in addresses.items():
        say(f"{name}: {address}")


class BatchLines:
    """Lines for people."""

    def __init__(self) -> None:
        self._told: set[tuple[str, Note]] = set()
        self._found_nothing = False

    def started(self, job: TablesOf, running: RunOf, addresses: Mapping[str, str]) -> None:
        """Report the start of the job."""
        del running
        source = job.source
        told = f"{source.bootstrap_servers} ({source.topics})" if isinstance(source, TopicSource) else source.path
        say(f"{job.name}: {told} -> {job.sink.directory} ({job.sink.format})")
        say_addresses(addresses)

    def batch(self, batch: BatchProgress) -> None:
        """Report a finished batch."""
        is_new = batch.batch_id == 0 or self._found_nothing
        self._found_nothing = is_new and not batch.tables and not batch.state_change.waiting
        parts = [
            f"batch {batch.batch_id}",
            count_text(len(batch.tables), "table"),
            count_text(batch.changes, "change"),
            f"{batch.seconds:.2f} s",
            f"{batch.changes / max(batch.seconds, 1e-9):,.0f} changes/s",
        ]
        if batch.lag_seconds is not None:
            parts.append(f"lag {batch.lag_seconds:.1f} s")
        if batch.bytes_behind is not None:
            parts.append(f"{count_text(batch.bytes_behind, 'byte')} behind")
        repeated = sum(table.outcome == "repeated" for table in batch.tables)
        if repeated:
            parts.append(f"{count_text(repeated, 'table')} had it already")
        say("  ".join(parts))
        for table in batch.tables:
            for note in sorted(table.notes):
                # They stay the same from batch to batch.
                if (table.source_table, note) not in self._told:
                    self._told.add((table.source_table, note))
                    say(f"{table.source_table}: {NOTE_TEXTS[note]}")
        for stopped in batch.set_aside:
            say(f"{stopped.name}: set aside at {stopped.gtid or stopped.position}: {stopped.reason}")

    def idle(self) -> None:
        """Nothing: each batch has its line at once."""

    def ended(self, progress: Progress, *, stopped: bool) -> None:
        """Sum up."""
        how = "stopped" if stopped else "ended"
        aside = f", {count_text(len(progress.set_aside), 'table')} set aside" if progress.set_aside else ""
        batches = count_text(progress.batches, "batch", "batches")
        say(f"{how}: {count_text(progress.changes, 'change')} in {batches}{aside}")
        if self._found_nothing:
            say("No table of this job had changes: binlog-stream check JOB.toml shows which tables it selects")


class BatchJsonLines:
    """Lines for programs: events `started`, `batch`, and `ended` or `stopped`."""

    def started(self, job: TablesOf, running: RunOf, addresses: Mapping[str, str]) -> None:
        """Report the start of the job."""
        source = job.source
        facts = {
            "event": "started",
            "name": job.name,
            "source": source.topics if isinstance(source, TopicSource) else source.path,
            "directory": job.sink.directory,
            "format": str(job.sink.format),
            "checkpoint": job.checkpoint,
            "query_id": running.query_id,
            **running.start_facts,
            "metrics": addresses.get("metrics"),
            "status": addresses.get("status"),
        }
        write_json_lines([facts])

    def batch(self, batch: BatchProgress) -> None:
        """Report a finished batch."""
        write_json_lines([batch.as_json()])

    def idle(self) -> None:
        """Nothing: each batch has its line at once."""

    def ended(self, progress: Progress, *, stopped: bool) -> None:
        """Sum up."""
        how = "stopped" if stopped else "ended"
        aside = {"set_aside": sorted(map(str, progress.set_aside))} if progress.set_aside else {}
        write_json_lines([{"event": how, "batches": progress.batches, "changes": progress.changes, **aside}])


class PublishLines:
    """A line for all that was published within a second; for people. *clock*: seconds that only go forward."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: list[Published] = []
        self._since = clock()

    def started(self, job: PublishJob, running: TopicsJob, addresses: Mapping[str, str]) -> None:
        """Report the start of the job."""
        offset = running.offset
        assert offset is not None, "it has begun"
        say(f"{job.name}: {job.source.path} -> {job.sink.bootstrap_servers} ({job.sink.topic_prefix})")
        say(f"from {offset.position}{f', after GTID {offset.gtid}' if offset.gtid else ''}")
        say_addresses(addresses)
        self._since = self._clock()

    def batch(self, published: Published) -> None:
        """Take one more transaction."""
        self._waiting.append(published)
        if self._clock() - self._since >= LINE_SECONDS:
            self._say_waiting()

    def idle(self) -> None:
        """Print the last published transaction, after a while without new ones: no later line would show it."""
        if self._waiting:
            self._say_waiting()

    def ended(self, progress: PublishProgress, *, stopped: bool) -> None:
        """Sum up."""
        self.idle()
        how = "stopped" if stopped else "ended"
        say(
            f"{how}: {count_text(progress.records, 'message')}, {count_text(progress.groups, 'transaction')} of the log"
        )

    def _say_waiting(self) -> None:
        records: Counter[str] = Counter()
        for transaction in self._waiting:
            records.update(transaction.records.counts)
        now = self._clock()
        self._say(self._waiting, records, now - self._since)
        self._waiting, self._since = [], now

    def _say(self, published: list[Published], records: Counter[str], seconds: float) -> None:
        last = published[-1]
        groups = sum(batch.groups for batch in published)
        parts = [
            f"{count_text(groups, 'transaction')} of the log in {len(published):,} of Kafka",
            f"{count_text(records.total(), 'message')} in {count_text(len(records), 'topic')}",
            f"{records.total() / max(seconds, 1e-9):,.0f} messages/s",
            f"up to {last.offset.position}",
        ]
        if last.last_timestamp is not None:
            parts.append(f"committed {max(time.time() - last.last_timestamp, 0):.1f} s before")
        say("  ".join(parts))


class PublishJsonLines(PublishLines):
    """Lines for programs: events `started`, `published`, and `ended` or `stopped`."""

    def started(self, job: PublishJob, running: TopicsJob, addresses: Mapping[str, str]) -> None:
        """Report the start of the job."""
        offset = running.offset
        assert offset is not None, "it has begun"
        facts = {
            "event": "started",
            "name": job.name,
            "source": job.source.path,
            "bootstrap_servers": job.sink.bootstrap_servers,
            "topic_prefix": job.sink.topic_prefix,
            "offset": offset.to_json(),
            "metrics": addresses.get("metrics"),
            "status": addresses.get("status"),
        }
        write_json_lines([facts])

    def ended(self, progress: PublishProgress, *, stopped: bool) -> None:
        """Sum up."""
        self.idle()
        facts = {
            "event": "stopped" if stopped else "ended",
            "messages": progress.records,
            "transactions": progress.groups,
            "kafka_transactions": progress.transactions,
        }
        write_json_lines([facts])

    def _say(self, published: list[Published], records: Counter[str], seconds: float) -> None:
        facts = {
            "event": "published",
            "messages": dict(records),
            "transactions": sum(transaction.groups for transaction in published),
            "kafka_transactions": len(published),
            "bytes": sum(transaction.size for transaction in published),
            "seconds": round(seconds, 3),
            "offset": published[-1].offset.to_json(),
            "commit_time": published[-1].last_timestamp,
        }
        write_json_lines([facts])
