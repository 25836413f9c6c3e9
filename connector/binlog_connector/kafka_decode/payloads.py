"""Keys or values that carry their schema, taken apart: `payloads_by_schema`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.kafka_decode.message_error import MessageError
from binlog_format.rows.arrow_arrays import mask_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]

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
    there: NDArray[np.bool_] = texts.is_valid().to_numpy(zero_copy_only=False)
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
            row, f'expected {{"schema": ..., "payload": ...}}, got {shown}{"..." * (len(text) > _SHOWN_MAX)}'
        ) from error
    return schema, whole[: end + len(_BETWEEN)].encode()
