"""Row images of a log in sysbench's shape to messages, on one core: `envelope.*`.

What is counted is what comes after decoding: the time that messages take, less the time that the same rows take as
Arrow columns.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench.logs.sysbench_log import sysbench_log
from bench.registry import benchmark
from binlog_connector.envelope.avro.avro_encoding import AvroEncoding
from binlog_connector.envelope.messages import MessagesView
from binlog_connector.envelope.options import EnvelopeFormat, EnvelopeOptions
from binlog_format import open_log
from binlog_format.rows.images import ImageKind, read_images
from binlog_format.views.filters import ALL_GROUPS, TableFilter
from binlog_format.views.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_connector.envelope.encoding import MessageEncoding
    from binlog_format.block import Block

RUNS = 7
"""After a first one that loads the kernels; of each block the least processor time counts, whatever else runs."""


@benchmark("envelope.debezium.rows_per_s", unit="rows/s")
def debezium() -> float:
    """Row changes into Debezium's envelopes, keys and tombstones with them, without schemas."""
    return _rows_per_s(EnvelopeOptions("shop"))


@benchmark("envelope.flat.rows_per_s", unit="rows/s")
def flat() -> float:
    """The same into flat rows."""
    return _rows_per_s(EnvelopeOptions("shop", format=EnvelopeFormat.FLAT))


@benchmark("envelope.avro.rows_per_s", unit="rows/s")
def avro() -> float:
    """The same into Debezium's envelopes in Avro."""
    options = EnvelopeOptions("shop")
    encoding = AvroEncoding(options, _NumberedSchemas(), lambda _, database, table: f"shop.{database}.{table}", "beat")
    return _rows_per_s(options, encoding)


class _NumberedSchemas:
    # A registry costs its answer once for each schema; here is what comes after that.
    url = "http://registry:8081"

    def __init__(self) -> None:
        self._schemas: list[tuple[str, str]] = []

    def id_of(self, subject: str, schema: str) -> int:
        self._schemas.append((subject, schema))
        return len(self._schemas)

    def latest(self, subject: str) -> tuple[int, str] | None:
        found = [(number, text) for number, (name, text) in enumerate(self._schemas, start=1) if name == subject]
        return found[-1] if found else None


def _rows_per_s(options: EnvelopeOptions, encoding: MessageEncoding | None = None) -> float:
    with open_log(str(sysbench_log().path)) as log:
        blocks = list(log.committed_blocks())
    changes = sum(_decoded(block, Selection(TableFilter(), ALL_GROUPS)) for block in blocks)
    decoding, view = Selection(TableFilter(), ALL_GROUPS), MessagesView(options, encoding=encoding)
    decode_s = _seconds(blocks, lambda block: _decoded(block, decoding))
    return changes / (_seconds(blocks, lambda block: list(view.batches([block]))) - decode_s)


def _seconds(blocks: list[Block], action: Callable[[Block], object]) -> float:
    taken = []
    for block in blocks:
        least = float("inf")
        for _ in range(RUNS + 1):
            started = time.process_time()
            action(block)
            least = min(least, time.process_time() - started)
        taken.append(least)
    return sum(taken)


def _decoded(block: Block, selection: Selection) -> int:
    changes = 0
    for touched in selection.of(block):
        images = read_images(block.data, block.events, touched.events, touched.layout, place=block.place)
        for column in range(len(touched.layout.columns)):
            images.column(column)
        changes += int((images.table["kind"] != ImageKind.UPDATE_BEFORE).sum())
    return changes
