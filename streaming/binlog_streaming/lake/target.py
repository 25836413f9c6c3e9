"""What every sink can do: `Target`, one table at one place; `CommitId`: who writes what.

A target remembers which query made it, and with every write the batch that it holds now. Who writes has looked before:
a commit by somebody else in between makes the write fail, or change nothing, so a batch never comes in twice.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from binlog_format.errors import TableError
from binlog_streaming.lake.find import filtered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from binlog_streaming.lake.change import Change
    from binlog_streaming.lake.evolution import SchemaChange
    from binlog_streaming.lake.find import Search
    from binlog_streaming.lake.merge import WrittenFiles
    from binlog_streaming.settings import Mode, Sink
    from binlog_streaming.settings.partition_rules import PartitionRule

QUERY_PROPERTY = "binlog-stream.queryId"
SOURCE_PROPERTY = "binlog-stream.sourceTable"
MODE_PROPERTY = "binlog-stream.mode"
KEYS_PROPERTY = "binlog-stream.keys"
RULES_PROPERTY = "binlog-stream.rules"
"""What tells the rules for columns and rows by which it was written from others; not there where nothing is hidden."""
POSITION_KEY = "binlog-stream.position"
GTID_KEY = "binlog-stream.gtid"
GTID_POSITION_KEY = "binlog-stream.gtidPosition"
KEYS_OPEN_PROPERTY = "binlog-stream.keysOpen"
"""The place of a statement after which another key may tell rows apart; empty once rows have shown which one."""
DROPPED_PROPERTY = "binlog-stream.dropped"
"""Where the source table was dropped, or renamed to another; empty once there is one of that name again."""
DROPPED_COLUMNS_PROPERTY = "binlog-stream.droppedColumns"
"""Columns that the source table does not have any more, as `joined_keys` writes names."""
COMPLETE_PROPERTY = "binlog-stream.complete"
"""`true`: all rows of the source table lie in the part of the log that was read; `false`: earlier ones are missing."""
SET_ASIDE_PROPERTY = "binlog-stream.setAside"
"""Why the target does not go on, and from which place of the log on; empty: it does."""
VERIFIED_PROPERTY = "binlog-stream.verifiedThrough"
"""Up to where in the log the target was proved to be the same as the source table, and with how many rows."""
DECLARED_PROPERTY = "binlog-stream.declaredTypes"
"""Types of columns that only definitions state, as JSON by name in lower case; empty: there are none."""
SNAPSHOT_PROPERTY = "binlog-stream.snapshot"
"""The newest snapshot of the source table, and where it began, or completed the target."""
BATCH_KEY = "binlog-stream.batchId"
STEP_KEY = "binlog-stream.step"
LAST_CHANGE_KEY = "binlog-stream.lastChange"


@dataclass(frozen=True, slots=True)
class CommitId:
    """Who writes what: one commit of one table in one batch of one query.

    Attributes:
        query_id: Id of the streaming query; it lives in the checkpoint.
        batch_id: Number of the batch; a repeated batch has the same number and the same content.
        step: Number of the commit in the batch. What the batch's statements do to tables is counted, 1, 2, 3 ... of all
            of them: change n is step 3n, rows of a table after change n, the last one about their table before them,
            are step 3n + 2 (2: before any change), and 3n + 1 makes columns fit for these rows (`plan`).
        source_table: `database.table` in the log.
        mode: What the target holds.
        keys: Names of the key columns; empty for `changelog`.
        position: Where the log goes on after the batch, as text.
        last_change: Where the batch's last change of the table lies, as text; the same whenever the batch is repeated.
        gtid: Last GTID of the step, if it has one.
        gtid_position: What the log has up to the batch's end: the last GTID of each domain (MariaDB) or the set of all
            (MySQL), as text; None: not known.
        complete: Whether all rows of the source table lie in what was read; None: as the target states already.
        partition_by: How the target is partitioned, if it is made.
        rules: What tells its rules for columns and rows from others; empty: nothing is hidden.
    """

    query_id: str
    batch_id: int
    step: int
    source_table: str
    mode: Mode
    keys: tuple[str, ...]
    position: str
    last_change: str
    gtid: str | None
    gtid_position: str | None = None
    complete: bool | None = None
    partition_by: tuple[PartitionRule, ...] = ()
    rules: str = ""

    @property
    def place(self) -> tuple[int, int]:
        """Batch and step; they grow with every commit."""
        return self.batch_id, self.step

    def table_properties(self) -> dict[str, str]:
        """Properties of a table from its creation on."""
        properties = {
            QUERY_PROPERTY: self.query_id,
            SOURCE_PROPERTY: self.source_table,
            MODE_PROPERTY: str(self.mode),
            KEYS_PROPERTY: joined_keys(self.keys),
        }
        if self.rules:
            properties[RULES_PROPERTY] = self.rules
        if self.complete is not None:
            properties[COMPLETE_PROPERTY] = str(self.complete).lower()
        return properties

    def batch_properties(self) -> dict[str, str]:
        """Properties of a write."""
        recorded = {
            BATCH_KEY: str(self.batch_id),
            STEP_KEY: str(self.step),
            POSITION_KEY: self.position,
            LAST_CHANGE_KEY: self.last_change,
        }
        if self.gtid is not None:
            recorded[GTID_KEY] = self.gtid
        if self.gtid_position is not None:
            recorded[GTID_POSITION_KEY] = self.gtid_position
        return recorded

    @property
    def description(self) -> str:
        """One line for people."""
        return f"{self.mode} of {self.source_table}, kept by binlog-stream"


@dataclass(frozen=True, slots=True)
class Applied:
    """The last commit of a query that a target holds.

    Attributes:
        batch_id: `CommitId.batch_id`.
        step: `CommitId.step`.
        last_change: `CommitId.last_change`; None where that is not known any more.
    """

    batch_id: int
    step: int
    last_change: str | None

    @property
    def place(self) -> tuple[int, int]:
        """Batch and step."""
        return self.batch_id, self.step


class Target(ABC):
    """A target table as it was when it was looked at; it may not be there yet.

    A sink gives one of these for a place; who uses it calls `is_done`, `check_owner`, and then one of `create`,
    `append`, `merge`, `evolve` and `replace`; each commit that carries a commit id makes the target know what it holds
    now, so several steps can follow each other on one look, and a repeated one is seen by `is_done`.
    """

    uri: str

    write_errors: ClassVar[tuple[type[Exception], ...]]
    """What the library under it raises when it cannot write."""

    supports_parallel_write: ClassVar[bool] = False
    """Whether several processes may write parts of a step: `append_part`, `merge_part`, then `commit_parts`."""

    @classmethod
    @abstractmethod
    def at(cls, sink: Sink, uri: str) -> Target:
        """Look at what is at *uri*.

        Raises:
            OptionError: `INVALID_VALUE`: the format cannot be kept there.
        """

    @abstractmethod
    def properties(self) -> Mapping[str, str] | None:
        """`CommitId.table_properties` of whoever made the table; None while there is no table."""

    @abstractmethod
    def applied(self, commit_id: CommitId) -> Applied | None:
        """The last batch of the commit id's query in the table; None while there is none."""

    def version(self) -> str | None:
        """What a reader names to get the table as it is now; None: there is no such thing, or no table."""
        return None

    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns of the table, in its order, as `stored_schema` gives them; the table is there."""

    @abstractmethod
    def stored_schema(self, schema: pa.Schema) -> pa.Schema:
        """What `schema()` gives of a table that was made of *schema*: each type the nearest one that the format has.

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
        """Bring *change* into the table in one commit, or in none when there is nothing to change.

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
            change: Of the part.
            keys: `CommitId.keys`.
        """
        raise NotImplementedError(f"{type(self).__name__} takes steps as a whole")

    @property
    def supports_late_dedup(self) -> bool:
        """Whether parts may have the same keys: rows that `superseded_by_later_part` names are marked then."""
        return False

    def superseded_by_later_part(
        self, parts: Sequence[WrittenFiles[Any]], keys: pa.Table, by: NDArray[np.int64]
    ) -> WrittenFiles[Any]:
        """Rows of parts whose keys come again in later parts, as one more part.

        Args:
            parts: What `merge_part` gave, in the order of the log.
            keys: Keys that several parts have, one row for each.
            by: For each the number of the last part that has it.
        """
        raise NotImplementedError(f"{type(self).__name__} takes steps as a whole")

    def commit_parts(self, parts: Sequence[WrittenFiles[Any]], commit_id: CommitId) -> int:
        """Bring all parts of a step into the table in one commit, or in none when there is nothing to change.

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

    def select(self, search: Search, names: Sequence[str]) -> pa.Table:
        """The columns *names* of the rows that *search* wants, in no order."""
        return filtered(self.read(), search, names)

    @abstractmethod
    def replace(self, rows: pa.RecordBatchReader, commit_id: CommitId) -> None:
        """Put *rows* in the place of all rows, and their columns in the place of all columns, in one commit.

        *rows* may be what `read` of this very target gives.
        """

    @abstractmethod
    def maintain(self, sink: Sink) -> None:
        """Now and then, after a commit: join small files, remove old ones; the rows stay as they are."""

    @abstractmethod
    def is_conflict(self, error: Exception) -> bool:
        """Whether a write failed because somebody else committed between the look and the write."""

    def close(self) -> None:  # noqa: B027 (most have nothing to close)
        """Let go of connections."""

    def check_owner(self, commit_id: CommitId) -> None:
        """See that this query, this source table and this mode are those that made the table.

        Raises:
            TableError: They are not.
        """
        properties = self.properties()
        if properties is None:
            return
        owner = properties.get(QUERY_PROPERTY)
        if owner != commit_id.query_id:
            raise _other_writer(self.uri, commit_id, owner)
        source, mode, keys = (properties.get(name) for name in (SOURCE_PROPERTY, MODE_PROPERTY, KEYS_PROPERTY))
        if source != commit_id.source_table:
            raise TableError(
                "SAME_TARGET",
                f"{commit_id.source_table}: {self.uri} already holds {source}",
                hint="Give the two tables different targets: tables.target with {database} and {table} in it",
            )
        if mode != commit_id.mode:
            raise TableError(
                "MODE_CHANGED",
                f"{commit_id.source_table}: {self.uri} was made with mode {mode}, the job now sets {commit_id.mode}",
                hint="Give the new mode another target, and start it with a new checkpoint; or set the mode back",
            )
        if (keys or "").casefold() != joined_keys(commit_id.keys).casefold():
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
        """Whether the step is in the table already.

        Raises:
            TableError: `CHECKPOINT_BEHIND`: the table holds a later batch, or another one under this number.
        """
        applied = self.applied(commit_id)
        if applied is None or applied.place < commit_id.place:
            return False
        held = applied.last_change if applied.place == commit_id.place else None
        if applied.batch_id > commit_id.batch_id or held not in (None, commit_id.last_change):
            raise _checkpoint_behind(self.uri, commit_id, applied.batch_id, held)
        return True


class TargetFactory(Protocol):
    """What makes targets; the class of a sink is one."""

    @property
    def write_errors(self) -> tuple[type[Exception], ...]:
        """See `Target`."""

    def at(self, sink: Sink, uri: str) -> Target:
        """See `Target`."""


def joined_keys(keys: tuple[str, ...]) -> str:
    """Names of key columns as one text."""
    return ",".join(key.replace("\\", "\\\\").replace(",", "\\,") for key in keys)


def split_keys(text: str) -> tuple[str, ...]:
    """The names that `joined_keys` wrote."""
    names = re.findall(r"(?:[^\\,]|\\.)+", text)
    return tuple(re.sub(r"\\(.)", r"\1", name) for name in names)


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
        hint="Changes would be left out. Bring back the newest checkpoint; or delete the tables and the checkpoint and "
        "let this job build them anew from the log",
    )
