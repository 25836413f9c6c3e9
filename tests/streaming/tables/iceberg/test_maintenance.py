"""Iceberg tables after many steps: small files are joined, old snapshots and files go, and rows stay as they are."""

from __future__ import annotations

import os
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from binlog_streaming.lake.evolution import SchemaChange
from binlog_streaming.lake.iceberg import maintenance as iceberg_maintenance
from binlog_streaming.lake.iceberg.maintenance import expire
from binlog_streaming.lake.target import to_be_joined
from binlog_streaming.settings import TableFormat
from tests.streaming.tables.iceberg.iceberg_cases import files_of, reader, said_by, snapshots_of
from tests.streaming.tables.lake.sink_cases import COMMIT_ID, INT_KEY, Place, numbers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyiceberg.manifest import DataFile


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, TableFormat.ICEBERG, file_size=4 << 20)


def append(place: Place, *batches: int) -> None:
    """Batches as a job writes them: with what is to be done behind a commit."""
    for batch_id in batches:
        with closing(place.target()) as target:
            commit_id = replace(COMMIT_ID, batch_id=batch_id)
            assert not target.is_done(commit_id)
            target.create(INT_KEY, commit_id)
            target.append(numbers(batch_id).to_reader(), commit_id)
            target.maintain(place.sink)


def test_small_files_of_a_changelog_are_joined(place: Place) -> None:
    append(place, *range(40))
    assert len(files_of(place)) < 24
    assert place.read().column("id").to_pylist() == list(range(40))


def test_joining_is_no_step_and_changes_no_row(place: Place) -> None:
    append(place, *range(16))
    with closing(place.target()) as target:
        assert target.is_done(replace(COMMIT_ID, batch_id=15))
        assert not target.is_done(replace(COMMIT_ID, batch_id=16))
    last = snapshots_of(place)[-1]
    assert last.summary is not None
    assert last.summary.operation.value == "replace"
    said = said_by(last)
    assert not [name for name in said if name.startswith("binlog-stream.")]
    assert (said["added-records"], said["deleted-records"], said["total-records"]) == ("16", "16", "16")


def test_joined_files_have_columns_that_came_later(place: Place) -> None:
    append(place, *range(8))
    with closing(place.target()) as target:
        change = SchemaChange(
            renamed={"value": "name"}, retyped={"id": pa.int64()}, added=pa.schema([("note", pa.string())])
        )
        target.evolve(change, replace(COMMIT_ID, batch_id=7, step=1))
    append(place, *range(8, 40))
    assert place.sorted_rows() == sorted([(n, "x" if n < 8 else None, None) for n in range(40)], key=repr)
    assert len(files_of(place)) < 24


def test_somebody_elses_commit_while_files_are_joined_is_kept(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    append(place, *range(15))
    joined = to_be_joined

    def interrupted(files: list[DataFile], size: Callable[[DataFile], int], *, file_size: int) -> list[DataFile]:
        with reader(place) as table:
            table.append(numbers(77))
        return joined(files, size, file_size=file_size)

    monkeypatch.setattr(iceberg_maintenance, "to_be_joined", interrupted)
    append(place, 15)
    assert place.ids() == [*range(16), 77]
    assert len(files_of(place)) == 17
    assert len(list(place.directory.glob("shop/orders/data/*"))) == 17  # what was joined in vain is gone
    monkeypatch.undo()
    append(place, *range(16, 33))
    assert len(files_of(place)) < 17


@pytest.mark.thorough
def test_manifests_are_joined_whoever_writes(place: Place) -> None:
    """Every look at a table reads all of them."""
    for batch_id in range(60):
        place.merge(batch_id, [(None, (batch_id % 7, str(batch_id)))])
    with reader(place) as table:
        snapshot = table.current_snapshot()
        assert snapshot is not None
        manifests = snapshot.manifests(table.io)
        assert len(manifests) <= 18
        live = sum((one.added_files_count or 0) + (one.existing_files_count or 0) for one in manifests)
        assert live == len(files_of(place))
    assert place.sorted_rows() == [(n, str(max(b for b in range(60) if b % 7 == n))) for n in range(7)]


@pytest.mark.thorough
def test_a_commit_does_not_become_dearer_with_the_number_of_commits(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads and writes all snapshots and manifests; a reader opens all files."""
    monkeypatch.setattr(iceberg_maintenance, "EXPIRE_EVERY", 8)
    monkeypatch.setattr(iceberg_maintenance, "SNAPSHOTS_MAX", 12)
    for batch_id in range(56):
        append(place, batch_id)
        with reader(place) as table:
            snapshot = table.current_snapshot()
            assert snapshot is not None
            assert len(table.metadata.snapshots) <= 12 + 8 + 1
            assert len(snapshot.manifests(table.io)) <= 18
        assert len(files_of(place)) <= 32
    assert place.ids() == list(range(56))


def test_old_snapshots_and_files_go(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iceberg_maintenance, "SNAPSHOTS_MAX", 3)
    for batch_id in range(9):
        place.merge(batch_id, [(None, (1, str(batch_id)))])
    folder = place.directory / "shop" / "orders"
    (folder / "data" / "of-a-run-that-was-cut-off.parquet").write_bytes(b"x")
    (folder / "metadata" / "of-a-run-that-was-cut-off.metadata.json").write_bytes(b"x")
    count = len(list(folder.glob("data/*.parquet")))
    hours_ago = time.time() - 7200
    for path in folder.rglob("*.*"):
        os.utime(path, (hours_ago, hours_ago))
    with reader(place) as table:
        expire(table, retention_hours=1000)
    assert len(snapshots_of(place)) == 3
    assert len(list(folder.glob("data/*.parquet"))) == 3 < count
    assert not list(folder.rglob("of-a-run*"))
    assert place.rows() == [(1, "8")]
    assert not place.merge(8, [(None, (1, "8"))])
    assert place.merge(9, [(None, (1, "9"))])
    assert place.rows() == [(1, "9")]


def test_steps_are_found_when_their_snapshots_are_forgotten(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iceberg_maintenance, "SNAPSHOTS_MAX", 1)
    append(place, 0, 1)
    for _ in range(3):
        with reader(place) as table:
            table.append(numbers(5))
    with reader(place) as table:
        expire(table, retention_hours=1000)
    assert len(snapshots_of(place)) == 2  # the current one, and that of the last step
    with reader(place) as table:
        table.maintenance.expire_snapshots().by_ids([snapshots_of(place)[0].snapshot_id]).commit()
    assert not place.append(1, numbers(1))
    assert place.append(2, numbers(2))


def test_young_files_that_nobody_names_stay(place: Place) -> None:
    """They may be of a commit that is running."""
    place.append(0, numbers(1))
    young = place.directory / "shop" / "orders" / "data" / "young.parquet"
    young.write_bytes(b"x")
    with reader(place) as table:
        expire(table, retention_hours=0)
    assert young.exists()
