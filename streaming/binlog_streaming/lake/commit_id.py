"""Ids of writes: `CommitId`, which each commit of a table carries, and `Applied`, the ids that a table contains.

Commits that write files anew also carry what that has cost lately: `WriteCost`.
"""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlog_streaming.settings import Mode
    from binlog_streaming.settings.choices import PartitionRule

QUERY_PROPERTY = "binlog-stream.queryId"
SOURCE_PROPERTY = "binlog-stream.sourceTable"
MODE_PROPERTY = "binlog-stream.mode"
KEYS_PROPERTY = "binlog-stream.keys"
RULES_PROPERTY = "binlog-stream.rules"
"""Fingerprint of the rules for columns and rows with which it was written; absent if nothing is hidden."""
POSITION_KEY = "binlog-stream.position"
GTID_KEY = "binlog-stream.gtid"
GTID_POSITION_KEY = "binlog-stream.gtidPosition"
KEYS_OPEN_PROPERTY = "binlog-stream.keysOpen"
"""The place of a statement after which another key may tell rows apart; empty once rows have shown which one."""
DROPPED_PROPERTY = "binlog-stream.dropped"
"""GTID, or place, where the source table was dropped or renamed to another; empty once that name exists again."""
DROPPED_COLUMNS_PROPERTY = "binlog-stream.droppedColumns"
"""Columns that the source table does not have any more, as `joined_keys` writes names."""
COMPLETE_PROPERTY = "binlog-stream.complete"
"""`true`: all rows of the source table lie in the part of the log that was read; `false`: earlier ones are missing."""
SET_ASIDE_PROPERTY = "binlog-stream.setAside"
"""Reason why the target is set aside, and the place in the log; empty: it is not."""
VERIFIED_PROPERTY = "binlog-stream.verifiedThrough"
"""Place in the log up to which the target was proved equal to the source table, and the number of rows."""
DECLARED_PROPERTY = "binlog-stream.declaredTypes"
"""Types of columns that only definitions state, as JSON by name in lower case; empty: there are none."""
TYPES_PROPERTY = "binlog-stream.loggedTypes"
"""Types of the columns in the table maps of its last rows, as JSON; empty: a statement may have changed them since."""
SNAPSHOT_PROPERTY = "binlog-stream.snapshot"
"""The newest snapshot of the source table, and where it began, or completed the target."""
BATCH_KEY = "binlog-stream.batchId"
STEP_KEY = "binlog-stream.step"
LAST_CHANGE_KEY = "binlog-stream.lastChange"
COST_KEY = "binlog-stream.writtenAnew"
"""`WriteCost` after the commit, as text."""


@dataclass(frozen=True, slots=True)
class CommitId:
    """Id of a write: one commit of one table in one batch of one query.

    Attributes:
        query_id: Id of the streaming query; it lives in the checkpoint.
        batch_id: Number of the batch; a repeated batch has the same number and the same content.
        step: Number of the commit in the batch. What the batch's statements do to tables is counted, 1, 2, 3 ... of all
            of them: change n is step 3n, rows of a table after change n, the last one about their table before them,
            are step 3n + 2 (2: before any change), and 3n + 1 makes columns fit for these rows (`plan`).
        source_table: `database.table` in the log.
        keys: Names of the key columns; empty for `changelog`.
        position: Where the log goes on after the batch, as text.
        last_change: Where the batch's last change of the table lies, as text; the same whenever the batch is repeated.
        gtid: Last GTID of the step, if it has one.
        gtid_position: What the log has up to the batch's end: the last GTID of each domain (MariaDB) or the set of all
            (MySQL), as text; None: not known.
        complete: Whether all rows of the source table lie in what was read; None: as the target states already.
        partition_by: How the target is partitioned, if it is made.
        rules: What tells its rules for columns and rows from others; empty: nothing is hidden.
        logged_types: Types of the columns, as the target is to record them; empty: as it has.
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
    logged_types: str = ""

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
        if self.logged_types:
            properties[TYPES_PROPERTY] = self.logged_types
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


STEP_BYTES_MAX = 8 << 20
"""Bytes of files that one step may write anew before rows are marked instead, from then on."""

DAY_BYTES_MAX = 64 << 20
"""The same of a day, for tables that are above `ROW_BYTES_MAX`."""

ROW_BYTES_MAX = 16 << 10
"""Bytes of files that are written anew for each changed row; up to that a day's bytes do not count."""

_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class WriteCost:
    """Cost of files that were written anew, to take superseded rows out; what is older than a day hardly counts.

    Attributes:
        written: Bytes of the files.
        rows: Superseded rows.
        at: Time up to which it counts, seconds since 1970 UTC.
    """

    written: float = 0.0
    rows: float = 0.0
    at: float = 0.0

    def after(self, written: int, rows: int) -> WriteCost:
        """The cost once a step has written so much now."""
        now = time.time()
        left = math.exp(min(self.at - now, 0) / _DAY_S)
        return WriteCost(self.written * left + written, self.rows * left + rows, now)

    @property
    def bytes_per_row(self) -> float:
        """Bytes that were written anew for each superseded row."""
        return self.written / self.rows if self.rows else 0.0

    @property
    def is_too_high(self) -> bool:
        """True if rows are to be marked from now on."""
        return self.written > DAY_BYTES_MAX and self.bytes_per_row > ROW_BYTES_MAX

    def properties(self) -> dict[str, str]:
        """The cost as a commit records it; nothing, if nothing was written."""
        return {} if not self.written else {COST_KEY: f"{self.written:.0f} {self.rows:.2f} {self.at:.0f}"}


def write_cost(recorded: str | None) -> WriteCost:
    """The other way; nothing, if nothing is recorded."""
    return WriteCost(*map(float, recorded.split())) if recorded else WriteCost()


def joined_keys(keys: tuple[str, ...]) -> str:
    """Names of key columns as one text."""
    return ",".join(key.replace("\\", "\\\\").replace(",", "\\,") for key in keys)


def split_keys(text: str) -> tuple[str, ...]:
    """The names that `joined_keys` wrote."""
    names = re.findall(r"(?:[^\\,]|\\.)+", text)
    return tuple(re.sub(r"\\(.)", r"\1", name) for name in names)


def commit_id_of(properties: Mapping[str, str], query_id: str, source_table: str, mode: Mode) -> CommitId:
    """A commit id for what is no step of a batch; keys are those of the target."""
    return CommitId(
        query_id=query_id,
        batch_id=0,
        step=0,
        source_table=source_table,
        mode=mode,
        keys=split_keys(properties.get(KEYS_PROPERTY, "")),
        position="",
        last_change="",
        gtid=None,
        rules=properties.get(RULES_PROPERTY, ""),
    )
