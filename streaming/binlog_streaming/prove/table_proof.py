"""The proof of one target: `TableProof(...).prove()` -> `ProofResult`.

The server sums its rows as of some GTIDs, P. The target is read at the end of a batch, E. What the log has between the
two is added to the server's sums, and then both are those of E (docs/decisions/0026).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.errors import ServerError, TableError
from binlog_streaming.lake.commit_id import KEYS_PROPERTY, split_keys
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.prove.differences import DifferenceKind, find_differences, first_buckets, with_columns
from binlog_streaming.prove.log_changes import DisturbedError
from binlog_streaming.prove.read_view import place_under_lock, read_view
from binlog_streaming.prove.row_sums import Rows
from binlog_streaming.prove.server_rows import ServerRows
from binlog_streaming.prove.table_forms import table_forms
from binlog_streaming.prove.target_rows import TargetRows, changed_files
from binlog_streaming.server.session import TABLE_CHANGED
from binlog_streaming.snapshot.locked_point import LogPoint
from binlog_streaming.snapshot.source_table import TableLock, read_table
from binlog_streaming.snapshot.sql_text import table_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from binlog_connector.schema.definitions import TableName
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_streaming.lake.target import Target
    from binlog_streaming.prove.differences import Difference
    from binlog_streaming.prove.job_state import ProvedJobState
    from binlog_streaming.prove.log_changes import LogChanges, LogPlace
    from binlog_streaming.prove.read_view import Connect
    from binlog_streaming.prove.row_sums import Sums
    from binlog_streaming.prove.table_forms import TableForms
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.settings.choices import Mode
    from binlog_streaming.snapshot.server_tables import ServerTable
    from binlog_streaming.snapshot.source_table import SourceTable

    OnProgress = Callable[["ProofProgress"], None]


TRIES = 5
"""Number of attempts with a table that is altered meanwhile."""
FILES_SHOWN_MAX = 10


class ProofOutcome(StrEnum):
    """Result of a proof."""

    EQUAL = "equal"
    DIFFERENT = "different"
    NOT_COMPARED = "not compared"
    """The table cannot be compared in its present state: it is incomplete, for example."""
    EXEMPT = "cannot be compared"
    """The table cannot be compared with the job's settings: its target does not have the rows of the table."""


@dataclass(frozen=True, slots=True)
class ProofProgress:
    """Progress of a proof.

    Attributes:
        table: `database.table`.
        mode: What the target holds.
        doing: `server`, `target`, or `job`: it waits for the job.
        rows: So far.
        row_estimate: How many there are, about.
        job_at: Where the job is.
    """

    table: str
    mode: Mode
    doing: str
    rows: int = 0
    row_estimate: int = 0
    job_at: str = ""


@dataclass(frozen=True, slots=True)
class ProofResult:
    """Result of a proof with its details.

    Attributes:
        table: `database.table`.
        mode: What the target holds.
        outcome: Whether it is the same.
        reason: Why it was not compared, or cannot be the same.
        gtids: Up to where in the log this is true; a position of the server where it has no GTIDs.
        rows: The server's.
        held_rows: The target's.
        forms: Which columns were compared.
        differences: Rows that differ, as far as they were looked at.
        is_partial: There are more of them.
        repair: What was done about them; empty: nothing.
        is_sample: Values of some rows were compared, beside the counts of all.
    """

    table: str
    mode: Mode
    outcome: ProofOutcome
    reason: str = ""
    gtids: str = ""
    rows: int = 0
    held_rows: int = 0
    forms: TableForms | None = None
    differences: tuple[Difference, ...] = ()
    is_partial: bool = False
    repair: str = ""
    is_sample: bool = False

    def count(self, kind: DifferenceKind) -> int:
        """Number of rows with this difference."""
        return sum(one.kind is kind for one in self.differences)


@dataclass(slots=True)
class TableProof:
    """Compares one target with its table on the server.

    Attributes:
        state: How far the job is.
        table: On the server.
        mode: What the target holds.
        uri: Where it is.
        session: On the server.
        connect: Makes another one.
        on_progress: Told of what is done.
        sample: Buckets whose values are compared, beside the counts of all; empty: all.
    """

    state: ProvedJobState
    table: ServerTable
    mode: Mode
    uri: str
    session: ServerSession
    connect: Connect
    on_progress: OnProgress
    sample: tuple[int, ...] = ()

    def prove(self) -> ProofResult:
        """Compare; begins anew where the table is altered meanwhile.

        Raises:
            ServerError: What the server answered.
            BinlogError: Log, checkpoint or target cannot be read.
        """
        disturbed = ""
        for _ in range(TRIES):
            try:
                with self._opened() as target:
                    return self._prove_once(target)
            except DisturbedError as error:
                disturbed = str(error)
        return self._not_compared(f"it was changed in each of {TRIES} tries, at last: {disturbed}")

    def _prove_once(self, target: Target) -> ProofResult:
        properties = target.properties()
        if properties is None:
            return self._not_compared("the job has not made its target yet")
        with self._view() as point:
            source = read_table(self.session, *self.table.name)
            keys = split_keys(properties.get(KEYS_PROPERTY, ""))
            schema, is_mariadb = target.schema(), self.session.version.is_mariadb
            forms = table_forms(source, schema, self.table.rule, keys, is_mariadb=is_mariadb)
            if not forms.columns:
                return self._not_compared("none of its columns can be compared")
            server = ServerRows(self.session, source, forms)
            expected = server.sums(self._counter("server"), self.sample)
            self._check_is_at(source, point)
            reached = self.state.near(
                point, self.table.name, self.mode, self.uri, lambda place: self._tell("job", job_at=place)
            )
            through = str(reached.gtids) if reached.position is None else self.state.changes.place(reached.position)
            with contextlib.closing(reached.target) as now:
                _check_columns(schema, now.schema(), forms)
                reason = changed_files_reason(now)
                if reason:
                    found = ProofResult(str(self.table.name), self.mode, ProofOutcome.DIFFERENT, reason, forms=forms)
                    return replace(found, gtids=through, rows=expected.row_count)
                held_rows = TargetRows(now, self.mode, self.table.rule, forms)
                held = held_rows.sums(self._counter("target"))
                low: LogPlace | None = reached.rows_at if isinstance(point, LogPoint) else point
                assert low is not None, "it is near"
                high = reached.position or reached.gtids
                later, buckets = later_rows(self.state.changes, low, high, self.table.name, forms)
                expected.add_rows(later, buckets)
                sums = expected.in_sample(self.sample), held.in_sample(self.sample)
                result = self._result(server, held_rows, sums, through, (later, buckets))
                if result.differences:
                    self._check_is_at(source, point)
                return result

    def _check_is_at(self, source: SourceTable, point: LogPoint | GtidPoint) -> None:
        """See that rows that were read without a view are those at *point*.

        Raises:
            DisturbedError: The table has been changed since.
            BinlogError: The log cannot be read.
        """
        if source.lock is not TableLock.TABLE:
            return
        now = place_under_lock(source, self.connect)
        end = self.state.changes.wait_for(now)
        if isinstance(point, LogPoint) or isinstance(now, LogPoint):
            images = self.state.changes.after(self.state.changes.wait_for(point), end, self.table.name)
        else:
            images = self.state.changes.after(point, now, self.table.name)
        if images is not None:
            raise DisturbedError(f"its engine {source.engine} has no snapshots, and rows changed while they were read")

    def _result(
        self,
        server: ServerRows,
        target: TargetRows,
        sums: tuple[Sums, Sums],
        gtids: str,
        later: tuple[Rows, NDArray[np.int64]],
    ) -> ProofResult:
        expected, held = sums
        forms = server.forms
        result = ProofResult(
            str(self.table.name),
            self.mode,
            ProofOutcome.EQUAL,
            gtids=gtids,
            rows=expected.row_count,
            held_rows=held.row_count,
            forms=forms,
            is_sample=bool(self.sample),
        )
        if forms.missing and result.rows:
            reason = f"the target lacks columns: {', '.join(forms.missing)}"
            result = replace(result, outcome=ProofOutcome.DIFFERENT, reason=reason)
        differing = expected.differing(held)
        if not differing:
            return result
        chosen = first_buckets(differing, np.maximum(expected.counts, held.counts))
        rows, buckets = later
        wanted = Rows.joined([server.rows_of(chosen), rows.where(np.isin(buckets, chosen))])
        differences = find_differences(wanted, target.rows_of(chosen))
        if forms.key_columns:
            touched = set(rows.keys.to_pylist())
            differences = with_columns(
                differences,
                server.columns_of,
                lambda keys: target.columns_of(chosen, set(keys)),
                [form.name for form in forms.columns],
                touched,
            )
        return replace(
            result,
            outcome=ProofOutcome.DIFFERENT,
            differences=tuple(differences),
            is_partial=len(chosen) < len(differing),
        )

    @contextlib.contextmanager
    def _view(self) -> Iterator[LogPoint | GtidPoint]:
        source = self.table.source
        with read_view(self.session, source, self.connect) as point:
            try:
                # ALTER TABLE waits from here on.
                self.session.execute(f"SELECT 1 FROM {table_sql(source.schema, source.name)} LIMIT 0")
            except ServerError as error:
                if f"(error {TABLE_CHANGED})" in error.reason:
                    raise DisturbedError("the table was altered") from error
                raise
            yield point

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Target]:
        sink = self.state.job.sink
        factory = sink_type(sink.format)
        with contextlib.closing(factory.at(sink, self.uri)) as target:
            try:
                yield target
            except (*factory.write_errors, OSError, pa.ArrowException) as error:
                raise TableError(
                    "WRITE_FAILED",
                    f"{self.table.name}: {self.uri} cannot be read: {str(error).strip().partition(chr(10))[0]}",
                    hint="sink.retention sets how long older versions can be read; start again",
                ) from error

    def _not_compared(self, reason: str) -> ProofResult:
        return ProofResult(str(self.table.name), self.mode, ProofOutcome.NOT_COMPARED, reason)

    def _counter(self, doing: str) -> Callable[[int], None]:
        total = 0

        def count(rows: int) -> None:
            nonlocal total
            total += rows
            self._tell(doing, rows=total)

        return count

    def _tell(self, doing: str, *, rows: int = 0, job_at: str = "") -> None:
        estimate = self.table.row_estimate
        self.on_progress(ProofProgress(str(self.table.name), self.mode, doing, rows, estimate, job_at))


def _check_columns(before: pa.Schema, now: pa.Schema, forms: TableForms) -> None:
    if any(name not in now.names or now.field(name).type != before.field(name).type for name in forms.names):
        raise DisturbedError("columns of the target changed")


def later_rows(
    changes: LogChanges, low: LogPlace, high: LogPlace, table: TableName, forms: TableForms
) -> tuple[Rows, NDArray[np.int64]]:
    """Rows that a log brings to a table, or takes from it, between two points of which either may be the later one.

    Returns:
        The rows, and the bucket of each.

    Raises:
        DisturbedError: The log does not tell what becomes of the table.
        BinlogError: It cannot be read.
    """
    # The target is after the other rows as a rule, of some domains perhaps before them.
    parts = [(Rows.joined([]), np.empty(0, np.int64))]
    for sign, start, end in ((1, low, high), (-1, high, low)):
        images = None if start == end else changes.after(start, end, table)
        if images is not None:
            parts.append(forms.rows(images.column, sign * images.signs))
    return Rows.joined([rows for rows, _ in parts]), np.concatenate([buckets for _, buckets in parts])


def changed_files_reason(target: Target) -> str:
    """Reason why a target differs whatever its rows are; empty: no data file was changed in place."""
    changed = changed_files(target)
    return f"data files were changed in place: {'; '.join(changed[:FILES_SHOWN_MAX])}" if changed else ""
