"""Delta tables that Unity Catalog manages: a commit is what the catalog takes, once, whatever is cut off or lost."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from msgspec import structs

from binlog_connector.crash_points import watched
from binlog_format.errors import OptionError, TableError
from binlog_lab.demo.servers.lake_servers import BUCKET
from binlog_streaming.lake.delta import log as log_module
from binlog_streaming.lake.delta import maintenance
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.lake.evolution import SchemaChange
from binlog_streaming.lake.target import CrashPoint
from binlog_streaming.settings import Merge, Mode, Sink
from binlog_streaming.settings.choices import partition_rule
from binlog_streaming.tables.open_targets import OpenTargets
from tests.faults.processes import Cut, CutAt
from tests.faults.unity_catalog import UNPUBLISHED_MAX, Refused, UnityServer
from tests.streaming.tables.jobs.test_job import job_for, run_once
from tests.streaming.tables.lake.sink_cases import INT_KEY, MIRROR_COMMIT_ID, change_of, numbers
from tests.streaming.tables.oltp import TABLES, truth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from binlog_streaming.lake.commit_id import CommitId
    from binlog_streaming.lake.target import Target
    from tests.faults.object_store import ObjectStore
    from tests.faults.unity_catalog import Body, Table

NEEDS_CATALOG = "catalogManaged", "vacuumProtocolCheck"
"""Features that keep readers without the catalog out; deltalake does not know the other one."""

STEPS = (
    CrashPoint.LOOKED,
    CrashPoint.FILES_WRITTEN,
    CrashPoint.STAGED,
    CrashPoint.RATIFIED,
    CrashPoint.COMMITTED,
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[UnityServer]:
    with UnityServer(tmp_path / "managed") as server:
        yield server


@pytest.fixture
def sink(tmp_path: Path, server: UnityServer) -> Sink:
    return Sink(directory=str(tmp_path / "tables"), catalog=server.settings())


def look(sink: Sink, name: str = "orders") -> DeltaTarget:
    return DeltaTarget.at(sink, f"{sink.directory}/shop/{name}")


def commit_id(batch_id: int) -> CommitId:
    return replace(MIRROR_COMMIT_ID, batch_id=batch_id)


def begin(sink: Sink, *ids: int) -> None:
    target = look(sink)
    target.create(INT_KEY, MIRROR_COMMIT_ID)
    target.append(numbers(*ids).to_reader(), MIRROR_COMMIT_ID)


def step(sink: Sink, batch_id: int) -> bool:
    """A step as a job does it: an update, an insert, a delete."""
    target = look(sink)
    if target.is_done(commit_id(batch_id)):
        return False
    change = change_of([(batch_id, "y"), (100 + batch_id, "n")], [batch_id - 1])
    return target.merge(change, commit_id(batch_id)) > 0


def held(batch_id: int, count: int = 10) -> dict[int, str]:
    """Rows after steps up to *batch_id*."""
    rows = {number: "x" for number in range(count) if number >= batch_id}
    return rows | {100 + number: "n" for number in range(1, batch_id + 1)} | {batch_id: "y"}


def rows(sink: Sink) -> dict[int, str]:
    found = look(sink).read().read_all().to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["value"] for row in found}


def unmanaged(table: Table, folder: Path) -> str:
    """A copy of the table as the catalog has it, which needs no catalog: for readers that know none."""
    shutil.copytree(table.folder, folder)
    for version, commit in table.commits.items():
        staged = folder / "_delta_log/_staged_commits" / commit["file-name"]
        shutil.copy(staged, folder / "_delta_log" / f"{version:020}.json")
    for path in sorted((folder / "_delta_log").glob("*.json"))[:1]:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for protocol in (line["protocol"] for line in lines if "protocol" in line):
            for names in ("readerFeatures", "writerFeatures"):
                protocol[names] = [name for name in protocol[names] if name not in NEEDS_CATALOG]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(folder)


@pytest.mark.parametrize("merge", list(Merge))
def test_all_kinds_of_steps_through_the_catalog(tmp_path: Path, server: UnityServer, sink: Sink, merge: Merge) -> None:
    sink = structs.replace(sink, merge=merge, row_ids=merge is Merge.MARK)
    begin(sink, *range(10))
    assert step(sink, 1)
    assert not step(sink, 1)
    table = server.tables["shop", "orders"]
    look(sink).maintain(sink)
    evolved = SchemaChange(added=pa.schema([("note", pa.string()), ("tags", pa.list_(pa.string()))]))
    look(sink).evolve(evolved, commit_id(2))
    assert [field["name"] for field in table.columns["fields"]] == ["id", "value", "note", "tags"]
    assert table.columns["fields"][3]["type"]["element-type"] == "string"
    look(sink).set_properties(commit_id(3), recorded={"binlog-stream.dropped": "0:0:0"})
    assert table.properties["binlog-stream.dropped"] == "0:0:0"
    target = look(sink)
    target.replace(target.identified_rows(), commit_id(4))
    assert rows(sink) == held(1)
    assert table.backfilled == table.latest == len(table.commits)
    assert not list((table.folder / "_delta_log").glob("*.checkpoint*"))
    assert not list((tmp_path / "tables").glob("**/*.parquet"))
    copy = pa.table(DeltaTable(unmanaged(table, tmp_path / "copy")).scan().read_all()).to_pylist()
    assert {row["id"]: row["value"] for row in copy} == held(1)


@pytest.mark.parametrize("point", STEPS[1:])
def test_cut_off_at_any_step_and_repeated(tmp_path: Path, server: UnityServer, sink: Sink, point: CrashPoint) -> None:
    begin(sink, *range(10))
    for batch_id in range(1, 4):
        with pytest.raises(Cut), watched(CutAt(point)):
            step(sink, batch_id)
        log_module._kept.clear()  # another process goes on
        assert step(sink, batch_id) == (point not in (CrashPoint.RATIFIED, CrashPoint.COMMITTED))
        assert rows(sink) == held(batch_id)
    table = server.tables["shop", "orders"]
    assert sorted(table.commits) == list(range(1, table.latest + 1)) == [1, 2, 3, 4]
    copy = pa.table(DeltaTable(unmanaged(table, tmp_path / "copy")).scan().read_all()).to_pylist()
    assert {row["id"]: row["value"] for row in copy} == held(3)


def test_a_commit_that_is_not_published_is_read(server: UnityServer, sink: Sink) -> None:
    begin(sink, *range(10))
    with pytest.raises(Cut), watched(CutAt(CrashPoint.RATIFIED)):
        step(sink, 1)
    table = server.tables["shop", "orders"]
    assert (table.latest, table.backfilled) == (2, 1)
    assert not table.log(f"{2:020}.json").exists()
    log_module._kept.clear()
    assert rows(sink) == held(1)
    assert step(sink, 2)
    assert (table.latest, table.backfilled) == (3, 3)


def test_what_is_staged_or_published_and_not_ratified_is_not_read(server: UnityServer, sink: Sink) -> None:
    begin(sink, *range(10))
    table = server.tables["shop", "orders"]
    with pytest.raises(Cut), watched(CutAt(CrashPoint.STAGED)):
        step(sink, 1)
    (staged,) = {path.name for path in table.log("_staged_commits").iterdir()} - {
        commit["file-name"] for commit in table.commits.values()
    }
    shutil.copy(table.log(f"_staged_commits/{staged}"), table.log(f"{2:020}.json"))
    log_module._kept.clear()
    assert rows(sink) == dict.fromkeys(range(10), "x")
    table.log(f"{2:020}.json").unlink()
    assert step(sink, 1)
    assert rows(sink) == held(1)


def test_an_upgrade_leaves_to_the_catalog_what_is_its_own(server: UnityServer, sink: Sink) -> None:
    begin(sink, *range(10))
    assert look(sink).upgrade(sink, is_dry=False) == []
    (upgrade,) = look(sink).upgrade(structs.replace(sink, row_ids=True), is_dry=False)
    assert upgrade.feature == "rowTracking"
    assert "rowTracking" in server.tables["shop", "orders"].protocol["writer-features"]
    assert step(sink, 1)
    assert rows(sink) == held(1)


def test_checkpoints_of_published_versions(
    tmp_path: Path, server: UnityServer, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions, vectors, ids of rows, domains and transactions are in them; older commits need not be there."""
    monkeypatch.setattr(maintenance, "MANAGED_CHECKPOINT_EVERY", 3)
    sink = structs.replace(sink, merge=Merge.MARK, row_ids=True)
    place = replace(MIRROR_COMMIT_ID, partition_by=(partition_rule("value"),))
    target = look(sink)
    target.create(INT_KEY, place)
    target.append(numbers(*range(10)).to_reader(), place)
    for batch_id in range(1, 6):
        with watched(CutAt(CrashPoint.RATIFIED if batch_id == 2 else CrashPoint.CREATED)), suppress(Cut):
            step(sink, batch_id)
        look(sink).maintain(sink)
    table = server.tables["shop", "orders"]
    names = sorted(path.name for path in (table.folder / "_delta_log").glob("*.checkpoint.*.parquet"))
    assert [int(name[:20]) for name in names] == [4]
    before = log_module.read_log(look(sink).store)
    for version in range(4):
        table.log(f"{version:020}.json").unlink()
    log_module._kept.clear()
    after = look(sink).log
    assert before is not None
    assert after is not None
    assert after.checkpoint == 4
    assert (before.files, before.removed, before.domains) == (after.files, after.removed, after.domains)
    assert (before.protocol, before.metadata, before.transactions) == (
        after.protocol,
        after.metadata,
        after.transactions,
    )
    assert rows(sink) == held(5)
    assert step(sink, 6)
    assert look(sink).is_done(commit_id(6))
    assert rows(sink) == held(6)


def lost(body: Body) -> None:
    raise ConnectionError


def unknown(body: Body) -> None:
    raise Refused(500, "CommitStateUnknown", "who knows")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("answer", [lost, unknown])
def test_replies_that_are_lost_or_unclear(
    server: UnityServer, sink: Sink, when: str, answer: Callable[[Body], None]
) -> None:
    begin(sink, *range(10))
    left = [2]

    def once_in_a_while(body: Body) -> None:
        if any(update["action"] == "add-commit" for update in body["updates"]):
            left[0] -= 1
            if left[0] > 0:
                answer(body)

    for batch_id in range(1, 4):
        left[0] = batch_id
        setattr(server, when, once_in_a_while)
        assert step(sink, batch_id)
        assert rows(sink) == held(batch_id)
    assert server.tables["shop", "orders"].latest == 4


def test_a_catalog_that_never_answers_is_an_error_and_the_step_comes_later(server: UnityServer, sink: Sink) -> None:
    begin(sink, *range(10))
    server.after = lost
    targets = OpenTargets(sink, DeltaTarget)
    uri = f"{sink.directory}/shop/orders"

    def merge(target: Target) -> int:
        server.before = lost
        return target.merge(change_of([(1, "y")]), commit_id(1))

    with pytest.raises(TableError, match="WRITE_FAILED") as caught, targets.naming_errors("t", uri):
        targets.write_with_retry(uri, merge)
    assert server.token not in f"{caught.value}{caught.value.hint}"
    server.before = server.after = lambda _: None
    assert step(sink, 1)
    assert rows(sink) == held(1)


def test_who_commits_meanwhile_is_first(server: UnityServer, sink: Sink) -> None:
    begin(sink, *range(10))
    mine, twin = look(sink), look(sink)
    mine.merge(change_of([(1, "y")], [2]), commit_id(1))
    with pytest.raises(Exception, match="another transaction") as caught:
        twin.merge(change_of([(1, "y")], [2]), commit_id(1))
    assert twin.is_conflict(caught.value)
    assert look(sink).is_done(commit_id(1))
    late = look(sink)
    look(sink).merge(change_of([(3, "y")]), commit_id(2))
    other = replace(commit_id(0), query_id="another job", keys=(), mode=Mode.CHANGELOG)
    late.append(numbers(50).to_reader(), other)  # rows that are only added come after it
    assert rows(sink) == {0: "x", 1: "y", 3: "y", **dict.fromkeys(range(4, 10), "x"), 50: "x"}


def test_a_backlog_of_others_is_published_first(server: UnityServer, sink: Sink) -> None:
    begin(sink, *range(10))
    table = server.tables["shop", "orders"]

    def not_published(body: Body) -> None:
        if all(update["action"] != "add-commit" for update in body["updates"]):
            raise Refused(500, "InternalServerError", "not now")

    server.before = not_published
    for batch_id in range(1, UNPUBLISHED_MAX + 1):
        look(sink).merge(change_of([(batch_id, "y")]), commit_id(batch_id))
    assert table.latest - table.backfilled == UNPUBLISHED_MAX
    server.before = lambda _: None
    look(sink).merge(change_of([(11, "y")]), commit_id(11))
    assert table.latest == table.backfilled == UNPUBLISHED_MAX + 2
    assert rows(sink) == {0: "x"} | dict.fromkeys(range(1, 12), "y")


def test_a_table_that_is_made_anew_meanwhile_does_not_get_the_commit(server: UnityServer, sink: Sink) -> None:
    begin(sink, 1, 2)
    late = look(sink)
    del server.tables["shop", "orders"]
    begin(sink, 3)
    with pytest.raises(OSError, match="made anew"):
        late.merge(change_of([(1, "y")]), commit_id(1))
    assert rows(sink) == {3: "x"}


def test_a_new_table_whose_name_somebody_else_takes(server: UnityServer, sink: Sink) -> None:
    mine = look(sink)
    begin(sink, 1)
    with pytest.raises(CommitFailedError, match="another transaction"):
        mine.create(INT_KEY, MIRROR_COMMIT_ID)
    assert rows(sink) == {1: "x"}


def test_a_new_table_of_which_the_reply_is_lost(server: UnityServer, sink: Sink) -> None:
    server.after = lost
    target = look(sink)
    target.create(INT_KEY, MIRROR_COMMIT_ID)
    server.after = lambda _: None
    target.append(numbers(1).to_reader(), MIRROR_COMMIT_ID)
    assert rows(sink) == {1: "x"}


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"warehouse": "other"}, r"INVALID_VALUE\] sink\.catalog: no catalog other with .*NoSuchCatalog"),
        ({"token": "old"}, r"INVALID_VALUE\] sink\.catalog: .*NotAuthorized"),
        ({"uri": "http://127.0.0.1:9/api"}, r"WRITE_FAILED\] .*orders cannot be read: .*refused"),
    ],
)
def test_who_is_not_let_in_learns_it(sink: Sink, wrong: dict[str, str], named: str) -> None:
    with pytest.raises((OptionError, TableError), match=named):
        look(structs.replace(sink, catalog=sink.catalog | wrong))


def test_what_cannot_be_written_is_refused_by_name(server: UnityServer, sink: Sink) -> None:
    begin(sink, 1)
    table = server.tables["shop", "orders"]
    with pytest.raises(TableError, match=r"TABLE_FEATURE\] .*catalogManaged"):
        DeltaTarget.at(Sink(directory=""), str(table.folder))
    with pytest.raises(OptionError, match="a schema and a name"):
        DeltaTarget.at(sink, f"{sink.directory}/orders")
    target = look(sink)
    target.set_properties(commit_id(1), recorded={"delta.universalFormat.enabledFormats": "iceberg"})
    with pytest.raises(TableError, match="catalogManaged beside UniForm"):
        look(sink)
    table.protocol["writer-features"].remove("catalogManaged")
    with pytest.raises(TableError, match="does not manage it"):
        look(sink)


@pytest.mark.server
def test_the_catalog_gives_the_access_to_an_object_store(tmp_path: Path, object_store: ObjectStore) -> None:
    options = object_store.options()
    with UnityServer(object_store.bucket / "managed", f"s3://{BUCKET}/managed") as server:
        server.access = {
            "s3.access-key-id": options.pop("AWS_ACCESS_KEY_ID"),
            "s3.secret-access-key": options.pop("AWS_SECRET_ACCESS_KEY"),
        }
        sink = Sink(directory=str(tmp_path), storage=options, catalog=server.settings())
        begin(sink, *range(10))
        assert step(sink, 1)
        assert rows(sink) == held(1)
        server.access["s3.secret-access-key"] = "another one"
        with pytest.raises(TableError, match="WRITE_FAILED"):
            look(sink)


@pytest.mark.spark
def test_job_with_managed_tables(tmp_path: Path, server: UnityServer, spark: SparkSession) -> None:
    """Tasks find the tables through the catalog, too; the server's rows are there, once."""
    server.schemas = {"sb", "_binlog_stream"}
    job = job_for(tmp_path, bytes_max="200k")
    job = structs.replace(job, sink=structs.replace(job.sink, catalog=server.settings()))
    run_once(job, spark)
    for name in TABLES:
        copy = DeltaTable(unmanaged(server.tables["sb", name], tmp_path / "copies" / name))
        found = sorted(tuple(row.values()) for row in pa.table(copy.scan().read_all()).to_pylist())
        assert found == truth(name)
