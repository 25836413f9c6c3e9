"""Prove the tables of a job, one after the other: `prove_job(server, job, tables)`."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from binlog_format.errors import BinlogError, SchemaError
from binlog_streaming.job_state.checkpoint import read_checkpoint
from binlog_streaming.job_state.state_files import state_of
from binlog_streaming.plan.job_state import TableSelection
from binlog_streaming.prove.comparison import ProofOutcome, ProofResult
from binlog_streaming.prove.job_state import ProvedJobState
from binlog_streaming.prove.log_changes import LogChanges
from binlog_streaming.prove.repair import TableRepair, drop_left_repairs
from binlog_streaming.prove.row_sums import sample_of
from binlog_streaming.prove.table_proof import TableProof
from binlog_streaming.prove.time_limit import TimeLimit, TimeUpError
from binlog_streaming.settings.choices import Mode
from binlog_streaming.snapshot.job_tables import JobTables
from binlog_streaming.snapshot.log_identity import begin_writing, check_is_writer
from binlog_streaming.snapshot.marks import NO_CHUNK, Mark, MarkKind, MarksTable
from binlog_streaming.snapshot.rights import check_mark_rights, lock_refusal, rights_refusal
from binlog_streaming.snapshot.server_checks import check_server
from binlog_streaming.snapshot.server_tables import find_server_tables
from binlog_streaming.snapshot.sql_text import prepare_session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from binlog_streaming.prove.comparison import OnProgress, ProofProgress
    from binlog_streaming.prove.read_view import Connect
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.settings.model import Job
    from binlog_streaming.snapshot.server_tables import ServerTable


@dataclass(frozen=True, slots=True)
class JobProof:
    """Input for the proof of a job's tables.

    Attributes:
        connect: Makes a session on the server.
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
            SchemaError: `TABLE_NOT_FOUND`: the server shows no table that is asked for.
        """
        with ExitStack() as opened:
            session = opened.enter_context(self.connect())
            check_server(session)
            check_is_writer(session, self.job.source.path, self.job.source.format)
            found = find_server_tables(session, self.job, tables)
            of_job = JobTables(self.job)
            unseen = of_job.unseen([table.name for table in found], tables)
            if not found and not unseen:
                hint = "See [[tables]] and --tables"
                reason = "the server shows no table that is asked for"
                raise SchemaError("TABLE_NOT_FOUND", reason, at=session.place, hint=hint)
            check_mark_rights(session, repairs=self.repairs)
            begin_writing(session, self.job.source)
            if self.repairs:
                drop_left_repairs(session)
            results = [
                self._told(
                    ProofResult(name, Mode.MIRROR, ProofOutcome.NOT_COMPARED, "the server does not show such a table")
                )
                for name in unseen
            ]
            state = ProvedJobState(self.job, LogChanges(self.job))
            for table in found:
                if not session.is_open:
                    session = opened.enter_context(self.connect())
                    prepare_session(session)
                # All targets first: after a repair the log has more of the table than changes.
                proved = [self._judge(session, table, mode, state, of_job) for mode in table.rule.modes]
                repaired = _repaired(session, table, proved) if self.repairs else proved
                results += [self._told(result) for result in repaired]
            return results

    def _judge(
        self, session: ServerSession, table: ServerTable, mode: Mode, state: ProvedJobState, of_job: JobTables
    ) -> ProofResult:
        """The result for one target; what is wrong with it is no matter of the other ones."""
        limit = TimeLimit(self.table_timeout)
        try:
            limit.begin(session)
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
        selected = TableSelection(self.job.tables, self.job.source.exclude_tables).find(table.name)
        assert selected is not None, "a rule selects it"
        uri = selected.uri(self.job.sink.directory, mode)

        def tell(progress: ProofProgress) -> None:
            limit.check()
            self.on_progress(progress)

        result = TableProof(state, table, mode, uri, session, self.connect, tell, sample_of(self.sample)).prove()
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
            return (
                ProofOutcome.NOT_COMPARED,
                "the job has set it aside, or cannot use its snapshot (binlog-stream check)",
            )
        if not of_job.is_complete(table.name):
            return (
                ProofOutcome.NOT_COMPARED,
                "it is not complete in the job: binlog-stream snapshot brings its earlier rows",
            )
        return None

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
            told = f"repair: {len(keys):,} keys, {repair.repair(keys):,} rows are in the log; the job applies them"
        else:
            told = f"not repaired: {obstacle}; binlog-stream snapshot takes the table again"
    except BinlogError as error:
        told = f"not repaired: {error}"
    return [replace(result, repair=told) if result.outcome is ProofOutcome.DIFFERENT else result for result in results]
