"""Topics back into tables, as a consumer of Debezium's messages would do it: `read_topic`, `compare_topic`.

Messages are decoded here one by one, by the SQL types of the tables, and by nothing that wrote them.
"""

from __future__ import annotations

import base64
import datetime
import time
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from kafka import KafkaConsumer, TopicPartition

from binlog_lab.demo.proof.comparison import DETAILS_MAX, Comparison, TableDifference, compare_changelog
from binlog_lab.demo.proof.expected_rows import CHANGE_TYPE, GTID, ExpectedTable, to_arrow
from binlog_lab.demo.real_log import table_spec
from binlog_lab.demo.shop import ALTERATIONS, TABLES, final_tables
from binlog_lab.event_encoding.table_encoding import TableSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from binlog_lab.event_encoding.table_encoding import ColumnSpec

    Row = dict[str, Any]
    Decode = Callable[[bytes], Any]

READ_SECONDS = 120.0
"""Seconds without a message after which the end of a topic counts as hidden by a transaction."""

_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 (DATETIME columns have no zone)
_TYPES = {"c": ("insert",), "u": ("update_preimage", "update_postimage"), "d": ("delete",)}


@dataclass(frozen=True, slots=True)
class TopicChange:
    """One change in a topic.

    Attributes:
        op: Debezium's letter.
        before: The row before it; None: there was none.
        after: The row after it; None: there is none.
        gtid: Of its transaction.
        sequence: Its place among all changes of the log.
    """

    op: str
    before: Row | None
    after: Row | None
    gtid: str
    sequence: str
    partition: int


def read_topic(servers: str, topic: str, decode: Decode = msgspec.json.decode) -> Iterator[TopicChange]:
    """The changes that a consumer of committed messages finds in *topic*, partition by partition in their order.

    Args:
        decode: Gives a value as JSON would give it.

    Raises:
        TimeoutError: A transaction stays open in it.
    """
    for partition, value in read_values(servers, topic):
        if value is not None:
            message = decode(value)
            source = message["source"]
            yield TopicChange(
                message["op"], message["before"], message["after"], source["gtid"], source["sequence"], partition
            )


def read_values(servers: str, topic: str) -> Iterator[tuple[int, bytes | None]]:
    """Partition and value of each committed message in *topic*, partition by partition in their order."""
    settings = {"bootstrap_servers": servers.split(","), "group_id": None, "auto_offset_reset": "earliest"}
    # With read_committed the end is where the first open transaction begins.
    reader, to_the_end = KafkaConsumer(**settings, isolation_level="read_committed"), KafkaConsumer(**settings)
    try:
        partitions = [TopicPartition(topic, number) for number in sorted(to_the_end.partitions_for_topic(topic) or ())]
        ends = to_the_end.end_offsets(partitions)
        for partition in partitions:
            reader.assign([partition])
            deadline = time.monotonic() + READ_SECONDS
            while reader.position(partition) < ends[partition]:
                for record in reader.poll(timeout_ms=200).get(partition, ()):
                    deadline = time.monotonic() + READ_SECONDS
                    yield partition.partition, record.value
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{topic}: a transaction stays open at {reader.position(partition)}")
    finally:
        reader.close()
        to_the_end.close()


def compare_topics(
    servers: str, prefix: str, expected_tables: Iterable[ExpectedTable], decode: Decode = msgspec.json.decode
) -> Iterator[Comparison]:
    """Compare each table of the demo with its topic, `prefix.database.table`.

    Args:
        decode: As for `read_topic`.

    Raises:
        TimeoutError: A transaction stays open in one.
    """
    for expected_table in expected_tables:
        altered = [alteration for alteration in ALTERATIONS if alteration.after.full_name == expected_table.name]
        added = {name: value for alteration in altered for name, value in alteration.added.items()}
        renamed = {name: new for alteration in altered for name, new in alteration.renamed.items()}
        specs = [spec for spec in (*final_tables(), *TABLES) if spec.full_name == expected_table.name]
        specs = specs or [table_spec(expected_table.name.partition(".")[2])]
        changes = list(read_topic(servers, f"{prefix}.{expected_table.name}", decode))
        yield compare_topic(replace(expected_table, added=added, renamed=renamed), specs, changes)


def compare_topic(
    expected_table: ExpectedTable, specs: Sequence[TableSpec], changes: Sequence[TopicChange]
) -> Comparison:
    """Compare *changes* with the final rows; and check that each change is there once, in log order.

    Args:
        specs: The table in all its forms, the last one first: a column is decoded by the first that has it.
        changes: In the order of their partitions.
    """
    columns = {column.name: column for spec in reversed(specs) for column in spec.columns}
    comparison = compare_changelog(replace(expected_table, changes=None), _images(columns, changes))
    odd = list(_out_of_order(changes))
    return replace(
        comparison,
        mode="topic",
        differences=(*odd[:DETAILS_MAX], *comparison.differences),
        difference_count=comparison.difference_count + len(odd),
    )


def _out_of_order(changes: Sequence[TopicChange]) -> Iterator[TableDifference]:
    last: dict[int, str] = {}
    seen: set[tuple[str, str]] = set()
    for change in changes:
        name = change.sequence, change.op
        if name in seen:
            yield TableDifference(change.sequence, None, "one message", f"op {change.op} again")
        elif change.sequence < last.get(change.partition, ""):
            yield TableDifference(change.sequence, None, f"after {last[change.partition]}", "before it")
        seen.add(name)
        last[change.partition] = change.sequence


def _images(columns: dict[str, ColumnSpec], changes: Sequence[TopicChange]) -> pa.Table:
    rows: list[Row] = []
    types: list[str] = []
    numbers: list[int] = []
    gtids: list[str] = []
    for number, change in enumerate(changes):
        images = [row for row in (change.before, change.after) if row is not None]
        rows += images
        types += _TYPES[change.op]
        numbers += [number] * len(images)
        gtids += [change.gtid] * len(images)
    arrays = [_column(spec, [row.get(name) for row in rows]) for name, spec in columns.items()]
    return pa.table(
        {
            **dict(zip(columns, arrays, strict=True)),
            CHANGE_TYPE: pa.array(types, pa.string()),
            GTID: pa.array(gtids, pa.string()),
            "_commit_version": pa.array(numbers, pa.int64()),
            "_event_no": pa.nulls(len(rows), pa.int32()),
            "_row_no": pa.nulls(len(rows), pa.int32()),
        }
    )


def _column(spec: ColumnSpec, values: list[Any]) -> pa.Array:
    decode = next((decode for prefix, decode in _DECODERS.items() if spec.sql_type.startswith(prefix)), None)
    if spec.sql_type == "bigint unsigned":
        decode = _unscaled
    decoded = values if decode is None else [None if value is None else decode(value) for value in values]
    return to_arrow(_one_column(spec), [(value,) for value in decoded]).column(0).combine_chunks()


def _one_column(spec: ColumnSpec) -> TableSpec:
    return TableSpec("", "", (spec,), ())


def _unscaled(text: str) -> Decimal:
    return Decimal(int.from_bytes(base64.b64decode(text), "big", signed=True))


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "decimal": Decimal,
    "datetime": lambda microseconds: _EPOCH + datetime.timedelta(microseconds=microseconds),
    "timestamp": lambda text: datetime.datetime.fromisoformat(text.replace("Z", "+00:00")),
    "date": lambda days: _EPOCH.date() + datetime.timedelta(days=days),
    "time": lambda microseconds: datetime.timedelta(microseconds=microseconds),
    "blob": base64.b64decode,
}
"""Decoders by the beginning of a SQL type, the first that matches: the topics were written with `decimal_handling =
"string"`, `unsigned_bigint_handling = "precise"` and `time_precision = "microseconds"`."""
