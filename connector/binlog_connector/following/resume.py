"""Check that the log still contains what a query consumed: `compare(watched, offset)` -> `Decision`, with a reason.

A position alone is only numbers: after a crash the server writes other transactions, with the same GTIDs, into the same
pages; after RESET MASTER or a restore other files carry the same names. So an offset also names the file it lies in and
the bytes right before it, and both are looked at again before anything is read.

A structured log has no GTIDs that would tell what is missing, and programs do with its files what they like. So an
offset names all of them: one that was passed must not grow, one that was to come must not go (`compare_entries`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_connector.following.decision import Decision, lost
from binlog_connector.following.entry_marks import KnownFile, files_within
from binlog_connector.following.log_end import end_of_log, offset_at, start_of_file, start_of_log
from binlog_connector.following.watched import WatchedLog, file_start, written_order
from binlog_format.errors import DataLossError
from binlog_format.gtids.gtid_set import NO_GTIDS, GtidSet
from binlog_format.position import BEFORE_ALL, Place, position_of

if TYPE_CHECKING:
    from binlog_connector.following.offsets import SourceOffset
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_format.position import Position


_START_AGAIN = (
    "Begin anew with a new checkpoint or offset file (after a full copy of the tables), or set option "
    "failOnDataLoss=false"
)
_KEEP_FILES = f"Keep binlog files until they have been read (binlog_expire_logs_seconds, PURGE). {_START_AGAIN}"
_SERVER_CRASHED = f"The server crashed and lost its last transactions, after this query had read them. {_START_AGAIN}"
_OTHER_LOG = f"Name the log that belongs to this checkpoint or offset file. {_START_AGAIN}"
_LOG_RESET = (
    "RESET MASTER was executed, or another server's files are there: after a failover a job goes on in them by "
    f"binlog-stream switch. {_START_AGAIN}"
)


def compare(watched: WatchedLog, offset: SourceOffset) -> Decision:
    """Compare what was consumed before *offset* with what is there now; lists the directory and reads one page."""
    decision = _compare(watched, offset)
    if decision.loss is None:
        return decision
    return _other_vendor(watched, offset) or decision


def compare_range(watched: WatchedLog, start: SourceOffset, end: SourceOffset) -> Decision:
    """Like `compare`, for a batch of a structured log from *start* to *end*: all that was planned must be there."""
    decision = compare(watched, replace(start, ended_inode=0))  # events followed, so more than a doubt is lost
    return decision if decision.loss is not None else replace(decision, loss=compare_batch(watched, start, end))


def is_same_log(path: str, format_name: str | None, offset: SourceOffset) -> bool:
    """True if the bytes consumed before *offset* are in the log at *path*: it is the same log, elsewhere.

    Where the file is not there (any more, or yet), or nothing had been written into it, that cannot be known: False.
    """
    if not offset.fingerprint:
        return False
    with WatchedLog(path, format_name) as watched:
        return watched.has(offset.position.file_no) and compare(watched, offset).loss is None


def _other_vendor(watched: WatchedLog, offset: SourceOffset) -> Decision | None:
    """The error for an offset whose GTIDs no server of this log writes."""
    first = start_of_log(watched)
    is_of_mysql = isinstance(offset.gtid, GtidSet)
    if not offset.gtid or not first.fingerprint or is_of_mysql == isinstance(first.gtid, GtidSet):
        return None
    theirs, ours = ("MySQL", "MariaDB") if is_of_mysql else ("MariaDB", "MySQL")
    reason = (
        f"{watched.log.path}: this is the log of a {ours} server; what was read up to GTID {offset.gtid} was the "
        f"log of a {theirs} server"
    )
    return lost("FORMAT_CHANGED", reason, go_on=first, hint=_OTHER_LOG)


def _compare(watched: WatchedLog, offset: SourceOffset) -> Decision:
    log = watched.log
    if offset.format and offset.format != log.format_name:
        reason = f"{log.path}: the log was {offset.format} when this query read it, and is {log.format_name} now"
        # Positions of the two have nothing in common; what was consumed is left out by its GTIDs.
        skip = offset.gtid if log.traits.has_changes else NO_GTIDS
        go_on = replace(start_of_log(watched), skip_gtid=skip)
        return lost("FORMAT_CHANGED", reason, go_on=go_on, hint=_START_AGAIN)
    if not log.traits.has_changes:
        return compare_entries(watched, offset)
    file_no = offset.position.file_no
    is_there = watched.has(file_no)
    names = watched.names()
    if not is_there:
        return _compare_without_file(watched, offset, names)
    decision = _compare_with_file(watched, offset, names)
    if decision.loss is not None and watched.is_gone(file_no):
        return _compare_without_file(watched, offset, watched.names())  # it was purged since the directory was read
    return decision


def _compare_with_file(watched: WatchedLog, offset: SourceOffset, names: dict[int, str]) -> Decision:
    file_no = offset.position.file_no
    identity = watched.files.identity(file_no)
    if offset.fingerprint and not identity:
        return _upper_end_is_gone(watched, offset, {number: names[number] for number in names if number < file_no})
    if offset.fingerprint and identity != offset.fingerprint:
        return _other_file(watched, offset, names, identity)
    return _compare_bytes(watched, offset, names[file_no])


def _compare_without_file(watched: WatchedLog, offset: SourceOffset, names: dict[int, str]) -> Decision:
    file_no = offset.position.file_no
    lowest, highest = min(names), max(names)
    if file_no > highest:
        if file_no == highest + 1 and not offset.fingerprint:
            return Decision(offset, "the next file is not there yet")
        return _upper_end_is_gone(watched, offset, names)
    following = min(number for number in names if number > file_no)
    is_stated = states_gtids(watched, following)  # looked at first: the start may come at any moment
    go_on = start_of_log(watched) if following == lowest else start_of_file(watched, following)
    is_stated |= following == lowest and bool(go_on.gtid)
    if offset.gtid and is_stated and go_on.gtid == offset.gtid:
        return Decision(go_on, f"file {file_no} was purged after all of it had been read")
    if offset.gtid and not is_stated:
        has_groups = watched.log.span(file_start(following)).groups > 0
        if has_groups and states_gtids(watched, following):
            return _compare_without_file(watched, offset, names)
        if not has_groups:
            what = f"the start of {names[following]}, which has its GTIDs, is not there yet"
            return Decision(offset, f"file {file_no} was purged, and {what}", is_waiting=True)
    if offset.gtid and is_stated and not go_on.gtid:
        what = f"{names[following]} records that nothing was logged before it, read was up to GTID {_said(offset.gtid)}"
        return lost("LOG_RESET", f"{watched.log.path}: {what}", go_on=go_on, hint=_LOG_RESET)
    purged = go_on.gtid.without(offset.gtid) if offset.gtid and not offset.fingerprint else NO_GTIDS
    if file_no < lowest and purged:
        # Of that file nothing had been read: its GTIDs are all that is known of it.
        what = f"the log begins at {names[lowest]} after GTID {_said(go_on.gtid)}, read was up to {_said(offset.gtid)}"
        return lost(
            "GTID_PURGED", f"{watched.log.path}: {what}: up to {purged} is missing", go_on=go_on, hint=_KEEP_FILES
        )
    missing = f"transactions after GTID {_said(offset.gtid)} up to {_said(go_on.gtid)} are missing"
    if file_no < lowest:
        what = f"file {file_no} was purged before it had been read to its end, the earliest is {names[lowest]}"
    else:
        what = f"file {file_no} is gone, but there are files before and after it"
    return lost("FILE_PURGED", f"{watched.log.path}: {what}: {missing}", go_on=go_on, hint=_KEEP_FILES)


def first_batch_purged(path: str, start: SourceOffset, end: SourceOffset) -> DataLossError:
    """The error for a first batch, up to *end*, that was begun when the log did not begin at *start* yet."""
    reason = f"the first batch was to end at {end.position}, and the log begins at {start.position} now: it was purged"
    return DataLossError("FILE_PURGED", f"{path}: {reason}", hint=_KEEP_FILES)


def states_gtids(watched: WatchedLog, file_no: int) -> bool:
    """True if the start of a file is there, which states the GTIDs before it, or that there are none."""
    files = [file for file in watched.log.files() if file.file_no == file_no]
    return any(gtids.first is not None for gtids in watched.log.file_gtids(files))


def _upper_end_is_gone(watched: WatchedLog, offset: SourceOffset, left: dict[int, str]) -> Decision:
    """The file has been read, and is not there or unwritten now; *left* are the files before it."""
    reason = f"{watched.log.path}: file {offset.position.file_no} has been read, but the log ends before it now"
    last = next((number for number in reversed(left) if watched.files.identity(number)), None)
    # The server goes on with a higher order after RESET MASTER; after a crash, what is left was written before.
    if last is None or written_order(watched.files.identity(last)) >= written_order(offset.fingerprint):
        return lost("LOG_RESET", reason, go_on=start_of_log(watched), hint=_LOG_RESET)
    end = end_of_log(watched)
    return lost("TRUNCATED_TRANSACTION", reason + _was_read(offset, end), go_on=end, hint=_SERVER_CRASHED)


def _other_file(watched: WatchedLog, offset: SourceOffset, names: dict[int, str], identity: str) -> Decision:
    file_no = offset.position.file_no
    at = Place(watched.files.path_of(names[file_no]))
    reason = f"this is not the file that was read before: identity stored {offset.fingerprint}, now {identity}"
    lowest = min(names)
    if written_order(watched.files.identity(lowest)) > written_order(offset.fingerprint):
        reason += f"; the whole log is newer, from {names[lowest]} on"
        return lost("LOG_RESET", reason, at=at, go_on=start_of_log(watched), hint=_LOG_RESET)
    hint = f"The server recovered from a crash, or the files were restored from a backup. {_START_AGAIN}"
    return lost("FILE_REUSED", reason, at=at, go_on=start_of_file(watched, file_no), hint=hint)


def _compare_bytes(watched: WatchedLog, offset: SourceOffset, name: str) -> Decision:
    if offset.last_page_crc is None:
        return Decision(offset, "nothing was consumed before this offset")
    position = offset.position
    computed = watched.consumed_crc(position)
    if computed == offset.last_page_crc:
        return Decision(offset, "what was consumed is still there")
    at = Place(watched.files.path_of(name), page=position.page)
    if computed is None:
        reason = f"the log was read up to {position}, but ends before that now"
        end = end_of_log(watched)
        return lost("TRUNCATED_TRANSACTION", reason + _was_read(offset, end), at=at, go_on=end, hint=_SERVER_CRASHED)
    reason = (
        "the page was written again with other content after it had been read: "
        f"CRC-32C of the consumed part: stored {offset.last_page_crc:#010x}, computed {computed:#010x}"
    )
    # Chunks lie elsewhere now; the file is read again, and what was consumed left out by its GTIDs.
    go_on = replace(start_of_file(watched, position.file_no), skip_gtid=offset.gtid)
    return lost("PAGE_REWRITTEN", reason, at=at, go_on=go_on, hint=_SERVER_CRASHED)


def _was_read(offset: SourceOffset, end: SourceOffset) -> str:
    return f": read up to GTID {_said(offset.gtid)}, the last one there is {_said(end.gtid)}"


def _said(gtid: GtidPoint) -> str:
    return str(gtid) or "(none)"


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
