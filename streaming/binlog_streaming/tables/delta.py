"""One Delta table as a target, without Spark: `DeltaTarget.find`, `append`, `merge`; every write is done exactly once.

A write carries an application transaction (query, batch) in its own commit. Who wants to write looks first, with the
handle that he then writes with: a commit by somebody else in between makes the write fail instead of doubling it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import (
    ColumnProperties,
    CommitProperties,
    DeltaTable,
    Schema,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError

from binlog_format.errors import SchemaError, TableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlog_streaming.settings import Mode

QUERY_PROPERTY = "binlog-stream.queryId"
SOURCE_PROPERTY = "binlog-stream.sourceTable"
MODE_PROPERTY = "binlog-stream.mode"
KEYS_PROPERTY = "binlog-stream.keys"
POSITION_KEY = "binlog-stream.position"
GTID_KEY = "binlog-stream.gtid"
BATCH_KEY = "binlog-stream.batchId"
LAST_CHANGE_KEY = "binlog-stream.lastChange"

HISTORY_MAX = 16
"""Commits among which the last batch's own is looked for; maintenance makes a few behind it."""

# deltalake keeps the statistics of a decimal as a 64-bit float or integer: above this precision they are wrong, and
# readers (and merges) that trust them skip files that hold the row.
DECIMAL_STATISTICS_PRECISION_MAX = 15

_UNUSUAL = re.compile(r"[^A-Za-z0-9_$-]")


@dataclass(frozen=True, slots=True)
class Ticket:
    """Who writes what: one table in one batch of one query.

    Attributes:
        query_id: Id of the streaming query; it lives in the checkpoint.
        batch_id: Number of the batch; a repeated batch has the same number and the same content.
        source_table: `database.table` in the log.
        mode: What the target holds.
        keys: Names of the key columns; empty for `changelog`.
        position: Where the log goes on behind the batch, as text.
        last_change: Where the batch's last change of the table lies, as text; the same whenever the batch is repeated.
        gtid: Last GTID of the batch for this table, if it has one.
    """

    query_id: str
    batch_id: int
    source_table: str
    mode: Mode
    keys: tuple[str, ...]
    position: str
    last_change: str
    gtid: str | None

    @property
    def application(self) -> str:
        """Name of the application transaction."""
        return f"binlog-stream/{self.query_id}"

    def commit_properties(self) -> CommitProperties:
        """What a commit says about itself."""
        metadata = {
            BATCH_KEY: str(self.batch_id),
            POSITION_KEY: self.position,
            LAST_CHANGE_KEY: self.last_change,
        }
        if self.gtid is not None:
            metadata[GTID_KEY] = self.gtid
        return CommitProperties(
            custom_metadata=metadata, app_transactions=[Transaction(self.application, self.batch_id)]
        )


def target_uri(directory: str, template: str, *, database: str, table: str, mode: Mode) -> str:
    """Place of a table.

    Of names, ASCII letters, digits, `_`, `-` and `$` stay; all else is written as MariaDB does it in the names of its
    files: `@` and four hexadecimal digits.
    """
    names = {"database": database, "table": table, "mode": str(mode)}
    filled = template.format(**{key: _path_part(name) for key, name in names.items()})
    return f"{directory.rstrip('/')}/{filled.strip('/')}"


def _path_part(name: str) -> str:
    # Not percent-encoding: deltalake takes a path for a URL here and for a path there, and decodes it in one of them.
    return _UNUSUAL.sub(lambda match: "".join(f"@{unit:04x}" for unit in _utf16(match[0])), name)


def _utf16(text: str) -> memoryview:
    return memoryview(text.encode("utf-16", "surrogatepass")).cast("H")[1:]


@dataclass(slots=True)
class DeltaTarget:
    """A target table as it is now; `table` is None while nothing has been written."""

    uri: str
    storage: Mapping[str, str]
    table: DeltaTable | None
    file_size: int

    @classmethod
    def find(cls, uri: str, storage: Mapping[str, str], *, file_size: int) -> DeltaTarget:
        """Look at what is there."""
        options = dict(storage)
        exists = DeltaTable.is_deltatable(uri, options)
        return cls(uri, storage, DeltaTable(uri, storage_options=options) if exists else None, file_size)

    def check_owner(self, ticket: Ticket) -> None:
        """See that this query, this source table and this mode are those that made the table.

        Raises:
            TableError: They are not.
        """
        if self.table is None:
            return
        properties = self.table.metadata().configuration
        owner = properties.get(QUERY_PROPERTY)
        if owner != ticket.query_id:
            raise _other_writer(self.uri, ticket, owner)
        source, mode, keys = (properties.get(name) for name in (SOURCE_PROPERTY, MODE_PROPERTY, KEYS_PROPERTY))
        if source != ticket.source_table:
            raise TableError(
                "SAME_TARGET",
                f"{ticket.source_table}: {self.uri} already holds {source}",
                hint="Give the two tables different targets: tables.target with {database} and {table} in it",
            )
        if mode != ticket.mode:
            raise TableError(
                "MODE_CHANGED",
                f"{ticket.source_table}: {self.uri} was made with mode {mode}, the job now says {ticket.mode}",
                hint="Give the new mode another target, and start it with a new checkpoint; or set the mode back",
            )
        if keys != _joined(ticket.keys):
            raise TableError(
                "KEYS_CHANGED",
                f"{ticket.source_table}: {self.uri} was made with keys {keys}, now they are {_joined(ticket.keys)}",
                hint="Delete the table and the checkpoint and start again, or set the keys of this table in the job",
            )

    def is_done(self, ticket: Ticket) -> bool:
        """Whether the batch is in the table already.

        Raises:
            TableError: `CHECKPOINT_BEHIND`: the table holds a later batch, or another one under this number.
        """
        if self.table is None:
            return False
        version = self.table.transaction_version(ticket.application)
        if version is None or version < ticket.batch_id:
            return False
        held = self._last_change(version) if version == ticket.batch_id else None
        if version > ticket.batch_id or held not in (None, ticket.last_change):
            raise _checkpoint_behind(self.uri, ticket, version, held)
        return True

    def _last_change(self, batch_id: int) -> str | None:
        assert self.table is not None
        for commit in self.table.history(HISTORY_MAX):
            if commit.get(BATCH_KEY) == str(batch_id):
                return str(commit.get(LAST_CHANGE_KEY))
        return None

    def check_schema(self, schema: pa.Schema, ticket: Ticket) -> None:
        """See that the table has exactly these columns.

        Raises:
            SchemaError: `SCHEMA_CHANGED`.
        """
        if self.table is None:
            return
        there, wanted = _columns(self.table.schema()), column_types(schema)
        if there != wanted:
            raise schema_changed(ticket.source_table, describe_difference(there, wanted))

    def ensure(self, schema: pa.Schema, ticket: Ticket) -> None:
        """Make the table, empty, when it is not there."""
        if self.table is not None:
            return
        self.table = DeltaTable.create(
            self.uri,
            delta_schema(schema),
            mode="error",
            name=ticket.source_table,
            description=f"{ticket.mode} of {ticket.source_table}, kept by binlog-stream",
            configuration={
                QUERY_PROPERTY: ticket.query_id,
                SOURCE_PROPERTY: ticket.source_table,
                MODE_PROPERTY: str(ticket.mode),
                KEYS_PROPERTY: _joined(ticket.keys),
                "delta.targetFileSize": str(self.file_size),
            },
            storage_options=dict(self.storage),
            raise_if_key_not_exists=False,  # deltalake knows only the properties of Delta itself
        )

    def append(self, rows: pa.RecordBatchReader, ticket: Ticket) -> None:
        """Add rows in one commit.

        Raises:
            CommitFailedError: The table is not any more what it was when it was looked at.
        """
        assert self.table is not None
        names = [field.name for field in self.table.schema().fields]
        write_deltalake(
            self.table,
            rows if rows.schema.names == names else _reordered(rows, names),
            mode="append",
            target_file_size=self.file_size,
            writer_properties=writer_properties(rows.schema),
            commit_properties=ticket.commit_properties(),
        )

    def merge(self, rows: pa.Table, *, deleted: str, on: str, names: Mapping[str, str], ticket: Ticket) -> None:
        """Bring rows in by key, in one commit: matched rows are replaced or deleted, others inserted.

        Args:
            rows: At most one row for a key.
            deleted: Boolean column of *rows*: the row's key is to vanish.
            on: Condition with the aliases `t` (target) and `s` (*rows*).
            names: For every column of the target, its column in *rows*.
            ticket: Who writes.
        """
        assert self.table is not None
        values = {identifier(target): f"s.{source}" for target, source in names.items()}
        merger = self.table.merge(
            rows,
            on,
            source_alias="s",
            target_alias="t",
            # Not streamed, deltalake prunes files by its own statistics, and misses rows where these are inexact.
            streamed_exec=True,
            writer_properties=writer_properties(self._arrow_schema()),
            commit_properties=ticket.commit_properties(),
        )
        merger = merger.when_matched_delete(f"s.{deleted}").when_matched_update(values)
        merger.when_not_matched_insert(values, f"NOT s.{deleted}").execute()

    def key_ranges(self, column: str) -> tuple[pa.Array, pa.Array] | None:
        """Least and greatest value of *column* in each file; None where a file does not say."""
        assert self.table is not None
        files = pa.table(self.table.get_add_actions(flatten=True))
        if f"min.{column}" not in files.column_names or f"max.{column}" not in files.column_names:
            return None
        least = files.column(f"min.{column}").combine_chunks()
        greatest = files.column(f"max.{column}").combine_chunks()
        return None if least.null_count or greatest.null_count else (least, greatest)

    def _arrow_schema(self) -> pa.Schema:
        assert self.table is not None
        return pa.schema(self.table.schema())


def delta_schema(schema: pa.Schema) -> Schema:
    """The schema as Delta has it; every column may be null.

    The server's NOT NULL is not taken over: zero dates become null, and rows may come without some columns.
    """
    return Schema.from_arrow(pa.schema([field.with_nullable(True) for field in schema]))


def column_types(schema: pa.Schema) -> dict[str, str]:
    """Of every column its type, as Delta calls it."""
    return _columns(delta_schema(schema))


def writer_properties(schema: pa.Schema) -> WriterProperties:
    """How files are written: compression, and no statistics where deltalake's would be wrong."""
    inexact = {
        field.name: ColumnProperties(statistics_enabled="NONE")
        for field in schema
        if pa.types.is_decimal(field.type) and field.type.precision > DECIMAL_STATISTICS_PRECISION_MAX
    }
    return WriterProperties(compression="ZSTD", compression_level=1, column_properties=inexact or None)


def identifier(name: str) -> str:
    """A column's name in an expression."""
    return '"' + name.replace('"', '""') + '"'


def schema_changed(source_table: str, difference: str) -> SchemaError:
    """The error for a table whose columns are not those of its target any more."""
    return SchemaError(
        "SCHEMA_CHANGED",
        f"{source_table}: its columns changed in the log: {difference}",
        hint="Nothing of this batch was written to it. This version does not alter tables: exclude the table "
        "(source.excludeTables), or give it a new target and start it with a new checkpoint",
    )


def describe_difference(there: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """In words, how the columns *wanted* differ from those *there*."""
    parts = [f"{name} {kind} is new" for name, kind in wanted.items() if name not in there]
    parts += [f"{name} is gone" for name in there if name not in wanted]
    parts += [f"{name} was {there[name]}, now {kind}" for name, kind in wanted.items() if there.get(name, kind) != kind]
    return ", ".join(parts)


def is_commit_conflict(error: Exception) -> bool:
    """Whether somebody else committed between the look and the write."""
    return isinstance(error, CommitFailedError) or re.search(r"already exists", str(error)) is not None


def _reordered(rows: pa.RecordBatchReader, names: list[str]) -> pa.RecordBatchReader:
    schema = pa.schema([rows.schema.field(name) for name in names])
    return pa.RecordBatchReader.from_batches(schema, (batch.select(names) for batch in rows))


def _columns(schema: Schema) -> dict[str, str]:
    return {field.name: _type_name(field.type) for field in schema.fields}


def _type_name(delta_type: object) -> str:
    # Primitive types print as PrimitiveType("long").
    match = re.fullmatch(r'PrimitiveType\("(.*)"\)', str(delta_type))
    return match[1] if match else str(delta_type)


def _joined(keys: tuple[str, ...]) -> str:
    return ",".join(key.replace("\\", "\\\\").replace(",", "\\,") for key in keys)


def _other_writer(uri: str, ticket: Ticket, owner: str | None) -> TableError:
    who = f"by query {owner}" if owner is not None else "by somebody else, not by binlog-stream"
    return TableError(
        "OTHER_WRITER",
        f"{ticket.source_table}: {uri} was written {who}; this checkpoint is of query {ticket.query_id}",
        hint="Writing on would double or lose rows. Bring back the checkpoint that belongs to the tables; or delete "
        "the tables (or name another sink.directory) and let this job build them anew from the log",
    )


def _checkpoint_behind(uri: str, ticket: Ticket, version: int, held: str | None) -> TableError:
    place = f" (up to {held}, not {ticket.last_change})" if held is not None else ""
    return TableError(
        "CHECKPOINT_BEHIND",
        f"{ticket.source_table}: {uri} already holds batch {version}{place}, the checkpoint is only at batch "
        f"{ticket.batch_id}: it is older than the table",
        hint="Changes would be left out. Bring back the newest checkpoint; or delete the tables and the checkpoint and "
        "let this job build them anew from the log",
    )
