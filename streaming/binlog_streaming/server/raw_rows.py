"""Rows of a query as the bytes that the server sends: `RawRows`; no Python per row or value.

The query is prepared and executed, so that values come in the binary protocol (docs/decisions/0025).
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pymysql
from pymysql.err import raise_mysql_exception
from pymysql.protocol import FieldDescriptorPacket

from binlog_format.errors import ServerError
from binlog_format.kernels import empty_bytes
from binlog_streaming.server import packet_kernels as kernels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.kernels import Bytes, Int64s
    from binlog_streaming.server.session import ServerSession


# MariaDB and MySQL, include/my_command.h.
_PREPARE, _EXECUTE, _CLOSE = 0x16, 0x17, 0x19
_BUFFER = 4 << 20
_ROWS_MAX = 1 << 16
_LOST = 2013


@dataclass(frozen=True, slots=True)
class PacketRows:
    """Rows of one packet.

    Attributes:
        data: What the server sent; another call of `chunks` writes over it.
        starts: Where the content of each row begins.
        ends: Where it ends.
    """

    data: Bytes
    starts: Int64s
    ends: Int64s


class RawRows:
    """The answer to a query, which is read once, in chunks; then, or with `with`, the session takes other statements.

    Args:
        session: Takes nothing else meanwhile.

    Attributes:
        types: Of each column, as the protocol numbers them.
    """

    def __init__(self, session: ServerSession, statement: str) -> None:
        self._session = session
        self._connection: Any = session.connection
        with session.named_errors():
            self._number = self._prepare(statement)
            self.types = self._execute()

    def chunks(self) -> Iterator[PacketRows]:
        """All rows; a chunk counts until the next one."""
        buffer = empty_bytes(_BUFFER)
        starts, ends = np.empty(_ROWS_MAX, np.int64), np.empty(_ROWS_MAX, np.int64)
        place = filled = count = 0
        while True:
            found, place, status = kernels.find_rows(buffer, place, filled, starts[count:], ends[count:])
            count += found
            is_full = status == kernels.MORE and filled == len(buffer)
            if count and (is_full or status != kernels.MORE):
                yield PacketRows(buffer, starts[:count], ends[:count])
                count = 0
            if status == kernels.LAST:
                return self._close()
            if status == kernels.LARGE:
                row, place, filled = self._large_row(buffer, place, filled)
                yield PacketRows(row, np.zeros(1, np.int64), np.array([len(row)]))
            elif status in (kernels.FAILED, kernels.DAMAGED):
                self._fail(buffer, place, status)
            elif status == kernels.MORE:
                if is_full:
                    buffer, filled = _moved(buffer, place, filled)
                    place = 0
                filled += self._read(buffer, filled)

    def _prepare(self, statement: str) -> int:
        self._connection._execute_command(_PREPARE, statement)
        answer: bytes = self._connection._read_packet().get_all_data()
        number, columns, parameters = struct.unpack_from("<IHH", answer, 1)
        for count in (parameters, columns):
            for _ in range(count + 1 if count else 0):  # and the packet after the last one
                self._connection._read_packet()
        return int(number)

    def _execute(self) -> tuple[int, ...]:
        self._connection._execute_command(_EXECUTE, struct.pack("<IBI", self._number, 0, 1))
        count = self._connection._read_packet().read_length_encoded_integer()
        types = tuple(int(self._connection._read_packet(FieldDescriptorPacket).type_code) for _ in range(count))
        self._connection._read_packet()
        # There is more: at least the packet after the last row.
        buffered = self._connection._rfile.peek()
        self._rest = io.BytesIO(self._connection._rfile.read(len(buffered)))
        return types

    def _close(self) -> None:
        with self._session.named_errors():
            self._connection._execute_command(_CLOSE, struct.pack("<I", self._number))  # has no answer

    def _read(self, buffer: Bytes, at: int) -> int:
        # What is there already, at least a byte.
        with self._session.named_errors():
            try:
                # A buffered reader waits for more, although it has some: only what it has already is taken from it.
                size = self._rest.readinto(buffer.data[at:]) or self._connection._rfile.raw.readinto(buffer.data[at:])
            except OSError as error:
                raise pymysql.OperationalError(_LOST, f"while rows were read: {error}") from error
            if not size:
                raise pymysql.OperationalError(_LOST, "while rows were read: the server closed the connection")
            return int(size)

    def _large_row(self, buffer: Bytes, place: int, filled: int) -> tuple[Bytes, int, int]:
        # A row of 16 MiB and more: a packet that is full goes on in the next one.
        row = bytearray()
        size = kernels.PACKET_MAX
        while size == kernels.PACKET_MAX:
            header, place = self._exactly(buffer, place, filled, kernels.PACKET_HEADER)
            size = int.from_bytes(header[:3], "little")
            content, place = self._exactly(buffer, place, filled, size)
            row += content
        return np.frombuffer(row, np.uint8), place, max(place, filled)

    def _exactly(self, buffer: Bytes, place: int, filled: int, size: int) -> tuple[bytearray, int]:
        # Out of the buffer, then from the server; the buffer is empty where its end is passed.
        known = buffer[place : min(place + size, filled)].tobytes() if place < filled else b""
        content = bytearray(size)
        content[: len(known)] = known
        at = len(known)
        while at < size:
            at += self._read(np.frombuffer(content, np.uint8), at)
        return content, (place + size if place + size <= filled else filled)

    def _fail(self, buffer: Bytes, place: int, status: int) -> None:
        size = int.from_bytes(buffer[place : place + 3].tobytes(), "little")
        content = buffer[place + kernels.PACKET_HEADER :][:size].tobytes()
        if status == kernels.FAILED:
            with self._session.named_errors():
                raise_mysql_exception(content)
        raise ServerError("FAILED", f"no row begins with {content[:16].hex()}", at=self._session.place)


def _moved(buffer: Bytes, place: int, filled: int) -> tuple[Bytes, int]:
    # What is left goes to the front; a packet that fills all of it needs more room.
    left = filled - place
    target = buffer if left < len(buffer) // 2 else empty_bytes(max(len(buffer), 2 * left))
    target[:left] = buffer[place:filled].copy()
    return target, left
