"""What a log says about a table, read with the format library alone: `images_in`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from binlog_format import open_log
from binlog_format.rows.images import read_images
from binlog_format.views.changefeed import changefeed_batch
from binlog_format.views.filters import ALL_GROUPS, TableFilter
from binlog_format.views.selection import Selection
from binlog_lab.demo.proof.comparison import LOG_ORDER

if TYPE_CHECKING:
    from pathlib import Path


def images_in(directory: Path, name: str) -> pa.Table:
    """All row images of a table, in commit order, under all columns that it has had; null where it had them not."""
    selection = Selection(TableFilter(), ALL_GROUPS, table=name)
    tables = []
    with open_log(str(directory)) as opened:
        for block in opened.committed_blocks():
            for touched in selection.of(block):
                images = read_images(block.data, block.events, touched.events, touched.layout, place=block.place)
                tables.append(pa.Table.from_batches([changefeed_batch(images, block.events, block.groups)]))
    return pa.concat_tables(tables, promote_options="permissive").sort_by(LOG_ORDER)
