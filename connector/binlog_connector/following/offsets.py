"""Offsets as Spark stores them: `SourceOffset`, flat JSON with a version.

An offset is where reading goes on, and enough of what lies before it to notice that the log is not the same any more:
who wrote the file, the GTIDs consumed, and a checksum of the last bytes consumed (`resume.py` compares). Of a
structured log it carries the metadata in force too: events there mean nothing without what was written long before.

The prepared XA transactions that a batch begins with, and what becomes of them in it: `PreparedHistory`.

Only `classic` logs have any. Offsets carry them, so that a reader knows where the rows are when an XA COMMIT comes. One
that is not known there is searched for in the log: these entries must be right, but need not be complete.

GTIDs that a start leaves out and that follow an offset: `Skip`, `skip_after`, `taken_in`.

The domains of a `startingGtid` need not all stop at the same place. MariaDB's numbers may go back, so the place of a
domain's GTID in the log decides what is left out; the number decides only if that GTID has not been logged yet.

An offset in a file that survives anything: `OffsetFile`.

A file is written beside it, forced to the disk, given the name, and the folder is forced to the disk: whenever the
machine stops, the old offset or the new one is there, whole.
"""

from __future__ import annotations

import base64
import json
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from binlog_connector.following.entry_marks import files_from_text, files_to_text
from binlog_format.errors import OptionError, UnsupportedError, storage_error
from binlog_format.gtids.gtid import GtidPosition
from binlog_format.gtids.gtid_set import NO_GTIDS, NO_STARTS, DomainStarts, GtidSet, parse_gtids
from binlog_format.position import Position
from binlog_format.transactions.xa import PreparedXa, XaId, pending_after

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from binlog_connector.following.entry_marks import KnownFile
    from binlog_format.gtids.gtid_set import GtidPoint, Taken
    from binlog_format.log.log import Log
    from binlog_format.transactions.xa import XaStep


_BETWEEN = ";"
_AT = "@"


@dataclass(frozen=True, slots=True)
class PreparedHistory:
    """Prepared transactions at each place of a range.

    Attributes:
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
    """Read what `prepared_to_text` wrote. Raises `ValueError`: *text* is something else."""
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
        "ended_inode",
        "taken",
    }
)
STATE_SIZE_MAX = 64 << 20
"""A structured log's metadata: 10,000 places in a program that log take about 1.5 MB. More than this is no such thing,
whatever a damaged checkpoint unpacks to."""


class TakenChanges(NamedTuple):
    """The changes of an event group that have been taken: those before this event and row of it."""

    event_no: int
    row_no: int


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """The next thing to read, and what lies before it.

    Attributes:
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
        ended_inode: Inode of the position's file, if no whole event followed there when the offset was made: a program
            that starts again may cut such a file. 0: an event followed, or that is not known.
        taken: Changes of the group at the position that another program has published; only jobs that publish begin
            so. None: none are.
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
    ended_inode: int = 0
    taken: TakenChanges | None = None

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
        if self.ended_inode:
            fields["ended_inode"] = self.ended_inode
        if self.taken is not None:
            fields["taken"] = ":".join(map(str, self.taken))
        return fields

    @classmethod
    def from_json(cls, fields: Mapping[str, object]) -> SourceOffset:
        """Read what `to_json` wrote, or what a user wrote by hand: a position is enough.

        Raises:
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
            ended_inode=_number(fields, "ended_inode", default=0),
            taken=TakenChanges(*map(int, _text(fields, "taken").partition(":")[::2])) if "taken" in fields else None,
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


class Skip(NamedTuple):
    """GTIDs after an offset that are left out; the fields `skip_gtid` and `skip_to` of offsets."""

    skip_gtid: GtidPoint = NO_GTIDS
    skip_to: DomainStarts = NO_STARTS


NOTHING_SKIPPED = Skip()


def skip_at(gtids: GtidPoint, taken: Taken, position: Position, consumed: GtidPoint) -> Skip:
    """Select the GTIDs of *gtids* that may follow *position*."""
    if not isinstance(gtids, GtidPosition) or not isinstance(taken, DomainStarts):
        return Skip(gtids.without(consumed))
    left = taken.after(position).places
    known = {domain: place for domain, place in left.items() if not taken.is_open(domain)}
    return Skip(GtidPosition({domain: gtids.last[domain] for domain in left}), DomainStarts(known))


def taken_in(log: Log, offset: SourceOffset, end: Position | None) -> Taken | None:
    """Groups from *offset* to *end* that are left out; None: none are."""
    if not offset.skip_gtid:
        return None
    if isinstance(offset.skip_gtid, GtidSet):
        return offset.skip_gtid
    unknown = {domain: gtid for domain, gtid in offset.skip_gtid.last.items() if domain not in offset.skip_to.places}
    if not unknown:
        return offset.skip_to
    from binlog_format.gtids.gtid_search import starts_seen  # compiled code takes a moment to load

    seen = starts_seen(log.heads(offset.position, end), GtidPosition(unknown))
    return DomainStarts({**offset.skip_to.places, **seen.places})


def skip_after(log: Log, offset: SourceOffset, position: Position, consumed: GtidPoint) -> Skip:
    """Select what is still left out at *position*, the end of a batch from *offset*.

    Args:
        consumed: The log's GTIDs before *position*.
    """
    taken = taken_in(log, offset, position)
    return NOTHING_SKIPPED if taken is None else skip_at(offset.skip_gtid, taken, position, consumed)


KIND = "binlog-stream offset"
"""The kind that the file names, so that no other JSON file is taken for one, or written over."""

FILE_SIZE_MAX = 16 << 20
"""An offset is a few hundred bytes; more of a MySQL log with many sources, and of a large program's structured log."""

_FOREIGN_HINT = "Name another file, or take this one away if it is not needed: reading then begins where a new one does"


class OffsetFile:
    """The offset to continue at, in a local file. *path*: the file; its folder must be there."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def load(self) -> SourceOffset | None:
        """The offset; None when there is no file."""
        try:
            with self.path.open("rb") as file:
                data = file.read(FILE_SIZE_MAX + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(self._named, "read", error) from error
        return self._parse(data)

    def save(self, offset: SourceOffset) -> None:
        """Put *offset* in place of what is there; when this returns it is on the disk.

        Raises:
            AccessError: `DENIED`; the old offset is still there, as with all of these.
        """
        data = json.dumps({"kind": KIND, **offset.to_json()}).encode() + b"\n"
        # One name for all attempts: what a killed process left is written over, not added to.
        partial = self.path.with_name(f".{self.path.name}.partial")
        try:
            partial.unlink(missing_ok=True)
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.path)
            self._sync_folder()
        except OSError as error:
            raise storage_error(self._named, "write", error) from error

    @property
    def _named(self) -> str:
        return f"offset file {self.path}"

    def _sync_folder(self) -> None:
        descriptor = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _parse(self, data: bytes) -> SourceOffset:
        if len(data) > FILE_SIZE_MAX:
            raise self._invalid("it is too large to be an offset")
        try:
            fields: object = json.loads(data)
        except ValueError as error:
            raise self._invalid(f"it is no JSON: {error}") from error
        if not isinstance(fields, dict) or fields.get("kind") != KIND:
            raise self._invalid(f'it is no offset: expected "kind": "{KIND}"')
        offset: Mapping[str, object] = {name: value for name, value in fields.items() if name != "kind"}
        try:
            return SourceOffset.from_json(offset)
        except ValueError as error:
            raise self._invalid(str(error)) from error

    def _invalid(self, reason: str) -> OptionError:
        return OptionError("INVALID_VALUE", f"offset file {self.path}: {reason}", hint=_FOREIGN_HINT)
