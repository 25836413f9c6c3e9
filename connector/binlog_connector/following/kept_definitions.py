"""Definitions that a job keeps beside its offset, for when their statements were purged: `KeptDefinitions`, `restored`.

A state of them holds at one position of the log. It is used by reads that begin there or later, and only where the log
still has all that came after it: statements since then are read as always. So a state can be neither too old nor too
new for an offset, whenever the job was killed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from binlog_connector.schema.catalog import Catalog, TableState, Unclear
from binlog_connector.schema.definitions import TableDefinition, TableName
from binlog_connector.schema.history import SchemaHistory
from binlog_connector.schema.stated_definitions import definition_operations
from binlog_connector.schema.table_names import NamesBySession, TemporaryTables
from binlog_format.errors import OptionError, storage_error
from binlog_format.position import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.following.watched import WatchedLog
    from binlog_connector.schema.log_ddl import DdlStatement

VERSION = 1
OF_OTHER_LOG = Position(-1, 0, 0)
"""Before the start of every log."""
_NOT_UNDERSTOOD = "it was purged from the log"
"""Text in place of the reason, which quotes the statement."""


class UnclearTable(msgspec.Struct, frozen=True):
    """A table with a statement that was not understood. *since*: of the statement."""

    name: TableName
    since: Position


class KeptState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Definitions of a job's tables, from the statements before a position.

    Attributes:
        position: From here on it holds, until the next statement.
        identity: Of the file of that position: a log that was begun anew is another one.
        crc: `WatchedLog.consumed_crc`, for the same reason.
        ignore_case: Names of tables are folded.
        unclear: Tables of which none is known any more.
        altered: All tables that statements were about, dropped ones among them: a schema file does not count for them.
        databases: Default character sets.
        temporary: Temporary tables that hide one of these in their sessions.
    """

    position: Position
    identity: str
    crc: int | None = None
    ignore_case: bool = False
    tables: tuple[TableDefinition, ...] = ()
    unclear: tuple[UnclearTable, ...] = ()
    altered: tuple[TableName, ...] = ()
    databases: dict[str, str | None] = {}
    temporary: NamesBySession = ()

    def states_same(self, other: KeptState) -> bool:
        """True if both states define the same, even if their places differ."""
        return msgspec.structs.replace(other, position=self.position, identity=self.identity, crc=self.crc) == self


class KeptDefinitions(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file.

    Attributes:
        known_from: All statements from here on are known: a log that still begins here needs nothing that is kept.
            `OF_OTHER_LOG`: what is kept comes from another log, or from a server.
        states: By position.
    """

    version: int = VERSION
    known_from: Position
    states: tuple[KeptState, ...]

    @classmethod
    def parse(cls, content: bytes, place: str) -> KeptDefinitions:
        """Read a file's content."""
        try:
            kept = msgspec.json.decode(content, type=cls)
        except msgspec.DecodeError as error:
            raise _invalid(place, str(error)) from error
        if kept.version != VERSION:
            raise _invalid(place, f"it has version {kept.version}, this one reads {VERSION}")
        return kept

    @classmethod
    def read(cls, path: str) -> KeptDefinitions | None:
        """Read a file; None: it is not there."""
        try:
            return cls.parse(Path(path).read_bytes(), path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise storage_error(path, "read", error) from error

    def moved(self, before: SourceOffset, after: SourceOffset) -> KeptDefinitions | None:
        """The same for another log; None: nothing that is kept holds at its place there.

        Args:
            before: A place in the log that these are of.
            after: The same place in the other log.
        """
        state = next((state for state in reversed(self.states) if state.position <= before.position), None)
        if state is None:
            return None
        if state.position.file_no == before.position.file_no and state.identity != before.fingerprint:
            return None  # of a log that was there before
        moved = msgspec.structs.replace(
            state,
            position=after.position,
            identity=after.fingerprint,
            crc=after.last_page_crc,
            unclear=tuple(UnclearTable(table.name, after.position) for table in state.unclear),
            temporary=(),  # of sessions of the other server
        )
        return KeptDefinitions(known_from=OF_OTHER_LOG, states=(moved,))

    def usable(self, watched: WatchedLog, start: Position) -> KeptState | None:
        """The newest state that holds at or before *start*, where the log has all that came after it; None: none is."""
        states = (state for state in reversed(self.states) if state.position <= start)
        return next((state for state in states if goes_on(watched, state.position, state.identity, state.crc)), None)


def goes_on(watched: WatchedLog, position: Position, identity: str, crc: int | None) -> bool:
    """True if a log has all that came after a position that a job has reached.

    Args:
        identity: Of the file of *position*, when the job was there.
        crc: Of what was before *position* then.
    """
    file_no = position.file_no
    if watched.has(file_no):
        return watched.files.identity(file_no) == identity and watched.consumed_crc(position) == crc
    # A job writes the state anew when its offset comes into another file: of a purged one it had read all.
    return file_no + 1 >= watched.log.start_position().file_no


def state_of_history(
    history: SchemaHistory, watched: WatchedLog, is_wanted: Callable[[TableName], bool], before: KeptState | None
) -> KeptState:
    """The state of *history* at its end, compacted.

    Args:
        history: It ends at `known_to`.
        before: The state before this one; None: there is none.
    """
    position = history.known_to
    assert position is not None, "nothing was read"
    since = {} if before is None else {table.name: table.since for table in before.unclear}
    since |= history.newest_changes
    history.compact(position)
    base = history.base
    altered = tuple(sorted(name for name in history.altered if is_wanted(name)))
    states = [(name, base.tables[name]) for name in altered if name in base.tables]
    return KeptState(
        position=position,
        identity=watched.files.identity(position.file_no),
        crc=watched.consumed_crc(position),
        ignore_case=base.ignore_case,
        tables=tuple(state for _, state in states if isinstance(state, TableDefinition)),
        unclear=tuple(
            UnclearTable(name, since.get(name, position)) for name, state in states if isinstance(state, Unclear)
        ),
        altered=altered,
        databases=dict(sorted(base.databases.items())),
        temporary=base.temporary.to_json(is_wanted),
    )


def definitions_kept_at(watched: WatchedLog, path: str | None, position: Position) -> dict[TableName, TableDefinition]:
    """Definitions that a job keeps for a position of its log; none where it keeps none, or they do not count there.

    Args:
        path: Of the file; None: there is none.
    """
    kept = None if path is None else KeptDefinitions.read(path)
    state = None if kept is None else kept.usable(watched, position)
    return {} if state is None else {table.name: table for table in state.tables}


def with_definitions(state: KeptState, statements: Iterable[DdlStatement]) -> KeptState:
    """The state with *statements* in the place of what it has of their tables.

    Args:
        statements: Of `stated_definitions.definition_of_server`, as of the state's position.
    """
    catalog = Catalog()
    if state.ignore_case:
        catalog.fold()
    for statement in statements:
        for operation in definition_operations(statement):
            catalog.apply(operation, statement.vendor)
    found = catalog.tables
    unclear = (UnclearTable(name, state.position) for name, table in found.items() if isinstance(table, Unclear))
    return msgspec.structs.replace(
        state,
        tables=(
            *(table for table in state.tables if catalog.key(table.name) not in found),
            *(table for table in found.values() if isinstance(table, TableDefinition)),
        ),
        unclear=(*(table for table in state.unclear if catalog.key(table.name) not in found), *unclear),
        altered=tuple(sorted({*state.altered, *found})),
    )


def restored(history: SchemaHistory, state: KeptState, log_start: Position) -> SchemaHistory:
    """A history that knows what was kept, what *history* knows of other tables, and all statements since.

    Args:
        history: What the log tells, up to the state's position at least.
    """
    history.compact(state.position)
    base = history.base.copy()
    if state.ignore_case and not base.ignore_case:
        base.fold()
    from_file = {key: found for key, found in base.tables.items() if key not in history.altered}
    for name in state.altered:
        base.tables.pop(base.key(name), None)
    found: dict[TableName, TableState] = {base.key(table.name): table for table in state.tables}
    altered = {*history.altered, *state.altered}
    for table in state.unclear:
        key = base.key(table.name)
        if log_start > table.since and key in from_file:
            found[key] = from_file[key]  # a schema file that was made after the statement, as its error asks for
            altered.discard(key)
        else:
            found[key] = Unclear(_NOT_UNDERSTOOD)
    base.tables |= found
    base.databases |= state.databases
    base.temporary = TemporaryTables.from_json(state.temporary)
    result = SchemaHistory(base, base_source=history.base_source, altered=altered, folds_names=history.folds_names)
    for statement in history.statements:
        result.note(statement)
    result.known_to = max(history.known_to or state.position, state.position)
    return result


def _invalid(place: str, reason: str) -> OptionError:
    return OptionError(
        "INVALID_VALUE",
        f"{place}: not a file of kept definitions: {reason}",
        hint="Remove the file: definitions are then read from the log again, as far as it has them",
    )
