"""What a batch does to which tables, and in which order: `plan_batch(rows, decoding, kept)` gives a `BatchPlan`.

A plan is a function of the part of the log and the job's rules, so a batch that is done again has the same steps under
the same numbers. What statements do to tables is counted through the batch: changes 1, 2, 3 ... of all its statements,
about whatever tables. Change n is step 3n; the rows of a table that follow change n, the last one before them that is
about their table, are step 3n + 2, and rows before any such change step 2. Step 3n + 1 makes the table's columns fit
for these rows, where no statement did. So statements about other tables do not cut a table's rows, and the steps of a
table grow in log order.

Tables that are linked by a RENAME are one `Component`: its steps are done one after the other, by their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.log_ddl import DdlStatement
from binlog_connector.schema.table_changes import (
    DatabaseDropped,
    NotUnderstood,
    TableCreated,
    TableDropped,
    TableRenamed,
    table_changes,
)
from binlog_format.errors import SchemaError
from binlog_format.position import Position
from binlog_streaming.settings import Mode, OnStatement
from binlog_streaming.tables.kept import KeptTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from binlog_connector.schema.table_changes import TableChange
    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.tables.kept import KeptTables

    LogPlace = tuple[Position, int]
    """Position of an event group, and number of an event in it."""
    Row = Mapping[str, object]
    """Of the view `tables`."""
    Written = Mapping[TableName, frozenset[Mode]]
    """Tables of batches before, and which of their targets are there since."""

STEPS_PER_CHANGE = 3
COLUMNS_STEP = 1
"""Behind a change: columns are made fit for rows."""
ROWS_STEP = 2
"""Behind a change: rows."""

COMPONENT_WEIGHT = 1 << 14
"""What a component costs however little it holds, in bytes of an index."""


@dataclass(frozen=True, slots=True)
class IndexPart:
    """An index row of one table: its row events in one range of the log.

    Attributes:
        start: Of the range.
        end: Behind it.
        index: Serialised `TableIndex`.
        inserts: Row changes by kind.
        updates: The same.
        deletes: The same.
    """

    start: Position
    end: Position
    index: bytes
    inserts: int
    updates: int
    deletes: int


@dataclass(frozen=True, slots=True)
class RowsStep:
    """Rows of one table, between two statements about it.

    Attributes:
        number: `Ticket.step` of the rows; the one before it is that of columns which have to be made fit for them.
        table: Whose rows.
        parts: Where they are; parts at the edges may hold others beside them.
        after: Only rows behind this place.
        before: Only rows before this place.
    """

    number: int
    table: TableName
    parts: tuple[IndexPart, ...]
    after: LogPlace | None = None
    before: LogPlace | None = None


@dataclass(frozen=True, slots=True)
class ChangeStep:
    """What a statement does to tables.

    Attributes:
        number: `Ticket.step`.
        change: What it does.
        statement: Where it stands.
        tables: Tables of the component that it is about.
        overwritten: Tables that the same statement puts another content in later on: nobody has to empty them.
    """

    number: int
    change: TableChange
    statement: DdlStatement
    tables: tuple[TableName, ...]
    overwritten: frozenset[TableName] = frozenset()

    @property
    def place(self) -> LogPlace:
        """Where the statement stands."""
        return self.statement.position, self.statement.event_no


@dataclass(frozen=True, slots=True)
class Component:
    """Tables that depend on each other, and what becomes of them, step by step.

    Attributes:
        tables: By their names in the log.
        steps: By their numbers.
    """

    tables: Mapping[TableName, KeptTable]
    steps: tuple[RowsStep | ChangeStep, ...]

    @property
    def name(self) -> str:
        """That of its first table."""
        return str(min(self.tables))

    @property
    def weight(self) -> int:
        """About what it costs, to spread components evenly."""
        parts = {id(part): part for step in self.steps if isinstance(step, RowsStep) for part in step.parts}
        return COMPONENT_WEIGHT + sum(len(part.index) for part in parts.values())

    def parts(self, table: TableName) -> list[IndexPart]:
        """What the batch has of a table, each part once."""
        found = {
            id(part): part
            for step in self.steps
            if isinstance(step, RowsStep) and step.table == table
            for part in step.parts
        }
        return list(found.values())


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """A batch.

    Attributes:
        components: They do not depend on each other; by their names.
        end: Where the log goes on behind all that was touched; None: nothing was.
        gone: Tables that were dropped or renamed, and not made again: who likes may remove their targets.
    """

    components: tuple[Component, ...]
    end: Position | None
    gone: frozenset[TableName] = frozenset()


@dataclass(slots=True)
class _Planning:
    # What is collected on the way; `links` has a pair of names for each RENAME between tables of the job.
    kept: KeptTables
    written: Written | None = None
    gone: set[TableName] = field(default_factory=set)
    tables: dict[TableName, KeptTable] = field(default_factory=dict)
    parts: dict[TableName, list[IndexPart]] = field(default_factory=dict)
    changes: list[ChangeStep] = field(default_factory=list)
    links: list[tuple[TableName, TableName]] = field(default_factory=list)

    def find(self, name: TableName) -> KeptTable | None:
        if name not in self.tables:
            table = self.kept.find(name)
            if table is None:
                return None
            self.tables[name] = table
        return self.tables[name]


def plan_batch(rows: Iterable[Row], decoding: Decoding, kept: KeptTables, written: Written | None = None) -> BatchPlan:
    """Put what a batch holds in order.

    Args:
        rows: Of the view `tables`, in any order.
        decoding: How rows become values.
        kept: The job's tables.
        written: Tables that the job has written in batches before, and which targets of theirs are there since; None:
            that is not known.

    Raises:
        SchemaError: `DDL_NOT_PARSED`: a DROP DATABASE of which is not known which tables it drops.
        BinlogError: What parsing statements raises.
    """
    planning = _Planning(kept, written)
    statements: list[DdlStatement] = []
    end: Position | None = None
    for row in rows:
        row_end = position_of(row["end"])
        end = row_end if end is None else max(end, row_end)
        if row["index"] is None:
            statements += [DdlStatement.from_row(one) for one in cast("Sequence[Row]", row["ddl"])]
            continue
        name = TableName(str(row["database"]), str(row["table"]))
        if planning.find(name) is not None:
            planning.parts.setdefault(name, []).append(_part(row, row_end))
    _take_statements(planning, sorted(statements, key=lambda one: (one.position, one.event_no)), decoding)
    components = sorted(_components(planning), key=lambda one: one.name)
    return BatchPlan(tuple(components), end, frozenset(planning.gone))


def spread(components: Sequence[Component], count: int) -> list[list[Component]]:
    """Put *components* into up to *count* piles of about the same weight, in each the heavy ones first."""
    piles: list[list[Component]] = [[] for _ in range(count)]
    weights = [0] * count
    for component in sorted(components, key=lambda one: -one.weight):
        lightest = weights.index(min(weights))
        piles[lightest].append(component)
        weights[lightest] += component.weight
    return [pile for pile in piles if pile]


def position_of(value: object) -> Position:
    """A position out of a row."""
    fields = cast("Mapping[str, int]", value)
    return Position(fields["file_no"], fields["page"], fields["chunk"])


def _part(row: Row, end: Position) -> IndexPart:
    counts = (cast("int", row[name]) for name in ("inserts", "updates", "deletes"))
    return IndexPart(position_of(row["start"]), end, bytes(cast("bytes", row["index"])), *counts)


def _take_statements(planning: _Planning, statements: Sequence[DdlStatement], decoding: Decoding) -> None:
    numbered: list[tuple[int, TableChange, DdlStatement]] = []
    for statement in statements:
        changes = table_changes(statement, decoding)
        numbered += [(n, change, statement) for n, change in enumerate(changes, len(numbered) + 1)]
    _keep_between_renames(planning, [change for _, change, _ in numbered])
    for number, change, statement in numbered:
        _take_gone(planning, change)
        names = _tables_of(planning, change)
        if not names:
            continue
        later = [other for _, other, of in numbered[number:] if of is statement and isinstance(other, TableRenamed)]
        planning.changes.append(
            ChangeStep(STEPS_PER_CHANGE * number, change, statement, names, frozenset(other.new for other in later))
        )
        if isinstance(change, TableRenamed):
            planning.links += [(names[0], other) for other in names[1:]]


def _take_gone(planning: _Planning, change: TableChange) -> None:
    if isinstance(change, TableCreated):
        planning.gone.discard(change.name)
    elif isinstance(change, TableDropped):
        planning.gone.add(change.name)
    elif isinstance(change, TableRenamed):
        planning.gone.add(change.old)
        planning.gone.discard(change.new)
    elif isinstance(change, DatabaseDropped):
        known = (*planning.parts, *planning.tables, *(planning.written or ()))
        planning.gone.update(name for name in known if name.database == change.database)


def _keep_between_renames(planning: _Planning, changes: Sequence[TableChange]) -> None:
    # RENAME a TO swap, b TO a, swap TO b: what is kept goes through a name that is not.
    renames = [change for change in changes if isinstance(change, TableRenamed)]
    for number, change in enumerate(renames):
        old = planning.find(change.old)
        if old is None or planning.find(change.new) is not None:
            continue
        if any(later.old == change.new and planning.find(later.new) is not None for later in renames[number + 1 :]):
            planning.tables[change.new] = KeptTable(change.new, old.rule, is_aside=True)


def _tables_of(planning: _Planning, change: TableChange) -> tuple[TableName, ...]:
    if isinstance(change, TableRenamed):
        names = [change.old, change.new]
    elif isinstance(change, NotUnderstood):
        names = list(change.names)
    elif isinstance(change, DatabaseDropped):
        return _tables_of_database(planning, change.database)
    else:
        names = [change.name]
    return tuple(name for name in dict.fromkeys(names) if planning.find(name) is not None)


def _tables_of_database(planning: _Planning, database: str) -> tuple[TableName, ...]:
    rules = [rule for rule in planning.kept.rules_about(database) if rule.on_drop is not OnStatement.IGNORE]
    known = (*planning.parts, *planning.tables, *(planning.written or ()))
    names = tuple(name for name in dict.fromkeys(known) if name.database == database and planning.find(name))
    if rules and not names and planning.written is None:
        raise SchemaError(
            "DDL_NOT_PARSED",
            f"DROP DATABASE {database}: the log does not say which tables it drops, and on_drop asks for them",
            hint='Set on_drop = "ignore" for these tables, start the job again, and remove their targets by hand',
        )
    return names if rules else ()


def _components(planning: _Planning) -> Iterator[Component]:
    leader = {name: name for name in planning.tables}

    def find(name: TableName) -> TableName:
        while leader[name] != name:
            name = leader[name]
        return name

    for one, other in planning.links:
        leader[find(one)] = find(other)
    tables: dict[TableName, dict[TableName, KeptTable]] = {}
    steps: dict[TableName, list[RowsStep | ChangeStep]] = {}
    for name, table in planning.tables.items():
        tables.setdefault(find(name), {})[name] = table
        about = [change for change in planning.changes if name in change.tables]
        tables[find(name)][name] = replace(table, known=_known(planning, table, about))
        steps.setdefault(find(name), []).extend(_rows_steps(name, planning.parts.get(name, []), about))
    for change in planning.changes:
        for name in {find(name): None for name in change.tables}:
            steps[name].append(change)
    for name, members in tables.items():
        if steps[name]:
            yield Component(members, tuple(sorted(steps[name], key=lambda step: (step.number, _name_of(step)))))


def _known(planning: _Planning, table: KeptTable, about: Sequence[ChangeStep]) -> frozenset[Mode]:
    # A changelog that somebody took away goes on; so does a table that has, or gets, other rows than before.
    first = about[0].change if about else None
    begins = isinstance(first, TableCreated) and not first.if_not_exists
    if begins or isinstance(first, TableDropped | DatabaseDropped):
        return frozenset()
    known = (planning.written or {}).get(table.name, frozenset())
    return known & frozenset(table.rule.modes) - {Mode.CHANGELOG}


def _name_of(step: RowsStep | ChangeStep) -> str:
    return str(step.table) if isinstance(step, RowsStep) else ""


def _rows_steps(name: TableName, parts: Sequence[IndexPart], about: Sequence[ChangeStep]) -> Iterator[RowsStep]:
    if not parts:
        return
    parts = sorted(parts, key=lambda part: part.start)
    number, after = ROWS_STEP, None
    for change in (*about, None):
        before = None if change is None else change.place
        within = tuple(part for part in parts if _meets(part, after, before))
        if within and (before is None or before != after):
            yield RowsStep(number, name, within, after, before)
        if change is not None:
            number, after = change.number + ROWS_STEP, change.place


def _meets(part: IndexPart, after: LogPlace | None, before: LogPlace | None) -> bool:
    return (after is None or part.end > after[0]) and (before is None or part.start <= before[0])
