"""Changes that a log lacks row by row: `RowFormat(...).lacking(block)`; `only_rows` refuses, `Tally` counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from binlog_connector.schema.replaced_rows import row_statements
from binlog_connector.schema.statement_rows import events_lost_error, statement_error
from binlog_connector.schema.statement_scope import StatementScope
from binlog_connector.schema.table_changes import EventsLost, RowsChanged
from binlog_format.views.filters import ALL_GROUPS, GroupFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.log_ddl import DdlStatement, ServerRuns
    from binlog_format.block import Block
    from binlog_format.errors import BinlogError
    from binlog_format.rows.decoding import TableSchemas
    from binlog_format.views.filters import TableFilter


class Lacking(NamedTuple):
    """Changed rows that a log does not tell.

    Attributes:
        statement: What is in the log instead.
        names: Wanted tables that it may concern; None: any.
    """

    statement: DdlStatement
    change: RowsChanged | EventsLost
    names: tuple[TableName, ...] | None

    def error(self, *, tells_text: bool = True) -> BinlogError:
        """Error for readers that need these rows: `STATEMENT_FORMAT` or `LOST_EVENTS`; *tells_text*: with the text."""
        if isinstance(self.change, EventsLost):
            return events_lost_error(self.statement)
        return statement_error(self.statement, self.names, self.change, tells_text=tells_text)


class RowFormat:
    """Finds what is missing of wanted tables; takes all blocks of a log, or of a part of it, in their order.

    Args:
        table: The one table (`database.table`) that is wanted; None: all of *tables*.
        folds_names: Names of tables in upper and lower case are the same; None: they may be.
        scope_before: Gives what is known where the part begins, when that is needed; default: nothing is.
        schemas: See `row_statements`.
    """

    def __init__(
        self,
        tables: TableFilter,
        *,
        table: str | None = None,
        folds_names: bool | None = None,
        scope_before: Callable[[], StatementScope] | None = None,
        schemas: TableSchemas | None = None,
    ) -> None:
        self._tables = tables
        self._table = table
        self._scope_before = scope_before
        self._schemas = schemas
        self._waiting: list[DdlStatement] = []  # for what `scope_before` gives
        self._folds_names = folds_names
        self._scope = StatementScope(folds_names=folds_names)

    def lacking(
        self, block: Block, groups: GroupFilter = ALL_GROUPS, server_runs: ServerRuns | None = None
    ) -> Iterator[Lacking]:
        """Changes that a block of plain events does not contain row by row; costs nothing if it contains all."""
        keep = None
        for number, (event, _, statement) in enumerate(row_statements(block, server_runs, self._schemas)):
            keep = groups.keep(block) if number == 0 else keep
            change = self._observe(statement)
            if change is None or not (keep is None or keep[int(block.events["group"][event])]):
                continue
            names = None if isinstance(change, EventsLost) else change.names
            concerned = None if names is None else tuple(filter(self._wants, names))
            if concerned is None or concerned:
                yield Lacking(statement, change, concerned)

    def _observe(self, statement: DdlStatement) -> RowsChanged | EventsLost | None:
        change = self._scope.observe(statement)
        if self._scope_before is None:
            return change
        self._waiting.append(statement)
        if change is None:
            return None
        # Only now what comes before the part has a bearing.
        self._scope, self._scope_before = self._scope_before(), None
        waiting, self._waiting = self._waiting, []
        return [self._scope.observe(statement) for statement in waiting][-1]

    def _wants(self, name: TableName) -> bool:
        return any(
            (self._table is None or self._table == str(spelled)) and self._tables.accepts_name(*spelled)
            for spelled in ((name,) if self._folds_names is False else name.spellings)
        )


def only_rows(
    blocks: Iterable[Block],
    row_format: RowFormat,
    groups: GroupFilter,
    server_runs: ServerRuns,
    *,
    tells_text: bool = True,
) -> Iterator[Block]:
    """The same *blocks*, of plain events, as long as they tell all changes of wanted tables.

    Args:
        blocks: Of a log, in order.
        tells_text: Whether errors show the text of a statement.
    """
    for block in blocks:
        for lacking in row_format.lacking(block, groups, server_runs):
            raise lacking.error(tells_text=tells_text)
        yield block


@dataclass(slots=True)
class Count:
    """Count for one table. *first*: the first one."""

    first: Lacking
    number: int = 0


@dataclass(slots=True)
class Tally:
    """Changes that a log, or a part of it, does not contain row by row.

    Attributes:
        counts: By table and condition of the error; a table of None: of what may concern any table.
    """

    statements: int = 0
    incidents: int = 0
    counts: dict[tuple[TableName | None, str], Count] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """True if every changed row is in a row event."""
        return not self.counts

    def take(self, lacking: Lacking) -> list[TableName | None]:
        """Count one more; the tables of which it is the first one of its kind."""
        condition = lacking.error().condition
        if isinstance(lacking.change, EventsLost):
            self.incidents += 1
        else:
            self.statements += 1
        new: list[TableName | None] = []
        for name in lacking.names if lacking.names is not None else (None,):
            count = self.counts.get((name, condition))
            if count is None:
                count = self.counts[name, condition] = Count(lacking)
                new.append(name)
            count.number += 1
        return new
