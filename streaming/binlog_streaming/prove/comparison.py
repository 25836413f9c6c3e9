"""Comparison of two sides of a table, a server and a target, or two targets: `compare_rows` -> `ProofResult`.

Both sides have sums by bucket; rows of buckets that differ are looked at one by one.

The time that the proof of one table may take, here and in the server's statements: `TimeLimit`.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from binlog_format.errors import ServerError, TableError
from binlog_format.messages import library_text
from binlog_streaming.lake.row_values import row_ids
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.prove.rows import Rows
from binlog_streaming.prove.side_rows import changed_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from binlog_connector.schema.definitions import TableName
    from binlog_format.kernels import Int64s, Uint64s
    from binlog_streaming.lake.target import Target
    from binlog_streaming.prove.column_forms import TableForms
    from binlog_streaming.prove.log_changes import LogChanges, LogPlace
    from binlog_streaming.prove.rows import Sums
    from binlog_streaming.settings.choices import Mode
    from binlog_streaming.settings.model import Sink

    ColumnsOf = Callable[[list[bytes]], dict[bytes, tuple[int, ...]]]
    """Gives the hashes of each column of rows, by their keys."""
    OnProgress = Callable[["ProofProgress"], None]
    from binlog_streaming.server.session import ServerSession


COLUMNS_MAX = 1_000
"""Largest number of different rows whose differing columns are reported."""
ROWS_MAX = 500_000
"""Rows of differing buckets that are looked at one by one, on either side: about 100 MB."""
FILES_SHOWN_MAX = 10


class DifferenceKind(StrEnum):
    """Kind of a row's difference."""

    MISSING = "missing"
    """The server has it, the target does not."""
    EXTRA = "extra"
    """The target has it, or has it once more; the server does not."""
    DIFFERENT = "different"
    """Both have it, with other values."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that differs.

    Attributes:
        key: The message of its key.
        columns: Names of the columns that differ, where they were looked at.
    """

    kind: DifferenceKind
    key: bytes
    columns: tuple[str, ...] = ()


def find_differences(expected: Rows, held: Rows) -> list[Difference]:
    """Keys whose rows are not the same on both sides, by their messages."""
    keys = pa.concat_arrays([expected.keys, held.keys])
    ids, count = row_ids(pa.table({"key": keys}))
    split = len(expected.keys)
    wanted = _by_key(expected, ids[:split], count)
    found = _by_key(held, ids[split:], count)
    differing = np.flatnonzero((wanted[0] != found[0]) | (wanted[1] != found[1]))
    first = np.full(count, -1, dtype=np.int64)
    first[ids[::-1]] = np.arange(len(ids))[::-1]
    messages = keys.take(pa.array(first[differing])).to_pylist()
    counts = zip(wanted[0][differing].tolist(), found[0][differing].tolist(), strict=True)
    rows = (Difference(_kind(*pair), key) for key, pair in zip(messages, counts, strict=True))
    return sorted(rows, key=lambda row: row.key)


def _by_key(rows: Rows, ids: Int64s, count: int) -> tuple[Int64s, Uint64s]:
    counts, totals = np.zeros(count, np.int64), np.zeros(count, np.uint64)
    np.add.at(counts, ids, rows.signs)
    coming = rows.signs > 0
    np.add.at(totals, ids[coming], rows.hashes[coming])
    np.subtract.at(totals, ids[~coming], rows.hashes[~coming])
    return counts, totals


def _kind(expected: int, held: int) -> DifferenceKind:
    if held < expected:
        return DifferenceKind.MISSING
    return DifferenceKind.EXTRA if held > expected else DifferenceKind.DIFFERENT


def first_buckets(buckets: list[int], counts: Int64s) -> list[int]:
    """The first buckets that together have no more rows than `ROWS_MAX`; at least one."""
    totals = np.cumsum(counts[buckets])
    return buckets[: max(1, int(np.searchsorted(totals, ROWS_MAX, side="right")))]


def with_columns(
    differences: list[Difference], expected_of: ColumnsOf, held_of: ColumnsOf, names: Sequence[str], touched: set[bytes]
) -> list[Difference]:
    """The same differences, with the columns that differ.

    Args:
        differences: Of rows with keys.
        expected_of: Hashes of the columns of rows, by key, on the one side.
        touched: Keys that the log changed meanwhile, which are not looked at: one side has other values by now.
    """
    asked = [
        difference.key
        for difference in differences
        if difference.kind is DifferenceKind.DIFFERENT and difference.key not in touched
    ][:COLUMNS_MAX]
    if not asked:
        return differences
    expected, held = expected_of(asked), held_of(asked)
    told = {
        key: tuple(name for name, one, other in zip(names, expected[key], held[key], strict=True) if one != other)
        for key in asked
        if key in expected and key in held
    }
    return [replace(difference, columns=told.get(difference.key, ())) for difference in differences]


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
        doing: `server`, `target`, `other target`, or `job`: it waits for the job.
        row_estimate: How many there are, about.
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
        reason: Why it was not compared, or cannot be the same.
        gtids: Up to where in the log this is true; a position of the server where it has no GTIDs.
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
        return sum(difference.kind is kind for difference in self.differences)


class ComparedRows(Protocol):
    """Rows of one side."""

    def rows_of(self, buckets: Sequence[int]) -> Rows:
        """The rows of some buckets."""

    def columns_of(self, buckets: Sequence[int], keys: Sequence[bytes]) -> dict[bytes, tuple[int, ...]]:
        """Hash of each column's part of the message, of the rows with some keys, which are in some buckets."""


def compare_rows(
    result: ProofResult,
    sides: tuple[ComparedRows, ComparedRows],
    sums: tuple[Sums, Sums],
    later: tuple[Rows, Int64s],
    sample: Sequence[int],
) -> ProofResult:
    """Compare what is expected with what a target holds.

    Args:
        result: With columns, and the place for which both are compared.
        sides: What is expected, and the target.
        sums: Of each; those that are expected without *later*, which is added.
        later: Rows that the log has between the places of the two, and their buckets (`later_rows`).
        sample: Buckets whose values are compared, beside the counts of all; empty: all.
    """
    rows, buckets, forms = *later, result.forms
    assert forms is not None, "it is known which columns are compared"
    sums[0].add_rows(rows, buckets)
    expected, held = (side.in_sample(sample) for side in sums)
    result = replace(result, rows=expected.row_count, held_rows=held.row_count, is_sample=bool(sample))
    if forms.missing and result.rows:
        reason = f"the target lacks columns: {', '.join(forms.missing)}"
        result = replace(result, outcome=ProofOutcome.DIFFERENT, reason=reason)
    differing = expected.differing(held)
    if not differing:
        return result
    chosen = first_buckets(differing, np.maximum(expected.counts, held.counts))
    wanted = Rows.joined([sides[0].rows_of(chosen), rows.where(np.isin(buckets, chosen))])
    differences = find_differences(wanted, sides[1].rows_of(chosen))
    if forms.key_columns:
        differences = with_columns(
            differences,
            lambda keys: sides[0].columns_of(chosen, keys),
            lambda keys: sides[1].columns_of(chosen, keys),
            [form.name for form in forms.columns],
            set(rows.keys.to_pylist()),
        )
    return replace(
        result, outcome=ProofOutcome.DIFFERENT, differences=tuple(differences), is_partial=len(chosen) < len(differing)
    )


@dataclass(frozen=True, slots=True)
class ProofTeller:
    """Reports the progress of one target's proof. *row_estimate*: how many rows there are, about."""

    table: TableName
    mode: Mode
    on_progress: OnProgress
    row_estimate: int = 0

    def tell(self, doing: str, *, rows: int = 0, job_at: str = "") -> None:
        """See `ProofProgress`."""
        self.on_progress(ProofProgress(str(self.table), self.mode, doing, rows, self.row_estimate, job_at))

    def counter(self, doing: str) -> Callable[[int], None]:
        """A function that is told of rows as they are read."""
        total = 0

        def count(rows: int) -> None:
            nonlocal total
            total += rows
            self.tell(doing, rows=total)

        return count

    def waits(self, place: str) -> None:
        """Report that the job is at *place*, and is waited for."""
        self.tell("job", job_at=place)

    def result(self, outcome: ProofOutcome, reason: str = "") -> ProofResult:
        """A result of this target."""
        return ProofResult(str(self.table), self.mode, outcome, reason)


@contextlib.contextmanager
def named_read_errors(sink: Sink, table: TableName, uri: str) -> Iterator[None]:
    """Give an error of reading a target its name."""
    try:
        yield
    except (*sink_type(sink.format).write_errors, OSError, pa.ArrowException) as error:
        raise TableError(
            "WRITE_FAILED",
            f"{table}: {uri} cannot be read: {library_text(error)}",
            hint="sink.retention sets how long older versions can be read; start again",
        ) from error


def later_rows(
    changes: LogChanges, low: LogPlace, high: LogPlace, table: TableName, forms: TableForms
) -> tuple[Rows, Int64s]:
    """Rows that a log brings to a table, or takes from it, between two points of which either may be the later one.

    Returns:
        The rows, and the bucket of each.

    Raises:
        DisturbedError: The log does not tell what becomes of the table.
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


class TimeUpError(Exception):
    """The time of a table is over."""


class TimeLimit:
    """Ends the proof of one table after some time. *seconds*: how long it may take; None: as long as it needs."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """True if the time is over."""
        return self._end is not None and time.monotonic() >= self._end

    def begin(self, session: ServerSession) -> None:
        """Let no statement of a session take longer."""
        if self._seconds is not None:
            self._set(session, self._seconds)

    def check(self) -> None:
        """Go on only within the time. Raises `TimeUpError`: it is over."""
        if self.is_over:
            raise TimeUpError

    def checked(self, on_progress: OnProgress) -> OnProgress:
        """The same function; it raises `TimeUpError` once the time is over."""

        def tell(progress: ProofProgress) -> None:
            self.check()
            on_progress(progress)

        return tell

    def end(self, session: ServerSession) -> None:
        """Let statements of a session take as long as they need; a session that was lost has none."""
        if self._seconds is not None and session.is_open:
            self._set(session, 0)

    def text(self, error: Exception) -> str:
        """Reason why a table was not compared, after *error*."""
        if isinstance(error, TimeUpError) or (isinstance(error, ServerError) and self.is_over):
            return f"it was not done within {self._seconds:,} s (--table-timeout)"
        return str(error)

    @staticmethod
    def _set(session: ServerSession, seconds: float) -> None:
        if session.version.is_mariadb:
            session.execute("SET SESSION max_statement_time = %s", seconds)
        else:
            session.execute("SET SESSION max_execution_time = %s", int(seconds * 1000))
