"""Peers' mistake number 1: events that a server has compressed are lost. A compressed log gives the whole table."""

from __future__ import annotations

import csv
import gzip
import struct
import zlib
from typing import TYPE_CHECKING

import pytest

from binlog_format import open_log
from binlog_format.events.layout import EventType
from binlog_format.views.table_index import TableIndex
from binlog_format.views.tables import TablesView
from binlog_lab.event_encoding.event_encoding import Origin, compress_event, encode_payload
from tests.corpus import SERVER_CASES, corpus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa

MAGIC = b"\xfebin"
_COMPRESSED_BY_MARIADB = (
    EventType.QUERY,
    EventType.WRITE_ROWS_V1,
    EventType.UPDATE_ROWS_V1,
    EventType.DELETE_ROWS_V1,
)


def _events(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    start = len(MAGIC)
    while start < len(data):
        size = int.from_bytes(data[start + 9 : start + 13], "little")
        yield data[start : start + size]
        start += size


def _without_checksum(event: bytes) -> bytes:
    return event[:9] + (len(event) - 4).to_bytes(4, "little") + event[13:-4]


def _with_checksum(event: bytes) -> bytes:
    event = event[:9] + (len(event) + 4).to_bytes(4, "little") + event[13:]
    return event + struct.pack("<I", zlib.crc32(event))


def _as_mariadb(events: Iterator[bytes]) -> Iterator[bytes]:
    for event in events:
        yield compress_event(event) if event[4] in _COMPRESSED_BY_MARIADB else event


def _as_mysql(events: Iterator[bytes]) -> Iterator[bytes]:
    inner: list[bytes] = []
    for event in events:
        if not inner and not (event[4] == EventType.QUERY and event.endswith(b"BEGIN")):
            yield event
            continue
        inner.append(event)
        if event[4] == EventType.XID:
            yield encode_payload(inner, Origin(int.from_bytes(event[:4], "little"), 1))
            inner = []


def _rewritten(case: Path, target: Path, store: Callable[[Iterator[bytes]], Iterator[bytes]]) -> Path:
    """*case* as the server would have written it with compression."""
    head, *rest = _events(case / "mysql-bin.000001")
    stored = store(_without_checksum(event) for event in rest)
    content = MAGIC + head + b"".join(_with_checksum(event) for event in stored)
    (target / "mysql-bin.000001").write_bytes(content)
    (target / "mysql-bin.index").write_text("mysql-bin.000001\n")
    return target


def _final(batches: Iterator[pa.RecordBatch]) -> list[tuple[object, ...]]:
    # What is left when the changes are played through.
    table: dict[object, tuple[object, ...]] = {}
    for batch in batches:
        for change in batch.to_pylist():
            if change["before"] is not None:
                before = tuple(change["before"].values())
                assert table.pop(before[0]) == before
            if change["after"] is not None:
                after = tuple(change["after"].values())
                assert after[0] not in table
                table[after[0]] = after
    return sorted(table.values(), key=lambda row: int(str(row[0])))


def _expected(case: Path, name: str) -> list[tuple[object, ...]]:
    with gzip.open(case / f"{name}.csv.gz", "rt") as file:
        _, *rows = csv.reader(file)
    return [(int(row[0]), int(row[1]), row[2], row[3]) for row in rows]


def _check(log_path: Path, case: Path, types: set[int]) -> None:
    tables = [path.name.removesuffix(".csv.gz") for path in sorted(case.glob("*.csv.gz"))]
    assert len(tables) == 4
    with open_log(str(log_path)) as log:
        assert types <= {int(kind) for block in log.blocks() for kind in block.events["type"]}
        indexes = {}
        for batch in TablesView().batches(log.committed_blocks()):
            indexes = {row["table"]: TableIndex.from_bytes(row["index"]) for row in batch.to_pylist()}
        for name in tables:
            expected = _expected(case, name)
            database = indexes[name].layout.database
            assert _final(log.changes(table=f"{database}.{name}")) == expected
            assert sum(len(piece.events) for piece in indexes[name].pieces(log)) > 100


def test_events_compressed_by_mariadb_are_not_lost(tmp_path: Path) -> None:
    case = SERVER_CASES / "mariadb-10.11" / "oltp_small"
    _check(_rewritten(case, tmp_path, _as_mariadb), case, {165, 166, 167, 168})


def test_transactions_compressed_by_mysql_are_not_lost(tmp_path: Path) -> None:
    case = corpus("servers") / "mysql-9" / "oltp_small"
    _check(_rewritten(case, tmp_path, _as_mysql), case, {40})


@pytest.mark.parametrize(
    ("server", "name", "types"),
    [("mariadb-11.8", "oltp_compressed_small", {165, 166, 167, 168}), ("mysql-9", "oltp_zstd_small", {40})],
)
def test_tables_of_a_server_come_out_of_its_compressed_log(server: str, name: str, types: set[int]) -> None:
    case = corpus("servers") / server / name
    if not case.exists():
        pytest.skip(f"{server}/{name} is not in this corpus")
    _check(case, case, types)
