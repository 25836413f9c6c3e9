"""Definitions of tables at every position: `SchemaHistory`, from a schema file and from the DDL of a log."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING

from binlog_connector.schema.catalog import Catalog, Unclear, read_schema_file
from binlog_connector.schema.definitions import TableDefinition, TableName
from binlog_connector.schema.layout_definitions import known_columns, leaves_open, may_have_declared_types, revealed
from binlog_connector.schema.log_ddl import DdlStatement, ddl_statements
from binlog_connector.schema.stated_definitions import definition_operations, is_stated, stated_definitions
from binlog_connector.schema.table_names import NameRule, has_if_exists, names_unclear
from binlog_format.errors import SchemaError
from binlog_format.formats.opening import open_log
from binlog_format.rows.declared.completion import DDL_SOURCE, apply_completion
from binlog_format.transactions.expansion import expanded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

    from binlog_connector.schema.catalog import TableState
    from binlog_format.block import Block
    from binlog_format.events.table_map import TableLayout
    from binlog_format.log.log import Log
    from binlog_format.position import Position


class _Timeline:
    """States of one table: `positions[i]` is from where on `states[i]` holds; before the first one, `base` does."""

    __slots__ = ("base", "positions", "states")

    def __init__(self, base: TableState | None) -> None:
        self.base = base
        self.positions: list[Position] = []
        self.states: list[TableState | None] = []

    def note(self, position: Position, state: TableState | None) -> None:
        last = self.states[-1] if self.states else self.base
        # Of a table that is not known nobody knows what the statement changed.
        if state == last and state is not None:
            return
        if self.positions and self.positions[-1] == position:
            self.states[-1] = state
        else:
            self.positions.append(position)
            self.states.append(state)

    def at(self, position: Position) -> tuple[TableState | None, Position | None]:
        index = bisect_right(self.positions, position) - 1
        return (self.states[index], self.positions[index]) if index >= 0 else (self.base, None)

    def before(self, position: Position) -> TableState | None:
        """State of the table up to *position*."""
        index = bisect_left(self.positions, position) - 1
        return self.states[index] if index >= 0 else self.base


class SchemaHistory:
    """Definitions of tables by position; tells `Decoding.schemas` what table maps leave open.

    DDL may be noted in any order and any number of times: each statement counts once, by its position. What the
    definitions are is computed when they are requested.

    Args:
        base: What holds before all DDL; it is copied. None: nothing is known.
        altered: Tables in it that DDL has changed since.
        folds_names: Names of tables in upper and lower case are the same; None: as the log proves it.

    Attributes:
        known_to: All DDL before this position has been noted, as far as it was read without a gap; None: none was.
        kept: Definitions that a job keeps: `newest_definition` has them of tables of which nothing else is known.
    """

    def __init__(
        self,
        base: Catalog | None = None,
        *,
        base_source: str = "the schema file",
        altered: Iterable[TableName] = (),
        folds_names: bool | None = None,
    ) -> None:
        self._base = base.copy() if base is not None else Catalog()
        if folds_names and not self._base.ignore_case:
            self._base.fold()
        self._base_source = base_source
        self._altered = set(altered)
        self._statements: list[DdlStatement] = []
        self._numbers: set[tuple[Position, int]] = set()
        self._names = NameRule(True if self._base.ignore_case else folds_names)
        self._catalog = self._base.copy()
        self._timelines: dict[TableName, _Timeline] = {}
        self._applied = 0  # statements that `_catalog` and `_timelines` hold
        self._earlier: Callable[[], None] | None = None
        self.known_to: Position | None = None
        self.kept: Mapping[TableName, TableDefinition] = {}

    @classmethod
    def from_schema_file(cls, path: str | None, *, folds_names: bool | None = None) -> SchemaHistory:
        """One that knows what *path* contains, from the start of the log on.

        Args:
            path: A dump of CREATE TABLEs: see `read_schema_file`; None: there is none, and nothing is known.
        """
        if path is None:
            return cls(folds_names=folds_names)
        file = read_schema_file(path, ignore_case=bool(folds_names))
        return cls(file, base_source=path, folds_names=folds_names)

    @property
    def base(self) -> Catalog:
        """Definitions before all DDL; not to be changed."""
        return self._base

    @property
    def base_source(self) -> str:
        """Source of `base`."""
        return self._base_source

    @property
    def folds_names(self) -> bool | None:
        """True if names of tables in upper and lower case are the same; None: neither set nor proved."""
        return self._names.folds

    @property
    def altered(self) -> Set[TableName]:
        """Tables in `base` that DDL has changed since."""
        return self._altered

    @property
    def statements(self) -> Sequence[DdlStatement]:
        """The DDL that is known, in order."""
        return self._statements

    @property
    def newest_changes(self) -> Mapping[TableName, Position]:
        """Position of the last change of each table that differs from `base`."""
        self._apply()
        return {name: found.positions[-1] for name, found in self._timelines.items() if found.positions}

    def note(self, statement: DdlStatement) -> bool:
        """Take DDL into account; False when it is known already."""
        number = statement.place
        if number in self._numbers:
            return False
        self._numbers.add(number)
        if self._statements and statement < self._statements[-1]:
            insort(self._statements, statement)
            self._forget_applied()
        else:
            self._statements.append(statement)
        return True

    def observe(self, block: Block) -> int:
        """Note DDL of a block of plain events, and definitions in marks of snapshots; how many statements were new."""
        count = sum(map(self.note, ddl_statements(block))) + sum(map(self.note, stated_definitions(block)))
        if self.known_to is None or self.known_to < block.next_position:
            self.known_to = block.next_position
        return count

    def observed(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """The same blocks; the DDL of each is noted before it is passed on.

        Args:
            blocks: Of plain events, in order: `Log.committed_blocks`.
        """
        for block in blocks:
            self.observe(block)
            yield block

    def following(self, blocks: Iterable[Block], path: str, start: Position | None) -> Iterator[Block]:
        """`observed`, for a read that starts in the middle of a log.

        The DDL before *start* is looked for when a table map first leaves something open, or has a column that may be a
        UUID, INET or VECTOR, and not at all in a log whose table maps contain everything.

        Args:
            blocks: Of plain events, in order, from *start* on.
            path: Of the log; it is opened a second time for that.
            start: None: *blocks* begin where the log does.
        """
        if start is not None and (self.known_to is None or self.known_to < start):
            # As it is now: the blocks themselves move it on, before anybody asks.
            known_to, earlier = self.known_to, self._earlier

            def look() -> None:
                if earlier is not None:
                    earlier()
                with open_log(path) as log:
                    self.scan_ddl(log, known_to or log.start_position(), start)

            self._earlier = look
        return self.observed(blocks)

    def scan_ddl(self, log: Log, start: Position | None = None, end: Position | None = None) -> int:
        """Note the DDL in [*start*, *end*) without looking at rows; how many statements were new.

        For a restart or a part of a log, whose definitions depend on what comes before it. What purged files began is
        taken for older than the log.

        Args:
            log: Is read from front to back.
            start: Default: up to where DDL is known already (`known_to`), or the start of the log.
            end: Default: the end of the log.
        """
        first = start if start is not None else self.known_to
        return sum(self.observe(block) for block in expanded(log.blocks(first, end, skips_purged=True)))

    def compact(self, before: Position) -> None:
        """Forget what held only at positions before *before*: the definitions there become the base."""
        self._apply()
        later = (index for index, known in enumerate(self._statements) if known.position >= before)
        cut = next(later, len(self._statements))
        for statement in self._statements[:cut]:
            self._altered |= self._apply_to(self._base, statement, NameRule())
        self._statements = self._statements[cut:]
        self._numbers = {statement.place for statement in self._statements}
        self._forget_applied()

    def definition(self, database: str, table: str, position: Position) -> TableDefinition | None:
        """The definition of a table for groups at *position*; None: not known, or not any more."""
        return _understood(TableName(database, table), self._timeline(database, table).at(position)[0])

    def newest_definition(self, name: TableName) -> TableDefinition | None:
        """The definition of a table after all that was noted; None: not known, or not any more."""
        self._apply()
        return _understood(name, self._catalog.tables.get(self._catalog.key(name))) or self.kept.get(name)

    def definition_before(self, name: TableName, statement: DdlStatement) -> TableDefinition | None:
        """The definition of a table when *statement* begins; None: not known, or not any more."""
        self._look_earlier()
        return _understood(name, self._timeline(*name).before(statement.position))

    def edges(self, database: str, table: str) -> Sequence[Position]:
        """See `TableSchemas`."""
        return self._timeline(database, table).positions

    def completed(self, layout: TableLayout, position: Position, *, needs_generated: bool = False) -> TableLayout:
        """See `TableSchemas`.

        A table map that has names is right, whatever DDL was seen: columns that the definition does not know so are
        left as they are. A schema file that contradicts it is an error all the same: it was given on purpose.

        Raises:
            SchemaError: `COLUMN_COUNT_MISMATCH`, `COLUMN_MISMATCH`: the definition is not that of the table map.
                `DDL_NOT_PARSED`: there are no names, and a statement about the table was not understood.
        """
        if needs_generated or leaves_open(layout) or may_have_declared_types(layout):
            self._look_earlier()
        name = TableName(layout.database, layout.table)
        state, since = self._timeline(*name).at(position)
        if state is None and self._names.folds is None:
            self._compare_spellings(name, position, needs_names=not layout.has_names)
            state, since = self._timeline(*name).at(position)
        if isinstance(state, Unclear):
            if layout.has_names:
                return layout
            raise _not_parsed(layout.full_name, state)
        if state is None or state.columns is None:
            return layout
        completion = state.completion()
        layout = revealed(layout, state.columns)
        from_log = since is not None or self._base.key(name) in self._altered
        if layout.has_names and from_log:
            completion = known_columns(layout, completion)
        source = f"{DDL_SOURCE} at {since}" if since is not None else DDL_SOURCE if from_log else self._base_source
        return apply_completion(layout, completion.to_json(), source)

    def _look_earlier(self) -> None:
        if self._earlier is not None:
            look, self._earlier = self._earlier, None
            look()

    def _compare_spellings(self, name: TableName, position: Position, *, needs_names: bool) -> None:
        """Take rows of a table as evidence of how the server compares names, where statements spell it otherwise."""
        others = (other for other in (*self._timelines, *self._base.tables) if other.lowered == name != other)
        other = next((other for other in others if self._timeline(*other).at(position)[0] is not None), None)
        if other is None:
            return
        rule = NameRule()
        for statement in self._statements:
            if statement.position < position and not is_stated(statement):
                for operation in definition_operations(statement):
                    rule.observe(operation, may_be_missing=has_if_exists(statement.text))
        rule.take_rows([name])
        if rule.folds:
            self._names = rule
            self._fold_if_proved()
        elif rule.folds is None and needs_names:
            raise names_unclear(name, other)

    def _timeline(self, database: str, table: str) -> _Timeline:
        self._apply()
        key = self._catalog.key(TableName(database, table))
        found = self._timelines.get(key)
        return _Timeline(self._base.tables.get(key)) if found is None else found

    def _apply(self) -> None:
        while self._applied < len(self._statements):
            statement = self._statements[self._applied]
            self._applied += 1
            for key in self._apply_to(self._catalog, statement, self._names):
                timeline = self._timelines.get(key)
                if timeline is None:
                    timeline = self._timelines[key] = _Timeline(self._base.tables.get(key))
                timeline.note(statement.position, self._catalog.tables.get(key))
            self._fold_if_proved()

    def _fold_if_proved(self) -> None:
        if self._names.folds and not self._base.ignore_case:
            self._base.fold()
            self._altered = {name.lowered for name in self._altered}
            self._forget_applied()

    @staticmethod
    def _apply_to(catalog: Catalog, statement: DdlStatement, names: NameRule) -> set[TableName]:
        touched: set[TableName] = set()
        for operation in definition_operations(statement):
            if not is_stated(statement):
                names.observe(operation, may_be_missing=has_if_exists(statement.text))
            touched |= catalog.apply(operation, statement.vendor, statement.session_id)
        return touched

    def _forget_applied(self) -> None:
        self._names = NameRule(self._names.folds)
        self._catalog = self._base.copy()
        self._timelines = {}
        self._applied = 0


def _understood(name: TableName, state: TableState | None) -> TableDefinition | None:
    if isinstance(state, Unclear):
        raise _not_parsed(str(name), state)
    return state


def _not_parsed(table: str, state: Unclear) -> SchemaError:
    return SchemaError(
        "DDL_NOT_PARSED",
        f"{table}: a statement about it is not understood, and the log has no column names: {state.reason}",
        hint="Start after the statement with a schema file made then, or set binlog_row_metadata=FULL on the server",
    )
