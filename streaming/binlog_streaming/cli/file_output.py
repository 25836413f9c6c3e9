"""Rows into a Parquet or Arrow file, all or nothing: `write_file`."""

from __future__ import annotations

import os
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from binlog_format.errors import storage_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


ROW_GROUP_ROWS = 1 << 17


class FileFormat(StrEnum):
    """Format of files."""

    PARQUET = "parquet"
    ARROW = "arrow"


class _Writer(Protocol):
    def write_table(self, table: pa.Table) -> None: ...


def write_file(
    batches: Iterator[pa.RecordBatch], empty_schema: Callable[[], pa.Schema], file_format: FileFormat, path: Path
) -> int:
    """Write all batches, which have one schema; the file is there when it is complete, and replaces an older one.

    Args:
        empty_schema: Gives the schema when there are no rows.

    Returns:
        Rows written.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        rows = _write(batches, empty_schema, file_format, partial)
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.replace(path)
    except OSError as error:
        raise storage_error(path, "write", error) from error
    finally:
        with suppress(OSError):  # where it could not be made, there is nothing to remove
            partial.unlink(missing_ok=True)
    return rows


def _write(
    batches: Iterator[pa.RecordBatch], empty_schema: Callable[[], pa.Schema], file_format: FileFormat, path: Path
) -> int:
    first = next(batches, None)
    schema = empty_schema() if first is None else first.schema
    rows = 0
    opened = (
        pq.ParquetWriter(path, schema, compression="zstd")
        if file_format is FileFormat.PARQUET
        else pa.ipc.new_file(path, schema)
    )
    with opened as writer:
        waiting: list[pa.RecordBatch] = []
        while first is not None:
            waiting.append(first)
            if sum(batch.num_rows for batch in waiting) >= ROW_GROUP_ROWS:
                rows += _flush(writer, waiting, schema)
            first = next(batches, None)
        rows += _flush(writer, waiting, schema)
    return rows


def _flush(writer: _Writer, waiting: list[pa.RecordBatch], schema: pa.Schema) -> int:
    # Blocks give small batches; readers want large ones.
    table = pa.Table.from_batches(waiting, schema).combine_chunks()
    waiting.clear()
    rows: int = table.num_rows
    if rows:
        writer.write_table(table)
    return rows
