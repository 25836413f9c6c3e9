"""Tables of a job that a part of the log touches: `TouchedTables(watched, job)`, `within` and `between`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from binlog_connector.options.source_options import SourceOptions
from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.log_ddl import DdlStatement
from binlog_connector.schema.statement_rows import find_statement_rows
from binlog_connector.schema.statement_scope import StatementScope
from binlog_connector.schema.table_changes import DatabaseDropped, EventsLost, RowsChanged, RowsMoved
from binlog_format.errors import BinlogError, DataLossError
from binlog_format.gtids.gtid import GtidPosition
from binlog_format.gtids.gtid_set import GtidSet
from binlog_format.log.search import end_of_gtids
from binlog_format.names import folded_name
from binlog_format.views.filters import TableFilter
from binlog_streaming.plan.batch_plan import names_of
from binlog_streaming.plan.job_state import TableSelection
from binlog_streaming.settings.choices import OnRowStatement, OnStatement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_connector.following.watched import WatchedLog
    from binlog_connector.schema.table_changes import StatementChange
    from binlog_format.block import Block
    from binlog_format.gtids.gtid_set import GtidPoint, Taken
    from binlog_format.position import Position
    from binlog_format.views.filters import GroupFilter
    from binlog_streaming.settings.model import Job


class TouchedTables:
    """Tables that rows and statements of a part of the log touch, of those that a job keeps; nothing is decoded."""

    def __init__(self, watched: WatchedLog, job: Job) -> None:
        self._watched = watched
        self._selection = TableSelection.of(job)
        self._decoding = job.source.decoding()
        self._options = SourceOptions.parse({"path": job.source.path, **job.source_options()})
        self._between: dict[tuple[str, str], frozenset[TableName] | None] = {}

    def within(
        self, start: Position, stop: Position | None, *, skip: Taken | None = None, until: Taken | None = None
    ) -> frozenset[TableName]:
        """Tables touched from *start* to *stop*, by groups that *skip* does not cover and *until* does."""
        from binlog_format.views.filters import GroupFilter  # compiled code takes a moment to load

        options = self._options
        groups = GroupFilter(skip, until, options.ignored_domains, options.ignored_servers)
        unnamed = _Unnamed()
        found = set(self._touched(start, stop, groups, unnamed))
        databases = frozenset(
            name
            for name in unnamed.dropped
            if any(rule.on_drop is not OnStatement.IGNORE for rule in self._selection.rules_about(name))
        )
        first = self._watched.log.start_position()
        if databases or unnamed.is_any:
            before = self._touched(first, stop, GroupFilter(None, until), _Unnamed())
            found.update(
                name for name in before if name.database in databases or (unnamed.is_any and self._asks_for_rows(name))
            )
        return frozenset(name for name in found if self._selection.find(name) is not None)

    def between(self, one: GtidPoint, other: GtidPoint) -> frozenset[TableName] | None:
        """Tables that groups touch which only one of two points covers: of all others, both are the same state.

        Returns:
            None: Not known, such groups are not in the log any more, or not yet.
        """
        key = (str(one), str(other))
        if key not in self._between:
            there, back = self._touched_between(one, other), self._touched_between(other, one)
            self._between[key] = None if there is None or back is None else there | back
        return self._between[key]

    def _touched_between(self, low: GtidPoint, high: GtidPoint) -> frozenset[TableName] | None:
        # Touched by groups that `high` covers, and `low` does not.
        if high == low:
            return frozenset()
        log = self._watched.log
        first = log.start_position()
        if _is_purged_between(log.gtid_position_at(first), low, high):
            return None
        try:
            end = end_of_gtids(log, high)
            skip = low if isinstance(low, GtidSet) else end_of_gtids(log, _of_domains(low, high)).taken
        except BinlogError:
            return None
        if end.missing:
            return None
        try:
            start = log.position_of(low).position
        except DataLossError:  # of domains that neither names
            start = first
        return self.within(start, max(start, end.position), skip=skip, until=end.taken)

    def _asks_for_rows(self, name: TableName) -> bool:
        # Of statements that are logged as text.
        rule = self._selection.rule(name)
        return rule is not None and rule.on_statement is OnRowStatement.FAIL

    def _touched(
        self, start: Position, stop: Position | None, groups: GroupFilter, unnamed: _Unnamed
    ) -> Iterator[TableName]:
        from binlog_format.views.selection import Selection
        from binlog_format.views.snapshot_events import SnapshotEvents

        tables = TableFilter(self._options.table_expressions, self._options.exclude_tables)
        selection, snapshots = Selection(tables, groups), SnapshotEvents()
        scope = StatementScope(folds_names=self._selection.folds_names)
        for block in self._watched.log.committed_blocks(start, stop):
            _, resolved = snapshots.take(block, selection.resolved(block))
            for touched in filter(selection.wants, resolved):
                yield TableName(touched.layout.database, touched.layout.table)
            for statement in _statements(block, groups):
                for change in scope.changes(statement, self._decoding):
                    yield from self._names(change, unnamed)
        for mark in snapshots.marks:
            yield TableName(str(mark["database"]), str(mark["table"]))

    def _names(self, change: StatementChange, unnamed: _Unnamed) -> list[TableName]:
        if isinstance(change, EventsLost):
            return []
        if isinstance(change, DatabaseDropped):
            unnamed.dropped.update((change.database, folded_name(change.database)))
            return []
        if isinstance(change, RowsChanged) and not isinstance(change, RowsMoved):
            unnamed.is_any |= change.names is None
            return list(filter(self._asks_for_rows, self._spelled(change.names or ())))
        return self._spelled(names_of(change))

    def _spelled(self, names: Iterable[TableName]) -> list[TableName]:
        # Where it is not set how the server compares names, a table counts rather as touched.
        if self._selection.folds_names is False:
            return list(names)
        return [spelling for name in names for spelling in name.spellings]


@dataclass(slots=True)
class _Unnamed:
    """Tables that statements touch without their names.

    Attributes:
        dropped: Databases.
        is_any: Rows of any table are changed by text.
    """

    dropped: set[str] = field(default_factory=set)
    is_any: bool = False


def _statements(block: Block, groups: GroupFilter) -> Iterator[DdlStatement]:
    found = list(find_statement_rows(block))
    keep = groups.keep(block) if found else None
    for event, row in found:
        if keep is None or keep[int(block.events["group"][event])]:
            yield DdlStatement.from_row(row)


def _is_purged_between(purged: GtidPoint, low: GtidPoint, high: GtidPoint) -> bool:
    """True if groups that only *high* covers are among those that have been *purged*."""
    if isinstance(purged, GtidSet):
        return bool(purged.without(purged.without(high)).without(low))
    if not isinstance(purged, GtidPosition) or not isinstance(high, GtidPosition):
        return False
    return any(domain in high.last and domain not in _of_domains(low, high).last for domain in purged.last)


def _of_domains(point: GtidPoint, other: GtidPoint) -> GtidPosition:
    """The part of a position that has domains of another one."""
    if not isinstance(point, GtidPosition) or not isinstance(other, GtidPosition):
        return GtidPosition({})
    return GtidPosition({domain: gtid for domain, gtid in point.last.items() if domain in other.last})
