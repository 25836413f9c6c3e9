"""Offsets as Spark stores them: `SourceOffset`, flat JSON with a version.

An offset is where reading goes on, and enough of what lies before it to notice that the log is not the same any more:
who wrote the file, the GTIDs consumed, and a checksum of the last bytes consumed (`resume.py` compares). Of a
structured log it carries the metadata in force too: events there mean nothing without what was written long before.

The prepared XA transactions that a batch begins with, and what becomes of them in it: `PreparedHistory`.

Only `classic` logs have any. Offsets carry them, so that a reader knows where the rows are when an XA COMMIT comes. One
that is not known there is searched for in the log: these entries must be right, but need not be complete.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_connector.following.entry_marks import files_from_text, files_to_text
from binlog_format.errors import UnsupportedError
from binlog_format.gtids.domain_starts import NO_STARTS, DomainStarts
from binlog_format.gtids.gtid_set import NO_GTIDS, parse_gtids
from binlog_format.position import Position
from binlog_format.transactions.xa import PreparedXa, XaId, pending_after

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from binlog_connector.following.entry_marks import KnownFile
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_format.transactions.xa import XaStep


_BETWEEN = ";"
_AT = "@"


@dataclass(frozen=True, slots=True)
class PreparedHistory:
    """Prepared transactions at each place of a range.

    Attributes:
        start: Where the range begins.
        prepared: At its start.
        steps: After it, in order; None: they have not been looked at.
        kept: Prepared at the start, and still so at the end.
    """

    start: Position
    prepared: tuple[PreparedXa, ...] = ()
    steps: tuple[XaStep, ...] | None = None
    kept: tuple[PreparedXa, ...] = ()

    def at(self, position: Position) -> tuple[PreparedXa, ...]:
        """Transactions known to be prepared at *position*."""
        if position == self.start:
            return self.prepared
        if self.steps is None:
            return self.kept
        return pending_after(self.prepared, [step for step in self.steps if step.position < position])


def prepared_to_text(prepared: Iterable[PreparedXa]) -> str:
    """The form that offsets have: `X'6162',X'',1@3:0:1540;...`."""
    return _BETWEEN.join(f"{xa.xid}{_AT}{xa.position}" for xa in prepared)


def prepared_from_text(text: str) -> tuple[PreparedXa, ...]:
    """Read what `prepared_to_text` wrote.

    Raises:
        ValueError: *text* is something else.
    """
    found = []
    for part in text.split(_BETWEEN) if text else []:
        xid, _, position = part.rpartition(_AT)
        found.append(PreparedXa(XaId.parse(xid), Position.parse(position)))
    return tuple(found)


OFFSET_VERSION = 1
_POSITION_FIELDS = ("file_no", "page", "chunk")
_FIELDS = frozenset(
    {
        "version",
        "format",
        "fingerprint",
        *_POSITION_FIELDS,
        "gtid",
        "skip_gtid",
        "skip_to",
        "last_page_crc",
        "prepared_xa",
        "state",
        "files",
    }
)
STATE_SIZE_MAX = 64 << 20
"""A structured log's metadata: 10,000 places in a program that log take about 1.5 MB. More than this is no such thing,
whatever a damaged checkpoint unpacks to."""


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """The next thing to read, and what lies before it.

    Attributes:
        position: Where reading goes on.
        format: Format of the log; empty where a user gave only a position.
        fingerprint: Identity of the file that the position is in (`resume.fingerprint`); empty while it is unwritten.
        gtid: Last GTID of each domain before the position; of a MySQL log the set of all.
        skip_gtid: Groups up to these GTIDs may follow the position and must be left out: the rest of a `startingGtid`
            whose domains do not all stop at the same place. Empty in nearly all offsets.
        skip_to: MariaDB: where in the log these GTIDs are, of each domain where that is known.
        last_page_crc: CRC-32C of the consumed part of the last page; None when nothing was consumed in this log.
        prepared_xa: XA transactions that were prepared before the position and have not ended there (`classic`), as far
            as is known.
        state: What is in force there of a structured log, as `EventLog` gives it; empty elsewhere, and where a user
            gave only a position.
        files: The other files of a structured log, as far as they had been read.
    """

    position: Position
    format: str = ""
    fingerprint: str = ""
    gtid: GtidPoint = NO_GTIDS
    skip_gtid: GtidPoint = NO_GTIDS
    skip_to: DomainStarts = NO_STARTS
    last_page_crc: int | None = None
    prepared_xa: tuple[PreparedXa, ...] = ()
    state: bytes = b""
    files: tuple[KnownFile, ...] = ()

    def to_json(self) -> dict[str, int | str]:
        """The form that Spark keeps in the checkpoint; equal offsets give equal dictionaries, in the same order."""
        fields: dict[str, int | str] = {
            "version": OFFSET_VERSION,
            "format": self.format,
            "fingerprint": self.fingerprint,
            "file_no": self.position.file_no,
            "page": self.position.page,
            "chunk": self.position.chunk,
            "gtid": str(self.gtid),
        }
        if self.skip_gtid:
            fields["skip_gtid"] = str(self.skip_gtid)
        if self.skip_to:
            fields["skip_to"] = str(self.skip_to)
        if self.last_page_crc is not None:
            fields["last_page_crc"] = self.last_page_crc
        if self.prepared_xa:
            fields["prepared_xa"] = prepared_to_text(self.prepared_xa)
        if self.state:
            fields["state"] = base64.b64encode(zlib.compress(self.state)).decode()
        if self.files:
            fields["files"] = files_to_text(self.files)
        return fields

    @classmethod
    def from_json(cls, fields: Mapping[str, object]) -> SourceOffset:
        """Read what `to_json` wrote, or what a user wrote by hand: a position is enough.

        Raises:
            UnsupportedError: `VERSION`: a later version of this program wrote it.
            ValueError: It is not an offset of this source.
        """
        version = _number(fields, "version", default=OFFSET_VERSION)
        if version > OFFSET_VERSION:
            raise UnsupportedError(
                "VERSION",
                f"offset: version {version}, this program reads up to {OFFSET_VERSION}",
                hint="Continue this checkpoint with the version of binlog-stream that wrote it, or a later one",
            )
        unknown = sorted(set(fields) - _FIELDS)
        if unknown:
            raise ValueError(f"offset: unknown field {unknown[0]}")
        crc = _number(fields, "last_page_crc") if "last_page_crc" in fields else None
        return cls(
            position=Position(*(_number(fields, name) for name in _POSITION_FIELDS)),
            format=_text(fields, "format"),
            fingerprint=_text(fields, "fingerprint"),
            gtid=parse_gtids(_text(fields, "gtid")),
            skip_gtid=parse_gtids(_text(fields, "skip_gtid")),
            skip_to=DomainStarts.parse(_text(fields, "skip_to")),
            last_page_crc=crc,
            prepared_xa=prepared_from_text(_text(fields, "prepared_xa")),
            state=_state(_text(fields, "state")),
            files=files_from_text(_text(fields, "files")),
        )


def _number(fields: Mapping[str, object], name: str, *, default: int | None = None) -> int:
    value = fields.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"offset: {name}: expected a number, got {value!r}")
    return value


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise ValueError(f"offset: {name}: expected text, got {value!r}")
    return value


def _state(text: str) -> bytes:
    if not text:
        return b""
    unpacking = zlib.decompressobj()
    try:
        state = unpacking.decompress(base64.b64decode(text, validate=True), STATE_SIZE_MAX)
    except (ValueError, zlib.error) as error:
        raise ValueError(f"offset: state: {error}") from error
    if not unpacking.eof or unpacking.unused_data:
        raise ValueError(f"offset: state: it is cut off, or unpacks to more than {STATE_SIZE_MAX} bytes")
    return state
