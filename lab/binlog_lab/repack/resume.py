"""Continuation of a repack that was stopped or killed: `read_tail`.

There is no file of offsets beside the target: whatever was written in it, it could be ahead of the log or behind it
after a crash. The target itself records what it holds. What a source contains is a sequence of *items*, each of which
becomes one thing in the target, in the same order:

    event group                  commit record with that GTID event
    XA PREPARE                   XA prepare record with that name
    XA COMMIT                    XA complete record and commit record with that GTID event
    XA ROLLBACK                  XA complete record with that name
    start of a server            commit record with that Format_description event

The target is always a prefix of this sequence: a killed writer leaves a part of one more item at most, and opening the
log takes that away. So the items from the last one with a GTID on are read from the end of the target, the source is
read from that GTID on, and each item is compared with what the target has until that is used up. Out-of-band data of
an item that was not finished stays as garbage, as after a crash of a server.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from binlog_format.errors import StartError
from binlog_format.events.gtid_events import XaName
from binlog_format.events.layout import EVENT_HEADER_STRUCT, EventType
from binlog_format.innodb.header import file_number, read_header
from binlog_format.innodb.layout import (
    HEADER_SIZE,
    XA_COMPLETE_COMMIT,
    XA_HEADER_STRUCT,
    RecordKind,
)
from binlog_format.position import Place
from binlog_lab.event_encoding.gtid_events import parse_gtid_event
from binlog_lab.innodb_writer.encoding import decode_compressed_int
from binlog_lab.innodb_writer.record_scan import RecordScan

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.innodb_writer.record_scan import Record

_OOB_INTS = 4
"""File and offset of the first and of the last record of a set."""


class ItemKind(StrEnum):
    """Kind of an item."""

    GROUP = "event group"
    PREPARE = "XA PREPARE"
    ROLLBACK = "XA ROLLBACK"
    START = "start of a server"


@dataclass(frozen=True, slots=True)
class Item:
    """One thing of a log, as far as it has to be told from others.

    Attributes:
        event: GTID event or Format_description event, as the target has it; empty for the others.
        name: Of the XA transaction; None for the others.
    """

    kind: ItemKind
    event: bytes = b""
    name: XaName | None = None


def read_tail(directory: Path, page_size: int) -> list[Item]:
    """The items at the end of the log in *directory*, from the last one with a GTID on; all, if there is none.

    Args:
        directory: A log that a writer has opened, so that it ends with a whole record.
        page_size: In bytes.
    """
    numbers = _begun_files(directory)
    tail: list[Item] = []
    for first in reversed(numbers):
        # The walk begins with the first record that starts in the file, and goes on over its end.
        tail = _tail_of(_items(RecordScan(directory, first, numbers[-1], page_size)))
        if tail and tail[0].kind is ItemKind.GROUP:
            break
    return tail


def mismatch(target: Path, expected: Item, found: Item) -> StartError:
    """The error for a target that is not what the source gives."""
    return StartError(
        "CONFLICTING_OPTIONS",
        f"the log there goes on with {_describe(expected)}, the source with {_describe(found)}",
        at=Place(str(target)),
        hint="It was made from another source; name an empty directory",
    )


def _begun_files(directory: Path) -> list[int]:
    begun = []
    for path in directory.iterdir():
        number = file_number(path.name)
        if number is None:
            continue
        with path.open("rb") as file:
            head = file.read(HEADER_SIZE)
        if len(head) == HEADER_SIZE and read_header(head, str(path), number) is not None:
            begun.append(number)
    return sorted(begun)


def _tail_of(items: list[Item]) -> list[Item]:
    groups = [i for i, item in enumerate(items) if item.kind is ItemKind.GROUP]
    return items[groups[-1] :] if groups else items


def _items(scan: RecordScan) -> list[Item]:
    items: list[Item] = []
    for record in scan.records():
        item = _item(record)
        if item is None:
            continue
        if item.kind is ItemKind.GROUP:
            items.clear()  # only the last one and what follows it count; memory stays small
        items.append(item)
    return items


def _item(record: Record) -> Item | None:
    if record.kind == RecordKind.XA_PREPARE:
        return Item(ItemKind.PREPARE, name=_xa_name(record.data))
    if record.kind == RecordKind.XA_COMPLETE:
        # That of a commit belongs to the commit record after it.
        return None if record.data[0] == XA_COMPLETE_COMMIT else Item(ItemKind.ROLLBACK, name=_xa_name(record.data))
    if record.kind != RecordKind.COMMIT:
        return None
    start = _commit_header_size(record.data)
    _, event_type, _, size, _, _ = EVENT_HEADER_STRUCT.unpack_from(record.data, start)
    kind = ItemKind.GROUP if event_type == EventType.MARIADB_GTID else ItemKind.START
    return Item(kind, event=record.data[start : start + size])


def _commit_header_size(data: bytes) -> int:
    """Bytes of the integers at the start of a commit record: 1, 6 or 10 of them."""
    count, at = decode_compressed_int(data)
    if count > 0:
        at = _skip_ints(data, at, _OOB_INTS)
        second_count, at = decode_compressed_int(data, at)
        if second_count > 0:
            at = _skip_ints(data, at, _OOB_INTS)
    return at


def _skip_ints(data: bytes, at: int, count: int) -> int:
    for _ in range(count):
        _, at = decode_compressed_int(data, at)
    return at


def _xa_name(data: bytes) -> XaName:
    _, format_id, gtrid_size, bqual_size = XA_HEADER_STRUCT.unpack_from(data)
    start = XA_HEADER_STRUCT.size
    return XaName(
        format_id, data[start : start + gtrid_size], data[start + gtrid_size : start + gtrid_size + bqual_size]
    )


def _describe(item: Item) -> str:
    if item.name is not None:
        return f"{item.kind} {item.name}"
    if item.kind is ItemKind.GROUP:
        return f"{item.kind} {parse_gtid_event(item.event).gtid}"
    return f"a {item.kind}"
