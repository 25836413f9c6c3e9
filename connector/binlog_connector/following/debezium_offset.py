"""Place at which a connector of Debezium was stopped: `stored_offset` reads it, `start_after` finds it in the log.

A connector stores its offset with a message, so it is mostly within a transaction: `gtids` and the place (`file`,
`pos`) are those before it, `event` counts the events that were processed in it, `row` the rows of the next one. A
connector that is started again skips these. So does a job: its first group may be taken in part.

What was read in Debezium 3.5's `BinlogOffsetContext` and `BinlogStreamingChangeEventSource`, and counts here:

* Events are counted from the transaction's first one on: MariaDB's GTID event, MySQL's BEGIN. MariaDB sends annotations
  only to connectors with `include.query`.
* A message about a row has its number as `row`, counted from 1. Any other message (a heartbeat, an end, a statement)
  has none, and comes after the event was processed, before it is counted.
* The offset at the end of a transaction differs from that of the next one's begin in `transaction_id` alone.
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from binlog_connector.following.log_end import offset_at
from binlog_connector.following.offsets import SourceOffset, TakenChanges
from binlog_connector.following.starts import initial_offset
from binlog_format.errors import OptionError, StartError
from binlog_format.events.layout import EventType
from binlog_format.gtids.gtid_history import gtid_of
from binlog_format.gtids.gtid_set import NO_GTIDS, parse_gtids
from binlog_format.log.log import ServerPosition, check_end, resolve_position, shown_position
from binlog_format.position import Place
from binlog_format.vendor import Vendor
from binlog_format.views.events import DELETE_TYPES, UPDATE_TYPES, WRITE_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from binlog_connector.following.watched import WatchedLog
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_format.kernels import Bytes, Int64s, Mask
    from binlog_format.log.log import Log
    from binlog_format.position import Position

DEBEZIUM_OFFSET = "debeziumOffset"
"""The setting with such an offset."""
_ROW_EVENTS = [int(kind) for kind in WRITE_TYPES | UPDATE_TYPES | DELETE_TYPES]
_STOP_FIRST = "Stop the connector (PUT /connectors/NAME/stop), and take the offset that it has then"


@dataclass(frozen=True, slots=True)
class DebeziumOffset:
    """An offset of a connector for MariaDB or MySQL.

    Attributes:
        place: In the log of its server; None: it has none.
        gtids: Before the transaction; empty: the server has none.
        event: Events that were processed in it.
        row: Rows of the next event that were.
        transaction: Of which the connector has published the begin; None: of none, or it publishes no transactions.
    """

    place: ServerPosition | None
    gtids: GtidPoint
    event: int
    row: int
    transaction: str | None

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> DebeziumOffset:
        """Read the fields that a connector stores.

        Raises:
            ValueError: They are something else, or the connector is in the middle of a snapshot.
        """
        if fields.get("snapshot") and not fields.get("snapshot_completed"):
            raise ValueError("the connector has not finished its first snapshot: let it, or begin with a new job")
        if fields.get("incremental_snapshot_collections"):
            raise ValueError("the connector is taking an incremental snapshot: let it finish, or stop it by a signal")
        file, byte = fields.get("file"), _count(fields, "pos")
        gtids = fields.get("gtids") or ""
        if not isinstance(gtids, str) or not isinstance(file or "", str):
            raise ValueError("file and gtids: expected text")
        if not file and not gtids:
            raise ValueError("expected file and pos, or gtids, of a connector for MariaDB or MySQL")
        transaction = fields.get("transaction_id")
        return cls(
            place=ServerPosition(file, byte) if file else None,
            gtids=parse_gtids(re.sub(r"\s", "", gtids)) if gtids else NO_GTIDS,
            event=_count(fields, "event"),
            row=_count(fields, "row"),
            transaction=None if transaction is None else str(transaction),
        )


def _count(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name}: expected a number, got {value!r}")
    return value


def start_after(watched: WatchedLog, given: DebeziumOffset, *, counts_annotations: bool) -> SourceOffset:
    """The offset at which a job begins that follows a connector.

    Args:
        counts_annotations: The connector had `include.query`.
    """
    by_gtids = initial_offset(watched, given.gtids) if given.gtids else None
    at_place = _at_place(watched, given)
    if at_place is None and by_gtids is None:
        raise _not_there(watched.log, given, "no file of that name is there, and the offset has no gtids")
    if at_place is not None and by_gtids is not None:
        _check_same(watched.log, given, at_place.position, by_gtids)
    start = at_place or by_gtids
    assert start is not None, "one of them is there"
    if by_gtids is not None and by_gtids.position == start.position:
        start = by_gtids
    taken = _taken(watched.log, start, given, counts_annotations=counts_annotations)
    if taken is not None and start.skip_gtid:
        raise _not_there(watched.log, given, f"transactions up to {start.skip_gtid} follow in another order there")
    return replace(start, taken=taken)


def _at_place(watched: WatchedLog, given: DebeziumOffset) -> SourceOffset | None:
    """The offset of the group that a place is in, or that follows on it; None: the log does not have its file."""
    log = watched.log
    if given.place is None or log.position_at_byte(given.place.name, given.place.byte) is None:
        return None
    position = resolve_position(log, DEBEZIUM_OFFSET, given.place)
    if not watched.has(position.file_no):
        return None
    check_end(log, DEBEZIUM_OFFSET, position)
    if not log.can_start_at(position):
        position = _group_around(log, given, position)
    return offset_at(watched, position, gtid=log.gtid_position_at(position))


def _group_around(log: Log, given: DebeziumOffset, position: Position) -> Position:
    """The group whose second event begins at *position*: MySQL's BEGIN, after the GTID."""
    start = next(start for start in log.file_starts() if start.file_no == position.file_no)
    for heads in log.heads(start, None):
        for row in range(len(heads.groups)):
            if heads.position(row) < position < heads.position(row + 1):
                group = _first_group(log, heads.position(row))
                if len(group.places) > 1 and given.place is not None and group.places[1] == given.place.byte:
                    return heads.position(row)
    raise _not_there(log, given, "no transaction begins there")


def _check_same(log: Log, given: DebeziumOffset, position: Position, by_gtids: SourceOffset) -> None:
    # A connector's GTIDs lack a statement without rows that came last; its place does not.
    if by_gtids.position == position:
        return
    if by_gtids.position < position and not by_gtids.skip_gtid and not _has_rows(log, by_gtids.position, position):
        return
    raise StartError(
        "CONFLICTING_OPTIONS",
        f"{log.path}: {DEBEZIUM_OFFSET}: {given.place} is at {position} here, and after gtids {given.gtids} comes "
        f"{shown_position(log, by_gtids.position)}",
        hint="If the connector read another server of the replication than the one of this log, leave out file and "
        "pos; if it is the same, leave out gtids",
    )


def _has_rows(log: Log, start: Position, end: Position) -> bool:
    return any(np.isin(block.events["type"], _ROW_EVENTS).any() for block in log.committed_blocks(start, end))


class _Group(NamedTuple):
    # The first group at a place: its events, in order.
    vendor: Vendor
    transaction: str | None
    types: Bytes
    event_nos: Int64s
    places: list[int | None]  # bytes in the file of the first two events
    begin: int  # number of the event that BEGIN is; 0: there is none


def _first_group(log: Log, position: Position) -> _Group:
    types: list[Bytes] = []
    event_nos: list[Int64s] = []
    places: list[int | None] = []
    vendor, transaction, begin = Vendor.MARIADB, None, 0
    for block in log.committed_blocks(position, log.span(position, size_max=1).end):
        events = block.events[block.events["group"] == 0]
        if not types:
            vendor = block.vendor
            gtid = gtid_of(block.groups[0], block.gtid_sources)
            transaction = None if gtid is None else str(gtid)
            at = [block.place(int(start)) for start in events["start"][:2]]
            places = [None if place is None else place.byte for place in at]
            begin = int(events["event_no"][1]) if len(events) > 1 and events["type"][1] == EventType.QUERY else 0
        types.append(events["type"])
        event_nos.append(events["event_no"])
        if block.groups["ends"][0]:
            break
    empty = np.empty(0, dtype=np.int64)
    return _Group(
        vendor,
        transaction,
        np.concatenate([empty.astype(np.uint8), *types]),
        np.concatenate([empty, *event_nos]),
        places,
        begin,
    )


def _taken(log: Log, start: SourceOffset, given: DebeziumOffset, *, counts_annotations: bool) -> TakenChanges | None:
    """The changes of the group at *start* that a connector has published; None: none."""
    if not given.event and not given.row and given.transaction is None:
        return None
    group = _first_group(log, start.position)
    counted = np.ones(len(group.types), dtype=np.bool_)
    if group.vendor is Vendor.MYSQL:
        counted = group.event_nos >= group.begin
    elif not counts_annotations:
        counted = group.types != EventType.ANNOTATE_ROWS
    numbers, types = group.event_nos[counted], group.types[counted]
    if given.row:
        if given.event >= len(numbers) or int(types[given.event]) not in _ROW_EVENTS:
            reason = (
                f"event {given.event} of the transaction there has no rows, and the connector published {given.row}"
            )
            raise _not_there(log, given, reason)
        return TakenChanges(int(numbers[given.event]), given.row)
    if not given.event:
        has_begun = given.transaction is not None and given.transaction == group.transaction
        return TakenChanges(int(numbers[0]) + 1, 0) if has_begun and len(numbers) else None
    if not len(numbers):
        raise _not_there(log, given, "no transaction begins there")
    # After a statement of MariaDB's the connector counts on, until the next transaction begins.
    return TakenChanges(int(numbers[min(given.event, len(numbers) - 1)]) + 1, 0)


def _not_there(log: Log, given: DebeziumOffset, reason: str) -> StartError:
    return StartError(
        "POSITION_NOT_FOUND",
        f"{log.path}: {DEBEZIUM_OFFSET}: {given.place or given.gtids}, event {given.event}, row {given.row}: {reason}",
        hint="The log must be that of the connector's server, and source.query as the connector's include.query. "
        f"{_STOP_FIRST}",
    )


def rows_taken(taken: TakenChanges, event_nos: NDArray[Any], row_nos: NDArray[Any]) -> Mask:
    """True for those rows of the group that have been taken."""
    is_taken: Mask = event_nos < taken.event_no
    is_taken |= (event_nos == taken.event_no) & (row_nos < taken.row_no)
    return is_taken


def of_group(position: Position, column: Callable[[str], NDArray[Any]]) -> Mask:
    """True for those rows that are of the event group at *position*.

    Args:
        column: Gives parts of the positions of the rows' groups: `file_no`, `page`, `chunk`.
    """
    same: Mask = np.logical_and.reduce(
        [column(name) == getattr(position, name) for name in ("file_no", "page", "chunk")]
    )
    return same


class StoredOffset(NamedTuple):
    """Offset of a connector, and its `topic.prefix`."""

    topic_prefix: str
    fields: dict[str, Any]


def stored_offset(path: Path) -> StoredOffset:
    """The offset in a file: an answer of Kafka Connect, or the file in which an engine keeps it.

    `GET /connectors/NAME/offsets` gives JSON; `offset.storage.file.filename` names a file that Java wrote.
    """
    try:
        data = path.read_bytes()
        pairs = _java_pairs(data) if data.startswith(_JAVA) else _answered(json.loads(data))
        if len(pairs) != 1:
            named = ", ".join(prefix for prefix, _ in pairs) or "none"
            raise ValueError(f"expected the offset of one connector, got {named}")
        fields = {name: value for name, value in pairs[0][1].items() if value is not None}
        DebeziumOffset.parse(fields)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise OptionError("INVALID_VALUE", f"{error}", at=Place(str(path)), hint=_STOP_FIRST) from error
    return StoredOffset(pairs[0][0], fields)


def _answered(answer: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(str(stored["partition"]["server"]), dict(stored["offset"])) for stored in answer["offsets"]]


_JAVA = b"\xac\xed\x00\x05"
_BYTES_FIRST, _BYTES = b"ur\x00\x02[B\xac\xf3\x17\xf8\x06\x08T\xe0\x02\x00\x00xp", b"uq\x00~\x00\x02"
_MAP_END = b"w\x08"


def _java_pairs(data: bytes) -> list[tuple[str, dict[str, Any]]]:
    """The entries of a HashMap of byte arrays, as Java serializes it: Kafka Connect's FileOffsetBackingStore."""
    start = data.index(_MAP_END) + len(_MAP_END)
    _, count = struct.unpack_from(">ii", data, start)
    place = start + 8
    parts: list[Any] = []
    for _ in range(2 * count):
        head = _BYTES if parts else _BYTES_FIRST
        if not data.startswith(head, place):
            raise ValueError(f"byte {place}: expected an array of bytes, as Kafka Connect keeps offsets")
        (size,) = struct.unpack_from(">i", data, place + len(head))
        place += len(head) + 4
        parts.append(json.loads(data[place : place + size]))
        place += size
    return [(str(key[1]["server"]), dict(value)) for key, value in zip(parts[::2], parts[1::2], strict=True)]
