"""Characters that a character set can hold are those that a server keeps, not a question mark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_format.events.charset_layout import UNDEFINED
from binlog_format.events.charsets import can_hold
from tests.format.rows.test_charsets import TABLED
from tests.servers import mariadb_server_in

if TYPE_CHECKING:
    from pathlib import Path

PLANE = [chr(point) for point in range(1, 0x10000) if not 0xD800 <= point < 0xE000 and chr(point) != UNDEFINED]
PART = 4096


@pytest.mark.parametrize(
    ("text", "charset", "is_held"),
    [
        ("①", "eucjpms", True),  # Python's codec lacks it
        ("①", "ujis", False),
        ("å", "swe7", True),
        ("a{", "swe7", False),  # ASCII, but no ASCII character set
        ("€", "greek", False),  # in the standard, not on servers
        ("ω", "greek", True),
        ("é", "ascii", False),
        ("😀", "ucs2", False),
        ("😀", "utf16", True),
        ("漢😀", "gb18030", True),
        ("", "latin1", True),
        ("é", "nosuch", False),
    ],
)
def test_labels_are_held_or_not(text: str, charset: str, is_held: bool) -> None:
    assert can_hold(text, charset) is is_held


@pytest.mark.server
def test_held_characters_are_those_of_the_server_here(tmp_path: Path) -> None:
    with mariadb_server_in(tmp_path) as server, server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET NAMES utf8mb4, sql_mode = ''")
        for charset in sorted({*TABLED} - {"gb18030"}):
            kept: set[str] = set()
            for start in range(0, len(PLANE), PART):
                part = "".join(PLANE[start : start + PART])
                cursor.execute(f"SELECT CONVERT(CONVERT(%s USING {charset}) USING utf8mb4)", (part,))
                ((found,),) = cursor.fetchall()
                kept |= {character for character, other in zip(part, found, strict=True) if character == other}
            assert kept == {character for character in PLANE if can_hold(character, charset)}, charset
