"""Spark's own writers keep to what the other sinks do: the same cases, fewer of them, as each takes Spark seconds.

A session needs its jars from the start, so this file is run in a process of its own (`make test-compat`).
"""

from __future__ import annotations

import tarfile
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyspark
import pytest

from binlog_format.errors import OptionError
from binlog_streaming.lake.change import Patches
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.lake.evolution import SchemaChange
from binlog_streaming.lake.spark.sessions import DELTA_SETTINGS, SessionPool, SparkWriteError, spark_targets
from binlog_streaming.lake.steps import Step, watched
from binlog_streaming.settings import Merge, Mode, Sink, TableFormat, TableRule, Writer
from binlog_streaming.spark_jars import require_writer, session_settings
from binlog_streaming.spark_session import local_session
from binlog_streaming.tables.progress import Outcome
from tests.faults.cuts import Cut, CutAt
from tests.streaming.tables import test_sinks as cases
from tests.streaming.tables.oltp import OLTP
from tests.streaming.tables.sink_cases import INT_KEY, MIRROR_TICKET, Place, all_types, change_of, numbers, rows_of
from tests.streaming.tables.spark_place import SparkPlace
from tests.streaming.tables.test_apply_sinks import check
from tests.streaming.tables.test_delta_features import ARCHIVE
from tests.streaming.tables.test_faults import put_in
from tests.streaming.tables.test_job import LOG_FILE, job_for, run_once
from tests.streaming.tables.test_sinks import OPERATIONS, WIDE, WIDE_ROWS, Prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from binlog_streaming.lake.target import Ticket

FORMATS = (TableFormat.DELTA, TableFormat.ICEBERG)
NEWEST_WITH_JARS = (4, 1)
pytestmark = [
    pytest.mark.spark,
    # By version, not by what `packages` knows: where jars are, none of these tests may be left out.
    pytest.mark.skipif(
        tuple(map(int, pyspark.__version__.split(".")[:2])) > NEWEST_WITH_JARS,
        reason=f"there are no jars of both Delta and Iceberg for PySpark {pyspark.__version__}",
    ),
    # PySpark 4.1 leaves the sockets of collected results to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def writers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with the jars of both formats."""
    settings = session_settings(TableFormat.ICEBERG, session_settings(TableFormat.DELTA, {}))
    folder = tmp_path_factory.mktemp("writers")
    settings["spark.sql.warehouse.dir"] = str(folder / "warehouse")
    settings["spark.sql.shuffle.partitions"] = "1"  # tables of a few rows
    session = local_session("writers", settings=settings, log_file=folder / "spark.log")
    try:
        for one in FORMATS:
            require_writer(one, session)
    except OptionError:
        pytest.skip("this process has started Spark without the jars: run this file by itself")
    yield session
    session.stop()


@pytest.fixture(params=FORMATS, ids=str)
def place(request: pytest.FixtureRequest, writers: SparkSession, tmp_path: Path) -> SparkPlace:
    place = SparkPlace(tmp_path, request.param, session=writers)
    return replace(place, targets=spark_targets(writers, place.sink))


@pytest.mark.parametrize(
    "case",
    [
        cases.test_every_type_comes_back_as_it_was,
        cases.test_every_type_survives_that_its_file_is_written_anew,
        cases.test_a_column_of_every_type_is_added,
        cases.test_a_type_that_no_format_has_is_refused,
        cases.test_two_creations_at_once_are_a_conflict,
        cases.test_steps_of_a_batch_follow_each_other_on_one_look,
        cases.test_columns_change_between_two_merges_on_one_look,
        cases.test_table_says_new_things_about_itself_once,
        cases.test_only_current_rows_are_there,
        cases.test_odd_column_names_work,
        cases.test_rows_and_columns_are_replaced,
        cases.test_empty_append_still_counts,
    ],
    ids=lambda case: case.__name__.removeprefix("test_"),
)
def test_case_of_all_sinks(place: SparkPlace, case: Callable[[Place], None]) -> None:
    case(place)


def test_all_at_once(place: SparkPlace) -> None:
    """Upserts, deletes, patches and appends are one commit."""
    place.append(0, rows_of(WIDE, WIDE_ROWS), MIRROR_TICKET)
    cases.test_upserts_deletes_patches_and_appends_are_one_commit(place)


@pytest.mark.parametrize(
    "name", ["merge with patches and appends", "new column", "renamed and wider", "replace by nothing"]
)
def test_a_repeated_step_changes_nothing(place: SparkPlace, name: str) -> None:
    cases.test_a_repeated_step_changes_nothing(prepared(place, name))


@pytest.mark.parametrize("name", ["merge", "new column with a value"])
def test_cut_off_at_any_step_then_again(place: SparkPlace, name: str) -> None:
    steps: list[Step] = []
    operation = prepared(replace(place, name="shop/table"), name)
    with watched(steps.append):
        assert operation.step()
    for number, step in enumerate(dict.fromkeys(steps)):
        other = replace(place, name=f"shop/table_{number}")
        cases.check_cut_off(prepared(other, name), step)


def prepared(place: SparkPlace, name: str) -> Prepared:
    assert place.append(0, numbers(1, 2, 3), MIRROR_TICKET)
    return Prepared(place, OPERATIONS[name], replace(MIRROR_TICKET, batch_id=1, step=3))


def test_twin_with_the_same_step_does_not_write_it_again(place: SparkPlace) -> None:
    """Delta leaves such a write out, Iceberg's commit fails."""
    twin = prepared(place, "merge")
    with closing(place.target()) as late:
        assert not late.is_done(twin.ticket)
        assert twin.step()
        before = place.state()
        if place.format is TableFormat.DELTA:
            twin.write(late)
        else:
            with pytest.raises(Exception, match=r".") as caught:
                twin.write(late)
            assert late.is_conflict(caught.value)
        assert place.format is TableFormat.ICEBERG or place.state() == before
    assert not twin.step()
    twin.check()


@pytest.mark.parametrize("name", ["new column with a value", "replace"])
def test_what_somebody_else_commits_between_look_and_write_is_not_taken_away(place: SparkPlace, name: str) -> None:
    """Such a write fails, and is done on what is there then."""
    ours = prepared(place, name)
    with closing(place.target()) as late:
        put_in(place, {"id": 9, "value": "z"})
        with pytest.raises(Exception, match=r".") as caught:
            ours.write(late)
        assert late.is_conflict(caught.value)
    assert place.sorted_rows() == [(1, "x"), (2, "x"), (3, "x"), (9, "z")]
    assert ours.step()
    assert place.sorted_rows() == ([(8, "x")] if name == "replace" else [*ours.operation.rows, (9, "z", "n")])


def test_what_somebody_else_commits_during_a_write_is_not_taken_away(place: SparkPlace) -> None:
    place.append(0, numbers(1), MIRROR_TICKET)
    ticket = replace(MIRROR_TICKET, batch_id=1)

    def rows() -> Iterator[pa.RecordBatch]:
        yield from numbers(5).to_batches()
        put_in(place, {"id": 9, "value": "z"})
        yield from numbers(6).to_batches()

    with closing(place.target()) as late:
        with pytest.raises(Exception, match=r".") as caught:
            late.replace(pa.RecordBatchReader.from_batches(INT_KEY, rows()), ticket)
        assert late.is_conflict(caught.value)
    assert place.ids() == [1, 9]


def test_columns_are_changed_back_when_their_rows_do_not_come(writers: SparkSession, tmp_path: Path) -> None:
    """Behind a kill the job may want something else: Iceberg's columns are those of before."""
    place = SparkPlace(tmp_path, TableFormat.ICEBERG, session=writers)
    place = replace(place, targets=spark_targets(writers, place.sink))
    place.append(0, numbers(1, 2), MIRROR_TICKET)
    ticket = replace(MIRROR_TICKET, batch_id=1)
    change = SchemaChange(renamed={"value": "name"}, filled={"name": pa.scalar("n")})
    with pytest.raises(Cut), watched(CutAt(Step.FILES_WRITTEN)):
        place.evolve(change, ticket)
    with closing(place.target()) as target:
        assert target.schema().names == ["id", "value"]
        assert target.read().read_all().sort_by("id").to_pylist() == numbers(1, 2).to_pylist()
    assert place.bring(change_of([(2, "y")]), batch_id=1)
    assert place.sorted_rows() == [(1, "x"), (2, "y")]


@pytest.mark.parametrize("table_format", FORMATS, ids=str)
def test_embedded_writer_sees_what_is_done(writers: SparkSession, tmp_path: Path, table_format: TableFormat) -> None:
    """Both remember steps alike."""
    place = SparkPlace(tmp_path, table_format, session=writers)
    place = replace(place, targets=spark_targets(writers, place.sink))
    embedded = Place(tmp_path, table_format)
    assert place.append(0, numbers(1), MIRROR_TICKET)
    assert not embedded.append(0, numbers(1), MIRROR_TICKET)
    assert embedded.merge(1, [(None, (2, "y"))])
    assert not place.merge(1, [(None, (2, "y"))])
    assert place.merge(2, [((1, "x"), (1, "z"))])
    assert embedded.sorted_rows() == [(1, "z"), (2, "y")]


def test_rows_of_more_than_one_piece(place: SparkPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is large goes through files, which are removed again."""
    monkeypatch.setattr("binlog_streaming.lake.spark.rows.PIECE_BYTES", 1)
    place.append(0, numbers(1), MIRROR_TICKET)
    rows = pa.concat_tables([numbers(2, 3), numbers(), numbers(4)])
    assert place.replace(rows, replace(MIRROR_TICKET, batch_id=1))
    assert place.ids() == [2, 3, 4]
    assert not list(place.directory.rglob("staging-*"))


def test_errors_of_java_are_one_line(place: SparkPlace) -> None:
    place.append(0, numbers(1))
    for file in (place.directory / place.name).rglob("*.parquet"):
        file.unlink()
    with closing(place.target()) as target, pytest.raises(Exception, match=r".") as caught:
        target.merge(change_of([(1, "y")]), replace(MIRROR_TICKET, batch_id=1))
    assert isinstance(caught.value, target.write_errors)
    if isinstance(caught.value, SparkWriteError):
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("table_format", FORMATS, ids=str)
def test_a_whole_job(writers: SparkSession, tmp_path: Path, table_format: TableFormat) -> None:
    """Mirrors equal the server; a batch that the checkpoint forgot is not doubled."""
    log = tmp_path / "log" / LOG_FILE
    log.parent.mkdir()
    content = (OLTP / LOG_FILE).read_bytes()
    sink = Sink(directory=str(tmp_path / "tables"), format=table_format, writer=Writer.SPARK)
    job = msgspec.structs.replace(job_for(tmp_path, (TableRule(mode=Mode.MIRROR),), log=log.parent), sink=sink)
    for number, size in enumerate((len(content) // 2, len(content))):
        log.write_bytes(content[:size])
        (batch,) = run_once(job, writers)
        assert batch.batch_id == number
        assert {table.outcome for table in batch.tables} == {Outcome.WRITTEN}
    for name in ("1", ".1.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    (again,) = run_once(job, writers)
    assert {table.outcome for table in again.tables} == {Outcome.REPEATED}
    check(tmp_path / "tables", table_format, Mode.MIRROR)


@pytest.fixture
def delta(writers: SparkSession) -> Iterator[SparkSession]:
    """A session that knows Delta tables by their paths."""
    pool = SessionPool(writers, DELTA_SETTINGS)
    session = pool.take()
    yield session
    pool.give_back(session)


@pytest.mark.parametrize(
    ("name", "merge"),
    [
        ("plain", Merge.MARK),
        ("deletion_vectors", Merge.REWRITE),
        ("everything", Merge.MARK),
        ("change_data_feed", Merge.MARK),
        ("v2_checkpoint", Merge.MARK),
        ("partitioned", Merge.REWRITE),
    ],
)
def test_spark_reads_and_goes_on_with_what_is_written_without_it(
    delta: SparkSession, tmp_path: Path, name: str, merge: Merge
) -> None:
    """Delta tables that Spark made, that we changed, that Spark changes, that we change."""
    path = tmp_path / name
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(
            tmp_path, [one for one in archive.getmembers() if one.name.startswith(f"{name}/")], filter="data"
        )
    for file in path.rglob("*"):
        file.touch()  # else commits are old enough to be removed

    def write(batch_id: int, write: Callable[[DeltaTarget, Ticket], object]) -> None:
        target = DeltaTarget.find(str(path), {}, file_size=64 << 20, merge=merge)
        write(target, replace(MIRROR_TICKET, batch_id=batch_id))
        target.maintain(Sink(directory=str(tmp_path)))

    def held() -> dict[int, str | None]:
        rows = delta.sql(f"SELECT id, value FROM delta.`{path}`").collect()
        assert len({row.id for row in rows}) == len(rows)
        return {row.id: row.value for row in rows}

    model = held()
    for batch_id in range(1, 20):
        patches = Patches(numbers(5), pa.table({"value": [True]}))
        change = change_of([(2, f"u{batch_id}"), (100 + batch_id, "n")], [0, 99 + batch_id], patches=patches)
        write(batch_id, lambda target, ticket, change=change: target.merge(change, ticket))  # type: ignore[misc]
    model |= {2: "u19", 5: "x", 119: "n"}
    model.pop(0, None)
    assert held() == model
    if name == "change_data_feed":
        version = delta.sql(f"DESCRIBE HISTORY delta.`{path}`").agg({"version": "max"}).collect()[0][0]
        feed = delta.read.format("delta").option("readChangeFeed", "true").option("startingVersion", version)
        said = [(row._change_type, row.id) for row in feed.load(str(path)).collect()]
        assert sorted(said) == [
            ("delete", 118),
            ("insert", 119),
            ("update_postimage", 2),
            ("update_postimage", 5),
            ("update_preimage", 2),
            ("update_preimage", 5),
        ]
    delta.sql(f"DELETE FROM delta.`{path}` WHERE id = 119")
    delta.sql(f"UPDATE delta.`{path}` SET value = 'spark' WHERE id = 2")
    write(20, lambda target, ticket: target.append(numbers(7).to_reader(), ticket))
    write(21, lambda target, ticket: target.merge(change_of([(5, "last")]), ticket))
    write(
        22, lambda target, ticket: target.evolve(SchemaChange(added=pa.schema([("more", pa.timestamp("us"))])), ticket)
    )
    write(23, lambda target, ticket: target.replace(target.read(), ticket))
    model = {key: value for key, value in model.items() if key != 119} | {2: "spark", 5: "last", 7: "x"}
    assert held() == model


@pytest.mark.parametrize("merge", [Merge.REWRITE, Merge.MARK])
def test_spark_reads_every_type_and_passes_over_files_by_our_statistics(
    delta: SparkSession, tmp_path: Path, merge: Merge
) -> None:
    place = Place(tmp_path, TableFormat.DELTA, merge_kind=merge)
    types = all_types()
    ids = pa.array(range(1, types.num_rows + 1), pa.int32())
    rows = types.add_column(0, "id", ids)
    place.append(0, rows, MIRROR_TICKET)
    place.bring(change_of([], [1], schema=rows.schema), batch_id=1, schema=rows.schema)
    found = delta.read.format("delta").load(place.uri).toArrow().sort_by("id")
    assert found.select(["id"]).column("id").to_pylist() == list(range(2, types.num_rows + 1))
    ours = place.read().sort_by("id")
    for column in types.column_names:
        assert found.column(column).cast(ours.schema.field(column).type).equals(ours.column(column)), column
    for row in range(2, types.num_rows + 1):
        assert delta.read.format("delta").load(place.uri).filter(f"id = {row}").count() == 1
