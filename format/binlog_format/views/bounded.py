"""The row images of a block in parts of which each fits into memory as columns: `bounded(images)`.

A few bytes of a row event can be a row of a table of 4096 columns, nearly all of them NULL or absent: of 2 MiB of such
rows the columns are many gigabytes, however few of the bytes are values. Full images of any table come in one part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.views.columns import pair_images

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlog_format.rows.images import Images

CELLS_MAX = 1 << 21
"""Values of a part, NULL and absent ones counted: each takes about 50 bytes on its way to JSON."""


def bounded(images: Sequence[Images], *, cells_max: int = CELLS_MAX) -> Iterator[list[Images]]:
    """The same images, in parts that follow each other in the order of their events.

    Args:
        images: Of the layouts in a block.
        cells_max: Values of a part, unless a single change has more.

    Yields:
        Images of some of the layouts; both images of an update are in the same part.
    """
    cells = sum(len(part) * len(part.layout.columns) for part in images)
    if cells <= cells_max:
        yield list(images)
        return
    pairs = [pair_images(part) for part in images]
    edges = np.cumsum([len(pair) for pair in pairs])[:-1]
    events = np.concatenate([pair.events for pair in pairs])
    if len(events) <= 1:
        yield list(images)
        return
    is_late = np.empty(len(events), dtype=np.bool_)
    is_late[np.argsort(events, kind="stable")] = np.arange(len(events)) >= len(events) // 2
    for wanted in (False, True):
        half = []
        for part, pair, late in zip(images, pairs, np.split(is_late, edges), strict=True):
            owner = np.searchsorted(pair.first, np.arange(len(part)), side="right") - 1
            chosen = late[owner] == wanted
            if chosen.any():
                half.append(part.select(chosen))
        yield from bounded(half, cells_max=cells_max)
