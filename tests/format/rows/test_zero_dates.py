"""Dates that no calendar has, as text."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.zero_dates import logged_date
from tests.format.rows.columns import make_column
from tests.format.rows.plain_rows import date_bytes, datetime_bytes, timestamp_bytes

DATE, DATETIME, TIMESTAMP = ColumnType.DATE, ColumnType.DATETIME2, ColumnType.TIMESTAMP2


@pytest.mark.parametrize(
    ("kind", "stored", "text"),
    [
        (DATE, date_bytes(0, 0, 0), "0000-00-00"),
        (DATE, date_bytes(2024, 0, 0), "2024-00-00"),
        (DATE, date_bytes(2023, 2, 31), "2023-02-31"),
        (DATETIME, b"\x80\0\0\0\0", "0000-00-00 00:00:00"),
        (DATETIME, datetime_bytes(dt.datetime(2024, 12, 31, 23, 58, 59, tzinfo=dt.UTC), 0), "2024-12-31 23:58:59"),
        (TIMESTAMP, timestamp_bytes(0, 0, 0), "0000-00-00 00:00:00"),
        (TIMESTAMP, timestamp_bytes(1, 0, 0), None),
        (ColumnType.LONG, bytes(4), None),
        (ColumnType.DATETIME, bytes(8), None),
    ],
)
def test_logged_dates(kind: ColumnType, stored: bytes, text: str | None) -> None:
    metadata = b"\0" if kind in (DATETIME, TIMESTAMP) else b""
    data = np.frombuffer(b"before" + stored + b"after", dtype=np.uint8)
    assert logged_date(make_column(kind, metadata), data, len(b"before")) == text
