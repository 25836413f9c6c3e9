"""Columns of a data file of an Iceberg table: `IcebergReadColumns` makes them those that the table has now.

They are found by their numbers, so a file from before a column was renamed or widened is read rightly.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import ArrowAccessor, ArrowProjectionVisitor, pyarrow_to_schema
from pyiceberg.schema import Schema, prune_columns, visit_with_partner
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import ListType, LongType, MapType, NestedField

from binlog_streaming.lake.evolution import IDENTITY, cast_to_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table.metadata import TableMetadata

IDENTITY_FIELDS = (
    NestedField(2147483540, "_row_id", LongType(), required=False),
    NestedField(2147483539, "_last_updated_sequence_number", LongType(), required=False),
)
"""Id of a version 3 row, and the number of the commit that changed it last; null: both follow from file and place."""


class IcebergReadColumns:
    """See `ReadColumns`; the columns of `IDENTITY` are `IDENTITY_FIELDS` in files."""

    def __init__(self, metadata: TableMetadata, file: DataFile, there: pa.Schema, wanted: pa.Schema) -> None:
        self._wanted = wanted
        fields = dict(zip(IDENTITY.names, IDENTITY_FIELDS, strict=True))
        fields |= {field.name: field for field in metadata.schema().fields}
        self._schema = Schema(*(fields[name] for name in wanted.names))
        version = metadata.format_version
        in_file = pyarrow_to_schema(
            there, metadata.name_mapping(), downcast_ns_timestamp_to_us=version < 3, format_version=version
        )
        numbers = {
            number
            for number in self._schema.field_ids
            if not isinstance(self._schema.find_type(number), (MapType, ListType))
        }
        read = prune_columns(in_file, numbers, select_full_types=False)
        self.are_there = bool(read.fields)
        self.names = [column.name for column in read.fields] or there.names[:1]
        # The values of these are the partition's, in files that came from elsewhere.
        partitions = {
            field.source_id: file.partition[place]
            for place, field in enumerate(metadata.specs()[file.spec_id].fields)
            if isinstance(field.transform, IdentityTransform) and field.source_id not in in_file.field_ids
        }
        self._visitor = ArrowProjectionVisitor(
            read, version < 3, projected_missing_fields=partitions, allow_timestamp_tz_mismatch=True
        )
        self._accessor = ArrowAccessor(read)

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """See `ReadColumns`."""
        shaped = visit_with_partner(self._schema, batch, self._visitor, self._accessor)
        assert isinstance(shaped, pa.StructArray)
        return cast_to_schema(pa.RecordBatch.from_arrays(shaped.flatten(), names=self._wanted.names), self._wanted)


@contextmanager
def opened_file(io: FileIO, file: DataFile) -> Iterator[pq.ParquetFile]:
    """A data file or delete file, open."""
    # Spark may keep times in 96 bits; in nanoseconds most years would not be there.
    with io.new_input(file.file_path).open() as opened:
        yield pq.ParquetFile(opened, coerce_int96_timestamp_unit="us", pre_buffer=False)


def integer_bounds(file: DataFile, number: int) -> tuple[int, int] | None:
    """Least and greatest value of a column of integers; None: they are not recorded."""
    # A column that was widened has shorter ones in its old files.
    low, high = ((bounds or {}).get(number) for bounds in (file.lower_bounds, file.upper_bounds))
    if low is None or high is None:
        return None
    return int.from_bytes(low, "little", signed=True), int.from_bytes(high, "little", signed=True)
