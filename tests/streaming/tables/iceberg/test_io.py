"""What a commit of an Iceberg table leads to is on the disk before the commit is."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from binlog_connector.crash_points import watched
from binlog_streaming.lake.iceberg.catalog import CATALOG_FILE, identifier, open_catalog
from binlog_streaming.lake.target import CrashPoint
from binlog_streaming.settings import TableFormat
from tests.faults.processes import in_a_process
from tests.streaming.tables.lake.sink_cases import MIRROR_COMMIT_ID, Place, change_of, numbers


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, TableFormat.ICEBERG)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Paths that were synced, and the size that they had then."""
    seen: dict[str, int] = {}
    fsync = os.fsync

    def observed(descriptor: int) -> None:
        fsync(descriptor)
        seen[path_of(descriptor)] = os.fstat(descriptor).st_size

    monkeypatch.setattr(os, "fsync", observed)
    return seen


def path_of(descriptor: int) -> str:
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


def referred_files(place: Place) -> set[str]:
    """Everything that the catalog leads to."""
    with closing(open_catalog(place.sink)) as catalog:
        table = catalog.load_table(identifier(str(place.directory), place.uri))
        paths = {table.metadata_location}
        for snapshot in table.metadata.snapshots:
            paths.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(table.io):
                paths.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
                paths |= {entry.data_file.file_path for entry in entries}
        return paths


def test_all_files_of_a_commit_are_synced_and_so_are_their_names(place: Place, synced: dict[str, int]) -> None:
    place.append(0, numbers(1, 2, 3), MIRROR_COMMIT_ID)
    place.bring(change_of([(1, "y"), (4, "z")], [2]))
    paths = referred_files(place)
    assert len(paths) > 6
    for path in paths:
        assert synced[path] == Path(path).stat().st_size > 0
        for folder in Path(path).relative_to(place.directory).parents:
            assert str(place.directory / folder) in synced


def test_data_files_are_synced_before_the_commit_begins(place: Place, synced: dict[str, int]) -> None:
    place.append(0, numbers(1), MIRROR_COMMIT_ID)
    written: list[set[str]] = []

    def look(step: CrashPoint) -> None:
        if step is CrashPoint.FILES_WRITTEN:
            written.append({path for path in synced if path.endswith(".parquet")})

    before = {path for path in synced if path.endswith(".parquet")}
    with watched(look):
        place.bring(change_of([(4, "z")]))
    assert len(written[0] - before) == 1


@pytest.mark.parametrize("kind", [".parquet", "-m0.avro", ".metadata.json"])
def test_what_cannot_be_synced_is_not_committed(place: Place, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place.append(0, numbers(1), MIRROR_COMMIT_ID)
    before = place.state()
    fsync = os.fsync

    def full(descriptor: int) -> None:
        if path_of(descriptor).endswith(kind):
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            place.bring(change_of([(4, "z")]))
    assert place.state() == before
    assert place.ids() == [1]
    assert place.bring(change_of([(4, "z")]))
    assert place.ids() == [1, 4]


def test_a_commit_that_was_cut_off_in_the_catalogs_own_file_is_undone(place: Place) -> None:
    place.append(0, numbers(1, 2, 3), MIRROR_COMMIT_ID)

    def commit_half() -> None:
        with closing(sqlite3.connect(place.directory / CATALOG_FILE)) as database:
            database.execute("PRAGMA cache_size = 1")  # pages go to the file before the end, and the journal first
            database.execute("UPDATE iceberg_tables SET metadata_location = hex(zeroblob(100000))")
            database.execute("CREATE TABLE more AS SELECT hex(zeroblob(100000)) AS text")
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_process(commit_half) == -signal.SIGKILL
    assert (place.directory / f"{CATALOG_FILE}-journal").stat().st_size > 0
    place.bring(change_of([(1, "y")], [2]))
    assert len(referred_files(place)) > 4
