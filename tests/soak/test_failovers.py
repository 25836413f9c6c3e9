"""Twenty primaries die under load, one after the other; jobs of tables and topics follow, and are exact in the end."""

from __future__ import annotations

import logging
import random
import shutil
import signal
import subprocess
import uuid
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import pytest

from binlog_connector.crash_points import watched
from binlog_connector.following.log_end import end_of_log
from binlog_connector.following.watched import WatchedLog
from binlog_streaming.job_state.checkpoint import begin_batch, read_checkpoint, state_of
from binlog_streaming.job_state.switch_journal import SwitchStep
from binlog_streaming.jobs.mirror import job_at
from binlog_streaming.jobs.switch import plan_switch
from tests.faults.processes import Cut, CutAt
from tests.program import PROGRAM
from tests.servers import ServerKind
from tests.streaming.failing_over.pairs import (
    SCHEMA,
    TABLES_JOB,
    TOPICS_JOB,
    Load,
    follow,
    promote,
    ran,
    read_changes,
    rows_of,
    server_of,
    wait_until_at,
)
from tests.streaming.snapshot.live import run_sql, url_of

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import DatabaseServer
    from binlog_lab.demo.servers.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow, pytest.mark.thorough]

LOGGER = logging.getLogger(__name__)
ROUNDS = 20
SEED = 31


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("kind", [ServerKind.MARIADB, ServerKind.MYSQL])
def test_jobs_follow_twenty_failovers(kind: ServerKind, kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    chance, prefix = random.Random(SEED), f"t{uuid.uuid4().hex[:12]}"
    with ExitStack() as opened:
        primary = opened.enter_context(server_of(kind, tmp_path / "server0", 1))
        run_sql(primary, SCHEMA)
        (tmp_path / "tables.toml").write_text(TABLES_JOB.format(log=primary.binlog_directory))
        text = TOPICS_JOB.format(log=primary.binlog_directory, servers=kafka_broker.servers, prefix=prefix)
        (tmp_path / "topics.toml").write_text(text)
        for number in range(1, ROUNDS + 1):
            replica = opened.enter_context(server_of(kind, tmp_path / f"server{number}", number + 1))
            follow(replica, primary)
            is_cut_off = fail_over(primary, replica, tmp_path, number, chance)
            steps = [chance.choice(list(SwitchStep)) for _ in range(2)]
            move(tmp_path / "tables.toml", replica, steps[0])
            move(tmp_path / "topics.toml", replica, steps[1])
            LOGGER.info("round %s: within a batch: %s; switches killed after %s, %s", number, is_cut_off, *steps)
            shutil.rmtree(primary.binlog_directory)
            primary = replica
        ran(tmp_path, "run", "tables.toml", "--once")
        ran(tmp_path, "publish", "topics.toml", "--once")
        proved = ran(tmp_path, "prove", "tables.toml", "--server", url_of(primary), password=primary.password)
        assert "2 of 2 targets equal" in proved
        for table, key_columns in (("items", 1), ("orders", 2)):
            topic = read_changes(kafka_broker.servers, f"{prefix}.shop.{table}", key_columns)
            LOGGER.info("%s: %s messages, %s rows", table, topic.changes, len(topic.rows))
            assert topic.faults == []
            assert topic.rows == rows_of(primary, table)


def fail_over(
    primary: DatabaseServer, replica: DatabaseServer, folder: Path, number: int, chance: random.Random
) -> bool:
    """The primary dies under load, with both jobs behind the replica; True: the job of tables within a batch."""
    with Load(primary, number) as load, publishing(folder) as publisher:
        load.wait(chance.randint(20, 60))
        ran(folder, "run", "tables.toml", "--once")
        is_cut_off = chance.random() < 0.3
        if is_cut_off:
            # Spark has begun a batch, and is killed before anything of it is in a table.
            job = job_at(str(folder / "tables.toml"))
            checkpoint = read_checkpoint(state_of(job))
            assert checkpoint is not None
            assert checkpoint.batch_id is not None
            with WatchedLog(job.source.path) as log:
                assert begin_batch(state_of(job), checkpoint.batch_id + 1, end_of_log(log))
        publisher.send_signal(chance.choice([signal.SIGKILL, signal.SIGTERM]))
        publisher.wait()
        load.wait(chance.randint(5, 30))
        wait_until_at(replica, primary.gtid_position())
        primary.kill()
    promote(replica)
    return is_cut_off


def publishing(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([PROGRAM, "publish", "topics.toml"], cwd=folder, stdout=subprocess.DEVNULL)


def move(file: Path, replica: DatabaseServer, step: SwitchStep) -> None:
    """A switch that is killed after a step, and completed."""
    with watched(CutAt(step)), suppress(Cut):
        plan_switch(str(file), str(replica.binlog_directory)).apply(run_here)
    if step in (SwitchStep.JOB_FILE, SwitchStep.COMMIT):
        ran(
            file.parent, "switch", file.name, "--to", replica.binlog_directory
        )  # else the start of the job completes it


def run_here(job: object) -> None:
    from binlog_streaming.settings import Job
    from binlog_streaming.tables.job import TablesJob

    assert isinstance(job, Job)
    TablesJob(job, once=True).run()
