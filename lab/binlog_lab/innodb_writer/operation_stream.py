"""Operations in their binary form (`operations_layout`): `read_steps` of an `.ops` file, and `encode_steps`."""

from __future__ import annotations

import mmap
import struct
from typing import TYPE_CHECKING

from binlog_format.errors import CorruptError
from binlog_format.gtids.gtid import Gtid
from binlog_format.position import Place
from binlog_lab.innodb_writer.operations import PlacedStep, WriterStep, bad_entry
from binlog_lab.innodb_writer.operations_layout import (
    COMMIT_FLAG_TWO_PHASE,
    FLUSH_FLAG_NEW_STATE,
    GTID_STRUCT,
    I32_STRUCT,
    OPERATIONS_MAGIC,
    U8_STRUCT,
    U32_STRUCT,
    U64_STRUCT,
    OperationCode,
)
from binlog_lab.innodb_writer.sessions import Cache, Xid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from binlog_lab.innodb_writer.operations_layout import FieldStruct

_PLAIN = frozenset({OperationCode.MARK, OperationCode.CHECKPOINT})
_WITH_SID = frozenset(
    {OperationCode.BEGIN, OperationCode.ROLLBACK, OperationCode.STATEMENT_START, OperationCode.STATEMENT_ROLLBACK}
)
_WITH_SAVEPOINT = frozenset({OperationCode.SAVEPOINT, OperationCode.ROLLBACK_TO})
_WITH_CACHE = frozenset({OperationCode.EVENT, OperationCode.PIECE, OperationCode.SPILL})
_WITH_DATA = frozenset({OperationCode.RAW_COMMIT, OperationCode.RESTART, OperationCode.CRASH})
_XA = frozenset({OperationCode.XA_PREPARE, OperationCode.XA_COMMIT, OperationCode.XA_ROLLBACK})


def is_operation_stream(path: Path) -> bool:
    """True if *path* begins like an `.ops` file."""
    with path.open("rb") as file:
        return file.read(len(OPERATIONS_MAGIC)) == OPERATIONS_MAGIC


def read_steps(path: Path) -> Iterator[PlacedStep]:
    """The operations of an `.ops` file; the file is mapped, not read at once."""
    if not is_operation_stream(path):
        raise CorruptError("BAD_ENTRY", "not an operation stream: it begins otherwise", at=Place(str(path), byte=0))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        fields = _Fields(data, len(OPERATIONS_MAGIC))
        number = 0
        while fields:
            start = fields.at
            where = f"operation {number}, code {data[start]:#04x}"
            try:
                step = _decode(fields)
            except (struct.error, ValueError) as error:
                raise bad_entry(str(path), start, where, error) from error
            yield PlacedStep(start, fields.at, step, where)
            number += 1


def encode_steps(steps: Iterable[WriterStep]) -> bytes:
    """An `.ops` file with *steps*."""
    return OPERATIONS_MAGIC + b"".join(map(_encode, steps))


class _Fields:
    """Takes fields off the front of a stream."""

    def __init__(self, data: mmap.mmap, at: int) -> None:
        self._data = data
        self.at = at

    def __bool__(self) -> bool:
        return self.at < len(self._data)

    def number(self, layout: FieldStruct) -> int:
        (value,) = layout.unpack_from(self._data, self.at)
        self.at += layout.size
        return int(value)

    def blob(self) -> bytes:
        size = self.number(U32_STRUCT)
        self.at += size
        if self.at > len(self._data):
            raise ValueError("a blob is cut off")
        return self._data[self.at - size : self.at]

    def cache(self) -> Cache:
        return Cache(self.number(U8_STRUCT))

    def gtid(self) -> Gtid:
        numbers = GTID_STRUCT.unpack_from(self._data, self.at)
        self.at += GTID_STRUCT.size
        return Gtid(*numbers)

    def gtids(self) -> tuple[Gtid, ...]:
        return tuple(self.gtid() for _ in range(self.number(U32_STRUCT)))

    def xid(self) -> Xid:
        return Xid(self.number(I32_STRUCT), self.blob(), self.blob())


def _decode(fields: _Fields) -> WriterStep:
    code = OperationCode(fields.number(U8_STRUCT))
    if code in _PLAIN:
        return WriterStep(code)
    if code in _WITH_DATA:
        return WriterStep(code, data=fields.blob())
    if code == OperationCode.FLUSH:
        has_state = fields.number(U8_STRUCT) & FLUSH_FLAG_NEW_STATE
        return WriterStep(code, gtids=fields.gtids() if has_state else None)
    if code == OperationCode.RESET_MASTER:
        return WriterStep(code, gtids=fields.gtids())
    if code == OperationCode.PURGE:
        return WriterStep(code, number=fields.number(U64_STRUCT))
    if code == OperationCode.SNAPSHOT:
        return WriterStep(code, name=fields.blob().decode(), number=fields.number(U8_STRUCT))
    return _decode_of_session(code, fields)


def _decode_of_session(code: OperationCode, fields: _Fields) -> WriterStep:
    sid = fields.number(U32_STRUCT)
    if code in _WITH_SID:
        return WriterStep(code, sid)
    if code in _WITH_SAVEPOINT:
        return WriterStep(code, sid, number=fields.number(U32_STRUCT))
    if code in _WITH_CACHE:
        cache = fields.cache()
        return WriterStep(code, sid, cache, b"" if code == OperationCode.SPILL else fields.blob())
    if code == OperationCode.XA_PREPARE:
        return WriterStep(code, sid, number=fields.number(U8_STRUCT), xid=fields.xid())
    if code == OperationCode.XA_ROLLBACK:
        return WriterStep(code, sid, xid=fields.xid())
    if code == OperationCode.XA_COMMIT:
        return WriterStep(code, sid, xid=fields.xid(), gtid=fields.gtid(), data=fields.blob())
    flags = fields.number(U8_STRUCT)
    gtid, data = fields.gtid(), fields.blob()
    return WriterStep(code, sid, gtid=gtid, data=data, xid=fields.xid() if flags & COMMIT_FLAG_TWO_PHASE else None)


def _encode(step: WriterStep) -> bytes:
    code = step.operation
    head = U8_STRUCT.pack(code)
    if code in _PLAIN:
        return head
    if code in _WITH_DATA:
        return head + _blob(step.data)
    if code == OperationCode.FLUSH:
        return head + (b"\x00" if step.gtids is None else bytes([FLUSH_FLAG_NEW_STATE]) + _gtids(step.gtids))
    if code == OperationCode.RESET_MASTER:
        return head + _gtids(step.gtids or ())
    if code == OperationCode.PURGE:
        return head + U64_STRUCT.pack(step.number)
    if code == OperationCode.SNAPSHOT:
        return head + _blob(step.name.encode()) + U8_STRUCT.pack(step.number)
    return head + U32_STRUCT.pack(step.sid) + _encode_of_session(step)


def _encode_of_session(step: WriterStep) -> bytes:
    code = step.operation
    if code in _WITH_SID:
        return b""
    if code in _WITH_SAVEPOINT:
        return U32_STRUCT.pack(step.number)
    if code in _WITH_CACHE:
        return U8_STRUCT.pack(step.cache) + (b"" if code == OperationCode.SPILL else _blob(step.data))
    if code in _XA:
        engines = U8_STRUCT.pack(step.number) if code == OperationCode.XA_PREPARE else b""
        commit = _gtid(step) + _blob(step.data) if code == OperationCode.XA_COMMIT else b""
        return engines + _xid(step) + commit
    flags = 0 if step.xid is None else COMMIT_FLAG_TWO_PHASE
    return U8_STRUCT.pack(flags) + _gtid(step) + _blob(step.data) + (b"" if step.xid is None else _xid(step))


def _blob(data: bytes) -> bytes:
    return U32_STRUCT.pack(len(data)) + data


def _gtid(step: WriterStep) -> bytes:
    assert step.gtid is not None, "a commit has a GTID"
    return GTID_STRUCT.pack(step.gtid.domain, step.gtid.server, step.gtid.seqno)


def _gtids(gtids: tuple[Gtid, ...]) -> bytes:
    packed = (GTID_STRUCT.pack(gtid.domain, gtid.server, gtid.seqno) for gtid in gtids)
    return U32_STRUCT.pack(len(gtids)) + b"".join(packed)


def _xid(step: WriterStep) -> bytes:
    assert step.xid is not None, "an XA operation has an XID"
    return I32_STRUCT.pack(step.xid.format_id) + _blob(step.xid.gtrid) + _blob(step.xid.bqual)
