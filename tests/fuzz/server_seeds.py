"""Events of real servers to begin with: whole groups, and row events after their table maps."""

from __future__ import annotations

import functools
from typing import NamedTuple

from binlog_format.events.layout import EventType
from binlog_format.vendor import Vendor
from tests.corpus import SERVER_CASES
from tests.format.classic.logs import DECODED_CASES, MYSQL_CASES, raw_events
from tests.format.rows.plain_blocks import plain_events

BLOCK_SIZES = (2 << 20, 300, 2000)
"""Bytes that a log is read at a time: with small ones groups come in pieces."""

_GTID_TYPES = (EventType.MARIADB_GTID, EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED)
_ROW_TYPES = (*range(20, 26), *range(30, 33), EventType.PARTIAL_UPDATE_ROWS)
_EVENT_SIZE_MAX = 1500
_GROUP_SIZE_MAX = 4000
_GROUPS_OF_FILE = 4
_PARTS_OF_CASE = 12
_CASES = tuple(case for case in (*DECODED_CASES, *MYSQL_CASES) if "torn" not in case and "hugeblob" not in case)


class RowEvent(NamedTuple):
    """A row event of a real server, header and body, without checksum."""

    vendor: Vendor
    table_map: bytes
    event: bytes


def _vendor(case: str) -> Vendor:
    return Vendor.MYSQL if case.startswith("mysql") else Vendor.MARIADB


@functools.cache
def row_events() -> tuple[RowEvent, ...]:
    """Row events that are not long: of each table layout of each case and each type of event the first ones."""
    found: list[RowEvent] = []
    counts: dict[tuple[Vendor, bytes, int], int] = {}
    for case in _CASES:
        tables: dict[bytes, bytes] = {}
        for data in plain_events(SERVER_CASES / case / "mysql-bin.000001"):
            if data[4] == EventType.TABLE_MAP:
                tables[data[19:25]] = data
            if data[4] not in _ROW_TYPES or len(data) > _EVENT_SIZE_MAX or data[19:25] not in tables:
                continue
            key = (_vendor(case), tables[data[19:25]][27:], data[4])
            counts[key] = counts.get(key, 0) + 1
            if counts[key] <= (30 if data[4] == EventType.PARTIAL_UPDATE_ROWS else 2):
                found.append(RowEvent(_vendor(case), tables[data[19:25]], data))
    return tuple(found)


@functools.cache
def _classic_parts() -> tuple[tuple[list[bytes], list[bytes]], ...]:
    found = []
    for case in _CASES:
        if "nochecksum" in case:
            continue
        events = raw_events((SERVER_CASES / case / "mysql-bin.000001").read_bytes())
        starts = [row for row, event in enumerate(events) if event[4] in _GTID_TYPES]
        groups = [events[a:b] for a, b in zip(starts, [*starts[1:], len(events)], strict=True)]
        groups = [group for group in groups if sum(map(len, group)) <= _GROUP_SIZE_MAX]
        step = max(len(groups) // _PARTS_OF_CASE, _GROUPS_OF_FILE)
        for first in range(0, len(groups), step):
            chosen = [event for group in groups[first : first + _GROUPS_OF_FILE] for event in group]
            found.append((events[: starts[0]], chosen))
    return tuple(found)


def classic_parts(number: int) -> tuple[list[bytes], list[bytes]]:
    """The events of a small classic file, checksums included: its head, and some groups of a real one."""
    parts = _classic_parts()
    return parts[number % len(parts)]


def plain_parts(number: int) -> tuple[Vendor, list[list[bytes]]]:
    """The vendor and the groups of such a file, without checksums."""
    head, events = classic_parts(number)
    groups: list[list[bytes]] = []
    for event in events:
        if event[4] in _GTID_TYPES:
            groups.append([])
        groups[-1].append(event[:9] + (len(event) - 4).to_bytes(4, "little") + event[13:-4])
    return Vendor.MYSQL if any(event[4] == EventType.PREVIOUS_GTIDS for event in head) else Vendor.MARIADB, groups


@functools.cache
def statements() -> tuple[bytes, ...]:
    """Query events of all kinds."""
    found: dict[bytes, bytes] = {}
    for case in _CASES:
        for data in plain_events(SERVER_CASES / case / "mysql-bin.000001"):
            if data[4] == EventType.QUERY and len(data) <= _EVENT_SIZE_MAX:
                found.setdefault(data[19:], data)
    return tuple(found.values())
