"""Events that MariaDB has compressed one by one: `find_streams`, `expand_streams`."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import CorruptError
from binlog_format.events.compression import compression_kernels as kernels
from binlog_format.events.compression.compression_layout import PLAIN_TYPES
from binlog_format.events.layout import EventType

if TYPE_CHECKING:
    from binlog_format.block import PlaceOf, Table
    from binlog_format.kernels import Bytes, Int64s

_REASONS = {
    kernels.STREAM_TOO_SHORT: "it ends before its compressed part",
    kernels.STREAM_UNMARKED: "its compressed part does not begin as one",
    kernels.STREAM_ALGORITHM: "compressed with an unknown algorithm",
    kernels.STREAM_LENGTH: "the uncompressed size is missing",
    kernels.STREAM_LIE: "the uncompressed size that it claims is not possible",
}


@dataclass(frozen=True, slots=True)
class CompressedEvents:
    """Places of the parts of compressed events.

    Attributes:
        starts: Byte of each event's header.
        sizes: As they are stored, checksum not counted.
        types: Type codes, as stored.
        head_sizes: Bytes that are not compressed.
        stream_starts: Byte where each zlib stream begins.
    """

    starts: Int64s
    sizes: Int64s
    types: Bytes
    head_sizes: Int64s
    plain_sizes: Int64s
    stream_starts: Int64s

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, chosen: slice) -> CompressedEvents:
        return CompressedEvents(
            self.starts[chosen],
            self.sizes[chosen],
            self.types[chosen],
            self.head_sizes[chosen],
            self.plain_sizes[chosen],
            self.stream_starts[chosen],
        )


def find_streams(data: Bytes, events: Table, *, place: PlaceOf | None = None) -> CompressedEvents:
    """Take compressed events apart; nothing is decompressed yet.

    Args:
        events: `EVENT_DTYPE`, all of types that `PLAIN_TYPES` knows.
        place: `Block.place`; only lets errors name the place of the damage in the files.
    """
    count = len(events)
    found = CompressedEvents(
        np.ascontiguousarray(events["start"]),
        np.ascontiguousarray(events["size"]),
        np.ascontiguousarray(events["type"]),
        *(np.zeros(count, dtype=np.int64) for _ in range(3)),
    )
    code, event = kernels.locate_streams(
        data, found.starts, found.sizes, found.types, found.head_sizes, found.plain_sizes, found.stream_starts
    )
    if code != kernels.STREAM_FOUND:
        raise _error(found, event, _REASONS[code], place)
    return found


def expand_streams(
    data: Bytes, compressed: CompressedEvents, target: Bytes, target_starts: Int64s, *, place: PlaceOf | None = None
) -> None:
    """Write the plain events.

    No stream gives more bytes than its event claims: memory is bounded by what `find_streams` has admitted.

    Args:
        data: What *compressed* points into.
        target: Gets the plain events.
        target_starts: Byte in *target* of each.
        place: `Block.place`; only lets errors name the place of the damage in the files.
    """
    done = kernels.write_heads(
        data,
        compressed.starts,
        compressed.head_sizes,
        compressed.plain_sizes,
        PLAIN_TYPES[compressed.types],
        target,
        target_starts,
    )
    assert done, "compressed events do not fit into what was made for them"
    source, plain = data.data, target.data
    streams = zip(
        compressed.stream_starts.tolist(),
        (compressed.starts + compressed.sizes).tolist(),
        (target_starts + compressed.head_sizes).tolist(),
        (target_starts + compressed.plain_sizes).tolist(),
        strict=True,
    )
    for number, (start, end, to, to_end) in enumerate(streams):
        stream = zlib.decompressobj()
        size = to_end - to
        try:
            # One byte more than there should be, so that the end of the stream is looked at too.
            content = stream.decompress(source[start:end], size + 1)
        except zlib.error as error:
            raise _error(compressed, number, f"its zlib stream is damaged ({error})", place) from error
        if len(content) != size or not stream.eof or stream.unused_data:
            reason = f"its zlib stream gives {'more' if len(content) > size else len(content)} of {size} bytes claimed"
            if len(content) == size:
                reason = "there are bytes after its zlib stream" if stream.eof else "its zlib stream does not end"
            raise _error(compressed, number, reason, place)
        plain[to:to_end] = content


def _error(compressed: CompressedEvents, event: int, reason: str, place: PlaceOf | None) -> CorruptError:
    name = EventType(int(compressed.types[event])).name
    size, start = int(compressed.sizes[event]), int(compressed.starts[event])
    return CorruptError("BAD_EVENT", f"{name} event of {size} bytes: {reason}", at=place and place(start))
