"""Tables made of nothing but the changes of a log: `replay`, `rows_that_differ`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.truth.comparison import TruthError
from tests.truth.truth_values import json_difference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tests.truth.reading import Change, Image
    from tests.truth.truth_case import Case, Row, Schema, TrueChange

    Tables = dict[str, list[Image]]
    ColumnInfo = dict[str, str | None]

_DATABASE = "t"  # of unqualified names in the statements of the corpus
_TRUNCATE = re.compile(r"TRUNCATE TABLE (\S+)")
_RENAME = re.compile(r"(\S+) TO (\S+?)(?:,|$)")
_REPLACED = re.compile(r"CREATE OR REPLACE TABLE (\S+)")
_PARTITION = re.compile(r"ALTER TABLE (\S+) (?:TRUNCATE|DROP) PARTITION p0")
_PARTITION_END = 100  # p0 VALUES LESS THAN (100)
_UNLOGGED = "sql_log_bin=0"


class _Anything:
    """A value that no change has told: of a column that DDL added."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


ANYTHING = _Anything()


def apply(rows: list[Image], change: Change) -> Image:
    """Apply *change* to *rows*; the row that was changed.

    Raises:
        TruthError: A row that it updates or deletes is not there.
    """
    if change.before is None:
        assert change.after is not None
        rows.append(dict(change.after))
        return rows[-1]
    row = next((row for row in rows if all(row[name] == value for name, value in change.before.items())), None)
    if row is None:
        raise TruthError(
            f"{change.gtid}: {change.op} of {change.table}: there is no row {str(change.before)[:400]}; "
            f"the nearest differs in {_nearest(rows, change.before)}"
        )
    if change.after is None:
        rows.remove(row)
    else:
        row.update(change.before)
        row.update(change.after)
    return row


def _nearest(rows: list[Image], image: Image) -> str:
    """Columns, and both values, in which the row that has most of *image* differs."""
    differing = [{name: (row[name], value) for name, value in image.items() if row[name] != value} for row in rows]
    return str(min(differing, key=len, default="all: there are no rows"))[:600]


def replay(case: Case, changes: Iterable[Change]) -> Tables:
    """The tables after all *changes*; what the log has no row events of (DDL, statements) is taken from the truth."""
    tables: Tables = {}
    by_gtid: dict[str | None, list[Change]] = {}
    for change in changes:
        by_gtid.setdefault(change.gtid, []).append(change)
    told: dict[str | None, list[TrueChange]] = {}
    for true in case.changes:
        if true.mark and not true.mark.startswith(_UNLOGGED):
            told.setdefault(true.gtid, []).append(true)
    for step in case.steps:
        _define(case, tables, step["step"])
        for gtid in step["gtids"]:
            for true in told.get(gtid, ()):
                _apply_true(tables, true)
            for change in by_gtid.pop(gtid, ()):
                rows = tables[change.table]
                if change.op == "insert" and case.schema_at(change.table, step["step"]).is_sequence:
                    rows.clear()
                _complete(rows, change, case.schema_at(change.table, step["step"]))
    assert not by_gtid, f"groups that the server does not have: {list(by_gtid)}"
    return tables


def _complete(rows: list[Image], change: Change, schema: Schema) -> None:
    apply(rows, change)
    if change.op == "insert":
        for column in schema.columns:
            rows[-1].setdefault(str(column["name"]), ANYTHING)


def _define(case: Case, tables: Tables, step: int) -> None:
    """What DDL does to the rows."""
    sql = case.sql(step)
    for match in (_TRUNCATE.match(sql), _REPLACED.match(sql)):
        if match:
            tables[_full_name(match[1])].clear()
    if sql.startswith("RENAME TABLE "):
        for old, new in _RENAME.findall(sql.removeprefix("RENAME TABLE ")):
            tables[_full_name(new)] = tables.pop(_full_name(old))
    cut = _PARTITION.match(sql)
    if cut:
        rows = tables[_full_name(cut[1])]
        rows[:] = [row for row in rows if row["id"] >= _PARTITION_END]
    for schema in case.schemas:
        if schema.step != step:
            continue
        if schema.dropped:
            tables.pop(schema.table, None)
            continue
        names = [str(column["name"]) for column in schema.columns]
        rows = tables.setdefault(schema.table, [])
        rows[:] = [{name: row.get(name, ANYTHING) for name in names} for row in rows]


def _full_name(name: str) -> str:
    return name if "." in name else f"{_DATABASE}.{name}"


class _True:
    """A value of the truth among values of a reader."""

    def __init__(self, truth: Any, column: dict[str, str | None]) -> None:
        self.truth = truth
        self.column = column

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _True):
            return bool(self.truth == other.truth)
        return other is ANYTHING or not json_difference(other, self.truth, self.column, declared=True)

    __hash__ = None  # type: ignore[assignment]


def _apply_true(tables: Tables, true: TrueChange) -> None:
    from tests.truth.reading import Change

    def image(row: Row | None) -> Image | None:
        if row is None:
            return None
        columns = true.schema.columns
        return {str(column["name"]): _True(value, column) for column, value in zip(columns, row, strict=True)}

    apply(
        tables[true.table],
        Change(true.gtid, true.op, true.table, image(true.before), image(true.after), (), ()),
    )


def untold(case: Case, tables: Tables) -> list[str]:
    """Columns with values that the log never tells, of tables whose columns DDL has not changed."""
    found = {
        (table, name)
        for table, rows in tables.items()
        for row in rows
        for name, value in row.items()
        if value is ANYTHING
    }
    return [
        f"{table}.{name}"
        for table, name in sorted(found)
        if len(case.epochs(table)) == 1 and name not in case.schema_at(table, len(case.steps)).virtual
    ]


def rows_that_differ(case: Case, tables: Tables, *, declared: bool) -> list[str]:
    """Where *tables* are not what the server had at the end, in words."""
    wrong = [
        f"{table}: {len(rows)} rows too many" for table, rows in tables.items() if rows and table not in case.final
    ]
    for table, wanted in case.final.items():
        schema = case.schema_at(table, len(case.steps))
        wrong += row_differences(table, tables.get(table, []), wanted, schema.columns, declared=declared)
    return wrong


def row_differences(
    table: str,
    got: Iterable[Image],
    wanted: Iterable[Row],
    columns: Sequence[ColumnInfo],
    *,
    difference: Callable[..., str] = json_difference,
    declared: bool = False,
) -> list[str]:
    """Rows that only one side has, in words; the order does not matter."""
    wrong = []
    rows = list(got)
    for row in wanted:
        found = next(
            (i for i, mine in enumerate(rows) if not _difference(mine, row, columns, difference, declared)), -1
        )
        if found < 0:
            why = min((_difference(mine, row, columns, difference, declared) for mine in rows), default="no rows")
            wrong.append(f"{table}: no row {str(row)[:200]} among {len(rows)}; the nearest: {why[2:]}")
        else:
            rows.pop(found)
    return wrong + [f"{table}: the server has no row {str(row)[:300]}" for row in rows]


def _difference(
    got: Image, row: Row, columns: Sequence[ColumnInfo], difference: Callable[..., str], declared: bool
) -> str:
    """The first column that differs, after a letter that sorts rows with much in common first; empty: none."""
    for number, (column, value) in enumerate(zip(columns, row, strict=True)):
        mine = got[str(column["name"])]
        if mine is ANYTHING:
            continue
        if isinstance(mine, _True):
            wrong = "" if mine.truth == value else f"the truth was {mine.truth} before"
        else:
            wrong = difference(mine, value, column, declared=declared)
        if wrong:
            return f"{chr(0x10FFFF - number)} {column['name']}: {wrong}"
    return ""
