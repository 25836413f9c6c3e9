"""Least and greatest values of Iceberg files: `file_facts` of a data file, `partition_summaries` of a manifest.

A bound may be wider than the values, never narrower, and there may be none; whatever a row holds, there is an answer.
The library ends with an error, or has too narrow a bound, for values at the edge of what their type holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import data_file_statistics_from_parquet_metadata
from pyiceberg.manifest import PartitionFieldSummary
from pyiceberg.types import DecimalType, PrimitiveType, StringType
from pyiceberg.utils.decimal import decimal_required_bytes, decimal_to_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow.parquet as pq
    from pyiceberg.io.pyarrow import StatisticsCollector
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.typedef import Record

    Bounds = tuple[bytes | None, bytes | None]

Value = TypeVar("Value", bound=Any)

_SURROGATES = range(0xD800, 0xE000)
"""Numbers that are of no character: no text in UTF-8 has them."""

_LAST_CHARACTER = 0x10FFFF


def file_facts(
    footer: pq.FileMetaData, plan: Mapping[int, StatisticsCollector], columns: Mapping[str, int]
) -> dict[str, object]:
    """Fields of a data file's entry about its rows.

    Args:
        footer: Of the file.
        plan: Which bounds each field gets.
        columns: Fields, by their path in the file.
    """
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
    """A text of at most *length* characters that is no less than *text*; None: there is none.

    Args:
        text: The greatest one of a column.
        length: None: any.
    """
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
    """Fields of a manifest's entry in a list about each partition field.

    Args:
        spec: How its files are partitioned.
        schema: The table's columns.
        partitions: Of all its files.
    """
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
