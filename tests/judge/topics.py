"""Are the messages about random histories right, too? `TopicsJudge`: the real publisher, and a broker in memory.

What must hold of each table of a history, or the publisher has named why it stopped:

* The judge empties the table when everything is over. These deletes tell all its rows as the log and all statements
  before have left them: they are the server's, by the schemas that the messages carry, under the table's primary key.
* Between two statements that change the table as a whole, each change finds the row that the one before it left.
* Key and value fit their schemas, the key is that of the row, and a delete is followed by its tombstone.
* In Avro, by a publisher that is stopped and started all the time, come the same messages.
"""

from __future__ import annotations

import json
import operator
import random
import re
import tempfile
import traceback
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from binlog_format.errors import BinlogError
from binlog_lab.simulator.disk import Disk
from binlog_lab.simulator.machine import Clock
from binlog_lab.simulator.topics.lived_topics import installed
from binlog_lab.simulator.topics.model_broker import ModelBroker
from binlog_lab.simulator.topics.model_registry import ModelRegistry
from binlog_streaming.settings import PublishJob, parse_any_job
from binlog_streaming.topics.connecting import names_of
from binlog_streaming.topics.job import TopicsJob
from tests.judge.histories.history import History, Session, quoted
from tests.judge.messages import Message, Part, as_avro, misfit, plain_row, read_avro, server_plain
from tests.judge.running import JobEnd
from tests.judge.verdicts import Kind, Verdict, copy_log, empty_log_folder, stopped_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from binlog_streaming.topics.record import Published
    from tests.judge.servers import LiveServer
    from tests.judge.tables import ServerTable

    Topic = Sequence[Sequence[tuple[bytes | None, bytes | None]]]
    """Keys and values by partition."""
    _Row = tuple[object, ...]

TOPIC = "topic of "
"""Before the name of a table: what the verdict is about."""
STEP_SIZE = 10_000
"""Bytes of the log in each transaction of the publisher in Avro."""
STEPS_OF_A_RUN = 10
"""Transactions of that publisher before it is stopped and started again."""
_PARTS = ("before", "after", "source", "op")
_JOB = """\
checkpoint = "{checkpoint}"
[source]
path = "{log}"
declaredTypes = true
[sink]
kind = "kafka"
bootstrap_servers = "broker:9092"
topic_prefix = "p"
partitions = 3
unsigned_bigint_handling = "precise"
{form}
[[tables]]
select = '{select}'
"""
_JSON = "schemas_enable = true"
_AVRO = 'format = "avro"\n[sink.registry]\nurl = "http://registry"'
_ROWS_ALONE = re.compile(
    r"(?i)\s*(INSERT|REPLACE|UPDATE|DELETE|SET(?! STATEMENT)|COMMIT|BEGIN|START|ROLLBACK|SAVEPOINT|XA|--)"
)
_UNLOGGED = re.compile(r"(?i)\bON (DELETE|UPDATE) (CASCADE|SET)\b")
"""Foreign keys that change rows of which no log tells."""


@dataclass(frozen=True)
class EmptiedTable:
    """A table whose rows were deleted in the end.

    Attributes:
        number: The last number of the GTID of these deletes; None: it had no rows, and no delete is logged.
        key: Columns of the primary key.
    """

    rows: ServerTable
    number: int | None
    key: Sequence[str]


@dataclass
class Publisher:
    """A job that publishes, and its broker."""

    log: Path
    folder: Path
    select: str
    form: str
    broker: ModelBroker = field(init=False)
    registry: ModelRegistry = field(init=False)
    job: PublishJob = field(init=False)

    def __post_init__(self) -> None:
        disk = Disk(self.folder, self.log, random.Random(0))
        self.broker, self.registry = ModelBroker(Clock(), disk, random.Random(0)), ModelRegistry(disk)
        text = _JOB.format(checkpoint=self.folder / "state", log=self.log, select=self.select, form=self.form)
        job = parse_any_job(text, file=self.folder / "job.toml")
        assert isinstance(job, PublishJob)
        self.job = job

    def run(self, steps: int | None = None, **how: int) -> JobEnd:
        """Publish all of the log. *steps*: of each process; None: one process is enough."""
        end = JobEnd()
        try:
            with installed(self.broker), self.registry.installed():
                while not self._has_ended(steps, how):
                    self.broker.restart()
        except BinlogError as error:
            end.error = str(error)
        except Exception:  # whatever has no name is a finding
            end.crash = traceback.format_exc()
        return end

    def _has_ended(self, steps: int | None, how: Mapping[str, int]) -> bool:
        def stop(_: Published) -> None:
            if job.progress.transactions == steps:
                job.stop()

        job = TopicsJob(self.job, once=True, listener=stop, **how)
        job.run()
        return not job.is_stopped

    def topic(self, name: str) -> Topic:
        """The topic of the table *name*, `database.table`."""
        partitions = self.broker.topics.get(names_of(self.job.sink).of_table(*name.split(".", 1)), ())
        return [[(message.key, message.value) for message in partition.committed()] for partition in partitions]


@dataclass
class TopicsJudge:
    """Judges the topics of the histories that a server has lived, whose tables it empties.

    Attributes:
        work: A folder for copies of the log and for jobs; what it has is forgotten.
    """

    server: LiveServer
    work: Path

    def judge(self, histories: Sequence[History]) -> dict[str, Verdict]:
        """The verdict about the topic of every table of every history, by `topic of database.table`."""
        emptied = {history.number: emptied_tables(self.server, history) for history in histories}
        self.server.settle()
        log = empty_log_folder(self.work)
        copy_log(self.server.log_directory, log)
        publishers, end = self._published(log, ".*")
        found: dict[str, Verdict] = {}
        for history in histories:
            tables = emptied[history.number]
            if end.error or end.crash:  # one history must not hide what becomes of the others
                found |= self._judged_alone(log, history, tables)
            else:
                found |= {name: verdict_of(history, name, table, publishers) for name, table in tables.items()}
        return {f"{TOPIC}{name}": verdict for name, verdict in found.items()}

    def _judged_alone(self, log: Path, history: History, tables: Mapping[str, EmptiedTable]) -> dict[str, Verdict]:
        publishers, end = self._published(log, rf"{history.database}b?\..*")
        if not end.error and not end.crash:
            return {name: verdict_of(history, name, table, publishers) for name, table in tables.items()}
        found: dict[str, Verdict] = {}
        for name, table in tables.items():
            publishers, end = self._published(log, re.escape(name))
            if end.error or end.crash:
                found |= stopped_by(history, end, (name,))
            else:
                found[name] = verdict_of(history, name, table, publishers)
        return found

    def _published(self, log: Path, select: str) -> tuple[tuple[Publisher, Publisher], JobEnd]:
        def publisher(form: str) -> Publisher:
            return Publisher(log, Path(tempfile.mkdtemp(prefix="job-", dir=self.work)), select, form)

        in_json, in_avro = publisher(_JSON), publisher(_AVRO)
        end = in_json.run()
        if not end.error and not end.crash:
            end = in_avro.run(STEPS_OF_A_RUN, step_size_max=STEP_SIZE)
        return (in_json, in_avro), end


def emptied_tables(server: LiveServer, history: History) -> dict[str, EmptiedTable]:
    """Empty the tables of a history, by `database.table`; those are left out whose server has old versions of rows."""
    found = {}
    after = History(history.number, "")
    with closing(Session(server, after)) as session:
        session.do("SET foreign_key_checks = 0, binlog_format = ROW, binlog_row_image = FULL, sql_mode = ''")
        places = (history.database, f"{history.database}b")
        for schema, trigger in session.ask(
            f"SELECT TRIGGER_SCHEMA, TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA IN {places}"
        ):
            session.do(f"DROP TRIGGER {quoted(str(schema))}.{quoted(str(trigger))}")
        for name, rows in history.server.items():
            schema, _, table = name.partition(".")
            which = f"TABLE_SCHEMA = '{schema}' AND TABLE_NAME = '{table}'"
            ((kind,),) = session.ask(f"SELECT TABLE_TYPE FROM information_schema.TABLES WHERE {which}")
            key = session.ask(
                f"SELECT COLUMN_NAME FROM information_schema.STATISTICS WHERE {which} AND INDEX_NAME = 'PRIMARY' "
                "ORDER BY SEQ_IN_INDEX"
            )
            if kind == "BASE TABLE" and not session.do(f"DELETE FROM {quoted(schema)}.{quoted(table)}"):
                number = _number(after.done[-1].gtid) if rows.rows else None
                found[name] = EmptiedTable(rows, number, [str(column) for (column,) in key])
    return found


def verdict_of(history: History, name: str, table: EmptiedTable, publishers: tuple[Publisher, Publisher]) -> Verdict:
    """The verdict about one topic, in JSON and in Avro."""
    in_json, in_avro = publishers
    topic = in_json.topic(name)
    messages = ordered_messages(topic)
    why = (
        next(filter(None, map(message_fault, messages)), "")
        or tombstone_fault(topic)
        or emptied_fault(table, messages)
        or chain_fault(history, name, messages)
        or avro_fault(messages, in_avro, name)
    )
    return Verdict(Kind.WRONG, why) if why else Verdict(Kind.EQUAL)


def ordered_messages(topic: Topic) -> list[Message]:
    """Messages of all partitions in the order of the log."""
    read = ([(Part.of(key), Part.of(value)) for key, value in partition] for partition in topic)
    return [Message(key, value, number) for key, value, number in in_order(read, lambda value: value.content)]


def in_order(
    topic: Iterable[Sequence[tuple[Any, Any]]], content_of: Callable[[Any], Mapping[str, Any]]
) -> list[tuple[Any, Any, int]]:
    """Keys, values and GTID numbers of all partitions: by sequence; a changed key is a delete, then a create.

    A tombstone has the place of the delete before it.
    """
    placed: list[tuple[str, int, tuple[Any, Any, int]]] = []
    for partition in topic:
        sequence, number = "", 0
        for key, value in partition:
            rank = 1
            if value is not None:
                content = content_of(value)
                sequence, number = content["source"]["sequence"], _number(content["source"]["gtid"])
                rank = 0 if content["op"] == "d" else 2
            placed.append((sequence, rank, (key, value, number)))
    return [message for _, _, message in sorted(placed, key=lambda message: message[:2])]


def message_fault(message: Message) -> str:
    """What is wrong with one message by itself."""
    if message.value is None or message.row is None:
        return "" if message.key is not None and message.value is None else f"a message without a row: {message}"
    why = misfit(message.value) or (misfit(message.key, "key") if message.key else "")
    wanted = {} if message.key is None else {name: message.row.content[name] for name in message.key.content}
    if message.key is not None and message.key.content != wanted:
        why = why or f"a row with the key {wanted} under the key {message.key.content}"
    return f"{why} in {message.number}" if why else ""


def tombstone_fault(topic: Topic) -> str:
    """Deletes that no tombstone follows, and tombstones of nothing."""
    for partition in topic:
        deleted: bytes | None = None
        for key, value in partition:
            part = Part.of(value)
            if (part is None) != (deleted is not None) or (part is None and key != deleted):
                return f"a delete of {deleted!r}, then a message under {key!r}"
            deleted = key if part is not None and part.content["op"] == "d" else None
        if deleted is not None:
            return f"a delete of {deleted!r} without a tombstone"
    return ""


def emptied_fault(table: EmptiedTable, messages: Sequence[Message]) -> str:
    """Rows of the last deletes that are not the server's."""
    deletes = [message for message in messages if message.number == table.number and message.op == "d"]
    kinds = dict(zip(table.rows.columns, table.rows.types, strict=True))
    got = [plain_row(message.row, kinds) for message in deletes if message.row is not None]
    wanted = [
        {name: server_plain(text, kinds[name]) for name, text in zip(kinds, row, strict=True)}
        for row in table.rows.rows
    ]
    if len(got) != len(wanted):
        return f"{len(got)} rows are deleted, the server had {len(wanted)}"
    for message, row in zip(deletes, got, strict=True):
        key = [] if message.key is None else [*message.key.content]
        if table.key and key != [*table.key]:
            return f"the key has {key}, the server's {table.key}"
        if [*row] != [*kinds]:
            return f"the columns are {[*row]}, the server's {[*kinds]}"
    surplus, lacking = _counted(got) - _counted(wanted), _counted(wanted) - _counted(got)
    return _difference([*surplus], [*lacking], kinds) if surplus or lacking else ""


def _counted(rows: Sequence[Mapping[str, object]]) -> Counter[_Row]:
    return Counter(tuple(row.values()) for row in rows)


def _difference(
    surplus: Sequence[tuple[object, ...]], lacking: Sequence[tuple[object, ...]], kinds: Mapping[str, str]
) -> str:
    mine = surplus[0]
    other = max(lacking, key=lambda row: sum(map(operator.eq, mine, row)))
    pairs = zip(kinds.values(), mine, other, strict=True)
    differing = [(kind, value, wanted) for kind, value, wanted in pairs if value != wanted]
    named = ", ".join(sorted({kind for kind, _, _ in differing}))
    shown = ", ".join(f"{value!r} for {wanted!r}" for _, value, wanted in differing)
    return f"values of {named}: {shown} in {mine!r}"[:600]


def chain_fault(history: History, name: str, messages: Sequence[Message]) -> str:
    """Changes that do not find the row that the change before them left."""
    if any(_UNLOGGED.search(done.text) for done in history.done):
        return ""
    about = re.compile(rf"(?i)\b({re.escape(name.partition('.')[2])}|DATABASE)\b")
    ends = [_number(done.gtid) for done in history.done if not _ROWS_ALONE.match(done.text) and about.search(done.text)]
    rows: dict[str, object] = {}
    before = 0
    for message in messages:
        if message.key is None or message.value is None:
            continue
        if any(before <= end <= message.number for end in ends):
            rows.clear()
        before = message.number
        key = json.dumps(message.key.content)
        content = message.value.content
        if rows.get(key, content["before"]) != content["before"]:
            return f"{content['op']} of {message.number} finds {content['before']}, there was {rows[key]}"
        rows[key] = content["after"]
    return ""


def avro_fault(messages: Sequence[Message], in_avro: Publisher, name: str) -> str:
    """Messages in Avro that are not those in JSON."""
    read = in_avro.registry.read
    topic = ([(read(key), read(value)) for key, value in partition] for partition in in_avro.topic(name))
    found = in_order(topic, lambda value: value)
    if len(found) != len(messages):
        return f"{len(found)} messages in Avro, {len(messages)} in JSON"
    for (key, value, _), message in zip(found, messages, strict=True):
        pairs = [(key, message.key)]
        if value is None or message.value is None:
            pairs.append((value, message.value))
        else:
            pairs += [(value[part], message.value.field(part)) for part in _PARTS]
        for got, wanted in pairs:
            if not _is_same(got, wanted):
                return f"in Avro {got!r}, in JSON {wanted and wanted.content!r}"[:600]
    return ""


def _is_same(in_avro: Any, in_json: Part | None) -> bool:
    if in_avro is None or in_json is None:
        return in_avro is in_json
    return bool(read_avro(in_avro, in_json.schema) == as_avro(in_json))


def _number(gtid: str) -> int:
    found = re.split(r"[-:]", gtid)[-1]
    return int(found) if found else 0
