"""Deletion vectors of Delta tables: `read_vector`, `DeltaVectorFile` writes those of one commit."""

from __future__ import annotations

import re
import struct
import uuid
import zlib
from typing import TYPE_CHECKING
from urllib.parse import unquote

import numpy as np
from deltalake.exceptions import DeltaError

from binlog_streaming.lake.delta.actions import Vector
from binlog_streaming.lake.roaring import DamagedError, decoded, encoded

if TYPE_CHECKING:
    from binlog_format.kernels import Indices
    from binlog_streaming.lake.store import Store

ENABLED = "delta.enableDeletionVectors"
"""Property of a table whose rows may be marked."""

VECTOR_FILE = re.compile(r"deletion_vector_[0-9a-f-]{36}\.bin")
"""Names of the files that hold vectors."""

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_Z85_VALUES = {letter: value for value, letter in enumerate(_Z85)}
_UUID_LETTERS = 20
_FILE_VERSION = b"\x01"
_WORD = struct.Struct(">I")
"""Four bytes of a text; before a vector its length, after it its CRC-32. All within it has the low byte first."""


def read_vector(store: Store, vector: Vector | None) -> Indices:
    """Numbers of the rows that a vector takes out of its file, ascending. Raises `DeltaError`: it is damaged."""
    if vector is None:
        return np.empty(0, np.int64)
    try:
        rows = decoded(_stored(store, vector))
    except (ValueError, OverflowError, struct.error) as error:
        raise DeltaError(f"deletion vector {vector.name}: {error}") from error
    if len(rows) != vector.cardinality:
        raise DeltaError(f"deletion vector {vector.name}: {len(rows)} rows instead of {vector.cardinality}")
    return rows


def vector_file(store: Store, vector: Vector) -> str | None:
    """Name of the file that a vector is in; None: it is in the log."""
    if vector.storage_type == "u":
        prefix, name = vector.path_or_inline_dv[:-_UUID_LETTERS], vector.path_or_inline_dv[-_UUID_LETTERS:]
        file = f"deletion_vector_{uuid.UUID(bytes=from_z85(name))}.bin"
        return f"{prefix}/{file}" if prefix else file
    if vector.storage_type != "p":
        return None
    path, place = (unquote(text.removeprefix("file://")) for text in (vector.path_or_inline_dv, store.uri))
    if not path.startswith(f"{place.rstrip('/')}/"):
        raise DeltaError(f"deletion vector {vector.name} is not in {store.uri}")
    return path.removeprefix(f"{place.rstrip('/')}/")


class DeltaVectorFile:
    """The vectors of a commit, together in one file."""

    def __init__(self) -> None:
        self._id = uuid.uuid4()
        self._content = bytearray(_FILE_VERSION)
        self.name = f"deletion_vector_{self._id}.bin"

    def add(self, rows: Indices) -> Vector:
        """Take a vector in. *rows*: ascending, none twice, at least one."""
        data = encoded(rows)
        vector = Vector(
            storage_type="u",
            path_or_inline_dv=to_z85(self._id.bytes),
            offset=len(self._content),
            size_in_bytes=len(data),
            cardinality=len(rows),
        )
        self._content += _WORD.pack(len(data)) + data + _WORD.pack(zlib.crc32(data))
        return vector

    def write(self, store: Store) -> None:
        """Write the file."""
        store.create(self.name, bytes(self._content))


def to_z85(data: bytes) -> str:
    """Bytes as text, four as five letters; the length is a multiple of four."""
    return "".join(_Z85[word // 85**power % 85] for (word,) in _WORD.iter_unpack(data) for power in (4, 3, 2, 1, 0))


def from_z85(text: str) -> bytes:
    """The other way. Raises `DamagedError`: it is no such text."""
    if len(text) % 5:
        raise DamagedError(f"no Z85 text: {len(text)} letters are no multiple of five")
    try:
        values = [_Z85_VALUES[letter] for letter in text]
        parts = (values[start : start + 5] for start in range(0, len(values), 5))
        return b"".join(_WORD.pack(sum(value * 85 ** (4 - at) for at, value in enumerate(part))) for part in parts)
    except (KeyError, struct.error) as error:
        raise DamagedError(f"no Z85 text: {error}") from error


def _stored(store: Store, vector: Vector) -> bytes:
    name = vector_file(store, vector)
    if name is None:
        return from_z85(vector.path_or_inline_dv)[: vector.size_in_bytes]
    content = store.read_part(name, vector.offset or 0, vector.size_in_bytes + 2 * _WORD.size)
    (size,) = _WORD.unpack(content[: _WORD.size])
    if size != vector.size_in_bytes:
        raise DamagedError(f"its length is {size}, the table's log has {vector.size_in_bytes}")
    data = content[_WORD.size : _WORD.size + size]
    (checksum,) = _WORD.unpack(content[_WORD.size + size :])
    if zlib.crc32(data) != checksum:
        raise DamagedError(f"its checksum is {zlib.crc32(data):#010x}, the file has {checksum:#010x}")
    return data
