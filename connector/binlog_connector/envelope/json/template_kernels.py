"""Kernels that fill in what messages contain beside their rows: once an event, and then once a message.

A template is a row of literals with a field after each. Fields of the event are filled in once for each event; where a
field of the message comes, the text is cut, so that an event's text is some segments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_format.kernels import kernel
from binlog_format.writing_kernels import (
    QUOTE,
    digit_count,
    escaped_size,
    put_bytes,
    put_date,
    put_digits,
    put_escaped,
    put_fixed,
    put_null,
    put_signed,
)

if TYPE_CHECKING:
    from binlog_connector.envelope.json.message_template import EventTexts
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int32s, Int64s


# Fields of an event.
NOTHING = 0
MILLISECONDS = 1  # three zeros after the seconds, and three more for each of the next two
MICROSECONDS = 2
NANOSECONDS = 3
SEQUENCE_START = 4  # all of the total order but the number of the row
SERVER_ID = 5
GTID = 6
FILE = 7
POSITION = 8
THREAD = 9
QUERY = 10
TRANSACTION_ID = 11
ISO_TIME = 12  # in quotes, as the two below are where they are known
POSITION_TEXT = 13
THREAD_TEXT = 14
# Fields of a message; from here on.
SEQUENCE_ROW = 15
ROW = 16
TOTAL_ORDER = 17
TABLE_ORDER = 18
OP = 19

SEQUENCE_WIDTHS = (10, 10, 5, 10, 10)
"""Digits of file_no, page, chunk, event_no and row_no."""
_GROUP_SIZE = sum(SEQUENCE_WIDTHS[:3]) + 3  # of a sequence, with its dots
_FIELD_SIZE_MAX = 64  # of every field without a text: three numbers of 20 digits, or a sequence
_DOT = 0x2E
_COLON = 0x3A
_T = 0x54
_ZERO = 0x30
_DAY, _HOUR, _MINUTE = 86_400, 3600, 60
_U0 = np.uint64(0)

_FILE_IS = np.frombuffer(b'"file=', dtype=np.uint8).copy()
_NO_MILLISECONDS = np.frombuffer(b'.000Z"', dtype=np.uint8).copy()
_POSITION_IS = np.frombuffer(b",pos=", dtype=np.uint8).copy()


class EventSources(NamedTuple):
    """Sources of the fields of events: texts one after the other, with the start and end of each.

    Attributes:
        literals: Of all templates, each with as many as there are *fields*.
        fields: The field after each literal of a template.
        gtids: Of each group.
        files: Names of files, as JSON.
        group_files: Of each group its file.
        threads: Of each group its thread; below 0: unknown.
        queries: Statements.
        event_queries: Of each event of the block its statement; below 0: unknown.
        files_before: Added to the number of each group's file in its total order.
    """

    literals: Bytes
    literal_offsets: Int64s
    fields: Int64s
    gtids: Bytes
    gtid_offsets: Int32s
    files: Bytes
    file_offsets: Int64s
    group_files: Int64s
    threads: Int64s
    queries: Bytes
    query_offsets: Int32s
    event_queries: Int32s
    files_before: int


@kernel
def room_for_events(sources: EventSources, rows: Int64s, literal_sizes: Int64s) -> int:
    """Compute the most bytes that `fill_events` can write; *literal_sizes*: bytes of all literals of each event."""
    gtid_max = 0
    for group in range(len(sources.group_files)):
        gtid_max = max(gtid_max, sources.gtid_offsets[group + 1] - sources.gtid_offsets[group])
    room: int = len(rows) * (len(sources.fields) * _FIELD_SIZE_MAX + 2 * (gtid_max + 2 + sources.file_offsets[-1]))
    for slot in range(len(rows)):
        room += literal_sizes[slot]
        query = sources.event_queries[rows[slot]]
        if query >= 0:
            room += escaped_size(sources.queries, sources.query_offsets[query], sources.query_offsets[query + 1])
    return room


@kernel
def put_position(out: Bytes, at: int, file_no: int, page: int, chunk: int) -> int:
    """Put the part of a total order that is the position, with its last dot; the place after it."""
    at = put_fixed(out, at, file_no, SEQUENCE_WIDTHS[0])
    out[at] = _DOT
    at = put_fixed(out, at + 1, page, SEQUENCE_WIDTHS[1])
    out[at] = _DOT
    at = put_fixed(out, at + 1, chunk, SEQUENCE_WIDTHS[2])
    out[at] = _DOT
    return at + 1


@kernel
def put_event_no(out: Bytes, at: int, number: int) -> int:
    """Put the part of a total order that is the event's number, with its dot; the place after it."""
    at = put_fixed(out, at, number, SEQUENCE_WIDTHS[3])
    out[at] = _DOT
    return at + 1


@kernel
def _put_time(out: Bytes, at: int, seconds: int, field: int) -> int:
    at = put_digits(out, at, np.uint64(seconds))
    for _ in range(3 * field if seconds != 0 else 0):
        out[at] = _ZERO
        at += 1
    return at


@kernel
def _put_iso_time(out: Bytes, at: int, seconds: int) -> int:
    out[at] = QUOTE
    at = put_date(out, at + 1, seconds // _DAY)
    rest = seconds % _DAY
    for mark, number in ((_T, rest // _HOUR), (_COLON, rest % _HOUR // _MINUTE), (_COLON, rest % _MINUTE)):
        out[at] = mark
        at = put_fixed(out, at + 1, number, 2)
    return put_bytes(out, at, _NO_MILLISECONDS, 0, _NO_MILLISECONDS.size)


@kernel
def _put_gtid(out: Bytes, at: int, sources: EventSources, group: int) -> int:
    out[at] = QUOTE
    at = put_bytes(out, at + 1, sources.gtids, sources.gtid_offsets[group], sources.gtid_offsets[group + 1])
    out[at] = QUOTE
    return at + 1


@kernel
def _put_file(out: Bytes, at: int, sources: EventSources, group: int) -> int:
    file = sources.group_files[group]
    return put_bytes(out, at, sources.files, sources.file_offsets[file], sources.file_offsets[file + 1])


@kernel
def _put_place(out: Bytes, at: int, sources: EventSources, group: int, position: int) -> int:
    # "file=mysql-bin.000001,pos=4": the name is JSON already, with quotes.
    file = sources.group_files[group]
    at = put_bytes(out, at, _FILE_IS, 0, _FILE_IS.size)
    at = put_bytes(out, at, sources.files, sources.file_offsets[file] + 1, sources.file_offsets[file + 1] - 1)
    at = put_bytes(out, at, _POSITION_IS, 0, _POSITION_IS.size)
    at = put_signed(out, at, position)
    out[at] = QUOTE
    return at + 1


@kernel
def _put_number(out: Bytes, at: int, number: int) -> int:
    return put_signed(out, at, number) if number >= 0 else put_null(out, at)


@kernel
def _put_number_text(out: Bytes, at: int, number: int) -> int:
    if number < 0:
        return put_null(out, at)
    out[at] = QUOTE
    at = put_signed(out, at + 1, number)
    out[at] = QUOTE
    return at + 1


@kernel
def _put_query(out: Bytes, at: int, sources: EventSources, query: int) -> int:
    if query < 0:
        return put_null(out, at)
    return put_escaped(out, at, sources.queries, sources.query_offsets[query], sources.query_offsets[query + 1])


@kernel
def fill_events(
    events: Table, groups: Table, sources: EventSources, rows: Int64s, templates: Int64s, out: Bytes, segments: Int64s
) -> int:
    """Fill in the fields of events.

    Args:
        rows: Which events, by their row.
        templates: Of each of *rows* its template.
        out: Room for what `room_for_events` asks for.
        segments: Gets where each segment begins, and the last one ends; for each field of messages one, and one more.

    Returns:
        The byte after the last segment.
    """
    event_groups, event_nos, seconds = events["group"], events["event_no"], events["timestamp"]
    file_nos, pages, chunks, positions = groups["file_no"], groups["page"], groups["chunk"], groups["file_offset"]
    has_gtid, fields, offsets = groups["has_gtid"], sources.fields, sources.literal_offsets
    at, cut = 0, 0
    known_group, known_start = -1, 0  # of the sequence written last
    for slot in range(len(rows)):
        event = rows[slot]
        group = event_groups[event]
        literal = templates[slot] * len(fields)
        segments[cut] = at
        cut += 1
        for field in fields:
            at = put_bytes(out, at, sources.literals, offsets[literal], offsets[literal + 1])
            literal += 1
            if field >= SEQUENCE_ROW:
                segments[cut] = at
                cut += 1
            elif field == SEQUENCE_START:
                if group == known_group:
                    at = put_bytes(out, at, out, known_start, known_start + _GROUP_SIZE)
                else:
                    known_group, known_start = group, at
                    at = put_position(out, at, sources.files_before + file_nos[group], pages[group], chunks[group])
                at = put_event_no(out, at, event_nos[event])
            elif field <= NANOSECONDS:
                at = _put_time(out, at, seconds[event], field) if field != NOTHING else at
            elif field == SERVER_ID:
                at = put_digits(out, at, np.uint64(events["server_id"][event]))
            elif field == POSITION:
                at = _put_number(out, at, positions[group])
            elif field == THREAD:
                at = _put_number(out, at, sources.threads[group])
            elif field == QUERY:
                at = _put_query(out, at, sources, sources.event_queries[event])
            elif field == FILE:
                at = _put_file(out, at, sources, group)
            elif field == ISO_TIME:
                at = _put_iso_time(out, at, seconds[event])
            elif field == POSITION_TEXT:
                at = _put_number_text(out, at, positions[group])
            elif field == THREAD_TEXT:
                at = _put_number_text(out, at, sources.threads[group])
            elif has_gtid[group]:
                at = _put_gtid(out, at, sources, group)
            elif field == GTID:
                at = put_null(out, at)
            else:
                at = _put_place(out, at, sources, group, positions[group])
    segments[cut] = at
    return at


@kernel
def _order_size(number: int) -> int:
    return digit_count(np.uint64(number))


class MessageFields(NamedTuple):
    """Fields that are filled in for each value.

    Attributes:
        events: Of each value its event.
        row_nos: Number of its row in the event.
        total_orders: Its number in the transaction.
        table_orders: Its number there among those of the same table.
        ops: `CREATE`, `UPDATE` or `DELETE`.
        op_data: What is written for them.
        op_offsets: Where each of these begins, and the last one ends.
    """

    texts: EventTexts
    events: Int64s
    row_nos: Int32s
    total_orders: Int64s
    table_orders: Int64s
    ops: Int64s
    op_data: Bytes
    op_offsets: Int64s


@kernel
def add_message_sizes(fields: MessageFields, around: int, sizes: Int64s) -> None:
    """Add to *sizes* the bytes that `write_messages` writes for each value; *around* are those of its *tail*."""
    texts, ops, op_offsets = fields.texts, fields.ops, fields.op_offsets
    count = len(texts.message_fields)
    for row in range(len(sizes)):
        first = texts.slots[fields.events[row]] * (count + 1)
        size = around + texts.segments[first + count + 1] - texts.segments[first]
        for k in range(count):
            field = texts.message_fields[k]
            if field == SEQUENCE_ROW:
                size += SEQUENCE_WIDTHS[4]
            elif field == ROW:
                size += _order_size(fields.row_nos[row])
            elif field == TOTAL_ORDER:
                size += _order_size(fields.total_orders[row])
            elif field == TABLE_ORDER:
                size += _order_size(fields.table_orders[row])
            else:
                size += op_offsets[ops[row] + 1] - op_offsets[ops[row]]
        sizes[row] += size


@kernel
def write_messages(fields: MessageFields, out: Bytes, cursors: Int64s, tail: Bytes) -> None:
    """Write a template's part of each value, and *tail*, at *cursors*, which move on."""
    texts, ops, op_offsets = fields.texts, fields.ops, fields.op_offsets
    count = len(texts.message_fields)
    for row in range(len(cursors)):
        segment = texts.slots[fields.events[row]] * (count + 1)
        at = put_bytes(out, cursors[row], texts.data, texts.segments[segment], texts.segments[segment + 1])
        for k in range(count):
            field = texts.message_fields[k]
            if field == SEQUENCE_ROW:
                at = put_fixed(out, at, fields.row_nos[row], SEQUENCE_WIDTHS[4])
            elif field == ROW:
                at = put_digits(out, at, np.uint64(fields.row_nos[row]))
            elif field == TOTAL_ORDER:
                at = put_digits(out, at, np.uint64(fields.total_orders[row]))
            elif field == TABLE_ORDER:
                at = put_digits(out, at, np.uint64(fields.table_orders[row]))
            else:
                at = put_bytes(out, at, fields.op_data, op_offsets[ops[row]], op_offsets[ops[row] + 1])
            segment += 1
            at = put_bytes(out, at, texts.data, texts.segments[segment], texts.segments[segment + 1])
        cursors[row] = put_bytes(out, at, tail, 0, tail.size)
