"""JSON objects as texts of their own, one after the other: `JsonTexts`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import as_bytes, empty_bytes
from binlog_format.rows.json import json_kernels as write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes
    from binlog_format.rows.json.json_rows import JsonRows

    Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class JsonTexts:
    """Texts one after the other.

    Attributes:
        data: All of them.
        offsets: Where each begins, and the last one ends.
    """

    data: Bytes
    offsets: Int64s

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Int64s:
        """Bytes of each."""
        sizes: Int64s = np.diff(self.offsets)
        return sizes

    @classmethod
    def of(cls, texts: Sequence[str]) -> JsonTexts:
        """A few texts."""
        encoded = [text.encode() for text in texts]
        return cls(as_bytes(b"".join(encoded)), np.cumsum([0, *map(len, encoded)], dtype=np.int64))

    @classmethod
    def of_rows(cls, rows: JsonRows, head: Bytes, tail: Bytes) -> JsonTexts:
        """Each row as an object between *head* and *tail*."""
        sizes = rows.sizes + (head.size + tail.size)
        offsets = _offsets(sizes)
        out = empty_bytes(int(offsets[-1]))
        cursors = offsets[:-1].copy()
        write.write_same(out, cursors, head)
        rows.write(out, cursors)
        cursors += rows.sizes
        write.write_same(out, cursors, tail)
        return cls(out, offsets)


def _offsets(sizes: Int64s) -> Int64s:
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets
