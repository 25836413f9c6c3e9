"""The interface of every sink: `Target`, one table at one place.

A target remembers which query made it, and with every write the batch that it holds now. Who writes has looked before:
a commit by somebody else in between makes the write fail, or change nothing, so a batch never comes in twice.

Places where the write of a table may be cut off, for `reached` and `watched` of `binlog_connector.crash_points`.
Small files that are worth to be joined: `to_be_joined`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from binlog_format.errors import TableError
from binlog_format.names import folded_name
from binlog_streaming.lake.commit_id import (
    GTID_POSITION_KEY,
    KEYS_PROPERTY,
    MODE_PROPERTY,
    QUERY_PROPERTY,
    RULES_PROPERTY,
    SOURCE_PROPERTY,
    commit_id_of,
    joined_keys,
)
from binlog_streaming.lake.key_lookup import filtered
from binlog_streaming.settings.choices import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from binlog_format.kernels import Int64s
    from binlog_streaming.lake.change import Change
    from binlog_streaming.lake.commit_id import Applied, CommitId
    from binlog_streaming.lake.evolution import SchemaChange
    from binlog_streaming.lake.key_lookup import Search
    from binlog_streaming.lake.merge import WrittenFiles
    from binlog_streaming.settings import Sink

    File = TypeVar("File")


NEWEST_CHECKPOINT_HINT = (
    "Bring back the newest checkpoint; or delete the tables and the checkpoint and let this job build them anew from "
    "the log"
)


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """A data file of a target, with what the table format records of it.

    Attributes:
        name: Its path, for messages.
        size: Its bytes.
        row_count: Its rows, deleted ones included; None: this is not recorded.
    """

    name: str
    size: int
    row_count: int | None
    open: Callable[[], AbstractContextManager[pa.NativeFile]]


@dataclass(frozen=True, slots=True)
class Upgrade:
    """A feature that a table gets, and whom that shuts out."""

    feature: str
    shuts_out: str


class Target(ABC):
    """A target table as it was when it was looked at; it may not be there yet.

    A sink gives one of these for a place; who uses it calls `is_done`, `check_owner`, and then one of `create`,
    `append`, `merge`, `evolve` and `replace`; each commit that carries a commit id makes the target know what it holds
    now, so several steps can follow each other on one look, and a repeated one is seen by `is_done`.
    """

    uri: str

    write_errors: ClassVar[tuple[type[Exception], ...]]
    """Errors of the library under it for a failed write."""

    supports_parallel_write: ClassVar[bool] = False
    """True if several processes may write parts of a step: `append_part`, `merge_part`, then `commit_parts`."""

    supports_other_owner: ClassVar[bool] = True
    """True if another query can continue with the table: `transfer_to`."""

    @classmethod
    @abstractmethod
    def at(cls, sink: Sink, uri: str) -> Target:
        """Read the table at *uri*. Raises `OptionError`: `INVALID_VALUE`: the format cannot be kept there."""

    @property
    def is_divisible(self) -> bool:
        """True if several processes may write parts of a step into this table, which is there."""
        return self.supports_parallel_write

    @abstractmethod
    def properties(self) -> Mapping[str, str] | None:
        """`CommitId.table_properties` of whoever made the table; None while there is no table."""

    @abstractmethod
    def applied(self, commit_id: CommitId) -> Applied | None:
        """The last batch of the commit id's query in the table; None while there is none."""

    def gtid_positions(self) -> list[str]:
        """GTIDs that the existing table records; they add up. Empty: none."""
        recorded = (self.properties() or {}).get(GTID_POSITION_KEY)
        return [] if recorded is None else [recorded]

    def transfer_to(self, query_id: str) -> None:
        """Make another query, whose batches are counted from 0, the owner of the table, which is there."""
        properties = self.properties()
        assert properties is not None, "there is a table"
        source_table, mode = properties[SOURCE_PROPERTY], Mode(properties[MODE_PROPERTY])
        self.set_properties(commit_id_of(properties, query_id, source_table, mode))

    def version(self) -> str | None:
        """Version for time travel; None if the format has none or the table does not exist."""
        return None

    def bytes_per_row(self) -> float | None:
        """Bytes of files that were written anew lately for each row that changed; None: that is not recorded."""
        return None

    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns of the table, in its order, as `stored_schema` gives them; the table is there."""

    @abstractmethod
    def stored_schema(self, schema: pa.Schema) -> pa.Schema:
        """Schema that `schema()` returns for a table of *schema*: each type is the nearest one of the format.

        Raises:
            UnsupportedError: `COLUMN_TYPE`: the format has no such type.
        """

    @abstractmethod
    def create(self, schema: pa.Schema, commit_id: CommitId) -> None:
        """Make the table, empty, when it is not there; every column may be null. It does not count as a step.

        The server's NOT NULL is not kept: zero dates become null, and rows may come without some columns.

        Raises:
            OptionError: `INVALID_VALUE`: it cannot be partitioned as the commit id asks.
        """

    @abstractmethod
    def set_properties(self, commit_id: CommitId, *, recorded: Mapping[str, str] | None = None) -> None:
        """Write `CommitId.table_properties` and *recorded* into the table; no step, and nothing when they are there."""

    @abstractmethod
    def append(self, rows: pa.RecordBatchReader, commit_id: CommitId) -> None:
        """Add rows in one commit. Columns go to their names; one that *rows* lacks is null; types are cast up."""

    @abstractmethod
    def merge(self, change: Change, commit_id: CommitId) -> int:
        """Write *change* into the table in one commit, or in none if there is nothing to change.

        Columns of the table that *change* does not have are null in rows that come new, and stay as they are in others.

        Returns:
            Rows and keys brought to the table.
        """

    def append_part(self, rows: pa.RecordBatchReader) -> WrittenFiles[Any]:
        """Write some rows that are added, without committing them: what `append` does of it before the commit."""
        raise NotImplementedError(f"{type(self).__name__} takes steps as a whole")

    def merge_part(self, change: Change, keys: Sequence[str]) -> WrittenFiles[Any]:
        """Write a part of a step, without committing it: what `merge` does of it before the commit.

        Several processes may do so. No key may be in two parts, unless `supports_late_dedup`.

        Args:
            keys: `CommitId.keys`.
        """
        raise NotImplementedError(f"{type(self).__name__} takes steps as a whole")

    @property
    def supports_late_dedup(self) -> bool:
        """True if parts may have the same keys: rows that `superseded_by_later_part` names are marked then."""
        return False

    def superseded_by_later_part(
        self, parts: Sequence[WrittenFiles[Any]], keys: pa.Table, by: Int64s
    ) -> WrittenFiles[Any]:
        """Rows of parts whose keys come again in later parts, as one more part.

        Args:
            parts: What `merge_part` gave, in the order of the log.
            keys: Keys that several parts have, one row for each.
            by: For each the number of the last part that has it.
        """
        raise NotImplementedError(f"{type(self).__name__} takes steps as a whole")

    def commit_parts(self, parts: Sequence[WrittenFiles[Any]], commit_id: CommitId) -> int:
        """Write all parts of a step into the table in one commit, or in none if there is nothing to change.

        Files go when the commit comes to nothing; those of parts that nobody commits stay until maintenance.

        Returns:
            Rows and keys brought to the table.
        """
        raise NotImplementedError(f"{type(self).__name__} takes steps as a whole")

    @abstractmethod
    def evolve(self, change: SchemaChange, commit_id: CommitId) -> None:
        """Change columns, and what existing rows hold in them, in one commit that carries the commit id."""

    @abstractmethod
    def read(self) -> pa.RecordBatchReader:
        """All rows, in `schema()`, a file or less at a time."""

    def identified_rows(self) -> pa.RecordBatchReader:
        """Like `read`, with the columns of `IDENTITY` if the table keeps it: for `replace`, when rows are changed."""
        return self.read()

    def recorded_files(self) -> Iterator[RecordedFile]:
        """The Parquet files that the rows are in; none where the format records nothing of its files."""
        yield from ()

    def select(self, search: Search, names: Sequence[str]) -> pa.Table:
        """The columns *names* of the rows that *search* wants, in no order."""
        return filtered(self.read(), search, names)

    @abstractmethod
    def replace(self, rows: pa.RecordBatchReader, commit_id: CommitId) -> None:
        """Replace all rows by *rows*, and all columns by their columns, in one commit.

        *rows* may be what `read` or `identified_rows` of this very target gives.
        """

    def upgrade(self, sink: Sink, *, is_dry: bool) -> Sequence[Upgrade]:
        """Turn on, in one commit, what a new table with these settings would have; a dry run only tells.

        Raises:
            TableError: `TABLE_FEATURE`: the table cannot have it.
        """
        del sink, is_dry
        return ()

    @abstractmethod
    def maintain(self, sink: Sink) -> None:
        """Do maintenance after some commits: join small files, remove old ones; the rows stay unchanged."""

    @abstractmethod
    def is_conflict(self, error: Exception) -> bool:
        """True if a write failed because another writer committed between the look and the write."""

    def sync(self) -> None:  # noqa: B027 (catalogs and object stores do it themselves)
        """Make the newest commit safe from a loss of power: who made it may have been killed before that."""

    def close(self) -> None:  # noqa: B027 (most have nothing to close)
        """Close connections."""

    def check_owner(self, commit_id: CommitId) -> None:
        """See that this query, this source table and this mode are those that made the table."""
        properties = self.properties()
        if properties is None:
            return
        owner = properties.get(QUERY_PROPERTY)
        if owner != commit_id.query_id:
            raise _other_writer(self.uri, commit_id, owner)
        source, mode, keys = (properties.get(name) for name in (SOURCE_PROPERTY, MODE_PROPERTY, KEYS_PROPERTY))
        if source != commit_id.source_table:
            raise same_target(commit_id.source_table, self.uri, str(source))
        if mode != commit_id.mode:
            raise TableError(
                "MODE_CHANGED",
                f"{commit_id.source_table}: {self.uri} was made with mode {mode}, the job now sets {commit_id.mode}",
                hint="Give the new mode another target, and start it with a new checkpoint; or set the mode back",
            )
        if folded_name(keys or "") != folded_name(joined_keys(commit_id.keys)):
            raise TableError(
                "KEYS_CHANGED",
                f"{commit_id.source_table}: {self.uri} has the key {keys or 'none'}, rows in the log have the key "
                f"{joined_keys(commit_id.keys) or 'none'}, and no statement before them in the log has changed it",
                hint="Delete the table and the checkpoint and start again, or set the keys of this table in the job",
            )
        if properties.get(RULES_PROPERTY, "") != commit_id.rules:
            raise TableError(
                "RULES_CHANGED",
                f"{commit_id.source_table}: {self.uri} was made with other rules for columns and rows, or another salt",
                hint="Set them back; or delete the table and the checkpoint and start again",
            )

    def is_done(self, commit_id: CommitId) -> bool:
        """True if the step is in the table already; it stays there then, also after a loss of power.

        Raises:
            TableError: `CHECKPOINT_BEHIND`: the table holds a later batch, or another one under this number.
        """
        applied = self.applied(commit_id)
        if applied is None or applied.place < commit_id.place:
            return False
        held = applied.last_change if applied.place == commit_id.place else None
        if applied.batch_id > commit_id.batch_id or held not in (None, commit_id.last_change):
            raise _checkpoint_behind(self.uri, commit_id, applied.batch_id, held)
        self.sync()
        return True


class TargetFactory(Protocol):
    """Maker of targets; the class of a sink is one."""

    @property
    def write_errors(self) -> tuple[type[Exception], ...]:
        """See `Target`."""

    def at(self, sink: Sink, uri: str) -> Target:
        """See `Target`."""


def same_target(source_table: str, uri: str, owner: str) -> TableError:
    """The error for a target that would get the rows of two source tables."""
    return TableError(
        "SAME_TARGET",
        f"{source_table}: {uri} already holds {owner}",
        hint="Give the two tables different targets: tables.target with {database} and {table} in it",
    )


def _other_writer(uri: str, commit_id: CommitId, owner: str | None) -> TableError:
    who = f"by query {owner}" if owner is not None else "by somebody else, not by binlog-stream"
    return TableError(
        "OTHER_WRITER",
        f"{commit_id.source_table}: {uri} was written {who}; this checkpoint is of query {commit_id.query_id}",
        hint="Writing on would double or lose rows. Bring back the checkpoint that belongs to the tables; or delete "
        "the tables (or name another sink.directory) and let this job build them anew from the log",
    )


def _checkpoint_behind(uri: str, commit_id: CommitId, version: int, held: str | None) -> TableError:
    place = f" (up to {held}, not {commit_id.last_change})" if held is not None else ""
    return TableError(
        "CHECKPOINT_BEHIND",
        f"{commit_id.source_table}: {uri} already holds batch {version}{place}, the checkpoint is only at batch "
        f"{commit_id.batch_id}: it is older than the table",
        hint=f"Changes would be left out. {NEWEST_CHECKPOINT_HINT}",
    )


class CrashPoint(StrEnum):
    """Step that a write has just finished; a process may end between any two steps."""

    LOOKED = "looked"
    """The target is known, and does not hold the batch."""
    CREATED = "created"
    """The empty table is there."""
    PARTS_WRITTEN = "parts written"
    """All tasks that share the batch's rows have written theirs, and no reader sees them yet."""
    FILES_WRITTEN = "files written"
    """The batch's files are there, and no reader sees them yet."""
    STAGED = "staged"
    """The commit of a managed table is there, and its catalog does not know it yet."""
    RATIFIED = "ratified"
    """The catalog has taken the commit, and it is not published yet."""
    COMMITTED = "committed"
    """Readers see the batch."""


SMALL_FILES_MIN = 16
"""Small files of about one size that are worth to be joined: a row is rewritten about once for every factor of 16."""

JOINED_MAX = 4
"""Most data joined at once, in wanted file sizes: a batch waits for it."""


def to_be_joined(files: Iterable[File], size: Callable[[File], int], *, file_size: int) -> list[File]:
    """Files far below *file_size* that are worth to be joined: many of about one size, and not too much at once.

    Args:
        size: Of a file, in bytes.
    """
    tiers: dict[int, list[File]] = {}
    for file in files:
        if size(file) < file_size // 4:
            tiers.setdefault(round(math.log(max(size(file), 1), SMALL_FILES_MIN)), []).append(file)
    chosen: list[File] = []
    left = JOINED_MAX * file_size
    for _, tier in sorted(tiers.items()):
        if len(tier) < SMALL_FILES_MIN:
            continue
        for file in tier:
            left -= size(file)
            if left >= 0:
                chosen.append(file)
    return chosen
