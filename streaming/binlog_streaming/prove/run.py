"""Prove the tables of a job, one after the other: `JobProof`; one target: `TableProof`."""

from __future__ import annotations

import contextlib
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from binlog_format.errors import BinlogError, ServerError
from binlog_format.messages import count_text
from binlog_format.names import folded_name
from binlog_streaming.job_state.checkpoint import read_checkpoint, state_of
from binlog_streaming.lake.commit_id import KEYS_PROPERTY, split_keys
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.plan.job_state import TableSelection
from binlog_streaming.plan.snapshots import snapshot_command
from binlog_streaming.prove.column_forms import table_forms
from binlog_streaming.prove.comparison import (
    ProofOutcome,
    ProofResult,
    ProofTeller,
    TimeLimit,
    TimeUpError,
    changed_files_reason,
    compare_rows,
    later_rows,
    named_read_errors,
)
from binlog_streaming.prove.job_state import ProvedJobState, stopped_text
from binlog_streaming.prove.log_changes import TRIES, DisturbedError, LogChanges
from binlog_streaming.prove.repair import TableRepair, drop_left_repairs
from binlog_streaming.prove.rows import sample_of
from binlog_streaming.prove.side_rows import ServerRows, TargetRows
from binlog_streaming.prove.unseen_table import UnseenTable
from binlog_streaming.server.session import TABLE_CHANGED
from binlog_streaming.settings.choices import Mode
from binlog_streaming.snapshot.locked_point import LogPoint, place_under_lock, read_view
from binlog_streaming.snapshot.log_identity import begin_writing, check_is_writer
from binlog_streaming.snapshot.marks import NO_CHUNK, Mark, MarkKind, MarksTable
from binlog_streaming.snapshot.server_checks import check_mark_rights, check_server, lock_refusal, rights_refusal
from binlog_streaming.snapshot.server_tables import JobTables, find_server_tables, no_table_found
from binlog_streaming.snapshot.source_table import TableLock, read_table
from binlog_streaming.snapshot.sql_text import prepare_session, table_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from binlog_connector.schema.definitions import TableName
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_streaming.lake.target import Target
    from binlog_streaming.plan.job_state import SelectedTable
    from binlog_streaming.prove.column_forms import TableForms
    from binlog_streaming.prove.comparison import OnProgress
    from binlog_streaming.prove.log_changes import LogPlace
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.settings.model import Job
    from binlog_streaming.snapshot.locked_point import Connect
    from binlog_streaming.snapshot.server_tables import ServerTable
    from binlog_streaming.snapshot.source_table import SourceTable


_SET_ASIDE = "the job has set it aside, or cannot use its snapshot: binlog-stream check JOB.toml shows why"


class BetweenError(DisturbedError):
    """The log does not tell what becomes of the table between the server's rows and the target.

    Attributes:
        point: Where the server's rows were read. A job that has passed it leaves the reason behind.
    """

    def __init__(self, text: str, point: LogPoint | GtidPoint) -> None:
        super().__init__(text)
        self.point = point


@dataclass(slots=True)
class TableProof:
    """Compares one target with its table on the server.

    The server sums its rows as of some GTIDs, P. The target is read at the end of a batch, E. What the log has between
    the two is added to the server's sums, and then both are those of E (docs/decisions/0026).

    Attributes:
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
        """Compare; begins anew where the table is altered meanwhile, or before the job has come there."""
        disturbed: DisturbedError | None = None
        for _ in range(TRIES):
            if isinstance(disturbed, BetweenError):
                # No view is held meanwhile: ALTER TABLE, and with it everybody who wants the table, would wait.
                self.state.wait_past(disturbed.point, self.table.name, str(disturbed), self._teller().waits)
            try:
                with self._opened() as target:
                    return self._prove_once(target)
            except DisturbedError as error:
                disturbed = error
        text = f"it was changed in each of {TRIES} tries, at last: {disturbed}"
        return self._teller().result(ProofOutcome.NOT_COMPARED, text)

    def _prove_once(self, target: Target) -> ProofResult:
        properties, teller = target.properties(), self._teller()
        if properties is None:
            return teller.result(
                ProofOutcome.NOT_COMPARED,
                "its target is not there: the job has not made it yet; or it was removed, and "
                f"{snapshot_command(self.table.name)} makes it again",
            )
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
                low: LogPlace | None = reached.rows_at if isinstance(point, LogPoint) else point
                assert low is not None, "it is near"
                high = reached.gtids if reached.rows_at is None else end
                try:
                    later = later_rows(self.state.changes, low, high, self.table.name, forms)
                except DisturbedError as error:
                    raise BetweenError(str(error), point) from error
                held_rows = TargetRows(now, self.mode, self.table.rule, forms)
                held = held_rows.sums(teller.counter("target"))
                result = compare_rows(found, (server, held_rows), (expected, held), later, self.sample)
                if result.differences:
                    self._check_is_at(source, point)
                return result

    def _check_is_at(self, source: SourceTable, point: LogPoint | GtidPoint) -> None:
        """See that rows that were read without a view are those at *point*."""
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
    """See that the job has not changed, since the columns were chosen, which ones can be compared."""
    came = {folded_name(name) for name in now.names}.intersection(folded_name(name) for name in forms.missing)
    if came or any(name not in now.names or now.field(name).type != before.field(name).type for name in forms.names):
        raise DisturbedError("columns of the target changed")


@dataclass(frozen=True, slots=True)
class JobProof:
    """Input for the proof of a job's tables.

    Attributes:
        on_result: Told of each target, as soon as it is known.
        repairs: Rows that differ are brought back through the log.
        table_timeout: Seconds that a target may take; None: no limit.
        sample: Percent of the rows whose values are compared, beside the number of all; None: all.
    """

    job: Job
    connect: Connect
    on_progress: OnProgress
    on_result: Callable[[ProofResult], None]
    repairs: bool = False
    table_timeout: int | None = None
    sample: int | None = None

    def prove(self, tables: str | None = None) -> list[ProofResult]:
        """Compare all targets, and record in the log which are equal.

        Args:
            tables: Only these tables of the job: regular expressions on `database.table`.

        Raises:
            ServerError: `VERSION`, `SETTINGS`, `OTHER_SERVER`, `REPLICA`, `DENIED`, or what it answered before
                the first table.
        """
        with ExitStack() as opened:
            session = opened.enter_context(self.connect())
            check_server(session)
            check_is_writer(session, self.job.source.path, self.job.source.format)
            found = find_server_tables(session, self.job, tables)
            of_job = JobTables(self.job)
            unseen = of_job.unseen_tables([table.name for table in found], tables)
            if not found and not unseen:
                raise no_table_found(session, self.job, tables)
            check_mark_rights(session, repairs=self.repairs)
            begin_writing(session, self.job.source)
            if self.repairs:
                drop_left_repairs(session)
            state = ProvedJobState(self.job, LogChanges(self.job))
            results = [
                self._told(self._judge_unseen(table, mode, state, of_job))
                for table in unseen
                for mode in table.rule.modes
            ]
            for table in found:
                if not session.is_open:
                    session = opened.enter_context(self.connect())
                    prepare_session(session)
                # All targets first: after a repair the log has more of the table than changes.
                proved = [self._judge(session, table, mode, state, of_job) for mode in table.rule.modes]
                repaired = _repaired(session, table, proved) if self.repairs else proved
                results += [self._told(result) for result in repaired]
            return results

    def _judge_unseen(self, table: SelectedTable, mode: Mode, state: ProvedJobState, of_job: JobTables) -> ProofResult:
        if of_job.is_set_aside(table.name):
            return ProofResult(str(table.name), mode, ProofOutcome.NOT_COMPARED, _SET_ASIDE)
        limit = TimeLimit(self.table_timeout)
        is_expected = of_job.has_target(table.name, mode)
        try:
            return UnseenTable(state, table, mode, is_expected, limit.checked(self.on_progress)).judge()
        except (TimeUpError, BinlogError, DisturbedError) as error:
            return ProofResult(str(table.name), mode, ProofOutcome.NOT_COMPARED, limit.text(error))

    def _judge(
        self, session: ServerSession, table: ServerTable, mode: Mode, state: ProvedJobState, of_job: JobTables
    ) -> ProofResult:
        """The result for one target; what is wrong with it is no matter of the other ones."""
        limit = TimeLimit(self.table_timeout)
        try:
            limit.begin(session)
            # The server may have altered it since the tables were listed.
            table = replace(table, source=read_table(session, *table.name))
            obstacle = self._obstacle(session, table, mode, of_job)
            if obstacle is not None:
                return ProofResult(str(table.name), mode, *obstacle)
            return self._prove(session, table, mode, state, limit)
        except (TimeUpError, BinlogError) as error:
            session.roll_back()
            return ProofResult(str(table.name), mode, ProofOutcome.NOT_COMPARED, limit.text(error))
        finally:
            limit.end(session)

    def _prove(
        self, session: ServerSession, table: ServerTable, mode: Mode, state: ProvedJobState, limit: TimeLimit
    ) -> ProofResult:
        selected = TableSelection.of(self.job).find(table.name)
        assert selected is not None, "a rule selects it"
        uri = selected.uri(self.job.sink.directory, mode)
        tell, sample = limit.checked(self.on_progress), sample_of(self.sample)
        result = TableProof(state, table, mode, uri, session, self.connect, tell, sample).prove()
        is_whole = result.forms is not None and not result.forms.unknown and not result.is_sample
        if result.outcome is ProofOutcome.EQUAL and is_whole:
            limit.end(session)
            self._note(session, table, result)
        return result

    def _obstacle(
        self, session: ServerSession, table: ServerTable, mode: Mode, of_job: JobTables
    ) -> tuple[ProofOutcome, str] | None:
        if mode is Mode.CHANGELOG:
            return ProofOutcome.EXEMPT, "a changelog holds changes, not the rows of the table"
        if table.rule.where is not None:
            return ProofOutcome.EXEMPT, "its rule has where: the target holds some of the rows"
        if not self.job.sink.format.replaces_rows:
            return ProofOutcome.EXEMPT, f"plain {self.job.sink.format.capitalize()} files may go while they are read"
        refusal = table.refusal("FULL")
        if refusal is not None:
            return ProofOutcome.EXEMPT, refusal
        refusal = rights_refusal(session, table.source, locks_rows=self.repairs) or lock_refusal(session, table.source)
        if refusal is not None:
            return ProofOutcome.NOT_COMPARED, refusal
        if of_job.is_set_aside(table.name):
            return ProofOutcome.NOT_COMPARED, _SET_ASIDE
        if not of_job.is_complete(table.name):
            return ProofOutcome.NOT_COMPARED, self._incomplete(table.name, of_job)
        return None

    def _incomplete(self, name: TableName, of_job: JobTables) -> str:
        command = snapshot_command(name)
        if of_job.knows(name):
            return f"it is not complete in the job: {command} brings its earlier rows"
        # What the job has yet to read, no snapshot has to bring; and a job that failed needs something else first.
        begins = (
            "the job has nothing of it yet" if of_job.has_begun else "the job has not come to the end of a batch yet"
        )
        stopped = stopped_text(self.job)
        rests = "" if stopped is None else f", and does not run{stopped}"
        return f"{begins}{rests}; let it come to the end of the log: {command} brings earlier rows that it lacks then"

    def _note(self, session: ServerSession, table: ServerTable, result: ProofResult) -> None:
        # The job reads it in its log, and states it from there on.
        checkpoint = read_checkpoint(state_of(self.job))
        assert checkpoint is not None, "its tables have come somewhere"
        detail = {"query": checkpoint.query_id, "mode": str(result.mode), "through": result.gtids}
        MarksTable(session).insert(
            Mark(
                str(uuid.uuid4()),
                MarkKind.PROOF,
                (table.source.schema, table.source.name),
                "",
                NO_CHUNK,
                result.rows,
                detail,
            )
        )

    def _told(self, result: ProofResult) -> ProofResult:
        self.on_result(result)
        return result


def _repaired(session: ServerSession, table: ServerTable, results: Sequence[ProofResult]) -> list[ProofResult]:
    """Repair the rows that differ in any target of a table: rows in the log are for all of them."""
    forms = next(
        (result.forms for result in results if result.outcome is ProofOutcome.DIFFERENT and result.forms is not None),
        None,
    )
    if forms is None:
        return list(results)
    keys = sorted({difference.key for result in results for difference in result.differences})
    repair = TableRepair(session, table, forms)
    obstacle = repair.obstacle(keys)
    try:
        if obstacle is None:
            repaired = count_text(repair.repair(keys), "row is", "rows are")
            told = f"repair: {count_text(len(keys), 'key')}, {repaired} in the log; the job applies them"
        else:
            told = f"not repaired: {obstacle}; {snapshot_command(table.name)} takes the table again"
    except BinlogError as error:
        told = f"not repaired: {error}"
    return [replace(result, repair=told) if result.outcome is ProofOutcome.DIFFERENT else result for result in results]
