"""Batches whose tables readers see change at once: a catalog that has `transactions/commit`, and what can go wrong."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from http.client import HTTPConnection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from msgspec import structs

pytest.importorskip("pyiceberg")

from pyiceberg.catalog import load_catalog
from pyiceberg.table.update import UpgradeFormatVersionUpdate

from binlog_connector.crash_points import watched
from binlog_format.errors import TableError
from binlog_streaming.job_state.progress import Outcome
from binlog_streaming.lake.commit_id import BATCH_KEY, STEP_KEY
from binlog_streaming.lake.iceberg import maintenance
from binlog_streaming.lake.iceberg.commit import IcebergCommit
from binlog_streaming.lake.iceberg.joint_commit import IcebergJointCommit
from binlog_streaming.lake.iceberg.target import IcebergTarget
from binlog_streaming.lake.sinks import joint_commit
from binlog_streaming.settings import Merge, OnError, Sink, TableFormat
from binlog_streaming.tables import division
from tests.chance import stride
from tests.faults.joint_catalog import PREFIX, Fault, JointCatalog
from tests.faults.object_store import RestCatalog
from tests.faults.processes import Cut, DeadFrom
from tests.judge.running import LocalTasks
from tests.streaming.replay_runs import run
from tests.streaming.tables.iceberg.order_log import (
    expected,
    fault_in,
    order_job,
    rows_of,
    run_batch,
    write_log,
)
from tests.streaming.tables.lake.sink_cases import INT_KEY, MIRROR_COMMIT_ID, change_of, numbers
from tests.streaming.tables.statements.statement_stories import ONLY, STORIES, write_story

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.table.metadata import TableMetadata

    from binlog_streaming.lake.change import Change
    from binlog_streaming.lake.iceberg.table_files import LiveFile
    from binlog_streaming.lake.iceberg.table_write import IcebergTableWrite
    from binlog_streaming.settings import Job

ROUNDS = 12
ORDERS, ITEMS = ("shop", "orders"), ("shop", "items")


@pytest.fixture
def catalog() -> Iterator[JointCatalog]:
    with JointCatalog() as server:
        yield server


@pytest.fixture
def job(catalog: JointCatalog, tmp_path: Path) -> Job:
    write_log(tmp_path / "log", ROUNDS)
    return order_job(tmp_path, catalog.settings())


def halves(catalog: JointCatalog) -> list[str]:
    """What was wrong with any state of the tables."""
    found: dict[tuple[int | None, ...], str] = {}
    for state in catalog.history:
        orders, items = state.get(ORDERS), state.get(ITEMS)
        key = tuple(None if table is None else table.current_snapshot_id for table in (orders, items))
        if key not in found:
            found[key] = fault_in(rows_of(orders, 2), rows_of(items, 3))
    return [fault for fault in found.values() if fault]


def assert_done(catalog: JointCatalog, rounds: int = ROUNDS) -> None:
    orders, items = catalog.tables[ORDERS], catalog.tables[ITEMS]
    assert (rows_of(orders, 2), rows_of(items, 3)) == expected(rounds - 1)
    for table in (orders, items):  # nothing came twice
        recorded = [snapshot.summary.additional_properties for snapshot in table.snapshots if snapshot.summary]
        steps = [(one[BATCH_KEY], one[STEP_KEY]) for one in recorded if STEP_KEY in one]
        assert len(set(steps)) == len(steps)


def begin(catalog: JointCatalog, job: Job) -> None:
    """Do batches until both tables have rows."""
    while len(tables_of(catalog)) < 2 or not all(table.snapshots for _, table in tables_of(catalog)):
        assert run_batch(job) == 1


def tables_of(catalog: JointCatalog) -> list[tuple[tuple[str, str], TableMetadata]]:
    return [(name, table) for name, table in catalog.tables.items() if name[0] == "shop"]


# --- What readers see ---


@pytest.mark.parametrize("is_able", [True, False])
def test_a_batch_is_one_commit_where_the_catalog_has_that(tmp_path: Path, is_able: bool) -> None:
    """With the statement in it; else a reader can see a batch in one table, and not yet in the other."""
    write_log(tmp_path / "log", ROUNDS)
    with JointCatalog(is_able=is_able) as catalog:
        job = order_job(tmp_path, catalog.settings())
        batches = run(job, tasks=LocalTasks(2))
        assert batches > 4
        assert_done(catalog)
        assert bool(halves(catalog)) != is_able
        assert (2 in catalog.transactions) == is_able
        assert [field.name for field in catalog.tables[ITEMS].schema().fields][-1] == "note"


@pytest.mark.parametrize("row_ids", [False, True])
def test_one_batch_of_everything(catalog: JointCatalog, tmp_path: Path, row_ids: bool) -> None:
    """Several steps of a table, and a statement between them; also in tables of version 3, which number rows."""
    write_log(tmp_path / "log", ROUNDS)
    job = order_job(tmp_path, catalog.settings(), bytes_max="1g")
    job = structs.replace(job, sink=structs.replace(job.sink, row_ids=row_ids))
    assert run(job, tasks=LocalTasks(2)) == 1
    assert {table.format_version for _, table in tables_of(catalog)} == {3 if row_ids else 2}
    assert catalog.transactions == [2]
    assert_done(catalog)
    assert not halves(catalog)


@pytest.mark.thorough_where("partition|drop|modify")
@pytest.mark.parametrize("name", STORIES)
def test_what_statements_do_waits_for_the_commit(catalog: JointCatalog, tmp_path: Path, name: str) -> None:
    """Each step is made on what waits of those before, also where a table takes what another one has."""
    story, wanted = STORIES[name]
    sink = Sink(directory=str(tmp_path / "tables"), format=TableFormat.ICEBERG, catalog=catalog.settings())
    joint = joint_commit(sink)
    assert joint is not None
    targets = joint.targets()
    write_story(tmp_path, story, (ONLY,), targets, sink)
    assert not any(table.snapshots for table in catalog.tables.values())
    assert not joint.commit(targets.waiting())
    assert len(catalog.transactions) == 1
    found = {table: rows_of(metadata, 99) for (_, table), metadata in tables_of(catalog)}
    assert found == {table: set(rows) for table, rows in wanted.items()}
    again = joint.targets()
    progress = write_story(tmp_path, story, (ONLY,), again, sink)
    assert not again.waiting()
    assert Outcome.WRITTEN not in {table.outcome for table in progress}


@pytest.mark.usefixtures("shown_values")
def test_steps_that_tasks_share(catalog: JointCatalog, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """They see what waits of the steps before, which no catalog knows."""
    monkeypatch.setattr(division, "PART_CHANGES", 1)
    monkeypatch.setattr(division, "task_counts", lambda components, parallelism, sink: [3 for _ in components])
    run(job, tasks=LocalTasks(3))
    assert_done(catalog)
    assert not halves(catalog)


def test_maintenance_comes_after_the_commit(catalog: JointCatalog, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are joined and snapshots go; no reader sees other rows for it."""
    monkeypatch.setattr(maintenance, "COMPACT_EVERY", 2)
    monkeypatch.setattr(maintenance, "EXPIRE_EVERY", 4)
    monkeypatch.setattr(maintenance, "SNAPSHOTS_MAX", 2)
    run(job, tasks=LocalTasks(2))
    assert_done(catalog)
    assert not halves(catalog)
    assert len(catalog.tables[ORDERS].snapshots) < 6


@pytest.mark.parametrize("reads", [300, pytest.param(10_000, marks=pytest.mark.thorough)])
def test_who_reads_all_the_time_never_sees_half_a_batch(catalog: JointCatalog, tmp_path: Path, reads: int) -> None:
    """Orders, items and orders again: if these did not change meanwhile, it was one moment."""
    rounds = 20 if reads < 1000 else 200
    write_log(tmp_path / "log", rounds)
    job = order_job(tmp_path, catalog.settings())
    seen: set[tuple[int, int]] = set()
    faults: list[str] = []
    counted = [0]
    ended = threading.Event()

    def snapshot(connection: HTTPConnection, name: str) -> int:
        connection.request("GET", f"/v1/{PREFIX}/namespaces/shop/tables/{name}")
        found = re.search(rb'"current-snapshot-id": ?(\d+)', connection.getresponse().read())
        return -1 if found is None else int(found[1])

    def read() -> None:
        with closing(HTTPConnection(urlsplit(catalog.settings()["uri"]).netloc)) as session:
            while not ended.is_set() or counted[0] < reads:
                orders = snapshot(session, "orders")
                items = snapshot(session, "items")
                if snapshot(session, "orders") == orders:
                    counted[0] += 1
                    if (orders, items) not in seen:
                        faults.append(
                            fault_in(*(rows_as_of(catalog, *one) for one in ((ORDERS, orders), (ITEMS, items))))
                        )
                        seen.add((orders, items))

    with ThreadPoolExecutor(1) as reader:
        reading = reader.submit(read)
        try:
            run(job, tasks=LocalTasks(2))
        finally:
            ended.set()
        reading.result()
    assert counted[0] >= reads
    assert len(seen) > 5
    assert not any(faults), faults
    assert_done(catalog, rounds)


def rows_as_of(catalog: JointCatalog, name: tuple[str, str], snapshot: int) -> set[tuple[int, ...]]:
    if snapshot == -1:
        return set()
    metadata = next(state[name] for state in catalog.history if name in state and state[name].snapshot_by_id(snapshot))
    return rows_of(metadata.model_copy(update={"current_snapshot_id": snapshot}), 3 if name == ITEMS else 2)


# --- What goes wrong ---


FAULTS = [
    Fault.LOST_REPLY,
    Fault.LATE,
    Fault.NOT_MADE_500,
    Fault.MADE_500,
    Fault.LOST_REQUEST,
    Fault.NOT_MADE_503,
    Fault.MADE_504,
    Fault.REFUSED,
    Fault.NOT_MADE_502,
    Fault.MADE_200,
]


def test_replies_that_are_lost_or_unclear(catalog: JointCatalog, job: Job) -> None:
    """Both tables are read again: they have the batch, or the same request is sent again."""
    begin(catalog, job)
    catalog.faults = list(FAULTS)
    run(job, tasks=LocalTasks(2))
    assert not catalog.faults
    assert_done(catalog)
    assert not halves(catalog)


def test_a_catalog_that_does_half_of_it_gets_the_rest(catalog: JointCatalog, job: Job) -> None:
    """No catalog may; a batch is whole in the end, and nothing comes twice."""
    begin(catalog, job)
    catalog.faults = [Fault.HALF]
    run(job, tasks=LocalTasks(2))
    assert_done(catalog)
    assert len(halves(catalog)) == 1


@pytest.mark.parametrize("faults", [[Fault.FORBIDDEN], [Fault.NOT_MADE_503] * 4], ids=["forbidden", "away"])
def test_a_catalog_that_refuses_is_named_and_no_table_has_the_batch(
    catalog: JointCatalog, job: Job, faults: list[Fault]
) -> None:
    begin(catalog, job)
    before = dict(catalog.tables)
    catalog.faults = list(faults)
    with pytest.raises(TableError, match=r"WRITE_FAILED\] commit of a batch: "):
        run(job, tasks=LocalTasks(2))
    assert dict(catalog.tables) == before
    run(job, tasks=LocalTasks(2))
    assert_done(catalog)
    assert not halves(catalog)


def foreign_commit(catalog: JointCatalog, *, keeps_rows: bool = False) -> None:
    """Somebody else writes a snapshot of the items, which may tell that it has the same rows."""
    with closing(load_catalog("other", **catalog.settings())) as other:
        IcebergCommit(keeps_rows=keeps_rows).on(other.load_table(ITEMS))


def test_who_commits_meanwhile_costs_the_steps_of_that_table_alone(catalog: JointCatalog, job: Job) -> None:
    begin(catalog, job)
    looked: list[object] = []
    catalog.before = lambda: foreign_commit(catalog)
    with watched(looked.append):
        assert run_batch(job) == 1
    assert [str(step) for step in looked].count("parts written") == 2
    run(job, tasks=LocalTasks(2))
    assert_done(catalog)
    assert not halves(catalog)


def test_a_batch_follows_others_who_leave_the_rows_as_they_are(catalog: JointCatalog, job: Job) -> None:
    """More of them than a step has attempts: no step is made twice, and no snapshot is lost."""
    begin(catalog, job)
    looked: list[object] = []
    left = [*range(6)]

    def replace_rows() -> None:
        if left:
            left.pop()
            foreign_commit(catalog, keeps_rows=True)
            catalog.before = replace_rows

    catalog.before = replace_rows
    with watched(looked.append):
        assert run_batch(job) == 1
    assert not left
    assert [str(step) for step in looked].count("parts written") == 1
    summaries = [snapshot.summary for snapshot in catalog.tables[ITEMS].snapshots]
    assert [one.operation.value for one in summaries if one is not None].count("replace") == 6
    run(job, tasks=LocalTasks(2))
    assert_done(catalog)
    assert not halves(catalog)


@pytest.mark.parametrize("version", [2, 3])
def test_files_that_are_compacted_meanwhile_are_followed_unless_the_batch_changes_them(
    catalog: JointCatalog, tmp_path: Path, version: int
) -> None:
    """Several steps of a table wait, of which a later one marks what an earlier one brought."""
    sink = Sink(
        directory=str(tmp_path / "tables"),
        format=TableFormat.ICEBERG,
        catalog=catalog.settings(),
        merge=Merge.MARK,
        row_ids=version == 3,
    )
    uris = [f"{tmp_path}/tables/shop/{name}" for name in ("orders", "items")]
    for uri in uris:
        with closing(IcebergTarget.at(sink, uri)) as target:
            target.create(INT_KEY, MIRROR_COMMIT_ID)
            for step, ids in enumerate(((1, 2, 3), (11, 12, 13))):
                target.append(numbers(*ids).to_reader(), replace(MIRROR_COMMIT_ID, step=step))

    def rows(uri: str) -> list[int]:
        with closing(IcebergTarget.at(sink, uri)) as target:
            return sorted(target.read().read_all().column("id").to_pylist())

    def batch(batch_id: int, *steps: Change) -> frozenset[str]:
        joint = IcebergJointCommit(sink)
        targets = joint.targets()
        for uri in uris:
            with closing(targets.at(sink, uri)) as target:
                for step, change in enumerate(steps):
                    target.merge(change, replace(MIRROR_COMMIT_ID, batch_id=batch_id, step=step))
        return joint.commit(targets.waiting())  # type: ignore[arg-type]

    def compaction_of(first: int, times: int) -> None:
        if times:
            with closing(IcebergTarget.at(sink, uris[1])) as target, target._begin() as write:
                (live,) = [one for one in write.files() if first in write_ids(write, one)]
                write.rewrite(live)
                write.prepare()
                write.commit()
            catalog.before = lambda: compaction_of(first, times - 1)

    catalog.before = lambda: compaction_of(11, 5)
    assert batch(1, change_of([(1, "u"), (20, "n"), (21, "n")], [2]), change_of([(20, "u")], [21, 3])) == frozenset()
    assert [rows(uri) for uri in uris] == [[1, 11, 12, 13, 20]] * 2
    catalog.before = lambda: compaction_of(11, 1)
    assert batch(2, change_of([], [12])) == {uris[1]}
    assert [rows(uri) for uri in uris] == [[1, 11, 12, 13, 20]] * 2


def write_ids(write: IcebergTableWrite, live: LiveFile) -> list[int]:
    return [key for _, rows in write.reader.key_batches(live, INT_KEY) for key in rows.column("id").to_pylist()]


def test_who_always_commits_meanwhile_is_named(catalog: JointCatalog, job: Job) -> None:
    begin(catalog, job)

    def again() -> None:
        foreign_commit(catalog)
        catalog.before = again

    catalog.before = again
    with pytest.raises(TableError, match=r"WRITE_FAILED\] .*/shop/items: changed by other writers during each of 4"):
        run(job, tasks=LocalTasks(2))
    catalog.before = None
    run(job, tasks=LocalTasks(2))
    assert_done(catalog)
    assert not halves(catalog)


def test_a_table_that_fails_keeps_the_batch_from_all(
    catalog: JointCatalog, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(catalog, job)
    before = dict(catalog.tables)
    with closing(load_catalog("other", **catalog.settings())) as other:
        other.load_table(ITEMS).transaction().set_properties({"binlog-stream.queryId": "another"}).commit_transaction()
    with pytest.raises(TableError, match=r"OTHER_WRITER\] shop\.items"):
        run(job, tasks=LocalTasks(2))
    assert catalog.tables[ORDERS] is before[ORDERS]


def test_a_table_that_is_set_aside_keeps_nothing_from_the_others(catalog: JointCatalog, job: Job) -> None:
    begin(catalog, job)
    with closing(load_catalog("other", **catalog.settings())) as other:
        other.load_table(ITEMS).transaction().set_properties({"binlog-stream.queryId": "another"}).commit_transaction()
    run(structs.replace(job, on_error=OnError.SET_ASIDE), tasks=LocalTasks(2))
    assert rows_of(catalog.tables[ORDERS], 2) == expected(ROUNDS - 1)[0]
    assert rows_of(catalog.tables[ITEMS], 3) != expected(ROUNDS - 1)[1]


# --- Ends of the process ---


def test_a_job_that_ends_at_any_step_goes_on(catalog: JointCatalog, job: Job) -> None:
    begin(catalog, job)
    for step_no in range(1, 100):
        try:
            with watched(DeadFrom(step_no)):
                assert run_batch(job) == 1
        except Cut:
            assert not halves(catalog)
            continue
        break
    assert step_no > 4
    run(job, tasks=LocalTasks(2))
    assert_done(catalog)
    assert not halves(catalog)


@pytest.mark.slow
def test_kill_9_between_any_two_lines(catalog: JointCatalog, tmp_path: Path) -> None:
    """Of the code that commits; the batch is done again by a process that knows nothing of it."""
    lines = stride(12)
    rounds = 600 if lines == 1 else 60
    write_log(tmp_path / "log", rounds)
    command = [sys.executable, "-m", "tests.streaming.tables.iceberg.order_log"]
    uri = catalog.settings()["uri"]
    ran = subprocess.run([*command, tmp_path, uri, str(lines)], capture_output=True, text=True, timeout=3600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert int(ran.stdout.split()[-1]) * lines > 40
    assert_done(catalog, rounds)
    assert not halves(catalog)


# --- A catalog that exists ---


@pytest.mark.server
@pytest.mark.parametrize("version", [2, pytest.param(3, marks=pytest.mark.thorough)])
def test_the_rest_catalog_of_iceberg_itself(tmp_path: Path, version: int) -> None:
    """It makes one commit after the other, so nothing is asked of its readers; numbers of rows it checks."""
    write_log(tmp_path / "log", ROUNDS)
    with RestCatalog(tmp_path / "catalog") as server:
        job = order_job(tmp_path, server.settings(), bytes_max="2k")
        assert joint_commit(job.sink) is not None
        with closing(load_catalog("other", **server.settings())) as other:
            while not other.table_exists(ITEMS):
                assert run_batch(job) == 1
            for name in (ORDERS, ITEMS):
                update = UpgradeFormatVersionUpdate.model_validate({"format-version": version})
                other.commit_table(other.load_table(name), (), (update,))
            assert run(job, tasks=LocalTasks(2)) > 1
            orders, items = (other.load_table(name).metadata for name in (ORDERS, ITEMS))
        assert {table.format_version for table in (orders, items)} == {version}
        assert (rows_of(orders, 2), rows_of(items, 3)) == expected(ROUNDS - 1)
