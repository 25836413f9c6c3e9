"""What the tests of the classic reader share: real cases, groups as plain values, files made by hand."""

from __future__ import annotations

import gzip
import re
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.block import BLOCK_SIZE
from binlog_format.classic.reader import ClassicLog
from binlog_format.gtids.gtid_history import gtid_of
from binlog_format.source_file import Directory, FileEntry, LocalDirectory
from tests.corpus import SERVER_CASES, corpus

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_format.block import Block
    from binlog_format.kernels import Bytes
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
