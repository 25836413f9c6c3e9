"""Histories of a table that a server could have logged, with each kind of row images: `histories`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

import pyarrow as pa
from hypothesis import strategies as st

from binlog_streaming.modes.absent_columns import AbsentFacts
from tests.streaming.tables.modes.row_images import ABSENT

if TYPE_CHECKING:
    from tests.streaming.tables.modes.row_images import Change, Row

    Key = tuple[object, ...]

SCHEMA = pa.schema(
    [("tenant", pa.string()), ("n", pa.int16()), ("name", pa.string()), ("size", pa.float64()), ("body", pa.binary())]
)
KEYS = (0, 1)
KEY_NAMES = tuple(SCHEMA.names[key] for key in KEYS)
BODY = 4
DEFAULTS = ("", 0, "none", None, b"-")
"""What an INSERT puts into columns that it does not name."""
KNOWN = AbsentFacts(
    {field.name: pa.scalar(value, field.type) for field, value in zip(SCHEMA, DEFAULTS, strict=True)},
    unchanged=frozenset(SCHEMA.names),
)


class RowImage(Enum):
    """`binlog_row_image`."""

    FULL = auto()
    MINIMAL = auto()
    NOBLOB = auto()
    FULL_NODUP = auto()


@dataclass
class Server:
    """A table, and the images that a server logs of its changes.

    Attributes:
        image: What it logs from now on.
        rows: By key.
    """

    image: RowImage
    rows: dict[Key, Row] = field(default_factory=dict)

    def insert(self, row: Row) -> Change:
        self.rows[row[:2]] = row
        if self.image is not RowImage.MINIMAL:
            return None, row
        values = (value if index in KEYS or value != DEFAULTS[index] else ABSENT for index, value in enumerate(row))
        return None, tuple(values)

    def delete(self, key: Key) -> Change:
        return self._before(self.rows.pop(key)), None

    def update(self, key: Key, row: Row) -> Change:
        before = self.rows.pop(key)
        changed = {index for index in range(len(row)) if row[index] != before[index]}
        self.rows[row[:2]] = row
        return self._before(before), self._after(row, changed)

    def _before(self, row: Row) -> Row:
        if self.image in (RowImage.FULL, RowImage.FULL_NODUP):
            return row
        left_out = {BODY} if self.image is RowImage.NOBLOB else {2, 3, BODY}
        return tuple(ABSENT if index in left_out else value for index, value in enumerate(row))

    def _after(self, row: Row, changed: set[int]) -> Row:
        if self.image is RowImage.FULL:
            return row
        kept = changed | {0, 1, 2, 3} if self.image is RowImage.NOBLOB else changed
        return tuple(value if index in kept else ABSENT for index, value in enumerate(row))


@dataclass(frozen=True)
class Batch:
    """Changes, and the table behind them.

    Attributes:
        changes: As logged.
        whole: The same with full images.
    """

    changes: list[Change]
    whole: list[Change]
    rows: list[Row]


_KEY = st.tuples(st.sampled_from(["", "a", "A"]), st.integers(0, 2))
_VALUES = (
    st.sampled_from([None, "none", "x", "é"]),
    st.sampled_from([None, 0.0, 1.5]),
    st.sampled_from([None, b"-", b"\xff"]),
)


@st.composite
def histories(draw: st.DrawFn, image: st.SearchStrategy[RowImage]) -> list[Batch]:
    """Batches; the kind of images may change from batch to batch, and within one."""
    server = Server(RowImage.FULL)
    batches = []
    for _ in range(draw(st.integers(1, 4))):
        changes: list[Change] = []
        whole: list[Change] = []
        for _ in range(draw(st.integers(0, 12))):
            server.image = draw(image)
            key = draw(_KEY)
            before = server.rows.get(key)
            if before is None:
                row = (*key, *(draw(values) for values in _VALUES))
                changes.append(server.insert(row))
                whole.append((None, row))
            elif draw(st.booleans()):
                changes.append(server.delete(key))
                whole.append((before, None))
            else:
                new_key = draw(_KEY)
                if new_key in server.rows:
                    new_key = key
                values = (draw(st.just(old) | new) for old, new in zip(before[2:], _VALUES, strict=True))
                after = (*new_key, *values)
                changes.append(server.update(key, after))
                whole.append((before, after))
        batches.append(Batch(changes, whole, list(server.rows.values())))
    return batches
