"""The log of a Delta table: `read_log` gives what its newest version holds, `make_commit` makes the next version.

deltalake does not tell which deletion vector a file has, and cannot commit one; so the log is read and written here.
The actions are written as the Delta protocol defines them.

A RESTORE makes a new version with the files of an older one. The transactions of applications stay as they are: by
them alone the table would seem to hold the steps that were taken away.
"""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec
from deltalake.exceptions import CommitFailedError, DeltaError

from binlog_streaming.lake.delta.actions import (
    Add,
    DeltaFileFormat,
    Domain,
    Line,
    Metadata,
    Protocol,
    Remove,
    milliseconds,
)
from binlog_streaming.lake.delta.checkpoints import (
    checkpoint_hint,
    commit_name,
    decoded_lines,
    log_files,
    readable_checkpoint,
)
from binlog_streaming.lake.delta.mapping import ROWS_KEPT, with_row_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from binlog_streaming.lake.store import Store

    Named = tuple[str, object]
    """An action under its name."""


COMMIT_TIMESTAMPS = "delta.enableInCommitTimestamps"
"""Property of tables whose commits have timestamps of their own, each later than the one before."""


@dataclass(slots=True)
class LogHistory:
    """Commits that have been read.

    Attributes:
        steps: Version of the newest commit with a transaction of an application, by application.
        restores: Versions that are a RESTORE, and to which version each one went; None: it does not tell.
    """

    steps: dict[str, int] = field(default_factory=dict)
    restores: dict[int, int | None] = field(default_factory=dict)

    def copy(self) -> LogHistory:
        """The same, to be changed by itself."""
        return replace(self, steps=dict(self.steps), restores=dict(self.restores))

    def take(self, version: int, lines: Iterable[Line]) -> None:
        """Take a commit in; they may come in any order."""
        for line in lines:
            if line.txn is not None:
                self.steps[line.txn.app_id] = max(version, self.steps.get(line.txn.app_id, version))
            if line.commit_info is not None and line.commit_info.operation == "RESTORE":
                self.restores[version] = _restored_version(line.commit_info.operation_parameters)

    def is_set_back(self, application: str) -> bool:
        """True if the table lacks a step that it had, by a RESTORE that no other RESTORE has undone."""
        step = self.steps.get(application)
        lost: dict[int, bool] = {}
        for version, to in sorted(self.restores.items()):
            if step is None or version < step:
                continue
            earlier = [is_lost for at, is_lost in lost.items() if to is not None and at <= to]
            lost[version] = to is None or to < step or (earlier or [False])[-1]
        return any(list(lost.values())[-1:])


def _restored_version(parameters: msgspec.Raw) -> int | None:
    # Spark and deltalake write a number, or the text of one; a RESTORE to a time has none.
    try:
        given = msgspec.json.decode(parameters)
    except msgspec.MsgspecError:
        return None
    text = str(given.get("version")).strip('"') if isinstance(given, dict) else ""
    return int(text) if text.isdecimal() else None


@dataclass(slots=True)
class TableLog:
    """State of a table's version; see `empty_log` for one that is not there.

    Attributes:
        files: Data files, by path and deletion vector.
        removed: Files that were replaced, as far back as the log and its checkpoint have them.
        transactions: Which commit of each application it holds.
        domains: Metadata of features and applications, by domain; each stays until somebody who knows it changes it.
        checkpoint: Version of the checkpoint that the log was read from; -1: none.
        unreadable: Files of newer checkpoints.
        history: Where the steps of jobs are, as far as commits were read; see `look_back`.
        digest: Of the newest commit as it is in the log; empty: it was not read, there is only a checkpoint of it.
        committed_at: In-commit timestamp of the newest commit; None: it has none, or that commit was not read.
        write_cost: What the newest commit that was read and has it records under `COST_KEY`; None: none has.
        lost: Newest commit of each application that this process has seen, and that is not there any more: an older
            copy of the table is in its place.
    """

    version: int
    protocol: Protocol
    metadata: Metadata
    files: dict[tuple[str, str], Add] = field(default_factory=dict)
    removed: dict[tuple[str, str], Remove] = field(default_factory=dict)
    transactions: dict[str, int] = field(default_factory=dict)
    domains: dict[str, Domain] = field(default_factory=dict)
    checkpoint: int = -1
    unreadable: tuple[str, ...] = ()
    history: LogHistory = field(default_factory=LogHistory)
    digest: bytes = b""
    committed_at: int | None = None
    write_cost: str | None = None
    lost: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_there(self) -> bool:
        """True if there is a table."""
        return self.version >= 0

    def copy(self) -> TableLog:
        """The same, to be changed by itself."""
        files, removed, transactions = dict(self.files), dict(self.removed), dict(self.transactions)
        domains, history = dict(self.domains), self.history.copy()
        return replace(self, files=files, removed=removed, transactions=transactions, domains=domains, history=history)

    def take(self, line: Line) -> None:
        """Take the next action in."""
        if line.add is not None:
            self.files[file_key(line.add)] = line.add
            self.removed.pop(file_key(line.add), None)
        if line.remove is not None:
            self.files.pop(file_key(line.remove), None)
            self.removed[file_key(line.remove)] = line.remove
        if line.txn is not None:
            self.transactions[line.txn.app_id] = line.txn.version
        if line.domain_metadata is not None:
            self.domains.pop(line.domain_metadata.domain, None)
            if not line.domain_metadata.removed:
                self.domains[line.domain_metadata.domain] = line.domain_metadata
        self.protocol = line.protocol or self.protocol
        self.metadata = line.meta_data or self.metadata


KEPT_FILES_MAX = 200_000
"""Files of all logs together that a process keeps between two looks."""

_kept: OrderedDict[str, TableLog] = OrderedDict()
_seen: dict[str, tuple[str, Mapping[str, int]]] = {}
"""Id of each table, and the newest commits of applications that it has had, by its place."""
_keeping = threading.Lock()


def newest_log(store: Store) -> TableLog | None:
    """State of the table, as of `read_log`; of a table that was read before, only new commits are read."""
    with _keeping:
        kept = _kept.pop(store.uri, None)
    log = None if kept is None else _gone_on_with(store, kept)
    log = log or read_log(store)
    if log is not None:
        log.lost = _see(store, log)
        with _keeping:
            _kept[store.uri] = log.copy()
            while sum(len(log.files) + len(log.removed) for log in _kept.values()) > KEPT_FILES_MAX:
                _kept.popitem(last=False)
    return log


def _see(store: Store, log: TableLog) -> dict[str, int]:
    """Keep in mind the newest commit of each application; those that the table had and lacks now."""
    known_id, known = _seen.get(store.uri, ("", {}))
    newest = dict(log.transactions)
    lost: dict[str, int] = {}
    if known_id == log.metadata.id:  # else it was deleted, and made anew
        lost = {name: number for name, number in known.items() if newest.get(name, -1) < number}
    _seen[store.uri] = log.metadata.id, newest | lost
    return lost


def newest_checkpoint(store: Store, log: TableLog) -> int:
    """Version of the newest checkpoint, also of one that another process has made since the log was read."""
    return max(log.checkpoint, min(checkpoint_hint(store), log.version))


def learn_checkpoint(store: Store, log: TableLog, version: int) -> None:
    """Note that a checkpoint of *version* exists: the next look in this process starts from it."""
    log.checkpoint, log.unreadable = version, ()
    with _keeping:
        if (kept := _kept.get(store.uri)) is not None:
            kept.checkpoint, kept.unreadable = max(kept.checkpoint, version), ()


def learn_cost(store: Store, log: TableLog, recorded: str) -> None:
    """Note what the newest step records under `COST_KEY`, or that it records nothing."""
    log.write_cost = recorded
    with _keeping:
        if (kept := _kept.get(store.uri)) is not None and kept.write_cost is None:
            kept.write_cost = recorded


def _gone_on_with(store: Store, log: TableLog) -> TableLog | None:
    # None: it is not the log of this table any more, or its newest commit is not there to be compared.
    try:
        if not log.digest or _digest(store.read(commit_name(log.version))) != log.digest:
            return None
        catch_up(store, log)
    except (FileNotFoundError, NotADirectoryError, msgspec.MsgspecError):
        return None
    return log


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def read_log(store: Store) -> TableLog | None:
    """State of the table; None: there is none. Raises `DeltaError`: the log cannot be read."""
    hint = checkpoint_hint(store)
    commits, checkpoints = log_files(store, hint)
    if hint and not checkpoints:
        commits, checkpoints = log_files(store, 0)  # the checkpoint of the hint is not there any more
    version = max([*checkpoints, *commits], default=-1)
    if version < 0:
        return None
    log = empty_log()
    try:
        found = readable_checkpoint(store, checkpoints)
        if found.unreadable and hint:
            found = readable_checkpoint(store, log_files(store, 0)[1])
        log.version, log.checkpoint, log.unreadable = found.version, found.version, found.unreadable
        for line in found.lines:
            log.take(line)
        while log.version < version:
            _take_commit(log, store, log.version + 1)
            log.version += 1
    except (FileNotFoundError, msgspec.MsgspecError, OSError) as error:
        raise DeltaError(f"{store.uri}: its log cannot be read: {error}") from error
    return log


def empty_log() -> TableLog:
    """State of a table before its first commit."""
    nothing = DeltaFileFormat(provider="", options={})
    return TableLog(
        -1,
        Protocol(min_reader_version=0, min_writer_version=0),
        Metadata(id="", format=nothing, schema_string="", partition_columns=(), configuration={}),
    )


def make_commit(
    store: Store, log: TableLog, operation: str, actions: Sequence[Named], recorded: Mapping[str, object] | None = None
) -> None:
    """Make *actions* the next version, and *log* that version.

    Args:
        log: Newest version of the table, as far as we know.
        operation: The name that Delta has for what the commit does.

    Raises:
        CommitFailedError: Somebody else has made the next version.
    """
    store.sync_names()
    about: dict[str, object] = {"timestamp": milliseconds(), "operation": operation, "operationParameters": {}}
    changed = [action for _, action in actions if isinstance(action, Metadata)]
    if (changed or [log.metadata])[-1].configuration.get(COMMIT_TIMESTAMPS) == "true":
        about = {"inCommitTimestamp": max(milliseconds(), _committed_at(store, log) + 1), **about}
    if log.version >= 0:
        about["readVersion"] = log.version
    # A commit is known by its number alone; the id tells it from another one of that number.
    about |= {"engineInfo": "binlog-stream", "txnId": str(uuid.uuid4()), **(recorded or {})}
    if log.metadata.keeps_row_ids:
        tags = about.get("tags")
        about["tags"] = {ROWS_KEPT: "true", **(tags if isinstance(tags, dict) else {})}
    lines: list[Named] = [("commitInfo", about), *with_row_ids(log, actions)]
    content = b"".join(_ENCODER.encode({name: action}) + b"\n" for name, action in lines)
    name = commit_name(log.version + 1)
    # Of an upload whose answer was lost, the next try finds that it is there.
    if not store.create(name, content) and store.read(name) != content:
        raise conflict(store, log)
    _take_commit(log, store, log.version + 1, content)
    log.version += 1
    _see(store, log)


def _committed_at(store: Store, log: TableLog) -> int:
    # The newest commit's own timestamp, which a checkpoint does not have.
    if log.version < 0:
        return 0
    if log.committed_at is None:
        with suppress(FileNotFoundError):
            log.committed_at = _commit_time(decoded_lines(store.read(commit_name(log.version))))
    if log.committed_at is None:
        raise DeltaError(f"{store.uri}: version {log.version} has no in-commit timestamp, which each later one needs")
    return log.committed_at


def _commit_time(lines: Sequence[Line]) -> int | None:
    times = [line.commit_info.in_commit_timestamp for line in lines if line.commit_info is not None]
    return times[0] if times else None


def conflict(store: Store, log: TableLog) -> CommitFailedError:
    """Error for a table that has another version than *log*, and so cannot take what was made for that."""
    return CommitFailedError(f"{store.uri}: version {log.version + 1} already exists: another transaction was first")


def catch_up(store: Store, log: TableLog) -> bool:
    """Make *log* the newest version.

    Returns:
        True if the commits since only put the same rows into other files, as compaction does.
    """
    keeps_rows = True
    while True:
        try:
            lines = _take_commit(log, store, log.version + 1)
        except FileNotFoundError:
            return keeps_rows
        log.version += 1
        keeps_rows &= not any(action.data_change for line in lines if (action := line.add or line.remove) is not None)


def recent_information(store: Store, log: TableLog, count: int) -> Iterator[dict[str, object]]:
    """Information of the last *count* commits, the newest first, as far as they are kept."""
    for number in range(log.version, max(log.version - count, -1), -1):
        try:
            lines = store.read(commit_name(number)).splitlines()
        except FileNotFoundError:
            return
        for line in lines:
            recorded = _INFORMATION.decode(line).commit_info
            if recorded is not None:
                yield recorded


class _Information(msgspec.Struct, rename="camel"):
    commit_info: dict[str, object] | None = None


_ENCODER = msgspec.json.Encoder()
_INFORMATION = msgspec.json.Decoder(_Information)


def _take_commit(log: TableLog, store: Store, number: int, content: bytes | None = None) -> list[Line]:
    content = store.read(commit_name(number)) if content is None else content
    log.digest = _digest(content)
    lines = decoded_lines(content)
    log.committed_at = _commit_time(lines)
    costs = [line.commit_info.write_cost for line in lines if line.commit_info is not None]
    log.write_cost = next(filter(None, costs), log.write_cost)
    log.history.take(number, lines)
    # The order of the actions of one commit means nothing: a file may change its vector.
    for line in sorted(lines, key=lambda line: line.remove is None):
        log.take(line)
    return lines


def look_back(store: Store, log: TableLog, application: str) -> None:
    """Read the last step of *application* into the history of *log*, even if a checkpoint comes after it.

    Where its commit is gone from the log, the oldest one that is there counts as the step.
    """
    if application in log.history.steps or application not in log.transactions:
        return
    oldest = log.checkpoint + 1
    while application not in log.history.steps and oldest > 0:
        try:
            log.history.take(oldest - 1, decoded_lines(store.read(commit_name(oldest - 1))))
        except FileNotFoundError:
            break
        oldest -= 1
    log.history.steps.setdefault(application, oldest)
    with _keeping:
        if (kept := _kept.get(store.uri)) is not None and kept.version == log.version:
            kept.history = log.history.copy()


def file_key(action: Add | Remove) -> tuple[str, str]:
    """Path and deletion vector of a file: with another vector it is another one."""
    return action.path, "" if action.deletion_vector is None else action.deletion_vector.name
