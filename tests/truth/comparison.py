"""Changes of a log against the truth, value by value, in order: `compare`."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.truth.truth_values import json_difference, typed_difference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tests.truth.reading import Change, Image
    from tests.truth.truth_case import Case, Row, Schema, TrueChange

    Difference = Callable[..., str]


class TruthError(AssertionError):
    """The log is decoded to something that the server did not have."""


@dataclass
class Tally:
    """What has been compared.

    Attributes:
        absent: Values that the log does not carry.
        by_replay: Changes of statements that the log describes in other words, by images that are not whole: only a
            replay of the log can tell.
    """

    changes: int = 0
    values: int = 0
    absent: int = 0
    by_replay: int = 0
    tables: Counter[str] = field(default_factory=Counter)

    @property
    def all_changes(self) -> int:
        """Compared, or left to a replay."""
        return self.changes + self.by_replay

    def __str__(self) -> str:
        return f"{self.changes} changes, {self.values} values equal, {self.absent} not in the log"


class Comparison:
    """Compares the changes of one case.

    Args:
        typed: The images are typed structs, not JSON.
        declared: The reader was told the tables' definitions.
    """

    def __init__(self, case: Case, *, typed: bool = False, declared: bool = False) -> None:
        self._case = case
        self._is_typed = typed
        self._declared = declared
        self._difference: Difference = typed_difference if typed else json_difference
        self.tally = Tally()

    def compare(self, got: Sequence[Change], wanted: Sequence[TrueChange]) -> Tally:
        """Compare all of *got* with all of *wanted*, both in log order. Raises `TruthError`: the first difference."""
        orders = [change.order for change in got]
        if any(later <= earlier for earlier, later in itertools.pairwise(orders)):
            raise TruthError(f"{self._case.name}: positions do not grow from change to change")
        found = [(gtid, list(group)) for gtid, group in itertools.groupby(got, lambda change: change.gtid)]
        true = [(gtid, list(group)) for gtid, group in itertools.groupby(wanted, lambda change: change.gtid)]
        for (gtid, changes), (true_gtid, true_changes) in zip(found, true, strict=False):
            if gtid != true_gtid:
                raise self._missing_group(true_gtid, true_changes, f"next comes {gtid}", changes)
            self._compare_group(changes, true_changes)
        if len(found) < len(true):
            raise self._missing_group(*true[len(found)], "the changes end before it", [])
        if len(found) > len(true):
            gtid, changes = found[len(true)]
            raise TruthError(f"{self._case.name}: {gtid}: the server has no such changes: {_counts(changes)}")
        return self.tally

    def _missing_group(
        self, gtid: str | None, wanted: list[TrueChange], instead: str, changes: list[Change]
    ) -> TruthError:
        also = f" ({_counts(changes)})" if changes else ""
        return TruthError(
            f"{self._case.name}: no changes of group {gtid}, {instead}{also}; expected {_counts(wanted)}\n"
            f"  {self._sql(wanted[0])}\n  so far: {self.tally}"
        )

    def _compare_group(self, got: list[Change], wanted: list[TrueChange]) -> None:
        if any(change.is_net_effect or change.schema.is_versioned for change in wanted):
            self._compare_effect(got, wanted)
            return
        start = 0
        for _, step_changes in itertools.groupby(wanted, lambda change: change.step):
            step = list(step_changes)
            self._compare_step(got[start : start + len(step)], step)
            start += len(step)
        if start < len(got):
            raise TruthError(
                f"{self._case.name}: {got[0].gtid}: {len(got) - start} changes more than the server has: "
                f"{_counts(got[start:])}\n  {self._sql(wanted[-1])}"
            )

    def _compare_step(self, got: list[Change], wanted: list[TrueChange]) -> None:
        """One statement; between several tables the order is the server's own."""
        for table in dict.fromkeys(change.table for change in wanted):
            here = [change for change in got if change.table == table]
            true = [change for change in wanted if change.table == table]
            if true[0].schema.is_partitioned:
                here = self._aligned(here, true)
            for change, true_change in zip(here, true, strict=False):
                self._compare_change(change, true_change)
            if len(here) != len(true):
                raise TruthError(
                    f"{self._case.name}: {wanted[0].gtid}: {table}: expected {_counts(true)}, got {_counts(here)}"
                    f"\n  {self._sql(true[0])}\n  so far: {self.tally}"
                )

    def _aligned(self, got: list[Change], wanted: list[TrueChange]) -> list[Change]:
        """*got* in the order of *wanted*, told by the first column; what fits nowhere comes last."""
        rest, found = list(got), []
        for true in wanted:
            row, column = true.after or true.before, true.schema.columns[0]
            assert row is not None
            for change in rest:
                image = change.after or change.before
                assert image is not None
                if not self._difference(image.get(str(column["name"])), row[0], column, declared=self._declared):
                    found.append(change)
                    rest.remove(change)
                    break
        return found + rest

    def _compare_change(self, got: Change, wanted: TrueChange) -> None:
        if got.op != wanted.op:
            raise self._wrong(
                wanted, f"expected {wanted.op}, got {got.op} of {_short(got.before)} to {_short(got.after)}"
            )
        for side, image, row in (("before", got.before, wanted.before), ("after", got.after, wanted.after)):
            if (image is None) != (row is None):
                raise self._wrong(wanted, f"{side}: expected {_short(row)}, got {_short(image)}")
            if image is not None and row is not None:
                self._compare_image(image, row, wanted, side)
        self._check_absent(got, wanted)
        self.tally.changes += 1
        self.tally.tables[wanted.table] += 1

    def _compare_image(self, image: Image, row: Row, wanted: TrueChange, side: str) -> None:
        names = [str(column["name"]) for column in wanted.schema.columns]
        unknown = [name for name in image if name not in names]
        if unknown:
            raise self._wrong(wanted, f"{side}: columns {unknown} are not the table's {names}")
        if [name for name in names if name in image] != list(image):
            raise self._wrong(wanted, f"{side}: columns in another order: {list(image)}, the table has {names}")
        for name, value, column in zip(names, row, wanted.schema.columns, strict=True):
            if name not in image:
                if self._case.has_full_images:
                    raise self._wrong(wanted, f"{side}: the log has whole rows, and {name} is missing: {list(image)}")
                self.tally.absent += 1
                continue
            if self._is_typed and image[name] is None and not self._case.has_full_images:
                continue  # null or absent: which of the two is for `absent` to say
            wrong = self._difference(image[name], value, column, declared=self._declared)
            if wrong:
                raise self._wrong(wanted, f"{side}: column {name} {column['column_type']}: {wrong}")
            self.tally.values += 1

    def _check_absent(self, got: Change, wanted: TrueChange) -> None:
        """Only partial images lack columns, `absent` names them, and an update has all that changed."""
        image = got.after if got.after is not None else got.before
        row = wanted.after if wanted.after is not None else wanted.before
        assert image is not None
        assert row is not None
        names = [str(column["name"]) for column in wanted.schema.columns]
        if not self._is_typed and tuple(name for name in names if name not in image) != got.absent:
            raise self._wrong(wanted, f"absent says {got.absent}, the image has {list(image)}")
        if got.absent and self._case.has_full_images:
            raise self._wrong(wanted, f"the log has whole rows, but {got.absent} are absent")
        for number, column in enumerate(wanted.schema.columns):
            name, after = str(column["name"]), row[number]
            # MariaDB leaves out computed columns that change with the column which they come from.
            if name not in got.absent or "VIRTUAL" in str(column["extra"]) or wanted.schema.is_sequence:
                continue
            if wanted.before is not None and wanted.after is not None and wanted.before[number] != after:
                raise self._wrong(wanted, f"{name} changed from {wanted.before[number]} to {after} and is absent")
            if wanted.op == "insert" and after is not None and not wanted.schema.is_default(name, after):
                raise self._wrong(wanted, f"{name} is {after}, which is not its default, and is absent")
        if self._is_typed:
            for name, value in zip(names, row, strict=True):
                if name not in got.absent and value is not None and image[name] is None:
                    wrong = self._difference(None, value, _column(wanted.schema, name), declared=self._declared)
                    if wrong:
                        raise self._wrong(wanted, f"column {name}: null, and not absent: {wrong}")

    # --- statements that the log describes in other words ---------------------------------------------------------

    def _compare_effect(self, got: list[Change], wanted: list[TrueChange]) -> None:
        """What is there afterwards that was not there before, and the other way round."""
        if not self._case.has_full_images:
            self.tally.by_replay += len(wanted)
            return
        rows: Counter[str] = Counter()
        for change in wanted:
            for row, sign in ((change.before, -1), (change.after, 1)):
                if row is not None:
                    rows[_key(change.table, row)] += sign
        for found in got:
            schema = self._schema(found.table, wanted)
            for image, sign in ((found.before, -1), (found.after, 1)):
                if image is not None:
                    row = self._true_row(image, schema, wanted)
                    rows[_key(found.table, row)] -= sign
        wrong = {key: count for key, count in rows.items() if count}
        if wrong:
            raise self._wrong(wanted[0], f"rows that differ after the statement: {wrong}")
        self.tally.changes += len(wanted)
        for change in wanted:
            self.tally.tables[change.table] += 1

    def _schema(self, table: str, wanted: Iterable[TrueChange]) -> Schema:
        schemas = [change.schema for change in wanted if change.table == table]
        if not schemas:
            raise TruthError(f"{self._case.name}: a statement changes {table}, and the server says it does not")
        return schemas[0]

    def _true_row(self, image: Image, schema: Schema, wanted: list[TrueChange]) -> Row:
        """The row of the truth that *image* is; where the log passes through rows that SELECT never saw, the image."""
        names = [str(column["name"]) for column in schema.columns]
        if list(image) != names:
            raise self._wrong(wanted[0], f"columns {list(image)}, the table has {names}")
        for change in wanted:
            for row in (change.before, change.after):
                if row is None or change.table != schema.table:
                    continue
                pairs = zip(names, row, schema.columns, strict=True)
                if not any(self._difference(image[n], v, c, declared=self._declared) for n, v, c in pairs):
                    self.tally.values += len(names)
                    return row
        return [_short(image)]

    def _wrong(self, wanted: TrueChange, what: str) -> TruthError:
        return TruthError(
            f"{self._case.name}: {wanted.gtid}: {wanted.op} of {wanted.table}: {what}\n"
            f"  {self._sql(wanted)}\n  so far: {self.tally}"
        )

    def _sql(self, wanted: TrueChange) -> str:
        sql = self._case.sql(wanted.step)
        return f"step {wanted.step}: {sql if len(sql) <= 300 else sql[:300] + '...'}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 400 else f"{text[:400]}..."


def _key(table: str, row: Row) -> str:
    return json.dumps([table, row])


def _column(schema: Schema, name: str) -> dict[str, str | None]:
    return next(column for column in schema.columns if column["name"] == name)


def _counts(changes: Sequence[Change] | Sequence[TrueChange]) -> str:
    counts = Counter(f"{change.op} {change.table}" for change in changes)
    return ", ".join(f"{count} x {what}" for what, count in counts.items()) or "nothing"
