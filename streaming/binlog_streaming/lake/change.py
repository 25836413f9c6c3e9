"""Changed rows of a target in one step: `Change`, which a mode makes; new rows laid over old ones: `Overlay`.

Expected rows of a target where changes begin: `Expected`; `contradictions` finds the keys whose rows differ.

A row image before a change is a row that the server had, so a complete target holds one for its key; and it holds none
for the key of a row that comes new. The keys of a change are looked up anyway, so this costs a comparison of flags.
What else the image has is the business of `rows_before`.

Files of the table that a change is brought into: `TableFiles`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_format.errors import TableError
from binlog_format.names import folded_name, folded_names
from binlog_streaming.lake.row_values import one_array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from binlog_format.kernels import Bytes, Indices, Int64s, Mask
    from binlog_streaming.lake.key_lookup import KeyRuns
    from binlog_streaming.lake.row_values import DifferentRow, Differing, RowsBefore

File = TypeVar("File")
ReadFile = TypeVar("ReadFile", contravariant=True)


class FileRows(Protocol[ReadFile]):
    """Rows of a table's files, as `FileReader` reads them."""

    def key_batches(self, file: ReadFile, schema: pa.Schema) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Read some columns of all rows of a file, also marked ones: number of a batch's first row, and the batch."""

    def rows_at(self, file: ReadFile, rows: Indices, schema: pa.Schema) -> Iterator[tuple[Indices, pa.RecordBatch]]:
        """Read rows of a file: places in *rows* (numbers of rows, ascending), and the rows there."""

    def marked(self, file: ReadFile) -> Indices:
        """Numbers of rows of a file that are marked as deleted, ascending."""

    def row_ids(self, file: ReadFile, rows: Indices) -> Indices:
        """Ids of rows of a file, of a table that keeps them; `NO_ID`: the row has none yet."""


class TableFiles(Protocol[File]):
    """The files of a table while a commit is prepared; what a format gives."""

    @property
    def reader(self) -> FileRows[File]:
        """Reads rows of them."""

    @property
    def schema(self) -> pa.Schema:
        """Columns of the table after the commit."""

    @property
    def has_change_feed(self) -> bool:
        """True if readers can see each row that changes."""

    @property
    def has_deletion_vectors(self) -> bool:
        """True if rows of this table are marked from now on, even if it is small."""

    @property
    def keeps_identity(self) -> bool:
        """True if each row has an id, which it keeps while its key stays."""

    @property
    def defaulted(self) -> Sequence[str]:
        """Columns for which a writer of the table has to put a default into rows that come without them."""

    @property
    def generated(self) -> Sequence[str]:
        """Columns whose values `write` makes of others."""

    @property
    def numbered(self) -> Sequence[str]:
        """Columns in which `write` numbers the rows that have no value there."""

    def files_with(
        self, keys: pa.Table, current: str | None = None, among: Sequence[File] | None = None
    ) -> Sequence[File]:
        """Files that, by their statistics, may hold one of *keys*, with true in column *current* if it is named.

        Args:
            keys: Rows of the key columns.
            among: Files to choose from, in the table or on their way into it; None: all that are in it.
        """

    def name_of(self, file: File) -> str:
        """Unique name of a file in the table."""

    def size_of(self, file: File) -> int:
        """Size in bytes."""

    def write(self, rows: Iterable[pa.RecordBatch]) -> None:
        """Add rows, with the table's columns, and those of `IDENTITY` where they have one already."""

    def feed(self, rows: pa.Table) -> None:
        """Write changed rows to the change feed: the table's columns, and `_change_type`."""

    def mark(self, file: File, rows: Indices) -> None:
        """Mark *rows* of a file: numbers of all that are deleted in it from now on, ascending, at least one."""

    def rewrite(self, file: File, gone: Indices) -> None:
        """Take a file out of the table, and write its rows anew, but *gone*."""


def check_defaults(files: TableFiles[Any], rows: pa.Schema) -> None:
    """See that new rows come with all columns that would else have a default."""
    brought = folded_names(rows.names)
    missing = [name for name in files.defaulted if folded_name(name) not in brought]
    if missing:
        raise TableError(
            "TABLE_FEATURE",
            f"new rows have no column {', '.join(missing)}, and the table has a default there that only Spark puts in",
            hint="Take it off (Spark: ALTER TABLE ... ALTER COLUMN ... DROP DEFAULT): such rows are null there then",
        )


def check_generated(files: TableFiles[Any], *rows: pa.Schema) -> None:
    """See that new rows come without the columns that the table makes of others."""
    brought = {folded_name(name) for schema in rows for name in schema.names}
    made = {"generatedColumns": files.generated, "identityColumns GENERATED ALWAYS": files.numbered}
    taken = [f"{name} ({kind})" for kind, names in made.items() for name in names if folded_name(name) in brought]
    if taken:
        raise TableError(
            "TABLE_FEATURE",
            f"new rows have a column {', '.join(taken)}, whose values the table makes itself",
            hint="Leave the column out of the rows (an identity column may also be GENERATED BY DEFAULT), or name "
            "another target and let this job build the table anew",
        )


@dataclass(frozen=True, slots=True)
class Patches:
    """New values for some columns of the target's rows; a key without a row changes nothing.

    Attributes:
        rows: Key columns, and the columns that any of the patches changes; one row for a key.
        present: For every column of *rows* that is no key and that some of the patches leave alone, which patches
            change it: booleans under the column's name. Columns that are not here are changed by all.
    """

    rows: pa.Table
    present: pa.Table


@dataclass(frozen=True, slots=True)
class Change:
    """Changed rows, by key; no key comes twice in `upserts`, `deletes` and `patches` together.

    Attributes:
        upserts: Whole rows: each takes the place of the row with its key, or comes new.
        deletes: Keys of rows that go; key columns only.
        patches: Some columns of rows; None: there are none.
        appends: Rows that come new, whatever has their key; None: there are none.
        current: Boolean column of the target: only rows that have true in it count as being there (`scd2`); None: all.
        expected: What the target must hold before: `Expected` of each key, those of `upserts`, `deletes` and `patches`
            one after the other; None: it may hold anything.
        gone: Boolean column of the target: rows with true in it are not there (marked deletes), and stay where another
            row has their key; None: all rows are there.
        firsts: Of each key the number of its first image, as `expected` counts keys; None: where that is None.
        before: What `expected` has to be compared with beside keys; None: keys alone.
        runs: All images of the step by key; None: where `firsts` is.
        count_missing: Takes the number of keys whose row the target lacks, though an image shows it
            (`THIS_ROW_IF_ANY`).
    """

    upserts: pa.Table
    deletes: pa.Table
    patches: Patches | None = None
    appends: pa.Table | None = None
    current: str | None = None
    expected: Bytes | None = None
    gone: str | None = None
    firsts: Int64s | None = None
    before: RowsBefore | None = None
    runs: KeyRuns | None = None
    count_missing: Callable[[int], object] | None = None

    def key_rows(self, keys: Sequence[str]) -> pa.Table:
        """The columns *keys* of `upserts`, `deletes` and `patches`, one after the other."""
        tables = [self.upserts, self.deletes, *([] if self.patches is None else [self.patches.rows])]
        return pa.concat_tables([table.select(list(keys)) for table in tables], promote_options="permissive")

    @property
    def row_count(self) -> int:
        """Rows and keys."""
        count = self.upserts.num_rows + self.deletes.num_rows
        count += 0 if self.patches is None else self.patches.rows.num_rows
        return int(count + (0 if self.appends is None else self.appends.num_rows))


@dataclass(frozen=True, slots=True)
class Overlay:
    """Rows that take the place of others, or of some of their columns.

    Attributes:
        first: Number of the first one among all keys of the change.
        present: `Patches.present`.
        kept: Columns of the old rows that are looked at, at least one.
    """

    first: int
    rows: pa.Table
    present: pa.Table
    kept: pa.Schema

    @property
    def after(self) -> int:
        """Number of the key after the last one."""
        return self.first + int(self.rows.num_rows)

    def over(self, old: pa.RecordBatch, numbers: Indices, schema: pa.Schema) -> pa.Table:
        """The new rows, in *schema*; *numbers*: for each old row, that of its new one."""
        at = pa.array(numbers - self.first)
        columns = []
        for field in schema:
            if field.name not in self.rows.column_names:
                columns.append(old.column(field.name))
                continue
            value = one_array(self.rows.column(field.name).take(at))
            if field.name in self.present.column_names:
                flags = one_array(self.present.column(field.name).take(at))
                value = pc.if_else(flags, value, old.column(field.name))
            columns.append(value)
        return pa.table(columns, schema=schema)


class Expected(IntEnum):
    """Expected state of a target's row before a change, by key."""

    ANYTHING = 0
    """The expected state is unknown, or does not matter."""
    ROW = 1
    """A row; the image of it is not at hand."""
    NO_ROW = 2
    THIS_ROW = 3
    """The row that the first image of the key shows."""
    THIS_ROW_IF_ANY = 4
    """The same, or none: the target may lack rows from before its first change."""


def needs_row(expected: Bytes) -> Mask:
    """Mask of the keys for which a target must have a row."""
    needed: Mask = np.isin(expected, (Expected.ROW, Expected.THIS_ROW))
    return needed


def shows_row(expected: Bytes) -> Mask:
    """Mask of the keys whose row in a target, if there is one, must be the row that the first image shows."""
    shown: Mask = np.isin(expected, (Expected.THIS_ROW, Expected.THIS_ROW_IF_ANY))
    return shown


@dataclass(frozen=True, slots=True)
class Contradictions:
    """Keys of a change for which a target holds something else than the log.

    Attributes:
        numbers: Of the keys: those of upserts, deletes and patches are counted one after the other. First come those
            with too many rows or too few.
        expected: For each, `Expected`.
        held: For each, how many rows the target has.
        different: How the first one's row differs; None: it has too many rows, or too few.
    """

    numbers: Indices
    expected: Bytes
    held: Indices
    different: DifferentRow | None = None

    def __len__(self) -> int:
        return len(self.numbers)


class ContradictedError(Exception):
    """A target does not hold what it must hold before a change; whoever knows the change names table and key.

    Args:
        contradictions: At least one.
    """

    def __init__(self, contradictions: Contradictions) -> None:
        super().__init__(f"{len(contradictions)} keys")
        self.contradictions = contradictions


def contradictions(change: Change, held: Indices, differing: Differing | None = None) -> Contradictions | None:
    """Find differences between a target's rows and those that *change* expects; None: there are none.

    Args:
        change: With `expected`. Its `count_missing` gets the number of rows that the target may lack.
        held: How many rows the target has for each key.
        differing: Keys with one row, which is another one than the image shows.
    """
    expected = change.expected
    assert expected is not None, "rows of the target are counted only where the change expects some"
    if change.count_missing is not None:
        change.count_missing(int(np.count_nonzero((expected == Expected.THIS_ROW_IF_ANY) & (held == 0))))
    wrong = np.where(needs_row(expected), held != 1, (expected == Expected.NO_ROW) & (held != 0))
    numbers, different = np.flatnonzero(wrong), None
    if differing is not None:
        different = None if len(numbers) else differing.first
        numbers = np.concatenate([numbers, differing.numbers[~wrong[differing.numbers]]])
    return Contradictions(numbers, expected[numbers], held[numbers], different) if len(numbers) else None
