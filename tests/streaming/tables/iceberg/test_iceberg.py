"""What is Iceberg's own: one commit for a step, files left alone, tables set back by hand, disks that are full."""

from __future__ import annotations

import fcntl
import resource
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from binlog_connector.crash_points import watched
from binlog_format.errors import TableError
from binlog_streaming.lake.change import Patches
from binlog_streaming.lake.evolution import SchemaChange
from binlog_streaming.lake.iceberg.catalog import CATALOG_FILE, identifier, open_catalog
from binlog_streaming.lake.iceberg.data_files import IcebergDataFiles
from binlog_streaming.lake.iceberg.target import IcebergTarget
from binlog_streaming.lake.target import CrashPoint
from binlog_streaming.prefetch import prefetch
from binlog_streaming.settings import Sink, TableFormat
from tests.faults.processes import files_up_to
from tests.streaming.tables.iceberg.iceberg_cases import files_of, reader, said_by, snapshots_of
from tests.streaming.tables.lake.sink_cases import (
    COMMIT_ID,
    INT_KEY,
    MIRROR_COMMIT_ID,
    Place,
    change_of,
    numbers,
    rows_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NOTE = SchemaChange(added=pa.schema([("note", pa.string())]))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, TableFormat.ICEBERG, file_size=4 << 20)


def noise(count: int) -> pa.Table:
    """Rows of `INT_KEY` that do not become smaller in a file."""
    values = np.random.default_rng(1).integers(0, 256, (count, 500), np.uint8)
    columns = {"id": pa.array(range(count), pa.int32()), "value": [value.tobytes().hex() for value in values]}
    return pa.table(columns, INT_KEY)


# --- A step is one commit that says which ---


def test_batch_is_one_snapshot_that_says_which(place: Place) -> None:
    place.merge(0, [(None, (1, "a")), (None, (2, "b"))])
    place.bring(change_of([(1, "c"), (3, "d")], [2]), step=4)
    snapshots = snapshots_of(place)
    assert len(snapshots) == 2
    recorded = {key: value for key, value in said_by(snapshots[-1]).items() if key.startswith("binlog-")}
    assert recorded == {
        "binlog-stream.queryId": "q-1",
        "binlog-stream.batchId": "1",
        "binlog-stream.step": "4",
        "binlog-stream.position": "0:12:3",
        "binlog-stream.lastChange": "0:11:2:5",
        "binlog-stream.gtid": "0-1-7",
    }
    with reader(place) as table:
        assert recorded.items() <= {**table.properties}.items()
        assert table.properties["binlog-stream.snapshotId"] == str(snapshots[-1].snapshot_id)


def test_table_forgets_the_gtid_of_an_earlier_batch(place: Place) -> None:
    place.append(0, numbers(1), replace(COMMIT_ID, gtid_position="0-1-7"))
    with reader(place) as table:
        assert table.properties["binlog-stream.gtidPosition"] == "0-1-7"
    place.append(1, numbers(2), replace(COMMIT_ID, gtid=None))
    with reader(place) as table:
        assert not [name for name in table.properties if "gtid" in name]


def test_step_without_rows_is_found_again(place: Place) -> None:
    """It is a snapshot with the same files: a catalog compares snapshots, and not properties."""
    place.append(0, numbers(1))
    commit_id = replace(COMMIT_ID, batch_id=1, step=1)
    before = files_of(place)
    assert place.evolve(NOTE, commit_id)
    assert said_by(snapshots_of(place)[1])["binlog-stream.step"] == "1"
    assert files_of(place) == before
    assert not place.evolve(NOTE, commit_id)
    with closing(place.target()) as target:
        assert not target.is_done(replace(commit_id, step=2))


def test_first_step_may_be_one_without_rows(place: Place) -> None:
    commit_id = replace(COMMIT_ID, step=1)
    assert place.evolve(NOTE, commit_id)
    assert not place.evolve(NOTE, commit_id)
    assert place.content().column_names == ["id", "value", "note"]


def test_other_writers_commit_in_between_is_kept(place: Place) -> None:
    """The batch fails, and is written again on top of it: nothing of anybody is lost."""
    place.merge(0, [(None, (1, "a"))])
    written: list[bool] = []

    def somebody_else(step: CrashPoint) -> None:
        if step is CrashPoint.FILES_WRITTEN and not written:
            written.append(True)
            with reader(place) as table:
                table.append(numbers(77))

    with watched(somebody_else), pytest.raises(Exception, match="changed between") as caught:
        place.merge(1, [((1, "a"), (1, "b"))])
    with closing(place.target()) as target:
        assert target.is_conflict(caught.value)
    assert len(list(place.directory.glob("shop/orders/data/*"))) == 2  # and not what the batch wrote
    assert place.merge(1, [((1, "a"), (1, "b"))])
    assert place.sorted_rows() == [(1, "b"), (77, "x")]
    assert not place.merge(1, [((1, "a"), (1, "b"))])


@pytest.mark.parametrize("late_step", ["evolve", "describe"])
def test_step_without_rows_meets_the_commit_of_somebody_else(place: Place, late_step: str) -> None:
    """The table was looked at before it."""
    place.append(0, numbers(1))
    commit_id = replace(COMMIT_ID, batch_id=1, step=1)
    with closing(place.target()) as late:
        with reader(place) as table:
            table.append(numbers(77))
        writes: dict[str, Callable[[], None]] = {
            "evolve": lambda: late.evolve(NOTE, commit_id),
            "describe": lambda: late.set_properties(commit_id, recorded={"binlog-stream.dropped": "0:9:9"}),
        }
        write = writes[late_step]
        with pytest.raises(Exception, match="changed between") as caught:
            write()
        assert late.is_conflict(caught.value)
    assert place.evolve(NOTE, commit_id)
    assert sorted(place.ids()) == [1, 77]


def test_batch_is_found_behind_snapshots_of_others(place: Place) -> None:
    place.append(0, numbers(1))
    for _ in range(3):
        with reader(place) as table:
            table.append(numbers(5))
    assert not place.append(0, numbers(1))


# --- Set back by hand ---


def set_back(place: Place, number: int) -> None:
    with reader(place) as table:
        table.manage_snapshots().rollback_to_snapshot(table.metadata.snapshots[number].snapshot_id).commit()


def test_table_set_back_by_hand_is_refused(place: Place) -> None:
    """Going on from the checkpoint would leave the batches out that were taken away."""
    for batch_id in range(3):
        place.append(batch_id, numbers(batch_id))
    set_back(place, 1)
    with pytest.raises(
        TableError, match=r"OTHER_WRITER\] shop\.orders: .* had batch 2, and now holds batch 1, step 0: "
    ):
        place.append(3, numbers(3))


def test_table_set_back_before_a_step_without_rows_is_refused(place: Place) -> None:
    for batch_id in range(2):
        place.append(batch_id, numbers(batch_id))
    place.evolve(NOTE, replace(COMMIT_ID, batch_id=2, step=1))
    set_back(place, 0)
    with pytest.raises(TableError, match=r"OTHER_WRITER\] .* had batch 2, and now holds batch 0, step 0: "):
        place.append(3, numbers(3))


def test_table_set_forward_again_is_taken(place: Place) -> None:
    for batch_id in range(3):
        place.append(batch_id, numbers(batch_id))
    with reader(place) as table:
        newest = table.metadata.snapshots[-1].snapshot_id
    set_back(place, 1)
    with reader(place) as table:
        table.manage_snapshots().set_current_snapshot(snapshot_id=newest).commit()
    assert place.append(3, numbers(3))
    assert place.ids() == [0, 1, 2, 3]


# --- Files ---


def test_files_without_a_changed_key_stay(place: Place) -> None:
    for batch_id in range(8):
        place.merge(batch_id, [(None, (batch_id * 200 + n, "old")) for n in range(100)])
    before = files_of(place)
    assert len(before) == 8
    # 150 lies between two files, 1799 behind all; 5 is in the first.
    place.bring(change_of([(5, "new"), (150, "new"), (1799, "new")]), batch_id=8)
    assert len(before & files_of(place)) == 7
    rows = place.rows()
    assert len(rows) == 802
    values: dict[object, object] = {row[0]: row[1] for row in rows}
    assert (values[5], values[6], values[150]) == ("new", "old", "new")


def test_files_without_a_current_row_are_not_looked_into(place: Place) -> None:
    """Of a table with versions most are closed; statistics say which files have none that is not."""
    versions = pa.schema([("id", pa.int32()), ("value", pa.string()), ("_is_current", pa.bool_())])
    place.append(0, rows_of(versions, [(1, "old", False)]), MIRROR_COMMIT_ID)
    (closed,) = place.directory.glob("shop/orders/data/*")
    content = closed.read_bytes()
    place.append(1, rows_of(versions, [(1, "now", True)]), MIRROR_COMMIT_ID)
    closed.write_bytes(b"")  # whoever reads it fails
    closing_ = pa.schema([("id", pa.int32()), ("_is_current", pa.bool_())])
    patches = Patches(rows_of(closing_, [(1, False)]), pa.table({"x": [0]}).select([]))
    change = change_of(schema=versions, patches=patches, current="_is_current")
    assert place.bring(change, batch_id=2)
    closed.write_bytes(content)
    assert place.sorted_rows() == [(1, "now", False), (1, "old", False)]


def test_changed_rows_keep_their_places_so_files_keep_their_keys(tmp_path: Path) -> None:
    """Otherwise every file would hold some of all keys after a while, and every merge read all of them."""
    place = Place(tmp_path, TableFormat.ICEBERG, file_size=1 << 20)
    place.append(0, noise(20_000), MIRROR_COMMIT_ID)
    count = len(files_of(place))
    assert count > 3
    for batch_id in range(1, 4):
        place.bring(change_of([(key, "new") for key in range(batch_id, 20_000, 50)]), batch_id=batch_id)
    before = files_of(place)
    place.bring(change_of([(19_990, "newest")]), batch_id=4)
    assert len(files_of(place) - before) == 1
    assert place.content().num_rows == 20_000


def test_changelog_is_split_into_files_of_the_wanted_size(place: Place) -> None:
    place.append(0, noise(30_000))
    with reader(place) as table:
        sizes = sorted(task.file.file_size_in_bytes for task in table.scan().plan_files())
        assert sum(task.file.record_count for task in table.scan().plan_files()) == 30_000
    assert len(sizes) > 2
    assert all(4 << 20 <= size < 7 << 20 for size in sizes[1:])


def test_rows_are_written_while_they_come(place: Place) -> None:
    """No more than two parts of a file are in memory, however large the batch is."""
    part = noise(2000).to_batches()[0]
    written: list[int] = []

    def rows() -> Iterator[pa.RecordBatch]:
        for _ in range(60):
            written.append(sum(path.stat().st_size for path in place.directory.glob("shop/orders/data/*")))
            yield part

    with closing(place.target()) as target:
        assert isinstance(target, IcebergTarget)
        target.create(INT_KEY, COMMIT_ID)
        new = IcebergDataFiles(target.table.metadata, target.table.io, file_size=4 << 20)
        for batch in prefetch(rows()):
            new.write(pa.Table.from_batches([batch]))
        files = new.close()
    assert sum(file.record_count for file in files) == 60 * 2000
    compressed = sum(file.file_size_in_bytes for file in files) / 60
    in_memory = [number - size / compressed for number, size in enumerate(written)]
    assert max(in_memory) * part.nbytes < 2 * (4 << 20) + 2 * part.nbytes


# --- A disk that is full ---


def test_full_disk_leaves_nothing_and_the_same_step_goes_again(place: Place) -> None:
    place.merge(0, [(None, (1, "a"))])
    before, paths = place.state(), set(place.directory.rglob("*"))
    upserts = change_of([tuple(row.values()) for row in noise(8000).to_pylist()])
    with files_up_to(1 << 20), pytest.raises(OSError, match="too large"):
        place.bring(upserts)
    assert place.state() == before
    assert set(place.directory.rglob("*")) == paths
    assert place.bring(upserts)
    assert place.content().num_rows == 8000


@pytest.mark.parametrize("size", [500, 3500, 6000], ids=["manifest", "metadata", "catalog"])
def test_full_disk_at_the_commit_leaves_nothing(place: Place, size: int) -> None:
    place.append(0, numbers(1))
    paths = set(place.directory.rglob("*"))
    errors: tuple[type[Exception], ...] = (OSError, *IcebergTarget.write_errors)

    def full(step: CrashPoint) -> None:
        if step is CrashPoint.FILES_WRITTEN:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

    with files_up_to(1 << 30), watched(full), pytest.raises(errors, match=r"too large|I/O"):
        place.append(1, numbers(2))
    # The library leaves the new metadata there; maintenance removes it when it is old.
    found = {path for path in place.directory.rglob("*") if "journal" not in path.name}
    assert {path for path in found if not path.name.startswith("00002-")} == paths
    assert place.append(1, numbers(2))
    assert place.ids() == [1, 2]


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("/t/shop/orders", ("shop", "orders")),
        ("/t/orders", ("default", "orders")),
        ("/t/v1.2/shop/orders", ("v1@002e2", "shop", "orders")),
    ],
)
def test_names_in_the_catalog_are_paths(uri: str, name: tuple[str, ...]) -> None:
    assert identifier("/t/", uri) == name


def test_catalog_that_another_process_is_making_is_waited_for(tmp_path: Path) -> None:
    """Its first SQL table is there, the second is not yet."""
    with sqlite3.connect(tmp_path / CATALOG_FILE) as half:
        half.execute("CREATE TABLE iceberg_tables (x INTEGER)")
    half.close()
    with (tmp_path / ".iceberg-catalog.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with ThreadPoolExecutor(1) as pool:
            opening = pool.submit(open_catalog, Sink(directory=str(tmp_path)))
            with pytest.raises(TimeoutError):
                opening.result(0.2)
            fcntl.flock(lock, fcntl.LOCK_UN)
            opening.result(60).close()
