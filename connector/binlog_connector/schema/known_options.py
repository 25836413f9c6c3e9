"""Options of tables that later statements leave out: `KnownOptions.completed(operation)`.

A name, and no more, is in CREATE TABLE ... LIKE; ALTER TABLE does not repeat which character set new columns have. Of
all options those are kept that matter: engines whose tables have no rows of their own, and character sets.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from binlog_connector.schema.definitions import SEQUENCE_ENGINE, TableName
from binlog_connector.schema.operations import (
    OF_DATABASE,
    AlterTable,
    CreateSequence,
    CreateTable,
    DropDatabase,
    DropTables,
    RenameTables,
    SetDatabaseCharset,
    engine_moves_rows,
)
from binlog_connector.schema.parsing.session import BINARY
from binlog_format.names import folded_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlog_connector.schema.operations import Operation

_Name = TypeVar("_Name")


@dataclass(slots=True)
class KnownOptions:
    """Engines and character sets of tables, by the statements before.

    A character set is kept where it is not the server's default, and `binary` always: its texts are bytes.
    """

    _engines: dict[TableName, str] = field(default_factory=dict)
    _charsets: dict[TableName, str] = field(default_factory=dict)
    _databases: dict[str, str] = field(default_factory=dict)

    def is_sequence(self, name: TableName) -> bool:
        """True if the table is known as a sequence."""
        return self._engines.get(name) == SEQUENCE_ENGINE

    @property
    def sequences(self) -> list[TableName]:
        """Names that are known as those of sequences."""
        return list(filter(self.is_sequence, self._engines))

    def completed(self, operation: Operation) -> Operation:
        """The same operation, with the options that it takes from its table, its database, or a table named by LIKE."""
        match operation:
            case CreateTable():
                return self._completed_create(operation)
            case AlterTable(charset=None, converted_to=None):
                return replace(operation, charset=self._charsets.get(operation.name))
            case AlterTable():
                of_database = self._databases.get(operation.name.database, OF_DATABASE)
                charset, converted_to = (
                    of_database if stated == OF_DATABASE else stated
                    for stated in (operation.charset, operation.converted_to)
                )
                return replace(operation, charset=charset, converted_to=converted_to)
        return operation

    def _completed_create(self, create: CreateTable) -> CreateTable:
        options, like = create.options, create.options.like
        if like is not None:
            options = replace(options, engine=self._engines.get(like), charset=self._charsets.get(like))
        elif options.charset is None and not options.charset_left_out:
            options = replace(options, charset=self._databases.get(create.name.database))
        return replace(create, options=options)

    def learn(self, operation: Operation, server_charset: str | None) -> None:
        """Take what a completed operation tells.

        Args:
            server_charset: Default of the server when it was executed; None: not known.
        """
        match operation:
            case CreateTable():
                options, stays = operation.options, operation.if_not_exists
                self._set_engine(operation.name, options.engine, stays=stays)
                if not (stays and operation.name in self._charsets):
                    _keep(self._charsets, operation.name, options.charset or server_charset, server_charset)
            case CreateSequence() if not operation.if_not_exists:
                # With IF NOT EXISTS there may have been a table.
                self._set_engine(operation.name, SEQUENCE_ENGINE, stays=False)
            case AlterTable():
                self._alter(operation, server_charset)
            case DropTables():
                for name in operation.names:
                    self._engines.pop(name, None)
                    self._charsets.pop(name, None)
            case RenameTables():
                for old, new in operation.pairs:
                    self._rename(old, new)
            case SetDatabaseCharset():
                self._set_database(operation, server_charset)
            case DropDatabase():
                self._drop_database(operation.database)

    def _alter(self, alter: AlterTable, server_charset: str | None) -> None:
        stays = alter.engine is None or self.is_sequence(alter.name)
        self._set_engine(alter.name, alter.engine, stays=stays)
        charset = alter.charset or alter.converted_to
        if alter.convert_may_be_skipped:
            self._charsets.pop(alter.name, None)
        elif charset is not None:
            charset = server_charset if charset == OF_DATABASE else charset
            _keep(self._charsets, alter.name, charset, server_charset)
        if alter.partition_to is not None and alter.name in self._charsets:
            self._charsets[alter.partition_to] = self._charsets[alter.name]
        if alter.new_name is not None:
            self._rename(alter.name, alter.new_name)

    def _set_engine(self, name: TableName, engine: str | None, *, stays: bool) -> None:
        if engine is not None and engine_moves_rows(engine):
            self._engines[name] = engine
        elif not stays:
            self._engines.pop(name, None)

    def _rename(self, old: TableName, new: TableName) -> None:
        if old in self._engines:
            self._engines[new] = self._engines.pop(old)
        if old in self._charsets:
            self._charsets[new] = self._charsets.pop(old)

    def _set_database(self, operation: SetDatabaseCharset, server_charset: str | None) -> None:
        if not (operation.if_not_exists and operation.database in self._databases):
            _keep(self._databases, operation.database, operation.charset, server_charset)

    def _drop_database(self, database: str) -> None:
        self._databases.pop(database, None)
        for known in (self._engines, self._charsets):
            for name in [name for name in known if name.database == database]:
                del known[name]

    def take_older(self, older: KnownOptions) -> None:
        """Add what statements before the first one tell."""
        self._engines = older._engines | self._engines
        self._charsets = older._charsets | self._charsets
        self._databases = older._databases | self._databases

    def fold(self) -> None:
        """Take names in upper and lower case as the same from now on."""
        self._engines = {name.lowered: engine for name, engine in self._engines.items()}
        self._charsets = {name.lowered: charset for name, charset in self._charsets.items()}
        self._databases = {folded_name(name): charset for name, charset in self._databases.items()}

    def to_json(self) -> dict[str, object]:
        """All that is known, as plain values; `from_json` reads it."""
        return {
            "engines": [[*name, engine] for name, engine in sorted(self._engines.items())],
            "charsets": [[*name, charset] for name, charset in sorted(self._charsets.items())],
            "database_charsets": dict(sorted(self._databases.items())),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> KnownOptions:
        """Read what `to_json` gave; what is missing is not known."""
        return cls(
            {TableName(*name): engine for *name, engine in values.get("engines", ())},
            {TableName(*name): charset for *name, charset in values.get("charsets", ())},
            dict(values.get("database_charsets", {})),
        )


def _keep(charsets: dict[_Name, str], name: _Name, charset: str | None, server_charset: str | None) -> None:
    if charset is None or (charset == server_charset and charset != BINARY):
        charsets.pop(name, None)
    else:
        charsets[name] = charset
