"""One component of a batch, step by step: `apply_component`; it runs in a Spark task, but needs no Spark.

Everything that can be refused is refused before the step writes anything: who owns the target, its columns, its keys. A
step is one commit that carries its number: a repeated one only records again what a target records after its commit.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from binlog_connector.crash_points import reached
from binlog_connector.rules.row_rules import TableRules, rules_fingerprint
from binlog_connector.schema.snapshot_marks import TableProved
from binlog_connector.schema.table_changes import TableAltered, TableRenamed
from binlog_format.errors import BinlogError, TableError, UnsupportedError
from binlog_streaming.job_state.progress import Note, Outcome, TableProgress, notes_about
from binlog_streaming.lake.commit_id import QUERY_PROPERTY, SET_ASIDE_PROPERTY, TYPES_PROPERTY, CommitId
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.lake.target import CrashPoint
from binlog_streaming.modes.row_batches import ChangePlace
from binlog_streaming.modes.shards import IndivisibleError
from binlog_streaming.plan.batch_plan import RowsStep
from binlog_streaming.plan.cascade_links import LinkedRowsStep
from binlog_streaming.plan.failures import naming, naming_unexpected
from binlog_streaming.plan.job_state import SetAside, can_set_aside
from binlog_streaming.settings.choices import Json, Mode, OnError, partition_rule
from binlog_streaming.tables.batch_run import BatchPositions
from binlog_streaming.tables.cascade_images import CascadeImages, outside_row_batches
from binlog_streaming.tables.cascade_rows import CascadeRows
from binlog_streaming.tables.evidence_watch import EvidenceWatch
from binlog_streaming.tables.logged_types import check_types, forgotten_types, logged_types
from binlog_streaming.tables.open_targets import OpenTargets, target_gone
from binlog_streaming.tables.rows_step import RowsContent, prepared_rows, target_schema
from binlog_streaming.tables.statements.existing_values import adopt_keys, check_of_added
from binlog_streaming.tables.statements.log_facts import LogFacts
from binlog_streaming.tables.statements.step_work import StepWork
from binlog_streaming.tables.statements.target_alteration import fit_columns
from binlog_streaming.tables.statements.work import StatementContext, held_keys
from binlog_streaming.tables.step_rows import StepRows, agreed_types, lacks_types, recorded_by, recorded_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from binlog_connector.schema.definitions import TableName
    from binlog_format.log.log import Log
    from binlog_streaming.lake.target import Target, TargetFactory
    from binlog_streaming.plan.batch_plan import ChangeStep, Component, LogPlace
    from binlog_streaming.plan.job_state import SelectedTable
    from binlog_streaming.tables.batch_run import BatchRun
    from binlog_streaming.tables.division import StepDivision
    from binlog_streaming.tables.rows_step import PreparedRows


def apply_component(
    run: BatchRun,
    component: Component,
    log: Log | None,
    targets: TargetFactory | None = None,
    division: StepDivision | None = None,
) -> list[TableProgress]:
    """Do the steps of *component*.

    Args:
        log: Where the rows are read from; None: all parts have been received, and no step is of foreign keys.
        targets: Makes targets; default: those of the sink's format.
        division: Lets other tasks do large steps; None: all is done here.

    Targets of tables that the plan sets aside state it. With `OnError.SET_ASIDE` what is wrong with a
    table is not raised: it sets aside all tables of the component, as they depend on each other.

    Raises:
        BinlogError: The first thing that is wrong; it names the table. Nothing of this step is in the target for which
            it was raised, and nothing of later steps is in any; steps before it are.
        IndivisibleError: With *division* alone: do it without.
    """
    factory = sink_type(run.sink.format) if targets is None else targets
    check = partial(run.check_source, component.tables)
    with contextlib.closing(OpenTargets(run.sink, factory, check)) as open_targets:
        runner = _ComponentRun(run, component, log, open_targets, division)
        try:
            with naming_unexpected(component.name):
                runner.check_targets()
                for step in component.steps:
                    runner.apply(step)
        except BinlogError as error:
            if run.on_error is OnError.STOP or not can_set_aside(error):
                raise
            runner.stop_all(error)
        runner.record_set_aside()
        runner.record_ends()
        return runner.progress()


class _ComponentRun:
    def __init__(
        self, run: BatchRun, component: Component, log: Log | None, targets: OpenTargets, division: StepDivision | None
    ) -> None:
        self._open_targets = targets
        self._division = division
        self._run = run
        self._component = component
        self._log = log
        self._facts = LogFacts(log, run.given)
        self._tallies: dict[str, TableProgress] = {}
        self._positions = BatchPositions(component, run.gtid_position)
        # Targets that may state something from before the batch when all steps are done.
        lapsing = (table for table in component.tables.values() if table.lapses)
        self._silent = {(table.name, mode): table for table in lapsing for mode in table.rule.modes}
        self._stopped = {name: table.set_aside for name, table in component.tables.items() if table.set_aside}
        self._reached: tuple[LogPlace, str | None] = ((run.position, 0), None)
        self._rows = StepRows(component, log, run.decoding, self._types)
        self._statements = StepWork(component.tables, self._target, self._commit_id)
        self._watch = EvidenceWatch(run.evidence, run.watched, run.compares_all)

    def progress(self) -> list[TableProgress]:
        return [tally for tally in self._tallies.values() if tally.outcome is not Outcome.UNTOUCHED]

    def apply(self, step: RowsStep | LinkedRowsStep | ChangeStep) -> None:
        if isinstance(step, RowsStep):
            self._reached = step.after or (step.parts[0].start, 0), None
            self._apply_rows(self._component.tables[step.table], step)
            return
        if isinstance(step, LinkedRowsStep):
            self._reached = step.place, None
            self._apply_linked_rows(step)
            return
        self._reached = step.place, step.statement.gtid
        for table, mode in self._statements.targets(step):
            self._apply_change(step, table, mode)
        for name in step.tables:
            self._rows.layouts.pop(name, None)  # the statement may have changed it

    def check_targets(self) -> None:
        """Check before all steps that the required targets exist."""
        for table in self._component.tables.values():
            for mode in sorted(table.known):

                def check(target: Target, tally: TableProgress, table: SelectedTable = table, mode: Mode = mode) -> int:
                    del tally
                    if target.properties() is None:
                        raise target_gone(table.name, mode, target.uri)
                    return 0

                self._with_target(table, mode, check)

    def stop_all(self, error: BinlogError) -> None:
        """Set all tables of the component aside, at the step that was begun last."""
        for name, table in self._component.tables.items():
            if not table.is_aside:
                self._stopped.setdefault(name, SetAside.at(name, *self._reached, error))

    def record_set_aside(self) -> None:
        """After all steps: let the targets of tables that do not go on state it."""
        for name, stopped in self._stopped.items():
            table = self._component.tables[name]
            for mode in table.rule.modes:
                tally = self._tally(table, mode, table.uri(self._run.sink.directory, mode))
                tally.count_step(Outcome.SET_ASIDE)
                tally.set_aside = stopped
                # One that cannot be opened cannot state it; the job's record does.
                with contextlib.suppress(TableError, UnsupportedError):
                    self._record_set_aside(table, mode, stopped)

    def _record_set_aside(self, table: SelectedTable, mode: Mode, stopped: SetAside) -> None:
        def record(target: Target, _: TableProgress) -> int:
            properties = target.properties() or {}
            # Another one's table is not ours to change.
            if properties.get(QUERY_PROPERTY) == self._run.query_id:
                commit_id = replace(self._commit_id(table, mode, 0, None, held_keys(properties)), complete=None)
                target.set_properties(commit_id, recorded={SET_ASIDE_PROPERTY: f"{stopped.position}: {stopped.reason}"})
            return 0

        self._with_target(table, mode, record)

    def record_ends(self) -> None:
        """After all steps: let targets state how they are now, as far as their last commit does not."""
        for (name, mode), table in self._silent.items():
            if name in self._stopped:
                continue
            number = self._positions.last_step(name)
            self._with_target(table, mode, partial(self._record_end, table, mode, number))

    def _record_end(self, table: SelectedTable, mode: Mode, number: int, target: Target, _: TableProgress) -> int:
        held = held_keys(target.properties() or {})
        self._positions.record_end(target, self._commit_id(table, mode, number, None, held))
        return 0

    def _apply_rows(self, table: SelectedTable, step: RowsStep) -> None:
        try:
            outline = None if self._division is None else self._division.outline(step, table)
            if outline is not None and self._types(table.name) and any(map(lacks_types, outline.layouts)):
                raise IndivisibleError(outline.source_table)  # tasks do not know what targets record
            content = outline
            if content is None:
                row_batches, decoding, completing = self._rows.of(step), self._run.decoding, table.completing
                content = RowsContent(
                    str(table.name), row_batches, decoding, table.rule, self._facts, completing=completing
                )
        except BinlogError as error:
            raise naming(error, str(table.name)) from error
        if not content.row_batches:
            return
        content = replace(content, is_repair=any(part.is_repair for part in step.parts))
        for mode in table.rule.modes:
            if not (step.is_repair and mode is Mode.CHANGELOG):
                self._write_rows(table, mode, step.number, content, divided=None if outline is None else step)

    def _types(self, name: TableName) -> Mapping[str, str]:
        if not self._run.decoding.declared_types:
            return {}
        table = self._component.tables[name]
        return agreed_types(self._target(table, mode).properties() for mode in table.rule.modes)

    def _apply_linked_rows(self, step: LinkedRowsStep) -> None:
        assert self._log is not None
        assert self._run.cascade_log is not None
        row_batches = {rows.table: self._rows.of(rows) for rows in step.rows}
        row_batches |= outside_row_batches(step, self._run.cascade_log, self._run.decoding)
        logged = CascadeImages(row_batches, self._log)
        linked = CascadeRows(
            step, self._component.tables, logged, self._facts, self._run, self._target, self._commit_id
        )
        linked.bring(self._write_rows, self._open_targets.naming_errors)

    def _write_rows(
        self, table: SelectedTable, mode: Mode, number: int, content: RowsContent, *, divided: RowsStep | None = None
    ) -> None:
        keys = content.keys(mode)
        commit_id = self._commit_id(table, mode, number, content.last, keys)

        def write(target: Target, tally: TableProgress) -> int:
            if mode is Mode.MIRROR and not keys:
                tally.notes |= {Note.WHOLE_ROWS}
            tally.count_commits(content.first_commit_time, content.last.commit_time)
            if commit_id.gtid_position is None:
                self._silent[table.name, mode] = table
            if target.is_done(commit_id) or content.is_done:
                tally.count_step(Outcome.REPEATED)
                return 0
            adopt_keys(table, mode, target, commit_id)
            target.check_owner(commit_id)
            reached(CrashPoint.LOOKED)
            evidence = self._watch.evidence(table.rule, commit_id, target, is_repair=content.is_repair)
            prepared: PreparedRows
            if divided is not None and self._division is not None:
                prepared = self._division.rows(divided, content, evidence)
            else:
                prepared = prepared_rows(content, commit_id, evidence)
            schema = target_schema(content, mode)
            if self._run.sink.json is Json.VARIANT:
                schema = content.with_json(schema, target, self._facts)
            check = check_of_added(table, mode, content, self._facts)
            held = (target.properties() or {}).get(TYPES_PROPERTY, "")
            types = () if mode is Mode.CHANGELOG else logged_types(content, held)
            check_types(table.name, target, held, types, content)
            before = replace(commit_id, logged_types=types[0] if types else "")
            fit_columns(target, before, schema, self._positions, check, content.lost_columns)
            recorded = self._run.recorded(table.name, target, lambda held: recorded_of(held, content.layouts))
            if recorded or before.logged_types:
                target.set_properties(before, recorded=recorded)
            self._positions.clear_position(target, commit_id)
            rows_written = prepared.bring_into(target, commit_id)
            if len(types) > 1:
                target.set_properties(replace(commit_id, logged_types=types[-1]))
            if not rows_written:
                self._silent[table.name, mode] = table
            tally.count_step(Outcome.WRITTEN if rows_written else Outcome.EMPTY, rows_written)
            self._watch.took(target, evidence, commit_id, tally)
            return rows_written

        self._with_target(table, mode, write)

    def _apply_change(self, step: ChangeStep, table: SelectedTable, mode: Mode) -> None:
        plain = replace(self._run.decoding, rules=None)  # the plan has put statements under the rules
        rules, layout = self._run.decoding.rules, self._rows.layouts.get(table.name)
        shown_by = rules.of(*table.name) if isinstance(rules, TableRules) else None
        context, change = StatementContext(step, table, mode, plain, self._facts, layout, shown_by), step.change

        def write(target: Target, tally: TableProgress) -> int:
            self._silent[table.name, mode] = table
            if isinstance(change, TableProved) and (change.query_id, change.mode) == (self._run.query_id, mode):
                tally.verified = change
            place = ChangePlace(*step.place, step.statement.commit_time, step.statement.gtid)
            commit_id = self._commit_id(table, mode, step.number, place, held_keys(target.properties() or {}))
            is_done = target.is_done(commit_id)
            applied = target.applied(commit_id) if is_done else None
            is_last = applied is not None and applied.place == commit_id.place
            if is_done and (not is_last or self._statements.has_recorded(context, commit_id)):
                tally.count_step(Outcome.REPEATED)
                return 0
            target.check_owner(commit_id)
            reached(CrashPoint.LOOKED)
            work = self._statements.work(context, target)
            types = self._run.recorded(table.name, target, lambda held: recorded_by(held, change))
            forgotten = forgotten_types(target.properties(), change)
            if work is None:
                if (types or forgotten) and target.properties() is not None:
                    target.set_properties(commit_id, recorded={**types, **forgotten})
                return 0
            if not is_done:
                self._positions.clear_position(target, commit_id, forgotten)
            commit_id = replace(commit_id, keys=work.keys)
            tally.count_commits(step.statement.commit_time, step.statement.commit_time)
            tally.statements += 1
            tally.schema_changes += isinstance(change, TableAltered | TableRenamed)
            commits = not is_done and work.commit is not None and work.commit(target, commit_id)
            self._watch.changed(target.uri)
            if target.properties() is not None:
                target.set_properties(commit_id, recorded={**work.recorded, **types})
            tally.count_step(Outcome.REPEATED if is_done else Outcome.WRITTEN)
            return int(commits)

        self._with_target(table, mode, write)

    def _target(self, table: SelectedTable, mode: Mode) -> Target:
        return self._open_targets.get(table.uri(self._run.sink.directory, mode))

    def _with_target(self, table: SelectedTable, mode: Mode, write: Callable[[Target, TableProgress], int]) -> None:
        uri = table.uri(self._run.sink.directory, mode)
        tally = self._tally(table, mode, uri)
        started = time.monotonic()
        (position, event_no), _ = self._reached
        with self._open_targets.naming_errors(str(table.name), uri, f"step at {position}:{event_no}"):
            if self._open_targets.write_with_retry(uri, lambda target: write(target, tally)):
                self._open_targets.get(uri).maintain(self._run.sink)
            target = self._open_targets.get(uri)
            tally.version, tally.bytes_per_row = target.version(), target.bytes_per_row()
            tally.watched = self._watch.watched(uri)
        tally.seconds += time.monotonic() - started

    def _commit_id(
        self, table: SelectedTable, mode: Mode, number: int, last: ChangePlace | None, keys: tuple[str, ...] = ()
    ) -> CommitId:
        return CommitId(
            query_id=self._run.query_id,
            batch_id=self._run.batch_id,
            step=number,
            source_table=str(table.name),
            mode=mode,
            keys=keys,
            position=str(self._run.position),
            last_change="" if last is None else str(last),
            gtid=None if last is None else last.gtid,
            gtid_position=self._positions.after(table.name, number),
            complete=table.complete and number >= table.complete_from,
            partition_by=tuple(map(partition_rule, table.rule.partition_by)),
            rules=rules_fingerprint(self._run.decoding, *table.name),
        )

    def _tally(self, table: SelectedTable, mode: Mode, uri: str) -> TableProgress:
        if uri not in self._tallies:
            parts = self._component.parts(table.name)
            self._tallies[uri] = TableProgress(
                source_table=str(table.name),
                target=uri,
                mode=str(mode),
                outcome=Outcome.UNTOUCHED,
                inserts=sum(part.inserts for part in parts),
                updates=sum(part.updates for part in parts),
                deletes=sum(part.deletes for part in parts),
                rows_written=0,
                seconds=0.0,
                position=self._run.position,
                commit_time=0,
                notes=notes_about(table),
            )
        return self._tallies[uri]
