"""Rows that snapshots have copied for topics, in recorded logs: exact at their place, private, and nobody else's."""

from __future__ import annotations

import itertools
import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from binlog_connector.envelope.messages import MessagesView
from binlog_connector.envelope.options import EnvelopeFormat, EnvelopeOptions, MessageOperation
from binlog_connector.rules.row_rules import read_rules
from binlog_connector.schema.history import SchemaHistory
from binlog_connector.schema.snapshot_marks import CopiedTables
from binlog_format import open_log
from binlog_format.position import Position
from binlog_format.rows.decoding import Decoding
from binlog_format.views.filters import TableFilter
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_lab.simulator.snapshots.snapshot_life import MARKS
from binlog_streaming.settings import PublishJob, parse_any_job
from tests.connector.envelope.test_avro_messages import avro_encoding
from tests.faults.schema_registry import SchemaRegistryServer
from tests.streaming.tables.shop import ShopLog
from tests.streaming.tables.snapshots.snapshot_log import ShopSnapshot, begin_late
from tests.streaming.topics.publishing import messages_made

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

PEOPLE = TableSpec(
    "shop", "people", (ColumnSpec("id", "int"), ColumnSpec("name", "varchar(60)"), ColumnSpec("n", "int")), ("id",)
)
OPTIONS = EnvelopeOptions("t")
KEYS = 40
SECRET = "LEAK7731"


def rows_of(
    path: Path,
    options: EnvelopeOptions = OPTIONS,
    *,
    tables: str | None = None,
    rules: str | None = None,
    cuts: Iterable[int] = (),
    encoding: Any = None,
) -> list[dict[str, Any]]:
    """Messages of a log, read by publishers that are started again at each of *cuts*, numbers of groups."""
    decoding = Decoding(SchemaHistory(), rules=None if rules is None else read_rules(rules, needs_key=True))
    found: list[dict[str, Any]] = []
    with open_log(str(path)) as log:
        starts = [Position.of(block.groups[i]) for block in log.committed_blocks() for i in range(len(block.groups))]
        places = [log.start_position(), *(starts[cut] for cut in sorted(cuts)), None]
        for start, stop in itertools.pairwise(places):
            assert start is not None
            copied = CopiedTables(options.topic_prefix)
            copied.enter(lambda start=start, stop=stop: log.committed_blocks(start, stop))  # type: ignore[misc]
            view = MessagesView(options, tables=TableFilter(tables), decoding=decoding, encoding=encoding)
            view.take_copies(copied.source_of)
            batches = list(view.batches(log.committed_blocks(start, stop)))
            found += [row for batch in batches for row in batch.to_pylist()]
    return found


def payloads(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [json.loads(row["value"]) for row in rows if row["value"] is not None]


def rebuilt(messages: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The rows of a consumer that applies all messages."""
    rows: dict[int, dict[str, Any]] = {}
    for message in messages:
        if message["after"] is None:
            rows.pop(message["before"]["id"], None)
        else:
            rows[message["after"]["id"]] = message["after"]
    return rows


class History:
    """A table that is older than its log, changed at random while a snapshot of it is taken."""

    def __init__(self, log: ShopLog, numbers: random.Random) -> None:
        self._log, self._numbers = log, numbers
        self.rows = {key: (key, f"old {key}", 0) for key in numbers.sample(range(KEYS), KEYS // 2)}
        self.copied = 0

    def change(self) -> None:
        """An insert, an update, a change of the key, or a delete."""
        numbers, rows = self._numbers, self.rows
        key, free = numbers.choice([*rows, None]), numbers.choice([key for key in range(KEYS) if key not in rows])
        if key is None:
            rows[free] = (free, "new", 1)
            self._log.insert(PEOPLE, rows[free])
            return
        before = rows.pop(key)
        if numbers.random() < 0.3:
            self._log.delete(PEOPLE, before)
            return
        after = (numbers.choice([key, key, free]), "changed", before[2] + 1)
        rows[after[0]] = after
        self._log.update(PEOPLE, (before, after))

    def chunk(self, snapshot: ShopSnapshot, first: int, end: int) -> None:
        """Rows with keys from *first* to before *end*."""
        found = [row for key, row in self.rows.items() if first <= key < end]
        snapshot.chunk(found)
        self.copied += len(found)


@pytest.mark.parametrize("seed", range(12))
def test_a_consumer_has_the_rows_of_the_table_wherever_publishers_began(tmp_path: Path, seed: int) -> None:
    numbers = random.Random(seed)
    with ShopLog(tmp_path) as log:
        begin_late(log)
        history, snapshot = History(log, numbers), ShopSnapshot(log, PEOPLE, topics="t")
        others = [ShopSnapshot(log, PEOPLE), ShopSnapshot(log, PEOPLE, topics="other")]
        history.change()
        snapshot.begin()
        for first in range(0, KEYS, 8):
            history.chunk(snapshot, first, first + 8)
            for other in others:
                other.chunk([(0, "nobody's", 0)])
            for _ in range(numbers.randrange(4)):
                history.change()
        snapshot.end()
        history.change()
    cuts = numbers.sample(range(1, 12), numbers.randrange(4))
    messages = payloads(rows_of(tmp_path, cuts=cuts))
    assert rebuilt(messages) == {
        key: dict(zip(("id", "name", "n"), row, strict=True)) for key, row in history.rows.items()
    }
    assert sum(message["op"] == "r" for message in messages) == history.copied
    places = [message["source"]["sequence"] for message in messages]
    assert places == sorted(places)


def test_rows_of_a_chunk_that_comes_in_pieces_all_have_their_table(tmp_path: Path) -> None:
    rows = [(number, "x" * 50, number) for number in range(120_000)]
    with ShopLog(tmp_path) as log:
        begin_late(log)
        ShopSnapshot(log, PEOPLE, topics="t").take(rows)
    with open_log(str(tmp_path)) as opened:
        assert sum(not block.groups["ends"][-1] for block in opened.committed_blocks()) > 1, "it is in one piece"
    found = rows_of(tmp_path, EnvelopeOptions("t", transaction_metadata=True))
    assert {(row["kind"], row["op"]) for row in found} == {("change", "r")}, "chunks are no transactions"
    assert [json.loads(row["key"])["id"] for row in found] == list(range(len(rows)))


def test_options_about_changes_do_not_count_for_copied_rows(tmp_path: Path) -> None:
    with ShopLog(tmp_path) as log:
        begin_late(log)
        ShopSnapshot(log, PEOPLE, topics="t").take([(1, "a", 1)], [(2, "b", 2)])
        log.insert(PEOPLE, (3, "c", 3))
    plain = EnvelopeOptions("t", skipped_operations=frozenset(MessageOperation), transaction_metadata=True, query=True)
    for message in payloads(rows_of(tmp_path, plain)):
        assert (message["op"], message["before"], message["transaction"]) == ("r", None, None)
        assert (message["source"]["snapshot"], message["source"]["query"]) == ("incremental", None)
    flat = payloads(rows_of(tmp_path, EnvelopeOptions("t", format=EnvelopeFormat.FLAT)))
    assert [message["__op"] for message in flat] == ["r", "r", "c"]
    assert {message["__deleted"] for message in flat} == {"false"}
    assert rows_of(tmp_path, tables=r"shop\.orders") == []
    with open_log(str(tmp_path)) as opened:  # who does not ask for them has none
        batches = list(MessagesView(OPTIONS).batches(opened.committed_blocks()))
    assert [row["op"] for batch in batches for row in batch.to_pylist()] == ["c"]


RULES = r"""[{"select": "shop[.]people", "mask": {"name": "null"}, "where": "n < 10", "drop_columns": ["n"]}]"""


def test_rules_of_the_source_hold_for_copied_rows(tmp_path: Path) -> None:
    with ShopLog(tmp_path) as log:
        begin_late(log)
        log.insert(PEOPLE, (1, SECRET, 1))
        snapshot = ShopSnapshot(log, PEOPLE, topics="t")
        snapshot.begin()
        snapshot.chunk([(1, f"{SECRET}-1", 1), (2, SECRET, 2), (3, SECRET, 77312)])
        snapshot.chunk([(4, SECRET, 77313)])
        snapshot.end()
        ShopSnapshot(log, TableSpec("hidden", "people", PEOPLE.columns, ("id",)), topics="t").take([(5, SECRET, 1)])
    everything = EnvelopeOptions("t", schemas=True, transaction_metadata=True, schema_changes=True, query=True)
    with SchemaRegistryServer() as server:
        avro = avro_encoding(server, OPTIONS)
        ways: Iterator[list[dict[str, Any]]] = iter(
            (
                rows_of(tmp_path, everything, tables="shop[.].*", rules=RULES),
                rows_of(tmp_path, EnvelopeOptions("t", format=EnvelopeFormat.FLAT), tables="shop[.].*", rules=RULES),
                rows_of(tmp_path, tables="shop[.].*", rules=RULES, encoding=avro),
            )
        )
        for found in ways:
            assert [row["op"] for row in found if row["kind"] == "change"] == ["c", "r", "r"]
            assert SECRET not in str(found)
            assert "7731" not in str(found)
    messages = payloads(rows_of(tmp_path, tables="shop[.].*", rules=RULES))
    assert [message["after"] for message in messages] == [{"id": number, "name": None} for number in (1, 1, 2)]


def test_a_table_of_marks_with_a_strange_mark_stops_nobody_who_has_no_copies(tmp_path: Path) -> None:
    with ShopLog(tmp_path) as log:
        begin_late(log)
        log.insert(PEOPLE, (1, "a", 1))
        log.insert(MARKS, (0, "id", "chunk", "shop", "people", "s_1", 0, 0, "no JSON"))
    assert [row["op"] for row in rows_of(tmp_path)] == ["c"]


def test_what_becomes_of_a_snapshot_is_told_in_a_topic_of_its_own(tmp_path: Path) -> None:
    with ShopLog(tmp_path / "log") as log:
        begin_late(log)
        first, second = (ShopSnapshot(log, PEOPLE, topics="t") for _ in range(2))
        other = ShopSnapshot(log, PEOPLE, topics="other")
        for snapshot in (first, other):
            snapshot.begin()
            snapshot.chunk([(1, "a", 0), (2, "b", 0)])
        first.end()
        second.begin()
        second.cancel("it was altered")
    job = parse_any_job(
        f'checkpoint = "c"\n[source]\npath = "{tmp_path / "log"}"\n[sink]\nkind = "kafka"\nbootstrap_servers = "a:1"\n'
        'topic_prefix = "t"\nnotification_topic = "{prefix}.told"\n',
        file=tmp_path / "job.toml",
    )
    assert isinstance(job, PublishJob)
    told = [json.loads(message["value"]) for message in messages_made(job) if message["topic"] == "t.told"]
    assert [(one["type"], one["id"] == told[0]["id"]) for one in told] == [
        ("STARTED", True),
        ("IN_PROGRESS", True),
        ("TABLE_SCAN_COMPLETED", True),
        ("STARTED", False),
        ("ABORTED", False),
    ]
    assert {one["aggregate_type"] for one in told} == {"Incremental Snapshot"}
    assert told[2]["additional_data"] == {
        "connector_name": "t",
        "data_collections": "shop.people",
        "scanned_collection": "shop.people",
        "total_rows_scanned": "2",
        "status": "SUCCEEDED",
    }
    assert told[4]["additional_data"]["reason"] == "it was altered"
