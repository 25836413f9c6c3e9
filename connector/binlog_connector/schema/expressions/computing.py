"""Generated columns that row images lack: `with_computed_values`, loaded when the first one is met."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from binlog_format.rows.images import Images


def with_computed_values(images: Images) -> Images:
    """See `computed_images.completed_images`."""
    # Compiled code takes a moment to load, and few logs need it.
    from binlog_connector.schema.expressions.computed_images import completed_images

    return completed_images(images)
