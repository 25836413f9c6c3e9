"""The Format_description event, and the same in an `.ibb` log."""

from __future__ import annotations

import struct
import zlib

import pytest

from binlog_format.classic.format_description import parse_format_description
from binlog_format.classic.layout import ChecksumAlgorithm
from binlog_format.errors import CorruptError, UnsupportedError
from binlog_format.position import Place
from binlog_lab.repack.detach import detached_format_description
from tests.format.classic.logs import OLTP_SMALL, raw_events

AT = Place("bin.000001", byte=4)


@pytest.fixture
def event() -> bytes:
    return raw_events((OLTP_SMALL / "mysql-bin.000001").read_bytes())[0]


def changed(event: bytes, at: int, new: bytes) -> bytes:
    """*event* with other bytes at a place, and a right checksum."""
    body = (event[:at] + new + event[at + len(new) :])[:-4]
    return body + struct.pack("<I", zlib.crc32(body))


def test_real_event(event: bytes) -> None:
    description = parse_format_description(event, AT)
    assert description.server_version == "10.11.19-MariaDB-0+deb12u1-log"
    assert description.server_id == 1011
    assert description.created == description.timestamp > 0
    assert description.algorithm is ChecksumAlgorithm.CRC32
    assert description.checksum_size == 4
    assert description.in_use is False


def test_flag_of_a_file_in_use_is_not_in_the_checksum(event: bytes) -> None:
    in_use = event[:17] + bytes([event[17] | 1]) + event[18:]
    assert parse_format_description(in_use, AT).in_use is True
    with pytest.raises(CorruptError) as raised:
        parse_format_description(event[:17] + bytes([event[17] | 2]) + event[18:], AT)
    assert raised.value.condition == "BINLOG_CORRUPT.EVENT_CHECKSUM"


@pytest.mark.parametrize(
    ("at", "new", "reason"),
    [
        (19, b"\x03", "binlog version 3"),
        (75, b"\x1b", "event headers of 27 bytes"),
        (-5, b"\x07", "checksum algorithm 7"),
        (76 + 18, b"\x06", "TABLE_MAP events has 6 bytes, expected 8"),
    ],
)
def test_other_layouts_are_not_read(event: bytes, at: int, new: bytes, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason) as raised:
        parse_format_description(changed(event, at % len(event), new), AT)
    assert raised.value.condition == "BINLOG_UNSUPPORTED.VERSION"


@pytest.mark.parametrize("at", [19, 75, -5, 76 + 18])
def test_a_damaged_layout_is_damage(event: bytes, at: int) -> None:
    damaged = bytearray(event)
    damaged[at] ^= 0x80
    with pytest.raises(CorruptError) as raised:
        parse_format_description(bytes(damaged), AT)
    assert raised.value.condition == "BINLOG_CORRUPT.EVENT_CHECKSUM"


def test_a_damaged_version_of_a_server_is_damage(event: bytes) -> None:
    """A version before checksums, beside the types of a server that has them."""
    with pytest.raises(CorruptError, match="Format_description event CRC-32"):
        parse_format_description(event[:21] + b"0" + event[22:], AT)


def test_another_first_event_is_damage(event: bytes) -> None:
    with pytest.raises(CorruptError, match="first event of the file has type 2"):
        parse_format_description(changed(event, 4, b"\x02"), AT)
    with pytest.raises(CorruptError, match="too short"):
        parse_format_description(event[:60], AT)


def test_detached_event_turns_checksums_off(event: bytes) -> None:
    """As a server writes it into an `.ibb` log: no place, not in use, algorithm off, its own checksum right."""
    in_use = event[:17] + bytes([event[17] | 1]) + event[18:]
    detached = detached_format_description(in_use)
    assert len(detached) == len(event)
    assert struct.unpack_from("<IH", detached, 13) == (0, 0)
    assert struct.unpack_from("<I", detached, len(detached) - 4)[0] == zlib.crc32(detached[:-4])
    description = parse_format_description(detached, AT)
    assert description.algorithm is ChecksumAlgorithm.NONE
    assert description.checksum_size == 0
    assert description.created == parse_format_description(event, AT).created
