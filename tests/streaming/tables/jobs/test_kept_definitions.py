"""What statements defined of tables outlives them: a restart after a purge has equal tables, and equal messages."""

from __future__ import annotations

import base64
import itertools
import shutil
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from binlog_connector import log_definitions
from binlog_connector.following.kept_definitions import KeptDefinitions
from binlog_connector.following.offsets import SourceOffset
from binlog_connector.following.starts import Edge
from binlog_connector.following.tailer import FollowOptions, Tailer
from binlog_connector.following.watched import WatchedLog
from binlog_connector.given_definitions import NOTHING_GIVEN
from binlog_connector.log_definitions import RangeSchemas, SchemaFile
from binlog_connector.schema.definitions import TableName
from binlog_format.errors import BinlogError, OptionError
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.job_state.definition_keeper import DefinitionKeeper
from binlog_streaming.jobs.init import publish_init_text
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.settings import Job, PublishJob, Sink, Source, TableRule, parse_any_job
from binlog_streaming.status.tallies import TableTallies
from binlog_streaming.topics.connecting import names_of
from binlog_streaming.topics.record import PublishRecord, Records, check_same, same_job_errors
from binlog_streaming.topics.step_messages import StepMessages
from tests.faults.processes import Killed
from tests.streaming.replay_runs import run
from tests.streaming.tables.shop import ShopLog

if TYPE_CHECKING:
    from binlog_connector.schema.definitions import TableDefinition
    from binlog_streaming.job_state.progress import BatchProgress

ID = ColumnSpec("id", "int")
ORDERS = TableSpec("shop", "orders", (ID, ColumnSpec("note", "varchar(20)", nullable=True)), ("id",))
COUNTED = TableSpec("shop", "orders", (*ORDERS.columns, ColumnSpec("count", "int unsigned")), ("id",))
MADE = "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(20) CHARACTER SET utf8mb4) COMMENT 'internal'"
COUNT_ADDED = "ALTER TABLE orders ADD count INT UNSIGNED NOT NULL DEFAULT 3"
MOST = (1 << 32) - 1
NAME = TableName("shop", "orders")


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_definitions, "_known", {})


def forget_all() -> None:
    """As a new process begins."""
    log_definitions._known.clear()


def purge(log: ShopLog, *, before: int) -> None:
    for _ in range(2):  # a file that may be in use stays
        log.flush()
    log.purge(before=before)


def job_in(folder: Path, **source: object) -> Job:
    return Job(
        source=msgspec.convert({"path": str(folder / "log"), **source}, Source),
        sink=Sink(directory=str(folder / "tables")),
        checkpoint=str(folder / "checkpoint"),
        tables=(TableRule(select=r"shop\.(orders|parked)", target="{database}/{table}"),),
    )


def rows(job: Job) -> list[tuple[object, ...]]:
    with closing(sink_type(job.sink.format).at(job.sink, f"{job.sink.directory}/shop/orders")) as target:
        found = target.read().read_all()
    return sorted(tuple(row[name] for name in ("id", "note", "count") if name in row) for row in found.to_pylist())


def properties(job: Job, table: str) -> dict[str, str]:
    with closing(sink_type(job.sink.format).at(job.sink, f"{job.sink.directory}/shop/{table}")) as target:
        found = target.properties()
    assert found is not None
    return {name: value for name, value in found.items() if name.startswith("binlog-stream.def")}


def kept(job: Job | PublishJob) -> KeptDefinitions:
    assert job.kept_definitions is not None
    found = KeptDefinitions.read(job.kept_definitions)
    assert found is not None
    return found


@pytest.mark.parametrize("stop", ["behind", "before"])
def test_tables_go_on_after_their_statements_were_purged(tmp_path: Path, stop: str) -> None:
    job = job_in(tmp_path)
    with ShopLog(tmp_path / "log", metadata=False) as log:
        log.statement(MADE)
        log.insert(ORDERS, (1, "a"))
        log.statement(COUNT_ADDED)
        log.insert(COUNTED, (2, "b", MOST))
        assert run(job) == 1
        log.flush()
        log.insert(COUNTED, (3, "c", MOST))
        with pytest.raises(Killed):
            run(job, batches_max=1, stop=stop)
        log.update(COUNTED, ((3, "c", MOST), (3, "d", 7)))
        purge(log, before=1)
        forget_all()
        run(job)
        forget_all()
        log.insert(COUNTED, (4, "e", MOST))
        run(job)
    assert rows(job) == [(1, "a", 3), (2, "b", MOST), (3, "d", 7), (4, "e", MOST)]


def test_tables_go_on_after_the_first_part_of_a_transaction_that_they_have_was_purged(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    with ShopLog(tmp_path / "log", metadata=False) as log:
        log.statement(MADE)
        with log.large_insert(ORDERS, (1, "a")):
            log.flush()
            log.insert(ORDERS, (2, "b"))
            run(job)
        run(job)
        log.purge(before=1)
        for number in (3, 4):
            forget_all()
            log.insert(ORDERS, (number, "c"))
            run(job)
    assert rows(job) == [(1, "a"), (2, "b"), (3, "c"), (4, "c")]


def test_targets_and_status_state_whether_the_definition_is_known(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    parked = TableSpec("shop", "parked", ORDERS.columns, ("id",))
    batches: list[BatchProgress] = []
    tallies = TableTallies(())

    def stated() -> dict[str, tuple[str, str | None]]:
        run(job, listener=batches.append)
        for batch in batches:
            tallies.take_batch(batch)
        batches.clear()
        of_status = {table.name: table.definition for table in tallies.tables(None, "")}
        return {
            name: (properties(job, name)["binlog-stream.definition"], of_status[f"shop.{name}"])
            for name in ("orders", "parked")
        }

    with ShopLog(tmp_path / "log") as log:
        log.insert(ORDERS, (1, "a"))
        log.statement("CREATE TABLE parked (id INT PRIMARY KEY, note VARCHAR(20) CHARACTER SET utf8mb4)")
        log.insert(parked, (1, "a"))
        assert stated() == {"orders": ("partial", "partial"), "parked": ("known", "known")}
        forget_all()
        log.insert(ORDERS, (2, "b"))
        log.insert(parked, (2, "b"))
        version = properties(job, "parked")
        assert stated() == {"orders": ("partial", "partial"), "parked": ("known", "known")}
        assert properties(job, "parked") == version
        log.statement("ALTER TABLE parked ADD ( n 'secret'")
        with pytest.raises(BinlogError, match="DDL_NOT_PARSED"):
            run(job)


def test_without_the_file_such_a_restart_is_named(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    with ShopLog(tmp_path / "log", metadata=False) as log:
        log.statement(MADE)
        log.insert(ORDERS, (1, "a"))
        run(job)
        log.flush()
        run(job)
        log.insert(ORDERS, (2, "b"))
        purge(log, before=1)
        forget_all()
        Path(str(job.kept_definitions)).unlink()
        with pytest.raises(BinlogError, match="NO_COLUMN_METADATA"):
            run(job)


def test_a_job_that_kept_nothing_reads_its_log_once(tmp_path: Path) -> None:
    """A job of a version without this file, which is then purged."""
    job = job_in(tmp_path)
    with ShopLog(tmp_path / "log", metadata=False) as log:
        log.statement(MADE)
        log.insert(ORDERS, (1, "a"))
        run(job)
        Path(str(job.kept_definitions)).unlink()
        log.insert(ORDERS, (2, "b"))
        run(job)
        log.flush()
        log.insert(ORDERS, (3, "c"))
        run(job)
        purge(log, before=1)
        log.insert(ORDERS, (4, "d"))
        forget_all()
        run(job)
    assert rows(job) == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]


def topics_job(folder: Path, **source: object) -> PublishJob:
    text = """
checkpoint = "state"
[source]
path = "log"
[sink]
kind = "kafka"
bootstrap_servers = "127.0.0.1:9"
topic_prefix = "t"
[[tables]]
select = "shop.orders"
"""
    job = parse_any_job(text, file=folder / "job.toml")
    assert isinstance(job, PublishJob)
    return msgspec.structs.replace(job, source=msgspec.structs.replace(job.source, **source))


class Publisher:
    """What `TopicsJob` does without Kafka: the messages of each step, and the offset that is committed with them."""

    def __init__(self, job: PublishJob) -> None:
        self.job = job
        self.offset: SourceOffset | None = None
        self.messages: list[tuple[bytes | None, bytes | None]] = []

    def run(self, *, kill: bool = False) -> None:
        """Publish what is in the log; killed: before the offset of the first step is committed."""
        forget_all()
        messages = StepMessages(self.job, names_of(self.job.sink), None, lambda _: 1)
        start = Tailer(self.job.source.path, Edge.EARLIEST, saved=self.offset, how=FollowOptions(ends=True))
        with start as tailer:
            while (step := tailer.step(0.0)) is not None or not tailer.is_ended:
                if step is None:
                    continue
                made = [
                    pair for some in messages.of(step, Records()) for pair in zip(some.keys, some.values, strict=True)
                ]
                if kill:
                    return
                self.messages += [(key.as_py(), value.as_py()) for key, value in made]
                self.offset = step.end


def after_images(publisher: Publisher) -> list[dict[str, object]]:
    return [msgspec.json.decode(value)["after"] for _, value in publisher.messages if value is not None]


def test_topics_go_on_after_their_statements_were_purged(tmp_path: Path) -> None:
    publisher = Publisher(topics_job(tmp_path))
    with ShopLog(tmp_path / "log", metadata=False) as log:
        log.statement(MADE)
        log.insert(ORDERS, (1, "a"))
        publisher.run()
        log.statement(COUNT_ADDED)
        log.insert(COUNTED, (2, "b", MOST))
        publisher.run(kill=True)
        publisher.run()
        log.flush()
        log.insert(COUNTED, (3, "c", MOST))
        publisher.run(kill=True)
        purge(log, before=1)
        publisher.run()
        log.insert(COUNTED, (4, "d", MOST))
        publisher.run()
    assert after_images(publisher) == [
        {"id": 1, "note": "a"},
        *({"id": number, "note": note, "count": MOST} for number, note in ((2, "b"), (3, "c"), (4, "d"))),
    ]


STATEMENTS = (
    MADE,
    COUNT_ADDED,
    "CREATE TABLE secret (id INT, pin VARCHAR(8))",
    "ALTER TABLE orders RENAME COLUMN note TO remark",
    "RENAME TABLE orders TO parked",
    "CREATE TABLE orders LIKE parked",
    "DROP TABLE orders",
    "CREATE TABLE orders (id BIGINT UNSIGNED PRIMARY KEY, total INT AS (id * 2) STORED, at DATE DEFAULT '2020-01-02')",
    "ALTER TABLE orders MODIFY id INT",
    "CREATE TABLE _orders_gho (id INT PRIMARY KEY, v UUID)",
    "RENAME TABLE orders TO _orders_old, _orders_gho TO orders",
)


def defined(path: Path, end: SourceOffset, keeping: Job | None) -> TableDefinition | None:
    """What a new process knows of the table at a place."""
    forget_all()
    with WatchedLog(str(path), None) as watched:
        schemas = RangeSchemas(watched, end.position, NOTHING_GIVEN if keeping is None else keeping.given_definitions())
        return schemas.definition(NAME)


@pytest.mark.parametrize("each_file", [1, 2, 3])
@pytest.mark.parametrize("kills", [False, True])
def test_each_offset_has_the_definitions_of_its_place(tmp_path: Path, each_file: int, kills: bool) -> None:
    """Statement by statement; a killed job has written definitions of a place that its offset does not reach."""
    whole, purged = tmp_path / "whole", tmp_path / "log"
    job = job_in(tmp_path)
    keeper = DefinitionKeeper(job)
    offsets: list[SourceOffset] = []
    with ShopLog(whole, metadata=False) as log:
        for number, text in enumerate(STATEMENTS):
            log.statement(text)
            if number % each_file == each_file - 1:
                log.flush()
            with WatchedLog(str(whole), None) as watched:
                offsets.append(SourceOffset(watched.log.end_position()))
    for number, (begin, end) in enumerate(itertools.pairwise(offsets)):
        shutil.rmtree(purged, ignore_errors=True)
        shutil.copytree(whole, purged)
        with WatchedLog(str(purged), None) as watched:
            for _ in range(2 if kills else 1):
                keeper = DefinitionKeeper(job) if kills or number == 0 else keeper
                keeper.bring_to(watched, begin.position)
                for _ in keeper.observed(watched.log.committed_blocks(begin.position, end.position)):
                    pass
                keeper.take(watched, (), end.position)
        for offset in (begin, end):
            expected = defined(whole, offset, None)
            for path in purged.glob("*.ibb"):
                if int(path.stem.rpartition("-")[2]) < offset.position.file_no:
                    path.unlink()
            assert defined(purged, offset, job) == expected, (number, offset)
    names = {table.name.table for state in kept(job).states for table in state.tables}
    assert "secret" not in names
    assert "pin" not in Path(str(job.kept_definitions)).read_text()
    assert "internal" not in Path(str(job.kept_definitions)).read_text()


def test_a_temporary_table_hides_the_table_of_its_name_over_a_restart(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    with ShopLog(tmp_path / "log", metadata=False) as log:
        log.statement(MADE)
        log.statement("CREATE TEMPORARY TABLE orders (id INT, other INT)")
        log.statement("CREATE TEMPORARY TABLE secret (id INT)")
        log.insert(ORDERS, (1, "a"))
        run(job)
        log.flush()
        log.statement("ALTER TABLE orders RENAME COLUMN id TO number, ADD more INT")
        log.insert(ORDERS, (2, "b"))
        purge(log, before=1)
        forget_all()
        run(job)
    assert rows(job) == [(1, "a"), (2, "b")]
    assert "secret" not in Path(str(job.kept_definitions)).read_text()


def test_a_log_that_was_begun_anew_is_not_that_of_the_definitions(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    with ShopLog(tmp_path / "log", metadata=False) as log:
        log.statement(MADE)
        log.insert(ORDERS, (1, "a"))
        run(job)
    state = kept(job).states[-1]
    assert state.tables
    shutil.rmtree(tmp_path / "log")
    with ShopLog(tmp_path / "log", first=50, metadata=False) as log:
        for number in range(9):
            log.insert(ORDERS, (number, "another server's"))
    with WatchedLog(str(tmp_path / "log"), None) as watched:
        usable = kept(job).usable(watched, watched.log.end_position())
        # Before the first statement nothing is defined, in any log.
        assert usable is None or (usable.position == watched.log.start_position() and not usable.altered)


def test_a_schema_file_made_after_a_statement_that_was_not_understood_counts(tmp_path: Path) -> None:
    dump = tmp_path / "schema.sql"
    job = job_in(tmp_path)
    with ShopLog(tmp_path / "log", metadata=False) as log:
        log.statement(MADE)
        log.insert(ORDERS, (1, "a"))
        run(job)
        log.statement("ALTER TABLE orders ADD ( note 'secret words'")
        log.flush()
        log.insert(TableSpec("elsewhere", "t", (ID,), ("id",)), (1,))
        keeper = DefinitionKeeper(job)
        with WatchedLog(str(tmp_path / "log"), None) as watched:
            end = watched.log.end_position()
            keeper.bring_to(watched, end)
            keeper.take(watched, (), end)
        assert [table.name for table in kept(job).states[-1].unclear] == [NAME]
        assert "secret" not in Path(str(job.kept_definitions)).read_text()
        purge(log, before=1)
        with pytest.raises(BinlogError, match="DDL_NOT_PARSED"):
            defined(tmp_path / "log", SourceOffset(end), job)
        dump.write_text("USE shop; CREATE TABLE orders (id INT PRIMARY KEY, remark TEXT);")
        forget_all()
        with WatchedLog(str(tmp_path / "log"), None) as watched:
            schemas = RangeSchemas(watched, end, job.given_definitions(SchemaFile.read(str(dump))))
            found = schemas.definition(NAME)
    assert found is not None
    assert [column.name for column in found.columns or ()] == ["id", "remark"]


@pytest.mark.parametrize("content", ["{", '{"version":2,"known_from":{"file_no":0,"page":1,"chunk":0},"states":[]}'])
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    job = job_in(tmp_path)
    with ShopLog(tmp_path / "log", metadata=False) as log:
        log.statement(MADE)
        run(job)
        log.insert(ORDERS, (1, "a"))
    Path(str(job.kept_definitions)).write_text(content)
    with pytest.raises(OptionError, match="not a file of kept definitions"):
        run(job)


CODES = TableSpec("shop", "orders", (ID, ColumnSpec("u", "binary(16)", nullable=True)), ("id",))
UUID_BYTES = bytes.fromhex("123e4567e89b12d3a456426655440000")
UUID_TEXT = "123e4567-e89b-12d3-a456-426655440000"


@pytest.mark.parametrize("declared", [True, None])
def test_topics_have_the_types_that_statements_declare(tmp_path: Path, declared: bool | None) -> None:
    """Also after the statement was purged; a job of today goes on with bytes."""
    publisher = Publisher(topics_job(tmp_path, declared_types=declared))
    with ShopLog(tmp_path / "log") as log:
        log.statement("CREATE TABLE orders (id INT PRIMARY KEY, u UUID)")
        log.insert(CODES, (1, UUID_BYTES))
        publisher.run()
        log.flush()
        publisher.run()
        log.insert(CODES, (2, UUID_BYTES))
        purge(log, before=1)
        publisher.run()
    value = UUID_TEXT if declared else base64.b64encode(UUID_BYTES).decode()
    assert after_images(publisher) == [{"id": number, "u": value} for number in (1, 2)]


def test_the_types_of_topics_stay_as_the_job_began(tmp_path: Path) -> None:
    job, declaring, undeclaring = (topics_job(tmp_path, declared_types=value) for value in (None, True, False))
    assert same_job_errors(PublishRecord.of(job), undeclaring) == []
    (told,) = same_job_errors(PublishRecord.of(job), declaring)
    assert told.reason.startswith("source.declaredTypes: ")
    with pytest.raises(OptionError, match=r"source\.declaredTypes"):
        check_same(PublishRecord.of(declaring), job)


def test_init_lets_new_topics_have_the_types(tmp_path: Path) -> None:
    with ShopLog(tmp_path / "log") as log:
        log.insert(ORDERS, (1, "a"))
    assert "\ndeclaredTypes = true\n" in publish_init_text(str(tmp_path / "log"), scan_size=1 << 20)


def test_values_of_hidden_tables_are_kept_of_no_table_that_takes_their_place(tmp_path: Path) -> None:
    """A ghost goes by the rule of its table, whatever rule its own name is one of."""
    job = msgspec.structs.replace(
        job_in(tmp_path),
        tables=(
            TableRule(select=r"shop\.orders", target="{database}/{table}", mask={"note": "null"}),
            TableRule(select=r"shop\..*", target="{database}/{table}"),
        ),
    )
    columns = "(id INT PRIMARY KEY, note VARCHAR(20) CHARACTER SET utf8mb4 DEFAULT"
    with ShopLog(tmp_path / "log", metadata=False) as log:
        log.statement(f"CREATE TABLE orders {columns} 'a secret')")
        log.statement(f"CREATE TABLE _orders_gho {columns} 'a secret')")
        log.statement(f"CREATE TABLE parked {columns} 'all may know')")
        log.insert(ORDERS, (1, "a"))
        assert run(job) == 1
    assert job.kept_definitions is not None
    content = Path(job.kept_definitions).read_text()
    assert "a secret" not in content
    assert "all may know" in content
