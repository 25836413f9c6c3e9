"""Changes of rows in messages: `received_changes` gives those of each table, with their places in the log.

Keys or values that carry their schema, taken apart: `payloads_by_schema`.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from binlog_connector.kafka_decode.connect_columns import MessageError, json_type, received_column
from binlog_format.events.table_map import TableLayout
from binlog_format.messages import library_text, row_value, shown_cause
from binlog_format.rows.arrow_arrays import mask_array, numbers_array

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlog_connector.kafka_decode.connect_columns import ReceivedColumn
    from binlog_format.kernels import Int64s, Mask

_HEAD, _BETWEEN = '{"schema":', ',"payload":'
_SHOWN_MAX = 80
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Payloads:
    """Texts with one schema.

    Attributes:
        schema: Of Kafka Connect, as its JSON converter writes it; None: there are no texts.
        rows: Numbers of the messages, ascending.
        texts: JSON, large binary; nulls where *schema* is None.
    """

    schema: dict[str, Any] | None
    rows: Int64s
    texts: pa.Array


def payloads_by_schema(texts: pa.Array) -> list[Payloads]:
    """Keys or values (large binary), by their schemas; those that are null come last.

    A schema comes before each payload, and is the same for thousands: it is read once, and compared as bytes.

    Raises:
        MessageError: A text has no schema.
    """
    found = []
    there: Mask = texts.is_valid().to_numpy(zero_copy_only=False)
    left = there.copy()
    while left.any():
        first = int(np.argmax(left))
        schema, head = _schema_of(first, texts[first].as_py())
        same = pc.starts_with(texts, head).fill_null(False).to_numpy(zero_copy_only=False)
        # Payloads are short beside their schemas: what is not wanted goes after these.
        payloads = pc.binary_slice(texts, len(head), -1).filter(mask_array(same))
        found.append(Payloads(schema, np.flatnonzero(same), payloads))
        left &= ~same
    nulls = np.flatnonzero(~there)
    if len(nulls):
        found.append(Payloads(None, nulls, pa.nulls(len(nulls), texts.type)))
    return found


def _schema_of(row: int, text: bytes) -> tuple[dict[str, Any], bytes]:
    try:
        whole = text.decode()
        if not whole.startswith(_HEAD):
            raise ValueError("no schema")
        schema, end = _DECODER.raw_decode(whole, len(_HEAD))
        if not isinstance(schema, dict) or not whole.startswith(_BETWEEN, end) or not whole.endswith("}"):
            raise ValueError("no schema")
    except ValueError as error:
        shown = text[:_SHOWN_MAX].decode(errors="replace")
        raise MessageError(
            row, f'expected {{"schema": ..., "payload": ...}}, got {row_value(shown)}{"..." * (len(text) > _SHOWN_MAX)}'
        ) from error
    return schema, whole[: end + len(_BETWEEN)].encode()


_Values = TypeVar("_Values", pa.Array, pa.Table)

OPS = ("d", "u", "c", "t")
"""A changed key is a delete and a create at one place of the log, in this order."""
DELETE, UPDATE, CREATE, TRUNCATE = range(4)
_READ = "r"
"""A row that a snapshot has copied: for its table it is as one that is created."""

_OTHER_SCHEMAS = (
    "io.debezium.connector.common.TransactionMetadataValue",
    "io.debezium.connector.common.Heartbeat",
    "io.debezium.connector.mariadb.SchemaChangeValue",
    "io.debezium.connector.mysql.SchemaChangeValue",
)
"""Schemas of messages that are about no row."""

_SEQUENCE_SLICES = ((0, 10), (11, 21), (22, 27), (28, 38), (39, 49))
_SEQUENCE = r"^\d{10}\.\d{10}\.\d{5}\.\d{10}\.\d{10}$"
_SOURCE_FIELDS = ("db", "table", "sequence", "ts_ms", "gtid")


@dataclass(frozen=True, slots=True)
class ReceivedChanges:
    """Changes of one table with one layout, by the numbers of their messages.

    Attributes:
        layout: The table as the messages describe it; for `TRUNCATE` alone it has no columns.
        key_form: Tells schemas of keys apart: the same values have other bytes under another one, so another partition.
        rows: Numbers of the messages, ascending.
        ops: Number of each operation in `OPS`.
        copied: Which creates are of rows that a snapshot has copied: their table may have them.
        places: Of each change `file_no`, `page`, `chunk`, `event_no` and `row_no`, a column for each.
        seconds: When each statement began, seconds since 1970 UTC.
        gtids: Of the transactions, as text; null without.
        before: The rows before; null columns where there was none.
        after: The rows after, likewise.
    """

    layout: TableLayout
    key_form: str
    rows: Int64s
    ops: Int64s
    copied: Mask
    places: Int64s
    seconds: Int64s
    gtids: pa.Array
    before: pa.Table
    after: pa.Table

    def taken(self, rows: Int64s) -> ReceivedChanges:
        """The changes with these numbers."""
        numbers = numbers_array(rows)
        return ReceivedChanges(
            self.layout,
            self.key_form,
            self.rows[rows],
            self.ops[rows],
            self.copied[rows],
            self.places[rows],
            self.seconds[rows],
            self.gtids.take(numbers),
            self.before.take(numbers),
            self.after.take(numbers),
        )


def received_changes(keys: pa.Array, values: pa.Array) -> Iterator[ReceivedChanges]:
    """The changes in messages with schemas; tombstones, and messages about no row, are passed over.

    Args:
        keys: Large binary; null where a message has none.
        values: Large binary; null: a tombstone.

    Raises:
        MessageError: A message is not one of those that are published.
    """
    for payloads in payloads_by_schema(values):
        if payloads.schema is None or payloads.schema.get("name") in _OTHER_SCHEMAS:
            continue
        payload = _parsed(payloads)
        for key in payloads_by_schema(_taken(keys, payloads.rows)):
            yield from _changes(payloads, _taken(payload, key.rows), payloads.rows[key.rows], key.schema)


def _parsed(payloads: Payloads) -> pa.Table:
    schema, first = payloads.schema, int(payloads.rows[0])
    assert schema is not None, "texts have a schema"
    names = {field.get("field") for field in schema.get("fields", ())}
    if schema.get("type") != "struct" or not {"before", "after", "source", "op"} <= names:
        reason = f"expected a change in Debezium's envelope, got a message with the schema {schema.get('name')}"
        raise MessageError(first, reason)
    newline, nothing = (pa.scalar(text, payloads.texts.type) for text in (b"\n", b""))
    lines = pc.binary_join_element_wise(payloads.texts, newline, nothing)
    offsets = np.frombuffer(lines.buffers()[1], np.int64)[: len(lines) + 1]
    text = lines.buffers()[2].slice(0, int(offsets[-1]))
    options = pj.ParseOptions(explicit_schema=pa.schema(list(json_type(schema))), unexpected_field_behavior="error")
    try:
        # A text longer than a block would be an error.
        block_size = max(_BLOCK_SIZE, 2 * int(np.diff(offsets).max()))
        found = pj.read_json(
            io.BytesIO(text), read_options=pj.ReadOptions(block_size=block_size), parse_options=options
        )
    except pa.ArrowInvalid as error:
        raise MessageError(
            first, f"this message, or one after it, is not what its schema says: {library_text(error)}"
        ) from shown_cause(error)
    if len(found) != len(payloads.rows):
        raise MessageError(first, "this message, or one after it, is not one line of JSON")
    return found


_BLOCK_SIZE = 1 << 20


def _taken(values: _Values, rows: Int64s) -> _Values:
    # Of most batches it is all of them, and a copy of texts costs as much as to parse them.
    return values if len(rows) == len(values) else values.take(numbers_array(rows))


def _changes(
    payloads: Payloads, payload: pa.Table, rows: Int64s, key_schema: dict[str, Any] | None
) -> Iterator[ReceivedChanges]:
    schema, key_form = payloads.schema, _digest(key_schema)
    key = tuple(str(field.get("field")) for field in (key_schema or {}).get("fields", ()))
    assert schema is not None, "texts have a schema"
    fields = {field["field"]: field for field in schema["fields"]}
    columns = [received_column(field) for field in fields["before"]["fields"]]
    unknown = [name for name in key if name not in {column.column.name for column in columns}]
    if unknown:
        raise MessageError(int(rows[0]), f"its key has {', '.join(unknown)}, which its rows have not")
    source = _struct_columns(payload.column("source"))
    missing = [name for name in _SOURCE_FIELDS if name not in source]
    if missing:
        raise MessageError(int(rows[0]), f"its source has no {', '.join(missing)}")
    letters = _one(payload.column("op"))
    copied = pc.equal(letters, _READ).fill_null(False).to_numpy(zero_copy_only=False)
    ops = pc.index_in(pc.if_else(pc.equal(letters, _READ), OPS[CREATE], letters), pa.array(OPS))
    _check(ops, rows, "op is none of d, u, c, t and r")
    tables = pc.binary_join_element_wise(source["db"], source["table"], "\0")
    _check(tables, rows, "its source names no table")
    _check(source["ts_ms"], rows, "its source has no time")
    places = _places(source["sequence"], rows)
    images = {name: _rows(payload.column(name), columns, rows) for name in ("before", "after")}
    numbers = ops.to_numpy()
    _check_images(payload, numbers, rows)
    for table in pc.unique(tables).to_pylist():
        chosen = np.flatnonzero(pc.equal(tables, table).to_numpy(zero_copy_only=False))
        database, name = table.split("\0")
        yield ReceivedChanges(
            _layout(database, name, columns, key),
            key_form,
            rows[chosen],
            numbers[chosen].astype(np.int64),
            copied[chosen],
            places[chosen],
            _taken(source["ts_ms"], chosen).to_numpy() // 1000,
            _taken(source["gtid"], chosen),
            _taken(images["before"], chosen),
            _taken(images["after"], chosen),
        )


def _layout(database: str, table: str, columns: Sequence[ReceivedColumn], key: tuple[str, ...]) -> TableLayout:
    names = [column.column.name for column in columns]
    indices = tuple(names.index(name) for name in key)
    described: Any = ([column.column for column in columns], indices)
    return TableLayout(database, table, tuple(column.column for column in columns), indices, _digest(described), b"")


def _digest(described: object) -> str:
    return hashlib.sha256(repr(described).encode()).hexdigest()[:16]


def _rows(images: pa.ChunkedArray, columns: Sequence[ReceivedColumn], rows: Int64s) -> pa.Table:
    made, present = [], images.is_valid().to_numpy()
    for column, values in zip(columns, _one(images).flatten(), strict=True):
        name = str(column.column.name)
        absent = present & values.is_null().to_numpy(zero_copy_only=False)
        if absent.any() and not column.column.nullable:
            raise MessageError(int(rows[np.flatnonzero(absent)[0]]), f"column {name} is null, which it may not be")
        try:
            made.append(column.values(values))
        except MessageError as error:
            raise MessageError(int(rows[error.row]), f"column {name}: {error.reason}") from error
        except pa.ArrowInvalid as error:
            raise MessageError(
                int(rows[0]), f"column {name}, of this message or one after it: {library_text(error)}"
            ) from shown_cause(error)
    return pa.Table.from_arrays(made, names=[str(column.column.name) for column in columns])


def _places(sequences: pa.Array, rows: Int64s) -> Int64s:
    well = pc.match_substring_regex(sequences, _SEQUENCE).fill_null(False).to_numpy(zero_copy_only=False)
    if not well.all():
        first = int(np.flatnonzero(~well)[0])
        raise MessageError(
            int(rows[first]), f"expected the place of a change in source.sequence, got {sequences[first].as_py()!r}"
        )
    parts = [pc.utf8_slice_codeunits(sequences, *ends).cast(pa.int64()).to_numpy() for ends in _SEQUENCE_SLICES]
    return np.stack(parts, axis=1)


def _check_images(payload: pa.Table, ops: Int64s, rows: Int64s) -> None:
    # A row image that is not there, of an update above all, would leave a row as it was, without a word.
    has_before, has_after = (payload.column(name).is_valid().to_numpy() for name in ("before", "after"))
    wrong = (has_before != np.isin(ops, (DELETE, UPDATE))) | (has_after != np.isin(ops, (CREATE, UPDATE)))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise MessageError(int(rows[row]), f"op {OPS[ops[row]]} with other rows before and after than it has")


def _check(values: pa.Array, rows: Int64s, reason: str) -> None:
    if values.null_count:
        raise MessageError(int(rows[np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0]]), reason)


def _struct_columns(column: pa.ChunkedArray) -> dict[str, pa.Array]:
    return dict(zip(column.type.names, _one(column).flatten(), strict=True))


def _one(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else found.chunk(0)
