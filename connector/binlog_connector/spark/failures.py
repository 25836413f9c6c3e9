"""Errors as Spark shows them: `readable`, which puts a named error in front, in one line.

Spark prints the Python traceback of a failed worker before the error itself, and in the processes that plan a read it
drops causes and notes. `SPARK_HIDE_TRACEBACK` is Spark's own switch (`spark.sql.execution.pyspark.udf.hideTraceback.
enabled`) to show the error alone; the worker looks at it when it reports its failure, right before it ends. A named
error says where and what by itself, so for those, and only in a process that Spark started, the switch is set.
Everything else is a defect and keeps its traceback.
"""

from __future__ import annotations

import functools
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from binlog_format.errors import BinlogError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
