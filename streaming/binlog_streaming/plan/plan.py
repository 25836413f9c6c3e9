"""Planning of a batch: `plan_batch(rows, decoding, selection)` gives a `BatchPlan`, its steps in their order.

A plan is a function of the part of the log and the job's rules, so a batch that is done again has the same steps under
the same numbers. What statements do to tables is counted through the batch: changes 1, 2, 3 ... of all its statements,
about whatever tables, and of the marks between which snapshots fill tables. Change n is step 3n; the rows of a table
that follow change n, the last one before them that is about their table, are step 3n + 2, and rows before any such
change step 2. Step 3n + 1 makes the table's columns fit for these rows, where no statement did. So statements about
other tables do not cut a table's rows, and the steps of a table grow in log order.

Tables that are linked by a RENAME or an EXCHANGE PARTITION are one `Component`: its steps are done one after the other,
by their numbers. So are tables that are linked by foreign keys whose actions are done in the targets (`cascade_links`);
their rows are cut at the statements about any of them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from binlog_connector.rules.row_rules import TableRules
from binlog_connector.schema.log_ddl import DdlStatement
from binlog_connector.schema.operations import CreateTable
from binlog_connector.schema.snapshot_marks import SnapshotBegun, SnapshotCancelled, SnapshotChunk, SnapshotEnded
from binlog_connector.schema.stated_definitions import definition_operations, definition_statement, states_folding
from binlog_connector.schema.table_changes import (
    DatabaseDropped,
    EventsLost,
    PartitionExchanged,
    RowsChanged,
    TableCreated,
    TableDropped,
    TableRenamed,
    TableTruncated,
    rows_moved,
)
from binlog_format.errors import SchemaError
from binlog_format.position import Position
from binlog_streaming.plan.batch_plan import STEPS_PER_CHANGE, BatchPlan, ChangeStep, Component, RowsStep, names_of
from binlog_streaming.plan.cascade_links import Appliance, LinkedRowsStep, linked_rows_steps, links_in, rows_steps
from binlog_streaming.plan.cascades import cascades_in
from binlog_streaming.plan.job_state import JobState, SelectedTable, SetAside, can_set_aside
from binlog_streaming.plan.lost_cascades import lost_cascades
from binlog_streaming.plan.planning import Planning, changes_under_rules, definitions_of, statements_of
from binlog_streaming.plan.snapshots import Snapshots, changes_of_mark, faults_in
from binlog_streaming.plan.table_checks import TableChecks
from binlog_streaming.plan.table_spellings import named_changes, take_unclear_keys, take_unclear_names
from binlog_streaming.settings import Mode, OnError, OnStatement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.foreign_keys import ForeignKeys
    from binlog_connector.schema.snapshot_marks import SnapshotChange
    from binlog_connector.schema.statement_scope import StatementScope
    from binlog_connector.schema.table_changes import StatementChange, TableChange
    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.plan.batch_plan import LogPlace
    from binlog_streaming.plan.cascades import CascadedChange, CascadeLog
    from binlog_streaming.plan.job_state import TableSelection
    from binlog_streaming.plan.lost_cascades import LostCascade, RowGaps
    from binlog_streaming.plan.planning import Row, Statements

    AnyChange = StatementChange | SnapshotChange
    FindLost = Callable[[RowGaps, Sequence[tuple[Position, TableRenamed]]], list[LostCascade]]


def plan_batch(
    rows: Iterable[Row],
    decoding: Decoding,
    selection: TableSelection,
    job_state: JobState,
    *,
    on_error: OnError = OnError.STOP,
    fail_on_data_loss: bool = True,
    log: CascadeLog | None = None,
) -> BatchPlan:
    """Plan the steps of a batch in their order.

    Args:
        rows: Of the view `tables`, in any order.
        job_state: What the job knows from batches before.
        on_error: What becomes of a batch with a table that cannot go on.
        fail_on_data_loss: Stop where the server states that it did not log changes.
        log: Where rows of parents are looked for whose foreign keys change rows of children; None: they are not.

    Raises:
        OptionError: `INVALID_VALUE`: `lowerCaseTableNames` is not what the log shows.
        SchemaError: `DDL_NOT_PARSED`: a DROP DATABASE of which is not known which tables it drops. `NAMES_UNCLEAR`: a
            statement spells a table otherwise than its rows.
        TableError: `INCOMPLETE`: rows of a table that existed before the log was read.
        DataLossError: `LOST_EVENTS`: the server did not log changes.
    """
    rows = list(rows)
    statements = statements_of(rows)
    planning = _planning(rows, statements, decoding, selection, job_state)
    first = min((Position.of(row["start"]) for row in rows), default=None)
    last = max((Position.of(row["end"]) for row in rows), default=None)
    for row in rows:
        if row["database"] is not None:
            planning.take_rows(row)
    # Others are of no table of the job. Rows that cannot be understood have no index either.
    own = (row for row in rows if row["database"] is None or row["index"] is not None or row.get("problem") is not None)
    end = max((Position.of(row["end"]) for row in own), default=None)
    scope = planning.job_state.scope
    if log is not None and first is not None and scope.foreign_keys is None:
        scope.take_older(log.scope_before(first))
    states: list[tuple[Position, ForeignKeys]] = []

    def walk(scope: StatementScope) -> list[tuple[DdlStatement, list[AnyChange]]]:
        states[:] = [] if first is None or scope.foreign_keys is None else [(first, scope.foreign_keys.copy())]
        return list(_changes(statements, decoding, scope, states))

    changes = named_changes(planning, walk)
    if isinstance(decoding.rules, TableRules):
        changes = list(changes_under_rules(planning, changes, decoding, decoding.rules))
    take_unclear_names(planning, changes)
    _keep_between_renames(planning, [change for _, some in changes for change in some])
    carried, find_lost = [], None
    if log is not None and states and last is not None:
        inline = any(key.inline for _, known in states for keys in known.keys.values() for key in keys)
        appliance = Appliance(planning.applies_cascades, log.takes_inline_keys if inline else None)
        carried = _take_cascades(planning, states, last, log, appliance)
        find_lost = partial(lost_cascades, planning.touched, states, log, appliance)
        take_unclear_keys(planning, states, log)
        end = last if planning.cascades else end
    admission = TableChecks(
        planning.job_state, planning.find, planning.known, fail_on_data_loss, planning.snapshots, decoding.rules is None
    )
    _admit(planning, admission, changes, carried, find_lost, on_error)
    if first is not None:
        _take_respelled(planning, DdlStatement(first, 0, ""))
    _take_statements(planning, changes, admission.exchanges)
    components = sorted(_components(planning), key=lambda component: component.name)
    change = replace(planning.state_change(), definitions=definitions_of(statements))
    return BatchPlan(tuple(components), end, change)


def _changes(
    statements: Statements, decoding: Decoding, scope: StatementScope, states: list[tuple[Position, ForeignKeys]]
) -> Iterator[tuple[DdlStatement, list[AnyChange]]]:
    """Effects of statements, in log order; changes of foreign keys also go into *states*."""
    for statement, mark in statements:
        some: Sequence[AnyChange]
        if mark is None:
            some = scope.changes(statement, decoding)
        else:
            some = changes_of_mark(mark, decoding)
            scope.names.state(states_folding(mark))
            defined = definition_statement(mark)
            if defined is not None:
                scope.observe(defined)
                made = (table for table in definition_operations(defined) if isinstance(table, CreateTable))
                some = [*some, *(moved for table in made for moved in rows_moved(table))]
        yield statement, list(some)
        if states and scope.foreign_keys is not None and scope.foreign_keys != states[-1][1]:
            states.append((statement.position, scope.foreign_keys.copy()))


def _planning(
    rows: Sequence[Row], statements: Statements, decoding: Decoding, selection: TableSelection, job_state: JobState
) -> Planning:
    marks = [change for _, mark in statements if mark for change in changes_of_mark(mark, decoding)]
    begun = {change.name for change in marks if isinstance(change, SnapshotBegun)}
    snapshots = Snapshots(dict(job_state.snapshots), faults_in(rows, marks))
    return Planning(selection, job_state, snapshots, begun & job_state.set_aside.keys())


def _take_cascades(
    planning: Planning,
    states: Sequence[tuple[Position, ForeignKeys]],
    end: Position,
    log: CascadeLog,
    appliance: Appliance,
) -> list[CascadedChange]:
    # Those that are not done in the targets are given back.
    planning.cascades = links_in(planning.touched, states, end, appliance)
    for link in planning.cascades:
        if planning.find(link.key.parent) is not None:
            planning.links.append((link.key.parent, link.child))
    return cascades_in(planning.touched, states, log, planning.holds_rows, appliance)


def spread(components: Sequence[Component], count: int) -> list[list[Component]]:
    """Put *components* into up to *count* piles of about the same weight, in each the heavy ones first."""
    piles: list[list[Component]] = [[] for _ in range(count)]
    weights = [0] * count
    for component in sorted(components, key=lambda each: -each.weight):
        lightest = weights.index(min(weights))
        piles[lightest].append(component)
        weights[lightest] += component.weight
    return [pile for pile in piles if pile]


def _admit(
    planning: Planning,
    admission: TableChecks,
    changes: Sequence[tuple[DdlStatement, list[AnyChange]]],
    carried: Sequence[CascadedChange],
    find_lost: FindLost | None,
    on_error: OnError,
) -> None:
    ahead = deque(carried)
    for statement, some in changes:
        while ahead and ahead[0].place < statement.place:
            admission.take_cascade(ahead.popleft())
        admission.take(statement, some)
    # Of each range only the first change is known, and others may follow a TRUNCATE.
    for cascade in (*ahead, *carried):
        admission.take_cascade(cascade)
    if find_lost is not None:
        renames = [(of.position, change) for of, some in changes for change in some if isinstance(change, TableRenamed)]
        for lost in find_lost(admission.gaps, renames):
            admission.take_lost(lost)
    admission.finish({name: min(part.start for part in parts) for name, parts in planning.parts.items()})
    planning.complete = admission.complete
    planning.assumed = admission.assumed
    planning.take_keys()
    for name, refusal in planning.problems:
        admission.refuse(name, refusal)
    admission.refuse_children(planning.cascades)
    refusals = sorted(admission.refusals.values(), key=lambda refused: refused.place)
    final = next((it for it in refusals if on_error is OnError.STOP or not can_set_aside(it.error)), None)
    if final is not None:
        raise final.error
    admission.refuse_heirs(changes, planning.cascades)
    planning.refusals = admission.refusals


def _take_statements(
    planning: Planning, changes: Sequence[tuple[DdlStatement, list[AnyChange]]], exchanges: Set[LogPlace]
) -> None:
    # Statements about rows are no steps, and there may be millions: a table either stops at them, or lacks them.
    counted = (
        (change, statement)
        for statement, some in changes
        for change in some
        if isinstance(change, PartitionExchanged)
        or (
            not isinstance(change, RowsChanged | EventsLost | SnapshotCancelled)
            # Of chunks only the first one can be a step.
            and not (isinstance(change, SnapshotChunk) and change.number)
        )
    )
    numbered = [(number, change, statement) for number, (change, statement) in enumerate(counted, 1)]
    for number, change, statement in numbered:
        _take_gone(planning, change)
        place = statement.place
        names = tuple(name for name in _tables_of(planning, change) if planning.takes_part(name, place))
        step = planning.snapshots.step_of(change, place)
        if not names or step is None or (isinstance(change, PartitionExchanged) and place not in exchanges):
            continue
        later = [other for _, other, of in numbered[number:] if of is statement and isinstance(other, TableRenamed)]
        planning.changes.append(
            ChangeStep(STEPS_PER_CHANGE * number, step, statement, names, frozenset(other.new for other in later))
        )
        if isinstance(change, TableRenamed | PartitionExchanged):
            planning.links += [(names[0], other) for other in names[1:]]


def _take_respelled(planning: Planning, start: DdlStatement) -> None:
    # Before all statements: number 0.
    for name in planning.respelled:
        change = TableDropped(name)
        planning.changes.append(ChangeStep(0, change, start, (name,)))
        _take_gone(planning, change)


def _take_gone(planning: Planning, change: TableChange | SnapshotChange) -> None:
    if isinstance(change, TableCreated | SnapshotBegun):
        planning.gone.discard(change.name)
    elif isinstance(change, TableDropped | DatabaseDropped):
        planning.gone.update(names_of(change, planning.known))
    elif isinstance(change, TableRenamed):
        planning.gone.add(change.old)
        planning.gone.discard(change.new)


def _keep_between_renames(planning: Planning, changes: Sequence[AnyChange]) -> None:
    # RENAME a TO swap, b TO a, swap TO b: what is kept goes through a name that is not.
    renames = [change for change in changes if isinstance(change, TableRenamed)]
    for number, change in enumerate(renames):
        old = planning.find(change.old)
        if old is None or planning.find(change.new) is not None:
            continue
        if any(later.old == change.new and planning.find(later.new) is not None for later in renames[number + 1 :]):
            planning.tables[change.new] = SelectedTable(change.new, old.rule, is_aside=True)


def _tables_of(planning: Planning, change: TableChange | SnapshotChange) -> list[TableName]:
    names = [name for name in names_of(change, planning.known) if planning.find(name) is not None]
    if not isinstance(change, DatabaseDropped):
        return names
    rules = planning.selection.rules_about(change.database)
    # Targets whose rows stay are marked as dropped: a later CREATE TABLE IF NOT EXISTS replaces these rows.
    asks_for_rows = any(rule.on_drop is not OnStatement.IGNORE for rule in rules)
    if asks_for_rows and not names and planning.job_state.written is None:
        raise SchemaError(
            "DDL_NOT_PARSED",
            f"DROP DATABASE {change.database}: the log does not name the tables that it drops, and on_drop asks for "
            "them",
            hint='Set on_drop = "ignore" for these tables, start the job again, and remove their targets by hand',
        )
    return names


_BEGINNINGS = (TableCreated, TableDropped, TableRenamed, TableTruncated)
"""After one of these a table has all its rows from there on; after a RENAME nothing has the old name any more."""


def _complete_from(planning: Planning, name: TableName, about: Iterable[ChangeStep]) -> int:
    """Number of the step after which all rows of a table are in the part that was read; 0: they were before."""
    was_complete = planning.job_state.complete.get(name, planning.job_state.from_first)
    ends = (SnapshotEnded,) if was_complete else (SnapshotEnded, *_BEGINNINGS)
    return max((step.number for step in about if isinstance(step.change, ends)), default=0)


def _components(planning: Planning) -> Iterator[Component]:
    leader = {name: name for name in planning.tables}

    def find(name: TableName) -> TableName:
        while leader[name] != name:
            name = leader[name]
        return name

    for one, other in planning.links:
        leader[find(one)] = find(other)
    linked = {find(link.child) for link in planning.cascades}
    tables: dict[TableName, dict[TableName, SelectedTable]] = {}
    steps: dict[TableName, list[RowsStep | LinkedRowsStep | ChangeStep]] = {}
    for name, table in planning.tables.items():
        about = [change for change in planning.changes if name in change.tables]
        refusal = planning.refusals.get(name)
        tables.setdefault(find(name), {})[name] = replace(
            table,
            known=_known(planning, table, about),
            complete=planning.complete.get(name),
            lapses=planning.complete.get(name) is False and planning.job_state.complete.get(name) is True,
            is_assumed=name in planning.assumed,
            complete_from=_complete_from(planning, name, about),
            completing=name in planning.snapshots.tables,
            set_aside=None if refusal is None else SetAside.at(name, refusal.place, refusal.gtid, refusal.error),
        )
        # It stays as it was before the batch: so it keeps stating where it is, and a replay can go on from there.
        parts = planning.parts.get(name, []) if refusal is None else []
        own = steps.setdefault(find(name), [])
        if find(name) not in linked:
            own += rows_steps(name, parts, about, planning.snapshots.counts)
    for change in planning.changes:
        for name in {find(name): None for name in change.tables}:
            steps[name].append(change)
    for name in linked:
        steps[name] += _linked_steps(planning, tables[name])
    for name, members in tables.items():
        if steps[name] or any(table.set_aside is not None or table.lapses for table in members.values()):
            yield Component(members, tuple(sorted(steps[name], key=_order)))


def _linked_steps(planning: Planning, members: Mapping[TableName, SelectedTable]) -> Iterator[LinkedRowsStep]:
    going_on = [name for name, table in members.items() if table.set_aside is None]
    parts = {name: planning.parts.get(name, []) for name in going_on}
    links = [link for link in planning.cascades if link.child in parts]
    about = [change for change in planning.changes if any(name in members for name in change.tables)]
    return linked_rows_steps(parts, links, planning.touched, about, planning.snapshots.counts)


def _known(planning: Planning, table: SelectedTable, about: Sequence[ChangeStep]) -> frozenset[Mode]:
    # A changelog that somebody took away goes on; so does a table that has, or gets, other rows than before.
    first = about[0].change if about else None
    begins = (isinstance(first, TableCreated) and not first.if_not_exists) or isinstance(first, SnapshotBegun)
    if begins or isinstance(first, TableDropped | DatabaseDropped) or table.name in planning.refusals:
        return frozenset()
    known = (planning.job_state.written or {}).get(table.name, frozenset())
    return known & frozenset(table.rule.modes) - {Mode.CHANGELOG}


def _order(step: RowsStep | LinkedRowsStep | ChangeStep) -> tuple[int, str]:
    return step.number, str(step.table) if isinstance(step, RowsStep) else ""
