"""Data files of a target as they are, beside what its table format records of them: `changed_files(target)`.

Reading trusts the records: of a file into which somebody has put rows, only as many as are recorded are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from binlog_streaming.lake.target import RecordedFile, Target


def changed_files(target: Target) -> list[str]:
    """Say which data files have been changed in place, and how.

    Raises:
        OSError: A file cannot be read.
        pyarrow.ArrowException: A file is no Parquet file.
    """
    return [text for file in target.recorded_files() for text in _differences(file)]


def _differences(file: RecordedFile) -> list[str]:
    with file.open() as opened:
        opened.seek(0, 2)
        size = opened.tell()
        opened.seek(0)
        rows = pq.read_metadata(opened).num_rows
    found = []
    if file.row_count is not None and rows != file.row_count:
        found.append(f"{file.name} has {rows:,} rows, the table records {file.row_count:,}")
    elif size != file.size:
        found.append(f"{file.name} has {size:,} bytes, the table records {file.size:,}")
    return found
