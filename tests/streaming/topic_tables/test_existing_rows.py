"""Statements that change rows of which no message tells stop the tables of topics, where messages show them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from binlog_format.errors import SchemaError
from tests.streaming.topic_tables.test_run import Source, bring_back, ids

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.faults.kafka_broker import KafkaBroker

pytestmark = pytest.mark.server

NULL_KNOWN = '[[tables]]\nmode = "mirror"\ntarget = "mirror/{database}/{table}"\nunknown_values = "null"\n'
TIME = "io.debezium.time."
DECIMAL = "org.apache.kafka.connect.data.Decimal"


@pytest.fixture
def source(kafka_broker: KafkaBroker) -> Iterator[Source]:
    with Source(kafka_broker, f"e{uuid.uuid4().hex[:12]}", partitions=1) as made:
        yield made


def decimal(scale: int) -> dict[str, Any]:
    digits = {"scale": str(scale), "connect.decimal.precision": "10"}
    return {"type": "bytes", "name": DECIMAL, "parameters": digits}


@pytest.mark.parametrize("is_read_before", [False, True])
def test_a_key_that_later_messages_have_is_named(source: Source, tmp_path: Path, is_read_before: bool) -> None:
    """As after ADD id INT AUTO_INCREMENT PRIMARY KEY, or of a column that was there."""
    job = source.job(tmp_path, rules=NULL_KNOWN)
    source.send(0, source.change(1, "c", after={"id": 1, "name": "a"}))
    if is_read_before:
        bring_back(job)
    source.insert(0, 2, 3)
    with pytest.raises(SchemaError, match=r"shop\.items: keys of messages had no column and have id now"):
        bring_back(job)


@pytest.mark.parametrize("is_read_before", [False, True])
@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ({"type": "double"}, {"type": "float"}),
        ({"type": "int64", "name": f"{TIME}MicroTimestamp"}, {"type": "int64", "name": f"{TIME}Timestamp"}),
        (decimal(3), decimal(1)),
        (decimal(1), {"type": "int32"}),
    ],
)
def test_fewer_digits_are_named_and_more_are_not(
    source: Source, tmp_path: Path, wide: dict[str, Any], narrow: dict[str, Any], is_read_before: bool
) -> None:
    job = source.job(tmp_path, rules=NULL_KNOWN)

    def insert(number: int, kind: dict[str, Any]) -> None:
        source.fields[1] = {**kind, "optional": True, "field": "name"}
        source.insert(0, number, number, name=None)

    insert(1, narrow)
    insert(2, wide)
    bring_back(job)
    assert ids(job) == [1, 2]
    if not is_read_before:
        job = source.job(tmp_path / "other", rules=NULL_KNOWN)
    insert(3, narrow)
    insert(4, wide)
    with pytest.raises(SchemaError, match=r"shop\.items: column name has fewer digits after the point"):
        bring_back(job)
