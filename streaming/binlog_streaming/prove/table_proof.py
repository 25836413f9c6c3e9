"""The proof of one target: `TableProof(...).prove()` -> `ProofResult`.

The server sums its rows as of some GTIDs, P. The target is read at the end of a batch, E. What the log has between the
two is added to the server's sums, and then both are those of E (docs/decisions/0026).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from binlog_format.errors import ServerError
from binlog_streaming.lake.commit_id import KEYS_PROPERTY, split_keys
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.prove.comparison import (
    ProofOutcome,
    ProofResult,
    ProofTeller,
    changed_files_reason,
    compare_rows,
    later_rows,
    named_read_errors,
)
from binlog_streaming.prove.log_changes import DisturbedError
from binlog_streaming.prove.read_view import place_under_lock, read_view
from binlog_streaming.prove.server_rows import ServerRows
from binlog_streaming.prove.table_forms import table_forms
from binlog_streaming.prove.target_rows import TargetRows
from binlog_streaming.server.session import TABLE_CHANGED
from binlog_streaming.snapshot.locked_point import LogPoint
from binlog_streaming.snapshot.source_table import TableLock, read_table
from binlog_streaming.snapshot.sql_text import table_sql

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_streaming.lake.target import Target
    from binlog_streaming.prove.comparison import OnProgress
    from binlog_streaming.prove.job_state import ProvedJobState
    from binlog_streaming.prove.log_changes import LogPlace
    from binlog_streaming.prove.read_view import Connect
    from binlog_streaming.prove.table_forms import TableForms
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.settings.choices import Mode
    from binlog_streaming.snapshot.server_tables import ServerTable
    from binlog_streaming.snapshot.source_table import SourceTable


TRIES = 5
"""Number of attempts with a table that is altered meanwhile."""


@dataclass(slots=True)
class TableProof:
    """Compares one target with its table on the server.

    Attributes:
        state: How far the job is.
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
        """Compare; begins anew where the table is altered meanwhile."""
        disturbed = ""
        for _ in range(TRIES):
            try:
                with self._opened() as target:
                    return self._prove_once(target)
            except DisturbedError as error:
                disturbed = str(error)
        text = f"it was changed in each of {TRIES} tries, at last: {disturbed}"
        return self._teller().result(ProofOutcome.NOT_COMPARED, text)

    def _prove_once(self, target: Target) -> ProofResult:
        properties, teller = target.properties(), self._teller()
        if properties is None:
            return teller.result(ProofOutcome.NOT_COMPARED, "the job has not made its target yet")
        with self._view() as point:
            source = read_table(self.session, *self.table.name)
            keys = split_keys(properties.get(KEYS_PROPERTY, ""))
            schema, is_mariadb = target.schema(), self.session.version.is_mariadb
            forms = table_forms(source, schema, self.table.rule, keys, is_mariadb=is_mariadb)
            if not forms.columns:
                return teller.result(ProofOutcome.NOT_COMPARED, "none of its columns can be compared")
            server = ServerRows(self.session, source, forms)
            expected = server.sums(teller.counter("server"), self.sample)
            self._check_is_at(source, point)
            reached = self.state.near(point, self.table.name, self.mode, self.uri, teller.waits)
            end = reached.offset.position
            through = str(reached.gtids) if reached.rows_at is None else self.state.changes.place(end)
            with contextlib.closing(reached.target) as now:
                _check_columns(schema, now.schema(), forms)
                reason = changed_files_reason(now)
                equal = teller.result(ProofOutcome.EQUAL)
                found = replace(equal, forms=forms, gtids=through, rows=expected.row_count)
                if reason:
                    return replace(found, outcome=ProofOutcome.DIFFERENT, reason=reason)
                held_rows = TargetRows(now, self.mode, self.table.rule, forms)
                held = held_rows.sums(teller.counter("target"))
                low: LogPlace | None = reached.rows_at if isinstance(point, LogPoint) else point
                assert low is not None, "it is near"
                high = reached.gtids if reached.rows_at is None else end
                later = later_rows(self.state.changes, low, high, self.table.name, forms)
                result = compare_rows(found, (server, held_rows), (expected, held), later, self.sample)
                if result.differences:
                    self._check_is_at(source, point)
                return result

    def _check_is_at(self, source: SourceTable, point: LogPoint | GtidPoint) -> None:
        """See that rows that were read without a view are those at *point*.

        Raises:
            DisturbedError: The table has been changed since.
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
        with (
            contextlib.closing(sink_type(sink.format).at(sink, self.uri)) as target,
            named_read_errors(sink, self.table.name, self.uri),
        ):
            yield target

    def _teller(self) -> ProofTeller:
        return ProofTeller(self.table.name, self.mode, self.on_progress, self.table.row_estimate)


def _check_columns(before: pa.Schema, now: pa.Schema, forms: TableForms) -> None:
    if any(name not in now.names or now.field(name).type != before.field(name).type for name in forms.names):
        raise DisturbedError("columns of the target changed")
