"""Columns of tables as parts of Avro records: `column_part`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from binlog_connector.envelope.avro.parts import (
    AvroTexts,
    Chosen,
    Encoded,
    Fixed,
    Longs,
    array_parts,
    plain_states,
    union_states,
)
from binlog_format.errors import UnsupportedError
from binlog_format.kernels import empty_bytes
from binlog_format.rows.json.json_rows import JsonRows, json_column
from binlog_format.views.json.json_texts import JsonTexts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_connector.envelope.avro.parts import AvroPart
    from binlog_connector.envelope.connect_schema import Schema
    from binlog_connector.envelope.connect_values import ConnectColumn
    from binlog_format.kernels import Bytes
    from binlog_format.rows.json.json_rows import JsonStyle

    Mask = NDArray[np.bool_]

_HEAD, _TAIL = len('{"":"'), len('"}')


def column_part(column: ConnectColumn, values: pa.Array) -> AvroPart:
    """A column as a field of each row.

    Args:
        column: What it is called, and its schema.
        values: Made by `ConnectColumn.values`.

    Raises:
        UnsupportedError: `MESSAGE_VALUE`: a null in a column that has none.
    """
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if values.null_count and not column.schema["optional"]:
        reason = f"{column.full_name}: value {values.is_null().index(True)}: NULL in a column that is NOT NULL"
        raise UnsupportedError("MESSAGE_VALUE", reason, hint='Leave the table out, or publish with format = "json"')
    return _part(column.schema, values, column.style)


def _part(schema: Schema, values: pa.Array, style: JsonStyle | None = None) -> AvroPart:
    kind = schema["type"]
    if kind in ("struct", "array"):
        return _nested(schema, values)
    states = union_states(_present(values)) if schema["optional"] else plain_states(len(values))
    if kind == "bytes":
        return AvroTexts.of(values, pa.binary(), states)
    if kind == "string":
        return _text(values, states, style)
    if kind == "boolean":
        return Fixed(_numbers(values.cast(pa.uint8())), states)
    numbers = _numbers(values)
    return Fixed(numbers, states) if kind in ("float", "double") else Longs(numbers, states)


def _text(values: pa.Array, states: Bytes, style: JsonStyle | None) -> AvroTexts:
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return AvroTexts.of(values, pa.string(), states)
    # Moments, digits and what stands for bytes: as in JSON, where it has no escapes, without the quotes.
    assert style is not None, "only columns have such values"
    nothing = empty_bytes(0)
    texts = JsonTexts.of_rows(JsonRows([json_column("", values, style=style)], len(values)), nothing, nothing)
    return AvroTexts(texts.data, texts.offsets[:-1] + _HEAD, texts.sizes - _HEAD - _TAIL, states)


def _nested(schema: Schema, values: pa.Array) -> AvroPart:
    # Only what is there is encoded: the fields of a null are no values.
    present = _present(values)
    there = values.drop_null()
    if schema["type"] == "struct":
        fields = zip(schema["fields"], there.flatten(), strict=True)
        parts = [_part(field, kids) for field, kids in fields]
    else:
        parts = _floats(there)
    chosen = np.where(present, np.cumsum(present) - 1, -1).astype(np.int64)
    return Chosen(Encoded.of(parts, len(there)), chosen, in_union=schema["optional"])


def _floats(lists: pa.Array) -> list[AvroPart]:
    offsets = lists.offsets.to_numpy().astype(np.int64)
    numbers = _numbers(lists.values)
    items = Encoded(np.array(numbers).view(np.uint8), offsets * numbers.itemsize)
    return array_parts(np.diff(offsets), items)


def _present(values: pa.Array) -> Mask:
    if values.null_count == 0:
        return np.ones(len(values), dtype=np.bool_)
    mask: Mask = values.is_valid().to_numpy(zero_copy_only=False)
    return mask


def _numbers(values: pa.Array) -> NDArray[Any]:
    """The values in memory; of a null: anything."""
    dtype = values.type.to_pandas_dtype()
    content = np.frombuffer(values.buffers()[1] or b"", dtype=dtype)
    return content[values.offset : values.offset + len(values)]
