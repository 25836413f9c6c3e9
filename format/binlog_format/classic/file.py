"""One binlog file, open for reading: `ClassicFile`, its Format_description event and the GTIDs before it.

The binlog files of a directory: `find_files`. The server's index file is not needed.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from binlog_format.classic.format_description import parse_format_description
from binlog_format.classic.layout import (
    CHECKSUM_STRUCT,
    EVENT_CLASSES,
    FILE_NAME,
    MAGIC,
    MAGIC_ENCRYPTED,
    MAGIC_SIZE,
    MYSQL_ENCRYPTION_FIELD_KEY,
    MYSQL_ENCRYPTION_HEADER_SIZE,
    MYSQL_ENCRYPTION_KEY_OFFSET,
    ROTATE_FIXED_SIZE,
    START_ENCRYPTION_SIZE,
    START_ENCRYPTION_STRUCT,
    EventClass,
)
from binlog_format.errors import BinlogError, CorruptError, StartError, UnsupportedError
from binlog_format.events.gtid_events import parse_gtid_list, parse_previous_gtids
from binlog_format.events.layout import EVENT_HEADER_SIZE, EVENT_HEADER_STRUCT, EVENT_SIZE_MAX, EventType
from binlog_format.gtids.gtid import GtidPosition
from binlog_format.gtids.gtid_set import NO_GTIDS
from binlog_format.kernels import empty_bytes
from binlog_format.position import Place
from binlog_format.source_file import first_bytes, look_until_listed_again

if TYPE_CHECKING:
    from binlog_format.classic.format_description import FormatDescription
    from binlog_format.gtids.gtid import Gtid
    from binlog_format.gtids.gtid_set import GtidPoint, GtidSet
    from binlog_format.kernels import Bytes
    from binlog_format.source_file import Directory, FileEntry, SourceFile
    from binlog_format.vendor import Vendor


_HEAD_SIZE = 4096
"""Bytes that are read at once of a file's head; the events in it are shorter, unless many servers have written."""
_HEAD_EVENTS_MAX = 4
"""Events at the start that are looked at for the GTIDs of the files before; it is the second one, or the third."""

_GROUP_STARTS = (EventType.MARIADB_GTID, EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED)

_END_LOG_POS_MASK = 0xFFFFFFFF
"""The field counts modulo 2^32; files can be larger."""


class ClassicFile:
    """A binlog file and what its first events contain.

    Args:
        source: The file; this object closes it.

    Attributes:
        description: None while the Format_description event is not there (yet).
        description_event: Its bytes, checksum included.
        events_start: Byte after it.
        gtid_list: MariaDB: what the files before this one held; None while that is not there (yet).
        previous_gtids: The same of MySQL.
        is_begun: More is there than the Format_description event.
    """

    def __init__(self, source: SourceFile, file_no: int) -> None:
        self.source = source
        self.file_no = file_no
        self._head = b""  # first bytes, while the head is read: on a network each read is a request
        self.description: FormatDescription | None = None
        self.description_event = b""
        self.events_start = MAGIC_SIZE
        self.gtid_list: tuple[Gtid, ...] | None = None
        self.previous_gtids: GtidSet | None = None
        self.is_begun = False
        try:
            self._head = self.read(0, _HEAD_SIZE).tobytes()
            self._read_head()
        except BinlogError:
            source.close()
            raise
        self._head = b""

    @property
    def name(self) -> str:
        """File name without its directory."""
        return self.source.name

    @property
    def vendor(self) -> Vendor | None:
        """Vendor of the server that wrote the file; None if the file does not show it (yet)."""
        return None if self.description is None else self.description.vendor

    def gtids_before(self) -> GtidPoint:
        """GTIDs of all files before this one, as far as this file records them."""
        if self.previous_gtids is not None:
            return self.previous_gtids
        return NO_GTIDS if self.gtid_list is None else GtidPosition.of(self.gtid_list)

    def is_closed_at(self, end: int) -> bool:
        """True if the last event before byte *end* is one with which a server closes a file: STOP, or ROTATE."""
        if self.description is None:
            return False
        rotate = ROTATE_FIXED_SIZE + len(self.source.name)
        # The number in the next file's name may have one more digit.
        for event_type, body in ((EventType.STOP, 0), (EventType.ROTATE, rotate), (EventType.ROTATE, rotate + 1)):
            size = EVENT_HEADER_SIZE + body + self.description.checksum_size
            if end < size + MAGIC_SIZE:
                continue
            header = self.read(end - size, EVENT_HEADER_SIZE)
            if len(header) < EVENT_HEADER_SIZE:
                return False  # the file was cut, or begun anew, since *end* was found
            _, stored_type, _, stored_size, _, _ = EVENT_HEADER_STRUCT.unpack(header.tobytes())
            if (stored_type, stored_size) == (event_type, size):
                return True
        return False

    def place(self, file_offset: int) -> Place:
        """A place in this file, for messages."""
        return Place(self.source.path, byte=file_offset)

    def size(self) -> int:
        """Present size in bytes."""
        return self.source.size()

    def read(self, file_offset: int, size: int) -> Bytes:
        """Up to *size* bytes; fewer only at the end of the file."""
        data = empty_bytes(size)
        return data[: self.source.read_into(file_offset, data)]

    def is_about_itself(self, file_offset: int) -> bool:
        """True if an event about the file itself begins at *file_offset*: it may stand between event groups."""
        event = self._read_event(file_offset) if self.vendor is not None else None
        if event is None or self.vendor is None:
            return False
        return bool(EVENT_CLASSES[self.vendor][EVENT_HEADER_STRUCT.unpack_from(event)[1]] == EventClass.CONTROL)

    def close(self) -> None:
        """Close the file."""
        self.source.close()

    def _read_head(self) -> None:
        head = self._head
        if len(head) < MAGIC_SIZE:
            return
        check_magic(head[:MAGIC_SIZE], self.source.path, head[:MYSQL_ENCRYPTION_HEADER_SIZE])
        event = self._read_event(MAGIC_SIZE)
        if event is None:
            return
        self.description = parse_format_description(event, self.place(MAGIC_SIZE))
        self.description_event = event
        self.events_start = file_offset = MAGIC_SIZE + len(event)
        for _ in range(_HEAD_EVENTS_MAX):
            event = self._read_event(file_offset)
            if event is None:
                return
            self.is_begun = True
            _, event_type, *_ = EVENT_HEADER_STRUCT.unpack_from(event)
            if event_type == EventType.START_ENCRYPTION:
                raise encrypted_by_mariadb(event, self.place(file_offset))
            if event_type == EventType.MARIADB_GTID_LIST:
                self.gtid_list = parse_gtid_list(self._checked(event, file_offset))
                return
            if event_type == EventType.PREVIOUS_GTIDS:
                self.previous_gtids = parse_previous_gtids(self._checked(event, file_offset))
                return
            if event_type in _GROUP_STARTS:
                return
            file_offset += len(event)

    def _read_event(self, file_offset: int) -> bytes | None:
        """The whole event at *file_offset*; None when its end is not there (yet)."""
        header = self._read_bytes(file_offset, EVENT_HEADER_SIZE)
        if len(header) < EVENT_HEADER_SIZE:
            return None
        size = EVENT_HEADER_STRUCT.unpack(header)[3]
        if not EVENT_HEADER_SIZE <= size <= EVENT_SIZE_MAX:
            raise CorruptError("BAD_EVENT", f"an event claims a size of {size} bytes", at=self.place(file_offset))
        if file_offset + size > len(self._head) and file_offset + size > self.size():
            check_incomplete_event(header, self.place(file_offset))
            return None
        return self._read_bytes(file_offset, size)

    def _read_bytes(self, file_offset: int, size: int) -> bytes:
        end = file_offset + size
        return self._head[file_offset:end] if end <= len(self._head) else self.read(file_offset, size).tobytes()

    def _checked(self, event: bytes, file_offset: int) -> bytes:
        """*event* without its checksum."""
        assert self.description is not None, "the Format_description event comes first"
        size = self.description.checksum_size
        if size == 0:
            return event
        body = event[:-size]
        (stored,) = CHECKSUM_STRUCT.unpack_from(event, len(body))
        computed = zlib.crc32(body)
        if stored != computed:
            raise checksum_error(stored, computed, self.place(file_offset))
        return body


def check_magic(magic: bytes, path: str, head: bytes) -> None:
    """See that *magic* begins a binlog file that can be read.

    Args:
        head: More of the file's first bytes, to name the key that encrypts it.
    """
    if magic == MAGIC_ENCRYPTED:
        raise encrypted_by_mysql(head, Place(path, byte=0))
    if magic != MAGIC:
        raise CorruptError(
            "HEADER", f"magic number: stored {magic.hex(' ')}, expected {MAGIC.hex(' ')}", at=Place(path, byte=0)
        )


def check_incomplete_event(data: bytes, at: Place) -> None:
    """An event that goes beyond the end of its file: not written in full, or damaged in its size?

    Servers that fill in end_log_pos fill in the event's true end; newer ones leave 0 in most events.

    Args:
        data: What is there of the event; may be less than its header.
    """
    if len(data) < EVENT_HEADER_SIZE or at.byte is None:
        return
    _, type_, _, size, end_log_pos, _ = EVENT_HEADER_STRUCT.unpack_from(data)
    if type_ == 0:  # UNKNOWN_EVENT, which no server writes
        raise CorruptError("BAD_EVENT", f"no event begins here: its type would be 0, its size {size} bytes", at=at)
    end = (at.byte + size) & _END_LOG_POS_MASK
    if end_log_pos not in (0, end):
        raise CorruptError(
            "BAD_EVENT",
            f"an event claims {size} bytes, more than the file has; end_log_pos: stored {end_log_pos:#x}, "
            f"computed {end:#x}",
            at=at,
        )


def encrypted_by_mariadb(event: bytes, at: Place) -> UnsupportedError:
    """The error for what follows a START_ENCRYPTION event. *event*: the event; a checksum may follow."""
    said = ""
    if len(event) >= START_ENCRYPTION_SIZE:
        scheme, key_version, _ = START_ENCRYPTION_STRUCT.unpack_from(event, EVENT_HEADER_SIZE)
        said = f" with version {key_version} of the key, scheme {scheme}"
    return UnsupportedError(
        "ENCRYPTED",
        f"the binlog is encrypted from here on{said}",
        at=at,
        hint="Turn binlog encryption off on the server (encrypt_binlog=OFF) and begin after these files",
    )


def encrypted_by_mysql(head: bytes, at: Place) -> UnsupportedError:
    """The error for a file with MySQL's encrypted magic. *head*: the first bytes of the file; may be few."""
    said = ""
    offset = MYSQL_ENCRYPTION_KEY_OFFSET
    if len(head) > offset + 1 and head[offset] == MYSQL_ENCRYPTION_FIELD_KEY:
        start, size = offset + 2, head[offset + 1]
        if size and start + size <= len(head):
            said = f" with the key {head[start : start + size].decode('utf-8', 'replace')!r} of the server's keyring"
    return UnsupportedError(
        "ENCRYPTED",
        f"the binlog is encrypted{said}",
        at=at,
        hint="Turn binlog encryption off on the server (binlog_encryption=OFF), FLUSH BINARY LOGS and begin after "
        "these files",
    )


def checksum_error(stored: int, computed: int, at: Place) -> CorruptError:
    """The error for an event whose bytes do not match its checksum."""
    return CorruptError("EVENT_CHECKSUM", f"event CRC-32: stored {stored:#010x}, computed {computed:#010x}", at=at)


def find_files(directory: Directory, only: str | None = None) -> dict[int, FileEntry]:
    """The binlog files of *directory* by number, ascending.

    Files belong together when they have the name `<base>.NNNNNN` with the same base; files of each base are looked
    into, up to the first one that shows it. A file that has just been made may be empty still; it counts.
    """
    if only is not None:
        return _only_file(directory, only)
    found = look_until_listed_again(
        lambda: _by_base(directory),
        lambda by_base: {base: files for base, files in by_base.items() if _is_binlog(directory, files)},
    )
    if not found:
        raise StartError(
            "NO_LOG_FILES",
            f"{directory.path}: there are no binlog files",
            hint="They are named <base>.NNNNNN and are in the directory of the server variable log_bin_basename",
        )
    if len(found) > 1:
        names = " and ".join(f"{base}.*" for base in sorted(found))
        raise StartError(
            "CONFLICTING_OPTIONS",
            f"{directory.path}: there are files of {len(found)} logs: {names}",
            hint="Move the files of the others away (relay logs, for example), or name one file",
        )
    (files,) = found.values()
    return dict(sorted(files.items()))


def _by_base(directory: Directory) -> dict[str, dict[int, FileEntry]]:
    by_base: dict[str, dict[int, FileEntry]] = {}
    for entry in directory.entries():
        match = FILE_NAME.fullmatch(entry.name)
        if match is not None:
            by_base.setdefault(match["base"], {})[int(match["number"])] = entry
    return by_base


def _only_file(directory: Directory, name: str) -> dict[int, FileEntry]:
    match = FILE_NAME.fullmatch(name)
    entry = directory.entry(name)
    if match is None or entry is None:
        raise StartError("NO_LOG_FILES", f"{name} is not named like a binlog file, <base>.NNNNNN")
    head = first_bytes(directory, name, MYSQL_ENCRYPTION_HEADER_SIZE).tobytes()
    if len(head) >= MAGIC_SIZE:
        check_magic(head[:MAGIC_SIZE], directory.path_of(name), head)
    return {int(match["number"]): entry}


def _is_binlog(directory: Directory, files: dict[int, FileEntry]) -> bool:
    for _, entry in sorted(files.items()):
        if entry.size < MAGIC_SIZE:
            continue  # made this moment, or by a server that was killed then
        head = first_bytes(directory, entry.name, MYSQL_ENCRYPTION_HEADER_SIZE).tobytes()
        if head[:MAGIC_SIZE] == MAGIC_ENCRYPTED:
            check_magic(MAGIC_ENCRYPTED, directory.path_of(entry.name), head)
        if head[:MAGIC_SIZE] == MAGIC:  # else it was purged since the listing, or is damaged
            return True
    return False
