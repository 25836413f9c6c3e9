"""Contents of a record, from its first bytes: `describe` gives fields and a line for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.block import GROUP_DTYPE
from binlog_format.events.event_table_kernels import read_gtid
from binlog_format.events.layout import EVENT_HEADER_SIZE, EVENT_HEADER_STRUCT, EventType
from binlog_format.gtids.gtid import Gtid
from binlog_format.innodb.compressed_int_kernels import read_ints
from binlog_format.innodb.groups.commit_kernels import read_commit_integers
from binlog_format.innodb.groups.forest import NO_PLACE, FilePlace, OobSet
from binlog_format.innodb.layout import (
    COMMIT_HEADER_INTS_MAX,
    OOB_HEADER_INTS,
    XA_COMPLETE_COMMIT,
    XA_COMPLETE_ROLLBACK,
    XA_HEADER_STRUCT,
    XA_PREPARE_INTS,
    RecordKind,
)
from binlog_format.kernels import as_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_format.kernels import Bytes

HEAD_SIZE = 512
"""Bytes of a record that state what it holds; of a GTID state that is the beginning."""

_STATE_HEADER_INTS = 2
_GTID_INTS = 3
_XID_PART_MAX = 64
_GTIDS_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Content:
    """Contents of a record.

    Attributes:
        kind: Name of its kind, `commit`, `oob`, `gtid_state`, `dummy`, `xa_prepare`, `xa_complete` or `kind N`.
        fields: By name, plain values; empty when the first bytes cannot be read.
    """

    kind: str
    fields: dict[str, object]
    text: str


@dataclass(frozen=True, slots=True)
class OobHeader:
    """The integers that an out-of-band record begins with; *size* is theirs in bytes."""

    index: int
    left: FilePlace
    right: FilePlace
    size: int


@dataclass(frozen=True, slots=True)
class XaPrepare:
    """An XA prepare record in full."""

    xid: str
    engine_count: int
    oob: OobSet


def kind_name(kind: int) -> str:
    """The name of a record kind."""
    try:
        return RecordKind(kind).name.lower()
    except ValueError:
        return f"kind {kind}"


def describe(kind: int, head: Bytes) -> Content:
    """Describe the contents of a record.

    Args:
        kind: `RecordKind`, or a number that is none.
        head: Its first `HEAD_SIZE` bytes, or all of them.
    """
    readers: dict[int, Callable[[Bytes], tuple[dict[str, object], str] | None]] = {
        RecordKind.COMMIT: _commit,
        RecordKind.GTID_STATE: _gtid_state,
        RecordKind.OOB: _oob,
        RecordKind.XA_PREPARE: _xa_prepare,
        RecordKind.XA_COMPLETE: _xa_complete,
    }
    reader = readers.get(kind)
    if reader is None:
        text = "fills the rest of a file that FLUSH cut" if kind == RecordKind.DUMMY else "not known, passed over"
        return Content(kind_name(kind), {}, text)
    found = reader(head)
    if found is None:
        return Content(kind_name(kind), {}, "cannot be read")
    return Content(kind_name(kind), *found)


def read_oob_header(head: Bytes) -> OobHeader | None:
    """Decode the integers of an out-of-band record; None: they cannot be read."""
    values = np.zeros(OOB_HEADER_INTS, dtype=np.uint64)
    after, count = read_ints(head, 0, len(head), values)
    if after < 0 or count < OOB_HEADER_INTS:
        return None
    index, left_file, left_offset, right_file, right_offset = (int(value) for value in values)
    return OobHeader(index, (left_file, left_offset), (right_file, right_offset), int(after))


def read_xa_prepare(data: Bytes) -> XaPrepare | None:
    """Decode a whole XA prepare record; None: it is of another form, as early servers wrote it."""
    xid = _read_xid(data)
    if xid is None:
        return None
    engine_count, text, after = xid
    values = np.zeros(XA_PREPARE_INTS + 1, dtype=np.uint64)
    end, count = read_ints(data, after, len(data), values)
    if end < 0 or count != XA_PREPARE_INTS:
        return None
    number, *places = (int(value) for value in values[:XA_PREPARE_INTS])
    return XaPrepare(text, engine_count, OobSet(number, (places[0], places[1]), (places[2], places[3])))


def read_xa_complete(data: Bytes) -> tuple[str, bool] | None:
    """XID of a whole XA complete record, and whether it is a commit; None: it cannot be one."""
    xid = _read_xid(data)
    if xid is None or xid[0] not in (XA_COMPLETE_COMMIT, XA_COMPLETE_ROLLBACK) or xid[2] != len(data):
        return None
    return xid[1], xid[0] == XA_COMPLETE_COMMIT


def place_text(place: FilePlace) -> str:
    """A place in a file for people."""
    return "-" if place == NO_PLACE else f"{place[0]}:{place[1]:#x}"


def _commit(head: Bytes) -> tuple[dict[str, object], str] | None:
    values = np.zeros(COMMIT_HEADER_INTS_MAX, dtype=np.uint64)
    size = int(read_commit_integers(head, len(head), values))
    if size < 0:
        return None
    count, *places = (int(value) for value in values)
    fields: dict[str, object] = {"gtid": None, "event_type": None, "timestamp": None, "oob_records": count}
    fields["oob_records_second_set"] = places[4]
    if count > 0:
        fields["oob_first"] = {"file_no": places[0], "file_offset": places[1]}
        fields["oob_last"] = {"file_no": places[2], "file_offset": places[3]}
    said = []
    event = as_bytes(head[size:].data)
    if len(event) >= EVENT_HEADER_SIZE:
        timestamp, event_type, *_ = EVENT_HEADER_STRUCT.unpack_from(event.data)
        fields["event_type"], fields["timestamp"] = event_type, timestamp
        group = np.zeros(1, dtype=GROUP_DTYPE)
        if read_gtid(event, 0, len(event), group, 0) and group["has_gtid"][0]:
            row = group[0]
            fields["gtid"] = str(Gtid(int(row["domain"]), int(row["server_id"]), int(row["seqno"])))
            said.append(f"GTID {fields['gtid']}")
        else:
            said.append(_event_name(event_type))
    if count > 0:
        said.append(
            f"{count:,} out-of-band, {place_text((places[0], places[1]))} to {place_text((places[2], places[3]))}"
        )
    if places[4] > 0:
        said.append(f"second set of {places[4]:,}")
    return fields, ", ".join(said)


def _gtid_state(head: Bytes) -> tuple[dict[str, object], str] | None:
    values = np.zeros(len(head), dtype=np.uint64)
    after, count = read_ints(head, 0, len(head), values)
    if count < _STATE_HEADER_INTS or (after < 0 and len(head) < HEAD_SIZE):
        return None
    numbers = [int(value) for value in values[:count]]
    triples = zip(*(numbers[_STATE_HEADER_INTS + part :: _GTID_INTS] for part in range(_GTID_INTS)), strict=False)
    gtids = [f"{domain}-{server}-{seqno}" for domain, server, seqno in triples][: numbers[0]]
    xa_file_no = numbers[1] - 1 if numbers[1] else None
    fields: dict[str, object] = {"gtid_count": numbers[0], "gtids": gtids, "xa_reference_file_no": xa_file_no}
    text = "no GTIDs" if numbers[0] == 0 else ",".join(gtids[:_GTIDS_SHOWN])
    if numbers[0] > _GTIDS_SHOWN:
        text += f" and {numbers[0] - _GTIDS_SHOWN:,} more"
    return fields, text if xa_file_no is None else f"{text}; XA since file {xa_file_no}"


def _oob(head: Bytes) -> tuple[dict[str, object], str] | None:
    header = read_oob_header(head)
    if header is None:
        return None
    is_leaf = header.left == NO_PLACE
    fields: dict[str, object] = {"index": header.index}
    for name, place in (("left", header.left), ("right", header.right)):
        fields[name] = None if place == NO_PLACE else {"file_no": place[0], "file_offset": place[1]}
    if is_leaf:
        link = "" if header.right == NO_PLACE else f", after the tree at {place_text(header.right)}"
        return fields, f"record {header.index}{link}"
    return fields, f"record {header.index}, over {place_text(header.left)} and {place_text(header.right)}"


def _xa_prepare(head: Bytes) -> tuple[dict[str, object], str] | None:
    prepare = read_xa_prepare(head)
    if prepare is None:
        return None
    fields: dict[str, object] = {"xid": prepare.xid, "engines": prepare.engine_count, "oob_records": prepare.oob.count}
    return fields, f"XID {prepare.xid}, {prepare.oob.count:,} out-of-band"


def _xa_complete(head: Bytes) -> tuple[dict[str, object], str] | None:
    complete = read_xa_complete(head)
    if complete is None:
        return None
    outcome = "commit" if complete[1] else "rollback"
    return {"xid": complete[0], "outcome": outcome}, f"{outcome} of XID {complete[0]}"


def _read_xid(data: Bytes) -> tuple[int, str, int] | None:
    """First byte, XID as text, and the byte after it."""
    if len(data) < XA_HEADER_STRUCT.size:
        return None
    first, format_id, gtrid_size, bqual_size = XA_HEADER_STRUCT.unpack_from(data.data)
    start = XA_HEADER_STRUCT.size
    end = start + gtrid_size + bqual_size
    if gtrid_size > _XID_PART_MAX or bqual_size > _XID_PART_MAX or end > len(data):
        return None
    gtrid, bqual = data[start : start + gtrid_size].tobytes(), data[start + gtrid_size : end].tobytes()
    return first, f"{_quoted(gtrid)},{_quoted(bqual)},{format_id}", end


def _quoted(part: bytes) -> str:
    """The way the server prints a part of an XID: as text where it is text, else in hexadecimal."""
    is_text = part.isascii() and part.decode("ascii").isprintable() and b"'" not in part
    return f"'{part.decode('ascii')}'" if is_text else f"0x{part.hex()}"


def _event_name(event_type: int) -> str:
    try:
        return EventType(event_type).name.lower()
    except ValueError:
        return f"event of type {event_type}"
