"""Check that consumed and expected parts of a structured log still exist: `compare_entries`.

Such a log has no GTIDs that would tell what is missing, and programs do with its files what they like. So an offset
names all of them: one that was passed must not grow, one that was to come must not go.

Result of a comparison of an offset with its log: `Decision`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from binlog_connector.following.entry_marks import KnownFile
from binlog_connector.following.log_end import end_of_log, start_of_file
from binlog_format.errors import DataLossError
from binlog_format.position import BEFORE_ALL, Place

if TYPE_CHECKING:
    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.following.watched import WatchedLog


START_AGAIN = (
    "Begin anew with a new checkpoint or offset file (after a full copy of the tables), or set option "
    "failOnDataLoss=false"
)


@dataclass(frozen=True, slots=True)
class Decision:
    """Result of `compare`.

    Attributes:
        offset: Where to go on; after a loss, where to go on without what is lost.
        reason: Why, in words.
        loss: The error to raise, unless the user accepts losses; None when nothing is lost.
    """

    offset: SourceOffset
    reason: str
    loss: DataLossError | None = None


def lost(subclass: str, reason: str, *, go_on: SourceOffset, hint: str, at: Place | None = None) -> Decision:
    """The decision that something is lost.

    Args:
        subclass: Of the error.
        reason: What is lost, and how that shows.
        go_on: Where to go on without it.
        hint: What the operator can do.
        at: Where that shows.
    """
    return Decision(go_on, reason, DataLossError(subclass, reason, at=at, hint=hint))


_GO_ON = "Begin anew with a new checkpoint or offset file, or set option failOnDataLoss=false to go on without them"
_KEEP_FILES = f"Keep rotated files until they have been read. {_GO_ON}"
_APPEND_ONLY = f"Log files may be renamed and removed, never written anew. {_GO_ON}"
_ONE_WRITER = (
    f"A file must be closed before the next one is begun: let each program log into a folder of its own. {_GO_ON}"
)


def compare_entries(watched: WatchedLog, offset: SourceOffset) -> Decision:
    """Like `compare`, for a structured log."""
    file_no = offset.position.file_no
    if not watched.has(file_no):
        return _file_is_gone(watched, offset)
    at = Place(watched.path_of(watched.names()[file_no]))
    identity = watched.identity(file_no)
    if offset.fingerprint and identity != offset.fingerprint:
        reason = f"this is not the file that was read before: identity stored {offset.fingerprint}, now {identity}"
        return lost("FILE_REUSED", reason, at=at, go_on=start_of_file(watched, file_no), hint=_APPEND_ONLY)
    return _compare_bytes(watched, offset, at) or _compare_files(watched, offset)


def _file_is_gone(watched: WatchedLog, offset: SourceOffset) -> Decision:
    file_no = offset.position.file_no
    later = [number for number in watched.names() if number > file_no]
    if not offset.fingerprint and (not later or offset.position == BEFORE_ALL):
        return Decision(offset, "nothing had been written yet")
    reason = (
        f"{watched.log.path}: the file that was being read is gone (its number is {file_no}; it had been read up to "
        f"byte {watched.byte_of(offset.position):,}): what was written to it after that is missing"
    )
    go_on = start_of_file(watched, later[0]) if later else end_of_log(watched)
    return lost("FILE_PURGED", reason, go_on=go_on, hint=_KEEP_FILES)


def _compare_bytes(watched: WatchedLog, offset: SourceOffset, at: Place) -> Decision | None:
    if offset.last_page_crc is None:
        return None
    computed = watched.consumed_crc(offset.position)
    if computed == offset.last_page_crc:
        return None
    byte = watched.byte_of(offset.position)
    if computed is None:
        size = watched.size_of(offset.position.file_no)
        reason = f"the file was read up to byte {byte:,}, and has {size:,} bytes now: it was cut"
        go_on = end_of_log(watched)
        return lost("TRUNCATED_TRANSACTION", reason, at=at, go_on=go_on, hint=_APPEND_ONLY)
    reason = (
        f"other bytes stand before byte {byte:,} than were read: CRC-32C stored {offset.last_page_crc:#010x}, computed "
        f"{computed:#010x}"
    )
    go_on = start_of_file(watched, offset.position.file_no)
    return lost("PAGE_REWRITTEN", reason, at=at, go_on=go_on, hint=_APPEND_ONLY)


def _compare_files(watched: WatchedLog, offset: SourceOffset) -> Decision:
    for one in offset.files:
        is_there = watched.has(one.file_no)
        if one.read_size is None and not is_there:
            reason = f"{watched.log.path}: a file is gone that had not been read (its number is {one.file_no})"
            return lost("FILE_PURGED", reason, go_on=_accepted(watched, offset), hint=_KEEP_FILES)
        if one.read_size is not None and is_there and watched.size_of(one.file_no) > one.read_size:
            reason = (
                f"the file grew to {watched.size_of(one.file_no):,} bytes after reading had gone on in a later one, at "
                f"its byte {one.read_size:,}: what was written to it after that is missing"
            )
            at = Place(watched.path_of(watched.names()[one.file_no]))
            return lost("FILE_GREW", reason, at=at, go_on=_accepted(watched, offset), hint=_ONE_WRITER)
    known = {offset.position.file_no, *(one.file_no for one in offset.files)}
    earlier = [number for number in watched.names() if number < offset.position.file_no and number not in known]
    if earlier and offset.fingerprint:
        reason = "the file came up after reading had gone on in a later one, but its first event is of an earlier time"
        at = Place(watched.path_of(watched.names()[earlier[0]]))
        return lost("FILE_GREW", reason, at=at, go_on=_accepted(watched, offset), hint=_ONE_WRITER)
    return Decision(offset, "what was read is still there")


def _accepted(watched: WatchedLog, offset: SourceOffset) -> SourceOffset:
    """*offset*, with the files as they are now: what is lost is told once."""
    file_no = offset.position.file_no
    files = tuple(
        KnownFile(number, watched.size_of(number) if number < file_no else None)
        for number in watched.names()
        if number != file_no
    )
    return replace(offset, files=files)
