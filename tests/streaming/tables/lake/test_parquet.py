"""What is the own of plain Parquet files: a step is a file, columns are those of the newest one, rows stay."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from binlog_format.errors import UnsupportedError
from binlog_streaming.lake.evolution import SchemaChange
from binlog_streaming.settings import TableFormat
from tests.faults.processes import files_up_to
from tests.streaming.tables.lake.sink_cases import COMMIT_ID, INT_KEY, Place, change_of, numbers, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from binlog_streaming.lake.target import Target

NOTE = SchemaChange(added=pa.schema([("note", pa.string())]))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, TableFormat.PARQUET)


def names(place: Place) -> list[str]:
    """Files of the folder, hidden ones too."""
    return sorted(path.name for path in (place.directory / place.name).iterdir())


def test_a_step_is_a_file_that_says_which(place: Place) -> None:
    place.append(3, numbers(1), replace(COMMIT_ID, step=4))
    assert names(place) == ["_binlog-stream.json", "batch-0000000003-0004.parquet"]
    recorded = pq.read_metadata(place.directory / place.name / names(place)[1]).metadata
    assert {key: recorded[f"binlog-stream.{key}".encode()] for key in ("batchId", "step", "gtid")} == {
        "batchId": b"3",
        "step": b"4",
        "gtid": b"0-1-7",
    }


def test_names_sort_as_steps_follow_each_other(place: Place) -> None:
    for batch_id, step in ((0, 2), (0, 10), (1, 0), (10, 2)):
        place.append(batch_id, numbers(batch_id * 100 + step), replace(COMMIT_ID, step=step))
    assert place.read().column("id").to_pylist() == [2, 10, 100, 1002]
    folder = place.directory / place.name
    by_name = [
        pq.read_table(folder / name).column("id")[0].as_py() for name in names(place) if name.startswith("batch")
    ]
    assert by_name == [2, 10, 100, 1002]


def test_files_of_steps_without_a_number_count_as_the_first_ones(place: Place) -> None:
    place.append(7, numbers(1))
    folder = place.directory / place.name
    (folder / "batch-0000000007-0000.parquet").rename(folder / "batch-0000000007.parquet")
    assert not place.append(7, numbers(1))
    assert place.append(7, numbers(2), replace(COMMIT_ID, step=2))
    assert place.ids() == [1, 2]


def test_columns_come_and_become_wider_in_later_files(place: Place) -> None:
    place.append(0, numbers(1))
    commit_id = replace(COMMIT_ID, batch_id=1)
    wider = SchemaChange(retyped={"id": pa.int64()}, added=NOTE.added, filled={"note": pa.scalar(None, pa.string())})
    assert place.evolve(wider, replace(commit_id, step=1))
    assert not place.evolve(wider, replace(commit_id, step=1))
    schema = pa.schema([("id", pa.int64()), ("value", pa.string()), ("note", pa.string())])
    assert place.append(1, rows_of(schema, [(2**40, "y", "n")]), replace(commit_id, step=2))
    assert place.append(2, numbers(3))
    assert place.read().schema.equals(schema)
    assert place.read().to_pylist() == place.content().to_pylist()
    assert place.sorted_rows() == [(1, "x", None), (2**40, "y", "n"), (3, "x", None)]
    # A reader that is told the columns, as engines are by a catalog.
    folder = place.directory / place.name
    read = ds.dataset(sorted(folder.glob("batch-*.parquet")), schema, format="parquet").to_table()
    assert read.to_pylist() == place.content().to_pylist()


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (lambda target, commit_id: target.merge(change_of([(1, "y")]), commit_id), "mode changelog cannot be kept"),
        (lambda target, commit_id: target.replace(numbers(9).to_reader(), commit_id), "cannot be replaced"),
        (lambda target, commit_id: target.replace(target.read(), commit_id), "cannot be replaced"),
        (
            lambda target, commit_id: target.evolve(SchemaChange(renamed={"value": "name"}), commit_id),
            "columns cannot get other names or values",
        ),
        (
            lambda target, commit_id: target.evolve(replace(NOTE, filled={"note": pa.scalar("n")}), commit_id),
            "columns cannot get other names or values",
        ),
        (
            lambda target, commit_id: target.evolve(SchemaChange(filled={"value": pa.scalar(None)}), commit_id),
            "columns cannot get other names or values",
        ),
    ],
    ids=["merge", "replace", "replace by itself", "rename", "fill", "fill with null"],
)
def test_what_changes_rows_that_are_there_is_refused(
    place: Place, write: Callable[[Target, object], object], told: str
) -> None:
    place.append(0, numbers(1))
    before = place.state()
    condition = rf"FORMAT\] shop\.orders: .*{told}"
    with closing(place.target()) as target, pytest.raises(UnsupportedError, match=condition):
        write(target, replace(COMMIT_ID, batch_id=1))
    assert place.state() == before


def test_a_description_by_two_at_once_is_a_conflict(place: Place) -> None:
    place.append(0, numbers(1))
    with closing(place.target()) as late:
        with closing(place.target()) as other:
            other.set_properties(replace(COMMIT_ID, keys=("id",)))
        with pytest.raises(FileExistsError) as caught:
            late.set_properties(COMMIT_ID, recorded={"binlog-stream.dropped": "0:9:9"})
        assert late.is_conflict(caught.value)
    content = json.loads((place.directory / place.name / "_binlog-stream.json").read_text())
    assert content["properties"]["binlog-stream.keys"] == "id"
    assert not [name for name in names(place) if name.startswith(".")]


def test_full_disk_leaves_nothing_and_the_same_step_goes_again(place: Place) -> None:
    place.append(0, numbers(1))
    before, paths = place.state(), names(place)
    values = np.random.default_rng(1).integers(0, 256, (3000, 500), np.uint8)
    rows = pa.table(
        {"id": pa.array(range(3000), pa.int32()), "value": [one.tobytes().hex() for one in values]}, INT_KEY
    )
    with files_up_to(1 << 20), pytest.raises(OSError, match="too large"):
        place.append(1, rows)
    assert (place.state(), names(place)) == (before, paths)
    assert place.append(1, rows)
    assert place.content().num_rows == 3001
