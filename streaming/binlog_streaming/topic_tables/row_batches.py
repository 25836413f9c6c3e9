"""Changes that came in messages, as row images at their places in the log: `received_row_batch`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.kafka_decode.row_changes import CREATE, DELETE, UPDATE, ReceivedChanges
from binlog_format.block import EVENT_DTYPE, GROUP_DTYPE
from binlog_format.gtids.gtid import GtidSource
from binlog_format.rows.arrow_arrays import numbers_array
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding
from binlog_format.rows.images import IMAGE_DTYPE, ImageKind
from binlog_streaming.lake.row_values import one_array
from binlog_streaming.modes.decoded_images import DecodedImages
from binlog_streaming.modes.row_batches import RowBatch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.block import Table
    from binlog_format.events.table_map import TableLayout
    from binlog_format.rows.images import Images

    Int64s = NDArray[np.int64]
    Mask = NDArray[np.bool_]

_KINDS = np.zeros(3, dtype=np.uint8)
_KINDS[[DELETE, UPDATE, CREATE]] = ImageKind.DELETE, ImageKind.UPDATE_BEFORE, ImageKind.INSERT


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedImages(DecodedImages):
    """Images that came in messages.

    Attributes:
        layout: Of their table.
        decoding: How rows become values.
    """

    layout: TableLayout
    decoding: Decoding = DEFAULT_DECODING

    def column(self, column: int) -> pa.Array:
        """All values of a column."""
        return one_array(self.rows.column(column))


def received_row_batch(changes: ReceivedChanges) -> RowBatch:
    """The row images of *changes*, in log order; none of them is a TRUNCATE."""
    # At one place a delete comes before the create that a changed key makes.
    order = np.lexsort((changes.ops, *changes.places.T[::-1]))
    places, ops = changes.places[order], changes.ops[order]
    events, groups, sources = _events(places, changes.seconds[order], changes.gtids.take(numbers_array(order)))
    counts = np.where(ops == UPDATE, 2, 1)
    change = np.repeat(np.arange(len(ops)), counts)
    is_second = np.zeros(len(change), dtype=np.bool_)
    is_second[np.cumsum(counts)[ops == UPDATE] - 1] = True
    table = np.empty(len(change), dtype=IMAGE_DTYPE)
    table["event"] = np.cumsum(_begins(places[:, :4]))[change] - 1
    table["row_no"] = places[change, 4]
    table["kind"] = np.where(is_second, ImageKind.UPDATE_AFTER, _KINDS[ops[change]])
    is_after = is_second | (ops[change] == CREATE)
    rows = pa.concat_tables([changes.before, changes.after])
    rows = rows.take(numbers_array(order[change] + is_after * len(order)))
    images = cast("Images", ReceivedImages(table, rows, layout=changes.layout))
    return RowBatch(images, events, groups, changes.layout, sources)


def _events(places: Int64s, seconds: Int64s, gtids: pa.Array) -> tuple[Table, Table, tuple[GtidSource, ...]]:
    begins_event, begins_group = _begins(places[:, :4]), _begins(places[:, :3])
    firsts = np.flatnonzero(begins_group)
    groups = np.zeros(len(firsts), dtype=GROUP_DTYPE)
    for number, name in enumerate(("file_no", "page", "chunk")):
        groups[name] = places[firsts, number]
    groups["timestamp"] = seconds[firsts]
    groups["gtid_source"] = -1
    groups["begins"] = groups["ends"] = True
    sources = _fill_gtids(groups, gtids.take(numbers_array(firsts)))
    rows = np.flatnonzero(begins_event)
    events = np.zeros(len(rows), dtype=EVENT_DTYPE)
    events["group"] = (np.cumsum(begins_group) - 1)[rows]
    events["event_no"] = places[rows, 3]
    events["timestamp"] = seconds[rows]
    return events, groups, sources


def _begins(places: Int64s) -> Mask:
    begins = np.ones(len(places), dtype=np.bool_)
    begins[1:] = (places[1:] != places[:-1]).any(axis=1)
    return begins


def _fill_gtids(groups: Table, gtids: pa.Array) -> tuple[GtidSource, ...]:
    there = gtids.is_valid().to_numpy(zero_copy_only=False)
    groups["has_gtid"] = there
    texts = gtids.filter(gtids.is_valid())
    if len(texts) == 0:
        return ()
    if not pc.any(pc.match_substring(texts, ":")).as_py():
        numbers = pc.split_pattern(texts, "-").flatten().cast(pa.uint64()).to_numpy().reshape(-1, 3)
        groups["domain"][there], groups["server_id"][there], groups["seqno"][there] = numbers.T
        return ()
    # MySQL: a server, perhaps a tag, and a number.
    parts = pc.split_pattern(texts, ":", max_splits=1, reverse=True).flatten()
    sources = parts[0::2].dictionary_encode()
    groups["gtid_source"][there] = sources.indices.to_numpy()
    groups["seqno"][there] = parts[1::2].cast(pa.uint64()).to_numpy()
    return tuple(GtidSource(*text.split(":", 1)) for text in sources.dictionary.to_pylist())
