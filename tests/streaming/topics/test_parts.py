"""The parts of a publishing job, without a broker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from binlog_connector.envelope.message_batch import MessageKind
from binlog_connector.envelope.options import UnsignedBigintHandling
from binlog_format.errors import OptionError
from binlog_streaming.settings.publish_model import FollowedSource, KafkaSink, PublishJob, TopicRule
from binlog_streaming.topics.connecting import names_of
from binlog_streaming.topics.step_messages import envelope_options
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
