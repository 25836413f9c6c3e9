"""MySQL's binary JSON to text."""

from __future__ import annotations

import base64
import json
import struct
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from binlog_format.errors import CorruptError
from binlog_format.events.table_map import parse_table_map
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.kernels import as_bytes
from binlog_format.rows.columns import column_array
from binlog_format.rows.decoding import Decoding
from binlog_format.rows.json import json_columns
from binlog_format.rows.json.json_document import BadJsonError, document_of
from tests.chance import examples
from tests.format.rows.plain_json import (
    DOCUMENTS,
    DOUBLE,
    LITERAL,
    OPAQUE,
    SMALL_ARRAY,
    STRING,
    Opaque,
    document,
    encoded,
    server_text,
)
from tests.format.rows.plain_rows import PlainColumn, sized, table_map

if TYPE_CHECKING:
    import pyarrow as pa

LAYOUT = parse_table_map(table_map([PlainColumn(ColumnType.JSON, b"\x04")]))


def texts(documents: list[bytes | None], decoding: Decoding | None = None) -> pa.Array:
    places, data = [], b"\xff"
    for content in documents:
        places.append(-1 if content is None else len(data))
        data += b"" if content is None else sized(content, 4)
    return column_array(LAYOUT, 0, as_bytes(data), np.array(places, np.int32), decoding=decoding or Decoding())


def text(content: bytes) -> str:
    (value,) = texts([content]).to_pylist()
    assert isinstance(value, str)
    return value


@given(st.lists(st.none() | DOCUMENTS.map(lambda value: [value]), max_size=6), st.booleans())
@settings(max_examples=examples(300))
def test_documents_are_printed_as_by_the_server(models: list[list[Any] | None], large: bool) -> None:
    values = [None if model is None else model[0] for model in models]
    documents = [None if model is None else document(model[0], large=large) for model in models]
    array = texts(documents)
    array.validate(full=True)
    for model, value, printed in zip(models, values, array.to_pylist(), strict=True):
        assert printed == (None if model is None else server_text(value))
        if printed is not None:
            assert json.loads(printed) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(-0.0)
@example(1e15)
@example(123456789012345.6)
@example(1e14)
@example(1e-14)
@example(1e-15)
@example(5e-324)
@example(-1.7976931348623157e308)
@settings(max_examples=examples(500))
def test_doubles_are_the_shortest_that_give_the_same_number(number: float) -> None:
    printed = text(document(number))
    assert printed == server_text(number)
    assert struct.pack("<d", float(printed)) == struct.pack("<d", number)


def test_doubles_stay_in_their_documents() -> None:
    models = [1.5, 2.5, [], [3.5], "x", {"a": 4.5, "b": [5.5, 6.5]}, -7.5, [[8.5], 9.5]]
    assert texts([document(model) for model in models]).to_pylist() == [server_text(model) for model in models]


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (Opaque(246, bytes.fromhex("0804807b1194"), ""), "123.4500"),
        (Opaque(246, bytes.fromhex("03038001"), ""), "0.001"),
        (Opaque(246, bytes.fromhex("03037ffe"), ""), "-0.001"),
        (Opaque(246, bytes.fromhex("03028000"), ""), "0.00"),
        (Opaque(246, bytes.fromhex("03027fff"), ""), "0.00"),  # there is no negative zero
        (Opaque(246, bytes.fromhex("010080"), ""), "0"),
        (Opaque(246, bytes.fromhex("0a008bebc9ff00")[:2] + bytes.fromhex("81075bcd15"), ""), "1123456789"),
        (Opaque(10, struct.pack("<q", ((2024 * 13 + 2) << 5 | 29) << 41), ""), '"2024-02-29"'),
        (Opaque(12, bytes(8), ""), '"0000-00-00 00:00:00.000000"'),
        (Opaque(11, struct.pack("<q", -((838 << 12 | 59 << 6 | 59) << 24 | 1)), ""), '"-838:59:59.000001"'),
        (Opaque(11, struct.pack("<q", (7 << 12 | 5) << 24), ""), '"07:00:05.000000"'),
        (
            Opaque(
                7, struct.pack("<q", ((9999 * 13 + 12) << 5 | 31) << 41 | (23 << 12 | 59 << 6 | 59) << 24 | 999999), ""
            ),
            '"9999-12-31 23:59:59.999999"',
        ),
    ],
)
def test_decimals_and_times_have_the_text_of_columns(value: Opaque, printed: str) -> None:
    assert text(document(value)) == printed
    assert text(document({"a": [value, value]})) == f'{{"a": [{printed}, {printed}]}}'


@pytest.mark.parametrize("size", [0, 1, 2, 3, 56, 57, 58, 59, 113, 114, 115, 1000])
@pytest.mark.parametrize("kind", [3, 15, 252])
def test_other_values_are_printed_in_base64(size: int, kind: int) -> None:
    content = bytes(range(256)) * 4
    lines = [base64.b64encode(content[i : min(i + 57, size)]).decode() for i in range(0, size, 57)]
    wanted = f"base64:type{kind}:" + "\n".join(lines)
    assert json.loads(text(document(Opaque(kind, content[:size], "")))) == wanted


def test_no_bytes_are_null_as_for_the_server() -> None:
    assert texts([b"", None, document([]), b""]).to_pylist() == ["null", None, "[]", "null"]


@pytest.mark.parametrize("size", [0, 127, 128, 16383, 16384, 70_000, 3_000_000])
def test_long_texts(size: int) -> None:
    model = ["x" * size, {"k" * min(size, 65535): 1}]
    assert text(document(model)) == server_text(model)


def test_text_that_is_far_longer_than_the_document() -> None:
    model = ["\1" * 100_000, [False] * 30_000]
    assert text(document(model)) == server_text(model)


def _has_many_digits(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_many_digits, value.values() if isinstance(value, dict) else value))
    return isinstance(value, float) and (value != round(value, 3) or abs(value) > 1e9)


@given(DOCUMENTS.filter(lambda value: not _has_many_digits(value)))
@settings(max_examples=examples(300))
def test_texts_become_the_documents_that_a_server_makes_of_them(value: Any) -> None:
    assert text(document_of(json.dumps(value))) == text(document(value))


@pytest.mark.parametrize(
    ("written", "printed"),
    [  # as MySQL 8.0.12 and 9.7 print them
        ('{"bb": 1.50, "a": [1,2.0, 1e3, true, null, -0], "bb":2}', '{"a": [1, 2.0, 1000.0, true, null, 0], "bb": 2}'),
        ("[-0.0, 0.1, 1E22, 1.5e-7]", "[-0.0, 0.1, 1e22, 0.00000015]"),
        ("[18446744073709551615, -9223372036854775808]", "[18446744073709551615, -9223372036854775808]"),
        (" [ ] ", "[]"),
        ('["\\u00e9/\\n\\u0001\\u007f\\b\\/ \\ud83d\\ude00"]', '["é/\\n\\u0001\x7f\\b/ 😀"]'),
    ],
)
def test_a_text_is_printed_as_by_the_server(written: str, printed: str) -> None:
    assert text(document_of(written)) == printed


@pytest.mark.parametrize("written", ["", "{", "NaN", '"\\ud800"', "[" * 101 + "]" * 101, "[" * 9999])
def test_a_text_that_servers_refuse_is_no_document(written: str) -> None:
    with pytest.raises(BadJsonError):
        document_of(written)


@pytest.mark.parametrize("written", ["[1e400]", "[0.30000000000000004]", "[18446744073709551616]"])
def test_a_number_that_servers_read_differently_is_no_document(written: str) -> None:
    with pytest.raises(BadJsonError, match="digits"):
        document_of(written)


def nested(depth: int) -> bytes:
    kind, content = encoded([])
    for _ in range(depth - 1):
        content = struct.pack("<HHBH", 1, 7 + len(content), kind, 7) + content
    return bytes([kind]) + content


def test_depth_is_what_the_server_allows() -> None:
    assert text(nested(100)) == "[" * 100 + "]" * 100
    with pytest.raises(CorruptError, match=r"BAD_EVENT.*shop\.orders\.c0: value 0: .* nested too deep"):
        text(nested(101))


def test_overlapping_parts_are_refused_at_once() -> None:
    # Each array has the next one twice: printed, it would be 2**90 texts.
    content = struct.pack("<HH", 0, 4)
    for _ in range(90):
        content = struct.pack("<HHBHBH", 2, 10 + len(content), SMALL_ARRAY, 10, SMALL_ARRAY, 10) + content
    started = time.process_time()
    with pytest.raises(CorruptError, match="no JSON document"):
        text(bytes([SMALL_ARRAY]) + content)
    assert time.process_time() - started < 5


_ARRAY = bytes([SMALL_ARRAY])


@pytest.mark.parametrize(
    "content",
    [
        bytes([13]),  # no type
        bytes([LITERAL]),
        bytes([LITERAL, 3]),
        bytes([DOUBLE]) + bytes(7),
        bytes([DOUBLE]) + struct.pack("<d", float("inf")),
        bytes([DOUBLE]) + struct.pack("<d", float("nan")),
        bytes([STRING]),
        bytes([STRING, 2, 65]),
        bytes([STRING, 0x80]),
        bytes([STRING, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01]),
        bytes([STRING, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F]),
        bytes([OPAQUE]),
        bytes([OPAQUE, 15]),
        bytes([OPAQUE, 15, 1]),
        bytes([OPAQUE, 246, 0]),
        bytes([OPAQUE, 246, 3, 82, 0, 128]),
        bytes([OPAQUE, 246, 3, 1, 2, 128]),
        bytes([OPAQUE, 246, 4, 1, 0, 128, 0]),  # a byte too many
        bytes([OPAQUE, 246, 3, 1, 0, 0x8A]),  # a digit above nine
        bytes([OPAQUE, 12, 7]) + bytes(7),
        bytes([OPAQUE, 12, 8]) + struct.pack("<q", -1),
        bytes([OPAQUE, 12, 8]) + struct.pack("<q", 60 << 24),
        bytes([OPAQUE, 12, 8]) + struct.pack("<q", 1_000_000),
        bytes([OPAQUE, 11, 8]) + struct.pack("<q", -(1 << 63)),
        bytes([OPAQUE, 11, 8]) + struct.pack("<q", 839 << 36),
        _ARRAY,
        _ARRAY + struct.pack("<HH", 0, 5),
        _ARRAY + struct.pack("<HH", 1, 4),
        _ARRAY + struct.pack("<HHBH", 1, 7, STRING, 7),
        _ARRAY + struct.pack("<HHBH", 1, 7, STRING, 6),
        _ARRAY + struct.pack("<HHBHBB", 1, 9, STRING, 4, 1, 65),  # in its own entry
        _ARRAY + struct.pack("<HHBHBB", 1, 8, STRING, 7, 1, 65),  # after the array's end
        b"\0" + struct.pack("<HHHHBH", 1, 11, 10, 1, LITERAL, 0) + b"a",  # a key before the first one
        b"\0" + struct.pack("<HHHHBH", 1, 12, 11, 2, LITERAL, 0) + b"a",
    ],
)
def test_damaged_documents_are_refused(content: bytes) -> None:
    with pytest.raises(CorruptError, match=r"BAD_EVENT.*shop\.orders\.c0: value 1: it is no JSON document"):
        texts([document(1), content])


def test_text_that_is_none_is_an_error_or_replaced() -> None:
    bad = bytes([STRING, 2, 65, 0xFF])
    with pytest.raises(CorruptError, match=r"value 2: .*utf8mb4"):
        texts([document("é"), None, bad])
    assert texts([document("é"), None, bad], Decoding(replace_invalid_text=True)).to_pylist() == [
        '"é"',
        None,
        '"A\ufffd"',
    ]


@given(st.binary(max_size=80) | DOCUMENTS.map(document), st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255))))
@settings(max_examples=examples(500))
def test_any_bytes_give_text_or_a_named_error(content: bytes, edits: list[tuple[int, int]]) -> None:
    spoiled = bytearray(content)
    for place, byte in edits:
        if spoiled:
            spoiled[place % len(spoiled)] = byte
    try:
        printed = texts([bytes(spoiled)], Decoding(replace_invalid_text=True)).to_pylist()[0]
    except CorruptError as error:
        assert error.subclass == "BAD_EVENT"  # noqa: PT017
    else:
        json.loads(printed)
        assert len(printed) <= 16 * len(spoiled) + 16


def test_room_grows_from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_columns, "_ROOM_MIN", 1)
    models = [["\1" * 50, 1.5], {"a": [False] * 20}, None, 2**63, -1.25]
    assert texts([document(model) for model in models]).to_pylist() == [server_text(model) for model in models]
