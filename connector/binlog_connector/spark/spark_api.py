"""The names of newer PySpark source APIs: filters (4.1), read limits (4.2); where they lack, stand-ins of no effect.

There Spark asks for `latestOffset()` without a start and a limit, and runs Trigger.AvailableNow as one batch.

Errors as Spark shows them: `readable`, which puts a named error in front, in one line.

Spark prints the Python traceback of a failed worker before the error itself, and in the processes that plan a read it
drops causes and notes. `SPARK_HIDE_TRACEBACK` is Spark's own switch (`spark.sql.execution.pyspark.udf.hideTraceback.
enabled`) to show the error alone; the worker looks at it when it reports its failure, right before it ends. A named
error says where and what by itself, so for those, and only in a process that Spark started, the switch is set.
Everything else is a defect and keeps its traceback.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from pyspark.sql.pandas.types import to_arrow_schema

from binlog_format.errors import BinlogError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


@contextmanager
def readable_errors() -> Iterator[None]:
    """Raise named errors of this block so that their text is the first line that the user reads."""
    try:
        yield
    except BinlogError:
        if _is_spark_worker():
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def readable(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """`readable_errors` around a whole function (not a generator: its body runs after the call)."""

    @functools.wraps(function)
    def wrapped(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        with readable_errors():
            return function(*args, **kwargs)

    return wrapped


def _is_spark_worker() -> bool:
    # The driver's own process must not get the switch: it would hand it on to all workers and hide other errors.
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")
