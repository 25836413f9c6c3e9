"""Formats with `%` and a letter, as the library's reader takes them apart: `split_format`, `DateFormat`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import as_bytes
from binlog_format.structured.text.time_kernels import (
    DATE_FIELD_SIZE_MAX,
    DATE_LETTERS,
    LITERAL,
    ZONE_NAME,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.kernels import Bytes
    from binlog_format.structured.text.time_kernels import Int64s

PERCENT = ord("%")


def split_format(text: bytes) -> Iterator[tuple[int, bytes]]:
    """The parts of a format, in order.

    Yields:
        A letter and both bytes of the pair `%` and letter; or 0 and what comes between pairs. A `%` at the end is no
        pair.
    """
    start = place = 0
    while place < len(text) - 1:
        if text[place] != PERCENT:
            place += 1
            continue
        if start < place:
            yield 0, text[start:place]
        yield text[place + 1], text[place : place + 2]
        start = place = place + 2
    if start < len(text):
        yield 0, text[start:]


@dataclass(frozen=True, slots=True)
class DateFormat:
    """Format of times, as steps for `put_time`.

    Attributes:
        steps: Shape (steps, 3): what is written; of literals, where they start and end in *literals*.
        literals: Text between fields.
        zone_names: How often the name of the time zone occurs.
        size_max: Most bytes of a time without the names of zones.
    """

    steps: Int64s
    literals: Bytes
    zone_names: int
    size_max: int

    @classmethod
    def of(cls, text: bytes) -> DateFormat:
        """Compile a date format such as `%Y-%m-%d %H:%M:%S.%N`."""
        literals = bytearray()
        steps: list[tuple[int, int, int]] = []
        for letter, part in split_format(text):
            step = DATE_LETTERS.get(letter, LITERAL)
            if step != LITERAL:
                steps.append((step, 0, 0))
                continue
            if steps and steps[-1][0] == LITERAL:
                steps[-1] = (LITERAL, steps[-1][1], len(literals) + len(part))
            else:
                steps.append((LITERAL, len(literals), len(literals) + len(part)))
            literals += part
        zone_names = sum(step == ZONE_NAME for step, _, _ in steps)
        size_max = len(literals) + DATE_FIELD_SIZE_MAX * len(steps)
        return cls(np.array(steps, dtype=np.int64).reshape(-1, 3), as_bytes(literals), zone_names, size_max)
