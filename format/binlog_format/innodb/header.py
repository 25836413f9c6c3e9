"""The header page of an `.ibb` file: `FileHeader`, `read_header`; and file names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from crc32c import crc32c

from binlog_format.errors import CorruptError, UnsupportedError
from binlog_format.innodb.layout import (
    FILE_NAME_DIGITS,
    FILE_NAME_PREFIX,
    FILE_NAME_SUFFIX,
    FILE_NO_MAX,
    HEADER_CHECKSUM_OFFSET,
    HEADER_SIZE,
    HEADER_STRUCT,
    MAGIC,
    MAGIC_OFFSET,
    MAGIC_SIZE,
    NO_XA_REFERENCE,
    PAGE_CHECKSUM_STRUCT,
    PAGE_SIZE_DEFAULT,
    PAGE_SIZE_LOG2_MAX,
    PAGE_SIZE_LOG2_MIN,
    VERSION_MAJOR,
    VERSION_MINOR,
)
from binlog_format.position import Place

_FILE_NAME = re.compile(re.escape(FILE_NAME_PREFIX) + r"([0-9]+)" + re.escape(FILE_NAME_SUFFIX))
_ALL_ZERO = bytes(HEADER_SIZE)
_NAMES_KEPT = 1 << 14  # a log is listed several times a second, with the same names
_INCOMPLETE_HINT = "The file is damaged, or is not a binlog file of MariaDB 12.3"


@dataclass(frozen=True, slots=True)
class FileHeader:
    """Fields of a header page.

    Attributes:
        page_count: Pages of the file when it was begun; the real size counts, FLUSH makes files shorter.
        lsn: InnoDB log sequence number at the start of the file.
        state_interval: Pages between two GTID state records; 0: only in page 1. A fresh server writes bytes for file 0.
        oob_reference_file_no: Lowest file that commit records of this one may refer to.
        xa_reference_file_no: Lowest file with a prepared XA transaction; None: there is none.
        page_size: In bytes; the page has its logarithm.
        version_major: Version that must be known.
        version_minor: Version that need not be known.
    """

    file_no: int
    page_count: int
    lsn: int
    state_interval: int
    oob_reference_file_no: int
    xa_reference_file_no: int | None = None
    page_size: int = PAGE_SIZE_DEFAULT
    version_major: int = VERSION_MAJOR
    version_minor: int = VERSION_MINOR


def file_name(file_no: int) -> str:
    """The name that the server gives file *file_no*."""
    return f"{FILE_NAME_PREFIX}{file_no:0{FILE_NAME_DIGITS}}{FILE_NAME_SUFFIX}"


@lru_cache(maxsize=_NAMES_KEPT)
def file_number(name: str) -> int | None:
    """The number in a file name; None when *name* is not one that the server would read."""
    match = _FILE_NAME.fullmatch(name)
    if match is None:
        return None
    number = int(match[1])
    return number if number <= FILE_NO_MAX else None


def read_header(head: bytes, path: str, file_no: int | None = None) -> FileHeader | None:
    """Decode and verify the first bytes of a file.

    The checksum of the whole header page is left to the caller, who knows the page size only after this.

    Args:
        head: At least 512 bytes; more are ignored.
        file_no: The number in the file's name, to be compared; None: any.

    Returns:
        None when nothing has been written yet (the server makes files before it uses them).
    """
    if head[:HEADER_SIZE] == _ALL_ZERO:
        return None
    fields = HEADER_STRUCT.unpack_from(head)
    magic, page_size_log2, major, minor, number, page_count, lsn, interval, oob_reference, xa_reference = fields
    if magic != MAGIC:
        magic_bytes = head[MAGIC_OFFSET : MAGIC_OFFSET + MAGIC_SIZE].hex(" ")
        raise _bad_header(path, 0, f"expected the magic bytes fe fe 0d 01, got {magic_bytes}")
    stored = PAGE_CHECKSUM_STRUCT.unpack_from(head, HEADER_CHECKSUM_OFFSET)[0]
    computed = crc32c(head[:HEADER_CHECKSUM_OFFSET])
    if stored != computed:
        reason = f"header CRC-32C: stored {stored:#010x}, computed {computed:#010x}"
        raise _bad_header(path, HEADER_CHECKSUM_OFFSET, reason)
    if major > VERSION_MAJOR:
        raise UnsupportedError(
            "VERSION",
            f"format version {major}.{minor}, this program reads up to {VERSION_MAJOR}",
            at=Place(path, page=0, byte=8),
            hint="Update binlog-stream",
        )
    if not PAGE_SIZE_LOG2_MIN <= page_size_log2 <= PAGE_SIZE_LOG2_MAX:
        raise _bad_header(path, 4, f"log2 of the page size: expected 9 to 16, got {page_size_log2}")
    if file_no is not None and number != file_no:
        raise _bad_header(path, 16, f"file number: the name has {file_no}, the header has {number}")
    xa_file = None if xa_reference == NO_XA_REFERENCE else xa_reference
    return FileHeader(number, page_count, lsn, interval, oob_reference, xa_file, 1 << page_size_log2, major, minor)


def _bad_header(path: str, byte: int, reason: str) -> CorruptError:
    return CorruptError("HEADER", reason, at=Place(path, page=0, byte=byte), hint=_INCOMPLETE_HINT)
