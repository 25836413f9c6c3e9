"""View `tables`: the tables that a range touches, with an index of the events of each, and its DDL: `TablesView`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from binlog_format.gtids.gtid_history import gtid_text
from binlog_format.position import Position
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding
from binlog_format.views.cascading import checked_counts
from binlog_format.views.columns import POSITION_TYPE
from binlog_format.views.filters import ALL_GROUPS, GroupFilter, TableFilter
from binlog_format.views.selection import OF_ONE_TABLE, Selection, raise_problem
from binlog_format.views.snapshot_events import MARK_TYPE, SnapshotEvents, source_layout
from binlog_format.views.table_index import TouchedTable, checked_columns, rows_of_source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from binlog_format.block import Block
    from binlog_format.errors import BinlogError
    from binlog_format.events.table_map import TableLayout
    from binlog_format.kernels import Int64s
    from binlog_format.rows.table_events import TableEvents
    from binlog_format.views.snapshot_events import Shadow

_SESSIONS_MAX = 1000
"""Sessions of which a statement is given; those of more sessions are given as one, of no session."""

ROW_STATEMENT_TYPE = pa.struct(
    [
        ("names", pa.list_(pa.struct([("database", pa.string()), ("table", pa.string())]))),  # null: any table
        ("calls", pa.list_(pa.string())),  # functions that it may call
        ("adds", pa.bool_()),  # it adds rows alone
    ]
)

STATEMENT_TYPE = pa.struct(
    [
        ("position", POSITION_TYPE),  # of the statement's event group
        ("event_no", pa.int32()),
        ("text", pa.string()),
        ("database", pa.string()),  # the session's current one; empty: none
        ("sql_mode", pa.int64()),
        ("server_charset", pa.string()),
        ("vendor", pa.string()),
        ("commit_time", pa.int64()),  # seconds since 1970 UTC, when the statement began
        ("microseconds", pa.int32()),  # beyond those
        ("time_zone", pa.string()),  # of the session
        ("explicit_timestamps", pa.bool_()),  # explicit_defaults_for_timestamp
        ("gtid", pa.string()),
        ("thread_id", pa.int64()),  # of the session, on the server with the id `server_id`; null: of any
        ("server_id", pa.int64()),
        ("server_run", pa.int64()),  # number of the file that the last start of the log's server began; 0: not known
        ("event_type", pa.int32()),
        ("may_be_undone", pa.bool_()),  # its transaction takes some of its changes back
        ("error_code", pa.int32()),  # that it ended with on the server; 0: none
        ("server_version", pa.int32()),  # as comments of statements have it: 100119; null: not known
        ("fills_table", pa.bool_()),  # of CREATE TABLE ... SELECT, which the server wrote anew: its rows come with it
        ("other_text", pa.string()),  # what `text` may be as well: the same bytes as UTF-8, or without letters; or null
        ("rows", ROW_STATEMENT_TYPE),  # of a statement that changes rows; `text` is then its beginning
    ]
)
"""A statement that changes tables as a whole, or rows without row events; null is what the log does not record."""

PROBLEM_TYPE = pa.struct(
    [
        ("position", POSITION_TYPE),  # of the first event group with events that were left out
        ("event_no", pa.int32()),
        ("gtid", pa.string()),
        ("error", pa.string()),  # condition, reason, hint
    ]
)
"""Reasons why events of a table are not in its index."""

TABLES_SCHEMA = pa.schema(
    [
        ("start", POSITION_TYPE),  # of the first group in the range
        ("end", POSITION_TYPE),  # where reading goes on after the range
        ("database", pa.string()),  # this and all below: null in the row of the statements
        ("table", pa.string()),
        ("layout", pa.string()),  # digest of the table's layout
        ("inserts", pa.int64()),
        ("updates", pa.int64()),
        ("deletes", pa.int64()),
        ("bytes", pa.int64()),  # of its row events, expanded
        ("checked_updates", pa.int64()),  # row events to which foreign keys apply
        ("checked_deletes", pa.int64()),
        ("checked_outside", pa.int64()),  # of both, those outside of transactions
        ("ddl", pa.list_(STATEMENT_TYPE)),  # all statements of the range, in order; null in the rows of tables
        ("index", pa.binary()),  # `TableIndex.to_bytes()`
        ("problem", PROBLEM_TYPE),  # in a row that has neither layout nor index nor counts
        ("snapshot", pa.string()),  # of which the events are chunks; null: they are changes of the table
        (
            "marks",
            pa.list_(MARK_TYPE),
        ),  # of snapshots, whatever tables are wanted, in order; in the row of the statements
    ]
)


class StatementRowFinder(Protocol):
    """Finds statements that change tables as a whole; who knows the language gives one."""

    def __call__(self, block: Block) -> Iterable[tuple[int, Mapping[str, object]]]:
        """The statements of a block of plain events, in order: row of the event, value of `STATEMENT_TYPE`."""


class TablesView:
    """The tables touched in a range; a table has a row for each of its layouts, and for each `INDEX_EVENTS` or so.

    One more row has the statements of the range that change tables as a whole, whatever tables are wanted: how many of
    them come before a change does not depend on that. Of statements that change rows and tell the same, the first one
    of a session is there, until another statement may change what they mean (one that makes a temporary table, say).

    Chunks of a snapshot are rows of their source table that name the snapshot; tables of the snapshots' own have none,
    nor have sequences.

    Args:
        find_statements: Finds the statements; None: they are not looked for.
        counts_others: Tables that are not wanted have a row, too, when foreign keys apply to updates or deletes in
            them: of their columns the names and the numbers of those events alone.
        tells_problems: A table that cannot be understood has a row that states it, and ends nothing.
    """

    def __init__(
        self,
        *,
        tables: TableFilter | None = None,
        decoding: Decoding = DEFAULT_DECODING,
        groups: GroupFilter = ALL_GROUPS,
        find_statements: StatementRowFinder | None = None,
        counts_others: bool = False,
        tells_problems: bool = False,
    ) -> None:
        self._tells_problems = tells_problems
        self._counts_others = counts_others
        self._find_statements = find_statements
        self._decoding = decoding
        self._tables = tables or TableFilter()
        self._groups = groups

    def schema(self, layout: TableLayout | None = None) -> pa.Schema:
        """Schema of the batches; it is the same for every table."""
        del layout
        return TABLES_SCHEMA

    def batches(self, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
        """One batch for all of *blocks*, tables by first touch; none when there are neither tables nor statements."""
        problems: dict[tuple[str, str], dict[str, object]] = {}

        def note_problem(block: Block, touched: TableEvents, error: BinlogError) -> None:
            # The first one of a table.
            name = touched.layout.database, touched.layout.table
            row: dict[str, object] = {"database": name[0], "table": name[1], "problem": _problem(block, touched, error)}
            problems.setdefault(name, row)

        on_problem = note_problem if self._tells_problems else raise_problem
        selection = Selection(self._tables, self._groups, decoding=self._decoding, on_problem=on_problem)
        selection.keeps_sequences = False
        found: dict[tuple[str, str, str, str], TouchedTable] = {}
        others: dict[tuple[str, str], Int64s] = {}
        statements = _Statements()
        snapshots, shadows = SnapshotEvents(), _Shadows(self._tables, self._decoding)
        start: Position | None = None
        end: Position | None = None
        for block in blocks:
            if start is None and len(block.groups):
                start = Position.of(block.groups[0])
            end = block.next_position
            statements.add(self._statements(block))
            copied, resolved = snapshots.take(block, selection.resolved(block))
            shadows.add(block, copied)
            if self._counts_others:
                _count_others(others, block, [touched for touched in resolved if not selection.wants(touched)])
            for touched in selection.known(block, [touched for touched in resolved if selection.wants(touched)]):
                layout = touched.layout
                key = (layout.database, layout.table, layout.digest, layout.completion)
                if key not in found:
                    found[key] = TouchedTable(layout)
                try:
                    found[key].add(block, touched, self._decoding)
                except OF_ONE_TABLE as error:
                    on_problem(block, touched, error)
        rows = [
            *(row for key, table in found.items() if key[:2] not in problems for row in table.rows()),
            *shadows.rows(snapshots.shadows()),
            *({"database": name[0], "table": name[1], **checked_columns(count)} for name, count in others.items()),
            *problems.values(),
        ]
        if statements.kept or snapshots.marks:
            rows.append({"ddl": statements.kept or None, "marks": snapshots.marks or None})
        if rows and start is not None and end is not None:
            bounds = {"start": start.to_json(), "end": end.to_json()}
            yield _record_batch([bounds | row for row in rows])

    def _statements(self, block: Block) -> list[Mapping[str, object]]:
        if self._find_statements is None:
            return []
        found = list(self._find_statements(block))
        keep = self._groups.keep(block) if found else None
        groups = block.events["group"]
        return [statement for event, statement in found if keep is None or keep[int(groups[event])]]


def _record_batch(rows: Sequence[Mapping[str, object]]) -> pa.RecordBatch:
    # Most rows are of tables: columns that they do not have are nested, and take long to convert value by value.
    given = frozenset().union(*rows)
    columns = [
        pa.array([row.get(field.name) for row in rows], field.type)
        if field.name in given
        else pa.nulls(len(rows), field.type)
        for field in TABLES_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(columns, schema=TABLES_SCHEMA)


class _Shadows:
    # Whose rows they have is known with the mark at the end of their first chunk, which may be in a later block.

    def __init__(self, tables: TableFilter, decoding: Decoding) -> None:
        self._tables = tables
        self._decoding = decoding
        self._plain = replace(decoding, schemas=None, rules=None)
        self._found: dict[tuple[str, str], tuple[TouchedTable, Position]] = {}
        self._problems: dict[tuple[str, str], dict[str, object]] = {}

    def add(self, block: Block, shadows: list[TableEvents]) -> None:
        for touched in shadows:
            layout = touched.layout
            key = (layout.table, layout.digest)
            if key not in self._found:
                self._found[key] = TouchedTable(layout), block.position_at(touched.events[0])
            try:
                if layout.problem is not None:
                    raise layout.problem
                self._found[key][0].add(block, touched, self._plain)
            except OF_ONE_TABLE as error:
                self._problems.setdefault(key, _problem(block, touched, error))

    def rows(self, shadows: Mapping[str, Shadow]) -> Iterator[dict[str, object]]:
        for key, (touched, position) in self._found.items():
            shadow = shadows.get(key[0])
            if shadow is None or not self._tables.accepts_name(shadow.database, shadow.table):
                continue
            named = {"database": shadow.database, "table": shadow.table, "snapshot": shadow.snapshot}
            if key in self._problems:
                yield {**named, "problem": self._problems[key]}
                continue
            try:
                layout = source_layout(touched.layout, shadow)
                if self._decoding.schemas is not None:
                    layout = self._decoding.schemas.completed(layout, position)
                yield from rows_of_source(touched, layout, shadow.snapshot)
            except OF_ONE_TABLE as error:
                place = {"position": position.to_json(), "event_no": 0, "gtid": None}
                yield {**named, "problem": {**place, "error": str(error)}}


@dataclass(slots=True)
class _Statements:
    # A log in statement format has millions of statements, and nobody needs to know of more than the first ones.
    kept: list[Mapping[str, object]] = field(default_factory=list)
    _sessions: dict[str, set[object]] = field(default_factory=dict)  # which gave a statement, by what it tells of rows

    def add(self, statements: list[Mapping[str, object]]) -> None:
        """Take the statements of a block."""
        for statement in statements:
            if statement["rows"] is None:
                self._sessions.clear()
                self.kept.append(statement)
                continue
            sessions = self._sessions.setdefault(repr((statement["rows"], statement["server_run"])), set())
            if len(sessions) >= _SESSIONS_MAX:
                statement = {**statement, "thread_id": None}
            session = statement["server_id"], statement["thread_id"]
            if session not in sessions:
                sessions.add(session)
                self.kept.append(statement)


def _problem(block: Block, touched: TableEvents, error: BinlogError) -> dict[str, object]:
    event = block.events[touched.events[0]]
    group = int(event["group"])
    return {
        "position": Position.of(block.groups[group]).to_json(),
        "event_no": int(event["event_no"]),
        "gtid": gtid_text(block.groups[group], block.gtid_sources),
        "error": str(error),
    }


def _count_others(others: dict[tuple[str, str], Int64s], block: Block, unwanted: list[TableEvents]) -> None:
    for touched in unwanted:
        counts = checked_counts(block, touched.events, touched.layout)
        if counts.any():
            name = touched.layout.database, touched.layout.table
            others[name] = others.get(name, 0) + counts
