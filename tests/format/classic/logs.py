"""What the tests of the classic reader share: real cases, groups as plain values, files made by hand."""

from __future__ import annotations

import gzip
import itertools
import re
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.block import BLOCK_SIZE
from binlog_format.classic.reader import ClassicLog
from binlog_format.errors import BinlogError
from binlog_format.events.layout import EVENT_FLAGS_OFFSET, EventType
from binlog_format.formats.opening import verify_directory
from binlog_format.gtids.gtid_history import gtid_of
from binlog_format.source_file import Directory, FileEntry, LocalDirectory
from tests.corpus import SERVER_CASES, corpus

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_format.block import Block
    from binlog_format.kernels import Bytes
    from binlog_format.log_format import Finding
    from binlog_format.position import Position

MARIADB_CASES = (
    "mariadb-10.11/hugeblob",
    "mariadb-10.11/oltp_small",
    "mariadb-10.11/ops",
    "mariadb-10.11/ops_compressed",
    "mariadb-10.11/ops_minimal",
    "mariadb-10.11/ops_nochecksum",
    "mariadb-10.11/rotation",
    "mariadb-10.11/torn",
    "mariadb-10.11/types_full",
    "mariadb-10.11/types_minimal_nolog",
    "mariadb-10.11/types_noblob_metamin",
    "mariadb-10.11/types_oldtemporal",
    "mariadb-11.8/oltp_small",
    "mariadb-11.8/rotation",
)
MYSQL_CASES = (
    "mysql-9/hugeblob",
    "mysql-9/json_full",
    "mysql-9/json_partial",
    "mysql-9/oltp_small",
    "mysql-9/ops",
    "mysql-9/ops_zstd",
    "mysql-9/rotation",
    "mysql-9/torn",
    "mysql-9/torn/after_recovery",
    "mysql-9/types_full",
)
DECODED_CASES = tuple(case for case in MARIADB_CASES if not case.endswith(("hugeblob", "oltp_small")))
OLTP_SMALL = SERVER_CASES / "mariadb-10.11" / "oltp_small"
MYSQL_OPS = SERVER_CASES / "mysql-9" / "ops"
IN_USE_BIT = 8 * (4 + EVENT_FLAGS_OFFSET)
"""The one bit of a file that no checksum covers: the server clears it when it closes the file."""
MYSQL_GTID_TYPES = {EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED}

_GTID_LINE = re.compile(r"^#.*server id (\d+) .*\tGTID (\d+-\d+-\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Group:
    """A whole group, its pieces joined."""

    gtid: str
    position: tuple[int, int, int]
    types: tuple[int, ...]
    events: tuple[bytes, ...]


class MemoryFile:
    """A file that is bytes: thousands of damaged ones are made faster than on a disk."""

    def __init__(self, name: str, content: bytes) -> None:
        self.name = name
        self.path = f"memory/{name}"
        self._content = content

    def size(self) -> int:
        return len(self._content)

    def read_into(self, offset: int, buffer: Bytes) -> int:
        part = self._content[offset : offset + len(buffer)]
        buffer[: len(part)] = np.frombuffer(part, dtype=np.uint8)
        return len(part)

    def close(self) -> None:
        self._content = b""


class MemoryDirectory(Directory):
    """A directory of such files."""

    path = "memory"

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files

    def entries(self) -> list[FileEntry]:
        return [FileEntry(name, len(content)) for name, content in self.files.items()]

    def names(self) -> list[str]:
        return list(self.files)

    def entry(self, name: str) -> FileEntry | None:
        return FileEntry(name, len(self.files[name])) if name in self.files else None

    def open(self, name: str) -> MemoryFile:
        return MemoryFile(name, self.files[name])


def case_path(case: str) -> Path:
    """Folder of a case of real servers."""
    return corpus("servers") / case


def open_classic(path: Path, *, block_size: int = BLOCK_SIZE) -> ClassicLog:
    return ClassicLog(LocalDirectory(str(path)), block_size=block_size)


def groups_of(blocks: Iterable[Block]) -> list[Group]:
    """The whole groups, in order; sees to it that pieces fit together and blocks tell where to go on."""
    groups: list[Group] = []
    types: list[int] = []
    events: list[bytes] = []
    for block in blocks:
        for row in block.groups:
            assert row["begins"] == (not events)
            assert row["event_no"] == len(events)
            first = int(row["first_event"])
            for event in block.events[first : first + int(row["event_count"])]:
                assert event["event_no"] == len(events)
                start = int(event["start"])
                types.append(int(event["type"]))
                events.append(block.data[start : start + int(event["size"])].tobytes())
            if row["ends"]:
                position = (int(row["file_no"]), int(row["page"]), int(row["chunk"]))
                gtid = gtid_of(row, block.gtid_sources)
                groups.append(Group(str(gtid or ""), position, tuple(types), tuple(events)))
                types, events = [], []
        if len(block.groups) > 0 and not block.groups[-1]["ends"]:
            last = block.groups[-1]
            assert as_tuple(block.next_position) == (int(last["file_no"]), int(last["page"]), int(last["chunk"]))
    assert not events, "a group was begun that does not end"
    return groups


def as_tuple(position: Position) -> tuple[int, int, int]:
    return (position.file_no, position.page, position.chunk)


def decoded_gtids(case: str) -> list[str]:
    """GTIDs in the order in which the server's own decoder printed them."""
    folder = case_path(case)
    plain = folder / "decoded.txt"
    content = plain.read_bytes() if plain.exists() else gzip.decompress(Path(f"{plain}.gz").read_bytes())
    text = content.decode(errors="replace")
    return [gtid for _, gtid in _GTID_LINE.findall(text)]


def listed_event_counts(case: str) -> dict[str, int]:
    """Events of each type in a case, from EVENTS.txt."""
    for line in (corpus("servers") / "EVENTS.txt").read_text().splitlines():
        if line.startswith(f"{case} "):
            pairs = line.partition(" bytes ")[2].strip().split(", ")
            return {name: int(count) for name, _, count in (pair.rpartition(" ") for pair in pairs)}
    raise LookupError(case)


def raw_events(data: bytes) -> list[bytes]:
    """The events of a whole file, checksums included."""
    events, offset = [], 4
    while offset < len(data):
        (size,) = struct.unpack_from("<I", data, offset + 9)
        events.append(data[offset : offset + size])
        offset += size
    return events


def with_checksum(event: bytes) -> bytes:
    """An event without a checksum, or with end_log_pos and flags changed, as a file has it."""
    sized = event[:9] + struct.pack("<I", len(event) + 4) + event[13:]
    return sized + struct.pack("<I", zlib.crc32(sized))


def file_of(events: Iterable[bytes]) -> bytes:
    """A file of events that have checksums; places and checksums are made right."""
    content = bytearray(b"\xfebin")
    for event in events:
        moved = event[:13] + struct.pack("<I", len(content) + len(event)) + event[17:-4]
        content += moved + struct.pack("<I", zlib.crc32(moved))
    return bytes(content)


def small_mariadb_file() -> bytes:
    """A file of 5 small groups, 3 statements and 2 transactions, as its server would have written it."""
    events = raw_events((OLTP_SMALL / "mysql-bin.000001").read_bytes())
    starts = [i for i, event in enumerate(events) if event[4] == EventType.MARIADB_GTID]
    borders = [*starts, len(events) - 1]
    groups = [events[begin:end] for begin, end in itertools.pairwise(borders)]
    transactions = sorted((group for group in groups if len(group) > 2), key=lambda group: sum(map(len, group)))
    chosen = [group for group in groups if len(group) == 2][:3] + transactions[:2]
    return file_of([*events[: starts[0]], *(event for group in chosen for event in group)])


def small_mysql_file() -> bytes:
    """Statement, transactions, a tagged one, XA: some of the smallest groups of a real file, with its start and end."""
    events = raw_events((MYSQL_OPS / "mysql-bin.000001").read_bytes())
    starts = [i for i, part in enumerate(events) if part[4] in MYSQL_GTID_TYPES]
    groups = [events[start:end] for start, end in zip(starts, [*starts[1:], len(events) - 1], strict=True)]
    groups.sort(key=lambda group: sum(map(len, group)))
    tagged = next(group for group in groups if group[0][4] == EventType.GTID_TAGGED)
    prepared = next(group for group in groups if group[-1][4] == EventType.XA_PREPARE)
    transaction = next(group for group in groups if group[-1][4] == EventType.XID)
    chosen = [*groups[:2], tagged, prepared, transaction]
    return file_of([*events[:2], *(part for group in chosen for part in group)])


def read(*contents: bytes) -> list[Group]:
    """The groups of a log with these files."""
    files = {f"bin.{number:06}": content for number, content in enumerate(contents, start=1)}
    return groups_of(ClassicLog(MemoryDirectory(files)).blocks())


def read_until_error(data: bytes) -> tuple[list[Group], BinlogError | None]:
    """The whole groups before the first error."""
    blocks: list[Block] = []
    try:
        blocks.extend(ClassicLog(MemoryDirectory({"bin.000001": data})).blocks())
    except BinlogError as error:
        return groups_of(blocks), error
    return groups_of(blocks), None


def findings(files: dict[str, bytes]) -> list[Finding]:
    """Findings of a check of these files."""
    return list(verify_directory(MemoryDirectory(files)))
