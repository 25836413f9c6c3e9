"""A `SchemaHistory` on disk, as JSON: `save_history`, `load_history`."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import msgspec

from binlog_connector.schema.catalog import Catalog, TableState, Unclear
from binlog_connector.schema.definitions import TableDefinition, TableName
from binlog_connector.schema.foreign_keys import ForeignKeys
from binlog_connector.schema.history import SchemaHistory
from binlog_connector.schema.log_ddl import DdlStatement  # noqa: TC001 - msgspec looks it up
from binlog_connector.schema.operations import CreateFunction, CreateTrigger
from binlog_connector.schema.parsing.ddl import parse_ddl
from binlog_connector.schema.table_names import TemporaryTables
from binlog_format.errors import OptionError
from binlog_format.position import Position  # noqa: TC001 - msgspec looks it up

VERSION = 3  # 1: without defaults; 2: without partitions and foreign keys


class _UnclearTable(msgspec.Struct, frozen=True):
    name: TableName
    reason: str


class _File(msgspec.Struct, frozen=True):
    """The file's content."""

    version: int
    ignore_case: bool
    base_source: str
    tables: list[TableDefinition]
    unclear: list[_UnclearTable]
    databases: dict[str, str | None]
    foreign_keys: msgspec.Raw
    altered: list[TableName]
    statements: list[DdlStatement]
    known_to: Position | None
    temporary: msgspec.Raw = msgspec.Raw(b"[]")


# Of routines and triggers the bodies are in the statement, and a definition of a table needs none of them.
_NO_DEFINITIONS = (CreateFunction, CreateTrigger)


def _defines_tables(statement: DdlStatement) -> bool:
    operations = parse_ddl(statement.text, statement.session)
    return any(not isinstance(operation, _NO_DEFINITIONS) for operation in operations)


class _Versioned(msgspec.Struct, frozen=True):
    version: int


def save_history(history: SchemaHistory, path: str) -> None:
    """Write *history* so that after a crash either the old file or the new one is there, whole.

    Args:
        path: Of a local file; its directory is there.
    """
    states = history.base.tables.items()
    content = _File(
        version=VERSION,
        ignore_case=history.base.ignore_case,
        base_source=history.base_source,
        tables=[state for _, state in states if isinstance(state, TableDefinition)],
        unclear=[_UnclearTable(name, state.reason) for name, state in states if isinstance(state, Unclear)],
        databases=history.base.databases,
        foreign_keys=msgspec.Raw(history.base.foreign_keys.to_json()),
        altered=sorted(history.altered),
        statements=[statement for statement in history.statements if _defines_tables(statement)],
        known_to=history.known_to,
        temporary=msgspec.Raw(msgspec.json.encode(history.base.temporary.to_json())),
    )
    folder = Path(path).resolve().parent
    with tempfile.NamedTemporaryFile(dir=folder, prefix=Path(path).name + ".", suffix=".tmp", delete=False) as file:
        try:
            file.write(msgspec.json.encode(content))
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def load_history(path: str) -> SchemaHistory | None:
    """Read what `save_history` wrote; None when there is no file yet."""
    try:
        text = Path(path).read_bytes()
    except FileNotFoundError:
        return None
    try:
        version = msgspec.json.decode(text, type=_Versioned).version
        if version != VERSION:
            raise OptionError("INVALID_VALUE", f"{path}: schema history of version {version}, this one reads {VERSION}")
        content = msgspec.json.decode(text, type=_File)
        foreign_keys = ForeignKeys.from_json(content.foreign_keys)
    except msgspec.DecodeError as error:
        raise OptionError(
            "INVALID_VALUE",
            f"{path}: not a schema history: {error}",
            hint="Remove the file: the DDL is then read from the log again, as far as it is there",
        ) from error
    catalog = Catalog(databases=dict(content.databases), ignore_case=content.ignore_case, foreign_keys=foreign_keys)
    tables: dict[TableName, TableState] = {catalog.key(table.name): table for table in content.tables}
    tables.update({table.name: Unclear(table.reason) for table in content.unclear})
    catalog.tables = tables
    catalog.temporary = TemporaryTables.from_json(msgspec.json.decode(content.temporary))
    history = SchemaHistory(catalog, base_source=content.base_source, altered=content.altered)
    for statement in content.statements:
        history.note(statement)
    history.known_to = content.known_to
    return history
