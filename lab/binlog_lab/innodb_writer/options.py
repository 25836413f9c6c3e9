"""Server settings that affect the files: `WriterOptions`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from binlog_format.errors import OptionError
from binlog_format.innodb.layout import (
    FILE_PAGES_MIN,
    OOB_DATA_MAX,
    PAGE_CHECKSUM_SIZE,
    PAGE_SIZE_DEFAULT,
    PAGE_SIZE_MAX,
    PAGE_SIZE_MIN,
)

CACHE_BLOCK_SIZE = 8192
"""A transaction's buffer is a multiple of this."""

FIRST_LSN = 50_000
"""A new server has written some redo log before its first binlog file."""


class RedoSync(Enum):
    """Time at which the redo log becomes durable and so survives a crash."""

    NONE = "no redo log is kept; the writer cannot crash"
    COMMIT = "at the end of each commit (innodb_flush_log_at_trx_commit=1)"
    TIMER = "when `sync_redo` is called, at a checkpoint, and when a file is closed (the settings 0 and 2)"
    EXPLICIT = "only when `sync_redo` is called; what lies before the last two files is durable all the same"


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """Settings of the modelled server; the defaults are the server's own, apart from `sync`.

    Attributes:
        page_size: A power of two, 512 to 65536. Servers write 16384 only.
        max_binlog_size: Bytes of a file, rounded down to whole pages, at least 4 pages. All of it is taken from the
            disk when a file is made, and one file more is always made ahead.
        state_interval: `innodb_binlog_state_interval`, bytes between GTID state records; 0: only in page 1 of a file.
        cache_size: `binlog_cache_size`, bytes: a transaction that is larger goes out of band.
        stmt_cache_size: `binlog_stmt_cache_size`, the same for non-transactional changes.
        preallocate: Make file N+1 while N is written. Without it a file is made when the writer gets there.
        sync: Call fsync and fdatasync where the server does. Without it a crash of the machine (not of the process)
            can leave holes.
        fresh_interval_in_bytes: Keep the server's slip that the interval of a fresh server's first file is in bytes.
        lsn: Log sequence number that a fresh log starts with.
        redo_sync: Whether a redo log is modelled, so that `BinlogWriter.crash` works, and when it is durable.
    """

    page_size: int = PAGE_SIZE_DEFAULT
    max_binlog_size: int = 1 << 30
    state_interval: int = 2 << 20
    cache_size: int = 32768
    stmt_cache_size: int = 32768
    preallocate: bool = True
    sync: bool = True
    fresh_interval_in_bytes: bool = False
    lsn: int = FIRST_LSN
    redo_sync: RedoSync = RedoSync.NONE

    def __post_init__(self) -> None:
        size = self.page_size
        if not PAGE_SIZE_MIN <= size <= PAGE_SIZE_MAX or size & (size - 1):
            raise _invalid("page_size", size, f"a power of two from {PAGE_SIZE_MIN} to {PAGE_SIZE_MAX}")
        interval_pages, rest = divmod(self.state_interval, size)
        if rest or self.state_interval < 0 or interval_pages & (interval_pages - 1):
            raise _invalid("state_interval", self.state_interval, "0, or the page size times a power of two")
        for name in ("max_binlog_size", "cache_size", "stmt_cache_size"):
            if getattr(self, name) <= 0:
                raise _invalid(name, getattr(self, name), "a positive number of bytes")

    @property
    def data_size(self) -> int:
        """Bytes of a page in front of its checksum."""
        return self.page_size - PAGE_CHECKSUM_SIZE

    @property
    def page_count(self) -> int:
        """Pages of a new file."""
        return max(FILE_PAGES_MIN, self.max_binlog_size // self.page_size)

    @property
    def state_interval_pages(self) -> int:
        """Pages between GTID state records, as new files contain in their header."""
        return self.state_interval // self.page_size

    @property
    def oob_data_max(self) -> int:
        """Largest payload of one out-of-band record."""
        return max(1, min(OOB_DATA_MAX, self.max_binlog_size // 2, self.cache_size))

    @property
    def buffer_size(self) -> int:
        """Bytes that a transactional cache holds in memory."""
        return _whole_blocks(self.cache_size)

    @property
    def stmt_buffer_size(self) -> int:
        """Bytes that a statement cache holds in memory."""
        return _whole_blocks(self.stmt_cache_size)


def _whole_blocks(size: int) -> int:
    return -(-size // CACHE_BLOCK_SIZE) * CACHE_BLOCK_SIZE


def _invalid(name: str, value: int, expected: str) -> OptionError:
    return OptionError("INVALID_VALUE", f"{name} = {value}: expected {expected}")
