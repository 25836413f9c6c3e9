"""Messages for a topic: `Messages`, a table of keys and values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

CHUNK_ROWS = 4096
"""Messages that exist as Python objects at a time, unless they are large."""

CHUNK_SIZE = 4 << 20
"""Bytes of such messages, unless one is larger."""

Headers = list[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages for one topic, in their order.

    Attributes:
        topic: Its name.
        keys: Binary; null where a message has none. Messages with the same key go to the same partition, those without
            a key all go to one.
        values: Binary, as long as *keys*; null is a tombstone.
        headers: Of each message; None: no message has any.
        partition: To which all of them go; None: by their keys.
    """

    topic: str
    keys: pa.Array
    values: pa.Array
    headers: Sequence[Headers] | None = None
    partition: int | None = None

    def __post_init__(self) -> None:
        assert len(self.keys) == len(self.values), "a message is a key and a value"
        assert self.headers is None or len(self.headers) == len(self.values), "each message has its headers"

    def __len__(self) -> int:
        return len(self.values)

    @property
    def size(self) -> int:
        """Bytes of keys and values."""
        return int(self.keys.nbytes + self.values.nbytes)

    def chunks(self) -> Iterator[Messages]:
        """The same messages in parts that are small enough to be made Python objects."""
        if not len(self):
            return
        rows = max(1, min(CHUNK_ROWS, CHUNK_SIZE * len(self) // max(self.size, 1)))
        for start in range(0, len(self), rows):
            part = slice(start, start + rows)
            headers = self.headers and self.headers[part]
            yield Messages(self.topic, self.keys[part], self.values[part], headers, self.partition)
