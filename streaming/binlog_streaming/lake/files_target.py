"""Targets whose tables are files and commits that name them, as those of Delta and Iceberg: `FilesTarget`.

New Parquet files of one partition of a table, one after the other, each until it has its size: `SizedFiles`.

One commit of several of them, where the format has that: `JointCommit`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import pyarrow as pa

from binlog_streaming.lake.change import File, TableFiles, check_defaults, check_generated
from binlog_streaming.lake.commit_id import WriteCost
from binlog_streaming.lake.evolution import cast_rows
from binlog_streaming.lake.key_lookup import found_rows
from binlog_streaming.lake.merge import remove_rows, supersede, supersede_part, superseded_by_later_part
from binlog_streaming.lake.target import Target, TargetFactory
from binlog_streaming.settings.choices import Merge

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    import pyarrow.parquet as pq

    from binlog_format.kernels import Int64s
    from binlog_streaming.lake.change import Change, Contradictions
    from binlog_streaming.lake.commit_id import CommitId
    from binlog_streaming.lake.key_lookup import Search
    from binlog_streaming.lake.merge import Superseded, WrittenFiles


class FilesWrite(TableFiles[File], Protocol[File]):
    """One commit on its way into a table; its files go when it is left before they were committed or detached."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    @property
    def is_empty(self) -> bool:
        """True if nothing has been written or removed so far."""

    @property
    def row_count(self) -> int:
        """Rows that were written."""

    def detach(
        self, superseded: Sequence[Superseded[File]], row_count: int, contradicted: Contradictions | None = None
    ) -> WrittenFiles[File]:
        """End the files, for another one to commit them; they stay."""

    def attach(self, written: WrittenFiles[File]) -> None:
        """Add files that another process has written to the commit."""


Write = TypeVar("Write", bound=FilesWrite[Any])


class FilesTarget(Target, Generic[Write]):
    """See `Target`: a step writes files, and then makes one commit that adds them and removes others.

    Commits fail where the table is not any more what it was when it was looked at (`is_conflict`).
    """

    supports_parallel_write: ClassVar[bool] = True

    @abstractmethod
    def _begin(self) -> Write:
        """Begin a commit with the columns of the table."""

    @abstractmethod
    def _commit(
        self, write: Write, commit_id: CommitId, operation: str = "WRITE", cost: WriteCost | None = None
    ) -> None:
        """Make the commit.

        Args:
            operation: The name that Delta has for it.
            cost: What writing files anew has cost, up to this commit; None: as recorded before.
        """

    @abstractmethod
    def write_cost(self) -> WriteCost:
        """Cost of files that were written anew, as the last commits record it."""

    @abstractmethod
    def _conflict(self) -> Exception:
        """The error of a commit for which the table is not any more what it was."""

    @property
    @abstractmethod
    def _merge_kind(self) -> Merge:
        """Way in which superseded rows go."""

    def append(self, rows: pa.RecordBatchReader, commit_id: CommitId) -> None:
        """See `Target`."""
        with self._begin() as write:
            _write_new(write, rows)
            self._commit(write, commit_id)

    def merge(self, change: Change, commit_id: CommitId) -> int:
        """See `Target`."""
        with self._begin() as write:
            cost = self._remove_rows(write, supersede(write, change, commit_id.keys))
            if write.is_empty:
                return 0
            self._commit(write, commit_id, "MERGE", cost)
        return change.row_count

    def _remove_rows(self, write: Write, superseded: Sequence[Superseded[Any]]) -> WriteCost | None:
        # Only the default way looks at the cost, which has to be read.
        counts = bool(superseded) and self._merge_kind is Merge.AUTO
        before = self.write_cost() if counts else WriteCost()
        after = remove_rows(write, superseded, self._merge_kind, before)
        return after if counts and after is not before else None

    def append_part(self, rows: pa.RecordBatchReader) -> WrittenFiles[Any]:
        """See `Target`."""
        with self._begin() as write:
            _write_new(write, rows)
            return write.detach((), write.row_count)

    def merge_part(self, change: Change, keys: Sequence[str]) -> WrittenFiles[Any]:
        """See `Target`."""
        with self._begin() as write:
            superseded, contradicted = supersede_part(write, change, keys)
            return write.detach(superseded, change.row_count, contradicted)

    @property
    def supports_late_dedup(self) -> bool:
        """See `Target`."""
        return self._merge_kind is not Merge.REWRITE

    def superseded_by_later_part(
        self, parts: Sequence[WrittenFiles[Any]], keys: pa.Table, by: Int64s
    ) -> WrittenFiles[Any]:
        """See `Target`."""
        with self._begin() as write:
            return write.detach(superseded_by_later_part(write, parts, keys, by), 0)

    def commit_parts(self, parts: Sequence[WrittenFiles[Any]], commit_id: CommitId) -> int:
        """See `Target`."""
        with self._begin() as write:
            for part in parts:
                write.attach(part)
            if commit_id.keys and any(part.version != self.version() for part in parts):
                raise self._conflict()
            cost = self._remove_rows(write, [rows for part in parts for rows in part.superseded])
            if write.is_empty:
                return 0
            self._commit(write, commit_id, "MERGE" if commit_id.keys else "WRITE", cost)
        return sum(part.row_count for part in parts)

    def select(self, search: Search, names: Sequence[str]) -> pa.Table:
        """See `Target`."""
        return found_rows(self._begin(), search, names)


def _write_new(write: FilesWrite[Any], rows: pa.RecordBatchReader) -> None:
    check_defaults(write, rows.schema)
    check_generated(write, rows.schema)
    write.write(cast_rows(rows, write.schema))


@dataclass(frozen=True, slots=True)
class WaitingCommits(ABC):
    """Commits of one target that wait for those of others."""

    uri: str

    @property
    @abstractmethod
    def needs_maintenance(self) -> bool:
        """True if `JointCommit.maintain` has something to do after them."""


class WaitingTargets(TargetFactory, Protocol):
    """Maker of targets whose commits wait; it is pickled with what waits, for tasks that write parts of a step."""

    def waiting(self) -> Sequence[WaitingCommits]:
        """Waiting commits, of each target that has some."""


Waiting = TypeVar("Waiting", bound=WaitingCommits)


class JointCommit(ABC, Generic[Waiting]):
    """One commit of several targets: readers see all of it at once."""

    @abstractmethod
    def targets(self) -> WaitingTargets:
        """Targets for one component of a batch."""

    @abstractmethod
    def commit(self, waiting: Sequence[Waiting]) -> frozenset[str]:
        """Make all commits that wait, or none; what has been made already is not made again.

        Returns:
            Places of targets that somebody else has changed since they were looked at: their steps are to be done
            again. Empty: all commits are there.
        """

    @abstractmethod
    def maintain(self, waiting: Waiting) -> None:
        """Do the maintenance of a target that is due after its commits, which have been made."""


ROW_GROUP_BYTES = 32 << 20
"""Rows that are written at once, as they are in memory; two such parts are in memory while a file is written."""


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
