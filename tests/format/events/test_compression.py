"""Events that MariaDB compresses one by one, and what becomes of damaged ones.

Peers' mistake number 1: events that a server has compressed are lost. A compressed log gives the whole table.
Compressed logs of real servers hold the same events as plain logs of the same statements.
"""

from __future__ import annotations

import csv
import gzip
import struct
import tracemalloc
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format import open_log
from binlog_format.block import EVENT_DTYPE
from binlog_format.errors import CorruptError
from binlog_format.events.compression.compressed_streams import expand_streams, find_streams
from binlog_format.events.compression.compression_layout import COMPRESSED_MARK, PLAIN_TYPES
from binlog_format.events.layout import EVENT_SIZE_MAX, EVENT_SIZE_OFFSET, EventType
from binlog_format.events.query import parse_query
from binlog_format.events.table_map import parse_table_map
from binlog_format.kernels import as_bytes, empty_bytes
from binlog_format.position import Place
from binlog_format.transactions.expansion import expanded
from binlog_format.views.table_index import TableIndex
from binlog_format.views.tables import TablesView
from binlog_lab.event_encoding.event_encoding import (
    Origin,
    QueryContext,
    compress_event,
    encode_event,
    encode_payload,
    encode_query,
    plain_head_size,
)
from tests.corpus import SERVER_CASES, corpus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa


ORIGIN = Origin(1_700_000_000, 3)


def _packed(number: int) -> bytes:
    return bytes([number]) if number <= 250 else b"\xfc" + number.to_bytes(2, "little")


@st.composite
def row_events(draw: st.DrawFn) -> bytes:
    """Row events of all kinds: only what precedes the rows is looked at."""
    kind = EventType(draw(st.sampled_from([23, 24, 25, 30, 31, 32])))
    columns = draw(st.sampled_from([1, 8, 9, 250, 251, 300, 4096]))
    bitmap = b"\xff" * ((columns + 7) // 8)
    extra = b""
    if kind >= EventType.WRITE_ROWS_V2:
        info = draw(st.binary(max_size=20))
        extra = (len(info) + 2).to_bytes(2, "little") + info
    is_update = kind in (EventType.UPDATE_ROWS_V1, EventType.UPDATE_ROWS_V2)
    head = bytes(8) + extra + _packed(columns) + bitmap * (2 if is_update else 1)
    return encode_event(kind, head + draw(st.binary(min_size=1, max_size=3000)), ORIGIN, flags=draw(st.integers(0, 1)))


@st.composite
def queries(draw: st.DrawFn) -> bytes:
    """Statements."""
    context = QueryContext(database=draw(st.sampled_from(["", "shop", "x" * 64])))
    return encode_query(draw(st.text(min_size=1, max_size=2000)), ORIGIN, context)


plain_events = st.one_of(row_events(), queries())


def place_of(byte: int) -> Place:
    return Place("/log/bin.000007", byte=1000 + byte)


def expand(stored: bytes, size: int | None = None) -> bytes:
    """The plain form of one event."""
    table = np.zeros(1, dtype=EVENT_DTYPE)
    table["size"], table["type"] = len(stored) if size is None else size, stored[4]
    data = as_bytes(stored)
    found = find_streams(data, table, place=place_of)
    target = empty_bytes(int(found.plain_sizes[0]))
    expand_streams(data, found, target, np.zeros(1, dtype=np.int64), place=place_of)
    return target.tobytes()


def _outcome(stored: bytes) -> bytes | CorruptError:
    try:
        return expand(stored)
    except CorruptError as error:
        return error


@given(plain_events)
def test_compressed_event_expands_to_the_plain_one(event: bytes) -> None:
    stored = compress_event(event)
    assert PLAIN_TYPES[stored[4]] == event[4]
    assert expand(stored) == event


@given(st.lists(plain_events, min_size=1, max_size=5))
def test_many_events_are_expanded_at_once(events: list[bytes]) -> None:
    stored = [compress_event(event) for event in events]
    table = np.zeros(len(events), dtype=EVENT_DTYPE)
    sizes = np.array([len(event) for event in stored], dtype=np.int64)
    table["start"], table["size"] = np.cumsum(sizes) - sizes, sizes
    table["type"] = [event[4] for event in stored]
    data = as_bytes(b"".join(stored))
    found = find_streams(data, table)
    starts = np.cumsum(found.plain_sizes) - found.plain_sizes
    target = empty_bytes(int(found.plain_sizes.sum()))
    expand_streams(data, found, target, starts)
    assert target.tobytes() == b"".join(events)


@given(plain_events, st.data())
def test_damaged_event_is_an_error_or_another_plain_one(event: bytes, data: st.DataObject) -> None:
    """A flipped bit: zlib's own checksum covers the text and the rows, so these never change."""
    stored = bytearray(compress_event(event))
    bit = data.draw(st.integers(19 * 8, len(stored) * 8 - 1))
    stored[bit // 8] ^= 1 << (bit % 8)
    found = _outcome(bytes(stored))
    if isinstance(found, CorruptError):
        assert (found.condition, str(found.at)) == ("BINLOG_CORRUPT.BAD_EVENT", "/log/bin.000007: byte 0x3e8")
    else:
        head = plain_head_size(event)
        # The bit is in the head; or it is one that neither MariaDB nor zlib looks at.
        assert found[head:] == event[head:] or bit // 8 < head


@given(plain_events, st.data())
def test_cut_event_is_an_error(event: bytes, data: st.DataObject) -> None:
    stored = compress_event(event)
    with pytest.raises(CorruptError, match="BAD_EVENT"):
        expand(stored, data.draw(st.integers(0, len(stored) - 1)))


@given(st.sampled_from([165, 166, 167, 168, 169, 170, 171]), st.binary(max_size=200))
def test_any_bytes_are_an_error_or_an_event(kind: int, body: bytes) -> None:
    plain = _outcome(encode_event(EventType(kind), body, ORIGIN))
    assert isinstance(plain, CorruptError) or len(plain) == int.from_bytes(
        plain[EVENT_SIZE_OFFSET : EVENT_SIZE_OFFSET + 4], "little"
    )


def _with_stream(length: int, content: bytes, *, mark: int = COMPRESSED_MARK) -> bytes:
    event = encode_query("x", ORIGIN)
    head = bytearray(event[: plain_head_size(event)])
    size = (length.bit_length() + 7) // 8
    stored = head + bytes([mark | size]) + length.to_bytes(size, "big") + content
    stored[4] = EventType.QUERY_COMPRESSED
    return bytes(stored)


SQL = b"INSERT INTO t VALUES (1)" * 40


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        (_with_stream(len(SQL) - 1, zlib.compress(SQL)), "more of 959 bytes"),
        (_with_stream(len(SQL) + 1, zlib.compress(SQL)), "960 of 961 bytes"),
        (_with_stream(len(SQL), zlib.compress(SQL)[:-1]), "does not end"),
        (_with_stream(len(SQL), zlib.compress(SQL) + b"x"), "after its zlib stream"),
        (_with_stream(len(SQL), zlib.compress(SQL)[:-4] + bytes(4)), "incorrect data check"),
        (_with_stream(len(SQL), zlib.compress(SQL), mark=0), "does not begin as one"),
        (_with_stream(len(SQL), zlib.compress(SQL), mark=0x90), "unknown algorithm"),
        (_with_stream(0, zlib.compress(SQL)), "size is missing"),
        (_with_stream(1 << 32, zlib.compress(SQL)), "size is missing"),
        (_with_stream(EVENT_SIZE_MAX, zlib.compress(SQL)), "not possible"),
        (_with_stream(1 << 20, zlib.compress(SQL)), "not possible"),
    ],
)
def test_lie_is_named(stored: bytes, reason: str) -> None:
    with pytest.raises(CorruptError, match=reason) as raised:
        expand(stored)
    assert raised.value.subclass == "BAD_EVENT"


def _memory_of(action: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_bomb_takes_no_more_memory_than_it_claims() -> None:
    """64 MB of zeros that are declared as 100 bytes: no more than those are ever made."""
    bomb = _with_stream(100, zlib.compress(bytes(64 << 20), 9))
    expand(compress_event(encode_query("x" * 100, ORIGIN)))  # whatever is made once is made now

    def refused() -> None:
        with pytest.raises(CorruptError, match="more of 100 bytes"):
            expand(bomb)

    assert _memory_of(refused) < 1 << 20


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


def _events_of_file(case: Path) -> Iterator[tuple[int, int, bytes]]:
    """Of every plain event: its type, its number in its group, and its bytes."""
    with open_log(str(case)) as log:
        for block in expanded(log.blocks()):
            for event in block.events:
                start = int(event["start"])
                yield (
                    int(event["type"]),
                    int(event["event_no"]),
                    block.data[start : start + int(event["size"])].tobytes(),
                )


def _told(event: tuple[int, int, bytes]) -> tuple[int, int, object]:
    # What the same statement logs, whenever it is run: not times, positions, ids and random values.
    kind, event_no, content = event
    if kind == EventType.TABLE_MAP:
        layout = parse_table_map(content)
        return kind, event_no, (layout.full_name, [column.type for column in layout.columns])
    if kind == EventType.QUERY:
        parsed = parse_query(content)
        return kind, event_no, (parsed.database, parsed.text)
    return kind, event_no, len(content)


@pytest.mark.parametrize(
    ("server", "compressed"),
    [("mariadb-10.11", "ops_compressed"), ("mariadb-11.8", "ops_compressed"), ("mysql-9", "ops_zstd")],
)
def test_compressed_log_has_the_events_of_the_plain_one(server: str, compressed: str) -> None:
    folder = corpus("servers") / server
    if not (folder / compressed).exists():
        pytest.skip(f"{server}/{compressed} is not in this corpus")
    found, expected = ([_told(event) for event in _events_of_file(folder / case)] for case in (compressed, "ops"))
    assert len(found) > 700
    assert [(kind, number) for kind, number, _ in found] == [(kind, number) for kind, number, _ in expected]
    different = [(one, other) for one, other in zip(found, expected, strict=True) if one != other]
    # A file name that is in three statements, and a password.
    assert len(different) <= 5


@pytest.mark.parametrize("server", ["mariadb-10.11", "mariadb-11.8", "mysql-9"])
def test_blobs_of_16_mb_come_out_of_16_kb(server: str) -> None:
    folder = corpus("servers") / server / "hugeblob"
    if not folder.exists():
        pytest.skip(f"{server}/hugeblob is not in this corpus")
    sizes = [len(content) for kind, _, content in _events_of_file(folder) if kind in (23, 24, 25, 30, 31, 32)]
    assert len(sizes) == 5
    assert sum(size >= 16 << 20 for size in sizes) >= 4
    assert sum(path.stat().st_size for path in folder.glob("mysql-bin.0*")) < 200_000
