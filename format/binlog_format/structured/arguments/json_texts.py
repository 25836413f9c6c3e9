"""Arguments of events as JSON: `arguments_json`.

Numbers are numbers, texts strings, sequences and tuples arrays, structs objects by label, enums their labels, null
options null, variants their value. What is not UTF-8 becomes U+FFFD, and what is not a finite number its name.

Errors of arguments that cannot be read: `argument_error`.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.errors import BinlogError, CorruptError, UnsupportedError
from binlog_format.kernels import as_bytes, empty_bytes
from binlog_format.rows.arrow_arrays import text_array
from binlog_format.rows.column_types import TEXT_SIZE_MAX
from binlog_format.rows.json.json_rows import text_buffers
from binlog_format.structured.arguments.arrow_columns import float_texts_of
from binlog_format.structured.arguments.json_kernels import insert_floats, write_arguments
from binlog_format.structured.arguments.json_value_kernels import STACK_SHAPE, JsonTypes
from binlog_format.structured.arguments.layout import (
    FAILURE_DTYPE,
    FLOAT_SIZE_MIN,
    JSON_NAME_DTYPE,
    OMITTED_FLOAT_DTYPE,
)
from binlog_format.structured.arguments.value_kernels import BAD_VALUE, GROW, OK, OUTSIDE, SHORT, TOO_DEEP
from binlog_format.structured.layout import NESTING_MAX
from binlog_format.structured.type_layout import TYPE_MEMBER_DTYPE, SpecialStruct, TypeKind
from binlog_format.structured.type_table import type_table
from binlog_format.structured.type_tags import field_names, parse_tags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int64s
    from binlog_format.structured.event_log import LogBlock
    from binlog_format.structured.metadata import EventSource

_HINT = (
    "The event is damaged, or not of this source: a program that logs one statement through two sessions writes such "
    "events. Skip damaged events to go on"
)


def new_failure() -> Table:
    """Room in which kernels note a failure."""
    return np.zeros(1, dtype=FAILURE_DTYPE)


def argument_error(block: LogBlock, code: int, failure: Table, kind: int) -> BinlogError:
    """The error for the arguments of an event. *kind*: `TypeKind` of the node in *failure*."""
    noted = failure[0]
    event = block.events[noted["row"]]
    assert code != OUTSIDE, f"{block} has an event {event} that is not in it"
    source = block.sources[event["source"]]
    reasons = {
        SHORT: f"it needs {noted['needed']} bytes, {noted['left']} are left",
        TOO_DEEP: f"it is nested in {NESTING_MAX} values",
        BAD_VALUE: "its enum has no type" if kind == TypeKind.BAD_ENUM else "its type tag is none of this format",
    }
    reason = f"argument {noted['argument'] + 1} of {describe(source)}: {reasons[code]}"
    return CorruptError("BAD_ENTRY", reason, at=block.place(int(noted["place"])), hint=_HINT)


def describe(source: EventSource) -> str:
    """A source for messages."""
    texts = [text.decode("utf-8", "backslashreplace") for text in (source.file, source.format, source.argument_tags)]
    return f'source {source.id} ({texts[0]}:{source.line}, "{texts[1]}", argument tags {texts[2]})'


def check_size(size: int) -> None:
    """Raise where arguments are more than Arrow columns can hold at once."""
    if size > TEXT_SIZE_MAX:
        raise UnsupportedError(
            "EVENT_TYPE", f"arguments of more than {TEXT_SIZE_MAX} bytes at once", hint="Read fewer events at once"
        )


_CACHED_SOURCES = 4096
_CACHED_TABLES = 16
_GROWTH = 2
_ROOM_PER_BYTE = 3
_ROOM_PER_EVENT = 64


def arguments_json(block: LogBlock, rows: Int64s) -> pa.StringArray:
    """All arguments of each event as a JSON array. *rows*: which of `block.events`."""
    check_size(len(block.data))
    types = json_types(tuple(source.argument_tags for source in block.sources))
    size = int((block.events["size"][rows]).sum())
    out = empty_bytes(_ROOM_PER_BYTE * size + _ROOM_PER_EVENT * len(rows))
    offsets = np.zeros(len(rows) + 1, dtype=np.int64)
    floats = np.empty(size // FLOAT_SIZE_MIN, dtype=OMITTED_FLOAT_DTYPE)
    stack = np.empty(STACK_SHAPE, dtype=np.int64)
    failure = new_failure()
    done = float_count = 0
    while True:
        code, done, float_count = write_arguments(
            types, block.data, block.events, rows, done, out, offsets, floats, float_count, stack, failure
        )
        if code != GROW:
            break
        check_size(int(offsets[done]))
        out = grown(out, int(offsets[done]))
    if code != OK:
        raise argument_error(block, code, failure, types.nodes["kind"][failure["node"][0]])
    return finished_texts(block.data, out, offsets, floats[:float_count])


def grown(out: Bytes, used: int) -> Bytes:
    """A larger buffer with the first *used* bytes of this one."""
    larger = empty_bytes(_GROWTH * len(out) + _ROOM_PER_EVENT)
    larger[:used] = out[:used]
    return larger


def finished_texts(data: Bytes, out: Bytes, offsets: Int64s, floats: Table) -> pa.StringArray:
    """Complete the texts that kernels have written, with their floats.

    Args:
        offsets: Where each text starts, and the end of the last.
    """
    if len(floats):
        texts, text_offsets = text_buffers(float_texts_of(data, floats), pa.string())
        finished = empty_bytes(int(offsets[-1]) + int(text_offsets[-1]))
        insert_floats(out, floats, texts, text_offsets, offsets, finished)
        out = finished
    check_size(int(offsets[-1]))
    return text_array(pa.string(), offsets.astype(np.int32), out[: offsets[-1]], None)


@functools.lru_cache(maxsize=_CACHED_TABLES)
def json_types(argument_tags: tuple[bytes, ...]) -> JsonTypes:
    """The types of sources with their names, in their order."""
    table = type_table(argument_tags)
    names = [_source_names(tags) for tags in argument_tags]
    members = np.zeros(len(table.members) + len(table.arguments), dtype=TYPE_MEMBER_DTYPE)
    members["node"] = np.concatenate([table.members["node"], table.arguments["node"]])
    keys, key_rows = _joined([key for keys, _ in names for key in keys] + [b""] * len(table.arguments), 0)
    labels, label_rows = _joined([label for _, labels in names for label in labels], len(keys))
    return JsonTypes(
        table.nodes,
        members,
        table.enumerators,
        table.first_argument + len(table.members),
        key_rows,
        label_rows,
        as_bytes(keys + labels),
    )


def _joined(texts: Sequence[bytes], start: int) -> tuple[bytes, Table]:
    rows = np.empty(len(texts), dtype=JSON_NAME_DTYPE)
    sizes = np.array([len(text) for text in texts], dtype=np.int64)
    rows["start"], rows["size"] = start + np.cumsum(sizes) - sizes, sizes
    return b"".join(texts), rows


@functools.lru_cache(maxsize=_CACHED_SOURCES)
def _source_names(tags: bytes) -> tuple[list[bytes], list[bytes]]:
    # Of each member its key, of each enumerator its label, in the order of the tables.
    types = parse_tags(tags)
    table = type_table((tags,))
    keys = []
    for node in types.nodes:
        if node.kind is TypeKind.STRUCT and node.special is SpecialStruct.NONE:
            keys += [_json(name) + b":" for name in field_names(types, node)]
        else:
            keys += [b""] * len(node.members)
    pool = table.pool.tobytes()
    texts = [pool[start : start + size] for _, start, size in table.enumerators.tolist()]
    return keys, [_json(text.decode("utf-8", "replace")) if text else b"" for text in texts]


def _json(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode()
