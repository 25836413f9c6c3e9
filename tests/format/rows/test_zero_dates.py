"""Dates that no calendar has, as text."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.decoding import Decoding, ZeroDates
from binlog_format.rows.values.temporal import logged_date
from tests.format.rows.columns import make_column, read
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
        (ColumnType.DATETIME, bytes(8), "0000-00-00 00:00:00"),
        (ColumnType.DATETIME, (20240031235958).to_bytes(8, "little"), "2024-00-31 23:59:58"),
        (ColumnType.TIMESTAMP, bytes(4), "0000-00-00 00:00:00"),
    ],
)
def test_logged_dates(kind: ColumnType, stored: bytes, text: str | None) -> None:
    metadata = b"\0" if kind in (DATETIME, TIMESTAMP) else b""
    data = np.frombuffer(b"before" + stored + b"after", dtype=np.uint8)
    assert logged_date(make_column(kind, metadata), data, len(b"before")) == text


@pytest.mark.parametrize("digits", range(7))
def test_texts_are_those_of_the_server(digits: int) -> None:
    texts = Decoding(zero_dates=ZeroDates.TEXT)
    moment = dt.datetime(2024, 12, 31, 23, 58, 59, 123456 // 10 ** (6 - digits) * 10 ** (6 - digits), tzinfo=dt.UTC)
    fraction, zeros = (f".{'123456'[:digits]}", f".{'0' * digits}") if digits else ("", "")
    size = (digits + 1) // 2
    # A day that no calendar has differs from the 28th of February in the bits of its day.
    day = datetime_bytes(dt.datetime(2023, 2, 28, 10, 11, 12, tzinfo=dt.UTC), 0)
    no_day = (int.from_bytes(day, "big") + (3 << 17)).to_bytes(5, "big")
    column = make_column(DATETIME, bytes([digits]))
    stored = [datetime_bytes(moment, digits), None, b"\x80\0\0\0\0" + bytes(size), no_day + bytes(size)]
    assert read(column, [*stored, stored[2]], texts) == [
        f"2024-12-31 23:58:59{fraction}",
        None,
        f"0000-00-00 00:00:00{zeros}",
        f"2023-02-31 10:11:12{zeros}",
        f"0000-00-00 00:00:00{zeros}",
    ]
    column = make_column(TIMESTAMP, bytes([digits]))
    assert read(column, [timestamp_bytes(86_400, 0, digits), timestamp_bytes(0, 0, digits)], texts) == [
        f"1970-01-02 00:00:00{zeros}",
        f"0000-00-00 00:00:00{zeros}",
    ]


def test_dates_are_texts() -> None:
    stored = [date_bytes(2024, 2, 29), None, date_bytes(0, 0, 0), date_bytes(1, 1, 1), date_bytes(9999, 12, 31)]
    assert read(make_column(DATE), stored, Decoding(zero_dates=ZeroDates.TEXT)) == [
        "2024-02-29",
        None,
        "0000-00-00",
        "0001-01-01",
        "9999-12-31",
    ]
    assert read(make_column(DATE), [], Decoding(zero_dates=ZeroDates.TEXT)) == []
