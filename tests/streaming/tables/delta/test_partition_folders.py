"""Files of a partitioned Delta table are in folders that name their values: some readers look nowhere else."""

from __future__ import annotations

import datetime as dt
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING
from urllib.parse import quote

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from binlog_streaming.lake.delta import data_files, maintenance
from binlog_streaming.lake.delta.actions import partition_folder
from binlog_streaming.lake.evolution import SchemaChange
from binlog_streaming.lake.folder_store import FolderStore
from binlog_streaming.settings import Merge, TableFormat
from binlog_streaming.settings.choices import partition_rule
from tests.streaming.tables.lake.sink_cases import INT_KEY, MIRROR_COMMIT_ID, Place, change_of, rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.streaming.tables.modes.row_images import Row

COMMIT_ID = replace(MIRROR_COMMIT_ID, partition_by=(partition_rule("value"),))
TEXTS = [
    "a",
    "a/b",
    "é=%:'",
    " b",
    "\x01\n",
    "日本",
    "%41",
    "..",
    "a+b",
    "a#b?c&d",
    'q"*<>|',
    "[x]{y}^\\",
    "\0",
    "x" * 300,
    None,
]


def put(place: Place, batch_id: int, rows: list[Row], schema: pa.Schema = INT_KEY) -> None:
    own = replace(COMMIT_ID, batch_id=batch_id)
    place.step(own, lambda target: target.merge(change_of(rows, schema=schema), own), schema)


def folders_of(place: Place) -> set[str]:
    root = place.directory / place.name
    files = (path.relative_to(root) for path in root.rglob("*.parquet") if "_delta_log" not in path.parts)
    return {str(path.parent) for path in files}


@pytest.mark.parametrize(
    ("values", "folder"),
    [
        ({}, ""),
        ({"value": "a"}, "value=a"),
        ({"value": None, "b": "a b"}, "value=__HIVE_DEFAULT_PARTITION__/b=a b"),
        ({"a=b": "1/2"}, "a%3Db=1%2F2"),
        ({"at": "2026-01-01T05:06:07.000008Z"}, "at=2026-01-01T05%3A06%3A07.000008Z"),
        ({"value": "\0\x1f\x7f\"#%'*/:=?\\{[]^"}, "value=%00%1F%7F%22%23%25%27%2A%2F%3A%3D%3F%5C%7B%5B%5D%5E"),
        ({"value": "}|<>&+. é日"}, "value=}|<>&+. é日"),
        ({"v": "é" * 126}, "v=" + "é" * 126),
        ({"v": "é" * 127}, ""),
        (dict.fromkeys("abcd", "x" * 200), ""),
    ],
)
def test_folders_are_called_as_by_spark(values: dict[str, str | None], folder: str) -> None:
    """Of 255 bytes at most, which is what file systems hold."""
    assert partition_folder(values) == folder


@pytest.mark.parametrize("merge_kind", [Merge.REWRITE, Merge.MARK], ids=str)
def test_all_texts_are_read_back(tmp_path: Path, merge_kind: Merge) -> None:
    place = Place(tmp_path, TableFormat.DELTA, merge_kind=merge_kind)
    rows: list[Row] = list(enumerate(TEXTS))
    put(place, 1, rows)
    put(place, 2, [(0, "a/b"), (1, "x" * 300)])
    expected = sorted([(0, "a/b"), (1, "x" * 300), *rows[2:]])
    assert sorted(tuple(row.values()) for row in place.read().to_pylist()) == expected
    assert (
        sorted(tuple(row.values()) for row in pa.table(DeltaTable(place.uri).scan().read_all()).to_pylist()) == expected
    )
    paths = {row["path"] for row in pa.table(DeltaTable(place.uri).get_add_actions()).to_pylist()}
    assert all(path == quote(path, safe="/=%") for path in paths), "the log has URLs"


NIGHT = dt.datetime.fromisoformat("2026-01-01T00:00:00")
KINDS: dict[str, tuple[pa.DataType, list[object]]] = {
    "int": (pa.int32(), [1, -5]),
    "decimal": (pa.decimal128(9, 2), [Decimal("-0.01"), Decimal("12.50")]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(2026, 12, 31)]),
    "datetime": (pa.timestamp("us"), [NIGHT, NIGHT.replace(hour=5, microsecond=8)]),
    "timestamp": (pa.timestamp("us", "UTC"), [NIGHT.replace(hour=5, microsecond=8, tzinfo=dt.UTC)]),
    "bit": (pa.bool_(), [True, False]),
    "double": (pa.float64(), [1.5, -1e300]),
    "text": (pa.string(), ["01", "a b", "a/b", "é=%:'"]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_readers_that_take_values_from_folders_have_the_table_s(tmp_path: Path, kind: str) -> None:
    place = Place(tmp_path, TableFormat.DELTA)
    column, values = KINDS[kind]
    schema = pa.schema([("id", pa.int32()), ("value", column)])
    rows: list[Row] = list(enumerate([*values, None]))
    put(place, 1, rows, schema)
    texts = pa.schema([("value", pa.string())])
    partitioning = ds.HivePartitioning(texts, segment_encoding="uri")
    found = ds.dataset(place.uri, format="parquet", partitioning=partitioning, exclude_invalid_files=True)
    read = found.to_table(columns=["id", "value"]).sort_by("id").column("value").to_pylist()
    assert [None if text is None else pa.scalar(text).cast(column).as_py() for text in read] == [*values, None]
    stated = pa.table(DeltaTable(place.uri).scan().read_all()).cast(schema).sort_by("id")
    assert stated.column("value").to_pylist() == [*values, None]


def test_table_with_files_in_its_own_folder_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As former versions wrote them."""
    place = Place(tmp_path, TableFormat.DELTA)
    with monkeypatch.context() as patch:
        patch.setattr(data_files, "partition_folder", lambda _: "")
        put(place, 1, [(1, "a"), (2, "b"), (3, "b")])
    assert folders_of(place) == {"."}
    put(place, 2, [(2, "a"), (4, "c")])
    assert folders_of(place) == {".", "value=a", "value=b", "value=c"}
    assert place.sorted_rows() == [(1, "a"), (2, "a"), (3, "b"), (4, "c")]


def test_files_in_folders_are_joined_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path, TableFormat.DELTA)
    for batch_id in range(20):
        put(place, batch_id, [(batch_id, "a/b")])
    root = tmp_path / "shop" / "orders"
    assert len(list((root / "value=a%2Fb").glob("*.parquet"))) == 20
    with closing(place.target()) as target:
        target.maintain(place.sink)
    monkeypatch.setattr(maintenance, "ORPHAN_AGE_S", -1)
    with closing(place.target()) as target:
        removed = maintenance.vacuum(FolderStore(place.uri), target.log, retention_hours=0)  # type: ignore[attr-defined]
    assert len(removed) > 15
    assert all(name.startswith("value=a%2Fb/part-") for name in removed)
    assert place.sorted_rows() == sorted(((number, "a/b") for number in range(20)), key=repr)


def test_files_written_anew_for_a_renamed_partition_column_have_its_values(tmp_path: Path) -> None:
    place = Place(tmp_path, TableFormat.DELTA)
    put(place, 1, [(1, "a"), (2, None)])
    own = replace(COMMIT_ID, batch_id=2)
    place.step(own, lambda target: target.evolve(SchemaChange(renamed={"value": "word"}), own))
    assert folders_of(place) >= {"word=a", "word=__HIVE_DEFAULT_PARTITION__"}
    stated = pa.table(DeltaTable(place.uri).scan().read_all()).select(["id", "word"]).to_pylist()
    assert sorted(stated, key=lambda row: row["id"]) == [{"id": 1, "word": "a"}, {"id": 2, "word": None}]


def test_a_write_that_fails_leaves_no_file(tmp_path: Path) -> None:
    layout = data_files.FileLayout(partitions=("value",))
    files = data_files.DeltaDataFiles(FolderStore(str(tmp_path)), INT_KEY, layout, file_size=1 << 20)
    files.write(rows_of(INT_KEY, [(1, "a/b"), (2, "c")]))
    files.close()
    assert len(list(tmp_path.rglob("*.parquet"))) == 2
    files.abandon()
    assert list(tmp_path.rglob("*.parquet")) == []
