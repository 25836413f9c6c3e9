"""The names of newer PySpark source APIs: filters (4.1), read limits (4.2); where they lack, stand-ins of no effect.

There Spark asks for `latestOffset()` without a start and a limit, and runs Trigger.AvailableNow as one batch.
"""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import to_arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import (
        EqualNullSafe,
        EqualTo,
        GreaterThan,
        GreaterThanOrEqual,
        In,
        LessThan,
        LessThanOrEqual,
    )
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )
    from pyspark.sql.types import StructType
else:
    try:
        from pyspark.sql.datasource import (
            EqualNullSafe,
            EqualTo,
            GreaterThan,
            GreaterThanOrEqual,
            In,
            LessThan,
            LessThanOrEqual,
        )
    except ImportError:  # PySpark 4.0 hands no filters to sources

        class EqualTo:
            """Replacement for a class that this Spark does not have."""

        EqualNullSafe = GreaterThan = GreaterThanOrEqual = In = LessThan = LessThanOrEqual = EqualTo

    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxBytes,
            ReadMaxFiles,
            SupportsTriggerAvailableNow,
        )
    except ImportError:
        from dataclasses import dataclass

        class ReadLimit:
            """Limit of a micro-batch."""

        @dataclass
        class ReadAllAvailable(ReadLimit):
            """No limit."""

        @dataclass
        class ReadMaxBytes(ReadLimit):
            """Limit of bytes."""

            max_bytes: int

        @dataclass
        class ReadMaxFiles(ReadLimit):
            """Limit of files."""

            max_files: int

        class SupportsTriggerAvailableNow:
            """The reader can fix an end."""


PUSHDOWN_MODULE = "pyspark.sql.worker.data_source_pushdown_filters"
"""Module that Spark's process for filter pushdown has imported. Only there may a reader have the method `pushFilters`:
if `spark.sql.python.filterPushdown.enabled` is off, Spark refuses readers that have it."""


def hands_over_filters() -> bool:
    """True if Spark (4.1 and later) has started this process to push filters to a source."""
    return PUSHDOWN_MODULE in sys.modules


def arrow_schema_of(schema: StructType) -> pa.Schema:
    """The Arrow form of a Spark schema, with times in UTC; PySpark before 4.2 takes no time zone, and means UTC."""
    zone = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)  # type: ignore[arg-type]


__all__ = [
    "EqualNullSafe",
    "EqualTo",
    "GreaterThan",
    "GreaterThanOrEqual",
    "In",
    "LessThan",
    "LessThanOrEqual",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxFiles",
    "SupportsTriggerAvailableNow",
    "arrow_schema_of",
    "hands_over_filters",
]
