"""Text of every character set of the servers becomes UTF-8."""

from __future__ import annotations

import functools
import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_format.errors import UnsupportedError
from binlog_format.events.charset_layout import (
    CHARSET_OF_COLLATION,
    CODECS,
    EUC_JP_CHARSETS,
    TWO_BYTE_CHARSETS,
    UPPER_HALVES,
)
from binlog_format.events.charsets import decode_text
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding
from tests.chance import examples
from tests.format.rows.columns import make_column, read
from tests.format.rows.plain_rows import sized
from tests.servers import mariadb_server_in

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("shown_values")

REPLACING = Decoding(replace_invalid_text=True)
UNICODE_CODECS = {"ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be"}
WIDE = sorted(TWO_BYTE_CHARSETS | EUC_JP_CHARSETS | {"gb18030"})
NARROW = sorted(set(CODECS) | set(UPPER_HALVES) - set(WIDE))
NARROW = [name for name in NARROW if name not in {*WIDE, *UNICODE_CODECS, "binary", "utf8mb3", "utf8mb4"}]
TABLED = [*NARROW, *WIDE]

# Characters that a codec has and the server has not: bytes that only clients of that character set understand.
ONLY_IN_CODEC = {
    "big5": bytes.fromhex("a15aa1c3a1c5a1fea240a2cca2ce"),
    "cp1256": bytes.fromhex("8a8f989a9faac0ff"),
    "greek": bytes.fromhex("a4a5aa"),
}


def text_column(charset: str) -> Any:
    return make_column(ColumnType.BLOB, b"\x02", charset=charset)


def read_texts(charset: str, values: Sequence[bytes | None], decoding: Decoding = DEFAULT_DECODING) -> list[Any]:
    return read(text_column(charset), [None if v is None else sized(v, 2) for v in values], decoding)


@functools.cache
def characters(charset: str) -> dict[bytes, str]:
    """All characters of one and two bytes, and some longer ones."""
    candidates = [bytes((byte,)) for byte in range(256)]
    if charset in WIDE:
        candidates += [bytes((a, b)) for a in range(0x81, 0xFF) for b in range(0x40, 0xFF)]
    if charset in EUC_JP_CHARSETS:
        candidates += [bytes((0x8F, a, b)) for a in range(0xA1, 0xFF) for b in range(0xA1, 0xFF)]
    if charset == "gb18030":
        candidates += [bytes((a, 0x30 + a % 10, b, 0x35)) for a in range(0x81, 0xE4) for b in range(0x81, 0xFF)]
    found = {}
    for candidate in candidates:
        try:
            text = decode_text(candidate, charset)
        except UnicodeDecodeError:
            continue
        if len(text) == 1:
            found[candidate] = text
    return found


@pytest.mark.parametrize("charset", TABLED)
@given(data=st.data())
@settings(max_examples=examples(30))
def test_characters_become_utf8(charset: str, data: st.DataObject) -> None:
    known = characters(charset)
    alphabet = st.sampled_from(sorted(known))
    values = data.draw(st.lists(st.none() | st.lists(alphabet, max_size=30), max_size=6))
    encoded = [None if v is None else b"".join(v) for v in values]
    assert read_texts(charset, encoded) == [None if v is None else "".join(known[c] for c in v) for v in values]


@pytest.mark.parametrize("charset", UNICODE_CODECS)
@given(values=st.lists(st.none() | st.text(max_size=20), max_size=6))
def test_unicode_encodings_become_utf8(charset: str, values: list[str | None]) -> None:
    if charset == "ucs2":
        values = [None if v is None else "".join(c for c in v if c <= "\uffff") for v in values]
    encoded = [None if v is None else v.encode(UNICODE_CODECS[charset]) for v in values]
    assert read_texts(charset, encoded) == values


@pytest.mark.parametrize(
    ("charset", "content"),
    [
        ("utf16", "d800"),
        ("utf16", "dc00d800"),
        ("utf16", "0041d8000042"),
        ("utf16", "004100"),
        ("utf16le", "00d8"),
        ("ucs2", "d83dde00"),
        ("utf32", "0000d800"),
        ("utf32", "00110000"),
        ("utf32", "ffffffff"),
        ("utf32", "000041"),
        ("cp1251", "4198"),
        ("sjis", "81"),
        ("sjis", "8140ff"),
        ("cp932", "80"),
        ("gbk", "80"),
        ("gbk", "8130"),
        ("gb2312", "8140"),
        ("gb18030", "81308"[:4]),
        ("gb18030", "e3329a36"),
        ("gb18030", "8130ff30"),
        ("big5", "a1"),
        ("euckr", "a141ff"),
        ("ujis", "8fa1"),
        ("ujis", "8fa1a1"),
        ("swe7", "7f"),
        ("tis620", "fc"),
        ("dec8", "a4"),
    ],
)
def test_bytes_that_are_no_text_are_refused_or_replaced(charset: str, content: str) -> None:
    values = [b"", bytes.fromhex(content)]
    with pytest.raises(UnsupportedError) as raised:
        read_texts(charset, values)
    assert "shop.orders.c: value 1: " in str(raised.value)
    assert f"{len(values[1])} bytes {content} are not {charset}. With option replaceInvalidText=true" in str(
        raised.value
    )
    replaced = read_texts(charset, values, REPLACING)
    assert replaced[0] == ""
    assert "\ufffd" in replaced[1]


def test_shown_bytes_are_short() -> None:
    with pytest.raises(UnsupportedError) as raised:
        read_texts("ascii", [b"\xff" * 500])
    assert f"500 bytes {'ff' * 64}... are not ascii" in str(raised.value)


@given(st.lists(st.none() | st.binary(max_size=12), max_size=6))
def test_replaced_utf8_is_as_python_replaces_it(values: list[bytes | None]) -> None:
    wanted = [None if v is None else v.decode("utf-8", "replace") for v in values]
    assert read_texts("utf8mb4", values, REPLACING) == wanted


def test_replaced_utf8mb3_has_no_character_of_four_bytes() -> None:
    assert read_texts("utf8mb3", ["a😀é".encode(), b"ok"], REPLACING) == ["a\ufffdé", "ok"]


def test_a_quote_after_a_lost_lead_byte_stays() -> None:
    assert read_texts("gbk", [b'\x81" and more'], REPLACING) == ['\ufffd" and more']


@pytest.mark.parametrize("charset", [*TABLED, *UNICODE_CODECS, "utf8mb3", "utf8mb4", "ascii"])
@given(values=st.lists(st.binary(max_size=40), max_size=4))
@settings(max_examples=examples(30))
def test_any_bytes_give_text_or_a_named_error(charset: str, values: list[bytes]) -> None:
    replaced = read_texts(charset, values, REPLACING)
    try:
        wanted = read_texts(charset, values)
    except UnsupportedError:
        assert any("\ufffd" in text for text in replaced)
    else:
        assert replaced == wanted


def test_text_that_only_looks_valid_when_joined_is_refused() -> None:
    """One character over the border of two values."""
    with pytest.raises(UnsupportedError, match="value 0: 1 bytes c3 are not utf8mb4"):
        read_texts("utf8mb4", [b"\xc3", b"\xa9"])


def digest(charset: str) -> str:
    """Of all characters of one to three bytes that the server has, by bytes."""
    content = hashlib.sha256()
    extra = ONLY_IN_CODEC.get(charset, b"")
    step = 2 if charset in WIDE else 1
    without = {extra[i : i + step] for i in range(0, len(extra), step)}
    for key, character in sorted(characters(charset).items()):
        if key not in without:
            content.update(key + b"=" + character.encode() + b"\n")
    return content.hexdigest()[:16]


SERVER_DIGESTS = {
    "armscii8": "b099493c5a979835",
    "ascii": "d4e8bd4abcbc3550",
    "big5": "4b2b40ee1e0c67e0",
    "cp1250": "c77238439b27923e",
    "cp1251": "2233c5fed9b8989c",
    "cp1256": "fd4c228e78a494b9",
    "cp1257": "9137178a3bfe14ef",
    "cp850": "81413c83d1dd87bc",
    "cp852": "7aac2802e30e764f",
    "cp866": "c8f859005367fa5d",
    "cp932": "81d87ab3feaf6c94",
    "dec8": "2de09f166f2f86ce",
    "eucjpms": "cfd01a276671f7f0",
    "euckr": "63db8f1218973cd5",
    "gb2312": "9707e6a2da193866",
    "gbk": "81f4e63b4fa6f432",
    "geostd8": "28a71a1e1272232b",
    "greek": "d4fc9d644011080d",
    "hebrew": "76d72049d29b1803",
    "hp8": "003f20a0ace4d54f",
    "keybcs2": "4dd283857b024ae3",
    "koi8r": "dd8e076751340a4e",
    "koi8u": "491ff20c9df156db",
    "latin1": "4c821ad1631176df",
    "latin2": "137023cb37f91037",
    "latin5": "2c077e59e81ed741",
    "latin7": "8f2432f57a94fd5b",
    "macce": "f93e1287a2416286",
    "macroman": "c7d353974a6c7c27",
    "sjis": "3982028d86623f8a",
    "swe7": "b70c5d0901869f33",
    "tis620": "37c7c5ec4e3345cc",
    "ujis": "bf0f3a58ebbd3365",
}


@pytest.mark.parametrize("charset", SERVER_DIGESTS)
def test_conversions_are_those_of_a_server(charset: str) -> None:
    """Digests of what MariaDB 10.11 converted every byte, pair and (of ujis, eucjpms) triple to."""
    assert digest(charset) == SERVER_DIGESTS[charset]


@pytest.mark.server
def test_conversions_are_those_of_the_server_here(tmp_path: Path) -> None:
    """A MariaDB converts every byte and every pair of bytes."""
    compared = 0
    with mariadb_server_in(tmp_path) as server, server.connect() as connection, connection.cursor() as cursor:
        for charset in [name for name in TABLED if name not in {"gb18030"}]:
            keys = [bytes((byte,)) for byte in range(256)]
            keys += [bytes((a, b)) for a in range(0x81, 0xFF) for b in range(0x40, 0xFF) if charset in WIDE]
            for start in range(0, len(keys), 2000):
                some = keys[start : start + 2000]
                rows = " union all ".join(f"select x'{key.hex()}' b" for key in some)
                cursor.execute(f"select b, convert(convert(b using {charset}) using utf32) from ({rows}) t")
                for key, converted in cursor.fetchall():
                    text = _utf32(converted)
                    if text == "?" and key != b"?":
                        text = None
                    found = characters(charset).get(key)
                    if text is not None and len(text) == 1 and text != "\ufffd":
                        assert found == text, (charset, key)
                        compared += 1
    assert compared > 80_000


def _utf32(converted: bytes | str | None) -> str | None:
    return converted.decode("utf-32-be") if isinstance(converted, bytes) else converted


@pytest.mark.parametrize(
    ("collation", "charset"),
    [
        (8, "latin1"),
        (63, "binary"),
        (83, "utf8mb3"),
        (76, "utf8mb3"),
        (45, "utf8mb4"),
        (255, "utf8mb4"),  # MySQL 8: utf8mb4_0900_ai_ci
        (309, "utf8mb4"),
        (323, "utf8mb4"),
        (248, "gb18030"),
        (250, "gb18030"),
        (1070, "utf8mb4"),  # MariaDB: utf8mb4_nopad_bin
        (1071, "latin1"),
        (2048, "utf8mb3"),  # MariaDB: uca1400
        (2304, "utf8mb4"),
        (2815, "ucs2"),
        (2816, "utf16"),
        (3072, "utf32"),
        (101, "utf16"),
        (62, "utf16le"),
        (98, "eucjpms"),
        (9999, "collation 9999"),
    ],
)
def test_collations_have_their_charset(collation: int, charset: str) -> None:
    assert CHARSET_OF_COLLATION[collation] == charset


@given(
    st.lists(st.lists(st.sampled_from(["plain text", "é", "日本", "😀", "߿", "퟿", "", "\0"]), max_size=12), max_size=4),
    st.data(),
)
@settings(max_examples=examples(300))
def test_mixed_utf8_is_checked_wherever_characters_fall(parts: list[list[str]], data: st.DataObject) -> None:
    values = [bytearray("".join(part).encode()) for part in parts]
    if any(values) and data.draw(st.booleans()):
        chosen = data.draw(st.sampled_from([value for value in values if value]))
        chosen[data.draw(st.integers(0, len(chosen) - 1))] = data.draw(
            st.sampled_from(b"\x7f\x80\xbf\xc3\xed\xe0\xf4\xff")
        )
    encoded = [bytes(value) for value in values]
    try:
        wanted = [value.decode() for value in encoded]
    except UnicodeDecodeError:
        with pytest.raises(UnsupportedError, match="are not utf8mb4"):
            read_texts("utf8mb4", list(encoded))
    else:
        assert read_texts("utf8mb4", list(encoded)) == wanted


SAMPLES = {
    **dict.fromkeys(("sjis", "ujis"), "日本"),
    **dict.fromkeys(("cp932", "eucjpms"), "日本①"),
    **dict.fromkeys(("utf16", "utf16le", "utf32"), "é😀"),
    **dict.fromkeys(("latin2", "macce"), "łódź"),
    "ucs2": "é日",
    "gbk": "中国",
    "big5": "中國",
    "euckr": "한국",
    "cp1251": "привет",
    "swe7": "ÅÄÖ",
    "tis620": "ไทย",
    "hebrew": "שלום",
    "greek": "Ελλάδα",
    "keybcs2": "Čeština",
}


@pytest.mark.server
def test_columns_and_labels_of_the_server_here(tmp_path: Path) -> None:
    """Values, and labels of ENUM and SET in the table map, are in the column's character set."""
    from binlog_format import open_log

    server = mariadb_server_in(tmp_path, options=["--binlog-row-metadata=FULL"])
    with server, server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("create database shop")
        for charset, text in SAMPLES.items():
            cursor.execute(
                f"create table shop.{charset} (c char(20), v varchar(300), t text, z text compressed, "
                f"e enum('x','{text}'), s set('{text}','y')) charset {charset}"
            )
            long_text = text * 40
            insert = f"insert into shop.{charset} values (%s, %s, %s, %s, %s, %s)"
            cursor.execute(insert, (text, text, long_text, long_text, text, f"{text},y"))
        connection.commit()
    found = {}
    with open_log(str(server.binlog_directory)) as log:
        for batch in log.changes(tables=r"shop\..*"):
            for row in batch.to_pylist():
                found[row["table"]] = json.loads(row["after"])
    assert found == {
        charset: {"c": text, "v": text, "t": text * 40, "z": text * 40, "e": text, "s": f"{text},y"}
        for charset, text in SAMPLES.items()
    }
