"""Names of topics: what a server lets its users call tables makes no topic of another, nor one of the publisher."""

from __future__ import annotations

import re

import pytest

from binlog_connector.kafka.topic_names import TopicNames, TopicTemplates
from binlog_format.errors import OptionError


@pytest.mark.parametrize("table", ["a/b", "..", "x y", "é", "\x1b]0;x\x07", "a'b\"", "😀"])
def test_hostile_names_are_topics_that_kafka_takes(table: str) -> None:
    topic = TopicNames(TopicTemplates("shop")).of_table("db", table)
    assert re.fullmatch(r"shop\.db\.[A-Za-z0-9._-]+", topic)


@pytest.mark.parametrize("second", ["a b", "a/b", "a$b"])
def test_two_tables_never_share_a_topic_by_their_replacements(second: str) -> None:
    names = TopicNames(TopicTemplates("shop"))
    assert names.of_table("db", "a#b") == "shop.db.a_b"
    with pytest.raises(OptionError, match=r"INVALID_VALUE.*shop\.db\.a_b"):
        names.of_table("db", second)


def test_a_table_never_gets_a_topic_of_the_publisher_itself() -> None:
    names = TopicNames(TopicTemplates("shop", tables="shop.{table}"))
    with pytest.raises(OptionError, match=r"INVALID_VALUE.*shop\.offsets"):
        names.of_table("db", "offsets")


def test_a_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(OptionError, match=r"INVALID_VALUE.*characters"):
        TopicNames(TopicTemplates("shop")).of_table("d" * 200, "t" * 60)
