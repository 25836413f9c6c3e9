"""Where in the files a byte of a block is, for error messages: `place_of(extents, byte)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.position import Place

if TYPE_CHECKING:
    from binlog_format.block import Table


def place_of(extents: Table | None, byte: int) -> Place | None:
    """The place of *byte* of `Block.data`; None where *extents* (`EXTENT_DTYPE`) do not say it."""
    if extents is None or len(extents) == 0:
        return None
    row = int(np.searchsorted(extents["data_start"], byte, side="right")) - 1
    if row < 0:
        return None
    extent = extents[row]
    # An empty extent stands before the bytes of an expanded event: they are nowhere in the files, but it is.
    within = byte - int(extent["data_start"]) if extent["size"] else 0
    file_byte = int(extent["file_offset"]) + within
    return Place(f"binlog file {int(extent['file_no'])}", byte=file_byte)
