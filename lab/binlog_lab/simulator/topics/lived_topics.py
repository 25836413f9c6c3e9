"""A job of a life that publishes to a broker in memory: `LivedTopicsJob`."""

from __future__ import annotations

import json
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING

from binlog_format.errors import BinlogError, OptionError
from binlog_lab.simulator.lived_job import LivedJob
from binlog_lab.simulator.topics.model_clients import installed
from binlog_lab.simulator.topics.model_registry import REGISTRY_CALLS
from binlog_lab.simulator.topics.topic_verdict import TopicVerdict
from binlog_streaming.jobs.switch import complete_begun, job_to_switch, plan_switch
from binlog_streaming.settings import PublishJob
from binlog_streaming.topics.connecting import PublishedOffset, names_of
from binlog_streaming.topics.job import TopicsJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from binlog_connector.following.offsets import SourceOffset
    from binlog_lab.simulator.scheduler import Conduct
    from binlog_lab.simulator.server import StateAfterGroup
    from binlog_lab.simulator.server_log import Terms
    from binlog_lab.simulator.topics.model_broker import ModelBroker, StoredMessage
    from binlog_lab.simulator.topics.model_registry import ModelRegistry

_OF_OTHER_LOG = "BINLOG_OPTION.INVALID_VALUE"


class LivedTopicsJob(LivedJob[PublishJob]):
    """A job with topics.

    Args:
        broker: They are there.
        registry: Schemas of the messages are there; None: these are JSON.
        size: Bytes of the log in a transaction of Kafka.
    """

    faults = (
        *("", *("kill",) * 3, "power", *("EIO",) * 2, "meanwhile"),
        *(*("reply lost",) * 3, *("late",) * 3, *("late and killed",) * 2, "frozen", "down", "another publisher"),
        "topics lost",
    )
    first_calls = 50
    rare_calls: tuple[str, ...] = ("ask for ends, after", "send, before", "rename")
    rare_faults = (
        *(("kill", "ask for ends, after"), ("EIO", "send, before"), ("power", "commit, before")),
        *(("frozen", "commit"), ("topics lost", "commit"), *(("another publisher", "commit"),) * 2),
    )
    is_atomic = True

    def __init__(
        self, file: Path, terms: Terms, broker: ModelBroker, size: int, registry: ModelRegistry | None
    ) -> None:
        super().__init__(file, terms)
        self.kind = "topics" if registry is None else "topics in Avro"
        self.rare_calls += () if registry is None else REGISTRY_CALLS
        self.name = f"{self.kind}; {size} bytes a transaction"
        self._broker = broker
        self._registry = registry
        self._size = size
        self._names = names_of(self.job.sink)
        self._verdict = TopicVerdict(broker, self._names, terms, registry)
        self._undecided_in: str | None = None  # the log that it left before its first transaction was decided

    def happen(self, kind: str, at: int) -> None:
        """See `LivedJob`."""
        self._broker.at_call[(at + 1) // 2] = self._actions()[kind]  # the disk counts a request and its reply

    def happen_at(self, kind: str, call: str) -> None:
        """See `LivedJob`."""
        self._broker.at_name[call] = self._actions()[kind]

    def _actions(self) -> dict[str, Callable[[], None]]:
        """Faults of the broker, by kind."""
        broker = self._broker
        return {
            "reply lost": broker.lose_reply,
            "late": broker.delay,
            "late and killed": partial(broker.delay, kills=True),
            "frozen": broker.freeze,
            "down": broker.go_down,
            "another publisher": self._run_another,
            "topics lost": broker.lose_topics,
        }

    def run(self, conduct: Conduct) -> str:
        """See `LivedJob`."""
        del conduct  # there are no tasks
        job = TopicsJob(self.job, once=True, step_size_max=self._size)
        job.run()
        return f"{job.progress.transactions} transactions"

    def offsets(self) -> tuple[SourceOffset | None, SourceOffset | None]:
        """See `LivedJob`."""
        (partition,) = self._broker.topics.get(self._names.offsets, (None,))
        if partition is None:
            return None, None
        return _offset(partition.committed()), _offset(partition.not_aborted())

    def check(self, history: Mapping[int, StateAfterGroup], *, began_late: bool) -> None:
        """See `LivedJob`."""
        self._verdict.check(history, self.taken, began_late=began_late)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """See `LivedJob`."""
        with installed(self._broker), nullcontext() if self._registry is None else self._registry.installed():
            yield

    def restart(self) -> None:
        """See `LivedJob`."""
        self._broker.restart()

    def switch_to(self, path: Path, conduct: Conduct) -> None:
        """See `LivedJob`."""
        del conduct
        if not any(self.offsets()):  # there is no place to switch from
            self.move_to(path)
            return
        complete_begun(job_to_switch(str(self._file)))
        try:
            plan = plan_switch(str(self._file), str(path))
        except OptionError:
            if self.offsets()[0] is not None:
                raise
            self._undecided_in = self.job.source.path
            self.move_to(path)  # as the error says: the first transaction is not decided
            return
        if not plan.is_done:
            plan.apply(lambda _: None)
        self._load()

    def is_set_back(self, error: BinlogError) -> bool:
        """See `LivedJob`; a first commit arrived when the job had left for another log."""
        path = self._undecided_in
        if path is None or error.condition != _OF_OTHER_LOG or self.offsets()[0] is None:
            return False
        self._undecided_in = None
        self.move_to(path)
        return True

    def _run_another(self) -> None:
        """The same job is started once more, elsewhere."""
        self._broker.note("got another publisher")
        with suppress(BinlogError):
            TopicsJob(self.job, once=True, step_size_max=self._size).run()


def _offset(records: Sequence[StoredMessage]) -> SourceOffset | None:
    """Offset of the newest record; None: there is none, or it has none."""
    text = json.loads(records[-1].value or b"null")["offset"] if records else None
    return None if text is None else PublishedOffset.parse(text).offset
