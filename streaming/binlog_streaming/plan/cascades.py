"""Rows of child tables that foreign keys change without a word in the log: `CascadeLog`, `cascades_in`."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import merge
from typing import TYPE_CHECKING, NamedTuple

from binlog_connector.following.watched import WatchedLog
from binlog_connector.log_definitions import RangeSchemas, SchemaFile
from binlog_connector.options.query_views import make_decoding, schemas_for
from binlog_connector.options.source_options import SourceOptions
from binlog_connector.schema.foreign_keys import ForeignKeys, take_inline_keys
from binlog_connector.schema.layout_definitions import row_ends
from binlog_connector.schema.log_ddl import ServerRuns, all_statements
from binlog_connector.schema.stated_definitions import stated_definitions
from binlog_connector.schema.statement_scope import StatementScope
from binlog_format.errors import SchemaError, UnsupportedError
from binlog_format.transactions.expansion import expanded
from binlog_format.views.cascading import DELETES, UPDATES, first_cascading
from binlog_format.views.filters import GroupFilter, TableFilter
from binlog_format.views.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence, Set

    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.foreign_keys import Cascade
    from binlog_format.block import Block
    from binlog_format.events.table_map import TableLayout
    from binlog_format.position import Position
    from binlog_format.rows.table_events import TableEvents
    from binlog_format.views.cascading import CascadingChange, RowEnds
    from binlog_streaming.plan.batch_plan import LogPlace
    from binlog_streaming.plan.cascade_links import Appliance
    from binlog_streaming.settings.model import Job


class Touched(NamedTuple):
    """Row events of one table, in one range of the log, to which foreign keys apply.

    Attributes:
        outside: How many of them are outside of transactions.
    """

    table: TableName
    start: Position
    end: Position
    updates: int
    deletes: int
    outside: int = 0


def change_text(parent: TableName, change: CascadingChange) -> str:
    """Place and kind of a change of *parent*."""
    gtid = f"GTID {change.gtid}, " if change.gtid else ""
    what = "a DELETE from" if change.is_delete else "an UPDATE of a key of"
    return f"{gtid}position {change.position}:{change.event_no}: {what} {parent}"


class CascadedChange(NamedTuple):
    """The first change of a parent, in one range of the log, that may have changed rows of a child.

    Attributes:
        obstacle: Why it cannot be done in the child's targets, where it is to be.
    """

    parent: TableName
    cascade: Cascade
    change: CascadingChange
    obstacle: str = ""

    @property
    def place(self) -> LogPlace:
        """Place of the change."""
        return self.change.position, self.change.event_no

    def error(self) -> UnsupportedError:
        """Error with which its child is refused."""
        child, key = self.cascade
        name = f" {key.name}" if key.name else ""
        return UnsupportedError(
            "FOREIGN_KEY_CASCADE",
            f"{change_text(self.parent, self.change)} may change rows of {child}, by its foreign key{name} to "
            f"{key.parent}, and the log does not have these changes"
            + (f"; they cannot be derived: {self.obstacle}" if self.obstacle else ""),
            hint=f"{self._ways_out}. "
            "The event states that foreign keys are checked: a session with foreign_key_checks=0 carries nothing on. "
            "MySQL logs such changes from 9.6 on, unless innodb_native_foreign_keys is ON",
        )

    @property
    def _ways_out(self) -> str:
        ignoring = 'foreign_keys = "ignore" for it goes on without these changes'
        if self.obstacle:
            return f"Take the child table anew after it; {ignoring}"
        return f'foreign_keys = "apply" for the child table makes these changes in its targets; {ignoring}'


@dataclass(frozen=True, slots=True)
class CascadeLog:
    """A job's access to its log for questions about foreign keys."""

    job: Job

    def scope_before(
        self, start: Position, observed: Callable[[Iterable[Block]], Iterator[Block]] = iter
    ) -> StatementScope:
        """Read the scope, and foreign keys, from the schema file, statements and marks before *start*.

        Args:
            observed: Passes on the blocks that are read, to see them, too.
        """
        folds = self.job.source.folds_names
        scope, file = StatementScope(folds_names=folds), self._schema_file()
        keys = ForeignKeys() if file is None else file.catalog.foreign_keys.copy()
        if folds:
            keys.fold()
        scope.foreign_keys = keys
        options = self._options()
        with WatchedLog(options.path, options.format) as watched:
            log = watched.log
            first = log.start_position()
            server_runs = ServerRuns(log)
            earlier = log.blocks(first, start, skips_purged=True) if first < start else ()
            for block in observed(expanded(earlier)):
                statements = (statement for _, _, statement in all_statements(block, server_runs))
                for statement in merge(statements, stated_definitions(block)):
                    scope.observe(statement)
        return scope

    @property
    def takes_inline_keys(self) -> bool | None:
        """True if the servers make a foreign key of REFERENCES in a column's own definition; None: some of them do."""
        options = self._options()
        with WatchedLog(options.path, options.format) as watched:
            return take_inline_keys(watched.log.files())

    def events_of(self, parent: TableName, start: Position, end: Position) -> Iterator[tuple[Block, TableEvents]]:
        """Updates and deletes of *parent* in [*start*, *end*), block by block."""
        options = self._options()
        with WatchedLog(options.path, options.format) as watched:
            schemas = schemas_for(options, watched, start, self._schema_file())
            assert schemas is not None
            selection = Selection(
                TableFilter(),
                self._groups(options),
                table=str(parent),
                event_types=UPDATES | DELETES,
                decoding=make_decoding(options, schemas),
            )
            for block in schemas.observed(watched.log.committed_blocks(start, end)):
                for events in selection.of(block):
                    yield block, events

    def first(
        self, parent: TableName, start: Position, end: Position, *, deletes: bool, columns: Set[str]
    ) -> CascadingChange | None:
        """The first change of *parent* in [*start*, *end*) that is not carried on within the log; None: there is none.

        Args:
            columns: Of these, updates do.
        """
        options, file = self._options(), self._schema_file()
        given = self.job.given_definitions(file)
        with WatchedLog(options.path, options.format) as watched:
            schemas = schemas_for(options, watched, start, file)
            assert schemas is not None

            def ends_of(layout: TableLayout, position: Position) -> RowEnds:
                try:
                    known = RangeSchemas(watched, position, given).definition(parent)
                except SchemaError:  # a statement about it was not understood
                    known = None
                return row_ends(layout, known)

            return first_cascading(
                schemas.observed(watched.log.committed_blocks(start, end)),
                str(parent),
                deletes=deletes,
                columns=columns,
                decoding=make_decoding(options, schemas),
                groups=self._groups(options),
                ends_of=ends_of,
            )

    @staticmethod
    def _groups(options: SourceOptions) -> GroupFilter:
        return GroupFilter(None, None, options.ignored_domains, options.ignored_servers)

    def _options(self) -> SourceOptions:
        return SourceOptions.parse({"path": self.job.source.path, **self.job.source_options()})

    def _schema_file(self) -> SchemaFile | None:
        path = self.job.source.schema_file
        return SchemaFile.read(path) if path else None


def cascades_in(
    touched: Iterable[Touched],
    states: Sequence[tuple[Position, ForeignKeys]],
    log: CascadeLog,
    is_wanted: Callable[[TableName], bool],
    appliance: Appliance,
) -> list[CascadedChange]:
    """Find changes of parents that may have changed children, by place.

    Args:
        touched: The row events of the batch to which foreign keys apply.
        states: The foreign keys, each from a position on.
        is_wanted: Whether a child counts in which they are not done.
    """
    found = [change for part in touched for change in _of_part(part, states, log, is_wanted, appliance)]
    return sorted(found, key=lambda change: change.place)


def _of_part(
    part: Touched,
    states: Sequence[tuple[Position, ForeignKeys]],
    log: CascadeLog,
    is_wanted: Callable[[TableName], bool],
    appliance: Appliance,
) -> Iterator[CascadedChange]:
    ends = [since for since, _ in states[1:]] + [part.end]
    for (since, keys), until in zip(states, ends, strict=True):
        start, end = max(part.start, since), min(part.end, until)
        if start >= end:
            continue

        def is_open(cascade: Cascade, part: Touched = part) -> bool:
            if appliance.is_applied(cascade.child):
                return appliance.is_real(cascade.key) and bool(appliance.obstacle(cascade, part))
            return is_wanted(cascade.child)

        reached_by_delete = keys.reached_by_delete(part.table) if part.deletes else []
        by_delete = {cascade.child: cascade for cascade in reached_by_delete if is_open(cascade)}
        by_update: dict[TableName, Cascade] = {}
        columns: dict[TableName, set[str]] = {}
        for column in keys.updating_columns(part.table) if part.updates else ():
            for reached in filter(is_open, keys.reached_by_update(part.table, (column,))):
                by_update.setdefault(reached.child, reached)
                columns.setdefault(reached.child, set()).add(column)
        for child in sorted({*by_delete, *by_update}):
            change = log.first(
                part.table, start, end, deletes=child in by_delete, columns=columns.get(child, frozenset())
            )
            if change is not None:
                cascade = (by_delete if change.is_delete else by_update)[child]
                applied = appliance.is_applied(child)
                obstacle = appliance.obstacle(cascade, part) if applied else ""
                yield CascadedChange(part.table, cascade, change, obstacle)
