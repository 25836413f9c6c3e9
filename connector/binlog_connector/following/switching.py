"""The place in another server's log where a reader goes on: `find_switch(watched, offset)`, by GTIDs.

Both ways are checked. The other log has all that was taken, and before the last transaction that was taken it has none
that was not: such a transaction is errant (only that server has executed it), and would be taken too late, or never.

* MySQL's sets tell both exactly. Replicas with `replica_preserve_commit_order=OFF` log transactions that do not depend
  on each other in another order than their source. So one that was not taken may be before some of the same server
  that were: they are taken in either order.
* MariaDB's positions have the last number of each domain alone. A domain that was never taken from is errant; within a
  domain, the log that was read so far is compared, transaction by transaction, while it is there; without it, numbers
  that do not grow show that two servers have counted in one domain. XA transactions that change nothing (an INSERT
  IGNORE of a row that exists) are in the log of the server where they were executed, and not in those of its replicas.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_connector.following.log_end import end_of_log, offset_at
from binlog_connector.following.offsets import skip_at
from binlog_connector.following.resume import states_gtids
from binlog_format.errors import DataLossError, StartError, SwitchError
from binlog_format.events.layout import EventType
from binlog_format.gtids.gtid import Gtid, GtidPosition
from binlog_format.gtids.gtid_history import covered_groups, gtid_of, gtids_of, mariadb_gtid
from binlog_format.gtids.gtid_search import GtidSearch
from binlog_format.gtids.gtid_set import DomainStarts, GtidSet, MysqlGtid
from binlog_format.log.log import shown_position
from binlog_format.messages import count_text
from binlog_format.position import Place, Position
from binlog_format.transactions.control_statement_kernels import FIELD_EVENT, FIELD_KIND, KIND_XA
from binlog_format.transactions.control_statements import read_control_statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.following.watched import WatchedLog
    from binlog_format.block import Table
    from binlog_format.gtids.gtid import GtidSource
    from binlog_format.gtids.gtid_set import AnyGtid, GtidPoint
    from binlog_format.kernels import Int64s, Mask
    from binlog_format.log.log import Log
    from binlog_format.log_format import GtidStart, Heads

_NAMED_MAX = 5
"""Transactions that an error names."""
_LOOK_BACK = 1000
"""Transactions at the end of what was taken of which all may change nothing."""
_QUIET = np.array(
    [EventType.MARIADB_GTID, EventType.XA_PREPARE, EventType.XID, EventType.ANNOTATE_ROWS], dtype=np.uint8
)
"""Events that change nothing."""
_COPY = "Or take the tables again from this server: a new checkpoint, an empty sink.directory, binlog-stream snapshot"
_GROUP = np.dtype(
    [
        ("domain", np.uint32),
        ("server_id", np.uint32),
        ("seqno", np.uint64),
        ("timestamp", np.uint32),
        ("file_no", np.int64),
        ("page", np.int64),
        ("chunk", np.int64),
    ]
)


class Ignored(NamedTuple):
    """Transactions of MariaDB that are not read: it does not matter where they are, or that they are missing.

    Attributes:
        domains: All of these domains.
        servers: All of servers with these ids.
    """

    domains: frozenset[int] = frozenset()
    servers: frozenset[int] = frozenset()

    def are_read(self, groups: Table) -> Mask:
        """True for each transaction that is read."""
        is_ignored = np.isin(groups["domain"], list(self.domains)) | np.isin(groups["server_id"], list(self.servers))
        return np.asarray(~is_ignored)


class OldLog(NamedTuple):
    """The log that was read so far, still there up to the offset. *end*: where the offset is."""

    log: Log
    end: Position


@dataclass(slots=True)
class ErrantTransactions:
    """Transactions that another server's log has, and that were not taken.

    Attributes:
        named: GTID and place of the first ones.
    """

    log: Log
    named: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, gtid: object, group: np.void) -> None:
        """One more; *group* has its place."""
        self.count += 1
        if len(self.named) < _NAMED_MAX:
            position = Position.of(group)
            self.named.append(f"{gtid} at {self.log.server_position(position) or position}")

    def refuse(self) -> None:
        """Raise the error, if there is one."""
        if self.count:
            more = f", and {self.count - len(self.named):,} more" if self.count > len(self.named) else ""
            raise SwitchError(
                "ERRANT_TRANSACTIONS",
                f"the log has {count_text(self.count, 'transaction')}, before the last one that was taken, not taken: "
                f"{', '.join(self.named)}{more}",
                at=Place(self.log.path),
                hint="This server has executed them and the one before has not: choose a server without them. " + _COPY,
            )


def find_switch(
    watched: WatchedLog, offset: SourceOffset, *, ignored: Ignored, old: OldLog | None = None
) -> SourceOffset:
    """Find the offset in another server's log after all that was taken before *offset*, which is of the log so far.

    Args:
        offset: Where reading would go on in the log so far.
        old: The log so far; None: it is not there any more.
    """
    log = watched.log
    taken = offset.gtid.advanced_by(offset.skip_gtid)
    # The newest file may have a name, and no GTIDs yet: what counts is the end of the last group.
    logged = end_of_log(watched).gtid if log.traits.has_changes else taken
    if log.traits.has_changes and not logged and not states_gtids(watched, min(watched.names())):
        raise StartError(
            "NO_LOG_FILES",
            f"{log.path}: the start of its first file, which has the GTIDs before it, is not there yet",
            hint="Call it again when the server has written it",
        )
    if not taken or not logged or not log.traits.has_changes:
        what = f"the log at {log.path}" if taken else "what was read so far"
        raise SwitchError(
            "NO_GTIDS",
            f"{what} has no GTIDs: nothing tells which transaction is which on another server",
            at=Place(log.path),
            hint="Turn GTIDs on (MySQL: gtid_mode=ON) for the next time. " + _COPY,
        )
    if isinstance(taken, GtidSet) and isinstance(logged, GtidSet):
        return _in_set(watched, taken, logged)
    if isinstance(taken, GtidPosition) and isinstance(logged, GtidPosition):
        return _in_domains(watched, taken, logged, ignored, old)
    kinds = ("MySQL", "MariaDB") if isinstance(logged, GtidSet) else ("MariaDB", "MySQL")
    raise _other_server(log, f"it is the log of a {kinds[0]} server, what was read so far is of {kinds[1]}")


def _in_set(watched: WatchedLog, taken: GtidSet, logged: GtidSet) -> SourceOffset:
    log = watched.log
    missing = taken.without(logged)
    if missing == taken:
        raise _other_server(log, f"it has none of the transactions that were taken, {taken}; it has {logged}")
    if missing:
        raise _missing(log, missing, logged)
    _, first = log.gtids_before_start()
    purged = first.without(taken)
    if purged:
        raise _purged(log, f"{purged} is older than its first file, and was not taken")
    start = log.position_of(taken)
    errant, waiting = ErrantTransactions(watched.log), taken.without(start.before)
    later: list[tuple[AnyGtid | str, np.void]] = []
    for heads in log.heads(start.position, None) if waiting else ():
        waiting = _sort_set(heads, taken, waiting, later, errant)
        if not waiting:
            break
    errant.refuse()
    return _offset(watched, taken, start)


def _sort_set(
    heads: Heads,
    taken: GtidSet,
    waiting: GtidSet,
    later: list[tuple[AnyGtid | str, np.void]],
    errant: ErrantTransactions,
) -> GtidSet:
    """Find what was not taken in some groups, *later* until a group comes that was; the rest of *waiting*."""
    groups = heads.groups
    covered = covered_groups(taken, groups, heads.sources)
    others = np.flatnonzero(groups["begins"] & ~covered)
    last = _last_of_servers(groups, np.flatnonzero(covered), heads.sources)
    left, later[:] = [(-1, *found) for found in later], []
    for row in others.tolist():
        left.append((row, gtid_of(groups[row], heads.sources) or "a transaction without a GTID", groups[row].copy()))
    for row, gtid, group in left:
        server = gtid.source.uuid if isinstance(gtid, MysqlGtid) else ""
        if any(at > row for other, at in last.items() if other != server):
            errant.add(gtid, group)
        else:
            later.append((gtid, group))
    return waiting.without(gtids_of(groups[groups["ends"]], heads.sources))


def _last_of_servers(groups: Table, rows: Int64s, sources: Sequence[GtidSource]) -> dict[str, int]:
    """The last one of some groups, ascending *rows*, of each server that committed one first, by UUID."""
    numbers, backwards = np.unique(groups["gtid_source"][rows[::-1]], return_index=True)
    found: dict[str, int] = {}
    for number, at in zip(numbers.tolist(), rows[::-1][backwards].tolist(), strict=True):
        uuid = sources[number].uuid
        found[uuid] = max(at, found.get(uuid, -1))
    return found


def _in_domains(
    watched: WatchedLog, taken: GtidPosition, logged: GtidPosition, ignored: Ignored, old: OldLog | None
) -> SourceOffset:
    log = watched.log
    before = None if old is None else _groups_until(old.log, old.end, None)[0]
    wanted = GtidPosition({domain: gtid for domain, gtid in taken.last.items() if domain not in ignored.domains})
    ends = {domain: _place_after(log, gtid) for domain, gtid in wanted.last.items()}
    if old is not None and before is not None:
        for domain in [domain for domain, end in ends.items() if end is None]:
            gtid = _last_change(log, old, before[before["domain"] == domain], wanted.last[domain])
            taken = GtidPosition({**taken.last, domain: gtid})
            wanted = GtidPosition({**wanted.last, domain: gtid})
            ends[domain] = _place_after(log, gtid)
    missing = GtidPosition({domain: wanted.last[domain] for domain, end in ends.items() if end is None})
    if missing and missing == wanted and not _servers(missing) & _servers(logged):
        raise _other_server(log, f"it has none of the transactions that were taken, up to {taken}; it ends at {logged}")
    if missing:
        raise _missing(log, missing, logged)
    try:
        start = log.position_of(taken)
    except (DataLossError, StartError) as error:
        raise _purged(log, error.reason) from error
    assert isinstance(start.taken, DomainStarts), "the log is MariaDB's"
    groups, covered = _groups_until(log, max(filter(None, ends.values()), default=log.start_position()), start.taken)
    is_read = ignored.are_read(groups)
    errant = ErrantTransactions(watched.log)
    _add(errant, groups[~covered & is_read & ~np.isin(groups["domain"], list(taken.last))])
    ours = groups[covered & is_read]
    if old is None or before is None:
        _add(errant, ours[_goes_back(ours)])
    else:
        _compare(log, old.log, errant, before[ignored.are_read(before)], ours)
    errant.refuse()
    return _offset(watched, taken, start)


def _place_after(log: Log, gtid: Gtid) -> Position | None:
    """The place after a group; the log's start, if it is the last one before that; None: the log does not have it."""
    found = GtidSearch(log).find(gtid)
    if found is not None:
        return found.next_position
    _, first = log.gtids_before_start()
    last = first.last.get(gtid.domain) if isinstance(first, GtidPosition) else None
    if last == gtid:
        return log.start_position()
    if last is not None and last.seqno > gtid.seqno:
        raise _purged(log, f"it begins after {first}, the last transaction that was taken is {gtid}")
    return None


def _servers(point: GtidPosition) -> set[tuple[int, int]]:
    return {(gtid.domain, gtid.server) for gtid in point.last.values()}


def _groups_until(log: Log, end: Position, taken: DomainStarts | None) -> tuple[Table, Mask]:
    """Transactions of a log before *end*, and which of them *taken* covers; None: all."""
    parts, covered, start = [np.empty(0, _GROUP)], [np.empty(0, np.bool_)], log.start_position()
    if end < start:
        raise _purged(log, f"its files before {shown_position(log, start)} were purged while it was looked at")
    for heads in log.heads(start, end):
        groups = heads.groups[heads.groups["has_gtid"] & heads.groups["begins"]]
        part = np.empty(len(groups), _GROUP)
        for name in _GROUP.names or ():
            part[name] = groups[name]
        parts.append(part)
        covered.append(np.ones(len(groups), np.bool_) if taken is None else taken.covered(groups))
    return np.concatenate(parts), np.concatenate(covered)


def _add(errant: ErrantTransactions, groups: Table) -> None:
    for group in groups[:_NAMED_MAX]:
        errant.add(mariadb_gtid(group), group)
    errant.count += max(0, len(groups) - _NAMED_MAX)


def _goes_back(groups: Table) -> Mask:
    """True where a transaction's number is not larger than all before it in its domain."""
    found = np.zeros(len(groups), np.bool_)
    for domain in np.unique(groups["domain"]):
        rows = np.flatnonzero(groups["domain"] == domain)
        seqnos = groups["seqno"][rows]
        found[rows[1:]] = seqnos[1:] <= np.maximum.accumulate(seqnos)[:-1]
    return found


def _compare(log: Log, old: Log, errant: ErrantTransactions, before: Table, ours: Table) -> None:
    """Compare transactions of the log so far with those of another server's, domain by domain, where both have some."""
    keys = np.concatenate([before, ours])[["domain", "server_id", "seqno"]]
    _, ids = np.unique(keys, return_inverse=True)
    here, there = ids[: len(before)], ids[len(before) :]
    is_there, is_here = np.isin(here, there), np.isin(there, here)
    if not is_there.any():
        _add(errant, ours[_goes_back(ours)])
        return
    times = np.zeros(len(keys), np.uint32)
    times[here] = before["timestamp"]
    if not (times[there[is_here]] == ours["timestamp"][is_here]).any():
        first = mariadb_gtid(ours[int(np.flatnonzero(is_here)[0])])
        raise _other_server(log, f"its transactions have the same numbers, and were committed at other times ({first})")
    for domain in np.unique(ours["domain"]):
        lacking = _changing(old, before[_unmatched(before["domain"] == domain, is_there)])
        if len(lacking):
            raise _missing(log, ", ".join(str(mariadb_gtid(group)) for group in lacking[:_NAMED_MAX]), "later ones")
        _add(errant, _changing(log, ours[_unmatched(ours["domain"] == domain, is_here)]))


def _last_change(log: Log, old: OldLog, rows: Table, gtid: Gtid) -> Gtid:
    """The last transaction up to *gtid* that *log* has, if those after it change nothing; else *gtid*.

    Args:
        rows: Its transactions of one domain.
    """
    for number in range(len(rows) - 1, max(-1, len(rows) - _LOOK_BACK), -1):
        found = mariadb_gtid(rows[number])
        if _place_after(log, found) is not None:
            return gtid if len(_changing(old.log, rows[number + 1 :])) else found
    return gtid


def _changing(log: Log, groups: Table) -> Table:
    """Those of *groups*, transactions of *log* in its order, that change something; XA ones do where they commit."""
    if not len(groups):
        return groups
    names = ["domain", "server_id", "seqno"]
    keys = groups[names]
    is_loud, is_read = np.zeros((2, len(groups)), np.bool_)
    first, last = (Position.of(groups[row]) for row in (0, -1))
    for block in log.committed_blocks(first):
        found = np.empty(len(block.groups), keys.dtype)
        for name in names:
            found[name] = block.groups[name]
        xa = read_control_statements(block).table
        is_quiet = np.isin(block.events["type"], _QUIET)
        is_quiet[xa[xa[:, FIELD_KIND] == KIND_XA, FIELD_EVENT]] = True
        is_loud |= np.isin(keys, found[np.unique(block.events["group"][~is_quiet])])
        is_read |= np.isin(keys, found)
        if block.next_position > last:
            break
    return groups[is_loud | ~is_read]


def _unmatched(of_domain: Mask, is_common: Mask) -> Int64s:
    """Rows of a domain that one side alone has, after the first one that both have."""
    rows = np.flatnonzero(of_domain)
    common = np.flatnonzero(is_common[rows])
    later = rows[common[0] :] if len(common) else rows[:0]
    return later[~is_common[later]]


def _offset(watched: WatchedLog, taken: GtidPoint, start: GtidStart) -> SourceOffset:
    skip = skip_at(taken, start.taken, start.position, start.before)
    return offset_at(watched, start.position, gtid=start.before, skip=skip)


def _other_server(log: Log, reason: str) -> SwitchError:
    hint = "Name the log of a server that replicates from the one before, or from the same primary"
    return SwitchError("OTHER_SERVER", reason, at=Place(log.path), hint=hint)


def _missing(log: Log, missing: object, logged: object) -> SwitchError:
    return SwitchError(
        "MISSING_GTIDS",
        f"{missing} was taken, and the log does not have it; it has {logged}",
        at=Place(log.path),
        hint="If the server still replicates, wait for it, and see that it logs what it replicates "
        "(log_slave_updates, log_replica_updates). Else it never got them: choose another server. " + _COPY,
    )


def _purged(log: Log, reason: str) -> SwitchError:
    return SwitchError(
        "PURGED",
        f"the log does not reach back to where the job is: {reason}",
        at=Place(log.path),
        hint="Name an archive of this server's log as source.archive, or a server whose log goes back further. "
        + _COPY,
    )
