"""Rows steps that several tasks write: the tables are those that one task makes, whatever becomes of tasks."""

from __future__ import annotations

import itertools
import pickle
import random
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from binlog_connector.crash_points import watched
from binlog_connector.rules.row_rule import RowRule
from binlog_connector.rules.row_rules import TableRules
from binlog_connector.rules.rules_on_tables import BoundRule
from binlog_connector.schema.definitions import TableName
from binlog_format import open_log
from binlog_format.errors import DataLossError, TableError
from binlog_format.position import Position
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding
from binlog_format.views.table_index import TableIndex
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.job_state.progress import Outcome
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.lake.evolution import SchemaChange
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.lake.target import CrashPoint
from binlog_streaming.modes.shards import IndivisibleError
from binlog_streaming.plan.batch_plan import Component, IndexPart, RowsStep
from binlog_streaming.plan.job_state import SelectedTable
from binlog_streaming.settings import Deletes, Merge, Mode, Sink, TableFormat, TableRule
from binlog_streaming.tables import division, parts
from binlog_streaming.tables.batch import ComponentWriter
from binlog_streaming.tables.division import is_divided, part_count, task_counts
from tests.faults.processes import Cut, CutOff
from tests.streaming.tables.batches import cut, plan, run
from tests.streaming.tables.delta.test_identity_columns import FACTS, give
from tests.streaming.tables.lake.sink_cases import MIRROR_COMMIT_ID, Place
from tests.streaming.tables.oltp import IMAGES, OLTP, TABLES, mirror, play_changelog, truth
from tests.streaming.tables.shop import ShopLog
from tests.streaming.tables.statements.statement_stories import ORDERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from binlog_streaming.job_state.progress import TableProgress
    from binlog_streaming.plan.batch_plan import BatchPlan
    from binlog_streaming.tables.division import Result, Shard

pytestmark = pytest.mark.usefixtures("shown_values")

PARTITIONS = 5


@dataclass
class TasksHere:
    """Tasks in this process: in any order, with what they need pickled, and some of them run twice.

    Attributes:
        parallelism: See `Tasks`.
        seed: Of what is chosen at random.
        jobs: Times that tasks were asked for something.
    """

    parallelism: int
    seed: int = 0
    jobs: int = 0

    def run(self, items: Sequence[bytes], work: Callable[[Iterable[bytes]], Iterator[Result]]) -> list[Result]:
        """See `Tasks`."""
        self.jobs += 1
        return [result for part in self._dealt(items) for result in self._attempts(work, part)]

    def run_sharded(
        self,
        items: Sequence[bytes],
        deal: Callable[[Iterable[bytes]], Iterator[Shard]],
        shard_count: int,
        work: Callable[[Iterable[bytes]], Iterator[Result]],
    ) -> list[Result]:
        """See `Tasks`."""
        self.jobs += 1
        shards: list[list[bytes]] = [[] for _ in range(shard_count)]
        for part in self._dealt(items):
            for shard, message in self._attempts(deal, part):
                shards[shard].append(message)
        self._random().shuffle(shards)
        return [result for messages in shards for result in self._attempts(work, messages)]

    def _dealt(self, items: Sequence[bytes]) -> list[list[bytes]]:
        chosen = list(items)
        self._random().shuffle(chosen)
        return [chosen[number :: self.parallelism] for number in range(self.parallelism)]

    def _attempts(self, work: Callable[[Iterable[bytes]], Iterator[Result]], items: list[bytes]) -> list[Result]:
        sent = pickle.dumps(work)
        if self._random().random() < 0.3:
            list(pickle.loads(sent)(iter(items)))  # an attempt that nobody hears of
        results: list[Result] = list(pickle.loads(sent)(iter(items)))
        return results

    def _random(self) -> random.Random:
        self.seed += 1
        return random.Random(self.seed)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(division, "PART_CHANGES", 1)
    monkeypatch.setattr(parts, "READ_BYTES", 1)
    monkeypatch.setattr("binlog_format.views.table_index.CHECKED_BYTES", 1)


def write_batch(
    planned: BatchPlan,
    directory: Path,
    batch_id: int,
    tasks: TasksHere,
    sink: Sink | None = None,
    log_path: Path = OLTP,
    decoding: Decoding = DEFAULT_DECODING,
) -> list[TableProgress]:
    """All tables of a batch, each divided."""
    assert planned.end is not None
    of_all = replace(run(directory, batch_id, planned.end, sink=sink), decoding=decoding)
    writer = ComponentWriter(of_all, str(log_path))
    progress = []
    for component in planned.components:
        result = writer.write_divided(component, tasks, tasks.parallelism)
        assert result is not None
        assert isinstance(result[1], list), result[1]
        progress += result[1]
    return progress


@pytest.mark.thorough_where("7|rewrite")
@pytest.mark.parametrize(
    ("kind", "merge", "task_count"),
    [
        (TableFormat.DELTA, Merge.AUTO, 2),
        (TableFormat.DELTA, Merge.MARK, 2),
        (TableFormat.DELTA, Merge.MARK, 7),
        (TableFormat.DELTA, Merge.REWRITE, 7),
        (TableFormat.ICEBERG, Merge.MARK, 3),
        (TableFormat.ICEBERG, Merge.REWRITE, 3),
    ],
)
def test_mirror_equals_the_server(tmp_path: Path, kind: TableFormat, merge: Merge, task_count: int) -> None:
    sink = Sink(directory=str(tmp_path), format=kind, merge=merge)
    tasks = TasksHere(task_count)
    with open_log(str(OLTP)) as log:
        for batch_id, batch in enumerate(cut(log, 3)):
            planned = plan(log, batch, (TableRule(),), partitions=PARTITIONS)
            progress = write_batch(planned, tmp_path, batch_id, tasks, sink)
            assert {table.outcome for table in progress} == {Outcome.WRITTEN}
            repeated = write_batch(planned, tmp_path, batch_id, tasks, sink)
            assert {table.outcome for table in repeated} == {Outcome.REPEATED}
    assert tasks.jobs == 3 * len(TABLES)
    for name in TABLES:
        rows = Place(tmp_path, kind, f"sb/{name}").read().sort_by("id")
        assert [tuple(row.values()) for row in rows.to_pylist()] == truth(name)


def test_changelog_has_each_image_once(tmp_path: Path) -> None:
    with open_log(str(OLTP)) as log:
        for batch_id, batch in enumerate(cut(log, 2)):
            planned = plan(log, batch, (TableRule(mode=Mode.CHANGELOG),), partitions=PARTITIONS)
            write_batch(planned, tmp_path, batch_id, TasksHere(3))
    kinds = 0
    for name in TABLES:
        rows, counted = play_changelog(tmp_path / "sb" / name)
        assert rows == truth(name)
        kinds += sum(counted.values())
    assert kinds == IMAGES


@pytest.mark.parametrize(
    "rule", [TableRule(mode=Mode.SCD2), TableRule(deletes=Deletes.MARK)], ids=["scd2", "marked deletes"]
)
def test_other_modes_are_what_one_task_makes(tmp_path: Path, rule: TableRule) -> None:
    with open_log(str(OLTP)) as log:
        for batch_id, batch in enumerate(cut(log, 2)):
            for folder, tasks in (("one", TasksHere(1)), ("many", TasksHere(4))):
                planned = plan(log, batch, (rule,), partitions=PARTITIONS)
                write_batch(planned, tmp_path / folder, batch_id, tasks)
    for name in TABLES:
        one, many = (
            sorted(map(repr, Place(tmp_path / folder, TableFormat.DELTA, f"sb/{name}").content().to_pylist()))
            for folder in ("one", "many")
        )
        assert one == many


@pytest.mark.parametrize("where", ["k > 50 and c < '5'", "id < 0"])
@pytest.mark.parametrize(
    "rule",
    [TableRule(), TableRule(mode=Mode.SCD2), TableRule(mode=Mode.CHANGELOG)],
    ids=["mirror", "scd2", "changelog"],
)
def test_rules_hide_the_same_from_many_tasks(tmp_path: Path, rule: TableRule, where: str) -> None:
    """Also where they leave some tasks without rows, or all of them."""
    hiding = RowRule(mask={"id": "sha256", "c": "last 4"}, drop_columns=("pad",), where=where, salt_variable="S")
    decoding = Decoding(rules=TableRules([BoundRule(hiding, needs_key=True, salt=b"salt")]))
    with open_log(str(OLTP)) as log:
        for batch_id, batch in enumerate(cut(log, 2)):
            for folder, tasks in (("one", TasksHere(1)), ("many", TasksHere(4))):
                planned = plan(log, batch, (rule,), decoding, partitions=PARTITIONS)
                write_batch(planned, tmp_path / folder, batch_id, tasks, decoding=decoding)
    rows = []
    for name in TABLES:
        target = [tmp_path / folder / "sb" / name for folder in ("one", "many")]
        one, many = (
            sorted(map(repr, DeltaTable(str(one)).to_pyarrow_table().to_pylist())) if one.exists() else []
            for one in target
        )
        assert one == many
        rows += one
    assert bool(rows) == (where != "id < 0")


def test_step_that_is_cut_off_anywhere_is_done_again(tmp_path: Path) -> None:
    with open_log(str(OLTP)) as log:
        first, second = (plan(log, batch, (TableRule(),), partitions=PARTITIONS) for batch in cut(log, 2))
    write_batch(first, tmp_path, 0, TasksHere(3))
    for step_no in itertools.count(1):
        try:
            with watched(CutOff(step_no)):
                write_batch(second, tmp_path, 1, TasksHere(3, seed=step_no))
            break
        except Cut:
            continue
    assert step_no > len(TABLES)  # each cut lets one more step be done
    for name in TABLES:
        assert mirror(tmp_path, name) == truth(name)


def test_foreign_commit_between_the_parts_and_their_commit(tmp_path: Path) -> None:
    """What the parts superseded may be gone: all of the step is done again."""
    with open_log(str(OLTP)) as log:
        first, second = cut(log, 2)
        write_batch(plan(log, first), tmp_path, 0, TasksHere(2))
        foreign: list[str] = []

        def commit_something(step: CrashPoint) -> None:
            if step is CrashPoint.PARTS_WRITTEN and len(foreign) < 2:
                table = DeltaTable(str(tmp_path / "sb" / "sbtest1"))
                table.alter.set_table_properties({"team": str(len(foreign))}, raise_if_not_exists=False)
                foreign.append("done")

        with watched(commit_something):
            progress = write_batch(plan(log, second), tmp_path, 1, TasksHere(3))
    assert foreign == ["done"] * 2
    assert {table.outcome for table in progress} == {Outcome.WRITTEN}
    for name in TABLES:
        assert mirror(tmp_path, name) == truth(name)


@pytest.mark.parametrize("merge", [Merge.MARK, Merge.REWRITE])
@pytest.mark.parametrize("kind", [TableFormat.DELTA, TableFormat.ICEBERG])
def test_values_that_are_not_what_images_show_are_named(tmp_path: Path, kind: TableFormat, merge: Merge) -> None:
    sink = Sink(directory=str(tmp_path), format=kind, merge=merge)
    with open_log(str(OLTP)) as log:
        first, second = (plan(log, batch, (TableRule(),), partitions=PARTITIONS) for batch in cut(log, 2))
        write_batch(first, tmp_path, 0, TasksHere(3), sink)
    (component,) = (one for one in second.components if one.name == "sb.sbtest1")
    tables = {name: replace(table, complete=True) for name, table in component.tables.items()}
    component = replace(component, tables=tables)
    assert second.end is not None
    writer = ComponentWriter(run(tmp_path, 1, second.end, sink=sink), str(OLTP))
    with closing(sink_type(kind).at(sink, f"{tmp_path}/sb/sbtest1")) as target:
        rows = target.read().read_all()
        number = rows.column_names.index("k")
        wrong = rows.set_column(number, rows.field(number), pc.add(rows.column("k"), 1).cast(rows.field(number).type))
        target.replace(wrong.to_reader(), replace(MIRROR_COMMIT_ID, query_id="another"))
    result = writer.write_divided(component, TasksHere(3), 3)
    assert result is not None
    assert isinstance(result[1], TableError)
    assert "CONTRADICTED] sb.sbtest1: a" in str(result[1])
    assert "the row there differs: k is " in str(result[1])
    with closing(sink_type(kind).at(sink, f"{tmp_path}/sb/sbtest1")) as target:
        assert target.read().read_all().sort_by("id").equals(wrong.sort_by("id")), "nothing was written"


@pytest.mark.parametrize("merge", [Merge.MARK, Merge.REWRITE])
@pytest.mark.parametrize("kind", [TableFormat.DELTA, TableFormat.ICEBERG])
@pytest.mark.parametrize("bytes_read", [1, 1 << 20])
def test_a_change_that_the_change_before_it_contradicts_is_named(
    tmp_path: Path, kind: TableFormat, merge: Merge, bytes_read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "READ_BYTES", bytes_read)
    sink = Sink(directory=str(tmp_path / "tables"), format=kind, merge=merge)
    with ShopLog(tmp_path / "log") as log:
        log.statement("CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20))")
        for number in range(12):
            log.insert(ORDERS, (number, "a"))
        log.update(ORDERS, ((3, "a"), (3, "b")))
        log.update(ORDERS, ((3, "another"), (3, "c")))
    with open_log(str(tmp_path / "log")) as log_file:
        (batch,) = cut(log_file, 1)
        planned = plan(log_file, batch, (TableRule(),), partitions=PARTITIONS)
    (component,) = planned.components
    tables = {name: replace(table, complete=True) for name, table in component.tables.items()}
    component = replace(component, tables=tables)
    assert planned.end is not None
    writer = ComponentWriter(run(tmp_path / "tables", 0, planned.end, sink=sink), str(tmp_path / "log"))
    result = writer.write_divided(component, TasksHere(3), 3)
    (written,) = writer.write([component]) if result is None else [result]
    assert isinstance(written[1], TableError)
    assert "CONTRADICTED] shop.orders: an UPDATE at 0-1-15" in str(written[1])
    assert "left another one: name is 'b', not 'another'" in str(written[1])


def test_changed_log_is_named_and_changes_nothing(tmp_path: Path) -> None:
    with open_log(str(OLTP)) as log:
        (batch,) = cut(log, 1)
        planned = plan(log, batch, partitions=PARTITIONS)
    assert planned.end is not None
    (component, *_) = planned.components
    step = component.steps[-1]
    assert isinstance(step, RowsStep)
    index = TableIndex.from_bytes(step.parts[-1].index)
    wrong = replace(index, checks=(*index.checks[:-1], index.checks[-1]._replace(crc=1)))
    bad = replace(step, parts=(*step.parts[:-1], replace(step.parts[-1], index=wrong.to_bytes())))
    writer = ComponentWriter(run(tmp_path, 0, planned.end), str(OLTP))
    steps = tuple(bad if one is step else one for one in component.steps)
    result = writer.write_divided(replace(component, steps=steps), TasksHere(3), 3)
    assert result is not None
    assert isinstance(result[1], DataLossError)
    assert "sb.sbtest1" in str(result[1])
    assert Place(tmp_path, TableFormat.DELTA, "sb/sbtest1").content().num_rows == 0


def test_tasks_that_are_lost_on_the_way_are_done_again(tmp_path: Path) -> None:
    """Some have heard of the files of one attempt, others of those of the next one: nothing is committed of either."""
    with open_log(str(OLTP)) as log:
        for batch_id, batch in enumerate(cut(log, 2)):
            tasks = LostTasks(3)
            write_batch(plan(log, batch, partitions=PARTITIONS), tmp_path, batch_id, tasks)
            assert tasks.jobs == len(TABLES) + 1
    for name in TABLES:
        assert mirror(tmp_path, name) == truth(name)


class LostTasks(TasksHere):
    """Those of the first step run once more after one of their readers has begun."""

    def run_sharded(
        self,
        items: Sequence[bytes],
        deal: Callable[[Iterable[bytes]], Iterator[Shard]],
        shard_count: int,
        work: Callable[[Iterable[bytes]], Iterator[Result]],
    ) -> list[Result]:
        """See `Tasks`."""
        if self.jobs:
            return super().run_sharded(items, deal, shard_count, work)
        self.jobs += 1
        first, again = list(deal(iter(items))), list(deal(iter(items)))
        return [
            result
            for shard in range(shard_count)
            for result in work([message for number, message in (again if shard else first) if number == shard])
        ]


def test_step_that_must_be_whole_is_left_to_one_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Iterator[tuple[int, bytes]]:
        raise IndivisibleError("sb.sbtest1")

    monkeypatch.setattr(parts, "sharded", refuse)
    monkeypatch.setattr(parts, "key_messages", refuse)
    with open_log(str(OLTP)) as log:
        (batch,) = cut(log, 1)
        planned = plan(log, batch)
    assert planned.end is not None
    writer = ComponentWriter(run(tmp_path, 0, planned.end), str(OLTP))
    assert writer.write_divided(planned.components[0], TasksHere(2), 2) is None
    assert len(writer.write(planned.components)) == len(TABLES)
    for name in TABLES:
        assert mirror(tmp_path, name) == truth(name)


def test_table_that_numbers_its_rows_is_left_to_one_task(tmp_path: Path) -> None:
    """Tasks do not know which numbers others give."""
    with open_log(str(OLTP)) as log:
        first, second = (plan(log, batch) for batch in cut(log, 2))
    assert first.end is not None
    assert second.end is not None
    ComponentWriter(run(tmp_path, 0, first.end), str(OLTP)).write(first.components)
    path = tmp_path / "sb" / TABLES[0]
    before = set(mirror(tmp_path, TABLES[0]))
    target = DeltaTarget.at(Sink(directory=str(tmp_path)), str(path))
    commit_id = replace(MIRROR_COMMIT_ID, step=1 << 20)
    target.evolve(SchemaChange(added=pa.schema([("n", pa.int64())])), commit_id)
    give(path, FACTS, {})
    (own,) = [component for component in second.components if TABLES[0] in component.name]
    writer = ComponentWriter(run(tmp_path, 1, second.end), str(OLTP))
    assert writer.write_divided(own, TasksHere(2), 2) is None
    writer.write([own])
    rows = DeltaTarget.at(Sink(directory=str(tmp_path)), str(path)).read().read_all().to_pylist()
    assert sorted((row["id"], row["k"], row["c"], row["pad"]) for row in rows) == truth(TABLES[0])
    new = [row["n"] for row in rows if (row["id"], row["k"], row["c"], row["pad"]) not in before]
    assert None not in new
    assert len(set(new)) == len(new) > 0


KEYLESS = TableSpec("shop", "notes", (ColumnSpec("n", "int"), ColumnSpec("text", "varchar(20)")))
CREATE = "CREATE TABLE notes (n INT, text VARCHAR(20))"


@pytest.fixture
def keyless(tmp_path: Path) -> Path:
    folder = tmp_path / "log"
    with ShopLog(folder) as log:
        log.statement(CREATE)
        for number in range(20):
            log.insert(KEYLESS, (number % 7, "a"), (number % 7, "b"))
        log.flush()
        log.statement("ALTER TABLE notes ADD COLUMN more INT")
        for number in range(20):
            log.insert(WIDER, (number, "c", number))
    return folder


WIDER = replace(KEYLESS, columns=(*KEYLESS.columns, ColumnSpec("more", "int", nullable=True)))


def test_rows_without_a_key_that_only_come_are_divided(tmp_path: Path, keyless: Path) -> None:
    """Also on both sides of a statement about their table."""
    tasks = TasksHere(3)
    with open_log(str(keyless)) as log:
        (batch,) = cut(log, 1)
        write_batch(plan(log, batch, partitions=PARTITIONS), tmp_path, 0, tasks, log_path=keyless)
    assert tasks.jobs == 2
    rows = Counter(
        (row["n"], row["text"], row["more"])
        for row in Place(tmp_path, TableFormat.DELTA, "shop/notes").content().to_pylist()
    )
    before = Counter((number % 7, text, None) for number in range(20) for text in "ab")
    assert rows == before + Counter((number, "c", number) for number in range(20))


def test_rows_without_a_key_that_change_are_one_task_s(tmp_path: Path, keyless: Path) -> None:
    with ShopLog(keyless, first=100) as shop:
        shop.delete(WIDER, (3, "c", 3))
    with open_log(str(keyless)) as log:
        (batch,) = cut(log, 1)
        planned = plan(log, batch, partitions=PARTITIONS)
    assert planned.end is not None
    writer = ComponentWriter(run(tmp_path, 0, planned.end), str(keyless))
    assert writer.write_divided(planned.components[0], TasksHere(2), 2) is None


def _component(changes: int, size: int, table: str = "t") -> Component:
    name = TableName("db", table)
    part = IndexPart(Position(0, 0, 0), Position(0, 1, 0), b"", changes, 0, 0, size)
    return Component({name: SelectedTable(name, TableRule())}, (RowsStep(2, name, (part,)),))


@pytest.mark.parametrize(
    ("sizes", "parallelism", "counts"),
    [
        ([100], 1, [1]),
        ([100], 2, [2]),
        ([100], 4, [4]),
        ([100, 100], 4, [2, 2]),
        ([100, 100, 100], 4, [1, 1, 1]),
        ([200, 50, 50], 3, [2, 1, 1]),
        ([300, 10, 10], 4, [4, 1, 1]),
        ([500, 100, 100, 100], 8, [5, 1, 1, 1]),
        ([100] * 3, 12, [4, 4, 4]),
    ],
)
def test_tasks_help_with_tables_that_others_would_wait_for(
    sizes: list[int], parallelism: int, counts: list[int]
) -> None:
    components = [_component(1, size << 24, f"t{number}") for number, size in enumerate(sizes)]
    assert task_counts(components, parallelism, Sink(directory="lake")) == counts


@pytest.mark.parametrize(
    ("rule", "merge"),
    [
        (TableRule(mode=Mode.SCD2), Merge.AUTO),
        (TableRule(deletes=Deletes.MARK), Merge.AUTO),
        (TableRule(), Merge.REWRITE),
    ],
)
def test_rows_that_are_dealt_out_by_key_take_three(rule: TableRule, merge: Merge) -> None:
    ((name, table),) = _component(1, 1 << 24).tables.items()
    component = replace(_component(1, 1 << 24), tables={name: replace(table, rule=rule)})
    sink = Sink(directory="lake", merge=merge)
    assert [task_counts([component], count, sink) for count in (2, 3)] == [[1], [3]]


def test_step_is_divided_where_it_is_worth_it_or_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(division, "PART_CHANGES", 250_000)
    small, hot, huge = _component(450_000, 1 << 20), _component(1_000_000, 1 << 24), _component(10, 1 << 30)
    steps = [component.steps[0] for component in (small, hot, huge)]
    assert [part_count(step, 8) for step in steps if isinstance(step, RowsStep)] == [1, 4, 16]
    assert [is_divided(one, 8, "delta") for one in (small, hot, huge)] == [False, True, True]
    assert not is_divided(huge, 8, "parquet")
    assert is_divided(huge, 1, "delta")
