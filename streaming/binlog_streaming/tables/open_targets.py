"""Targets of a component, each opened once: `OpenTargets`; writes are tried again when another writer was faster.

Position of a target in the log: `read_target_state(target)`.

Targets that were written and are gone: `check_folders` before a batch, `target_gone` for whoever looks.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from binlog_format.errors import BinlogError, TableError, UnsupportedError
from binlog_format.gtids.gtid_set import parse_gtids
from binlog_format.messages import library_text, shown_cause
from binlog_streaming.lake.commit_id import QUERY_PROPERTY, commit_id_of
from binlog_streaming.modes.shards import IndivisibleError
from binlog_streaming.plan.failures import naming, unexpected
from binlog_streaming.plan.snapshots import past_statement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from binlog_connector.schema.definitions import TableName
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_streaming.lake.target import Target, TargetFactory
    from binlog_streaming.plan.batch_plan import Component
    from binlog_streaming.settings import Sink
    from binlog_streaming.settings.choices import Mode


ATTEMPTS_MAX = 4
"""Largest number of attempts if another writer (an OPTIMIZE, or this job's earlier process) commits between look and
write."""

Result = TypeVar("Result")


@dataclass(slots=True)
class OpenTargets:
    """The targets of one component.

    Attributes:
        check: Looks at a target before each attempt to write to it, also after another writer was faster.
    """

    sink: Sink
    factory: TargetFactory
    check: Callable[[Target], None] | None = None
    _targets: dict[str, Target] = field(default_factory=dict)

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Errors of the libraries below them if the place cannot be written, or the machine has no resources left."""
        return (*self.factory.write_errors, OSError, pa.ArrowMemoryError)

    def get(self, uri: str) -> Target:
        """The target at a place, as it was when it was opened."""
        if uri not in self._targets:
            self._targets[uri] = self.factory.at(self.sink, uri)
        return self._targets[uri]

    def write_with_retry(self, uri: str, write: Callable[[Target], Result]) -> Result:
        """Write to the target at a place; it is opened and written again when somebody else committed meanwhile."""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            target = self.get(uri)
            try:
                if self.check is not None:
                    self.check(target)
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
            step: What is done to it; empty: that is plain.

        Raises:
            TableError: `WRITE_FAILED`: what the libraries below raised; `UNEXPECTED_ERROR`: what nobody foresaw.
            IndivisibleError: The step has to be done as a whole.
        """
        try:
            yield
        except BinlogError as error:
            raise naming(error, name) from error
        except self.errors as error:
            raise TableError(
                "WRITE_FAILED",
                f"{name}: {uri}: {type(error).__name__}: {library_text(error)}",
                hint="The batch will be written when the job starts again; what is in the table already is not doubled",
            ) from error
        except IndivisibleError:
            raise
        except Exception as error:
            self.reopen(uri)  # it may have been left in the middle of a change
            raise unexpected(error, f"{name}: {uri}{step and ', '}{step}") from shown_cause(error)

    def reopen(self, uri: str) -> None:
        """Close the target at a place; who asks next opens it again, as it is then."""
        target = self._targets.pop(uri, None)
        if target is not None:
            target.close()

    def close(self) -> None:
        """Close all connections."""
        for uri in list(self._targets):
            self.reopen(uri)


@dataclass(frozen=True, slots=True)
class TargetState:
    """State of a target.

    Attributes:
        gtid: What of the log it holds; None: it does not record it.
        batch_id: The last batch of its query in it; None: none is.
    """

    owner: str
    gtid: GtidPoint | None
    batch_id: int | None


def read_target_state(target: Target, source_table: str, mode: Mode) -> TargetState | None:
    """Read the state of *target*; None while it does not exist.

    Args:
        source_table: `database.table` that it is to hold.

    Raises:
        TableError: `OTHER_WRITER`, `SAME_TARGET`, `MODE_CHANGED`: it is no target of that table and mode.
    """
    properties = target.properties()
    if properties is None:
        return None
    owner = properties.get(QUERY_PROPERTY)
    if owner is None:
        raise TableError(
            "OTHER_WRITER",
            f"{source_table}: {target.uri} was written by somebody else, not by binlog-stream",
            hint="Name another --target, or remove it",
        )
    commit_id = commit_id_of(properties, owner, source_table, mode)
    target.check_owner(commit_id)
    applied = target.applied(commit_id)
    return TargetState(owner, _gtid_position(target), None if applied is None else applied.batch_id)


def check_ownership_can_transfer(target: Target, state: TargetState, told: str) -> None:
    """See that another query can become the owner of a target."""
    if not target.supports_other_owner and state.batch_id is not None:
        raise UnsupportedError(
            "FORMAT",
            f"{told}: plain Parquet files are named by the batches of the query that wrote them: another one cannot go "
            "on there",
            hint='Build it anew elsewhere (--target), or use sink.format = "delta" or "iceberg"',
        )


def _gtid_position(target: Target) -> GtidPoint | None:
    texts = [text for text in target.gtid_positions() if text]
    if not texts:
        return None
    # Each records what is in it, at different times: by the commit of a step, and by a replay after its last one.
    point = parse_gtids(texts[0])
    for text in texts[1:]:
        later = parse_gtids(text)
        point = point.advanced_by(later.without(point))
    return point


def check_folders(components: Iterable[Component], sink: Sink) -> None:
    """See that the folders of targets are there that a batch goes on with, before anything of it is written.

    Whether there is a table in a folder, and what is in an object store or a catalog, is seen when the target is looked
    at.
    """
    if "://" in sink.directory or sink.catalog:
        return
    for component in components:
        for table in component.tables.values():
            for mode in sorted(table.known):
                uri = table.uri(sink.directory, mode)
                if not Path(uri).exists():
                    raise target_gone(table.name, mode, uri)


def target_gone(name: TableName, mode: Mode | str, uri: str) -> TableError:
    """The error for a target that is not there any more."""
    return TableError(
        "TARGET_GONE",
        f"{name}: {uri} was written by this job ({mode}), and is not there any more",
        hint="It would begin in the middle of the log. Bring it back; or build it again with binlog-stream replay "
        f"JOB.toml, or from the server's rows: {past_statement(name)}; or delete the checkpoint and the other tables "
        "too: the job then builds all of them again",
    )
