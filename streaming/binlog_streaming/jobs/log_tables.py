"""Tables with changes in a log, and the known facts about them: `find_tables(path)`."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from binlog_connector.following.watched import file_start
from binlog_connector.rules.row_rules import NO_DEFINITIONS, DefinedTables, WantedDefinitions
from binlog_connector.schema.definitions import TableDefinition, TableName
from binlog_connector.schema.history import SchemaHistory
from binlog_connector.schema.layout_definitions import completed_by
from binlog_connector.schema.log_ddl import ServerRuns, table_statements
from binlog_connector.schema.operations import (
    AlterTable,
    CreateTable,
    DropDatabase,
    DropTables,
    RenameTables,
    TruncateTable,
)
from binlog_connector.schema.parsing.row_statements import ddl_operations
from binlog_connector.schema.row_format import RowFormat, Tally
from binlog_connector.schema.stated_definitions import definition_operations, stated_definitions
from binlog_format import open_log
from binlog_format.errors import BinlogError, SchemaError
from binlog_format.rows.columns import arrow_schema
from binlog_format.rows.declared.completion import DDL_SOURCE
from binlog_format.rows.virtual_columns import as_logged
from binlog_format.views.cascading import have_logged_cascades
from binlog_format.views.filters import SNAPSHOT_DATABASE, TableFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from binlog_connector.schema.foreign_keys import ForeignKey
    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_connector.schema.operations import Operation
    from binlog_format.block import Block
    from binlog_format.events.table_map import TableLayout
    from binlog_format.log.log import Log
    from binlog_format.log_format import LogFile
    from binlog_format.position import Position
    from binlog_format.rows.table_events import TableEvents

    OnProgress = Callable[[int, int], None]

SCAN_SIZE = 1 << 30
"""Bytes of the log that are looked at, by default: the newest ones tell what tables there are now."""


@dataclass(slots=True)
class FoundTable:
    """A table that the log has row changes of.

    Attributes:
        layout: What it looks like now, as far as the log (and a schema file) describes it.
        definitions: How many different sets of columns it has had in the part that was looked at.
        earlier: Layouts with other columns that it had there, in order, since it was created or renamed there, or
            columns of it were dropped or renamed; *layout* is not among them.
        is_made_there: It was created or renamed in that part, or columns of it were dropped or renamed.
        begun_at: Where it was created, emptied or dropped last in that part: all rows that it has come after that.
        changes: Rows inserted, updated and deleted there.
        has_partial_rows: Some of the rows that were inserted or updated came without all their columns.
        unknown_columns: Those that such rows left out, and of which nobody knows what the rows hold: no statement and
            no schema file that was seen gives their default, or tells whether they are generated, or they are.
        generated_columns: Those of them that are generated.
        zero_dates: Columns that had dates there that no calendar has, and the first of each.
        cascading: Foreign keys that it had there, defined by a schema file and statements there, through which
            changes of other tables change its rows.
        is_defined: A statement, a mark of a snapshot or a schema file states what no table map has of it: foreign keys,
            generated columns, defaults. None: not all of the log was looked at.
        problem: What does not let its layout be known, or its rows be read.
    """

    layout: TableLayout
    definitions: int = 1
    earlier: tuple[TableLayout, ...] = ()
    is_made_there: bool = False
    begun_at: Position | None = None
    changes: int = 0
    has_partial_rows: bool = False
    unknown_columns: tuple[str, ...] = ()
    generated_columns: tuple[str, ...] = ()
    zero_dates: Mapping[str, str] = field(default_factory=dict)
    cascading: tuple[ForeignKey, ...] = ()
    is_defined: bool | None = None
    problem: BinlogError | None = None

    @property
    def name(self) -> str:
        """`database.table`."""
        return self.layout.full_name


@dataclass(frozen=True, slots=True)
class FoundTables:
    """Result of a look at a log.

    Attributes:
        tables: By name.
        size: Bytes of the files that were looked at.
        size_all: Bytes of all files.
        tally: What the log does not tell row by row there.
        logs_cascades: The newest row events state that what foreign keys do is in the log.
        begun: `FoundTable.begun_at` of all tables, by name, those without rows too.
    """

    tables: tuple[FoundTable, ...]
    size: int
    size_all: int
    tally: Tally
    logs_cascades: bool
    begun: Mapping[str, Position]


def find_tables(
    path: str,
    format_name: str | None = None,
    *,
    schemas: SchemaHistory | None = None,
    wanted: WantedDefinitions = NO_DEFINITIONS,
    scan_size: int = SCAN_SIZE,
    on_progress: OnProgress | None = None,
    tally_from: Position | None = None,
) -> FoundTables:
    """Look at the newest files of the log at *path*.

    Args:
        path: Directory of the binlog files, one file, or a URL.
        format_name: The format that the log must have; None: whatever it is.
        schemas: What is known before the log; None: nothing is.
        wanted: Of which tables what is wanted.
        scan_size: As many whole files are looked at as hold these bytes.
        on_progress: Called with the bytes done and the bytes there are.
        tally_from: Where `FoundTables.tally` begins; None: with the part that is looked at.

    Raises:
        BinlogError: The log cannot be read. What is wrong with a table alone is reported there.
    """
    history = SchemaHistory() if schemas is None else schemas
    finder = _Finder(history, wanted)
    row_format, tally = RowFormat(TableFilter(), folds_names=history.folds_names), Tally()
    with open_log(path, format_name=format_name) as log:
        files = [file for file in log.files() if file.header]
        chosen = _newest(files, scan_size)
        size, size_all = (sum(file.used_size for file in some) for some in (chosen, files))
        if chosen:
            is_all = len(chosen) == len(files)
            start = log.start_position() if is_all else file_start(chosen[0].file_no)
            server_runs = ServerRuns(log)
            for block in _told(log, history, start, chosen, on_progress):
                finder.look_at(block)
                for lacking in row_format.lacking(block, server_runs=server_runs):
                    if tally_from is None or lacking.statement.position >= tally_from:
                        tally.take(lacking)
    tables = tuple(
        table
        for table in finder.tables()
        if table.layout.database != SNAPSHOT_DATABASE and not table.layout.is_sequence
    )
    for table in tables:
        table.is_defined = finder.is_defined(table) or (None if size < size_all else False)
    return FoundTables(tables, size, size_all, tally, finder.logs_cascades, finder.begun)


class _Finder:
    """Collects tables, block by block; what is wrong with one table does not hide the others."""

    def __init__(self, history: SchemaHistory, wanted: WantedDefinitions) -> None:
        from binlog_format.rows.table_events import TableMaps  # compiled code takes a moment to load

        self._history = history
        self._defined = None if wanted.tables is None else DefinedTables(wanted.tables)
        self._full_source_images = wanted.full_source_images
        self._maps = TableMaps()
        self._by_name: dict[str, FoundTable] = {}
        self._known: dict[str, dict[str, FoundTable]] = {}  # by name and digest
        self._layouts: dict[str, list[FoundTable]] = {}  # by name, in order, each time that the layout is another one
        self._made: set[str] = set()
        self.begun: dict[str, Position] = {}
        self._foreign_keys = history.base.foreign_keys.copy()
        self._cascading: dict[str, dict[str, ForeignKey]] = {}  # by table and name
        self.logs_cascades = False
        self._note_cascading()

    def look_at(self, block: Block) -> None:
        """Take in one more block."""
        statements = [(row, statement) for row, _, statement in table_statements(block)]
        tables = sorted(self._maps.resolve(block), key=lambda touched: int(touched.events[0]))
        if tables:
            self.logs_cascades = all(have_logged_cascades(block, touched.events) for touched in tables)
        for touched in tables:
            while statements and statements[0][0] < int(touched.events[0]):
                self._obey(statements.pop(0)[1])
            layout = touched.layout
            definitions = self._known.setdefault(layout.full_name, {})
            found = definitions.get(layout.digest)
            if found is None:
                found = definitions[layout.digest] = self._completed(block, touched)
            self._count(found, block, touched)
            self._by_name[layout.full_name] = found
            layouts = self._layouts.setdefault(layout.full_name, [])
            if not layouts or layouts[-1] is not found:
                layouts.append(found)
        for _, statement in statements:
            self._obey(statement)
        for stated in stated_definitions(block):
            for operation in definition_operations(stated):
                self._foreign_keys.apply(operation)
            self._note_cascading()

    def tables(self) -> tuple[FoundTable, ...]:
        """All tables, by name, as they were defined last."""
        for name, table in self._by_name.items():
            definitions = self._known[name].values()
            table.definitions = len({str(_columns(definition.layout)) for definition in definitions})
            table.changes = sum(definition.changes for definition in definitions)
            table.has_partial_rows = any(definition.has_partial_rows for definition in definitions)
            unknown = (column for definition in definitions for column in definition.unknown_columns)
            table.unknown_columns = tuple(dict.fromkeys(unknown))
            generated = (column for definition in definitions for column in definition.generated_columns)
            table.generated_columns = tuple(dict.fromkeys(generated))
            others = (other for other in self._layouts.get(name, ()) if other is not table)
            table.earlier = tuple(other.layout for other in others if other.problem is None)
            table.is_made_there = name in self._made
            table.begun_at = self.begun.get(name)
            table.cascading = tuple(self._cascading.get(name, {}).values())
            self._complete(table)
        return tuple(self._by_name[name] for name in sorted(self._by_name))

    def is_defined(self, table: FoundTable) -> bool:
        """True if the log contains, at its end, the facts that no table map has, or the job keeps them."""
        return self._newest_definition(table) is not None

    def _complete(self, table: FoundTable) -> None:
        # A mark may state only after all rows what they are called, and a job may keep it without the log.
        definition = self._newest_definition(table)
        if definition is not None and table.problem is None and not table.layout.completion:
            with contextlib.suppress(SchemaError):  # rows from before a change
                table.layout = completed_by(table.layout, definition, DDL_SOURCE)

    def _newest_definition(self, table: FoundTable) -> TableDefinition | None:
        try:
            found = self._history.newest_definition(TableName(table.layout.database, table.layout.table))
        except BinlogError:
            return None  # a statement that was not understood: nothing is known any more
        return None if found is None or found.columns is None else found

    def _obey(self, statement: DdlStatement) -> None:
        # After such a statement columns are not those before it under the same names.
        for operation in ddl_operations(statement):
            self._foreign_keys.apply(operation)
            self._note_cascading()
            for name in _begun_by(operation):
                self.begun[str(name)] = statement.position
            for name in _made_by(operation):
                self._made.add(str(name))
                self._layouts.pop(str(name), None)
            if isinstance(operation, DropDatabase):
                for full_name, found in self._by_name.items():
                    if found.layout.database == operation.database:
                        self._made.add(full_name)
                        self._layouts.pop(full_name, None)

    def _note_cascading(self) -> None:
        for child in self._foreign_keys.keys:
            keys = {key.name: key for key in self._foreign_keys.cascading_of(child)}
            self._cascading.setdefault(str(child), {}).update(keys)

    def _count(self, found: FoundTable, block: Block, touched: TableEvents) -> None:
        from binlog_format.rows.images import ImageKind, read_images
        from binlog_format.rows.values.temporal import first_zero_dates
        from binlog_streaming.jobs.left_out_columns import left_out_columns

        if found.problem is not None:
            return
        try:
            images = read_images(block.data, block.events, touched.events, found.layout, place=block.place)
            found.zero_dates = first_zero_dates(images, found.zero_dates)
        except BinlogError as error:
            found.problem = error
            return
        kinds = images.table["kind"]
        found.changes += int(np.count_nonzero(kinds != ImageKind.UPDATE_AFTER))
        if not images.has_absent():
            return
        left_out = left_out_columns(images, touched.layout, self._definition(block, touched))
        found.unknown_columns = tuple(dict.fromkeys((*found.unknown_columns, *left_out.unknown)))
        found.generated_columns = tuple(dict.fromkeys((*found.generated_columns, *left_out.generated)))
        found.has_partial_rows = found.has_partial_rows or left_out.any

    def _completed(self, block: Block, touched: TableEvents) -> FoundTable:
        layout = touched.layout
        if layout.problem is not None:
            return FoundTable(layout, problem=layout.problem)
        try:
            is_replicated = not self._full_source_images and block.is_replicated(touched.events)
            is_needed = is_replicated or (self._defined is not None and self._defined.has(layout))
            layout = self._history.completed(layout, block.position_at(touched.events[0]), needs_generated=is_needed)
            return FoundTable(as_logged(layout, block, is_replicated=is_replicated))
        except BinlogError as error:
            return FoundTable(layout, problem=error)

    def _definition(self, block: Block, touched: TableEvents) -> TableDefinition | None:
        layout = touched.layout
        try:
            definition = self._history.definition(layout.database, layout.table, block.position_at(touched.events[0]))
        except BinlogError:
            return None  # a statement that was not understood: nothing is known any more
        is_its = definition is not None and len(definition.columns or ()) == len(layout.columns)
        return definition if is_its else None


def _made_by(operation: Operation) -> Iterable[TableName]:
    match operation:
        case CreateTable():
            yield operation.name
        case DropTables():
            yield from operation.names
        case RenameTables():
            for pair in operation.pairs:
                yield from pair
        case AlterTable():
            renamed = any(change.old_name not in (None, change.column.name) for change in operation.changes)
            if operation.new_name is not None:
                yield operation.new_name
            if operation.new_name is not None or operation.dropped or operation.column_renames or renamed:
                yield operation.name


def _begun_by(operation: Operation) -> Iterable[TableName]:
    match operation:
        case CreateTable(if_not_exists=False) | TruncateTable():
            return (operation.name,)
        case DropTables() if not operation.only_sequences:
            return operation.names
    return ()


def _columns(layout: TableLayout) -> object:
    # What a table's rows become; None of what else a definition may contain, such as NOT NULL.
    try:
        return arrow_schema(layout)
    except BinlogError:
        return layout.columns


def _newest(files: list[LogFile], scan_size: int) -> list[LogFile]:
    chosen: list[LogFile] = []
    size = 0
    for file in reversed(files):
        if chosen and size + file.used_size > scan_size:
            break
        chosen.insert(0, file)
        size += file.used_size
    return chosen


def _told(
    log: Log, history: SchemaHistory, start: Position, files: list[LogFile], on_progress: OnProgress | None
) -> Iterator[Block]:
    total = sum(file.used_size for file in files)
    before = {file.file_no: sum(other.used_size for other in files if other.file_no < file.file_no) for file in files}
    for block in history.following(log.committed_blocks(start), log.path, start):
        yield block
        if on_progress is not None:
            on_progress(before.get(block.next_position.file_no, total), total)
