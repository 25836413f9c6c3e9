"""Which columns of a file get a dictionary."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from binlog_streaming.lake.commit_id import CommitId
from binlog_streaming.lake.evolution import SAMPLE_ROWS, dictionary_columns
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.settings import Mode, Sink, TableFormat

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 3 * SAMPLE_ROWS


def test_values_that_repeat_get_a_dictionary_and_keys_get_none() -> None:
    """Also where nulls are among them."""
    numbers = np.arange(ROWS)
    rows = pa.table(
        {
            "key": numbers,
            "text_key": pa.array(numbers).cast(pa.string()),
            "sparse_key": pa.array(numbers, mask=numbers % 3 > 0),
            "status": pa.array(numbers % 7),
            "sparse_status": pa.array(numbers % 7, mask=numbers % 3 > 0),
            "city": pa.array(numbers // 20).cast(pa.string()),
        }
    )
    expected = ["status", "sparse_status", "city"]
    assert dictionary_columns(rows) == expected
    assert dictionary_columns(rows.sort_by("status")) == expected
    assert dictionary_columns(rows.slice(0, SAMPLE_ROWS)) == expected


def test_columns_of_any_type_are_looked_at() -> None:
    """Of lists and structs, and of types that Arrow builds on others, there is no dictionary."""
    values: list[tuple[pa.DataType, object]] = [
        (pa.bool_(), True),
        (pa.uint64(), 2**64 - 1),
        (pa.float32(), 1.5),
        (pa.decimal128(38, 10), Decimal(1)),
        (pa.decimal256(65, 2), Decimal(1)),
        (pa.date32(), datetime.date(2024, 2, 29)),
        (pa.timestamp("us", "UTC"), datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC)),
        (pa.time64("us"), datetime.time(1)),
        (pa.duration("us"), datetime.timedelta(1)),
        (pa.large_string(), "a"),
        (pa.binary(), b"a"),
        (pa.binary(16), b"a" * 16),
        (pa.uuid(), b"a" * 16),
        (pa.list_(pa.float32()), [1.0]),
        (pa.struct([("srid", pa.int32())]), {"srid": 1}),
    ]
    table = pa.table({str(kind): pa.array([value, None, value], kind) for kind, value in values})
    plain = [str(kind) for kind, _ in values[-3:]]
    assert dictionary_columns(table) == [name for name in table.column_names if name not in plain]
    assert dictionary_columns(table.slice(0, 0)) == dictionary_columns(table)


@pytest.mark.parametrize("table_format", [TableFormat.DELTA, TableFormat.ICEBERG])
def test_files_are_written_so(tmp_path: Path, table_format: TableFormat) -> None:
    """The key's column has plain values from the first row on."""
    rows = pa.table({"id": np.arange(ROWS), "status": pa.array(np.arange(ROWS) % 7)})
    commit_id = CommitId("q-1", 0, 2, "shop.t", Mode.MIRROR, ("id",), "0:0:0", "0:0:1", None)
    target = sink_type(table_format).at(Sink(directory=str(tmp_path), format=table_format), f"{tmp_path}/shop/t")
    target.create(rows.schema, commit_id)
    target.append(rows.to_reader(), commit_id)
    assert pa.table(target.read()).sort_by("id").equals(rows)
    target.close()
    (file,) = (tmp_path / "shop").rglob("*.parquet")
    group = pq.read_metadata(file).row_group(0)
    assert [group.column(number).has_dictionary_page for number in range(2)] == [False, True]
