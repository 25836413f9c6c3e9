"""What became of each table of a job: equal to the server's, refused by name, or wrong: `judge`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from binlog_format.errors import BinlogError
from binlog_streaming.lake.commit_id import DROPPED_PROPERTY, SOURCE_PROPERTY
from binlog_streaming.tables.batch_run import PLACE
from tests.truth.replay import row_differences
from tests.truth.truth_values import typed_difference

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_CONDITION = re.compile(r"\[(BINLOG_[A-Z_]+\.[A-Z_]+)\]")
_OWN_FOLDER = ".binlog-stream"
_SHOWN = 3


class Kind(StrEnum):
    """What can become of a table; there is nothing between right and wrong but a name."""

    EQUAL = "equal"
    """It has the rows that the server has, value by value."""
    REFUSED = "refused"
    """The job stopped with a named error."""
    ASIDE = "set aside"
    """The job went on without it, and told so with the reason."""
    WRONG = "wrong"


@dataclass(frozen=True)
class Verdict:
    """About one table; *why*: differences, or the error's text."""

    kind: Kind
    why: str = ""


@dataclass(frozen=True)
class JobEnd:
    """How a job ended.

    Attributes:
        error: What stopped it; None: it had taken all.
        warnings: What it told its operator on the way.
    """

    error: Exception | None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class ServerTable:
    """What SELECT gives of a table: columns and rows in the form of `expected.json`."""

    columns: list[dict[str, str | None]]
    rows: list[list[Any]]


@dataclass(frozen=True)
class TargetTable:
    """What a reader of a target gets: its rows of now (of versions those that hold, of marked rows those that stay)."""

    columns: tuple[str, ...]
    rows: list[dict[str, Any]]
    properties: Mapping[str, str]

    @property
    def is_dropped(self) -> bool:
        """Whether it states that its source table is gone."""
        return bool(self.properties.get(DROPPED_PROPERTY))

    @property
    def is_aside(self) -> bool:
        """Whether it states that it was set aside."""
        return any("aside" in name.casefold() and text for name, text in self.properties.items())


def judge(
    end: JobEnd,
    server: Mapping[str, ServerTable],
    targets: Mapping[str, TargetTable],
    *,
    is_declared: bool = False,
) -> dict[str, Verdict]:
    """The verdict about every table that the job was to keep, and every target.

    Args:
        server: What targets are to be equal to, by `database.table`.
        targets: Those that the job made, by source table.
        is_declared: Readers know how columns were declared, beyond the log's own metadata.
    """
    if end.error is not None:
        return dict.fromkeys(sorted({*server, *targets}), _stopped(end.error))
    found = {}
    for name in sorted({*server, *targets}):
        target, wanted = targets.get(name), server.get(name)
        verdict = _set_aside(name, end, target)
        if verdict is None and wanted is not None:
            verdict = _compared(name, wanted, target, is_declared=is_declared)
        if verdict is not None:
            found[name] = verdict
        elif target is not None and not target.is_dropped:
            found[name] = Verdict(Kind.WRONG, f"a target of {len(target.rows)} rows that is no table of the job")
    return found


def read_targets(sink: Path) -> dict[str, TargetTable]:
    """The Delta tables below *sink*, by the name of their source table."""
    found = {}
    for log in sorted(sink.rglob("_delta_log")):
        if _OWN_FOLDER in log.parts or log.parent == sink / PLACE:
            continue
        table = DeltaTable(str(log.parent))
        properties = table.metadata().configuration
        content = table.to_pyarrow_table()
        rows = [row for row in content.to_pylist() if row.get("_is_current", True) and not row.get("_deleted")]
        found[properties[SOURCE_PROPERTY]] = TargetTable(tuple(content.column_names), rows, properties)
    return found


def _stopped(error: Exception) -> Verdict:
    if isinstance(error, BinlogError):
        return Verdict(Kind.REFUSED, str(error))
    return Verdict(Kind.WRONG, f"the job ended without a named error: {error!r}"[:1000])


def _set_aside(name: str, end: JobEnd, target: TargetTable | None) -> Verdict | None:
    # Both have to name it: the target for its readers, the log line for the operator.
    whole_name = re.compile(rf"(?<![\w.]){re.escape(name)}(?!\w)")
    # The reason may name other tables, such as the parent of a foreign key.
    told = [text for text in end.warnings if whole_name.search(_CONDITION.split(text)[0]) and _CONDITION.search(text)]
    if not told and (target is None or not target.is_aside):
        return None
    if not told:
        return Verdict(Kind.WRONG, "the target was set aside, and no warning names it with the reason")
    if target is not None and not target.is_aside:
        return Verdict(Kind.WRONG, f"set aside, but the target does not state it: {told[0]}")
    return Verdict(Kind.ASIDE, told[0])


def _compared(name: str, server: ServerTable, target: TargetTable | None, *, is_declared: bool) -> Verdict:
    if target is None:
        return Verdict(Kind.WRONG, f"no target; the server has {len(server.rows)} rows") if server.rows else _EQUAL
    if target.is_dropped:
        return Verdict(Kind.WRONG, "the target states that its source table was dropped")
    spelled = {str(column["name"]).casefold(): str(column["name"]) for column in server.columns}
    missing = sorted(set(spelled) - {column.casefold() for column in target.columns})
    if missing and (server.rows or target.rows):
        return Verdict(Kind.WRONG, f"the target lacks the columns {', '.join(missing)}")
    rows = [{spelled.get(key.casefold(), key): value for key, value in row.items()} for row in target.rows]
    differences = row_differences(
        name, rows, server.rows, server.columns, difference=typed_difference, declared=is_declared
    )
    if not differences:
        return _EQUAL
    more = f" (and {len(differences) - _SHOWN} more)" if len(differences) > _SHOWN else ""
    counts = f"{len(target.rows)} rows, the server has {len(server.rows)}"
    return Verdict(Kind.WRONG, f"{counts}: {'; '.join(differences[:_SHOWN])}{more}")


_EQUAL = Verdict(Kind.EQUAL)
