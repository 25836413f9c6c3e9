"""Real classic files once more, with every large row event cut into fragments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_lab.event_encoding.event_encoding import Origin, encode_fragments
from tests.format.classic.logs import raw_events, with_checksum

if TYPE_CHECKING:
    from pathlib import Path

ROW_TYPES = frozenset({23, 24, 25, 166, 167, 168})


def has_checksums(content: bytes) -> bool:
    """Whether the Format_description event of a file states it."""
    return raw_events(content)[0][-5] == 1


def _fragments(event: bytes, threshold: int, *, number_first: bool, has_checksum: bool) -> list[bytes]:
    origin = Origin(int.from_bytes(event[:4], "little"), int.from_bytes(event[5:9], "little"))
    if has_checksum:
        event = event[:9] + (len(event) - 4).to_bytes(4, "little") + event[13:-4]
    try:
        cut = encode_fragments(event, origin, threshold, number_first=number_first, has_checksum=has_checksum)
    except ValueError:  # small enough
        return []
    return [with_checksum(fragment) for fragment in cut] if has_checksum else cut


def with_fragments(content: bytes, threshold: int, *, number_first: bool = False) -> tuple[bytes, int]:
    """A file's content with fragments of row events in place of those that are too large; how many these were."""
    has_checksum = has_checksums(content)
    changed = bytearray(content[:4])
    count = 0
    for event in raw_events(content):
        fragments = []
        if event[4] in ROW_TYPES:
            fragments = _fragments(event, threshold, number_first=number_first, has_checksum=has_checksum)
        changed += b"".join(fragments or [event])
        count += bool(fragments)
    return bytes(changed), count


def fragmented_copy(source: Path, target: Path, threshold: int, *, number_first: bool = False) -> int:
    """A copy of a log's folder; how many row events have been cut."""
    target.mkdir()
    count = 0
    for file in sorted(source.glob("mysql-bin.0*")):
        content, cut = with_fragments(file.read_bytes(), threshold, number_first=number_first)
        (target / file.name).write_bytes(content)
        count += cut
    return count
