"""View `events`: one row for each replication event: `EventsView`.

Compressed events and what is in compressed transactions are shown plain, with a word on how they are stored. No event
is left out: rows that were rolled back, and those of prepared XA transactions, stand where they lie. Two kinds of
statements have no text: those with passwords, and those of snapshots, which contain keys of the rows that they copy.

Plain texts in events, as Arrow columns: `texts_at`, `event_texts`; and of rows, `StatementTexts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_format.block import NOT_INNER
from binlog_format.errors import CorruptError
from binlog_format.events.layout import EVENT_TYPE_OFFSET, EventType
from binlog_format.events.query import contain_passwords
from binlog_format.kernels import empty_bytes, offsets_of
from binlog_format.memory_kernels import gather
from binlog_format.rows.arrow_arrays import fixed_array, mask_array, numbers_array, strings_array
from binlog_format.rows.json.json_rows import JsonStyle
from binlog_format.rows.table_events import TableMaps
from binlog_format.views.columns import COMMIT_TIME_TYPE, POSITION_TYPE, PlaceColumns
from binlog_format.views.event_text_kernels import find_texts
from binlog_format.views.filters import ALL_GROUPS, SNAPSHOT_DATABASE, GroupFilter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_format.block import Block
    from binlog_format.events.table_map import TableLayout
    from binlog_format.kernels import Bytes, Int32s, Int64s, Mask
    from binlog_format.views.filters import TableFilter

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
        places: Shape (2, count): start and size of each; null where the size is -1.
    """
    starts, sizes = places[0], places[1]
    there = sizes >= 0
    sizes = np.maximum(sizes, 0)
    offsets = offsets_of(sizes)
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

    def of_rows(self, block: Block) -> tuple[Int32s, pa.Array]:
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


EVENTS_SCHEMA = pa.schema(
    [
        ("position", POSITION_TYPE),  # of the event's group
        ("event_no", pa.int32()),  # in the group, 0-based
        ("type", pa.string()),  # `EventType`, lower case; `type N` of an unknown one
        ("stored_as", pa.string()),  # compressed event, the one that this is in, its fragments; null: as it is
        ("size", pa.int64()),  # bytes of the plain event, header included, checksum not
        ("flags", pa.int32()),
        ("server_id", pa.int64()),
        ("time", COMMIT_TIME_TYPE),
        ("gtid", pa.string()),  # of the group
        ("database", pa.string()),
        ("table", pa.string()),
        ("text", pa.string()),  # of a statement, unless it is hidden; what is not UTF-8 in it is replaced
    ]
)

_NAMES = {int(event_type): event_type.name.lower() for event_type in EventType}
_TYPE_NAMES = strings_array([_NAMES.get(code, f"type {code}") for code in range(256)])
_OF_SNAPSHOTS = f"`{SNAPSHOT_DATABASE}`"
_BETWEEN = "\0"  # cannot be in a name


class EventsView:
    """The replication events of a log, in commit order of their groups.

    Args:
        tables: Only events that are about these tables; None: all events.
    """

    def __init__(self, *, tables: TableFilter | None = None, groups: GroupFilter = ALL_GROUPS) -> None:
        self._tables = tables
        self._groups = groups

    def schema(self, layout: TableLayout | None = None) -> pa.Schema:
        """Schema of the batches; it is the same for every table."""
        del layout
        return EVENTS_SCHEMA

    def json_styles(self) -> dict[str, JsonStyle]:
        """JSON styles for `json_lines` of this view."""
        return {"time": JsonStyle(digits=0)}

    def batches(self, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
        """One batch for each of *blocks*, which have been expanded, but for those without an event that is wanted."""
        maps = TableMaps()
        for block in blocks:
            batch = self._batch(block, maps)
            if batch.num_rows:
                yield batch

    def _batch(self, block: Block, maps: TableMaps) -> pa.RecordBatch:
        events = block.events
        places = text_places(block)
        databases, tables = (texts_at(block.data, place) for place in places[:2])
        of_rows = [(touched.layout, touched.events) for touched in maps.resolve(block)]
        if of_rows:
            number = np.full(len(events), -1, dtype=np.int64)
            for index, (_, rows) in enumerate(of_rows):
                number[rows] = index
            chosen = fixed_array(pa.int64(), number, number >= 0)
            databases = pc.coalesce(databases, strings_array([layout.database for layout, _ in of_rows]).take(chosen))
            tables = pc.coalesce(tables, strings_array([layout.table for layout, _ in of_rows]).take(chosen))
        place = PlaceColumns(events, block.groups, np.arange(len(events)), block.gtid_sources)
        batch = pa.RecordBatch.from_arrays(
            [
                place.position(),
                place.event_no(),
                _TYPE_NAMES.take(numbers_array(events["type"])),
                _stored_as(block),
                numbers_array(events["size"].astype(np.int64)),
                numbers_array(events["flags"].astype(np.int32)),
                place.server_id(),
                numbers_array(events["timestamp"].astype(np.int64) * 1_000_000, COMMIT_TIME_TYPE),
                place.gtid(),
                databases,
                tables,
                _shown(texts_at(block.data, places[2])),
            ],
            schema=EVENTS_SCHEMA,
        )
        keep = self._wanted(block, databases, tables)
        return batch if keep is None else batch.filter(mask_array(keep))

    def _wanted(self, block: Block, databases: pa.Array, tables: pa.Array) -> Mask | None:
        keep_groups = self._groups.keep(block)
        keep = None if keep_groups is None else keep_groups[block.events["group"]]
        if self._tables is None:
            return keep
        names = pc.binary_join_element_wise(databases, tables, _BETWEEN).dictionary_encode()
        pairs = [name.split(_BETWEEN) for name in names.dictionary.to_pylist()]
        accepted = np.array([self._tables.accepts_name(*pair) for pair in pairs], dtype=np.bool_)
        codes = names.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        of_tables: Mask = np.append(accepted, False)[codes]
        return of_tables if keep is None else keep & of_tables


def _shown(texts: pa.Array) -> pa.Array:
    hidden = pc.or_(contain_passwords(texts), pc.match_substring(texts, _OF_SNAPSHOTS))
    return pc.if_else(hidden, pa.nulls(1, pa.string())[0], texts)


def _stored_as(block: Block) -> pa.Array:
    if block.origins is None:
        return pa.nulls(len(block.events), pa.string())
    starts, inner_nos = block.origins["start"], block.origins["inner_no"]
    types = block.data[np.maximum(starts, 0) + EVENT_TYPE_OFFSET]
    types[inner_nos >= 0] = EventType.TRANSACTION_PAYLOAD  # one larger than a block is not in it
    types[inner_nos < NOT_INNER] = EventType.PARTIAL_ROW_DATA
    return _TYPE_NAMES.take(fixed_array(pa.uint8(), types, (starts != block.events["start"]) | (inner_nos < NOT_INNER)))
