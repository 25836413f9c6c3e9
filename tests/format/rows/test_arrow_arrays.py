"""Arrow arrays over NumPy arrays, and what making them must not load."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from binlog_format.rows.arrow_arrays import mask_array, numbers_array, repeated_text, strings_array, struct_array
from tests.corpus import SERVER_CASES

CLASSIC_CASE = SERVER_CASES / "mariadb-10.11" / "oltp_small"


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.uint32])
@pytest.mark.parametrize("size", [0, 1, 1000])
def test_numbers_array_is_what_arrow_makes(dtype: type[np.generic], size: int) -> None:
    values = np.arange(size).astype(dtype)
    assert numbers_array(values).equals(pa.array(values))


def test_numbers_array_takes_a_column_of_a_table() -> None:
    table = np.zeros(5, dtype=[("a", np.int64), ("b", np.int32)])
    table["b"] = [1, -2, 3, -4, 5]
    assert numbers_array(table["b"]).to_pylist() == [1, -2, 3, -4, 5]
    assert numbers_array(table["b"][::2].astype(np.int64), pa.timestamp("us", "UTC")).type == pa.timestamp("us", "UTC")


@pytest.mark.parametrize("size", [0, 1, 8, 13])
def test_mask_array_is_what_arrow_makes(size: int) -> None:
    mask = np.arange(size) % 3 == 0
    assert mask_array(mask).equals(pa.array(mask))


def test_strings_arrays_are_what_arrow_makes() -> None:
    texts = ["insert", "", "Straße", "数据"]
    assert strings_array(texts).equals(pa.array(texts))
    assert strings_array([]).equals(pa.array([], pa.string()))
    assert repeated_text("ü", 3).equals(pa.array(["ü"] * 3))
    assert repeated_text("ü", 0).equals(pa.array([], pa.string()))


@pytest.mark.parametrize("valid", [None, [True] * 3, [False, True, False], [False] * 3])
def test_struct_array_is_what_arrow_makes(valid: list[bool] | None) -> None:
    kind = pa.struct([pa.field("a", pa.int32(), nullable=False), ("b", pa.string())])
    columns = [pa.array([1, 2, 3], pa.int32()), pa.array(["x", None, "z"])]
    mask = None if valid is None else np.array(valid)
    made = struct_array(kind, columns, mask)
    made.validate(full=True)
    assert made.equals(
        pa.StructArray.from_arrays(columns, fields=list(kind), mask=None if mask is None else pa.array(~mask))
    )


@pytest.mark.parametrize("options", ["", "table='sb.sbtest1'"])
def test_changes_are_read_without_pandas(options: str) -> None:
    """Importing it takes longer than everything else that the first batch of a process takes."""
    program = (
        "import sys, binlog_format\n"
        f"batches = list(binlog_format.open_log({str(CLASSIC_CASE)!r}).changes({options}))\n"
        "assert batches and 'pandas' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
