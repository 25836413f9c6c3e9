"""Events that a program had not written yet, from an image of its memory: `find_blocks`, `recovered`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from binlog_format.kernels import empty_bytes
from binlog_format.structured.layout import DATA_MAGIC, DATA_STRUCT, ENTRY_HEAD_SIZE, METADATA_MAGIC, METADATA_STRUCT
from binlog_format.structured.scan_kernels import walk_sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from struct import Struct

    from binlog_format.kernels import Bytes

    Note = Callable[[str, str], None]
    """Takes what is found on the way: `INFO` or `ERRO`, and a line in the words of the library's own tool."""

_WINDOW_MIN = 1 << 12
_WINDOW_MAX = 1 << 23
"""Bytes searched at a time: few after a hit, where more may follow, many where nothing is found."""
_PIECE = 1 << 20


class Image(Protocol):
    """A memory image, of any file format. *size*: in bytes."""

    size: int

    def read(self, offset: int, size: int) -> bytes:
        """Bytes from *offset* on; fewer at the end of the image."""


class ImageFile:
    """An image in a file; read in pieces, so that its size does not matter."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size = os.lseek(descriptor, 0, os.SEEK_END)

    def read(self, offset: int, size: int) -> bytes:
        """Bytes from *offset* on."""
        return os.pread(self._descriptor, size, offset)


class BlockKind(IntEnum):
    """Contents of a block; within a session metadata comes first."""

    METADATA = 0
    DATA = 1


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """Whole entries in an image.

    Attributes:
        session: Address of the session that they are from.
        ranges: First byte in the image and byte after the last, one or two; they belong together.
    """

    kind: BlockKind
    session: int
    ranges: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """Bytes of its entries."""
        return sum(end - start for start, end in self.ranges)

    def pieces(self, image: Image, offset: int = 0) -> Iterator[bytes]:
        """Its bytes from *offset* on, a piece at a time."""
        for start, end in self.ranges:
            place = start + offset
            offset = max(offset - (end - start), 0)
            while place < end:
                piece = image.read(place, min(end - place, _PIECE))
                if not piece:
                    raise OSError(f"the image ends at byte {place:,}; it had {image.size:,}")
                yield piece
                place += len(piece)


def recovered(image: Image, note: Note) -> list[MemoryBlock]:
    """All blocks of an image, by session, metadata first, else as they are in it: a log, one after the other."""
    return sorted(find_blocks(image, note), key=lambda block: (block.session, block.kind))


def find_blocks(image: Image, note: Note) -> Iterator[MemoryBlock]:
    """The blocks of an image, as they are in it; none of them lies in another one.

    The search goes on after a block, and after the magic number of what is none: programs contain the numbers in
    their code, too.
    """
    place = 0
    while True:
        hit, kind = _find_magic(image, place)
        if hit < 0:
            return
        place = hit + len(METADATA_MAGIC)
        name = kind.name.lower()
        note("INFO", f"Magic number found, read {name} at tellg={place}")
        found = (_metadata_block if kind is BlockKind.METADATA else _data_block)(image, place, note)
        if found is None:
            note("ERRO", f"  Failed to read {name}, continue searching at tellg={place}")
            continue
        block, place = found
        note("INFO", f"  Recovered {block.size} bytes of {name} from session={block.session}")
        yield block


def _find_magic(image: Image, place: int) -> tuple[int, BlockKind]:
    window = _WINDOW_MIN
    overlap = len(METADATA_MAGIC) - 1
    while place < image.size:
        data = image.read(place, window + overlap)
        hits = [(data.find(METADATA_MAGIC), BlockKind.METADATA), (data.find(DATA_MAGIC), BlockKind.DATA)]
        found = [hit for hit in hits if hit[0] >= 0]
        if found:
            at, kind = min(found)
            return place + at, kind
        place += window
        window = min(2 * window, _WINDOW_MAX)
    return -1, BlockKind.METADATA


def _head(image: Image, place: int, layout: Struct) -> tuple[tuple[int, ...], int]:
    # Fields, 0 where the image ends before them; and how many bytes follow, -1 if a field is cut.
    data = image.read(place, layout.size)
    left = image.size - place - layout.size if len(data) == layout.size else -1
    return layout.unpack(data.ljust(layout.size, b"\0")), left


def _metadata_block(image: Image, place: int, note: Note) -> tuple[MemoryBlock, int] | None:
    (session, size), left = _head(image, place, METADATA_STRUCT)
    if size > max(left, 0):
        note("ERRO", f"  Input doesn't have {size} bytes")
        return None
    if left < 0:
        note("ERRO", "  Failed to read 0 bytes of metadata from input")
        return None
    start = place + METADATA_STRUCT.size
    block = MemoryBlock(BlockKind.METADATA, session, ((start, start + size),))
    return (block, start + size) if _is_whole(image, block, note) else None


def _data_block(image: Image, place: int, note: Note) -> tuple[MemoryBlock, int] | None:
    (session, written, data_end, capacity, _, consumed), left = _head(image, place, DATA_STRUCT)
    for name, index in (("writer", written), ("dataEnd", data_end), ("reader", consumed)):
        if index > capacity:
            note("ERRO", f"  Queue invariant violated: {name}={index} > capacity={capacity}")
            return None
    state = f"capacity={capacity} windex={written} rindex={consumed} dataend={data_end}"
    note("INFO", f"  Queue state is valid: {state}")
    if capacity > max(left, 0):
        note("ERRO", f"  Input doesn't have {capacity} bytes")
        return None
    if left < 0:
        return None
    start = place + DATA_STRUCT.size
    if consumed <= written:
        parts = [(consumed, written)]
    elif consumed < data_end:
        parts = [(consumed, data_end), (0, written)]
    else:
        parts = [(0, written)]
    block = MemoryBlock(BlockKind.DATA, session, tuple((start + first, start + last) for first, last in parts))
    return (block, start + capacity) if _is_whole(image, block, note) else None


def _is_whole(image: Image, block: MemoryBlock, note: Note) -> bool:
    """True if a block's entries fill it exactly."""
    at, size = 0, block.size
    while at < size:
        window = _window(image, block, at, min(size - at, _PIECE))
        if len(window) < ENTRY_HEAD_SIZE:
            break
        at += int(walk_sizes(window))
    if at != size:
        note("ERRO", "  Buffer contains invalid entry")
    return at == size


def _window(image: Image, block: MemoryBlock, offset: int, size: int) -> Bytes:
    window = empty_bytes(size)
    done = 0
    for piece in block.pieces(image, offset):
        part = piece[: size - done]
        window[done : done + len(part)] = memoryview(part)
        done += len(part)
        if done == size:
            break
    return window
