"""What the conformance tests of the sinks share: `SINKS`, and a `Place` to write to and to read back from."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from binlog_streaming.settings import Mode, Sink, TableFormat
from binlog_streaming.tables.iceberg_catalog import identifier, open_catalog
from binlog_streaming.tables.mirror import reduce_images
from binlog_streaming.tables.sinks import sink_type
from binlog_streaming.tables.steps import Step, reached
from binlog_streaming.tables.target import Ticket
from tests.streaming.tables.row_images import RowImagesOf

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from binlog_streaming.tables.target import Target
    from tests.streaming.tables.row_images import Change, Row

SINKS = tuple(TableFormat)
MIRROR_SINKS = (TableFormat.DELTA, TableFormat.ICEBERG)

INT_KEY = pa.schema([("id", pa.int32()), ("value", pa.string())])
TICKET = Ticket(
    query_id="q-1",
    batch_id=0,
    source_table="shop.orders",
    mode=Mode.CHANGELOG,
    keys=(),
    position="0:12:3",
    last_change="0:11:2:5",
    gtid="0-1-7",
)


@dataclass(frozen=True)
class Place:
    """A table `shop/orders` in a folder, in some format."""

    directory: Path
    format: TableFormat
    name: str = "shop/orders"
    file_size: int = 64 << 20

    @property
    def sink(self) -> Sink:
        return Sink(directory=str(self.directory), format=self.format, target_file_size=self.file_size)

    @property
    def uri(self) -> str:
        return f"{self.directory}/{self.name}"

    def target(self) -> Target:
        """A look; to be closed."""
        return sink_type(self.format).at(self.sink, self.uri)

    def content(self) -> pa.Table:
        """What a reader gets."""
        if self.format is TableFormat.DELTA:
            return DeltaTable(self.uri).to_pyarrow_table()
        if self.format is TableFormat.PARQUET:
            return pq.read_table(self.uri)
        with closing(open_catalog(str(self.directory))) as catalog:
            return catalog.load_table(identifier(str(self.directory), self.uri)).scan().to_arrow()

    def rows(self) -> list[Row]:
        """The same, as plain values."""
        return [tuple(row.values()) for row in self.content().to_pylist()]

    def ids(self) -> list[int]:
        """Column `id`, sorted."""
        return sorted(self.content().column("id").to_pylist())

    def state(self) -> object:
        """Something that every commit changes."""
        if self.format is TableFormat.DELTA:
            return DeltaTable(self.uri).version()
        if self.format is TableFormat.PARQUET:
            return sorted((path.name, path.stat().st_ino) for path in (self.directory / self.name).iterdir())
        with closing(open_catalog(str(self.directory))) as catalog:
            return catalog.load_table(identifier(str(self.directory), self.uri)).metadata_location

    def append(self, batch_id: int, rows: pa.Table, ticket: Ticket = TICKET) -> bool:
        """A batch into a changelog, as `apply_table` does it; whether it wrote."""
        ticket = replace(ticket, batch_id=batch_id)
        with closing(self.target()) as target:
            target.check_owner(ticket)
            if target.is_done(ticket):
                return False
            reached(Step.LOOKED)
            target.check_schema(rows.schema, ticket)
            target.ensure(rows.schema, ticket)
            target.append(rows.to_reader(), ticket)
            return True

    def merge(self, batch_id: int, changes: Sequence[Change], schema: pa.Schema = INT_KEY, key_count: int = 1) -> bool:
        """A batch into a mirror whose first columns are the key; whether it wrote."""
        keys = tuple(schema.names[:key_count])
        ticket = replace(TICKET, batch_id=batch_id, mode=Mode.MIRROR, keys=keys)
        with closing(self.target()) as target:
            target.check_owner(ticket)
            if target.is_done(ticket):
                return False
            reached(Step.LOOKED)
            target.check_schema(schema, ticket)
            middle = len(changes) // 2
            pieces = [RowImagesOf.changes(part, schema) for part in (changes[:middle], changes[middle:]) if part]
            reduced = reduce_images(pieces, schema, range(key_count), "shop.orders")
            target.ensure(schema, ticket)
            return target.merge(reduced, ticket) > 0


def numbers(*ids: int) -> pa.Table:
    """Rows of `INT_KEY`."""
    return pa.table({"id": pa.array(ids, pa.int32()), "value": pa.array(["x"] * len(ids))}, schema=INT_KEY)
