"""Parts of `.ibb` files: lists of compressed integers, as records begin with them, header pages, page checksums."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crc32c import crc32c

from binlog_format.innodb.compressed_int_kernels import INT_CUT_OFF, read_int
from binlog_format.innodb.layout import (
    COMPRESSED_INT_SHORT_SIZE_MAX,
    COMPRESSED_INT_SIZE_MAX,
    COMPRESSED_INT_TAG_BITS,
    COMPRESSED_INT_TAG_MASK,
    HEADER_CHECKSUM_OFFSET,
    HEADER_FIELDS_SIZE,
    HEADER_STRUCT,
    MAGIC,
    NO_XA_REFERENCE,
    PAGE_CHECKSUM_SIZE,
    PAGE_CHECKSUM_STRUCT,
)
from binlog_format.innodb.pages.checksum import page_checksum
from binlog_format.kernels import as_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_format.innodb.header import FileHeader


def encode_compressed_int(value: int) -> bytes:
    """Encode *value*, 0 to 2**64-1, in the shortest form."""
    if not 0 <= value < 1 << 64:
        raise ValueError(f"{value} is not an unsigned number of 64 bits")
    size = (value.bit_length() + COMPRESSED_INT_TAG_BITS + 7) // 8 or 1
    if size > COMPRESSED_INT_SHORT_SIZE_MAX:
        size = COMPRESSED_INT_SIZE_MAX
    tag = min(size - 1, COMPRESSED_INT_TAG_MASK)
    return (value << COMPRESSED_INT_TAG_BITS | tag).to_bytes(size, "little")


def decode_compressed_int(data: bytes, at: int = 0) -> tuple[int, int]:
    """Decode the integer at *at*.

    Returns:
        Its value and the byte after it.
    """
    after, value = read_int(as_bytes(data[at : at + COMPRESSED_INT_SIZE_MAX]), 0, min(len(data) - at, 9))
    if after < 0:
        problem = "is cut off" if after == INT_CUT_OFF else "has more than 64 bits"
        raise ValueError(f"the compressed integer at byte {at} {problem}")
    return int(value), at + after


def encode_compressed_ints(numbers: Iterable[int]) -> bytes:
    """The shortest forms of *numbers*, one after the other."""
    return b"".join(map(encode_compressed_int, numbers))


def set_page_checksum(page: bytearray | memoryview) -> None:
    """Write the checksum of a whole page into its last 4 bytes."""
    PAGE_CHECKSUM_STRUCT.pack_into(page, len(page) - PAGE_CHECKSUM_SIZE, page_checksum(page))


def encode_header_page(header: FileHeader) -> bytes:
    """The whole header page, with both checksums."""
    page = bytearray(header.page_size)
    HEADER_STRUCT.pack_into(
        page,
        0,
        MAGIC,
        header.page_size.bit_length() - 1,
        header.version_major,
        header.version_minor,
        header.file_no,
        header.page_count,
        header.lsn,
        header.state_interval,
        header.oob_reference_file_no,
        NO_XA_REFERENCE if header.xa_reference_file_no is None else header.xa_reference_file_no,
    )
    assert not any(page[HEADER_FIELDS_SIZE:])
    PAGE_CHECKSUM_STRUCT.pack_into(page, HEADER_CHECKSUM_OFFSET, crc32c(bytes(page[:HEADER_CHECKSUM_OFFSET])))
    set_page_checksum(page)
    return bytes(page)
