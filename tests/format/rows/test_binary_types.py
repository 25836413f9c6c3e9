"""UUID, INET4, INET6, GEOMETRY, VECTOR and COMPRESSED columns: what their bytes mean."""

from __future__ import annotations

import ipaddress
import struct
import uuid
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_format.errors import CorruptError, SchemaError, UnsupportedError
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.decoding import Decoding
from binlog_format.rows.values import text as text_module
from tests.chance import examples
from tests.format.rows.columns import make_column, read, read_array
from tests.format.rows.plain_rows import sized
from tests.servers import mariadb_server_in

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("shown_values")

UUID = make_column(ColumnType.STRING, b"\xfe\x10", charset="binary", declared="uuid")
INET6 = make_column(ColumnType.STRING, b"\xfe\x10", charset="binary", declared="inet6")
INET4 = make_column(ColumnType.STRING, b"\xfe\x04", charset="binary", declared="inet4")
GEOMETRY = make_column(ColumnType.GEOMETRY, b"\x04")
VECTOR = make_column(ColumnType.VECTOR, b"\x04", charset="binary")
VECTOR_STRUCT = struct.Struct("<3f")


def stored(content: bytes) -> bytes:
    """BINARY(n) as the log has it: without zeros at the end."""
    return sized(content.rstrip(b"\0"), 1)


@given(st.lists(st.none() | st.binary(min_size=16, max_size=16), max_size=8))
def test_uuids(values: list[bytes | None]) -> None:
    wanted = [None if v is None else str(uuid.UUID(bytes=v)) for v in values]
    assert read(UUID, [None if v is None else stored(v) for v in values]) == wanted


def test_uuid_whose_last_byte_is_00() -> None:
    """Peers put the zero in front: 0000123e-4567-e89b-12d3-a45642665544."""
    text = "123e4567-e89b-12d3-a456-426655440000"
    assert read(UUID, [stored(uuid.UUID(text).bytes)]) == [text]
    assert read(UUID, [sized(b"", 1), stored(b"\x01")]) == [str(uuid.UUID(int=0)), f"01{str(uuid.UUID(int=0))[2:]}"]


def test_uuid_without_a_schema_is_the_padded_bytes() -> None:
    column = make_column(ColumnType.STRING, b"\xfe\x10", charset="binary")
    assert read(column, [sized(b"\x01", 1)]) == [b"\x01" + bytes(15)]


@given(st.lists(st.none() | st.binary(min_size=4, max_size=4), max_size=8))
def test_inet4(values: list[bytes | None]) -> None:
    wanted = [None if v is None else str(ipaddress.IPv4Address(v)) for v in values]
    assert read(INET4, [None if v is None else stored(v) for v in values]) == wanted


@given(st.lists(st.integers(0, 0xFFFF) | st.just(0), min_size=8, max_size=8))
@settings(max_examples=examples(300))
def test_inet6_is_the_same_address(words: list[int]) -> None:
    content = b"".join(word.to_bytes(2, "big") for word in words)
    (text,) = read(INET6, [stored(content)])
    assert ipaddress.IPv6Address(text).packed == content
    assert text == text.lower()


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("::", "::"),
        ("::1", "::1"),
        ("1::", "1::"),
        ("::ffff:1.2.3.4", "::ffff:1.2.3.4"),
        ("::1.2.3.4", "::1.2.3.4"),
        ("::1:2:3", "::1:2:3"),
        ("2001:db8::ff00:42:8329", "2001:db8::ff00:42:8329"),
        ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"),
        ("1:0:0:4:0:0:7:8", "1::4:0:0:7:8"),
        ("1:0:3:4:5:6:7:8", "1::3:4:5:6:7:8"),  # the server leaves a single zero out, too
        ("1:2:3:4:5:6:7:0", "1:2:3:4:5:6:7::"),
        ("0:2:3:4:5:6:7:8", "::2:3:4:5:6:7:8"),
        ("a:b:0:0:0:0:0:0", "a:b::"),
    ],
)
def test_inet6_as_the_server_prints_it(address: str, text: str) -> None:
    assert read(INET6, [stored(ipaddress.IPv6Address(address).packed), None]) == [text, None]


@pytest.mark.server
def test_addresses_are_printed_as_the_server_here_prints_them(tmp_path: Path) -> None:

    random = np.random.default_rng(6)
    words = random.integers(0, 1 << 16, (400, 8)) * (random.random((400, 8)) < random.random((400, 1)))
    words[:8, :5], words[:8, 5] = 0, 0xFFFF
    addresses = [words[i].astype(">u2").tobytes() for i in range(len(words))]
    with mariadb_server_in(tmp_path) as server, server.connect() as connection, connection.cursor() as cursor:
        rows = " union all ".join(f"select x'{address.hex()}' b" for address in addresses)
        cursor.execute(f"select cast(cast(b as inet6) as char) from ({rows}) t")
        wanted = [row[0] for row in cursor.fetchall()]
    assert read(INET6, [stored(address) for address in addresses]) == wanted


@pytest.mark.parametrize(("column", "width"), [(UUID, 16), (INET6, 16), (INET4, 4)])
def test_address_that_is_too_long_is_damage(column: Any, width: int) -> None:
    with pytest.raises(CorruptError, match=rf"shop\.orders\.c: value 1: it is longer than {width} bytes"):
        read(column, [stored(b"\x01"), sized(b"\x01" * (width + 1), 1)])


@given(st.lists(st.none() | st.tuples(st.integers(0, 2**31 - 1), st.binary(max_size=40)), max_size=8))
def test_geometries(values: list[tuple[int, bytes] | None]) -> None:
    encoded = [None if v is None else sized(v[0].to_bytes(4, "little") + v[1], 4) for v in values]
    assert read(GEOMETRY, encoded) == [None if v is None else {"srid": v[0], "wkb": v[1]} for v in values]


def test_empty_geometry_has_no_content() -> None:
    array = read_array(GEOMETRY, [sized(b"", 4), None])
    assert array.to_pylist() == [{"srid": 0, "wkb": b""}, None]
    assert array.type == pa.struct([("srid", pa.int32()), ("wkb", pa.binary())])


def test_geometry_shorter_than_its_srid_is_damage() -> None:
    with pytest.raises(CorruptError, match="value 0: it is shorter than the 4 bytes of its SRID"):
        read(GEOMETRY, [sized(b"\1\2\3", 4)])


FLOAT32 = st.floats(width=32, allow_nan=False)


@pytest.mark.parametrize(
    ("column", "prefix"),
    [(VECTOR, 4), (make_column(ColumnType.VARCHAR, b"\x00\x20", charset="binary", declared="vector(2048)"), 2)],
)
@given(values=st.lists(st.none() | st.lists(FLOAT32, max_size=6), max_size=6))
def test_vectors(column: Any, prefix: int, values: list[list[float] | None]) -> None:
    encoded = [None if v is None else sized(np.array(v, dtype="<f4").tobytes(), prefix) for v in values]
    array = read_array(column, encoded)
    assert array.type == pa.list_(pa.float32())
    assert array.to_pylist() == values


def test_varbinary_is_a_vector_only_where_the_schema_says_so() -> None:
    content = sized(VECTOR_STRUCT.pack(1, 2, 3), 1)
    assert read(make_column(ColumnType.VARCHAR, b"\x0c\x00", charset="binary"), [content]) == [content[1:]]


def test_vector_with_half_a_float_is_damage() -> None:
    with pytest.raises(CorruptError, match="value 1: its size is not a multiple of the 4 bytes of a float"):
        read(VECTOR, [sized(bytes(8), 4), sized(bytes(6), 4)])


def compressed(content: bytes, *, raw: bool = False, length_size: int | None = None) -> bytes:
    """As a COMPRESSED column stores it."""
    packer = zlib.compressobj(wbits=-15 if raw else 15)
    size = length_size or max(1, (len(content).bit_length() + 7) // 8)
    head = bytes([0x80 | (8 if raw else 0) | size]) + len(content).to_bytes(size, "big")
    return head + packer.compress(content) + packer.flush()


def compressed_column(charset: str = "utf8mb4") -> Any:
    return make_column(ColumnType.BLOB_COMPRESSED, b"\x04", charset=charset)


@given(st.lists(st.none() | st.tuples(st.text(max_size=200), st.sampled_from(["plain", "zlib", "raw"])), max_size=8))
def test_compressed_texts(values: list[tuple[str, str] | None]) -> None:
    encoded: list[bytes | None] = []
    for value in values:
        if value is None:
            encoded.append(None)
        elif value == ("", "plain"):
            encoded.append(sized(b"", 4))
        elif value[1] == "plain":
            encoded.append(sized(b"\0" + value[0].encode(), 4))
        else:
            encoded.append(sized(compressed(value[0].encode(), raw=value[1] == "raw"), 4))
    assert read(compressed_column(), encoded) == [None if v is None else v[0] for v in values]


def test_compressed_text_has_its_charset() -> None:
    assert read(compressed_column("latin1"), [sized(compressed("café".encode("latin-1")), 4)]) == ["café"]
    assert read(compressed_column("binary"), [sized(compressed(b"\xff\0" * 99), 4)]) == [b"\xff\0" * 99]
    column = make_column(ColumnType.VARCHAR_COMPRESSED, b"\xf5\x01", charset="utf8mb4")
    assert read(column, [sized(compressed(b"x" * 500), 2)]) == ["x" * 500]
    with pytest.raises(UnsupportedError, match="value 0: 1 bytes ff are not utf8mb4"):
        read(compressed_column(), [sized(compressed(b"\xff"), 4)])
    assert read(compressed_column(), [sized(compressed(b"\xff"), 4)], Decoding(replace_invalid_text=True)) == ["\ufffd"]
    with pytest.raises(SchemaError, match=r"NO_COLUMN_METADATA.*its character set"):
        read(make_column(ColumnType.BLOB_COMPRESSED, b"\x04"), [])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x70abc", "does not begin with 0x70"),
        (b"\x80abc", "does not begin with 0x80"),
        (b"\x85abcdefgh", "does not begin with 0x85"),
        (b"\x84\0\0\0", "does not begin with 0x84"),
        (b"\x84\xff\xff\xff\xff" + zlib.compress(b"x"), "cannot be 4294967295 bytes"),
        (b"\x81\x05garbage", "its compressed bytes are damaged"),
        (compressed(b"hello")[:-5], "are not 5 plain bytes"),
        (b"\x81\x04" + zlib.compress(b"hello"), "are not 4 plain bytes"),
        (b"\x81\x06" + zlib.compress(b"hello"), "are not 6 plain bytes"),
    ],
)
def test_damaged_compressed_value_is_named(content: bytes, reason: str) -> None:
    with pytest.raises(CorruptError, match=rf"BAD_EVENT.*shop\.orders\.c: value 1: .*{reason}"):
        read(compressed_column(), [sized(b"", 4), sized(content, 4)])


def test_varchar_cannot_be_longer_than_declared() -> None:
    column = make_column(ColumnType.VARCHAR_COMPRESSED, b"\x65\x00", charset="ascii")
    assert read(column, [sized(compressed(b"x" * 100), 1)]) == ["x" * 100]
    with pytest.raises(CorruptError, match="cannot be 101 bytes of plain text"):
        read(column, [sized(compressed(b"x" * 101), 1)])


def test_plain_bytes_are_bounded_before_they_are_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "_PLAIN_SIZE_MAX", 5000)
    values = [sized(compressed(bytes(2000)), 4) for _ in range(3)]
    assert len(read(compressed_column("binary"), values[:2])) == 2
    with pytest.raises(UnsupportedError, match=r"ROW_IMAGE.*more than 5000 plain bytes at once"):
        read(compressed_column("binary"), values)


@pytest.mark.parametrize("column", [UUID, INET4, INET6, GEOMETRY, VECTOR, compressed_column()])
def test_value_that_ends_after_the_data_is_damage(column: Any) -> None:
    with pytest.raises(CorruptError, match="value 0: "):
        read(column, [b"\x0a\x00\x00\x00"])
    with pytest.raises(CorruptError, match="value 0: "):
        read(column, [b""])
