"""Marks of snapshots in a log, as changes of their source tables: `mark_change`, `mark_statement`.

The view `tables` gives the marks (`binlog_format.views.snapshot_events`); docs/decisions/0023 has what they mean.

Existing rows that snapshots have copied for the topics of one publisher: `CopiedTables`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.log_ddl import DdlStatement
from binlog_connector.schema.stated_definitions import definition_statement
from binlog_connector.schema.table_changes import TableCreated, table_changes
from binlog_format.names import folded_name
from binlog_format.position import Position
from binlog_format.vendor import Vendor
from binlog_format.views.filters import SHADOW_PREFIX, SNAPSHOT_DATABASE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from binlog_format.block import Block
    from binlog_format.events.table_map import TableLayout
    from binlog_format.rows.decoding import Decoding
    from binlog_format.views.snapshot_events import Shadow


TOPICS = "topics"
"""Key in the detail of `begin` and `chunk`: the publisher for whose topics rows are copied; without it: for tables."""
KEY = "key"
"""Key in the detail of a `chunk` for topics: names of the columns that table maps of the source have as its key."""
_SHADOWS_MAX = 10_000
"""Shadow tables whose sources are kept."""


class Purpose(StrEnum):
    """Purpose of a snapshot."""

    COMPLETE = "complete"
    """Targets lack rows that were there before the log; they keep what they have."""
    RESYNC = "resync"
    """Targets are emptied where the snapshot begins."""


@dataclass(frozen=True, slots=True)
class SnapshotBegun:
    """A snapshot of a table begins; one of it that has not ended is cancelled.

    Attributes:
        created: The table as it is here: as a CREATE TABLE makes it.
        snapshot: Which one, a UUID.
        empties: Rows that targets have go here.
        is_defined: `created` knows which columns are generated.
    """

    created: TableCreated
    snapshot: str
    purpose: Purpose
    empties: bool = False
    is_defined: bool = False

    @property
    def name(self) -> TableName:
        """Name of the table."""
        return self.created.name


@dataclass(frozen=True, slots=True)
class SnapshotChunk:
    """An event group with existing rows of a table. *number*: of the chunk, from 0."""

    name: TableName
    snapshot: str
    number: int
    row_count: int


@dataclass(frozen=True, slots=True)
class SnapshotEnded:
    """All chunks are in the log. *chunks*: how many it has. *rows*: how many rows these have together."""

    name: TableName
    snapshot: str
    chunks: int
    rows: int


@dataclass(frozen=True, slots=True)
class SnapshotCancelled:
    """A snapshot does not go on."""

    name: TableName
    snapshot: str
    reason: str


@dataclass(frozen=True, slots=True)
class RepairBegun:
    """Rows of some keys are put in the place of what targets have of these; all of it is in one event group.

    From here on the shadow has a delete for each key, then inserts of the rows that the table has of them.

    Attributes:
        key: Names of the columns that tell rows apart.
    """

    name: TableName
    snapshot: str
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RepairEnded:
    """The rows of a repair are in the log.

    Attributes:
        keys: How many keys it is about.
        rows: How many rows the table has of them.
    """

    name: TableName
    snapshot: str
    keys: int
    rows: int


@dataclass(frozen=True, slots=True)
class TableProved:
    """A target was compared with its table on the server, and was the same.

    Attributes:
        query_id: Of the job whose target it is.
        gtids: Up to where in the log it is the same.
        commit_time: Of the mark, seconds since 1970 UTC.
    """

    name: TableName
    query_id: str
    mode: str
    gtids: str
    rows: int
    commit_time: int


SnapshotChange = (
    SnapshotBegun | SnapshotChunk | SnapshotEnded | SnapshotCancelled | RepairBegun | RepairEnded | TableProved
)


def mark_statement(mark: Mapping[str, Any]) -> DdlStatement:
    """Place of a mark in the log: a statement without a text.

    Args:
        mark: A value of `binlog_format.views.snapshot_events.MARK_TYPE`.
    """
    return DdlStatement(
        Position.of(mark["position"]),
        # Rows of a chunk come before its mark; what it records is true from the start of the group.
        0 if mark["kind"] == "chunk" else mark["event_no"],
        "",
        vendor=Vendor(mark["vendor"]),
        commit_time=mark["commit_time"],
        gtid=mark["gtid"],
        server_id=mark["server_id"],
    )


def mark_change(mark: Mapping[str, Any], decoding: Decoding) -> SnapshotChange | None:
    """Change that a mark contains; None: none of rows. *mark*: as for `mark_statement`."""
    name, snapshot = TableName(mark["database"], mark["table"]), str(mark["snapshot"])
    try:
        match mark["kind"]:
            case "begin":
                detail = json.loads(mark["detail"])
                key = [str(column) for column in detail["key"]]
                created = created_table(name, detail["columns"], key, Vendor(mark["vendor"]), decoding)
                defined = _with_generated(created, definition_statement(mark), decoding)
                return SnapshotBegun(
                    defined or created, snapshot, Purpose(detail["purpose"]), is_defined=defined is not None
                )
            case "chunk":
                return SnapshotChunk(name, snapshot, mark["chunk"], mark["row_count"])
            case "end":
                detail = json.loads(mark["detail"])
                return SnapshotEnded(name, snapshot, int(detail["chunks"]), int(detail["rows"]))
            case "cancel":
                reason = json.loads(mark["detail"]).get("reason", "without a reason")
                return SnapshotCancelled(name, snapshot, f"it was cancelled: {reason}")
            case "repair":
                return RepairBegun(name, snapshot, tuple(map(str, json.loads(mark["detail"])["key"])))
            case "repaired":
                return RepairEnded(name, snapshot, int(json.loads(mark["detail"])["keys"]), mark["row_count"])
            case "proof":
                detail = json.loads(mark["detail"])
                place = detail["query"], detail["mode"], detail["through"]
                return TableProved(name, *place, rows=mark["row_count"], commit_time=mark["commit_time"])
    except (ValueError, KeyError, TypeError) as error:
        reason = f"its mark {mark['kind']!r} cannot be read: {type(error).__name__}: {error}"
        return SnapshotCancelled(name, snapshot, reason)
    return None


def _with_generated(created: TableCreated, definition: DdlStatement | None, decoding: Decoding) -> TableCreated | None:
    """*created* with what the whole definition has of generated columns; None: there is none, or it is another one."""
    changes = [] if definition is None else table_changes(definition, decoding)
    defined = next((change for change in changes if isinstance(change, TableCreated)), None)
    if defined is None or defined.columns is None or created.columns is None:
        return None
    generated = {folded_name(fact.name): fact.generated for fact in defined.columns}
    if generated.keys() != {folded_name(fact.name) for fact in created.columns}:
        return None
    columns = tuple(replace(fact, generated=generated[folded_name(fact.name)]) for fact in created.columns)
    return replace(created, columns=columns)


class CopiedTables:
    """Source tables of the shadows into which snapshots copy existing rows for the topics of one publisher.

    A chunk's mark names the source, and is in the event group of its rows: nothing before that group has to be known.

    Args:
        publisher: Its name, as marks contain it.
    """

    def __init__(self, publisher: str) -> None:
        self._publisher = publisher
        self._sources: dict[str, tuple[Shadow, Sequence[str]] | None] = {}
        self._layouts: dict[tuple[str, str], TableLayout] = {}
        self._blocks: Callable[[], Iterable[Block]] = tuple

    def enter(self, blocks: Callable[[], Iterable[Block]]) -> None:
        """Go on to another part of the log.

        Args:
            blocks: Gives its blocks, of plain events and whole event groups; called where a shadow is new.
        """
        self._blocks = blocks

    def source_of(self, layout: TableLayout) -> TableLayout | None:
        """Layout of the source of a shadow for this publisher; None: the table is no such shadow."""
        if layout.database != SNAPSHOT_DATABASE or not layout.table.startswith(SHADOW_PREFIX):
            return None
        if layout.table not in self._sources:
            if len(self._sources) >= _SHADOWS_MAX:
                self._sources.clear()
                self._layouts.clear()
            self._read_marks()
        source = self._sources.setdefault(layout.table, None)
        if source is None:
            return None
        from binlog_format.views.snapshot_events import source_layout  # compiled code takes a moment to load

        shadow, key = source
        if layout.problem is not None:  # raised where the table is wanted
            return replace(layout, database=shadow.database, table=shadow.table)
        found = self._layouts.get((layout.table, layout.digest))
        if found is None:
            found = self._layouts[layout.table, layout.digest] = source_layout(layout, shadow, key)
        return found

    def _read_marks(self) -> None:
        from binlog_format.rows.table_events import TableMaps
        from binlog_format.views.snapshot_events import Shadow, SnapshotEvents

        maps, snapshots = TableMaps(), SnapshotEvents()
        for block in self._blocks():
            snapshots.take(block, maps.resolve(block))
        for mark in snapshots.marks:
            detail = json.loads(str(mark["detail"])) if mark["kind"] == "chunk" else {}
            if detail.get(TOPICS) == self._publisher:
                shadow = Shadow(str(mark["snapshot"]), str(mark["database"]), str(mark["table"]))
                self._sources[str(mark["shadow"])] = shadow, detail[KEY]


def created_table(
    name: TableName, columns: Sequence[Sequence[str | None]], key: Sequence[str], vendor: Vendor, decoding: Decoding
) -> TableCreated:
    """A table as its CREATE TABLE makes it; without columns where one has a type that is not known.

    Args:
        columns: Of each name, type and collation, as `information_schema` has them.
        key: Names of the columns that tell rows apart; empty: none do.
    """
    # The grammar for DDL reads the types.
    lines = [
        f"{_quoted(str(column))} {kind}{'' if collation is None else f' COLLATE {collation}'}"
        for column, kind, collation in columns
    ]
    if key:
        lines.append(f"PRIMARY KEY ({', '.join(map(_quoted, key))})")
    text = f"CREATE TABLE {_quoted(name.database)}.{_quoted(name.table)} ({', '.join(lines)})"
    statement = DdlStatement(Position(0, 0, 0), 0, text, vendor=vendor)
    for change in table_changes(statement, decoding):
        if isinstance(change, TableCreated) and change.columns is not None:
            return TableCreated(name, change.columns, tuple(key))
    return TableCreated(name, None, tuple(key))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
