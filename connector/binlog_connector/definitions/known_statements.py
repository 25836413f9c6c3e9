"""Statements of logs that this process has read: `known_statements`, the one cache.

A reader of a part of a log needs the meaning of the statements before that part. The process reads on from the place
that it has reached for an earlier part, unless the log was reset since then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_connector.schema.catalog import Catalog, Unclear, read_schema_file
from binlog_connector.schema.definitions import TableDefinition, TableName
from binlog_connector.schema.history import SchemaHistory
from binlog_connector.schema.log_ddl import ServerRuns, all_statements
from binlog_connector.schema.statement_scope import StatementScope
from binlog_format.errors import OptionError
from binlog_format.transactions.expansion import expanded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from binlog_connector.following.watched import WatchedLog
    from binlog_connector.schema.stated_definitions import LaterDefinition
    from binlog_format.block import Block
    from binlog_format.position import Position

_KNOWN_MAX = 8


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """A schema file, read once where the query is planned.

    Attributes:
        path: Where it was.
        stamp: Tells its contents from others at that path.
        catalog: What it contains.
    """

    path: str
    stamp: tuple[int, int]
    catalog: Catalog

    @classmethod
    def read(cls, path: str) -> SchemaFile:
        """Read *path*.

        Raises:
            OptionError: `INVALID_VALUE`.
            SchemaError: `DDL_NOT_PARSED`.
        """
        try:
            status = Path(path).stat()
        except OSError as error:
            raise OptionError("INVALID_VALUE", f"option schemaFile: {path}: {error.strerror}") from error
        return cls(path, (status.st_mtime_ns, status.st_size), read_schema_file(path))

    def definition(self, database: str, table: str) -> TableDefinition | None:
        """Its definition of a table; None: nothing, or nothing that was understood."""
        state = self.catalog.tables.get(self.catalog.key(TableName(database, table)))
        return None if isinstance(state, Unclear) else state

    def history(self, folds_names: bool | None) -> SchemaHistory:
        """A history that begins with what the file contains."""
        return SchemaHistory(self.catalog, base_source=self.path, folds_names=folds_names)


@dataclass(frozen=True, slots=True)
class _Mark:
    """A place that statements have been read up to.

    Attributes:
        position: The place.
        identity: Of the file that it is in.
    """

    position: Position
    identity: str

    @classmethod
    def of(cls, watched: WatchedLog, position: Position) -> _Mark:
        return cls(position, watched.identity(position.file_no))

    def is_in(self, watched: WatchedLog) -> bool:
        """True if its file is there, and is the one that was read."""
        file_no = self.position.file_no
        return watched.has(file_no) and watched.identity(file_no) == self.identity


@dataclass(slots=True)
class KnownStatements:
    """Facts from the statements of one log that this process has read.

    Attributes:
        history: Definitions of tables; `history.known_to` is the place that DDL has been read up to.
        later: Definitions that marks state in the log from `later_from` on.
        later_from: None: nobody has asked for these.
        scope: What all statements up to a place of its own tell of names: `StatementScope.to_json`.
    """

    history: SchemaHistory
    later: Mapping[TableName, LaterDefinition] = field(default_factory=dict)
    later_from: Position | None = None
    scope: dict[str, object] = field(default_factory=dict)
    _history_mark: _Mark | None = None
    _scope_mark: _Mark | None = None

    def is_read_to(self, position: Position) -> bool:
        """True if the history has all DDL before *position*."""
        return self.history.known_to is not None and self.history.known_to >= position

    def unread(self, watched: WatchedLog, end: Position) -> Iterator[Block]:
        """The blocks before *end* whose DDL the history lacks."""
        first = max(self.history.known_to or watched.log.start_position(), watched.log.start_position())
        if first < end:
            yield from expanded(watched.log.blocks(first, end))

    def read_to(self, watched: WatchedLog, position: Position) -> None:
        """Note that the history has all DDL before *position*."""
        self.history.known_to = position
        self._history_mark = _Mark.of(watched, position)

    def is_of(self, watched: WatchedLog) -> bool:
        """False if the log was reset since then, or unread files were purged: their changes are not known."""
        mark = self._history_mark
        if mark is None:
            return True
        file_no = mark.position.file_no
        is_anew = watched.has(file_no) and not mark.is_in(watched)
        return not is_anew and file_no + 1 >= watched.log.start_position().file_no

    def scope_before(self, watched: WatchedLog, start: Position) -> StatementScope:
        """Scope after all statements before *start*; it continues from the place that this process has reached.

        Raises:
            BinlogError: As `Log.blocks`.
        """
        log, mark = watched.log, self._scope_mark
        goes_on = mark is not None and mark.position <= start and mark.is_in(watched)
        scope = StatementScope.from_json(self.scope if goes_on else {})
        first = mark.position if mark is not None and goes_on else log.start_position()
        if first < start:
            server_runs = ServerRuns(log)
            for block in expanded(log.blocks(first, start)):
                for _, _, statement in all_statements(block, server_runs):
                    scope.observe(statement)
        self.scope, self._scope_mark = scope.to_json(), _Mark.of(watched, start)
        return scope


def forget_statements(kept: str) -> None:
    """Forget what was read for a job whose file of kept definitions has changed beside the log."""
    for key in [key for key in _known if key[3] == kept]:
        del _known[key]


_Key = tuple[str, str, bool | None, str | None, str, tuple[int, int]]
_known: dict[_Key, KnownStatements] = {}


def known_statements(
    watched: WatchedLog, file: SchemaFile | None = None, *, folds_names: bool | None = None, kept: str | None = None
) -> KnownStatements:
    """Known statements of a log; none of those from before a reset.

    Args:
        watched: The log.
        file: A schema file, which holds before all statements; None: there is none.
        folds_names: Names of tables in upper and lower case are the same; None: as the log proves it.
        kept: File of the definitions that a job keeps; None: there is none.
    """
    log = watched.log
    file_key = ("", (0, 0)) if file is None else (file.path, file.stamp)
    key = (log.path, log.format_name, folds_names, kept, *file_key)
    found = _known.get(key)
    if found is None or not found.is_of(watched):
        if len(_known) >= _KNOWN_MAX:
            _known.clear()
        history = SchemaHistory(folds_names=folds_names) if file is None else file.history(folds_names)
        found = _known[key] = KnownStatements(history)
    return found
