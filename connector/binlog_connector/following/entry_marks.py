"""Parts of a structured log's offsets beside a position: `EntryMarks`, the state there and the files around it.

Events mean nothing without the metadata before them, so an offset holds what is in force. And the files of such a log
have no numbers in a row: which ones have been read, how far, and which ones are still to come, only the offset tells.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.errors import CorruptError
from binlog_format.position import Position
from binlog_format.structured.event_log import LogState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.following.watched import WatchedLog
    from binlog_format.structured.event_log import EventLog, FoundDamage

_BETWEEN = ";"
_SIZE = "="


@dataclass(frozen=True, slots=True)
class KnownFile:
    """Another file than the one that is being read.

    Attributes:
        read_size: Bytes of it that have been read, before reading went on in a later file; None: it comes later.
    """

    file_no: int
    read_size: int | None = None


@dataclass(frozen=True, slots=True)
class EntryMarks:
    """State in an offset of a structured log.

    Attributes:
        state: What is in force there: `LogState.entries`.
        files: The other files that were there when the offset was made.
        ended_inode: `SourceOffset.ended_inode`.
    """

    state: bytes = b""
    files: tuple[KnownFile, ...] = ()
    ended_inode: int = 0


NO_MARKS = EntryMarks()


def marks_at(watched: WatchedLog, position: Position) -> EntryMarks:
    """The marks at any place; reads the metadata of all that lies before. Logs of databases have none."""
    events = watched.log.events
    if events is None:
        return NO_MARKS
    read = {number: watched.files.size_of(number) for number in watched.names()}
    files = _known_files(watched, position, read)
    return EntryMarks(events.state_at(position).entries(), files, _ended_inode(watched, position))


def marks_after(watched: WatchedLog, start: SourceOffset, end: Position) -> EntryMarks:
    """The marks at *end*, to which a batch from *start* goes; reads what lies between them."""
    events = watched.log.events
    if events is None:
        return NO_MARKS
    if end == start.position:
        return EntryMarks(start.state, start.files, _ended_inode(watched, end))
    read = _read_before(watched, start)
    state: LogState | None = None
    for block in events.entries(start.position, end, state_of(start.state)):
        read[block.file_no] = block.file_offset + len(block.data)
        state = block.state_after
    files, after = _files_at(watched, end, read), start.state if state is None else state.entries()
    return EntryMarks(after, files, _ended_inode(watched, end))


def _read_before(watched: WatchedLog, start: SourceOffset) -> dict[int, int]:
    """Bytes of each file that have been read at *start*."""
    read = {file.file_no: file.read_size for file in start.files if file.read_size is not None}
    return read | {start.position.file_no: watched.files.byte_of(start.position)}


def _files_at(watched: WatchedLog, end: Position, read: dict[int, int]) -> tuple[KnownFile, ...]:
    """The other files, at *end*; at the end of one that was passed may stand what a killed program left of an entry."""
    passed = {number: max(size, watched.files.size_of(number)) for number, size in read.items() if number < end.file_no}
    return _known_files(watched, end, read | passed)


def files_within(end: SourceOffset, start: Position) -> frozenset[int]:
    """Numbers of the files after that of *start* of which a batch to *end* takes events."""
    numbers = (end.position.file_no, *(file.file_no for file in end.files))
    return numbers_within(numbers, start, end.position)


def numbers_within(numbers: Iterable[int], start: Position, end: Position) -> frozenset[int]:
    """Those of *numbers* that are after the file of *start*, and begin before *end*."""
    return frozenset(number for number in numbers if start.file_no < number and Position(number, 0, 0) < end)


def damage_after(events: EventLog, begin: SourceOffset) -> FoundDamage | None:
    """The first damage of a structured log from *begin* on; None: there is none."""
    return events.first_damage(begin.position, state_of(begin.state))


def marks_over(watched: WatchedLog, begin: SourceOffset, damage: FoundDamage) -> EntryMarks:
    """The marks after *damage*, which follows on *begin* without an event between them, maybe in the next file."""
    is_same = damage.go_on.file_no == begin.position.file_no
    files = begin.files if is_same else _files_at(watched, damage.go_on, _read_before(watched, begin))
    return EntryMarks(damage.state.entries(), files)


def state_of(state: bytes) -> LogState | None:
    """The state in an offset's `state`, for `EventLog.entries`; None if it is not known."""
    return _parsed(state) if state else None


def states_at(events: EventLog, start: Position, state: bytes, places: Sequence[Position]) -> list[bytes]:
    """Read the state in force at some places.

    Args:
        start: A place before *places*.
        state: What is in force there.
        places: Ascending; an entry begins at each.
    """
    found = []
    for place in places:
        for block in events.entries(start, place, state_of(state)):
            state = block.state_after.entries()
        found.append(state)
        start = place
    return found


def files_to_text(files: Iterable[KnownFile]) -> str:
    """The form that offsets have: `1710072000000000000=5120;1710075600000000000;...`."""
    return _BETWEEN.join(
        str(file.file_no) if file.read_size is None else f"{file.file_no}{_SIZE}{file.read_size}" for file in files
    )


def files_from_text(text: str) -> tuple[KnownFile, ...]:
    """Read what `files_to_text` wrote. Raises `ValueError`: *text* is something else."""
    found = []
    for part in text.split(_BETWEEN) if text else []:
        number, is_read, size = part.partition(_SIZE)
        found.append(KnownFile(int(number), int(size) if is_read else None))
    return tuple(found)


@functools.lru_cache(maxsize=4)
def _parsed(state: bytes) -> LogState:
    return LogState.of_entries(state)


def _ended_inode(watched: WatchedLog, position: Position) -> int:
    """Inode of the file of *position*, if no whole event follows there in the file; else 0."""
    file_no = position.file_no
    inode = watched.files.inode(file_no) if file_no in watched.names() else 0
    if inode and watched.files.byte_of(position) < watched.files.size_of(file_no):
        try:
            return 0 if watched.log.span(position, size_max=1).groups else inode
        except CorruptError:
            return 0
    return inode


def _known_files(watched: WatchedLog, position: Position, read: Mapping[int, int]) -> tuple[KnownFile, ...]:
    """All files but that of *position*; of one before it that nothing is known of, nothing was wanted."""
    return tuple(
        KnownFile(number, read.get(number, watched.files.size_of(number)) if number < position.file_no else None)
        for number in watched.names()
        if number != position.file_no
    )
