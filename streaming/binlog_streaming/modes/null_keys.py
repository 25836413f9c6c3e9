"""The error for rows without a key: `null_key`; it tells NULL from dates that no calendar has, which become null."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from binlog_format.errors import TableError
from binlog_format.rows.images import Images
from binlog_format.rows.values.temporal import first_zero_date
from binlog_streaming.modes.layout_cast import CastImages

if TYPE_CHECKING:
    from binlog_streaming.modes.row_batches import StepImages

_OTHER_KEYS = "Name other keys for it in [[tables]]: columns that are never null"
_OTHER_WAYS = (
    'Begin the job with zeroDates = "text" in [source] (dates are texts then, as the server prints them), name other '
    "keys for the table in [[tables]], keep it in mode changelog, which needs no key, or leave it out "
    "(option source.excludeTables)"
)


def null_key(images: StepImages, index: int, column: pa.Field, count: int) -> TableError:
    """The error `NULL_KEY`.

    Args:
        images: Of a step.
        index: Of the key column.
        column: Its name and type.
        count: How many of the images have null in it.
    """
    name = f"{images.source_table}: key column {column.name}"
    date = _no_date(images, index) if pa.types.is_temporal(column.type) else None
    if date is not None:
        reason = f"has zero dates, or such that no calendar has, in {count} row images (the first is {date})"
        reason = f"{name} {reason}; they become null, and a key cannot be null"
        return TableError("NULL_KEY", reason, hint=_OTHER_WAYS)
    reason = f"{name} is null in {count} row images"
    if pa.types.is_temporal(column.type):
        return TableError("NULL_KEY", f"{reason}, or has zero dates there, which become null", hint=_OTHER_WAYS)
    return TableError("NULL_KEY", reason, hint=_OTHER_KEYS)


def _no_date(images: StepImages, index: int) -> str | None:
    """The first value that is null because no calendar has it; None: none is, or rows come without their bytes."""
    for row_batch in images.row_batches:
        found = _logged(row_batch.images, index)
        if found is None:
            continue
        date = first_zero_date(*found)
        if date is not None:
            return date
    return None


def _logged(images: object, index: int) -> tuple[Images, int] | None:
    """The images with the bytes of a column, and the column's index there; None: there are none."""
    if isinstance(images, CastImages):
        source = images.sources[index]
        return None if source is None else _logged(images.images, source)
    return (images, index) if isinstance(images, Images) else None
