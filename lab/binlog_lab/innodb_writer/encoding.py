"""Parts of `.ibb` files: lists of compressed integers, as records begin with them, header pages, page checksums."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crc32c import crc32c

from binlog_format.innodb.compressed_int_kernels import encode_compressed_int
from binlog_format.innodb.layout import (
    HEADER_CHECKSUM_OFFSET,
    HEADER_FIELDS_SIZE,
    HEADER_STRUCT,
    MAGIC,
    NO_XA_REFERENCE,
    PAGE_CHECKSUM_SIZE,
    PAGE_CHECKSUM_STRUCT,
)
from binlog_format.innodb.pages.checksum import page_checksum

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_format.innodb.header import FileHeader


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
        header.page_size_log2,
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
