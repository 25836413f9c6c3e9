"""Columns of a target table in each mode: `mode_schema`.

Places of row images as text that sorts as the log does: `place_texts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.errors import TableError
from binlog_format.names import folded_name
from binlog_format.views.changefeed import ABSENT_FIELD, CHANGE_FIELDS
from binlog_format.views.columns import COMMIT_TIME_TYPE
from binlog_streaming.modes.text_kernels import write_places
from binlog_streaming.settings.choices import Deletes, Mode, OnCascade

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_format.block import Table
    from binlog_format.position import Position


DELETED = "_deleted"
DELETED_AT = "_deleted_at"
VALID_FROM = "_valid_from"
VALID_TO = "_valid_to"
IS_CURRENT = "_is_current"
VERSION_POSITION = "_position"

CASCADED_FROM = pa.field("_cascaded_from", pa.string())
"""Column of a changelog with cascades: of rows that no log has, the table whose change caused them."""

SNAPSHOT = pa.field("_snapshot", pa.string())
"""Column of a changelog: the snapshot that put an existing row into the log; null: the row is a change."""

MARK_FIELDS = (pa.field(DELETED, pa.bool_()), pa.field(DELETED_AT, COMMIT_TIME_TYPE))
"""Columns of a mirror whose deleted rows stay."""

VERSION_FIELDS = (
    pa.field(VALID_FROM, COMMIT_TIME_TYPE),
    pa.field(VALID_TO, COMMIT_TIME_TYPE),
    pa.field(IS_CURRENT, pa.bool_()),
    pa.field(VERSION_POSITION, pa.string()),
)
"""Columns of `scd2`."""


def mode_schema(
    mode: Mode,
    schema: pa.Schema,
    deletes: Deletes = Deletes.REMOVE,
    on_cascade: OnCascade = OnCascade.FAIL,
    *,
    has_existing: bool = False,
    has_absent: bool = False,
) -> pa.Schema:
    """Columns of a target that keeps a table with the columns *schema*: those, then the mode's own.

    Args:
        has_existing: Some rows are existing ones that a snapshot put into the log.
        has_absent: Some images lack columns, which the rows of a changelog tell.
    """
    own = [*_own_fields(mode, deletes, on_cascade), *((SNAPSHOT,) if has_existing else ())]
    own += (ABSENT_FIELD,) if has_absent else ()
    taken = {field.name for field in own}
    # Most formats do not tell upper case from lower case in names of columns.
    if clash := [name for name in schema.names if folded_name(name) in taken]:
        raise TableError(
            "COLUMN_NAME",
            f"mode {mode} has columns of its own that are called like the table's: {', '.join(clash)}",
            hint="Keep this table in another mode, or rename the column",
        )
    return pa.schema([*schema, *own])


def _own_fields(mode: Mode, deletes: Deletes, on_cascade: OnCascade) -> Sequence[pa.Field]:
    if mode is Mode.CHANGELOG:
        cascaded = (CASCADED_FROM,) if on_cascade is OnCascade.APPLY else ()
        return (*CHANGE_FIELDS, *cascaded)
    if mode is Mode.SCD2:
        return VERSION_FIELDS
    return MARK_FIELDS if deletes is Deletes.MARK else ()


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
