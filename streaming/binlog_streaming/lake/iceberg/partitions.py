"""Partitions of Iceberg tables: `partition_spec` for a new table, `partitioned` sorts rows into them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionFieldValue, PartitionKey, PartitionSpec
from pyiceberg.transforms import VoidTransform, parse_transform
from pyiceberg.typedef import Record
from pyiceberg.types import DecimalType

from binlog_streaming.lake.iceberg.bounds import holds_truncated
from binlog_streaming.lake.iceberg.schema import unused_name
from binlog_streaming.lake.row_values import row_ids
from binlog_streaming.settings.partition_rules import unpartitionable, valueless

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

    from binlog_streaming.settings.partition_rules import PartitionRule

_FIRST_FIELD = 1000
"""Numbers of partition fields begin here."""


def partition_spec(schema: Schema, rules: Sequence[PartitionRule], table: str) -> PartitionSpec:
    """Partition spec of a new table.

    Args:
        schema: Its columns.
        rules: What the settings ask for; none: it is not.
        table: For messages.

    Raises:
        OptionError: `INVALID_VALUE`: there is no such column, or it cannot be partitioned so.
        TableError: `PARTITION_VALUE`: some values of the column would have no partition.
    """
    fields = []
    taken = {name.casefold() for name in schema.column_names}
    for number, rule in enumerate(rules):
        transform = parse_transform(rule.iceberg_transform)
        column = next((column for column in schema.fields if column.name == rule.column), None)
        if column is None:
            raise unpartitionable(table, rule, "there is no such column", schema.column_names)
        if not transform.can_transform(column.field_type):
            why = f"not with a column of type {column.field_type}"
            raise unpartitionable(table, rule, why, schema.column_names)
        kind = column.field_type
        if rule.function == "truncate" and isinstance(kind, DecimalType) and not holds_truncated(kind, rule.size or 1):
            raise valueless(table, rule, f"the least values of {kind} have no multiple of {rule.size} below them")
        name = rule.column
        if rule.function != "identity":
            # Of a column that was always there, or of another field; readers do not tell upper from lower case.
            name = unused_name(f"{rule.column}_{rule.function}", taken)
        taken.add(name.casefold())
        fields.append(
            PartitionField(source_id=column.field_id, field_id=_FIRST_FIELD + number, transform=transform, name=name)
        )
    return PartitionSpec(*fields)


def partitioned(metadata: TableMetadata, rows: pa.Table, typed: pa.Table) -> Iterator[tuple[Record, pa.Table]]:
    """Rows with their partitions.

    Args:
        metadata: The table.
        rows: Its columns, at least one row.
        typed: The same rows as files have them.

    Yields:
        The values of a partition, and its rows of *typed*.
    """
    spec, schema = metadata.spec(), metadata.schema()
    if spec.is_unpartitioned():
        yield Record(), typed
        return
    columns = []
    for field in spec.fields:
        if isinstance(field.transform, VoidTransform):
            columns.append(pa.nulls(rows.num_rows, pa.int32()))
            continue
        source = schema.find_field(field.source_id)
        columns.append(field.transform.pyarrow_transform(source.field_type)(rows.column(source.name)))
    values = pa.Table.from_arrays(columns, names=[f"p{number}" for number in range(len(columns))])
    ids, count = row_ids(values)
    order = np.argsort(ids, kind="stable")
    starts = np.searchsorted(ids[order], np.arange(count + 1))
    for low, high in itertools.pairwise(starts):
        own = pa.array(order[low:high])
        first = values.slice(int(order[low]), 1).to_pylist()[0]
        key = PartitionKey(
            field_values=[
                PartitionFieldValue(field, value) for field, value in zip(spec.fields, first.values(), strict=True)
            ],
            partition_spec=spec,
            schema=schema,
        )
        yield key.partition, typed.take(own)
