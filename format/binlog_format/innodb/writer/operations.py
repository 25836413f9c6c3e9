"""Does again what a server's sessions did: `replay(path, writer)` for an `.ops` file (`operations_layout`)."""

from __future__ import annotations

import shutil
import struct
from typing import TYPE_CHECKING

from binlog_format.errors import CorruptError, UnsupportedError
from binlog_format.gtid import Gtid
from binlog_format.innodb.writer.files import find_files
from binlog_format.innodb.writer.operations_layout import (
    COMMIT_FLAG_TWO_PHASE,
    FLUSH_FLAG_NEW_STATE,
    GTID_STRUCT,
    I32_STRUCT,
    OPERATIONS_MAGIC,
    SNAPSHOT_WITH_PARTIAL_PAGE,
    U8_STRUCT,
    U32_STRUCT,
    Operation,
)
from binlog_format.innodb.writer.server import Cache
from binlog_format.innodb.writer.xa import Xid
from binlog_format.position import Place

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_format.innodb.writer.server import BinlogWriter


class _Fields:
    """Takes fields off the front of a stream."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self.at = at

    def __bool__(self) -> bool:
        return self.at < len(self._data)

    def u8(self) -> int:
        (value,) = U8_STRUCT.unpack_from(self._data, self.at)
        self.at += U8_STRUCT.size
        return int(value)

    def u32(self) -> int:
        (value,) = U32_STRUCT.unpack_from(self._data, self.at)
        self.at += U32_STRUCT.size
        return int(value)

    def i32(self) -> int:
        (value,) = I32_STRUCT.unpack_from(self._data, self.at)
        self.at += I32_STRUCT.size
        return int(value)

    def blob(self) -> bytes:
        size = self.u32()
        self.at += size
        if self.at > len(self._data):
            raise struct.error("a blob is cut off")
        return self._data[self.at - size : self.at]

    def cache(self) -> Cache:
        return Cache(self.u8())

    def gtid(self) -> Gtid:
        numbers = GTID_STRUCT.unpack_from(self._data, self.at)
        self.at += GTID_STRUCT.size
        return Gtid(*numbers)

    def xid(self) -> Xid:
        return Xid(self.i32(), self.blob(), self.blob())


def replay(path: Path, writer: BinlogWriter, snapshots: Path | None = None) -> int:
    """Let *writer* do the operations of *path*.

    Args:
        path: An `.ops` file.
        writer: Does them; stays open.
        snapshots: Folder for the copies of the directory that the stream asks for; None: none are made.

    Returns:
        How many operations there were.

    Raises:
        CorruptError: `BAD_ENTRY`: not an operation stream, or an operation that cannot be.
        UnsupportedError: `EVENT_TYPE`: crash recovery is not modelled.
    """
    data = path.read_bytes()
    if not data.startswith(OPERATIONS_MAGIC):
        raise CorruptError("BAD_ENTRY", "not an operation stream: it begins otherwise", at=Place(path.name, byte=0))
    fields = _Fields(data, len(OPERATIONS_MAGIC))
    player = _Player(writer, snapshots)
    count = 0
    while fields:
        start = fields.at
        try:
            player.play(fields)
        except (struct.error, ValueError, KeyError) as error:
            problem = f"operation {count}, code {data[start]:#04x}: {error}"
            raise CorruptError("BAD_ENTRY", problem, at=Place(path.name, byte=start)) from error
        count += 1
    return count


class _Player:
    """Does one operation after the other."""

    def __init__(self, writer: BinlogWriter, snapshots: Path | None) -> None:
        self._writer = writer
        self._snapshots = snapshots

    def play(self, fields: _Fields) -> None:
        code = Operation(fields.u8())
        if code in (Operation.MARK, Operation.CRASH):
            raise UnsupportedError("EVENT_TYPE", f"operation {code.name}: crash recovery is not modelled")
        if code == Operation.RAW_COMMIT:
            self._writer.raw_commit(fields.blob())
        elif code == Operation.FLUSH:
            self._flush(fields)
        elif code == Operation.SNAPSHOT:
            self._snapshot(fields.blob().decode(), fields.u8())
        elif code == Operation.RESTART:
            self._writer.restart(fields.blob())
        elif code in (Operation.XA_PREPARE, Operation.XA_COMMIT, Operation.XA_ROLLBACK):
            self._xa(code, fields)
        elif code in (Operation.EVENT, Operation.PIECE, Operation.SPILL):
            self._data(code, fields)
        else:
            self._transaction(code, fields)

    def _data(self, code: Operation, fields: _Fields) -> None:
        sid, cache = fields.u32(), fields.cache()
        if code == Operation.EVENT:
            self._writer.event(sid, fields.blob(), cache)
        elif code == Operation.PIECE:
            self._writer.piece(sid, fields.blob(), cache)
        else:
            self._writer.spill(sid, cache)

    def _transaction(self, code: Operation, fields: _Fields) -> None:
        sid = fields.u32()
        if code == Operation.BEGIN:
            self._writer.begin(sid)
        elif code == Operation.COMMIT:
            flags, gtid, event = fields.u8(), fields.gtid(), fields.blob()
            two_phase = fields.xid() if flags & COMMIT_FLAG_TWO_PHASE else None
            self._writer.commit(sid, gtid, event, two_phase=two_phase)
        elif code == Operation.ROLLBACK:
            self._writer.rollback(sid)
        elif code == Operation.SAVEPOINT:
            self._writer.savepoint(sid, fields.u32())
        elif code == Operation.ROLLBACK_TO:
            self._writer.rollback_to(sid, fields.u32())
        elif code == Operation.STATEMENT_START:
            self._writer.statement_start(sid)
        else:
            self._writer.statement_rollback(sid)

    def _xa(self, code: Operation, fields: _Fields) -> None:
        sid = fields.u32()
        if code == Operation.XA_PREPARE:
            engine_count, xid = fields.u8(), fields.xid()
            self._writer.xa_prepare(sid, xid, engine_count)
        elif code == Operation.XA_COMMIT:
            self._writer.xa_commit(fields.xid(), fields.gtid(), fields.blob())
        else:
            self._writer.xa_rollback(fields.xid())

    def _flush(self, fields: _Fields) -> None:
        has_state = fields.u8() & FLUSH_FLAG_NEW_STATE
        self._writer.flush_logs([fields.gtid() for _ in range(fields.u32())] if has_state else None)

    def _snapshot(self, name: str, mode: int) -> None:
        if mode == SNAPSHOT_WITH_PARTIAL_PAGE:
            self._writer.checkpoint()
        if self._snapshots is None:
            return
        target = self._snapshots / name
        target.mkdir(parents=True)
        for path in find_files(self._writer.directory).values():
            shutil.copyfile(path, target / path.name)
