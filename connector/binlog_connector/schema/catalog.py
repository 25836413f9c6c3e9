"""All tables that are known at one moment: `Catalog.apply(operation)`.

Schema files: `read_schema_file(path)`: a dump of CREATE TABLEs becomes a `Catalog`.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_connector.schema.alteration import Defaults, ImpossibleError, altered, created
from binlog_connector.schema.definitions import (
    SEQUENCE_COLUMNS,
    SEQUENCE_ENGINE,
    ColumnDefinition,
    TableDefinition,
    TableName,
)
from binlog_connector.schema.foreign_keys import ForeignKeys
from binlog_connector.schema.operations import (
    AlterTable,
    CreateSequence,
    CreateTable,
    CreateTemporaryTable,
    CreateView,
    DropDatabase,
    DropTables,
    NotParsed,
    RenameTables,
    SetDatabaseCharset,
    UseDatabase,
)
from binlog_connector.schema.parsing.ddl import DDL_WORDS, parse_ddl
from binlog_connector.schema.parsing.lexer import DdlSyntaxError, Lexer
from binlog_connector.schema.parsing.session import StatementSession
from binlog_connector.schema.table_names import TemporaryTables, folded
from binlog_format.errors import OptionError, SchemaError
from binlog_format.names import folded_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_connector.schema.operations import Operation
    from binlog_connector.schema.table_names import SessionId
    from binlog_format.vendor import Vendor


@dataclass(frozen=True, slots=True)
class Unclear:
    """A table of which a statement was not understood: what it looks like is not known any more.

    Attributes:
        reason: Which statement, and why.
    """

    reason: str


TableState = TableDefinition | Unclear


@dataclass(slots=True)
class Catalog:
    """Tables and default character sets of databases.

    Attributes:
        databases: Default character sets by name of the database; None: not known.
        ignore_case: Names of databases and tables in upper and lower case are the same (`lower_case_table_names`).
        temporary: Temporary tables, whatever their names are.
    """

    tables: dict[TableName, TableState] = field(default_factory=dict)
    databases: dict[str, str | None] = field(default_factory=dict)
    ignore_case: bool = False
    foreign_keys: ForeignKeys = field(default_factory=ForeignKeys)
    temporary: TemporaryTables = field(default_factory=TemporaryTables)

    def __post_init__(self) -> None:
        self.foreign_keys.ignore_case = self.ignore_case

    def fold(self) -> None:
        """Treat names in upper and lower case as the same from now on."""
        self.ignore_case = True
        self.tables = {name.lowered: state for name, state in self.tables.items()}
        self.databases = {folded_name(name): charset for name, charset in self.databases.items()}
        self.foreign_keys.fold()
        self.temporary.fold()

    def copy(self) -> Catalog:
        """One that changes by itself."""
        return Catalog(
            dict(self.tables), dict(self.databases), self.ignore_case, self.foreign_keys.copy(), self.temporary.copy()
        )

    def key(self, name: TableName) -> TableName:
        """Name under which a table is kept."""
        return name.lowered if self.ignore_case else name

    def apply(
        self, operation: Operation, vendor: Vendor | None = None, session: SessionId | None = None
    ) -> set[TableName]:
        """Apply the effect of a statement.

        Args:
            vendor: On whose server; None: either.
            session: Who ran it; None: nobody who has temporary tables.

        Returns:
            Keys of the tables that may look otherwise now.
        """
        if session is None:
            return self._apply(operation, vendor)
        has_own = bool(self.temporary.of(session)) or isinstance(operation, CreateTemporaryTable)
        left = self.temporary.permanent(folded(operation) if has_own and self.ignore_case else operation, session)
        return set() if left is None else self._apply(left, vendor)

    def _apply(self, operation: Operation, vendor: Vendor | None) -> set[TableName]:
        operation = self._without_other_tables(operation)
        self.foreign_keys.apply(operation)
        match operation:
            case CreateTable():
                return self._create(operation, vendor)
            case CreateSequence():
                if operation.if_not_exists and self.key(operation.name) in self.tables:
                    return set()
                return self._put(operation.name, _sequence(operation))
            case AlterTable():
                return self._alter(operation, vendor)
            case RenameTables():
                return self._rename(operation.pairs, if_exists=operation.if_exists)
            case DropTables():
                return self._remove(operation.names)
            case CreateView():
                # With IF NOT EXISTS a table of that name would have stayed.
                return set() if operation.if_not_exists else self._remove([operation.name])
            case NotParsed():
                return {key for name in operation.names for key in self._put(name, Unclear(operation.reason))}
            case SetDatabaseCharset():
                name = folded_name(operation.database) if self.ignore_case else operation.database
                if not (operation.if_not_exists and name in self.databases):
                    self.databases[name] = operation.charset
                return set()
            case DropDatabase():
                return self._drop_database(operation.database)
        return set()

    def _put(self, name: TableName, state: TableState) -> set[TableName]:
        key = self.key(name)
        self.tables[key] = state
        return {key}

    def _remove(self, names: Iterable[TableName]) -> set[TableName]:
        keys = {self.key(name) for name in names}
        for key in keys:
            self.tables.pop(key, None)
        return keys

    def _without_other_tables(self, operation: Operation) -> Operation:
        if not isinstance(operation, DropTables) or not operation.only_sequences:
            return operation
        return DropTables(tuple(filter(self._is_sequence, operation.names)))

    def _is_sequence(self, name: TableName) -> bool:
        state = self.tables.get(self.key(name))
        return isinstance(state, TableDefinition) and state.is_sequence

    def _defaults(self, name: TableName, vendor: Vendor | None) -> Defaults:
        return Defaults(vendor, self.databases.get(self.key(name).database))

    def _create(self, create: CreateTable, vendor: Vendor | None) -> set[TableName]:
        if create.if_not_exists and self.key(create.name) in self.tables:
            return set()
        if create.options.like is None:
            return self._put(create.name, created(create, self._defaults(create.name, vendor)))
        return self._put(create.name, self._like(create.options.like, create.name))

    def _like(self, source: TableName, name: TableName) -> TableState:
        state = self.tables.get(self.key(source))
        if state is None:
            return TableDefinition(name, None)
        return state.renamed(name) if isinstance(state, TableDefinition) else state

    def _alter(self, alter: AlterTable, vendor: Vendor | None) -> set[TableName]:
        touched = {self.key(alter.name)}
        state = self.tables.get(self.key(alter.name))
        if isinstance(state, TableDefinition):
            self.tables[self.key(alter.name)] = _altered(state, alter, self._defaults(alter.name, vendor))
        if alter.partition_to is not None:
            made = self._like(alter.name, alter.partition_to)
            made = replace(made, partitioning=None) if isinstance(made, TableDefinition) else made
            touched |= self._put(alter.partition_to, made)
        if alter.table_to_partition is not None:
            touched |= self._remove([alter.table_to_partition])
        if alter.new_name is not None:
            touched |= self._rename([(alter.name, alter.new_name)])
        return touched

    def _rename(self, pairs: Iterable[tuple[TableName, TableName]], *, if_exists: bool = False) -> set[TableName]:
        touched = set()
        for old, new in pairs:
            if self.key(new) in self.tables and (if_exists or self.key(old) not in self.tables):
                continue  # it is in the way: see `ExistingTables`
            state = self.tables.pop(self.key(old), None)
            touched |= self._remove([old, new])
            if state is not None:
                self._put(new, state.renamed(new) if isinstance(state, TableDefinition) else state)
        return touched

    def _drop_database(self, database: str) -> set[TableName]:
        name = folded_name(database) if self.ignore_case else database
        self.databases.pop(name, None)
        return self._remove([key for key in self.tables if key.database == name])


def _altered(table: TableDefinition, alter: AlterTable, defaults: Defaults) -> TableState:
    try:
        return altered(table, alter, defaults)
    except ImpossibleError as error:
        return Unclear(f"an ALTER TABLE that the known definition of {table.name} does not go with: {error}")


def _sequence(create: CreateSequence) -> TableDefinition:
    value = {"bigint": "bigint(21)"}.get(create.type, create.type)
    types = [(value, create.unsigned)] * 4
    types += [("bigint(21)", False), ("bigint(21)", True), ("tinyint(1)", True), ("bigint(21)", False)]
    columns = (
        ColumnDefinition(name, declared, nullable=False, unsigned=unsigned)
        for name, (declared, unsigned) in zip(SEQUENCE_COLUMNS, types, strict=True)
    )
    return TableDefinition(create.name, tuple(columns), engine=SEQUENCE_ENGINE)


_HINT = "Make it with mariadb-dump --no-data --databases NAME, or put USE NAME; before the tables"
# A quote without its end goes on to the end of the text: it is looked for once.
_QUOTED = r"'(?:[^'\\]++|\\.|'')*+(?:'|\\?\Z)|\"(?:[^\"\\]++|\\.|\"\")*+(?:\"|\\?\Z)|`(?:[^`]++|``)*+(?:`|\Z)"
_COMMENT = r"--(?=\s|\Z)[^\n]*+|\#[^\n]*+|/\*.*?(?:\*/|\Z)"
# A command of the client, not a statement: what ends statements from here on.
_DELIMITER = re.compile(r"(?:\s++|--(?=\s|\Z)[^\n]*+|#[^\n]*+)*+DELIMITER[ \t]+(\S+)[^\n]*", re.IGNORECASE)
# The head of a dump of one database, which has no USE.
_HEAD = re.compile(r"^-- Host: .*\bDatabase: (\S+)[ \t]*$", re.MULTILINE)


def read_schema_file(path: str, *, ignore_case: bool = False) -> Catalog:
    """Read a dump: `mariadb-dump --no-data`, `mysqldump --no-data`, SHOW CREATE TABLEs with a `;` after each.

    Views, triggers, routines, comments, settings and rows are passed over.

    Args:
        path: Of a UTF-8 text.
        ignore_case: See `Catalog`.

    Raises:
        SchemaError: `DDL_NOT_PARSED`: nothing names the database of a table.
    """
    try:
        # A dump of rows may hold bytes that are no text; what is read here never does.
        text = Path(path).read_text("utf-8", "surrogateescape")
    except OSError as error:
        raise OptionError("INVALID_VALUE", f"option schemaFile: {path}: {error.strerror}") from error
    catalog = parse_dump(text, ignore_case=ignore_case, source=path)
    if not catalog.tables:
        raise OptionError("INVALID_VALUE", f"option schemaFile: {path}: there is no CREATE TABLE in it", hint=_HINT)
    return catalog


def parse_dump(text: str, *, ignore_case: bool = False, source: str = "schema file") -> Catalog:
    """Like `read_schema_file`, for its text; *source* is its name for messages."""
    head = _HEAD.search(text)
    session = StatementSession(head.group(1) if head else "")
    catalog = Catalog(ignore_case=ignore_case)
    for start, statement in _statements(text):
        keyword = _keyword_place(statement)
        if keyword is None:
            continue
        for operation in parse_ddl(statement, session):
            if isinstance(operation, UseDatabase):
                session = StatementSession(operation.database)
            elif isinstance(operation, CreateTable) and not operation.name.database:
                line = text.count("\n", 0, start + keyword) + 1
                reason = f"{source}: line {line}: nothing names the database of the table {operation.name.table}"
                raise SchemaError("DDL_NOT_PARSED", reason, hint=_HINT)
            else:
                catalog.apply(operation, None)
    _check_text(catalog, source)
    return catalog


@functools.cache
def _statement_pattern(delimiter: str) -> re.Pattern[str]:
    first, whole = re.escape(delimiter[0]), re.escape(delimiter)
    plain = rf"[^{first}'\"`\#/-]++"
    return re.compile(rf"(?:{plain}|{_QUOTED}|{_COMMENT}|(?!{whole}).)*+", re.DOTALL)


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Start and text of each statement; strings of rows are skipped at the speed of the pattern."""
    delimiter, place = ";", 0
    while place < len(text):
        command = _DELIMITER.match(text, place)
        if command is not None:
            delimiter, place = command.group(1), command.end()
            continue
        match = _statement_pattern(delimiter).match(text, place)
        assert match is not None, "it matches an empty text too"
        yield place, match.group()
        place = match.end() + len(delimiter)


def _keyword_place(statement: str) -> int | None:
    """Place of the first keyword of a statement that may define tables; None: it is another."""
    try:
        first = Lexer(statement).first()
    except DdlSyntaxError:
        return None  # it begins with a quote: no statement does
    return first.start if first is not None and (first.word in DDL_WORDS or first.word == "USE") else None


def _check_text(catalog: Catalog, source: str) -> None:
    for name, state in catalog.tables.items():
        if isinstance(state, TableDefinition):
            texts = [*name, *(column.name for column in state.columns or ())]
            texts += [text for column in state.columns or () for text in column.enum_values or ()]
            if not all(text.isprintable() or text.encode("utf-8", "replace").decode() == text for text in texts):
                raise OptionError(
                    "INVALID_VALUE", f"option schemaFile: {source}: names of table {name.table!r} are not UTF-8"
                )
