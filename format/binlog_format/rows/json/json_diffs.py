"""Changes to MySQL's JSON documents, as PARTIAL_UPDATE_ROWS events have them: `changed_document`, `changes_in`.

JSON values that the log has as changes only (`binlog_row_value_options=PARTIAL_JSON`): `with_whole_values`.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_format.errors import UnsupportedError
from binlog_format.events.table_map_layout import VARINT_1_BYTE_MAX, VARINT_SIZES
from binlog_format.kernels import empty_bytes
from binlog_format.messages import row_value
from binlog_format.rows.column_types import size_prefix
from binlog_format.rows.json.json_document import BadJsonError, JsonNode, key_order, parse_document
from binlog_format.rows.json.json_layout import JSON_DEPTH_MAX, JsonOperation
from binlog_format.rows.row_event_kernels import ABSENT, CHANGES_ONLY, NULL, value_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.kernels import Bytes, Int64s
    from binlog_format.rows.images import Images

Leg = str | int
"""A step of a path: a key, or a number; one from the end is below 0."""

# One step of a path: a key, in quotes where it is no identifier, or a number, from the end after the word `last`.
_LEG = re.compile(
    r"\s*(?:\.\s*(?:\"(?P<quoted>(?:[^\"\\]|\\.)*)\"|(?P<key>[^\s.\[\]\"*]+))"
    r"|\[\s*(?:(?P<number>\d{1,10})|(?P<last>last)(?:\s*-\s*(?P<back>\d{1,10}))?)\s*\])",
    re.DOTALL,
)


def changed_document(document: bytes, changes: bytes) -> bytes:
    """The document after changes, as the server applies them.

    Args:
        document: Binary JSON, as a column has it; may be empty.
        changes: Operations, paths and values, one after the other (`json_layout`).

    Raises:
        BadJsonError: One of them is damaged, or they do not fit together.
    """
    root = parse_document(document)
    for operation, path, value in changes_in(changes):
        legs = parse_path(path)
        if not legs:
            raise BadJsonError("a change to a part has the path of the whole document")
        parent = root
        for leg in legs[:-1]:
            index = _found(parent, leg)
            parent = parent.members()[index]
        _apply(parent, legs[-1], operation, value)
    kind, content = root.encoded()
    return bytes([kind]) + content


def parse_path(path: str) -> list[Leg]:
    """The steps of a path: keys, and numbers; those from the end below 0, as in Python.

    Raises:
        BadJsonError: It is no path, or one to more than one value.
    """
    if not path.startswith("$"):
        raise BadJsonError(f"the path {row_value(repr(path[:80]))} does not begin with $")
    legs: list[Leg] = []
    place = 1
    while place < len(path.rstrip()):
        match = _LEG.match(path, place)
        if match is None or len(legs) == JSON_DEPTH_MAX:
            raise BadJsonError(f"the path {row_value(repr(path[:80]))} has no step at character {place}")
        place = match.end()
        legs.append(_leg(match))
    return legs


def _leg(match: re.Match[str]) -> Leg:
    if match["number"] is not None:
        return int(match["number"])
    if match["last"] is not None:
        return -1 - int(match["back"] or 0)
    if match["key"] is not None:
        return match["key"]
    try:
        key: str = json.loads(f'"{match["quoted"]}"', strict=False)
        key.encode()
    except ValueError as error:
        raise BadJsonError(f"the key {row_value(repr(match['quoted'][:80]))} in a path is no text") from error
    return key


def _apply(parent: JsonNode, leg: Leg, operation: JsonOperation, value: JsonNode | None) -> None:
    if operation is JsonOperation.REMOVE:
        index = _found(parent, leg)
        del parent.members()[index]
        if parent.is_object:
            del parent.keys[index]
        return
    assert value is not None
    if operation is JsonOperation.REPLACE:
        index = _found(parent, leg)
        parent.members()[index] = value
        return
    members = parent.members() if parent.is_object or parent.is_array else []
    if parent.is_object and isinstance(leg, str):
        key = leg.encode()
        index = bisect_left(parent.keys, key_order(key), key=key_order)
        if index < len(parent.keys) and parent.keys[index] == key:
            raise BadJsonError(f"the key {row_value(repr(leg))}, to be inserted, is there already")
        parent.keys.insert(index, key)
    elif parent.is_array and isinstance(leg, int):
        index = max(0, len(members) + leg) if leg < 0 else leg  # after the end: at the end
    else:
        raise BadJsonError(f"there is no place for {row_value(repr(leg))}")
    members.insert(index, value)


def _found(parent: JsonNode, leg: Leg) -> int:
    # Where a step of a path leads.
    if parent.is_object and isinstance(leg, str):
        parent.members()
        key = leg.encode()
        # Not by bisection: nothing promises that the keys are sorted.
        if key in parent.keys:
            return parent.keys.index(key)
    elif parent.is_array and isinstance(leg, int):
        count = len(parent.members())
        if -count <= leg < count:
            return leg % count
    raise BadJsonError(f"there is no {row_value(repr(leg))} where a path leads")


def changes_in(changes: bytes) -> Iterator[tuple[JsonOperation, str, JsonNode | None]]:
    """Operation, path and new value (None for a REMOVE) of each change, one after the other.

    Raises:
        BadJsonError: One of them is damaged.
    """
    place = 0
    while place < len(changes):
        try:
            operation = JsonOperation(changes[place])
        except ValueError as error:
            raise BadJsonError(f"no change has the number {changes[place]}") from error
        encoded, place = _sized(changes, place + 1)
        value = None
        if operation is not JsonOperation.REMOVE:
            document, place = _sized(changes, place)
            if not document:
                raise BadJsonError("a change has no value")
            value = parse_document(document)
        try:
            path = encoded.decode()
        except UnicodeDecodeError as error:
            raise BadJsonError(f"the path {row_value(repr(encoded[:80]))} is no text") from error
        yield operation, path, value


def _sized(content: bytes, place: int) -> tuple[bytes, int]:
    # What follows its size, and the byte after that.
    first = content[place] if place < len(content) else None
    size_bytes = VARINT_SIZES.get(first, 0) if first is not None else 0
    start = place + 1 + size_bytes
    if first is None or start > len(content) or (first > VARINT_1_BYTE_MAX and not size_bytes):
        raise BadJsonError("a change has no end")
    size = int.from_bytes(content[place + 1 : start], "little") if size_bytes else first
    if size > len(content) - start:
        raise BadJsonError(f"a change of {size} bytes has {len(content) - start}")
    return content[start : start + size], start + size


_DATA_SIZE_MAX = (1 << 31) - 1  # as in `images`


class PartialValueError(Exception):
    """Changes that cannot be applied. *image*: row of the images. *column*: index."""

    def __init__(self, image: int, column: int, reason: str) -> None:
        super().__init__(image, column, reason)
        self.image = image
        self.column = column
        self.reason = reason


def with_whole_values(images: Images, partial: Int64s) -> Images:
    """*images* with every value whole: changes applied to the value in the image before.

    Whole values that the log does not have are put after a copy of the data. Where the image before lacks the column
    (`binlog_row_image` MINIMAL, or NOBLOB), the log does not tell what the value is: `CHANGES_ONLY`, less the place of
    the changes.

    Args:
        images: Their cells are changed.
        partial: Shape (count, 2): image and column of each value that is a list of changes.

    Raises:
        PartialValueError: Damaged changes, or changes to NULL.
    """
    cells, data = images.cells, images.data
    made: list[bytes] = []
    end = len(data)
    for image, column in partial.tolist():
        slot = int(images.slots[column])
        prefix = size_prefix(images.layout.columns[column])
        before = int(cells[slot, image - 1])
        changes = value_at(data, int(cells[slot, image]), prefix)
        if before != NULL and not changes:
            cells[slot, image] = before
            continue
        if before == ABSENT:
            cells[slot, image] = CHANGES_ONLY - int(cells[slot, image])
            continue
        if before == NULL:
            raise PartialValueError(image, column, "changes to a value that was NULL")
        try:
            document = changed_document(value_at(data, before, prefix), changes)
        except BadJsonError as error:
            raise PartialValueError(image, column, error.reason) from error
        if len(document) >= 1 << 8 * prefix:
            raise PartialValueError(image, column, f"changes make a value of {len(document)} bytes")
        made.append(len(document).to_bytes(prefix, "little") + document)
        cells[slot, image] = end
        end += len(made[-1])
        if end > _DATA_SIZE_MAX:
            raise UnsupportedError("ROW_IMAGE", f"{end} bytes of events and changed values at once")
    if not made:
        return images
    whole = empty_bytes(end)
    whole[: len(data)] = data
    whole[len(data) :] = memoryview(b"".join(made))
    return replace(images, data=whole)


def value_at(data: Bytes, place: int, prefix: int) -> bytes:
    """The value, or the list of changes, whose size of *prefix* bytes starts at *place*."""
    start = place + prefix
    return data[start : start + value_size(data, place, prefix)].tobytes()
