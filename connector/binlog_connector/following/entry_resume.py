"""Check that consumed and expected parts of a structured log still exist: `compare_entries`.

Such a log has no GTIDs that would tell what is missing, and programs do with its files what they like. So an offset
names all of them: one that was passed must not grow, one that was to come must not go.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_connector.following.decision import Decision, lost
from binlog_connector.following.entry_marks import KnownFile, files_within
from binlog_connector.following.log_end import end_of_log, offset_at, start_of_file
from binlog_connector.following.watched import file_start
from binlog_format.errors import DataLossError
from binlog_format.gtids.gtid_set import NO_GTIDS
from binlog_format.position import BEFORE_ALL, Place, position_of

if TYPE_CHECKING:
    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.following.watched import WatchedLog
    from binlog_format.position import Position

_GO_ON = "Begin anew with a new checkpoint or offset file, or set option failOnDataLoss=false to go on without them"
_KEEP_ROTATED_FILES = f"Keep rotated files until they have been read. {_GO_ON}"
_ROTATE_AT_START = "Let the program rename its file at its start, or append to it, in place of cutting it"
_APPEND_ONLY = f"Log files may be renamed and removed, never written anew. {_GO_ON}"
_ONE_WRITER = (
    f"A file must be closed before the next one is begun: let each program log into a folder of its own. {_GO_ON}"
)


def compare_entries(watched: WatchedLog, offset: SourceOffset) -> Decision:
    """Like `resume.compare`, for a structured log."""
    return _compare_place(watched, offset) or _compare_files(watched, offset)


def _compare_place(watched: WatchedLog, offset: SourceOffset) -> Decision | None:
    try:
        return _compare_file(watched, offset)
    except DataLossError:
        if not watched.is_gone(offset.position.file_no):
            raise
        return _file_is_gone(watched, offset)  # since the directory was read


def _compare_file(watched: WatchedLog, offset: SourceOffset) -> Decision | None:
    """The decision by the file of *offset*, and the bytes before it there; None: they are as they were."""
    file_no = offset.position.file_no
    if not watched.has(file_no):
        return _file_is_gone(watched, offset)
    at = Place(watched.files.path_of(watched.names()[file_no]))
    identity = watched.files.identity(file_no)
    if offset.fingerprint and identity != offset.fingerprint:
        reason = f"this is not the file that was read before: identity stored {offset.fingerprint}, now {identity}"
        return lost("FILE_REUSED", reason, at=at, go_on=start_of_file(watched, file_no), hint=_APPEND_ONLY)
    return _compare_entry_bytes(watched, offset, at)


def _file_is_gone(watched: WatchedLog, offset: SourceOffset) -> Decision:
    file_no = offset.position.file_no
    later = [number for number in watched.names() if number > file_no]
    if not offset.fingerprint and (not later or offset.position == BEFORE_ALL):
        return Decision(offset, "nothing had been written yet")
    if offset.ended_inode and (later or watched.files.is_emptied(offset.ended_inode)):
        if not later:
            return Decision(offset, "the program has begun its file anew, and has written nothing yet", is_waiting=True)
        if watched.files.inode(later[0]) == offset.ended_inode:
            return _begun_anew(watched, offset, later[0])
    reason = (
        f"{watched.log.path}: the file that was being read is gone (its number is {file_no}; it had been read up to "
        f"byte {watched.files.byte_of(offset.position):,}): what was written to it after that is missing"
    )
    go_on = start_of_file(watched, later[0]) if later else _after_earlier_files(watched, offset)
    return lost("FILE_PURGED", reason, go_on=go_on, hint=_KEEP_ROTATED_FILES)


def _after_earlier_files(watched: WatchedLog, offset: SourceOffset) -> SourceOffset:
    """The place after what had been read of the last file that is left, which is before that of *offset*.

    The end of the log may lie before it: whoever looks for that holds back the last event before what a killed program
    left of another one, and here that event has been read.
    """
    last = max(watched.names(), default=None)
    read_size = next((file.read_size for file in offset.files if file.file_no == last), None)
    if last is None or read_size is None:
        return end_of_log(watched)
    return offset_at(watched, position_of(last, min(read_size, watched.files.size_of(last))), gtid=NO_GTIDS)


def _begun_anew(watched: WatchedLog, offset: SourceOffset, file_no: int) -> Decision:
    """The decision for a file that was read to its end, and that a program has cut since and writes again."""
    reason = (
        "the program has begun this file anew (the same file, with another first event). The file before it had been "
        f"read to its end at byte {watched.files.byte_of(offset.position):,}; what may have been written to it after "
        "that is not known"
    )
    doubt = DataLossError(
        "FILE_PURGED", reason, at=Place(watched.files.path_of(watched.names()[file_no])), hint=_ROTATE_AT_START
    )
    return Decision(start_of_file(watched, file_no), reason, doubt=doubt)


def _compare_entry_bytes(watched: WatchedLog, offset: SourceOffset, at: Place) -> Decision | None:
    if offset.last_page_crc is None:
        return None
    computed = watched.consumed_crc(offset.position)
    if computed == offset.last_page_crc:
        return None
    byte = watched.files.byte_of(offset.position)
    if computed is None:
        size = watched.files.size_of(offset.position.file_no)
        reason = f"the file was read up to byte {byte:,}, and has {size:,} bytes now: it was cut"
        go_on = _end_of_file(watched, offset.position.file_no)
        return lost("TRUNCATED_TRANSACTION", reason, at=at, go_on=go_on, hint=_APPEND_ONLY)
    reason = (
        f"other bytes stand before byte {byte:,} than were read: CRC-32C stored {offset.last_page_crc:#010x}, computed "
        f"{computed:#010x}"
    )
    go_on = start_of_file(watched, offset.position.file_no)
    return lost("PAGE_REWRITTEN", reason, at=at, go_on=go_on, hint=_APPEND_ONLY)


def _end_of_file(watched: WatchedLog, file_no: int) -> SourceOffset:
    """Position after all that is there of one file."""
    following = next((number for number in watched.names() if number > file_no), None)
    limit = None if following is None else file_start(following)
    return offset_at(watched, watched.log.span(file_start(file_no), end=limit).end, gtid=NO_GTIDS)


def compare_batch(watched: WatchedLog, start: SourceOffset, end: SourceOffset) -> DataLossError | None:
    """The loss of what a batch from *start* to *end* was to take; None: all that was planned is there."""
    missing = sorted(file_no for file_no in files_within(end, start.position) if not watched.has(file_no))
    if missing:
        reason = f"{watched.log.path}: a file is gone that the batch was to take (its number is {missing[0]})"
        return DataLossError("FILE_PURGED", reason, hint=_KEEP_ROTATED_FILES)
    at_end = _compare_end(watched, end)
    return None if at_end is None else at_end.loss


def end_of_rest(watched: WatchedLog, end: SourceOffset) -> Position:
    """The end of a batch of which the log has lost a part: at most *end*, and not in bytes that were written later."""
    at_end = _compare_end(watched, end)
    return end.position if at_end is None else min(end.position, at_end.offset.position)


def _compare_end(watched: WatchedLog, end: SourceOffset) -> Decision | None:
    # Like `_compare_place`, for the end of a batch: its file must be there, also one that was read to its end.
    return _compare_place(watched, replace(end, ended_inode=0))


def _compare_files(watched: WatchedLog, offset: SourceOffset) -> Decision:
    for file in offset.files:
        is_there = watched.has(file.file_no)
        if file.read_size is None and not is_there:
            reason = f"{watched.log.path}: a file is gone that had not been read (its number is {file.file_no})"
            return lost("FILE_PURGED", reason, go_on=_accepted(watched, offset), hint=_KEEP_ROTATED_FILES)
        if file.read_size is not None and is_there and watched.files.size_of(file.file_no) > file.read_size:
            reason = (
                f"the file grew to {watched.files.size_of(file.file_no):,} bytes after reading had gone on in a later "
                f"one, at its byte {file.read_size:,}: what was written to it after that is missing"
            )
            at = Place(watched.files.path_of(watched.names()[file.file_no]))
            return lost("FILE_GREW", reason, at=at, go_on=_accepted(watched, offset), hint=_ONE_WRITER)
    known = {offset.position.file_no, *(file.file_no for file in offset.files)}
    earlier = [number for number in watched.names() if number < offset.position.file_no and number not in known]
    if earlier and offset.fingerprint:
        reason = "the file came up after reading had gone on in a later one, but its first event is of an earlier time"
        at = Place(watched.files.path_of(watched.names()[earlier[0]]))
        return lost("FILE_GREW", reason, at=at, go_on=_accepted(watched, offset), hint=_ONE_WRITER)
    return Decision(offset, "what was read is still there")


def _accepted(watched: WatchedLog, offset: SourceOffset) -> SourceOffset:
    """*offset*, with the files as they are now, so that a loss is reported once."""
    file_no = offset.position.file_no
    files = tuple(
        KnownFile(number, watched.files.size_of(number) if number < file_no else None)
        for number in watched.names()
        if number != file_no
    )
    return replace(offset, files=files)
