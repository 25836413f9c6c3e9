"""New Parquet files of one partition of a table, one after the other, each until it has its size: `SizedFiles`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    import pyarrow.parquet as pq

ROW_GROUP_BYTES = 32 << 20
"""Rows that are written at once, as they are in memory; two such parts are in memory while a file is written."""

File = TypeVar("File")


class SizedFiles(ABC, Generic[File]):
    """Writes rows; a format says what its files are. *file_size*: in bytes."""

    def __init__(self, file_size: int) -> None:
        self._file_size = file_size
        self._group_bytes = max(1, min(ROW_GROUP_BYTES, file_size // 2))
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0
        self._written: list[File] = []
        self._writer: pq.ParquetWriter | None = None

    @abstractmethod
    def _begin(self, rows: pa.Table) -> pq.ParquetWriter:
        """Begin a file; *rows* are its first ones."""

    @abstractmethod
    def _size(self) -> int:
        """Bytes of the open file so far."""

    @abstractmethod
    def _end(self, writer: pq.ParquetWriter) -> File:
        """End the open file, which has its footer."""

    def _in_file(self, rows: pa.Table) -> pa.Table:
        """Rows as files have them."""
        return rows

    def write(self, rows: pa.Table) -> None:
        """Add rows."""
        # They may be more than all that is wanted.
        step = max(1, rows.num_rows * self._group_bytes // (4 * max(rows.nbytes, 1)))
        for start in range(0, rows.num_rows, step):
            piece = rows.slice(start, step)
            self._waiting.append(piece)
            self._waiting_bytes += piece.nbytes
            if self._waiting_bytes >= self._group_bytes:
                self._flush()
                if self._size() >= self._file_size:
                    self._end_file()

    def close(self) -> list[File]:
        """End the last file; facts of all of them."""
        if self._waiting:
            self._flush()
        self._end_file()
        return self._written

    def close_writer(self) -> None:
        """Let go of an open file that nobody wants."""
        writer, self._writer = self._writer, None
        if writer is not None:
            with suppress(OSError, pa.ArrowException, RuntimeError):  # it has no footer to give, and raises
                writer.close()

    def _flush(self) -> None:
        rows = self._in_file(pa.concat_tables(self._waiting))
        if self._writer is None:
            self._writer = self._begin(rows)
        self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))
        self._waiting, self._waiting_bytes = [], 0

    def _end_file(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._written.append(self._end(self._writer))
            self._writer = None
