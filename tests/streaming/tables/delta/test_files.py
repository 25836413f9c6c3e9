from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from binlog_streaming.lake.delta.data_files import DeltaDataFiles
from binlog_streaming.lake.delta.file_reader import DeltaFileReader
from binlog_streaming.lake.folder_store import FolderStore
from tests.streaming.tables.lake.sink_cases import INT_KEY, all_types, numbers, rows_of

if TYPE_CHECKING:
    from pathlib import Path

BOUNDS: dict[str, tuple[pa.DataType, list[object], object, object]] = {
    "bigint": (pa.int64(), [2**63 - 1, None, -(2**63)], -(2**63), 2**63 - 1),
    "decimal": (pa.decimal128(5, 2), [Decimal("-999.99"), Decimal("0.10")], -999.99, 0.1),
    "decimal that a float cannot hold": (pa.decimal128(16, 0), [Decimal(2**53 + 1)], None, None),
    "wide decimal": (pa.decimal128(20, 0), [Decimal(2**64 - 1)], None, None),
    "double": (pa.float64(), [5e-324, -1e300], -1e300, 5e-324),
    "infinite": (pa.float64(), [1.5, float("inf")], 1.5, None),
    "date": (pa.date32(), [dt.date(9999, 12, 31), dt.date(1, 1, 1)], "0001-01-01", "9999-12-31"),
    "datetime": (
        pa.timestamp("us"),
        [-1, 1_577_836_800_000_001],
        "1969-12-31T23:59:59.999",
        "2020-01-01T00:00:00.001",
    ),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [1000, 2_147_483_647_999_000],
        "1970-01-01T00:00:00.001Z",
        "2038-01-19T03:14:07.999Z",
    ),
    "last moment": (pa.timestamp("us"), [253_402_300_799_999_999], "9999-12-31T23:59:59.999", None),
    "text": (pa.string(), ["b", "a", "\U0010ffff"], "a", "\U0010ffff"),
    "long text": (pa.string(), ["é" * 33], "é" * 32, None),
    "blob": (pa.binary(), [b"a"], None, None),
    "bit": (pa.bool_(), [True, False], None, None),
    "nothing": (pa.int32(), [None, None], None, None),
}
"""Values, and the least and the greatest one that statistics give."""


@pytest.mark.parametrize("name", BOUNDS)
def test_statistics_hold_all_values(tmp_path: Path, name: str) -> None:
    """Of milliseconds the ones around; what is cut, inexact or unknown to some readers is left out."""
    kind, column, least, greatest = BOUNDS[name]
    statistics = statistics_of(tmp_path, pa.table({"column": pa.array(column, kind)}))
    assert statistics["minValues"].get("column") == least
    assert statistics["maxValues"].get("column") == greatest
    assert statistics["nullCount"]["column"] == column.count(None)


def test_columns_behind_nested_ones_have_their_own_statistics(tmp_path: Path) -> None:
    """Names with dots too; a file has a column for every leaf."""
    nested = pa.struct([("b", pa.int32()), ("c", pa.list_(pa.struct([("d", pa.int32()), ("e", pa.int32())])))])
    schema = pa.schema([("a", nested), ("a.b", pa.int32()), ("l", pa.list_(pa.float32())), ("z", pa.int32())])
    rows = rows_of(schema, [({"b": 1, "c": [{"d": 2, "e": 3}]}, 40, [5.0], 60)])
    statistics = statistics_of(tmp_path, rows)
    assert statistics["minValues"] == statistics["maxValues"] == {"a.b": 40, "z": 60}
    assert statistics["nullCount"] == {"a.b": 0, "z": 0}


def statistics_of(folder: Path, rows: pa.Table) -> dict[str, dict[str, object]]:
    files = DeltaDataFiles(FolderStore(str(folder)), rows.schema, file_size=1 << 20)
    files.write(rows)
    (add,) = files.close()
    statistics: dict[str, dict[str, object]] = json.loads(add.stats or "")
    return statistics


def test_rows_go_into_files_of_about_a_size(tmp_path: Path) -> None:
    """In the order in which they came; row groups are what is in memory at once."""
    rng = np.random.default_rng(1)
    files = DeltaDataFiles(FolderStore(str(tmp_path)), INT_KEY, file_size=100_000)
    texts = [rng.bytes(50).hex() for _ in range(10_000)]
    rows = pa.table({"id": pa.array(range(10_000), pa.int32()), "value": texts}, INT_KEY)
    for start in range(0, 10_000, 4000):
        files.write(rows.slice(start, 4000))
    added = files.close()
    assert 4 < len(added) < 12
    assert all(add.size < 200_000 for add in added)
    assert pa.concat_tables(pq.read_table(tmp_path / add.path) for add in added).equals(rows)
    counts = [json.loads(add.stats or "")["numRecords"] for add in added]
    reader = DeltaFileReader(FolderStore(str(tmp_path)))
    unsaid = (msgspec.structs.replace(add, stats=None) for add in added)
    assert [reader.row_count(add) for add in unsaid] == counts


def test_nothing_is_left_of_files_that_are_abandoned(tmp_path: Path) -> None:
    files = DeltaDataFiles(FolderStore(str(tmp_path)), INT_KEY, file_size=1000)
    files.write(numbers(*range(1000)))
    assert list(tmp_path.iterdir())
    files.abandon()
    assert not list(tmp_path.iterdir())


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    files = DeltaDataFiles(FolderStore(str(tmp_path)), INT_KEY, file_size=1000)
    files.write(numbers())
    assert files.close() == []
    assert not list(tmp_path.iterdir())


def test_rows_are_read_by_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file that lacks a column, and has another narrower; only row groups that hold one are read."""
    monkeypatch.setattr("binlog_streaming.lake.file_reader.BATCH_ROWS", 7)
    monkeypatch.setattr("binlog_streaming.lake.file_reader.KEY_ROWS", 30)
    monkeypatch.setattr("binlog_streaming.lake.files_target.ROW_GROUP_BYTES", 200)
    files = DeltaDataFiles(FolderStore(str(tmp_path)), INT_KEY, file_size=1 << 20)
    files.write(numbers(*range(100)))
    (add,) = files.close()
    assert pq.read_metadata(tmp_path / add.path).num_row_groups > 3
    schema, reader = pa.schema([("note", pa.string()), ("id", pa.int64())]), DeltaFileReader(FolderStore(str(tmp_path)))
    wanted = np.array([0, 6, 7, 8, 55, 99])
    found = [
        (wanted[place], row)
        for places, batch in reader.rows_at(add, wanted, schema)
        for place, row in zip(places, batch.to_pylist(), strict=True)
    ]
    assert found == [(number, {"note": None, "id": number}) for number in wanted]
    starts = [(first, batch.column("id")[0].as_py()) for first, batch in reader.key_batches(add, schema)]
    assert starts == [(first, first) for first in range(0, 100, 30)]
    without = pa.Table.from_batches([batch for _, batch in reader.key_batches(add, schema.remove(1))])
    assert without.equals(pa.table({"note": pa.nulls(100, pa.string())}))


def test_every_type_comes_back(tmp_path: Path) -> None:
    rows = all_types()
    files = DeltaDataFiles(FolderStore(str(tmp_path)), rows.schema, file_size=1 << 20)
    files.write(rows)
    (add,) = files.close()
    ((_, batch),) = DeltaFileReader(FolderStore(str(tmp_path))).rows_at(add, np.arange(rows.num_rows), rows.schema)
    assert pa.Table.from_batches([batch]).equals(rows.combine_chunks())


def test_views_of_other_writers_are_read_wherever_they_are(tmp_path: Path) -> None:
    """deltalake's UPDATE writes geometry as a struct with a view in it, and says so in the file."""
    shape, labels = pa.struct([("srid", pa.int32()), ("wkb", pa.binary())]), pa.map_(pa.string(), pa.binary())
    schema = pa.schema([("t", pa.string()), ("g", shape), ("l", pa.list_(pa.string())), ("m", labels)])
    rows = rows_of(
        schema, [(f"t{n}", {"srid": n, "wkb": bytes([n])}, [f"l{n}"], [("k", bytes([n]))]) for n in range(4)]
    )
    files = DeltaDataFiles(FolderStore(str(tmp_path)), schema, file_size=1 << 20)
    files.write(rows)
    (add,) = files.close()
    kinds = {
        "t": pa.string_view(),
        "g": pa.struct([("srid", pa.int32()), ("wkb", pa.binary_view())]),
        "l": pa.list_(pa.string_view()),
        "m": pa.map_(pa.string_view(), pa.binary_view()),
    }
    pq.write_table(rows.cast(pa.schema(list(kinds.items()))), tmp_path / add.path)
    assert all("_view" in str(kind) for kind in pq.read_schema(tmp_path / add.path).types)
    reader = DeltaFileReader(FolderStore(str(tmp_path)))
    ((_, some),) = reader.rows_at(add, np.array([1, 3]), schema)
    assert some.to_pylist() == [rows.to_pylist()[number] for number in (1, 3)]
    assert some.schema == schema
    ((_, keys),) = reader.key_batches(add, schema)
    assert keys.to_pylist() == rows.to_pylist()
