"""Header pages, file names and compressed integers.

Every page size: the whole, any page as a start, and any number of parts give the same groups. Page checksums: the
kernel and the package agree, on any page size, about any damage.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from binlog_format import CorruptError, Position, UnsupportedError, open_log
from binlog_format.innodb.compressed_int_kernels import INT_CUT_OFF, INT_TOO_LARGE, read_int
from binlog_format.innodb.header import FileHeader, file_name, file_number, read_header
from binlog_format.innodb.layout import HEADER_CHECKSUM_OFFSET, HEADER_STRUCT, MAGIC
from binlog_format.innodb.pages import checksum_kernels
from binlog_format.innodb.pages.checksum import PageState, verify_pages
from binlog_format.kernels import as_bytes
from binlog_lab.innodb_writer.encoding import (
    decode_compressed_int,
    encode_compressed_int,
    encode_header_page,
    set_page_checksum,
)
from binlog_lab.innodb_writer.options import WriterOptions
from tests.format.innodb.log_groups import read_groups
from tests.format.innodb.test_out_of_band import write_interleaved

if TYPE_CHECKING:
    from pathlib import Path


UINT64 = st.integers(0, 2**64 - 1)

# Integers and their compressed form.
KNOWN_INTS = {
    0: "00",
    0x1F: "f8",
    0x20: "0101",
    0x1FFF: "f9ff",
    0x2000: "020001",
    0x1FFFFF: "faffff",
    0x200000: "03000001",
    0x1FFFFFFF: "fbffffff",
    0x20000000: "0400000001",
    0x1FFFFFFFFF: "fcffffffff",
    0x2000000000: "050000000001",
    0x1FFFFFFFFFFF: "fdffffffffff",
    0x200000000000: "06000000000001",
    0x1FFFFFFFFFFFFF: "feffffffffffff",
    0x20000000000000: "070000000000000100",
    2**64 - 1: "ffffffffffffffff07",
}


@pytest.mark.parametrize(("value", "coded"), KNOWN_INTS.items())
def test_known_integers(value: int, coded: str) -> None:
    assert encode_compressed_int(value).hex() == coded
    assert decode_compressed_int(bytes.fromhex(coded)) == (value, len(coded) // 2)


@given(UINT64, st.binary(max_size=12))
def test_integer_round_trip(value: int, after: bytes) -> None:
    coded = encode_compressed_int(value)
    assert decode_compressed_int(b"x" + coded + after, 1) == (value, 1 + len(coded))
    for size in range(len(coded)):
        assert read_int(as_bytes(coded), 0, size)[0] == INT_CUT_OFF


@given(st.integers(8, 255), st.binary(min_size=7, max_size=7))
def test_integer_of_more_than_64_bits_is_refused(last: int, middle: bytes) -> None:
    data = bytes([7]) + middle + bytes([last])
    assert read_int(as_bytes(data), 0, 9)[0] == INT_TOO_LARGE
    with pytest.raises(ValueError, match="64 bits"):
        decode_compressed_int(data)


@given(UINT64, UINT64, UINT64, UINT64, UINT64, st.integers(0, 2**64 - 2) | st.none(), st.integers(9, 16))
def test_header_round_trip(
    file_no: int, pages: int, lsn: int, interval: int, oob: int, xa: int | None, log2: int
) -> None:
    header = FileHeader(file_no, pages, lsn, interval, oob, xa, 1 << log2)
    page = encode_header_page(header)
    assert len(page) == 1 << log2
    assert read_header(page, "x", file_no) == header
    assert verify_pages(as_bytes(page), 1 << log2) == (1, PageState.GOOD)


def test_header_checksum_is_that_of_the_specification() -> None:
    """The header in MariaDB's own test suite has the checksum 0x81c60910; see also the check value."""
    assert crc32c(b"123456789") == 0xE3069283
    page = encode_header_page(FileHeader(3, 16, 50_000, 4, 2))
    assert int.from_bytes(page[508:512], "little") == crc32c(page[:508])


def test_every_flipped_bit_of_a_header_is_refused() -> None:
    page = encode_header_page(FileHeader(3, 16, 50_000, 4, 2))
    for bit in range(8 * 512):
        damaged = bytearray(page)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptError):
            read_header(bytes(damaged), "x", 3)


def forged_header(*fields: int) -> bytes:
    page = bytearray(16384)
    HEADER_STRUCT.pack_into(page, 0, *fields)
    page[HEADER_CHECKSUM_OFFSET : HEADER_CHECKSUM_OFFSET + 4] = crc32c(bytes(page[:508])).to_bytes(4, "little")
    set_page_checksum(page)
    return bytes(page)


def test_later_major_version_is_unsupported_and_minor_is_not() -> None:
    assert read_header(forged_header(MAGIC, 14, 1, 99, 0, 16, 1, 4, 0, 2**64 - 1), "x", 0) is not None
    assert read_header(forged_header(MAGIC, 14, 0, 0, 0, 16, 1, 4, 0, 2**64 - 1), "x", 0) is not None
    with pytest.raises(UnsupportedError) as raised:
        read_header(forged_header(MAGIC, 14, 2, 0, 0, 16, 1, 4, 0, 2**64 - 1), "x", 0)
    assert raised.value.condition == "BINLOG_UNSUPPORTED.VERSION"


@pytest.mark.parametrize("log2", [0, 8, 17, 46, 2**32 - 1])
def test_page_size_out_of_range_is_refused_before_it_is_used(log2: int) -> None:
    with pytest.raises(CorruptError):
        read_header(forged_header(MAGIC, log2, 1, 0, 0, 16, 1, 4, 0, 2**64 - 1), "x", 0)


def test_empty_header_is_no_header() -> None:
    assert read_header(bytes(512), "x", 0) is None


@given(st.integers(0, 2**64 - 2))
def test_file_name_round_trip(file_no: int) -> None:
    assert file_number(file_name(file_no)) == file_no


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("binlog-000000.ibb", 0),
        ("binlog-1000000.ibb", 1_000_000),
        ("binlog-7.ibb", 7),
        ("binlog-.ibb", None),
        ("binlog--00001.ibb", None),
        ("binlog-000001.ibb.bak", None),
        ("xbinlog-000001.ibb", None),
        (f"binlog-{2**64 - 1}.ibb", None),
        ("binlog-٠٠٠٠٠١.ibb", None),  # noqa: RUF001  (digits, but not these)
    ],
)
def test_file_names(name: str, number: int | None) -> None:
    assert file_number(name) == number


PAGE_SIZES = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536]


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_any_page_is_a_start(page_size: int, tmp_path: Path) -> None:
    options = WriterOptions(
        page_size=page_size,
        max_binlog_size=max(16 * page_size, 65536),
        state_interval=4 * page_size,
        cache_size=4096,
        sync=False,
    )
    wanted = write_interleaved(tmp_path / "log", options, transactions=25, seed=page_size)
    with open_log(str(tmp_path / "log")) as log:
        whole = read_groups(log)
        assert {group.gtid: group.data for group in whole} == wanted
        assert [group.position for group in whole] == sorted({group.position for group in whole})
        starts = [
            Position(file.file_no, page, 0)
            for file in log.files()
            if file.header
            for page in range(1, file.used_size // page_size + 1)
        ]
        assert len(starts) > 10
        for start in starts[:: max(len(starts) // 60, 1)]:
            assert read_groups(log, None, start) + read_groups(log, start) == whole
        begin, end = log.start_position(), log.end_position()
        assert end == log.span(begin).end
        for count in (2, 5, 40):
            borders = [begin, *log.split(begin, end, count), end]
            parts = [group for part in itertools.pairwise(borders) for group in read_groups(log, *part)]
            assert parts == whole


SOME_PAGE_SIZES = [512, 1024, 16384, 65536]


def pages(count: int, page_size: int, seed: int = 1) -> bytearray:
    data = bytearray(np.random.default_rng(seed).integers(0, 256, count * page_size, dtype=np.uint8).tobytes())
    for start in range(0, len(data), page_size):
        set_page_checksum(memoryview(data)[start : start + page_size])
    return data


@pytest.mark.parametrize("with_kernel", [True, False])
@given(data=st.data())
def test_pages_are_good_up_to_the_damage(with_kernel: bool, data: st.DataObject) -> None:
    page_size = data.draw(st.sampled_from(SOME_PAGE_SIZES))
    count = data.draw(st.integers(0, 11))
    content = pages(count, page_size, data.draw(st.integers(0, 99)))
    wanted, state = count, PageState.GOOD
    if count > 0 and data.draw(st.booleans()):
        byte = data.draw(st.integers(0, len(content) - 1))
        content[byte] ^= 1 << data.draw(st.integers(0, 7))
        wanted, state = byte // page_size, PageState.BAD
    elif count > 0 and data.draw(st.booleans()):
        wanted, state = data.draw(st.integers(0, count - 1)), PageState.ZERO
        content[wanted * page_size : (wanted + 1) * page_size] = bytes(page_size)
    with pytest.MonkeyPatch.context() as patch:
        if not with_kernel:
            patch.setattr(checksum_kernels, "count_good_pages", None)
        assert verify_pages(as_bytes(content), page_size) == (wanted, state)
