"""Values as row images have them: what is encoded is decoded to itself."""

from __future__ import annotations

import datetime
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.events.table_map import Column, TableLayout
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.columns import arrow_type, column_array
from binlog_format.rows.declared.completion import ColumnCompletion, column_of
from binlog_format.rows.encoded_values import encoded
from binlog_format.vendor import Vendor

DATES = st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31))
SECONDS = st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)).map(  # noqa: DTZ001
    lambda moment: moment.replace(microsecond=0)
)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    end = 10**precision - 1
    return st.integers(-end, end).map(lambda number: Decimal(number).scaleb(-scale, Context(prec=80)))


VALUES: dict[str, tuple[ColumnCompletion, st.SearchStrategy[Any]]] = {
    "tinyint": (ColumnCompletion("c", "tinyint", False), st.integers(-128, 127)),
    "smallint unsigned": (ColumnCompletion("c", "smallint", True), st.integers(0, 65535)),
    "mediumint": (ColumnCompletion("c", "mediumint", False), st.integers(-(1 << 23), (1 << 23) - 1)),
    "int": (ColumnCompletion("c", "int", False), st.integers(-(1 << 31), (1 << 31) - 1)),
    "bigint unsigned": (ColumnCompletion("c", "bigint", True), st.integers(0, (1 << 64) - 1)),
    "float": (ColumnCompletion("c", "float", False), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    "double": (ColumnCompletion("c", "double", False), st.floats(allow_nan=False, allow_infinity=False)),
    "decimal(10,2)": (ColumnCompletion("c", "decimal(10,2)", False), decimals(10, 2)),
    "decimal(38,19)": (ColumnCompletion("c", "decimal(38,19)", False), decimals(38, 19)),
    "decimal(9,9)": (ColumnCompletion("c", "decimal(9,9)", False), decimals(9, 9)),
    "decimal(18,0)": (ColumnCompletion("c", "decimal(18,0)", False), decimals(18, 0)),
    "varchar(20)": (ColumnCompletion("c", "varchar(20)", charset="utf8mb4"), st.text(max_size=20)),
    "varchar(300)": (ColumnCompletion("c", "varchar(300)", charset="utf8mb4"), st.text(max_size=300)),
    "char(10)": (ColumnCompletion("c", "char(10)", charset="ascii"), st.from_regex(r"[a-z]{0,10}", fullmatch=True)),
    "text": (ColumnCompletion("c", "text", charset="utf8mb4"), st.text(max_size=50)),
    "varbinary(16)": (ColumnCompletion("c", "varbinary(16)", charset="binary"), st.binary(max_size=16)),
    "date": (ColumnCompletion("c", "date"), DATES),
    "datetime": (ColumnCompletion("c", "datetime"), SECONDS),
    "datetime(3)": (
        ColumnCompletion("c", "datetime(3)"),
        st.tuples(SECONDS, st.integers(0, 999)).map(lambda pair: pair[0].replace(microsecond=pair[1] * 1000)),
    ),
    "datetime(6)": (
        ColumnCompletion("c", "datetime(6)"),
        st.tuples(SECONDS, st.integers(0, 999_999)).map(lambda pair: pair[0].replace(microsecond=pair[1])),
    ),
}


@pytest.mark.parametrize("declared", VALUES)
@given(data=st.data())
def test_values_are_what_they_were(declared: str, data: st.DataObject) -> None:
    completion, values = VALUES[declared]
    column = column_of(completion, Vendor.MARIADB)
    layout = TableLayout("shop", "t", (column,), (), "", b"", Vendor.MARIADB)
    array = pa.array(data.draw(st.lists(st.none() | values, max_size=20)), arrow_type(layout, 0))
    written = encoded(column, array)
    assert written is not None
    places, content = written
    assert column_array(layout, 0, content, np.ascontiguousarray(places, dtype=np.int32)).equals(array)


def test_other_types_are_not_encoded() -> None:
    column = Column("c", ColumnType.TIME2, 0, True)
    assert encoded(column, pa.array(["10:00:00"])) is None
    # More digits than Arrow has room for are a text.
    wide = column_of(ColumnCompletion("c", "decimal(45,2)", False), Vendor.MARIADB)
    assert encoded(wide, pa.array(["1.00"])) is None
