"""The parts of a publishing job, without a broker.

A structured log is not published: that is said before anything is written or sent. Messages that another program has
published are left out: `NotTaken`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from msgspec.structs import replace

from binlog_connector.envelope.message_batch import MessageKind
from binlog_connector.envelope.options import UnsignedBigintHandling
from binlog_connector.following.offsets import SourceOffset, TakenChanges
from binlog_format.errors import OptionError, UnsupportedError
from binlog_format.position import Position
from binlog_lab.simulator.structured.program import LoggingProgram
from binlog_streaming.jobs.mirror import publish_job
from binlog_streaming.settings.publish_model import FollowedSource, KafkaSink, PublishJob, TopicRule
from binlog_streaming.topics.connecting import names_of
from binlog_streaming.topics.job import TopicsJob
from binlog_streaming.topics.step_messages import NotTaken, envelope_options
from tests.program import run_program
from tests.streaming.topics.publishing import messages_made, recorded

if TYPE_CHECKING:
    from pathlib import Path


PRECISE = UnsignedBigintHandling.PRECISE
SINK = KafkaSink(kind="kafka", bootstrap_servers="a:1", topic_prefix="shop")


def test_topics_are_named_as_debezium_does() -> None:
    names = names_of(SINK)
    assert names.of(MessageKind.CHANGE, "db", "orders") == "shop.db.orders"
    assert names.of(MessageKind.CHANGE, "d b", "größe") == "shop.d_b.gr__e"
    assert names.of(MessageKind.TRANSACTION, None, None) == "shop.transaction"
    assert names.of(MessageKind.SCHEMA_CHANGE, "db", None) == "shop"
    assert (names.heartbeat, names.offsets) == ("__debezium-heartbeat.shop", "shop.offsets")


def test_two_tables_that_kafka_cannot_tell_apart_are_refused() -> None:
    names = names_of(SINK)
    assert names.of_table("db", "a b") == "shop.db.a_b"
    with pytest.raises(OptionError, match=r"db\.a_b would go to .* shop\.db\.a_b, which is that of shop\.db\.a b"):
        names.of_table("db", "a_b")


def test_tables_share_a_topic_where_the_settings_name_one() -> None:
    names = names_of(replace(SINK, topic="{prefix}.all"))
    assert names.of_table("db", "a") == names.of_table("db", "b") == "shop.all"


@pytest.mark.parametrize("table", ["transaction", "offsets"])
def test_a_table_does_not_go_to_a_topic_of_the_jobs_own(table: str) -> None:
    names = names_of(replace(SINK, topic="{prefix}.{table}"))
    with pytest.raises(OptionError, match="which is that of"):
        names.of_table("db", table)


def test_a_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(OptionError, match="256 characters; Kafka takes 249"):
        names_of(SINK).of_table("d" * 186, "t" * 64)


def test_the_first_rule_that_matches_names_the_key() -> None:
    rules = (TopicRule(select=r"db\.a", keys=("x", "y")), TopicRule(select=r"db\..*"), TopicRule(keys=("z",)))
    keys = envelope_options(SINK, rules).key_columns
    assert keys.get("db.a") == ("x", "y")
    assert keys.get("db.b") is None, "its primary key"
    assert keys.get("other.c") == ("z",)


def test_messages_do_not_depend_on_how_the_log_is_cut_into_steps(tmp_path: Path) -> None:
    log = recorded(tmp_path / "log", 600).directory
    sink = replace(SINK, schemas_enable=True, transaction_metadata=True, unsigned_bigint_handling=PRECISE)
    rules = (TopicRule(select=r"shop\.customers", mask={"email": "sha256"}), TopicRule())

    def messages_by_topic(step_size_max: int) -> dict[str, list[object]]:
        checkpoint = str(tmp_path / f"state-{step_size_max}")
        job = PublishJob(source=FollowedSource(path=str(log)), sink=sink, tables=rules, checkpoint=checkpoint)
        topics: dict[str, list[object]] = {}
        for message in messages_made(job, step_size_max=step_size_max):
            value = None if message["value"] is None else json.loads(message["value"])
            for time in ("ts_ms", "ts_us", "ts_ns"):  # when the message was made
                if value is not None:
                    value["payload"].pop(time, None)
            topics.setdefault(message["topic"], []).append((message["key"], value))
        return topics

    assert messages_by_topic(1) == messages_by_topic(1 << 30)


NOBODY = "127.0.0.1:9/logs"
"""Where no broker listens: it is never asked."""


@pytest.mark.parametrize("command", [("publish", "--to", NOBODY), ("init", "--for", "kafka")])
def test_commands_name_the_format_and_another_way(tmp_path: Path, command: tuple[str, ...]) -> None:
    with LoggingProgram(tmp_path / "log") as program:
        program.log(3)
    home = {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": str(tmp_path / "home")}
    result = run_program(*command, tmp_path / "log", environment=home)
    assert result.returncode == 1
    assert "BINLOG_UNSUPPORTED.FORMAT" in result.stderr
    assert "structured log" in result.stderr
    assert "binlog-stream init --for tables" in " ".join(result.stderr.split())
    assert not (tmp_path / "home").exists()


def test_job_ends_before_it_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    with LoggingProgram(tmp_path / "log") as program:
        program.log(3)
    job = publish_job(str(tmp_path / "log"), NOBODY)
    with pytest.raises(UnsupportedError, match="events of a program"):
        TopicsJob(job).run()
    assert not (tmp_path / "home").exists()


GROUP = Position(1, 2, 3)
UPDATE_OF_KEYS = [
    (4, 0, "delete"),
    (4, 0, "tombstone"),
    (4, 0, "creation"),
    (4, 1, "delete"),
    (4, 1, "tombstone"),
    (4, 1, "creation"),
]


def messages(rows: list[tuple[int, int, str]]) -> pa.RecordBatch:
    names = {
        "kind": [MessageKind.CHANGE.value] * len(rows),
        "position": [{"file_no": 1, "page": 2, "chunk": 3}] * len(rows),
    }
    columns = dict(zip(("event_no", "row_no", "told"), map(list, zip(*rows, strict=True)), strict=True))
    return pa.RecordBatch.from_pydict({**names, **columns})


@pytest.mark.parametrize(
    ("rows", "row", "left"),
    [
        (UPDATE_OF_KEYS, 0, UPDATE_OF_KEYS),
        (UPDATE_OF_KEYS, 1, UPDATE_OF_KEYS[1:]),
        (UPDATE_OF_KEYS, 2, UPDATE_OF_KEYS[4:]),
        ([(3, 9, "creation"), (4, 0, "delete"), (4, 0, "tombstone")], 1, [(4, 0, "tombstone")]),
        ([(4, 0, "creation"), (4, 1, "creation")], 1, [(4, 1, "creation")]),
        ([(4, 0, "creation"), (4, 1, "creation")], 2, []),
    ],
)
def test_what_may_lack_of_the_last_row_is_sent(
    rows: list[tuple[int, int, str]], row: int, left: list[tuple[int, int, str]]
) -> None:
    """A connector stores one offset with all messages of a row, and may be stopped between two of them."""
    not_taken = NotTaken(SourceOffset(GROUP, taken=TakenChanges(4, row)))
    found = not_taken.of(messages(rows)).select(["event_no", "row_no", "told"])
    assert [tuple(one.values()) for one in found.to_pylist()] == left
