"""Entries of a Delta table's log: actions, as the Delta protocol names them and their fields."""

from __future__ import annotations

import time
from decimal import Decimal
from urllib.parse import unquote

import msgspec


class Action(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Common parts of actions: names as in the protocol, unknown values are not written."""


class Vector(Action, frozen=True):
    """Place of a deletion vector: `u` in a file of the table, `p` in a file by its path, `i` inside the action."""

    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: int
    cardinality: int
    offset: int | None = None

    @property
    def name(self) -> str:
        """Unique name of the vector."""
        offset = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage_type}{self.path_or_inline_dv}{offset}"


class Add(Action, frozen=True):
    """A data file that is in the table from now on, without the rows of its deletion vector."""

    path: str
    partition_values: dict[str, str | None]
    size: int
    modification_time: int
    data_change: bool
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    deletion_vector: Vector | None = None
    clustering_provider: str | None = None

    @property
    def place(self) -> str:
        """Path in the table's folder."""
        return unquote(self.path)

    def removed(self, *, data_change: bool) -> Remove:
        """Make the action that removes the file from the table."""
        return Remove(
            path=self.path,
            data_change=data_change,
            deletion_timestamp=milliseconds(),
            extended_file_metadata=True,
            partition_values=self.partition_values,
            size=self.size,
            deletion_vector=self.deletion_vector,
        )


class Remove(Action, frozen=True):
    """A data file, with its deletion vector, that is not in the table any more."""

    path: str
    data_change: bool
    deletion_timestamp: int | None = None
    extended_file_metadata: bool | None = None
    partition_values: dict[str, str | None] | None = None
    size: int | None = None
    deletion_vector: Vector | None = None

    @property
    def place(self) -> str:
        """Path in the table's folder."""
        return unquote(self.path)


class Protocol(Action, frozen=True):
    """Requirements on readers and writers."""

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None


class DeltaFileFormat(Action, frozen=True):
    """Format of the files: always Parquet."""

    provider: str
    options: dict[str, str]


class Metadata(Action, frozen=True):
    """Columns and properties."""

    id: str
    format: DeltaFileFormat
    schema_string: str
    partition_columns: tuple[str, ...]
    configuration: dict[str, str]
    name: str | None = None
    description: str | None = None
    created_time: int | None = None


class DeltaTransaction(Action, frozen=True):
    """The commit of an application that the table contains."""

    app_id: str
    version: int
    last_updated: int | None = None


class ChangeFile(Action, frozen=True):
    """Rows that a commit changed, for readers of the change data feed."""

    path: str
    partition_values: dict[str, str | None]
    size: int
    data_change: bool


class Sidecar(Action, frozen=True):
    """A file with a part of a checkpoint."""

    path: str


class CommitInformation(Action, frozen=True):
    """A writer's information on its commit."""

    operation: str | None = None
    operation_parameters: msgspec.Raw = msgspec.Raw(b"null")


class Line(Action, frozen=True):
    """A line of the log: one of these."""

    add: Add | None = None
    remove: Remove | None = None
    protocol: Protocol | None = None
    meta_data: Metadata | None = None
    txn: DeltaTransaction | None = None
    sidecar: Sidecar | None = None
    commit_info: CommitInformation | None = None


def milliseconds() -> int:
    """The time now, as the log has it."""
    return time.time_ns() // 1_000_000


_STATISTICS = msgspec.json.Decoder(dict[str, object], float_hook=Decimal)
_STATISTICS_ENCODER = msgspec.json.Encoder(decimal_format="number")


def statistics_of(add: Add) -> dict[str, object]:
    """Statistics of a file's rows; fractions come exactly as they are written."""
    return _STATISTICS.decode(add.stats) if add.stats else {}


def statistics_text(statistics: dict[str, object]) -> str:
    """The other way."""
    return _STATISTICS_ENCODER.encode(statistics).decode()
