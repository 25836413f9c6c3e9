"""Targets of a component, each opened once: `OpenTargets`; writes are tried again when another writer was faster."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from binlog_format.errors import BinlogError, TableError
from binlog_streaming.modes.shards import IndivisibleError
from binlog_streaming.plan.failures import naming, unexpected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binlog_streaming.lake.target import Target, TargetFactory
    from binlog_streaming.settings import Sink

ATTEMPTS_MAX = 4
"""Largest number of attempts if another writer (an OPTIMIZE, or this job's earlier process) commits between look and
write."""

Result = TypeVar("Result")


class OpenTargets:
    """The targets of one component.

    Args:
        sink: Where they are.
        factory: Makes them.
    """

    def __init__(self, sink: Sink, factory: TargetFactory) -> None:
        self._sink = sink
        self._factory = factory
        self._targets: dict[str, Target] = {}

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Errors of the libraries below them if the place cannot be written, or the machine has no resources left."""
        return (*self._factory.write_errors, OSError, pa.ArrowMemoryError)

    def get(self, uri: str) -> Target:
        """The target at a place, as it was when it was opened."""
        if uri not in self._targets:
            self._targets[uri] = self._factory.at(self._sink, uri)
        return self._targets[uri]

    def write_with_retry(self, uri: str, write: Callable[[Target], Result]) -> Result:
        """Write to the target at a place; it is opened and written again when somebody else committed meanwhile."""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            target = self.get(uri)
            try:
                return write(target)
            except Exception as error:
                if attempt == ATTEMPTS_MAX or not target.is_conflict(error):
                    raise
                self.reopen(uri)
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def naming_errors(self, name: str, uri: str, step: str = "") -> Iterator[None]:
        """Add the table to errors that are raised within.

        Args:
            name: The table.
            uri: Its target.
            step: What is done to it; empty: that is plain.

        Raises:
            TableError: `WRITE_FAILED`: what the libraries below raised; `UNEXPECTED_ERROR`: what nobody foresaw.
            BinlogError: The same, with the table in its reason.
            IndivisibleError: The step has to be done as a whole.
        """
        try:
            yield
        except BinlogError as error:
            raise naming(error, name) from error
        except self.errors as error:
            raise TableError(
                "WRITE_FAILED",
                f"{name}: {uri}: {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}",
                hint="The batch will be written when the job starts again; what is in the table already is not doubled",
            ) from error
        except IndivisibleError:
            raise
        except Exception as error:
            self.reopen(uri)  # it may have been left in the middle of a change
            raise unexpected(error, f"{name}: {uri}{step and ', '}{step}") from error

    def reopen(self, uri: str) -> None:
        """Close the target at a place; who asks next opens it again, as it is then."""
        target = self._targets.pop(uri, None)
        if target is not None:
            target.close()

    def close(self) -> None:
        """Close all connections."""
        for uri in list(self._targets):
            self.reopen(uri)
