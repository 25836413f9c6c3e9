"""Another reader of structured logs, as plain as it can be: entries, and the values of arguments."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.structured.metadata import ClockSync, EventSource, WriterProp, read_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

NUMBERS = dict(zip("bsilBSILfd", "bhiqBHIQfd", strict=True))
PAIRS = {"(": ")", "<": ">", "{": "}", "/": "\\"}


@dataclass(frozen=True)
class Event:
    source: EventSource
    writer: WriterProp
    clock_sync: ClockSync
    clock: int
    arguments: bytes

    @property
    def args(self) -> list[object]:
        return read_values(self.source.argument_tags.decode(), self.arguments)


def payloads(data: bytes) -> Iterator[bytes]:
    """Of whole entries; what is incomplete at the end is an error."""
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        at += 4
        assert at + size <= len(data), "incomplete entry"
        yield data[at : at + size]
        at += size


def whole_entries(data: bytes) -> bytes:
    """Without an incomplete entry at the end."""
    at = 0
    while len(data) - at >= 4:
        (size,) = struct.unpack_from("<I", data, at)
        if at + 4 + size > len(data):
            break
        at += 4 + size
    return data[:at]


def entries(data: bytes) -> Iterator[EventSource | WriterProp | ClockSync | Event]:
    sources: dict[int, EventSource] = {}
    writer, clock_sync = WriterProp(), ClockSync()
    for payload in payloads(data):
        (tag,) = struct.unpack_from("<Q", payload)
        if tag < 1 << 63:
            (clock,) = struct.unpack_from("<Q", payload, 8)
            yield Event(sources[tag], writer, clock_sync, clock, payload[16:])
            continue
        one = read_metadata(payload)
        assert one is not None
        yield one
        if isinstance(one, EventSource):
            sources[one.id] = one
        elif isinstance(one, WriterProp):
            writer = one
        else:
            clock_sync = one


def events(data: bytes) -> list[Event]:
    return [one for one in entries(data) if isinstance(one, Event)]


def check_batch_sizes(data: bytes) -> None:
    """After each WriterProp follow as many bytes of events as it states, and then other metadata, or the end."""
    following = 0
    for payload in payloads(data):
        (tag,) = struct.unpack_from("<Q", payload)
        if tag < 1 << 63:
            following -= 4 + len(payload)
            assert following >= 0
            continue
        assert following == 0
        one = read_metadata(payload)
        if isinstance(one, WriterProp):
            following = one.batch_size
            assert following > 0
    assert following == 0


def read_values(tags: str, data: bytes) -> list[object]:
    values = []
    reader = _Values(data)
    while tags:
        tag, tags = cut(tags)
        values.append(reader.read(tag))
    assert reader.at == len(data)
    return values


def cut(tags: str) -> tuple[str, str]:
    """The first tag, and the others."""
    at = 0
    while tags[at] == "[":
        at += 1
    opening = tags[at]
    if opening not in PAIRS:
        return tags[: at + 1], tags[at + 1 :]
    depth = 0
    for end in range(at, len(tags)):
        depth += (tags[end] == opening) - (tags[end] == PAIRS[opening])
        if depth == 0:
            return tags[: end + 1], tags[end + 1 :]
    raise AssertionError(tags)


class _Values:
    """Values as Python has them: structs are dicts, variants their value, enums (value, label)."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def read(self, tag: str) -> object:
        kind = tag[0]
        if kind in NUMBERS:
            return self._number(NUMBERS[kind])
        if kind == "y":
            return {0: False, 1: True}[self._number("B")]
        if kind == "c":
            return bytes([self._number("B")])
        if kind == "0":
            return None
        if kind == "[":
            count = self._number("I")
            if tag == "[c":
                self.at += count
                return self._data[self.at - count : self.at]
            return [self.read(tag[1:]) for _ in range(count)]
        inside = tag[1:-1]
        if kind == "(":
            return tuple(self.read(one) for one in _all(inside))
        if kind == "<":
            return self.read(_all(inside)[self._number("B")])
        if kind == "/":
            return self._enum(inside)
        return self._struct(inside)

    def _number(self, code: str) -> int:
        one = struct.Struct("<" + code)
        self.at += one.size
        number: int = one.unpack_from(self._data, self.at - one.size)[0]
        return number

    def _enum(self, inside: str) -> tuple[int, str]:
        value = self._number(NUMBERS[inside[0]])
        _, *labels = inside.split("'")
        known = dict(reversed([label.split("`") for label in labels[:-1]]))
        return value, known.get(f"{value:X}", "")

    def _struct(self, inside: str) -> dict[str, object]:
        fields = {}
        rest = inside.partition("`")[2]
        while rest:
            label, _, rest = rest.partition("'")
            tag, rest = cut(rest)
            fields[label] = self.read(tag)
            rest = rest.removeprefix("`")
        return fields


def _all(tags: str) -> list[str]:
    found = []
    while tags:
        tag, tags = cut(tags)
        found.append(tag)
    return found
