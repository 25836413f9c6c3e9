"""Table maps and rows that are made must be, byte for byte, those of a real server."""

from __future__ import annotations

import datetime
import json
import struct
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from binlog_format.events.layout import EventType
from binlog_lab.event_encoding.event_encoding import Origin
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableEncoder, TableSpec
from binlog_lab.event_encoding.value_encoding import CHARSETS, codec_of
from tests.corpus import SERVER_CASES, corpus
from tests.format.events.classic_events import ClassicEvent, classic_events

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlog_lab.event_encoding.value_encoding import Value

OLTP_LOG = SERVER_CASES / "mariadb-10.11" / "oltp_small" / "mysql-bin.000001"
DOUBLE = struct.Struct("<d")
ROWS_EVENTS = (EventType.WRITE_ROWS_V1, EventType.UPDATE_ROWS_V1, EventType.DELETE_ROWS_V1)


def sysbench_table(name: str) -> TableSpec:
    columns = (
        ColumnSpec("id", "int"),
        ColumnSpec("k", "int"),
        ColumnSpec("c", "char(120)", charset="latin1"),
        ColumnSpec("pad", "char(60)", charset="latin1"),
    )
    return TableSpec("sb", name, columns, ("id",))


def sysbench_row(image: bytes) -> tuple[tuple[Value, ...], int]:
    """A row image of such a table, and its size."""
    row_id, k, size = struct.unpack_from("<iiB", image, 1)
    pad_size = image[10 + size]
    c, pad = image[10 : 10 + size], image[11 + size : 11 + size + pad_size]
    return (row_id, k, c.decode(), pad.decode()), 11 + size + pad_size


def sysbench_rows(event: ClassicEvent) -> list[tuple[Value, ...]]:
    prefix = 11 if event.type == EventType.UPDATE_ROWS_V1 else 10
    images, rows = event.body[prefix:], []
    while images:
        row, size = sysbench_row(images)
        rows.append(row)
        images = images[size:]
    return rows


def statements(path: Path) -> Iterator[tuple[str, ClassicEvent, list[ClassicEvent]]]:
    """Each table map with the GTID before it and the row events that follow it."""
    gtid, table_map, rows = "", None, []
    for event in classic_events(path):
        if event.type in ROWS_EVENTS:
            rows.append(event)
            continue
        if table_map is not None and rows:
            yield gtid, table_map, rows
        table_map, rows = (event if event.type == EventType.TABLE_MAP else None), []
        if event.type == EventType.MARIADB_GTID:
            seqno, domain = struct.unpack_from("<QI", event.body)
            gtid = f"{domain}-{event.server_id}-{seqno}"


def table_name(table_map: ClassicEvent) -> tuple[str, str]:
    size = table_map.body[8]
    database, rest = table_map.body[9 : 9 + size], table_map.body[10 + size :]
    return database.decode(), rest[1 : 1 + rest[0]].decode()


def encoded(encoder: TableEncoder, kind: int, rows: list[tuple[Value, ...]], origin: Origin) -> list[bytes]:
    if kind == EventType.WRITE_ROWS_V1:
        return list(encoder.insert(rows, origin))
    if kind == EventType.DELETE_ROWS_V1:
        return list(encoder.delete(rows, origin))
    return list(encoder.update(list(zip(rows[::2], rows[1::2], strict=True)), origin))


def test_every_statement_of_a_real_log_is_encoded_byte_for_byte() -> None:
    """Table maps with all their metadata, row images, and where multi-row statements are cut into events."""
    kinds = set()
    longest = 0
    for _, table_map, events in statements(OLTP_LOG):
        origin = Origin(table_map.timestamp, table_map.server_id)
        encoder = TableEncoder(sysbench_table(table_name(table_map)[1]), int.from_bytes(table_map.body[:6], "little"))
        assert encoder.table_map(origin) == table_map.data
        rows = [row for event in events for row in sysbench_rows(event)]
        assert encoded(encoder, events[0].type, rows, origin) == [event.data for event in events]
        kinds.add(events[0].type)
        longest = max(longest, len(events))
    assert kinds == set(ROWS_EVENTS)
    assert longest > 1


def test_only_the_last_event_of_a_statement_ends_it() -> None:
    encoder = TableEncoder(sysbench_table("t"), 1)
    events = list(encoder.insert([(i, i, "c" * 120, "p" * 60) for i in range(1000)], Origin(0, 1)))
    assert len(events) > 20
    assert [event[25] for event in events] == [0] * (len(events) - 1) + [1]
    assert max(len(event) for event in events) <= 8192 + 19


def test_row_larger_than_an_event_stands_alone() -> None:
    encoder = TableEncoder(TableSpec("d", "t", (ColumnSpec("b", "longblob"),)), 1)
    events = list(encoder.insert([(b"x",), (b"y" * 20_000,), (b"z",)], Origin(0, 1)))
    assert [len(event) > 8192 for event in events] == [False, True, False]


@pytest.mark.parametrize("sql_type", ["", "point", "decimal(10", "set('a')"])
def test_unknown_type_is_refused(sql_type: str) -> None:
    with pytest.raises(ValueError, match="column type"):
        codec_of(sql_type)


def test_decimal_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        codec_of("decimal(5,2)").pack(Decimal("1000.00"))


# --- all types that are written, against the log of a real server ------------------------------------------------


def value_of(text: object, sql_type: str, python_charset: str) -> Value:
    """A value as the corpus describes it: text, or a dictionary with the exact bytes."""
    if isinstance(text, dict):
        if "f64le" in text:
            (number,) = DOUBLE.unpack(bytes.fromhex(text["f64le"]))
            return float(number)
        data = bytes.fromhex(text["hex"])
        return data.decode(python_charset) if "idx" in text else data
    if text is None:
        return None
    assert isinstance(text, str)
    if sql_type.endswith("int"):
        return int(text)
    if sql_type == "date":
        return datetime.date.fromisoformat(text)
    if sql_type in ("datetime", "timestamp"):
        return datetime.datetime.fromisoformat(text)
    if sql_type == "time":
        hours, minutes, seconds = text.lstrip("-").split(":")
        span = datetime.timedelta(hours=int(hours), minutes=int(minutes), microseconds=int(Decimal(seconds).scaleb(6)))
        return -span if text.startswith("-") else span
    if sql_type == "decimal":
        return Decimal(text)
    return float(text) if sql_type in ("float", "double") else text


# Columns of types that are not written, zero dates, values of which the corpus has a hash only.
NOT_WRITTEN = (ValueError, KeyError)


def test_types_of_a_real_log_are_encoded_byte_for_byte() -> None:
    """Every INSERT and DELETE of the types_full case whose types and values are written here."""
    case = corpus("servers") / "mariadb-10.11" / "types_full"
    expected = json.loads((case / "expected.json").read_text())
    schemas = {schema["table"]: schema["columns"] for schema in expected["schemas"]}
    changes: dict[tuple[str, str], list[dict[str, object]]] = {}
    for change in expected["changes"]:
        changes.setdefault((change["gtid"], change["table"]), []).append(change)
    compared: dict[str, int] = {}
    for gtid, table_map, events in statements(case / "mysql-bin.000001"):
        name = ".".join(table_name(table_map))
        known = changes.get((gtid, name), [])
        if {change["op"] for change in known} not in ({"insert"}, {"delete"}):
            continue
        try:
            encoder, rows = described(table_map, schemas[name], known)
            made = encoded(encoder, events[0].type, rows, Origin(table_map.timestamp, table_map.server_id))
        except NOT_WRITTEN:
            continue
        assert made == [event.data for event in events], name
        compared[name] = compared.get(name, 0) + len(rows)
    assert {"t.t_int", "t.t_float", "t.t_decimal", "t.t_time", "t.t_datetime", "t.t_timestamp"} <= set(compared)


def described(
    table_map: ClassicEvent, columns: list[dict[str, str]], changes: list[dict[str, object]]
) -> tuple[TableEncoder, list[tuple[Value, ...]]]:
    specs = tuple(
        ColumnSpec(column["name"], column["column_type"], column["nullable"] == "YES", column["charset"] or "binary")
        for column in columns
    )
    key = tuple(column["name"] for column in columns if column["key"] == "PRI")
    database, table = table_name(table_map)
    encoder = TableEncoder(TableSpec(database, table, specs, key), int.from_bytes(table_map.body[:6], "little"))
    rows = []
    for change in changes:
        row = change["after"] or change["before"]
        assert isinstance(row, list)
        rows.append(
            tuple(
                value_of(text, column["type"], CHARSETS[spec.charset].python)
                for text, column, spec in zip(row, columns, specs, strict=True)
            )
        )
    return encoder, rows
