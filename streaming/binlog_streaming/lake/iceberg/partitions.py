"""Partitions of Iceberg tables: `partition_spec` for a new table, `partitioned` sorts rows into them.

Least and greatest values of Iceberg files: `file_facts` of a data file, `partition_summaries` of a manifest.

A bound may be wider than the values, never narrower, and there may be none; whatever a row holds, there is an answer.
The library ends with an error, or has too narrow a bound, for values at the edge of what their type holds.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import data_file_statistics_from_parquet_metadata
from pyiceberg.manifest import PartitionFieldSummary
from pyiceberg.partitioning import PartitionField, PartitionFieldValue, PartitionKey, PartitionSpec
from pyiceberg.transforms import VoidTransform, parse_transform
from pyiceberg.typedef import Record
from pyiceberg.types import DecimalType, PrimitiveType, StringType
from pyiceberg.utils.decimal import decimal_required_bytes, decimal_to_bytes

from binlog_format.names import folded_name, folded_names
from binlog_streaming.lake.iceberg.schema import unused_name
from binlog_streaming.lake.row_values import row_ids
from binlog_streaming.settings.choices import unpartitionable, valueless

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow.parquet as pq
    from pyiceberg.io.pyarrow import StatisticsCollector
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

    from binlog_streaming.settings.choices import PartitionRule

    Bounds = tuple[bytes | None, bytes | None]


Value = TypeVar("Value", bound=Any)

_SURROGATES = range(0xD800, 0xE000)
"""Numbers that are of no character: no text in UTF-8 has them."""

_LAST_CHARACTER = 0x10FFFF


def file_facts(
    footer: pq.FileMetaData, plan: Mapping[int, StatisticsCollector], columns: Mapping[str, int]
) -> dict[str, object]:
    """Fields of a data file's entry about its rows. *columns*: fields, by their path in the file."""
    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=footer, stats_columns=dict(plan), parquet_column_mapping=dict(columns)
    )
    # A single part without a range gives none to the file.
    for field_id in _without_range(footer, columns) if footer.num_row_groups > 1 else ():
        statistics.column_aggregates.pop(field_id, None)
    cut_short = {}
    for field_id, values in statistics.column_aggregates.items():
        if isinstance(values.primitive_type, StringType) and values.current_max is not None:
            cut_short[field_id] = upper_text(values.current_max, values.trunc_length)
            values.current_max = None
    facts: dict[str, Any] = statistics.to_serialized_dict()
    facts["upper_bounds"] |= {field_id: text.encode() for field_id, text in cut_short.items() if text is not None}
    return facts


def upper_text(text: str, length: int | None) -> str | None:
    """A text of at most *length* characters that is no less than *text*; None: there is none. *length*: None: any."""
    if length is None or len(text) <= length:
        return text
    for end in range(length, 0, -1):
        number = ord(text[end - 1]) + 1
        number = _SURROGATES.stop if number in _SURROGATES else number
        if number <= _LAST_CHARACTER:
            return text[: end - 1] + chr(number)
    return None


def partition_summaries(
    spec: PartitionSpec, schema: Schema, partitions: Sequence[Record]
) -> list[PartitionFieldSummary]:
    """Fields of a manifest's entry in a list about each partition field."""
    summaries = []
    for place, field in enumerate(spec.partition_type(schema).fields):
        kind = field.field_type
        assert isinstance(kind, PrimitiveType)
        there = [partition[place] for partition in partitions]
        known = [value for value in there if value is not None]
        numbers = [value for value in known if value == value]  # NaN is not itself
        bounds: Bounds = (None, None)
        if numbers:
            bounds = _bound(kind, min(numbers)), _bound(kind, max(numbers))
        summaries.append(PartitionFieldSummary(len(known) < len(there), len(numbers) < len(known), *bounds))
    return summaries


def holds_truncated(kind: DecimalType, width: int) -> bool:
    """True if files of partitions can express each value of `truncate[width]`: the smallest have one more digit."""
    least = -(10**kind.precision - 1)
    return bool(-(least - least % width) <= 1 << 8 * decimal_required_bytes(kind.precision) - 1)


def _without_range(footer: pq.FileMetaData, columns: Mapping[str, int]) -> Iterable[int]:
    # Fields of which a part of the file has values, but no range: Parquet leaves it out where values are long.
    for group in range(footer.num_row_groups):
        for place in range(footer.num_columns):
            column = footer.row_group(group).column(place)
            part = column.statistics
            if part is None or (part.num_values and not part.has_min_max):
                yield columns[column.path_in_schema]


def _bound(kind: PrimitiveType, value: Value) -> bytes:
    # A number that was rounded down may have one more digit than its type. Readers take the bytes as they are, and
    # would pass over the manifest if there was no bound.
    return decimal_to_bytes(value) if isinstance(kind, DecimalType) else to_bytes(kind, value)


_FIRST_FIELD = 1000
"""Numbers of partition fields begin here."""


def partition_spec(schema: Schema, rules: Sequence[PartitionRule], table: str) -> PartitionSpec:
    """Partition spec of a new table. *rules*: what the settings ask for; none: it is not."""
    fields = []
    taken = set(folded_names(schema.column_names))
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
        taken.add(folded_name(name))
        fields.append(
            PartitionField(source_id=column.field_id, field_id=_FIRST_FIELD + number, transform=transform, name=name)
        )
    return PartitionSpec(*fields)


def partitioned(metadata: TableMetadata, rows: pa.Table, typed: pa.Table) -> Iterator[tuple[Record, pa.Table]]:
    """Rows with their partitions.

    Args:
        rows: Rows of the table, at least one.

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
