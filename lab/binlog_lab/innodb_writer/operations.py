"""Replay of the work of a server's sessions: `replay` makes a `Player` do one `WriterStep` after the other.

Steps come from an `.ops` file (`operation_stream.read_steps`) or from anywhere else.
"""

from __future__ import annotations

import shutil
import struct
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from binlog_format.errors import CorruptError
from binlog_format.position import Place
from binlog_lab.innodb_writer.files import find_files
from binlog_lab.innodb_writer.operations_layout import SNAPSHOT_WITH_PARTIAL_PAGE, OperationCode
from binlog_lab.innodb_writer.sessions import Cache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from binlog_format.gtids.gtid import Gtid
    from binlog_lab.innodb_writer.server import BinlogWriter
    from binlog_lab.innodb_writer.sessions import Xid

GROUP_OPERATIONS = frozenset({OperationCode.COMMIT, OperationCode.RAW_COMMIT, OperationCode.XA_COMMIT})
"""Operations that end an event group."""

REDO_OPERATIONS = frozenset({OperationCode.MARK, OperationCode.CRASH})
"""Operations that need a writer whose redo log is durable only on request (`RedoSync.EXPLICIT`)."""


@dataclass(frozen=True, slots=True)
class WriterStep:
    """One operation; which attributes count depends on it.

    Attributes:
        sid: Number of the session.
        cache: Where events go to.
        data: Event bytes: of the session, the GTID event of a commit, the Format_description event of a start.
        xid: Of an XA operation; of a commit: it is a two-phase one.
        number: A savepoint, the engines of an XA PREPARE, the mode of a snapshot, the first file that a purge leaves.
        gtids: A new GTID state; None: it stays.
        name: Of a snapshot.
    """

    operation: OperationCode
    sid: int = 0
    cache: Cache = Cache.TRANSACTIONAL
    data: bytes = b""
    gtid: Gtid | None = None
    xid: Xid | None = None
    number: int = 0
    gtids: tuple[Gtid, ...] | None = None
    name: str = ""


class PlacedStep(NamedTuple):
    """A step, and where it is in its file: the bytes from *start* to *end*, and in words."""

    start: int
    end: int
    step: WriterStep
    where: str


def replay(steps: Iterable[PlacedStep], player: Player, file_name: str) -> int:
    """Run *steps* with *player*.

    Args:
        file_name: Where they come from, for errors.

    Returns:
        How many there were.

    Raises:
        CorruptError: `BAD_ENTRY`: a step that cannot be.
    """
    count = 0
    for placed in steps:
        try:
            player.play(placed.step)
        except (struct.error, ValueError, KeyError) as error:
            raise bad_entry(file_name, placed.start, placed.where, error) from error
        count += 1
    return count


def bad_entry(file_name: str, byte: int, where: str, problem: Exception | str) -> CorruptError:
    """The error for a step that cannot be understood, or not be done."""
    if isinstance(problem, KeyError):
        problem = f"{problem.args[0]} is not known"
    return CorruptError("BAD_ENTRY", f"{where}: {problem}", at=Place(file_name, byte=byte))


class Player:
    """Does steps with a writer.

    Args:
        writer: Does them; stays open.
        snapshots: Folder for the copies of the directory that the steps ask for; None: none are made.
    """

    def __init__(self, writer: BinlogWriter, snapshots: Path | None = None) -> None:
        self._writer = writer
        self._snapshots = snapshots
        self._actions: dict[OperationCode, Callable[[WriterStep], object]] = {
            OperationCode.BEGIN: lambda step: writer.begin(step.sid),
            OperationCode.EVENT: lambda step: writer.event(step.sid, step.data, step.cache),
            OperationCode.SPILL: lambda step: writer.spill(step.sid, step.cache),
            OperationCode.PIECE: lambda step: writer.piece(step.sid, step.data, step.cache),
            OperationCode.COMMIT: lambda step: writer.commit(step.sid, _gtid(step), step.data, two_phase=step.xid),
            OperationCode.ROLLBACK: lambda step: writer.rollback(step.sid),
            OperationCode.XA_PREPARE: lambda step: writer.xa_prepare(step.sid, _xid(step), step.number),
            OperationCode.XA_COMMIT: lambda step: writer.xa_commit(_xid(step), _gtid(step), step.data),
            OperationCode.XA_ROLLBACK: lambda step: writer.xa_rollback(_xid(step)),
            OperationCode.RAW_COMMIT: lambda step: writer.raw_commit(step.data),
            OperationCode.FLUSH: lambda step: writer.flush_logs(step.gtids),
            OperationCode.SAVEPOINT: lambda step: writer.savepoint(step.sid, step.number),
            OperationCode.ROLLBACK_TO: lambda step: writer.rollback_to(step.sid, step.number),
            OperationCode.STATEMENT_START: lambda step: writer.statement_start(step.sid),
            OperationCode.STATEMENT_ROLLBACK: lambda step: writer.statement_rollback(step.sid),
            OperationCode.SNAPSHOT: self._snapshot,
            OperationCode.RESTART: lambda step: writer.restart(step.data),
            OperationCode.MARK: lambda _: writer.sync_redo(),
            OperationCode.CRASH: lambda step: writer.crash(step.data),
            OperationCode.CHECKPOINT: lambda _: writer.checkpoint(),
            OperationCode.RESET_MASTER: lambda step: writer.reset_master(step.gtids or ()),
            OperationCode.PURGE: lambda step: writer.purge(step.number),
        }

    def play(self, step: WriterStep) -> None:
        """Do *step*.

        Raises:
            ValueError: It cannot be done now, for example a RESET MASTER while an XA transaction is prepared.
            KeyError: It names something that is not there.
        """
        self._actions[step.operation](step)

    def _snapshot(self, step: WriterStep) -> None:
        if step.number == SNAPSHOT_WITH_PARTIAL_PAGE:
            self._writer.checkpoint()
        if self._snapshots is None:
            return
        name = PurePath(step.name)
        if not step.name or name.is_absolute() or ".." in name.parts:
            raise ValueError(f"a snapshot cannot have the name {step.name!r}")
        target = self._snapshots / name
        target.mkdir(parents=True, exist_ok=True)
        for path in find_files(target).values():
            path.unlink()
        for path in find_files(self._writer.directory).values():
            shutil.copyfile(path, target / path.name)


def _gtid(step: WriterStep) -> Gtid:
    if step.gtid is None:
        raise ValueError("the GTID is missing")
    return step.gtid


def _xid(step: WriterStep) -> Xid:
    if step.xid is None:
        raise ValueError("the XID is missing")
    return step.xid
