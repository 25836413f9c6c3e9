"""Places of row images as text that sorts as the log does: `place_texts`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_streaming.modes.place_text_kernels import write_places

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.position import Position

# As many digits as there may be: of file_no, page and chunk what `_commit_version` has room for.
_WIDTHS = np.array([8, 8, 5, 10, 10], dtype=np.int64)


def place_texts(images: Table, events: Table, groups: Table) -> pa.StringArray:
    """`file_no:page:chunk:event_no:row_no` of each image, every number with zeros before it.

    Args:
        images: `IMAGE_DTYPE`.
        events: `EVENT_DTYPE`; what `images["event"]` counts.
        groups: `GROUP_DTYPE`; what `events["group"]` counts.
    """
    event = images["event"].astype(np.int64)
    group = events["group"][event]
    columns = [*(groups[name][group] for name in ("file_no", "page", "chunk")), events["event_no"][event]]
    numbers = np.array([*columns, images["row_no"]], dtype=np.int64)
    texts = np.empty((len(images), int(_WIDTHS.sum()) + len(_WIDTHS) - 1), dtype=np.uint8)
    write_places(numbers, _WIDTHS, texts)
    offsets = np.arange(len(images) + 1, dtype=np.int32) * np.int32(texts.shape[1])
    return pa.StringArray.from_buffers(len(images), pa.py_buffer(offsets), pa.py_buffer(texts))


def place_text(position: Position, event_no: int) -> str:
    """The same of a statement: it is row 0 of its event."""
    numbers = (position.file_no, position.page, position.chunk, event_no, 0)
    return ":".join(f"{number:0{width}}" for number, width in zip(numbers, _WIDTHS.tolist(), strict=True))
