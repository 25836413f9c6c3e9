"""Plain texts in events, as Arrow columns: `texts_at`, `event_texts`; and of rows, `StatementTexts`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.errors import CorruptError
from binlog_format.events.layout import EventType
from binlog_format.extent_kernels import gather
from binlog_format.kernels import empty_bytes
from binlog_format.rows.arrow_arrays import mask_array, strings_array
from binlog_format.views.events.text_kernels import find_texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.block import Block
    from binlog_format.kernels import Bytes

    Int64s = NDArray[np.int64]

WRITE_TYPES = frozenset({EventType.WRITE_ROWS_V0, EventType.WRITE_ROWS_V1, EventType.WRITE_ROWS_V2})
"""Row events of inserts, as they are when everything is expanded."""

UPDATE_TYPES = frozenset(
    {EventType.UPDATE_ROWS_V0, EventType.UPDATE_ROWS_V1, EventType.UPDATE_ROWS_V2, EventType.PARTIAL_UPDATE_ROWS}
)
DELETE_TYPES = frozenset({EventType.DELETE_ROWS_V0, EventType.DELETE_ROWS_V1, EventType.DELETE_ROWS_V2})

_STATEMENT_TYPES = (EventType.ANNOTATE_ROWS, EventType.ROWS_QUERY)


def texts_at(data: Bytes, places: Int64s) -> pa.Array:
    """Texts as a column; what is not UTF-8 in them is replaced.

    Args:
        data: Where they are.
        places: Shape (2, count): start and size of each; null where the size is -1.
    """
    starts, sizes = places[0], places[1]
    there = sizes >= 0
    sizes = np.maximum(sizes, 0)
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    joined = empty_bytes(int(offsets[-1]))
    done = gather(data, starts, sizes, joined, offsets[:-1])
    assert done, "a text lies outside of its data"
    validity = None if there.all() else mask_array(there).buffers()[1]
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(joined)]
    found = pa.Array.from_buffers(pa.large_binary(), len(sizes), buffers)
    try:
        return found.cast(pa.large_string()).cast(pa.string())
    except pa.ArrowInvalid:
        # Statements stand in the client's character set, names in UTF-8.
        decoded = [None if value is None else value.decode("utf-8", "replace") for value in found.to_pylist()]
        return pa.array(decoded, pa.string())


def text_places(block: Block) -> Int64s:
    """Places where events name a database and a table, and of the texts of statements.

    Returns:
        Shape (3, 2, event count): database, table and text; start and size, -1 where there is none.

    Raises:
        CorruptError: `BAD_EVENT`.
    """
    events = block.events
    places = np.empty((3, 2, len(events)), dtype=np.int64)
    damaged = find_texts(block.data, events, places[0], places[1], places[2])
    if damaged >= 0:
        start, size = int(events["start"][damaged]), int(events["size"][damaged])
        raise CorruptError(
            "BAD_EVENT",
            f"an event of type {events['type'][damaged]} with {size} bytes is too short for its contents",
            at=block.place(start),
        )
    return places


class StatementTexts:
    """The statements that made rows: ANNOTATE_ROWS (MariaDB) and ROWS_QUERY (MySQL) events.

    Give it the blocks of one log in their order; a group that comes in pieces needs all its pieces.
    """

    def __init__(self) -> None:
        self._open: str | None = None  # of the statement that goes on in the next piece of a group

    def of_rows(self, block: Block) -> tuple[NDArray[np.int32], pa.Array]:
        """Find the statement that made each row event of *block*.

        Returns:
            For each event: its statement's row in the second array, -1 where the log does not record it; and the texts.
        """
        events = block.events
        count = len(events)
        is_text = np.isin(events["type"], _STATEMENT_TYPES)
        texts = texts_at(block.data, text_places(block)[2][:, is_text])
        going_on = [self._open] if count > 0 and not block.groups["begins"][0] and self._open is not None else []
        if going_on:
            texts = pa.concat_arrays([texts, strings_array(going_on)])
        number = np.cumsum(is_text) - 1
        # A statement that touches several tables may end with each of them, so a text holds up to the next one.
        last_text = np.maximum.accumulate(np.where(is_text, np.arange(count), -1)) if count else number
        is_said = last_text >= block.groups["first_event"][events["group"]]
        codes = np.where(is_said, number, -1).astype(np.int32)
        if going_on:
            codes[(events["group"] == 0) & (last_text < 0)] = len(texts) - 1
        is_open = count > 0 and not block.groups["ends"][-1] and codes[-1] >= 0
        self._open = texts[int(codes[-1])].as_py() if is_open else None
        return codes, texts
