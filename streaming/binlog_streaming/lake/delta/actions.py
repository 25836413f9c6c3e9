"""Entries of a Delta table's log: actions, as the Delta protocol names them and their fields.

Values of columns by which a Delta table is partitioned: `partition_texts` for the log, `partition_value` from it.

The log alone decides which values a file has. Some readers take them from its path instead: `partition_folder`.
"""

from __future__ import annotations

import json
import math
import re
import time
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec
import numpy as np
import pyarrow as pa
from deltalake import Schema

from binlog_format.errors import TableError
from binlog_streaming.lake.commit_id import COST_KEY

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    import pyarrow.parquet as pq

    Struct = dict[str, Any]
    """A struct, or a column of one, as `schemaString` has it."""


ROW_IDS = "delta.enableRowTracking"
"""Property of a table whose rows keep their ids."""


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
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
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
            base_row_id=self.base_row_id,
            default_row_commit_version=self.default_row_commit_version,
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
    base_row_id: int | None = None
    default_row_commit_version: int | None = None

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


class Metadata(Action, frozen=True, dict=True):
    """Columns and properties."""

    id: str
    format: DeltaFileFormat
    schema_string: str
    partition_columns: tuple[str, ...]
    configuration: dict[str, str]
    name: str | None = None
    description: str | None = None
    created_time: int | None = None

    @cached_property
    def columns(self) -> list[Struct]:
        """Columns as `schemaString` has them; nobody changes what is in it."""
        columns: list[Struct] = json.loads(self.schema_string)["fields"]
        return columns

    @cached_property
    def schema(self) -> pa.Schema:
        """The same in Arrow's types; each may be null: `required_columns` has those that must not."""
        return pa.schema([field.with_nullable(True) for field in pa.schema(Schema.from_json(self.schema_string))])

    @property
    def keeps_row_ids(self) -> bool:
        """True if rows keep their ids and the versions of their last changes, also in other files (row tracking)."""
        return self.configuration.get(ROW_IDS) == "true"

    @property
    def mapping_mode(self) -> str:
        """Way to find columns in files: `none` (by the table's names), `name` or `id`."""
        return self.configuration.get("delta.columnMapping.mode", "none")

    @property
    def is_mapped(self) -> bool:
        """True if files of the table have names of their own for its columns."""
        return self.mapping_mode != "none"


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


class Domain(Action, frozen=True):
    """Metadata of a feature or an application under a name; *removed*: not any more."""

    domain: str
    configuration: str
    removed: bool


class Sidecar(Action, frozen=True):
    """A file with a part of a checkpoint."""

    path: str


class CommitInformation(Action, frozen=True):
    """A writer's information on its commit."""

    operation: str | None = None
    operation_parameters: msgspec.Raw = msgspec.Raw(b"null")
    in_commit_timestamp: int | None = None
    write_cost: str | None = msgspec.field(default=None, name=COST_KEY)


class Line(Action, frozen=True):
    """A line of the log: one of these."""

    add: Add | None = None
    remove: Remove | None = None
    protocol: Protocol | None = None
    meta_data: Metadata | None = None
    txn: DeltaTransaction | None = None
    domain_metadata: Domain | None = None
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


STATISTICS_COLUMNS = 32
"""Columns that a file has statistics of, the first ones: as many as Delta itself takes."""

TEXT_LENGTH_MAX = 32
"""Characters that statistics have of a text; of a longer one they give no greatest value."""

DECIMAL_DIGITS_MAX = 15
"""Digits that a 64-bit float can represent exactly: readers compare decimals in statistics as such floats."""

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
"""Characters that Spark writes as `%` and two digits in names of folders, and NUL, which no file system takes."""

_NAME_BYTES_MAX, _FOLDER_BYTES_MAX = 255, 700
"""Longest name in file systems, and longest path of folders of a file in a key of an object store."""


def file_statistics(metadata: pq.FileMetaData, schema: pa.Schema, measured: Container[str]) -> dict[str, object]:
    """Least and greatest values and counts of nulls, as Delta has them, from those of Parquet.

    Args:
        measured: Columns that have them wherever they are.
    """
    least: dict[str, object] = {}
    greatest: dict[str, object] = {}
    nulls: dict[str, int] = {}
    leaf = 0
    for number, column in enumerate(schema):
        if number >= STATISTICS_COLUMNS and column.name not in measured:
            leaf += _leaves(column.type)
            continue
        parts = [metadata.row_group(group).column(leaf).statistics for group in range(metadata.num_row_groups)]
        leaf += _leaves(column.type)
        if pa.types.is_nested(column.type) or any(part is None or not part.has_null_count for part in parts):
            continue
        nulls[column.name] = sum(part.null_count for part in parts)
        ranges = [part for part in parts if part.has_min_max]
        # A part without values has no range, and one with values too long for statistics has none either.
        if not ranges or any(part.num_values for part in parts if not part.has_min_max):
            continue
        low = _bound(min(part.min_raw for part in ranges), column.type, is_greatest=False)
        high = _bound(max(part.max_raw for part in ranges), column.type, is_greatest=True)
        least |= {} if low is None else {column.name: low}
        greatest |= {} if high is None else {column.name: high}
    return {"numRecords": metadata.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}


def _bound(raw: object, kind: pa.DataType, *, is_greatest: bool) -> object | None:
    # *raw*: as Parquet keeps it. None: Delta's statistics would be wrong, or not understood by all.
    if isinstance(raw, int):
        if pa.types.is_integer(kind):
            return raw
        if pa.types.is_decimal(kind):
            return raw / 10**kind.scale if kind.precision <= DECIMAL_DIGITS_MAX else None
        if pa.types.is_date(kind):
            return date.fromordinal(raw + _EPOCH_DAY).isoformat()
        if pa.types.is_timestamp(kind):
            return _moment(raw, is_utc=kind.tz is not None, is_greatest=is_greatest)
    if isinstance(raw, float):
        return raw if math.isfinite(raw) else None
    if isinstance(raw, bytes) and (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        text = raw.decode()
        return None if is_greatest and len(text) > TEXT_LENGTH_MAX else text[:TEXT_LENGTH_MAX]
    return None


_MOMENT_MAX = np.datetime64("9999-12-31T23:59:59.999", "ms").astype(np.int64)


def _moment(microseconds: int, *, is_utc: bool, is_greatest: bool) -> str | None:
    # Readers take milliseconds; a range may be wider than its values.
    whole = -(-microseconds // 1000) if is_greatest else microseconds // 1000
    if whole > _MOMENT_MAX:
        return None
    return f"{np.datetime64(whole, 'ms')}{'Z' if is_utc else ''}"


def _leaves(kind: pa.DataType) -> int:
    # Columns of Parquet that a column is.
    if pa.types.is_struct(kind):
        return sum(_leaves(field.type) for field in kind)
    return _leaves(kind.value_type) if pa.types.is_list(kind) or pa.types.is_large_list(kind) else 1


def partition_folder(values: Mapping[str, str | None]) -> str:
    """The folder of files with these values, `day=2026-01-01/city=K%2FL` as Spark names it.

    Args:
        values: As `partition_texts` gives them, by what the columns are called in files.

    Returns:
        Empty: a value is too long for the name of a folder, whose files are in the table's own.
    """
    names = [f"{_escaped(name)}={_NO_VALUE if text is None else _escaped(text)}" for name, text in values.items()]
    folder = "/".join(names)
    if max((len(name.encode()) for name in names), default=0) > _NAME_BYTES_MAX:
        return ""
    return folder if len(folder.encode()) <= _FOLDER_BYTES_MAX else ""


def _escaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


def partition_texts(rows: pa.Table, names: Sequence[str]) -> tuple[str | None, ...]:
    """The values of *rows*, which all have the same ones, as the protocol writes them."""
    texts = tuple(_text(rows.column(name)[0], name) for name in names)
    if "" in texts:
        raise TableError(
            "PARTITION_VALUE",
            f"column {names[texts.index('')]} holds an empty text, and the table is partitioned by it: Delta keeps an "
            "empty text as null there",
            hint="Let the table be partitioned by other columns (partition_by of the job, and a new target); Iceberg "
            "keeps such texts",
        )
    return texts


def partition_value(text: str | None, kind: pa.DataType) -> pa.Scalar:
    """The other way."""
    if not text:
        return pa.scalar(None, kind)
    if pa.types.is_timestamp(kind) and kind.tz is not None and not text.endswith("Z"):
        text += "Z"
    return pa.scalar(text).cast(kind)


def _text(value: pa.Scalar, name: str) -> str | None:
    try:
        text: str | None = value.cast(pa.string()).as_py()
    except pa.ArrowInvalid as error:
        raise TableError(
            "PARTITION_VALUE",
            f"column {name} holds bytes that are not UTF-8, and the table is partitioned by it: Delta's log has texts "
            "alone",
            hint="Let the table be partitioned by other columns (partition_by of the job, and a new target)",
        ) from error
    if text and pa.types.is_timestamp(value.type) and value.type.tz is not None:
        text = text.replace(" ", "T")
    return text
