"""Check that the log still contains what a query consumed: `compare(watched, offset)` -> `Decision`, with a reason.

A position alone is only numbers: after a crash the server writes other transactions, with the same GTIDs, into the same
pages; after RESET MASTER or a restore other files carry the same names. So an offset also names the file it lies in and
the bytes right before it, and both are looked at again before anything is read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_connector.following.decision import Decision, lost
from binlog_connector.following.entry_resume import compare_batch, compare_entries
from binlog_connector.following.log_end import end_of_log, start_of_file, start_of_log
from binlog_connector.following.watched import WatchedLog, file_start, written_order
from binlog_format.errors import DataLossError
from binlog_format.gtids.gtid_set import NO_GTIDS, GtidSet
from binlog_format.position import Place

if TYPE_CHECKING:
    from binlog_connector.following.offsets import SourceOffset
    from binlog_format.gtids.gtid_set import GtidPoint

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
