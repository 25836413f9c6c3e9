"""Events that an application inserts into a table for others, as messages: `OutboxMessages`.

As Debezium's Outbox Event Router makes them: a row that is inserted is a message with the row's own key and value, in
the topic that the row names. Updates and deletes, with which an application tidies up, are no events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.following.debezium_offset import of_group, rows_taken
from binlog_connector.kafka.producer import Messages
from binlog_format.errors import SchemaError, UnsupportedError
from binlog_format.events.layout import EventType
from binlog_format.rows.images import ImageKind, read_images
from binlog_format.views.filters import TableFilter
from binlog_format.views.selection import Selection, event_place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.kafka.topic_names import TopicNames
    from binlog_format.block import Block
    from binlog_format.rows.decoding import Decoding
    from binlog_format.rows.images import Images
    from binlog_format.views.filters import GroupFilter
    from binlog_streaming.settings.publish_model import Outbox

ID_HEADER = "id"
WRITES_OF_ROWS = frozenset([EventType.WRITE_ROWS_V0, EventType.WRITE_ROWS_V1, EventType.WRITE_ROWS_V2])


@dataclass(frozen=True, slots=True)
class OutboxMessages:
    """Messages of the rows of one table. *outbox*: the table, and what its columns are."""

    outbox: Outbox
    names: TopicNames

    def of(
        self, blocks: Iterable[Block], decoding: Decoding, groups: GroupFilter, start: SourceOffset
    ) -> Iterator[Messages]:
        """Messages of the events in *blocks*; those of one topic in their order.

        Args:
            blocks: Of the log, in order.
            decoding: How rows become values, and what rules hide of them.

        Raises:
            SchemaError: `OUTBOX_COLUMNS`: the table lacks a column.
            OptionError: A topic cannot have the name.
        """
        selection = Selection(
            TableFilter(self.outbox.expression), groups, event_types=WRITES_OF_ROWS, decoding=decoding
        )
        for block in blocks:
            for touched in selection.of(block):
                images = read_images(
                    block.data, block.events, touched.events, touched.layout, place=block.place, decoding=decoding
                )
                # Where rules choose rows, of whatever table, row events of all types are selected.
                images = images.select(images.table["kind"] == ImageKind.INSERT)
                images = _not_taken(block, images, start)
                if len(images):
                    yield from self._routed(block, images)

    def _routed(self, block: Block, images: Images) -> Iterator[Messages]:
        columns = self._columns(block, images)
        routes = columns[self.outbox.route].dictionary_encode()
        headers = [(ID_HEADER, columns[self.outbox.id])]
        headers += [(name, columns[column]) for name, column in self.outbox.headers.items()]
        for number, route in enumerate(routes.dictionary.to_pylist()):
            chosen = pc.indices_nonzero(pc.equal(routes.indices, number))
            texts = [(name, column.take(chosen).to_pylist()) for name, column in headers]
            yield Messages(
                self.names.of_route(self.outbox.topic, route.decode(errors="replace")),
                columns[self.outbox.key].take(chosen),
                columns[self.outbox.payload].take(chosen),
                [
                    [(name, values[row]) for name, values in texts if values[row] is not None]
                    for row in range(len(chosen))
                ],
            )

    def _columns(self, block: Block, images: Images) -> dict[str, pa.Array]:
        layout, table = images.layout, self.outbox.table
        indices = {column.name or "": index for index, column in enumerate(layout.columns)}
        problems = self.outbox.problems(indices)
        if problems:
            raise SchemaError(
                "OUTBOX_COLUMNS",
                problems[0],
                at=event_place(block, int(images.table["event"][0])),
                hint="Name its columns in [outbox]: route, key, payload, id, headers",
            )
        for name in self.outbox.columns:
            absent = np.flatnonzero(images.absent_mask(indices[name]))
            if len(absent):
                raise UnsupportedError(
                    "ROW_IMAGE",
                    f"{table}: the row image lacks the column {name} of an event",
                    at=event_place(block, int(images.table["event"][absent[0]])),
                    hint="Set binlog_row_image=FULL on the server, or write the column in each INSERT",
                )
        columns = {name: _text(images.column(indices[name])) for name in self.outbox.columns}
        unrouted = np.flatnonzero(columns[self.outbox.route].is_null().to_numpy(zero_copy_only=False))
        if len(unrouted):
            raise UnsupportedError(
                "MESSAGE_VALUE",
                f"{table}: {self.outbox.route} is null, so the event has no topic",
                at=event_place(block, int(images.table["event"][unrouted[0]])),
                hint="Leave such rows out with where in [[tables]], or name another column (outbox.route)",
            )
        return columns


def _not_taken(block: Block, images: Images, start: SourceOffset) -> Images:
    if start.taken is None:
        return images
    events = block.events[images.table["event"]]
    groups = block.groups[events["group"]]
    is_there = of_group(start.position, groups.__getitem__)
    return images.select(~(is_there & rows_taken(start.taken, events["event_no"], images.table["row_no"])))


def _text(values: pa.Array) -> pa.Array:
    # Bytes as they are, all else as its text.
    if not pa.types.is_binary(values.type):
        values = values.cast(pa.string())
    return values.cast(pa.binary())
