"""Checks on headers, each alone and beside those of the other files: `check_headers`."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from binlog_format.errors import CorruptError, DataLossError
from binlog_format.findings import NOT_YET, Finding
from binlog_format.innodb.header import file_name
from binlog_format.innodb.inspection.file_views import HeaderState
from binlog_format.position import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.innodb.inspection.file_views import FileView
    from binlog_format.source_file import Directory


def check_header(file: FileView, before: FileView | None, is_last: bool) -> Iterator[Finding]:
    """Check the header of a file.

    Args:
        file: The file.
        before: The last one before it that has a good header.
        is_last: No later file has been begun.
    """
    for error in file.problems:
        yield Finding.of(error)
    if file.header is not None or file.state is HeaderState.DAMAGED:
        yield from _check_size(file, is_last)
    if file.header is None:
        if file.state is HeaderState.EMPTY and not is_last and not file.problems:
            reason = "the file is empty, but a later one has been begun"
            yield Finding.of(CorruptError("HEADER", reason, at=file.place(0)))
        return
    header = file.header
    # FLUSH can add one page to a file that is full.
    if file.page_count > header.page_count + 1:
        yield _wrong(file, 24, f"page count: the header has {header.page_count}, the file has {file.page_count}")
    # A fresh server writes the interval of its first file in bytes: a power of two as well.
    if header.state_interval & (header.state_interval - 1):
        yield _wrong(file, 40, f"GTID state interval: expected a power of two or 0, got {header.state_interval}")
    if header.oob_reference_file_no > header.file_no:
        yield _wrong(
            file, 48, f"lowest file with out-of-band data: {header.oob_reference_file_no} comes after this one"
        )
    if header.xa_reference_file_no is not None and header.xa_reference_file_no > header.file_no:
        yield _wrong(file, 56, f"lowest file with prepared XA: {header.xa_reference_file_no} comes after this one")
    if before is not None and before.header is not None:
        if header.lsn < before.header.lsn:
            yield _wrong(file, 32, f"LSN {header.lsn} is lower than {before.header.lsn} of {before.name}")
        if header.page_size != before.header.page_size:
            yield _wrong(
                file, 4, f"page size: {before.name} has {before.header.page_size}, this one {header.page_size}"
            )


def _check_size(file: FileView, is_last: bool) -> Iterator[Finding]:
    rest = file.size % file.page_size
    if rest == 0:
        return
    reason = f"{rest} bytes after the last whole page"
    at = file.place(file.page_count)
    if is_last:
        yield Finding.remark(NOT_YET, at, reason)
    else:
        yield Finding.of(DataLossError("TRUNCATED_TRANSACTION", reason + ": the file was cut off", at=at))


def missing_files(files: list[FileView], directory: Directory) -> Iterator[tuple[int, Finding]]:
    """Gaps between the numbers of *files*, which are in *directory*, each with the number after it."""
    for before, file in pairwise(files):
        if file.file_no == before.file_no + 1:
            continue
        last = file.file_no - 1
        said = "" if last == before.file_no + 1 else f" (and all up to {file_name(last)})"
        yield (
            file.file_no,
            Finding.of(
                DataLossError(
                    "FILE_PURGED",
                    f"the file is not there{said}, but those before and after it are",
                    at=Place(directory.path_of(file_name(before.file_no + 1))),
                    hint="The files were not copied together; a server removes only the first ones",
                )
            ),
        )


def _wrong(file: FileView, byte: int, reason: str) -> Finding:
    return Finding.of(CorruptError("HEADER", reason, at=file.place(0, byte)))
