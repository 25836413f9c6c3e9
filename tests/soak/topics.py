"""All that can happen to a publisher, its broker, and the network: `TopicsSoak`; `python -m tests.soak.topics`.

A log is written while `binlog-stream publish` publishes it; in the end a consumer rebuilds the tables from the topics,
and they are the workload's.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from msgspec.structs import replace

from binlog_connector.kafka.connection import Connection
from binlog_connector.kafka.topics import Topics
from binlog_lab.demo.failures import DemoError
from binlog_lab.demo.processes import PublishProcess
from binlog_lab.demo.proof.topics import compare_topics
from binlog_lab.demo.servers.kafka_broker import GUEST, USER, KafkaBroker
from binlog_streaming.settings.publish_model import Security
from binlog_streaming.settings.source_texts import publish_job_text
from tests.connector.kafka.topics import CLIENTS
from tests.faults.tcp_proxy import TcpProxy
from tests.program import PROGRAM
from tests.soak.parts import SoakError, each_soak, soak_arguments
from tests.streaming.topics.publishing import LogWriting, publish_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from binlog_lab.demo.proof.comparison import Comparison
    from binlog_lab.demo.reports import DemoPublishReport
    from binlog_streaming.settings import PublishJob

ACTIONS_AT_ONCE = 20
ROUND_ACTIONS = 600
"""Actions of sessions that are written between one fault and the next."""

LIVES_S = 3.0
"""A publisher is killed at a random moment of so many seconds after its start."""
ANSWER_S = 10.0
"""What the program gives a broker for an answer."""
FROZEN_S = 3.5 * ANSWER_S
LOST_S = 1.5 * ANSWER_S
CUT_S = 5.0
PATIENCE_S = 240.0
"""For a publisher to go on, or to say what is wrong; only one that hangs takes that long."""

TOO_SMALL = "100"
PASSWORD = "KAFKA_PASSWORD"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out.

    Attributes:
        faults: What else has happened, in order.
        comparisons: Of each table with its topic.
        changes: Rows of the tables' changes in the log.
    """

    kills: int
    faults: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    changes: int

    @property
    def is_equal(self) -> bool:
        """Whether every topic gives exactly its table."""
        return all(one.is_equal for one in self.comparisons)


class TopicsSoak:
    """A live log, a broker, and a publisher that has no peace.

    Args:
        client: By which messages go to the broker.
        seed: Of the workload and the moments of death.
    """

    def __init__(self, work: Path, *, client: str, seed: int, tell: Callable[[str], None]) -> None:
        self._work, self._client, self._seed, self._tell = work, client, seed, tell
        self._moments = random.Random(seed)
        self._published = threading.Semaphore(0)
        self._network, self._faults = TcpProxy(), list[str]()

    def run(self, kills: int) -> Outcome:
        """Kill the publisher *kills* times, let all else happen once, and compare.

        Raises:
            SoakError: The publisher did not go on, or said something else than what was wrong.
        """
        faults = (
            (self._broker_is_killed, "the broker was killed, and started again"),
            (self._broker_freezes, f"the broker was frozen for {FROZEN_S:g} s"),
            (self._network_is_cut, f"the network was cut for {CUT_S:g} s"),
            (self._replies_are_lost, f"the broker's replies were lost for {LOST_S:g} s"),
            (self._two_publish, "a second publisher began; the first one stopped"),
            (self._message_is_too_large, "a topic took no message as large as these"),
            (self._topic_is_deleted, "a topic was deleted"),
            (self._nobody_may_write, "the user was not allowed to write"),
            (self._password_is_wrong, "the password was wrong"),
            (self._certificate_is_unknown, "the certificate was not trusted"),
        )
        changes = ROUND_ACTIONS * (kills + 8 * len(faults))
        with (
            self._network,
            KafkaBroker(self._work / "kafka", proxy_port=self._network.port) as self._broker,
            LogWriting(self._work / "log", changes, self._seed) as self._log,
        ):
            self._network.server_port = self._broker.proxied_port
            self._write(ROUND_ACTIONS)
            self._job = self._new_job()
            self._job = self._named(self._job, bootstrap_servers=f"127.0.0.1:{self._network.port}")
            for number in range(1, kills + 1):
                self._kill_one()
                self._tell(f"{number} of {kills} publishers killed")
            for fault, told in faults:
                fault()
                self._faults.append(told)
                self._tell(told)
            self._write(None)
            recording = self._log.recording()
            self._run_once()
            self._offsets_are_lost()
            self._faults.append("the topic of offsets was deleted")
            self._tell(self._faults[-1])
            expected_tables = list(recording.expected_tables)
            comparisons = tuple(compare_topics(self._broker.servers, self._job.sink.topic_prefix, expected_tables))
        return Outcome(kills, tuple(self._faults), comparisons, sum(len(one.changes or ()) for one in expected_tables))

    # --- what happens ------------------------------------------------------------------------------------------------

    def _kill_one(self) -> None:
        with self._publisher() as publisher:
            self._write(ROUND_ACTIONS, self._moments.uniform(0, LIVES_S))
            publisher.check()
            publisher.kill()

    def _broker_is_killed(self) -> None:
        def restart() -> None:
            self._broker.kill()
            self._broker.start()

        self._publish_through(restart)

    def _broker_freezes(self) -> None:
        self._publish_through(self._broker.freeze, after=FROZEN_S, mend=self._broker.thaw)

    def _network_is_cut(self) -> None:
        self._publish_through(self._network.cut, after=CUT_S, mend=self._network.mend)

    def _replies_are_lost(self) -> None:
        def mend() -> None:
            self._network.cut()  # connections that have lost bytes
            self._network.mend()

        self._publish_through(self._network.lose_replies, after=LOST_S, mend=mend)

    def _two_publish(self) -> None:
        with self._publisher() as first:
            self._write(ROUND_ACTIONS // 2, 0.5)
            with self._publisher() as second:
                self._until_it_stops(first, "OTHER_PUBLISHER")
                self._until_it_goes_on(second)

    def _message_is_too_large(self) -> None:
        topic = f"{self._job.sink.topic_prefix}.shop.orders"
        with self._publisher() as publisher:
            self._until_it_goes_on(publisher)
            self._set_message_size(topic, TOO_SMALL)
            self._until_it_stops(publisher, "MESSAGE_TOO_LARGE")
        self._set_message_size(topic, "1048588")
        self._publish_through(lambda: None)

    def _topic_is_deleted(self) -> None:
        with self._publisher() as publisher:
            self._until_it_goes_on(publisher)
            self._delete(f"{self._job.sink.topic_prefix}.transaction")
            self._until_it_stops(publisher, "TOPIC_NOT_FOUND")
        self._publish_through(lambda: None)

    def _nobody_may_write(self) -> None:
        password = self._broker.passwords[GUEST]
        security = Security(tls=True, ca_file=str(self._broker.ca_file), user=GUEST, password_variable=PASSWORD)
        self._is_refused(security, password, "BINLOG_KAFKA.DENIED")

    def _password_is_wrong(self) -> None:
        security = Security(tls=True, ca_file=str(self._broker.ca_file), user=USER, password_variable=PASSWORD)
        self._is_refused(security, "correct horse", "BINLOG_KAFKA.AUTHENTICATION")

    def _certificate_is_unknown(self) -> None:
        security = Security(tls=True, user=USER, password_variable=PASSWORD)
        self._is_refused(security, self._broker.passwords[USER], "BINLOG_KAFKA.TLS")

    def _offsets_are_lost(self) -> None:
        self._delete(f"{self._job.sink.topic_prefix}.offsets")
        self._fails("BINLOG_KAFKA.OFFSETS_LOST", self._job)

    # --- how ---------------------------------------------------------------------------------------------------------

    def _write(self, actions: int | None, seconds: float = 0.0) -> None:
        """Write so many actions of sessions over some time; or all that are left."""
        if actions is None:
            self._log.write()
            return
        steps = max(actions // ACTIONS_AT_ONCE, 1)
        for _ in range(steps):
            if not self._log.write(ACTIONS_AT_ONCE):
                raise SoakError("the workload is over before all has happened")
            time.sleep(seconds / steps)

    @contextlib.contextmanager
    def _publisher(self) -> Iterator[PublishProcess]:
        """One that has started; it is stopped at the end, if it has not ended before."""
        errors = self._work / "publish.log"
        errors.touch()
        with PublishProcess(self._work / f"{self._job.name}.toml", log_file=errors, listener=self._hear) as publisher:
            publisher.wait_for_first_report()
            yield publisher

    def _hear(self, report: DemoPublishReport) -> None:
        if report.event == "published":
            self._published.release()

    def _publish_through(
        self, fault: Callable[[], None], *, after: float = 0.0, mend: Callable[[], None] = lambda: None
    ) -> None:
        with self._publisher() as publisher:
            self._until_it_goes_on(publisher)
            fault()
            self._write(ROUND_ACTIONS // 2, after)
            mend()
            self._until_it_goes_on(publisher)

    def _until_it_goes_on(self, publisher: PublishProcess) -> None:
        while self._published.acquire(blocking=False):
            """What was said before does not count."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self._write(ACTIONS_AT_ONCE)
            if self._published.acquire(timeout=1.0):
                return
            publisher.check()
            if time.monotonic() > deadline:
                raise SoakError(f"nothing was published within {PATIENCE_S:g} s; see {self._work}")

    def _until_it_stops(self, publisher: PublishProcess, condition: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            self._write(ACTIONS_AT_ONCE, 0.5)
            try:
                publisher.check()
            except DemoError as error:
                if condition not in error.reason:
                    raise SoakError(f"expected {condition}: {error}") from error
                return
        raise SoakError(f"it did not stop with {condition} within {PATIENCE_S:g} s; see {self._work}")

    def _is_refused(self, security: Security, password: str, condition: str) -> None:
        job = self._named(self._job, name="refused", bootstrap_servers=self._broker.secure_servers, security=security)
        self._write(ACTIONS_AT_ONCE)
        errors = self._fails(condition, job, {PASSWORD: password})
        if password in errors:
            raise SoakError("the password is in an error")
        self._publish_through(lambda: None)

    def _fails(self, condition: str, job: PublishJob, environment: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            [PROGRAM, "publish", str(self._work / f"{job.name}.toml"), "--once"],
            env=os.environ | (environment or {}),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        if done.returncode != 1 or condition not in done.stderr:
            raise SoakError(f"expected {condition}, got exit status {done.returncode}: {done.stderr}")
        return done.stderr

    def _run_once(self) -> None:
        subprocess.run([PROGRAM, "publish", str(self._work / f"{self._job.name}.toml"), "--once"], check=True)

    def _named(self, job: PublishJob, *, name: str = "job", **sink: object) -> PublishJob:
        """The job with other settings of its sink, also as a file."""
        changed = replace(job, name=name, sink=replace(job.sink, **sink))
        (self._work / f"{name}.toml").write_text(publish_job_text(changed))
        return changed

    def _new_job(self) -> PublishJob:
        more = "transaction_metadata = true"
        return publish_job(self._work, self._log.directory, self._broker, client=self._client, more=more)

    def _set_message_size(self, topic: str, size: str) -> None:
        with contextlib.closing(KafkaAdminClient(bootstrap_servers=self._broker.servers)) as admin:
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs={"max.message.bytes": size})])

    def _delete(self, topic: str) -> None:
        with contextlib.closing(KafkaAdminClient(bootstrap_servers=self._broker.servers)) as admin:
            admin.delete_topics([topic])
        with Topics(Connection(self._broker.servers)) as topics:
            while topics.partition_count(topic) is not None:
                time.sleep(0.05)  # a broker deletes it a moment after it says so


def main() -> int:
    """Let everything happen that can; exit status 1 when a topic does not give exactly its table."""
    parser = soak_arguments(main.__doc__)
    parser.add_argument("--client", choices=CLIENTS, action="append", help="default: one after the other")
    arguments = parser.parse_args()
    outcomes = []
    for client, work, seed, tell in each_soak(arguments, arguments.client or CLIENTS):
        outcome = TopicsSoak(work, client=client, seed=seed, tell=tell).run(arguments.kills)
        outcomes.append(outcome)
        for one in outcome.comparisons:
            tell(f"{one.table}: {one.expected} rows, {'equal' if one.is_equal else f'NOT EQUAL: {one.differences}'}")
        tell(f"{outcome.kills} kills, {len(outcome.faults)} other faults, {outcome.changes} row images in the log")
    return 0 if all(outcome.is_equal for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
