"""What is Iceberg's own: one snapshot for a batch, files left alone, snapshots set back, old snapshots and files."""

from __future__ import annotations

import os
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.table import Transaction

from binlog_format.errors import TableError
from binlog_streaming.settings import TableFormat
from binlog_streaming.tables import iceberg_maintenance
from binlog_streaming.tables.iceberg import IcebergTarget
from binlog_streaming.tables.iceberg_catalog import identifier
from binlog_streaming.tables.iceberg_maintenance import expire
from binlog_streaming.tables.steps import Step, watched
from tests.streaming.tables.sink_cases import INT_KEY, TICKET, Place, numbers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.table import Table


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, TableFormat.ICEBERG, file_size=4 << 20)


@pytest.fixture
def looks(place: Place) -> Iterator[list[IcebergTarget]]:
    opened: list[IcebergTarget] = []
    yield opened
    for target in opened:
        target.close()


def table_of(place: Place, looks: list[IcebergTarget]) -> Table:
    target = place.target()
    assert isinstance(target, IcebergTarget)
    looks.append(target)
    assert target.table is not None
    return target.table


def files_of(table: Table) -> set[str]:
    return {task.file.file_path for task in table.scan().plan_files()}


def test_batch_is_one_snapshot_that_says_which(place: Place, looks: list[IcebergTarget]) -> None:
    place.merge(0, [(None, (1, "a")), (None, (2, "b"))])
    place.merge(1, [((1, "a"), (1, "c")), ((2, "b"), None), (None, (3, "d"))])
    table = table_of(place, looks)
    assert len(table.metadata.snapshots) == 2
    last = table.current_snapshot()
    assert last is not None
    assert last.summary is not None
    said = {key: value for key, value in last.summary.additional_properties.items() if key.startswith("binlog-")}
    assert said == {
        "binlog-stream.queryId": "q-1",
        "binlog-stream.batchId": "1",
        "binlog-stream.position": "0:12:3",
        "binlog-stream.lastChange": "0:11:2:5",
        "binlog-stream.gtid": "0-1-7",
    }
    assert {table.properties[key] for key in ("binlog-stream.batchId", "binlog-stream.gtid")} == {"1", "0-1-7"}


def test_table_forgets_the_gtid_of_an_earlier_batch(place: Place, looks: list[IcebergTarget]) -> None:
    place.append(0, numbers(1))
    place.append(1, numbers(2), replace(TICKET, gtid=None))
    assert "binlog-stream.gtid" not in table_of(place, looks).properties


def test_files_without_a_changed_key_stay(place: Place, looks: list[IcebergTarget]) -> None:
    for batch_id in range(8):
        place.merge(batch_id, [(None, (batch_id * 200 + n, "old")) for n in range(100)])
    before = files_of(table_of(place, looks))
    assert len(before) == 8
    # 5 and 1450 do not exist in the file of 150; 950 lies in a gap between files.
    place.merge(8, [((5, "old"), (5, "new")), ((1499, "old"), None), (None, (950, "new"))])
    after = files_of(table_of(place, looks))
    assert len(before & after) == 6
    rows: dict[object, object] = {row[0]: row[1] for row in place.rows()}
    assert len(rows) == 800
    assert (rows[5], rows[6], rows[950], 1499 in rows) == ("new", "old", "new", False)


def test_small_files_are_joined_by_a_later_merge(place: Place, looks: list[IcebergTarget]) -> None:
    for batch_id in range(40):
        place.merge(batch_id, [(None, (batch_id, "x"))])
    assert len(files_of(table_of(place, looks))) <= 17
    assert place.ids() == list(range(40))


def test_changelog_is_split_into_files_of_the_wanted_size(tmp_path: Path, looks: list[IcebergTarget]) -> None:
    place = Place(tmp_path, TableFormat.ICEBERG, file_size=1 << 20)
    part = pa.table({"id": pa.array(range(10_000), pa.int32()), "value": ["x" * 8] * 10_000}, INT_KEY)
    place.append(0, pa.concat_tables([part] * 30))
    assert len(files_of(table_of(place, looks))) > 1
    assert place.content().num_rows == 300_000


def test_other_writers_commit_in_between_is_kept(place: Place, looks: list[IcebergTarget]) -> None:
    """The batch fails, and is written again on top of it: nothing of anybody is lost."""
    place.merge(0, [(None, (1, "a"))])
    written: list[bool] = []

    def somebody_else(step: Step) -> None:
        if step is Step.FILES_WRITTEN and not written:
            written.append(True)
            table_of(place, looks).append(numbers(77))

    with watched(somebody_else), pytest.raises(Exception, match="changed between") as caught:
        place.merge(1, [((1, "a"), (1, "b"))])
    with closing(place.target()) as target:
        assert target.is_conflict(caught.value)
    assert place.merge(1, [((1, "a"), (1, "b"))])
    assert sorted(place.rows()) == [(1, "b"), (77, "x")]
    assert not place.merge(1, [((1, "a"), (1, "b"))])


def test_batch_is_found_behind_snapshots_of_others(place: Place, looks: list[IcebergTarget]) -> None:
    place.append(0, numbers(1))
    for _ in range(3):
        table_of(place, looks).append(numbers(5))
    assert not place.append(0, numbers(1))


def test_table_set_back_by_hand_is_refused(place: Place, looks: list[IcebergTarget]) -> None:
    """Going on from the checkpoint would leave the batches out that were taken away."""
    for batch_id in range(3):
        place.append(batch_id, numbers(batch_id))
    table = table_of(place, looks)
    table.manage_snapshots().rollback_to_snapshot(table.metadata.snapshots[1].snapshot_id).commit()
    with pytest.raises(TableError, match=r"OTHER_WRITER\] shop\.orders: .* had batch 2, and now holds batch 1: "):
        place.append(3, numbers(3))


def test_delete_files_of_others_are_refused_before_anything_is_written(
    place: Place, looks: list[IcebergTarget]
) -> None:
    place.merge(0, [(None, (1, "a"))])
    table = table_of(place, looks)
    transaction = Transaction(table)
    with transaction.update_snapshot({"total-delete-files": "1"}).fast_append():
        pass  # nothing in it but what a writer with delete files says
    transaction.commit_transaction()
    summary = table_of(place, looks).current_snapshot()
    assert summary is not None
    assert summary.summary is not None
    if summary.summary.additional_properties["total-delete-files"] == "0":  # the library has counted for itself
        metadata_of(place, looks, "1")
    before = place.state()
    with pytest.raises(TableError, match=r"OTHER_WRITER\] shop\.orders: .* 1 delete files"):
        place.merge(1, [((1, "a"), None)])
    assert place.state() == before


def metadata_of(place: Place, looks: list[IcebergTarget], count: str) -> None:
    """Change the count in the table's metadata."""
    table = table_of(place, looks)
    path = place.directory / table.metadata_location.removeprefix(f"{place.directory}/")
    path.write_text(path.read_text().replace('"total-delete-files":"0"', f'"total-delete-files":"{count}"'))


def test_old_snapshots_and_files_go(place: Place, looks: list[IcebergTarget], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iceberg_maintenance, "EXPIRE_EVERY", 10)
    monkeypatch.setattr(iceberg_maintenance, "SNAPSHOTS_MAX", 3)
    for batch_id in range(9):
        place.merge(batch_id, [(None, (1, str(batch_id)))])
    folder = place.directory / "shop" / "orders"
    (folder / "data" / "of-a-run-that-was-cut-off.parquet").write_bytes(b"x")
    count = len(list(folder.glob("data/*.parquet")))
    hours_ago = time.time() - 7200
    for path in folder.glob("data/*.parquet"):
        os.utime(path, (hours_ago, hours_ago))
    expire(table_of(place, looks), retention_hours=1000)
    table = table_of(place, looks)
    assert len(table.metadata.snapshots) == 3
    assert len(list(folder.glob("data/*.parquet"))) == 3 < count
    assert place.rows() == [(1, "8")]
    assert not place.merge(8, [(None, (1, "8"))])
    assert place.merge(9, [(None, (1, "9"))])
    assert place.rows() == [(1, "9")]


def test_young_files_that_nobody_names_stay(
    place: Place, looks: list[IcebergTarget], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be of a commit that is running."""
    monkeypatch.setattr(iceberg_maintenance, "EXPIRE_EVERY", 1)
    place.append(0, numbers(1))
    young = place.directory / "shop" / "orders" / "data" / "young.parquet"
    young.write_bytes(b"x")
    expire(table_of(place, looks), retention_hours=0)
    assert young.exists()


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
