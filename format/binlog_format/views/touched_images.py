"""Row images of one table in a block: `touched_images(block, touched, decoding)`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_format.rows.images import Images, read_images
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from binlog_format.block import Block
    from binlog_format.rows.decoding import Decoding
    from binlog_format.rows.table_events import TableEvents


def touched_images(block: Block, touched: TableEvents, decoding: Decoding) -> Images:
    """Read the images of *touched*; generated columns that they lack are in them where they can be computed."""
    images = _read(block, touched, decoding)
    layout, schemas = touched.layout, decoding.schemas
    if layout.vendor is Vendor.MYSQL or layout.completion or decoding.computes is None or schemas is None:
        return images
    if not images.has_absent():
        return images
    # Where table maps leave nothing open, expressions are looked for only now.
    defined = schemas.completed(layout, block.position_at(touched.events[0]), needs_generated=True)
    return _read(block, replace(touched, layout=defined), decoding) if defined.completion else images


def _read(block: Block, touched: TableEvents, decoding: Decoding) -> Images:
    return read_images(block.data, block.events, touched.events, touched.layout, place=block.place, decoding=decoding)
