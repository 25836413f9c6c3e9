"""Iceberg tables in catalogs: the folder's own and a real REST server's, with files in folders and in a real S3 server.

Steps, guarantees and what other readers find are the same everywhere.
"""

from __future__ import annotations

import pickle
import re
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pytest
from msgspec import structs

pytest.importorskip("pyiceberg")

from pyiceberg.catalog import load_catalog
from pyiceberg.table.update import UpgradeFormatVersionUpdate

from binlog_connector.crash_points import reached, watched
from binlog_format.errors import OptionError, TableError
from binlog_lab.demo.servers.lake_servers import BUCKET
from binlog_streaming.lake.change import Patches
from binlog_streaming.lake.evolution import SchemaChange
from binlog_streaming.lake.iceberg.catalog import catalog_properties
from binlog_streaming.lake.iceberg.data_files import IcebergFileReader
from binlog_streaming.lake.iceberg.maintenance import compact, expire
from binlog_streaming.lake.iceberg.schema import arrow_schema
from binlog_streaming.lake.iceberg.table_files import live_files
from binlog_streaming.lake.iceberg.table_write import IcebergTableWrite
from binlog_streaming.lake.iceberg.target import IcebergTarget
from binlog_streaming.lake.target import CrashPoint
from binlog_streaming.settings import Merge, Mode, Sink, TableFormat
from binlog_streaming.settings.choices import partition_rule
from binlog_streaming.tables.batch_run import BatchVersions
from tests.faults.object_store import Fault, FaultyProxy, ObjectStore, RestCatalog
from tests.faults.processes import Cut, CutAt
from tests.faults.tcp_proxy import TcpProxy
from tests.streaming.tables.jobs.test_job import job_for, run_once
from tests.streaming.tables.lake.sink_cases import INT_KEY, MIRROR_COMMIT_ID, change_of, numbers, rows_of
from tests.streaming.tables.oltp import TABLES, truth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from binlog_streaming.lake.commit_id import CommitId

Test = TypeVar("Test", bound="Callable[..., None]")
PLACES = ["folder", "rest", "rest-s3"]
COMMIT = re.compile(r"POST /v1/namespaces/shop/tables/orders ")
VERSIONS = pa.schema([("id", pa.int32()), ("value", pa.string()), ("_is_current", pa.bool_())])


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalog]:
    with RestCatalog(tmp_path_factory.mktemp("rest")) as server:
        yield server


@pytest.fixture(scope="module")
def rest_s3(tmp_path_factory: pytest.TempPathFactory, object_store: ObjectStore) -> Iterator[RestCatalog]:
    with RestCatalog(tmp_path_factory.mktemp("rest-s3"), object_store) as server:
        yield server


@dataclass(frozen=True)
class Lake:
    """A table `shop.orders`, as the job and as others see it."""

    sink: Sink

    @property
    def uri(self) -> str:
        return f"{self.sink.directory}/shop/orders"

    def look(self) -> IcebergTarget:
        return IcebergTarget.at(self.sink, self.uri)

    @contextmanager
    def table(self) -> Iterator[Table]:
        """As any other program finds it."""
        with closing(load_catalog(**catalog_properties(self.sink))) as catalog:
            yield catalog.load_table(("shop", "orders"))

    def begin(self, *ids: int, schema: pa.Schema = INT_KEY, commit_id: CommitId = MIRROR_COMMIT_ID) -> None:
        with closing(self.look()) as target:
            target.create(schema, commit_id)
            target.append(numbers(*ids).to_reader(), commit_id)

    def rows(self) -> list[tuple[object, ...]]:
        """As pyiceberg reads them; ours must be the same."""
        with self.table() as table:
            found = sorted(map(row_of, table.scan().to_arrow().to_pylist()), key=repr)
        with closing(self.look()) as target:
            assert sorted(map(row_of, target.read().read_all().to_pylist()), key=repr) == found
        return found


def row_of(row: dict[str, object]) -> tuple[object, ...]:
    return tuple(row.values())


def commit_id_of(batch_id: int, base: CommitId = MIRROR_COMMIT_ID) -> CommitId:
    return replace(base, batch_id=batch_id)


@pytest.fixture
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    kind = getattr(request, "param", "rest")
    directory, catalog = str(tmp_path / "tables"), {}
    if kind != "folder":
        server: RestCatalog = request.getfixturevalue(kind.replace("-", "_"))
        catalog = server.settings()
    if kind == "rest-s3":
        directory = f"s3://{BUCKET}/{tmp_path.name}"
    lake = Lake(Sink(directory=directory, format=TableFormat.ICEBERG, catalog=catalog))
    yield lake
    if catalog:
        with closing(load_catalog("other", **catalog)) as opened:
            if opened.table_exists(("shop", "orders")):
                opened.drop_table(("shop", "orders"))


def everywhere(function: Test) -> Test:
    test: Test = pytest.mark.server(pytest.mark.parametrize("lake", PLACES, indirect=True)(function))
    return test


# --- Steps ---


@pytest.mark.thorough_where("auto|rest")
@everywhere
@pytest.mark.parametrize("kind", list(Merge))
def test_all_kinds_of_steps_and_maintenance(lake: Lake, kind: Merge) -> None:
    lake = Lake(replace_sink(lake.sink, merge=kind))
    lake.begin(*range(50))
    model: dict[object, object] = dict.fromkeys(range(50), "x")
    for batch_id in range(1, 6):
        patches = Patches(numbers(0), pa.table({"value": [True]}))
        change = change_of([(batch_id, "y"), (100 + batch_id, "n")], [49 - batch_id], patches=patches)
        with closing(lake.look()) as target:
            target.merge(change, commit_id_of(batch_id))
            target.maintain(lake.sink)
        model |= {batch_id: "y", 100 + batch_id: "n"}
        model.pop(49 - batch_id, None)
    assert dict(lake.rows()) == model  # type: ignore[arg-type]
    with lake.table() as table:
        marked = [live for live in live_files(table.metadata, table.io, lake.uri) if live.is_marked]
        assert bool(marked) == (kind is Merge.MARK)
        assert all(len(live.own_deletes) == 1 for live in marked)
        compacted = compact(table, lake.uri, file_size=64 << 20)
        expire(compacted, retention_hours=0)
    assert dict(lake.rows()) == model  # type: ignore[arg-type]
    with closing(lake.look()) as target:
        target.evolve(SchemaChange(added=pa.schema([("note", pa.string())])), commit_id_of(20))
        target.set_properties(commit_id_of(20), recorded={"binlog-stream.dropped": "0:0:0"})
        target.replace(target.read(), commit_id_of(21))
    with closing(lake.look()) as target:
        assert target.is_done(commit_id_of(21))
        assert target.schema().names == ["id", "value", "note"]
        assert (target.properties() or {})["binlog-stream.dropped"] == "0:0:0"
    assert {row[:2] for row in lake.rows()} == set(model.items())


def replace_sink(sink: Sink, **values: object) -> Sink:
    return structs.replace(sink, **values)


STEPS: dict[Mode, Callable[[IcebergTarget, CommitId], object]] = {
    Mode.MIRROR: lambda target, commit_id: target.merge(change_of([(1, "y"), (3, "n")], [2]), commit_id),
    Mode.CHANGELOG: lambda target, commit_id: target.append(numbers(3).to_reader(), commit_id),
    Mode.SCD2: lambda target, commit_id: target.merge(
        change_of(
            patches=Patches(numbers(1).select(["id"]).append_column("value", pa.array(["ended"])), pa.table({})),
            appends=numbers(1),
        ),
        commit_id,
    ),
}


def write_step(target: IcebergTarget, commit_id: CommitId) -> None:
    reached(CrashPoint.LOOKED)
    STEPS[commit_id.mode](target, commit_id)


HELD = {
    Mode.MIRROR: [(1, "y"), (3, "n")],
    Mode.CHANGELOG: [(1, "x"), (2, "x"), (3, "x")],
    Mode.SCD2: [(1, "ended"), (1, "x"), (2, "x")],
}


@pytest.mark.thorough_where("(changelog|scd2)-rest|rest-s3")
@everywhere
@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("step", [CrashPoint.LOOKED, CrashPoint.FILES_WRITTEN, CrashPoint.COMMITTED])
def test_cut_off_at_any_step_and_repeated(lake: Lake, mode: Mode, step: CrashPoint) -> None:
    lake = Lake(replace_sink(lake.sink, merge=Merge.MARK))
    commit_id = replace(MIRROR_COMMIT_ID, mode=mode, keys=() if mode is Mode.CHANGELOG else ("id",))
    lake.begin(1, 2, commit_id=commit_id)
    with closing(lake.look()) as target, watched(CutAt(step)), pytest.raises(Cut):
        write_step(target, commit_id_of(1, commit_id))
    for _ in range(2):
        with closing(lake.look()) as target:
            assert target.is_done(commit_id_of(1, commit_id)) == (step is CrashPoint.COMMITTED)
            if not target.is_done(commit_id_of(1, commit_id)):
                STEPS[mode](target, commit_id_of(1, commit_id))
        step = CrashPoint.COMMITTED
    assert lake.rows() == HELD[mode]


@pytest.mark.thorough_where("(changelog|scd2)-rest|rest-s3")
@everywhere
@pytest.mark.parametrize("mode", list(Mode))
def test_what_another_writer_commits_meanwhile_is_kept(lake: Lake, mode: Mode) -> None:
    commit_id = replace(MIRROR_COMMIT_ID, mode=mode, keys=() if mode is Mode.CHANGELOG else ("id",))
    lake.begin(1, 2, commit_id=commit_id)

    def somebody_else(step: CrashPoint) -> None:
        if step is CrashPoint.FILES_WRITTEN:
            with lake.table() as table:
                table.append(numbers(77))

    with closing(lake.look()) as late, watched(somebody_else):
        if mode is Mode.CHANGELOG:
            STEPS[mode](late, commit_id_of(1, commit_id))
            assert lake.rows() == [*HELD[mode], (77, "x")]
            return
        with pytest.raises(Exception, match="changed between") as caught:
            STEPS[mode](late, commit_id_of(1, commit_id))
        assert late.is_conflict(caught.value)
    with closing(lake.look()) as target:
        STEPS[mode](target, commit_id_of(1, commit_id))
    assert lake.rows() == [*HELD[mode], (77, "x")]


@everywhere
def test_of_two_who_write_at_once_one_does(lake: Lake) -> None:
    """Both have looked before either commits, a step without rows included: no catalog compares properties."""
    lake.begin(1, 2)
    note = SchemaChange(added=pa.schema([("note", pa.string())]))
    writes: list[Callable[[IcebergTarget, CommitId], object]] = [
        lambda target, commit_id: target.merge(change_of([(1, "y")]), commit_id),
        lambda target, commit_id: target.evolve(note, commit_id),
    ]
    for batch_id, write in enumerate(writes, start=1):
        with closing(lake.look()) as mine, closing(lake.look()) as twin:
            write(mine, commit_id_of(batch_id))
            with pytest.raises(Exception, match="changed between"):
                write(twin, commit_id_of(batch_id))
    assert lake.rows() == [(1, "y", None), (2, "x", None)]


def join_files(lake: Lake, value: str) -> None:
    """Join the files of a partition, as a compaction by another program does."""
    with lake.table() as table, IcebergTableWrite(table, lake.uri, file_size=1 << 20) as write:
        for live in write.files():
            if live.file.partition[0] == value:
                write.rewrite(live)
        write.prepare()
        write.commit()


@everywhere
@pytest.mark.thorough_where("s3")
@pytest.mark.parametrize("kind", [Merge.REWRITE, Merge.MARK])
@pytest.mark.parametrize("compacted", ["bcd", "bca"])
def test_steps_follow_compactions_of_other_files(lake: Lake, kind: Merge, compacted: str) -> None:
    """Else a program that compacts all the time would win each time; its own files are looked up again."""
    has_ids = bool(lake.sink.catalog)  # version 3 needs a REST catalog
    lake = Lake(replace_sink(lake.sink, merge=kind, row_ids=has_ids))
    base = replace(MIRROR_COMMIT_ID, partition_by=(partition_rule("value"),))
    with closing(lake.look()) as target:
        target.create(INT_KEY, base)
    for first in (10, 20):
        rows = rows_of(INT_KEY, [(first + number, value) for number, value in enumerate("abcd")])
        with closing(lake.look()) as target:
            target.append(rows.to_reader(), replace(base, step=first))
    numbered = _numbered(lake) if has_ids else {}
    with lake.table() as table:
        count = len(table.metadata.snapshots)
    waiting = list(compacted)

    def compact_meanwhile(step: CrashPoint) -> None:
        while step is CrashPoint.FILES_WRITTEN and waiting:
            join_files(lake, waiting.pop(0))

    change = change_of([(10, "c"), (30, "a")], [20])
    with closing(lake.look()) as late, watched(compact_meanwhile):
        if "a" in compacted:
            with pytest.raises(Exception, match="changed between") as caught:
                late.merge(change, commit_id_of(1, base))
            assert late.is_conflict(caught.value)
            with closing(lake.look()) as again:
                again.merge(change, commit_id_of(1, base))
        else:
            late.merge(change, commit_id_of(1, base))
    expected = [(10, "c"), (11, "b"), (12, "c"), (13, "d"), (21, "b"), (22, "c"), (23, "d"), (30, "a")]
    assert sorted(lake.rows()) == expected
    with closing(lake.look()) as target, lake.table() as table:
        assert target.is_done(commit_id_of(1, base))
        assert len(table.metadata.snapshots) == count + 4
    if has_ids:
        now = _numbered(lake)
        assert {key: now[key][0] for key in numbered if key != 20} == {
            key: number for key, (number, _) in numbered.items() if key != 20
        }
    with closing(lake.look()) as target:
        target.merge(change_of([(11, "z")], [12, 22]), commit_id_of(2, base))
    assert sorted(lake.rows()) == sorted([(11, "z"), *(row for row in expected if row[0] not in (11, 12, 22))])


# --- The server fails ---


@pytest.mark.server
@pytest.mark.parametrize("loses_reply", [True, False], ids=["lost reply", "503"])
def test_commit_whose_answer_does_not_say_what_became_of_it(lake: Lake, rest: RestCatalog, loses_reply: bool) -> None:
    lake.begin(1, 2)
    fault = Fault(COMMIT, loses_reply=loses_reply)
    with FaultyProxy(rest.port, fault) as proxy:
        behind = Lake(replace_sink(lake.sink, catalog=rest.settings(proxy.port)))
        with closing(behind.look()) as target:
            if loses_reply:
                target.merge(change_of([(1, "y")], [2]), commit_id_of(1))
                target.append(numbers(3).to_reader(), commit_id_of(2))
            else:
                with pytest.raises(Exception, match="no reply tells") as caught:
                    target.merge(change_of([(1, "y")], [2]), commit_id_of(1))
                assert target.is_conflict(caught.value)
    assert fault.met == 1
    with closing(lake.look()) as target:
        assert target.is_done(commit_id_of(2)) == loses_reply
        if not loses_reply:
            target.merge(change_of([(1, "y")], [2]), commit_id_of(1))
            target.append(numbers(3).to_reader(), commit_id_of(2))
    assert lake.rows() == [(1, "y"), (3, "x")]


@pytest.mark.server
def test_catalog_that_does_not_answer_is_an_error_with_a_name(lake: Lake, rest: RestCatalog) -> None:
    with FaultyProxy(rest.port, Fault(re.compile("nothing"))) as proxy:
        port = proxy.port
    gone = Lake(replace_sink(lake.sink, catalog=rest.settings(port)))
    with pytest.raises(TableError, match=r"WRITE_FAILED\] .*shop/orders cannot be read") as caught:
        gone.look()
    assert "sink.catalog" in (caught.value.hint or "")


@pytest.mark.server
@pytest.mark.parametrize("opened", ["new", "open"])
def test_a_catalog_that_hangs_is_an_error_with_a_name(
    lake: Lake, rest: RestCatalog, opened: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine is frozen, or what is between lets packets vanish: the connection is there, and nothing comes."""
    # The catalog must answer in time before it hangs, also on a busy machine.
    monkeypatch.setattr("binlog_streaming.lake.iceberg.catalog.ANSWER_S", 5 if opened == "open" else 0.5)
    with TcpProxy() as proxy:
        proxy.server_port = rest.port
        proxied_lake = Lake(replace_sink(lake.sink, catalog=rest.settings(proxy.port)))
        if opened == "open":
            proxied_lake.begin(1, 2)
        proxy.lose_replies()
        with pytest.raises(TableError, match=r"WRITE_FAILED\] .*shop/orders cannot be read: .*timed out"):
            proxied_lake.look()


def test_settings_that_open_no_catalog_are_an_error_with_a_name(tmp_path: Path) -> None:
    sink = Sink(directory=str(tmp_path), format=TableFormat.ICEBERG, catalog={"type": "nothing"})
    with pytest.raises(OptionError, match=r"INVALID_VALUE\] sink\.catalog: "):
        Lake(sink).look()


# --- Parts of a step ---


@everywhere
@pytest.mark.parametrize("kind", [Merge.REWRITE, Merge.MARK])
def test_parts_that_several_processes_wrote_are_one_commit(lake: Lake, kind: Merge) -> None:
    lake = Lake(replace_sink(lake.sink, merge=kind))
    lake.begin(*range(20))
    parts = []
    for number in range(3):
        with closing(lake.look()) as target:
            change = change_of([(number, "y")], [10 + number])
            parts.append(pickle.loads(pickle.dumps(target.merge_part(change, ("id",)))))
    with closing(lake.look()) as target:
        assert target.commit_parts(parts, commit_id_of(1)) == 6
    left = [n for n in range(20) if n not in (10, 11, 12)]
    assert lake.rows() == sorted([(n, "y" if n < 3 else "x") for n in left], key=repr)
    with lake.table() as table:
        assert len(table.metadata.snapshots) == 2


@everywhere
def test_parts_of_a_table_that_was_changed_meanwhile_are_not_committed(lake: Lake) -> None:
    """Their files go; those that are only added may come after whatever another writer did."""
    lake.begin(1, 2)
    with closing(lake.look()) as task:
        merged, added = task.merge_part(change_of([(1, "y")]), ("id",)), task.append_part(numbers(3).to_reader())
    with lake.table() as table:
        table.append(numbers(77))
        files = set(map(str, table.inspect.files().column("file_path").to_pylist()))
    with closing(lake.look()) as target:
        with pytest.raises(Exception, match="changed between"):
            target.commit_parts([merged], commit_id_of(1))
        assert target.commit_parts([added], replace(commit_id_of(1), keys=())) == 1
    with lake.table() as table:
        assert set(map(str, table.inspect.files().column("file_path").to_pylist())) - files == {
            live.file.file_path for live in added.added
        }
        assert not table.io.new_input(merged.added[0].file.file_path).exists()
    assert lake.rows() == [(1, "x"), (2, "x"), (3, "x"), (77, "x")]


# --- Version 3 ---


def upgrade(table: Table) -> None:
    update = UpgradeFormatVersionUpdate.model_validate({"format-version": 3})
    table.catalog.commit_table(table, (), (update,))


@pytest.mark.server
def test_rows_of_a_table_of_version_3_are_marked_in_vectors(lake: Lake) -> None:
    """One vector for a data file, also when it had position delete files before."""
    lake = Lake(replace_sink(lake.sink, merge=Merge.MARK))
    lake.begin(*range(10))
    with closing(lake.look()) as target:
        target.merge(change_of([(1, "y")]), commit_id_of(1))
    with lake.table() as table:
        upgrade(table)
    for batch_id in (2, 3):
        with closing(lake.look()) as target:
            target.merge(change_of([(batch_id, "z"), (100 + batch_id, "n")], [10 - batch_id]), commit_id_of(batch_id))
            target.maintain(lake.sink)
    held = {**dict.fromkeys(range(10), "x"), 1: "y", 2: "z", 3: "z", 102: "n", 103: "n"}
    held = {key: value for key, value in held.items() if key not in (7, 8)}
    assert dict(lake.rows()) == held  # type: ignore[arg-type]
    with lake.table() as table:
        files = live_files(table.metadata, table.io, lake.uri)
        deletes = [one for live in files for one in live.own_deletes]
        assert [one.file_format.value for one in deletes] == ["PUFFIN"]
        assert deletes[0].record_count == 5
        first_rows = [live.file[16] for live in files]
        assert len(set(first_rows)) == len(files)
        assert None not in first_rows


@pytest.mark.server
def test_rows_of_version_3_keep_their_numbers_when_files_are_written_anew(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("binlog_streaming.lake.iceberg.maintenance.MARKED_SHARE_MAX", 0)
    lake.begin(*range(10))
    with lake.table() as table:
        upgrade(table)
    with closing(lake.look()) as target:
        target.merge(change_of([(1, "y"), (20, "n")], [2]), commit_id_of(1))
    before = _numbered(lake)
    assert len({number for number, _ in before.values()}) == len(before) == 10
    with closing(lake.look()) as target:
        target.merge(change_of([(30, "n")], [3, 20]), commit_id_of(2))
    for _ in range(2):  # rows by their place, then rows with columns of their own
        with lake.table() as table:
            assert any(live.own_deletes for live in live_files(table.metadata, table.io, lake.uri))
            compact(table, lake.uri, file_size=1 << 20)
        with lake.table() as table:
            assert not any(live.own_deletes for live in live_files(table.metadata, table.io, lake.uri))
        now = _numbered(lake)
        assert {key: now[key] for key in now.keys() & before.keys()} == {
            key: before[key] for key in before.keys() & now.keys()
        }
        assert len({number for number, _ in now.values()}) == len(now) == len(lake.rows())
        with closing(lake.look()) as target:
            target.merge(change_of([], [min(now)]), commit_id_of(3 + min(now)))


@pytest.mark.server
def test_a_table_of_version_2_is_upgraded_by_one_commit(lake: Lake) -> None:
    """Its rows have numbers from then on, marked ones keep out, and a step under way for it as it was is refused."""
    lake = Lake(replace_sink(lake.sink, merge=Merge.MARK))
    lake.begin(*range(10))
    with closing(lake.look()) as target:
        target.merge(change_of([(1, "y"), (20, "n")], [2]), commit_id_of(1))
    rows, new = lake.rows(), replace_sink(lake.sink, row_ids=True)
    with closing(lake.look()) as late:
        late.properties()
        for is_dry, version in ((True, 2), (False, 3)):
            with closing(lake.look()) as target:
                (told,) = target.upgrade(new, is_dry=is_dry)
                assert told.feature == "format version 3"
            with lake.table() as table:
                assert table.metadata.format_version == version
                count = len(table.metadata.snapshots)
        with pytest.raises(Exception, match="changed between"):
            late.merge(change_of([(3, "z")]), commit_id_of(2))
    with closing(lake.look()) as target:
        assert target.is_done(commit_id_of(1))
        assert not target.upgrade(new, is_dry=False)
    assert lake.rows() == rows
    before = _numbered(lake)
    assert len({number for number, _ in before.values()}) == len(before) == 10
    assert None not in dict(before.values())
    with closing(lake.look()) as target:
        target.merge(change_of([(3, "z"), (30, "n")], [4]), commit_id_of(2))
    now = _numbered(lake)
    assert {key: now[key][0] for key in before if key != 4} == {
        key: number for key, (number, _) in before.items() if key != 4
    }
    assert len({number for number, _ in now.values()}) == len(now) == 10
    with lake.table() as table:
        assert len(table.metadata.snapshots) == count + 1


@pytest.mark.server
def test_columns_with_names_of_icebergs_own_are_refused_in_version_3(lake: Lake) -> None:
    own = pa.schema([*INT_KEY, ("_row_id", pa.int64())])
    with closing(lake.look()) as target:
        target.create(own, MIRROR_COMMIT_ID)
        target.append(rows_of(own, [(1, "x", 7)]).to_reader(), MIRROR_COMMIT_ID)
    with lake.table() as table:
        upgrade(table)
    with closing(lake.look()) as target, pytest.raises(TableError, match=r"TABLE_FEATURE\].*own names: _row_id"):
        target.append(rows_of(own, [(2, "x", 8)]).to_reader(), commit_id_of(1))


def _numbered(lake: Lake) -> dict[int, tuple[int, int]]:
    """Of each row by its key: its number, and that of the commit that wrote it."""
    with lake.table() as table:
        files = live_files(table.metadata, table.io, lake.uri)
        reader, schema = IcebergFileReader(table.metadata, table.io), arrow_schema(table.schema())
        batches = [batch for live in files for batch in reader.live_rows(live, schema, identified=True)]
    rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    return {row[0]: (row[-2], row[-1]) for row in rows}


# --- Partitions ---


@everywhere
def test_new_tables_are_partitioned_as_settings_say(lake: Lake) -> None:
    rules = tuple(map(partition_rule, ("bucket(4, id)", "truncate(1, value)")))
    lake.begin(1, 2, 3, commit_id=replace(MIRROR_COMMIT_ID, partition_by=rules))
    with closing(lake.look()) as target:
        target.merge(change_of([(1, "abc"), (4, "abd"), (5, "b")], [2]), commit_id_of(1))
        target.merge(change_of([(1, "b")]), commit_id_of(2))
    assert lake.rows() == [(1, "b"), (3, "x"), (4, "abd"), (5, "b")]
    with lake.table() as table:
        assert [field.name for field in table.spec().fields] == ["id_bucket", "value_truncate"]
        assert table.scan(row_filter="value = 'b'").to_arrow().num_rows == 2
        assert all(len(task.file.partition) == 2 for task in table.scan().plan_files())


@pytest.mark.server
def test_a_table_that_somebody_partitioned_is_written_so(lake: Lake) -> None:
    lake = Lake(replace_sink(lake.sink, merge=Merge.MARK))
    moments = pa.schema([("id", pa.int32()), ("at", pa.timestamp("us", "UTC"))])
    days = [86_400_000_000 * day for day in range(4)]
    with closing(lake.look()) as target:
        target.create(moments, MIRROR_COMMIT_ID)
        target.append(rows_of(moments, [(1, days[0]), (2, days[1])]).to_reader(), MIRROR_COMMIT_ID)
    with lake.table() as table, table.update_spec() as update:
        update.add_field("at", "day", "day")
    with closing(lake.look()) as target:
        change = change_of([(1, days[2]), (3, days[3])], schema=moments)
        target.merge(change, commit_id_of(1))
        target.merge(change_of([(2, days[3])], schema=moments), commit_id_of(2))
        change_type = SchemaChange(retyped={"at": pa.string()})
        with pytest.raises(TableError, match=r"TABLE_FEATURE\] .* has partitions by at, which changes"):
            target.evolve(change_type, commit_id_of(3))
    with lake.table() as table:
        found = table.scan(row_filter="at >= '1970-01-04T00:00:00+00:00'").to_arrow()
        assert sorted(found.column("id").to_pylist()) == [2, 3]
    assert len(lake.rows()) == 3


@pytest.mark.parametrize(
    ("rule", "named"), [("day(value)", "not with a column of type string"), ("gone", "there is no such column")]
)
def test_partitions_that_cannot_be_are_refused(tmp_path: Path, rule: str, named: str) -> None:
    lake = Lake(Sink(directory=str(tmp_path), format=TableFormat.ICEBERG))
    commit_id = replace(MIRROR_COMMIT_ID, partition_by=(partition_rule(rule),))
    with closing(lake.look()) as target, pytest.raises(OptionError, match=named):
        target.create(INT_KEY, commit_id)


# --- Jobs, and other readers ---


@pytest.mark.thorough
@pytest.mark.server
@pytest.mark.spark
def test_job_into_a_catalog_equals_the_server_and_says_its_versions(
    spark: SparkSession, rest_s3: RestCatalog, tmp_path: Path
) -> None:
    """In several batches, and started again in between; all tables as of the last batch."""
    sink = Sink(
        directory=f"s3://{BUCKET}/job", format=TableFormat.ICEBERG, catalog=rest_s3.settings(), merge=Merge.MARK
    )
    job = structs.replace(job_for(tmp_path, bytes_max="150k"), sink=sink)
    assert len(run_once(job, spark)) > 1
    assert run_once(job, spark) == []
    versions = {one.table: int(one.version) for one in BatchVersions(job).at().tables}
    with closing(load_catalog(**catalog_properties(sink))) as catalog:
        for name in TABLES:
            rows = catalog.load_table(("sb", name)).scan(snapshot_id=versions[f"sb.{name}"]).to_arrow().to_pylist()
            assert sorted(tuple(row.values()) for row in rows) == truth(name)


@pytest.mark.parametrize("kind", list(Merge))
def test_duckdb_reads_the_same_rows(tmp_path: Path, kind: Merge) -> None:
    """All, and those that a filter asks for: a reader passes over files by their statistics."""
    lake = Lake(Sink(directory=str(tmp_path), format=TableFormat.ICEBERG, merge=kind))
    rules = (partition_rule("bucket(2, id)"),)
    lake.begin(*range(100), commit_id=replace(MIRROR_COMMIT_ID, partition_by=rules))
    for batch_id in range(1, 4):
        with closing(lake.look()) as target:
            target.merge(change_of([(batch_id, "y"), (200 + batch_id, "n")], [90 + batch_id]), commit_id_of(batch_id))
    with lake.table() as table:
        location = table.metadata_location
    check_duckdb(location, lake)


@pytest.mark.server
def test_duckdb_reads_vectors(lake: Lake) -> None:
    lake.begin(*range(100))
    with lake.table() as table:
        upgrade(table)
    for batch_id in range(1, 4):
        with closing(lake.look()) as target:
            target.merge(change_of([(batch_id, "y")], [90 + batch_id]), commit_id_of(batch_id))
    with lake.table() as table:
        location = table.metadata_location
    check_duckdb(location, lake)


def check_duckdb(location: str, lake: Lake) -> None:
    duckdb_ext = pytest.importorskip("duckdb_ext")
    import duckdb

    with duckdb_ext.init(duckdb.connect()) as connection:
        for extension in ("avro", "iceberg"):
            connection.execute(f"LOAD {extension}")
        scan = f"iceberg_scan('{location}')"
        assert sorted(connection.execute(f"SELECT * FROM {scan}").fetchall(), key=repr) == lake.rows()
        for key, value in lake.rows()[::10]:
            assert connection.execute(f"SELECT * FROM {scan} WHERE id = {key}").fetchall() == [(key, value)]
