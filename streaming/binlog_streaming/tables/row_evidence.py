"""Changes as evidence of the rows that they replace: `RowEvidence` about a target, `contradicted` for what it refutes.

Changes of a step are evidence of those before them, too: `contradicted_by_step`.

A target that is complete holds what its source table held before each change. Where settings let it hold something
else, only what must be there all the same is compared, or nothing (docs/completeness.md lists them).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_connector.schema.definitions import TableName
from binlog_format.errors import TableError
from binlog_format.gtids.gtid_history import gtid_of
from binlog_format.messages import row_value
from binlog_format.names import folded_name, folded_names
from binlog_format.rows.images import ImageKind
from binlog_streaming.lake.change import Expected, needs_row, shows_row
from binlog_streaming.lake.row_values import RowsBefore, ShownRows, differing
from binlog_streaming.modes.row_keys import expected_rows, leaves_row, refuted
from binlog_streaming.plan.snapshots import snapshot_command

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from binlog_format.kernels import Indices, Mask
    from binlog_streaming.lake.change import Change, Contradictions
    from binlog_streaming.lake.commit_id import CommitId
    from binlog_streaming.lake.key_lookup import KeyRuns
    from binlog_streaming.lake.row_values import DifferentRow
    from binlog_streaming.modes.partial_documents import DocumentError
    from binlog_streaming.modes.row_batches import StepImages
    from binlog_streaming.modes.whole_rows import MissingRowsError

_TEXT_MAX = 200
"""Characters of a key, or of a value, in an error."""

_COLUMNS_MAX = 5
"""Columns that an error names."""

_NULLS = (
    ". Or the row has null in the target for a value that the log lacked (unknown_values, rewritten or generated = "
    '"null"): without a key such a row is found no more'
)
_WAY_BACK = 'To bring it back, set evidence = "off" for this table, let the job go on, and take a new snapshot: {}'

_EVENT_NAMES = {
    ImageKind.INSERT: "an INSERT",
    ImageKind.UPDATE_BEFORE: "an UPDATE",
    ImageKind.UPDATE_AFTER: "an UPDATE that sets this key",
    ImageKind.DELETE: "a DELETE",
}


@dataclass(slots=True)
class RowEvidence:
    """Evidence from the changes of a target.

    Attributes:
        covers_inserts: The target holds no row for a key that comes new.
        rows: How many are compared as a whole; None: all, 0: none but a sample, of others their keys alone.
        sample: How many of a step are, where these are none.
        nulls_prove_nothing: The target may hold null in the place of a value, by a setting.
        proved: Rows that were there as changes need them, so far.
        compared: Rows that were compared as a whole, samples left out.
    """

    covers_inserts: bool = True
    rows: int | None = 0
    sample: int = 0
    nulls_prove_nothing: bool = False
    proved: int = 0
    compared: int = 0
    _missing: list[int] = field(default_factory=list)

    @property
    def missing(self) -> int:
        """Rows that changes show, and that the target lacks without contradicting them."""
        return sum(self._missing)

    def applied_to(self, change: Change, images: StepImages, columns: pa.Schema, keys: Sequence[str]) -> Change:
        """*change*, with what the target must hold before it.

        Args:
            images: Of the step, or of a part of it.
            keys: Names of the key columns.
        """
        expected = change.expected
        if expected is None:
            return change
        if not self.covers_inserts:
            expected = np.where(expected == Expected.NO_ROW, np.uint8(Expected.ANYTHING), expected)
        change = replace(change, expected=expected, count_missing=self._missing_counter())
        return replace(change, before=self._rows_before(change, images, columns, keys))

    def _missing_counter(self) -> Callable[[int], object]:
        # Of one change, whose merge may be tried several times.
        place = len(self._missing)
        self._missing.append(0)
        return partial(self._missing.__setitem__, place)

    def broken_chain(
        self, images: StepImages, runs: KeyRuns, columns: pa.Schema, keys: Sequence[str]
    ) -> BrokenChain | None:
        """A change that finds something else than the change of the same key before it left; None: there is none.

        Args:
            images: Of the step, or of a part of it.
            runs: The images by key.
            keys: Names of the key columns.
        """
        earlier, later = runs.pairs()
        wrong = np.flatnonzero(refuted(images, earlier, later, covers_inserts=self.covers_inserts))
        if len(wrong):
            was_deleted = images.kinds[earlier[wrong]] == ImageKind.DELETE
            wrong = wrong[~(was_deleted & _deleted_in_group(images, earlier[wrong], later[wrong]))]
        if len(wrong):
            chosen = wrong[np.argmin(later[wrong])]
            return BrokenChain(int(earlier[chosen]), int(later[chosen]), len(wrong))
        if images.has_changes or (self.rows == 0 and not self.sample):
            return None
        shown = np.flatnonzero(shows_row(expected_rows(images, later)) & leaves_row(images, earlier))
        if any(row_batch.is_derived for row_batch in images.row_batches):
            is_derived = _derived(images)
            shown = shown[~is_derived[later[shown]] & ~is_derived[earlier[shown]]]
        shown = _spread(shown, None if self.rows is None else self.rows or self.sample)
        shown = shown[~_deleted_in_group(images, earlier[shown], later[shown])]
        return self._differing(images, earlier[shown], later[shown], columns, keys) if len(shown) else None

    def _differing(
        self, images: StepImages, earlier: Indices, later: Indices, columns: pa.Schema, keys: Sequence[str]
    ) -> BrokenChain | None:
        names = [name for name in columns.names if name not in keys]
        has_values = _has_values(images, columns, names)
        lacking = {folded_name(name): ~(has[later] & has[earlier]) for name, has in has_values.items()}
        shown = ShownRows(_rows_of(images, columns, names, later), lacking, self.nulls_prove_nothing)
        found = differing(shown, _rows_of(images, columns, names, earlier), np.arange(len(later)))
        if found is None:
            return None
        first = int(found.numbers[0])
        return BrokenChain(int(earlier[first]), int(later[first]), len(found.numbers), found.first)

    def _rows_before(
        self, change: Change, images: StepImages, columns: pa.Schema, keys: Sequence[str]
    ) -> RowsBefore | None:
        if change.expected is None or change.firsts is None or (self.rows == 0 and not self.sample):
            return None
        firsts, is_whole = change.firsts, shows_row(change.expected)
        if any(row_batch.is_derived for row_batch in images.row_batches):
            is_whole &= ~_derived(images)[firsts]  # made of the target's own rows, as far as they are needed
        chosen = _spread(np.flatnonzero(is_whole), self.rows or None)
        names = tuple(name for name in columns.names if name not in keys)
        if images.has_absent:  # MINIMAL images have nothing beside the key
            indexes = {name: columns.get_field_index(name) for name in names}
            names = tuple(name for name in names if images.has_values(indexes[name])[firsts[chosen]].any())
        if not names or not len(chosen):
            return None
        self.compared += 0 if self.rows == 0 else len(chosen)

        has_values = _has_values(images, columns, names)  # made once: rows are asked for file by file

        def shown(numbers: Indices) -> ShownRows:
            wanted = firsts[numbers]
            lacking = {folded_name(name): ~has[wanted] for name, has in has_values.items()}
            return ShownRows(_rows_of(images, columns, names, wanted), lacking, self.nulls_prove_nothing)

        is_chosen = np.zeros(len(firsts), np.bool_)
        is_chosen[chosen] = True
        return RowsBefore(names, is_chosen, shown, self.sample if self.rows == 0 else None)


@dataclass(frozen=True, slots=True)
class BrokenChain:
    """A change that finds something else than the change of the same key before it left, both in one step.

    Attributes:
        earlier: Number of the last image of the change before.
        later: Number of the first image of the change.
        count: How many changes of the step find something else.
        different: How the row that it finds differs; None: it finds a row where none was left, or none.
    """

    earlier: int
    later: int
    count: int
    different: DifferentRow | None = None


def _spread(numbers: Indices, count: int | None) -> Indices:
    # Up to so many of them, from all over; None: all.
    if count is None or len(numbers) <= count:
        return numbers
    return numbers[np.linspace(0, len(numbers) - 1, count).astype(np.int64)]


def _rows_of(images: StepImages, columns: pa.Schema, names: Sequence[str], numbers: Indices) -> pa.Table:
    # Some columns of some images.
    arrays = [images.values(columns.get_field_index(name), columns.field(name).type, numbers) for name in names]
    return pa.Table.from_arrays(arrays, names=list(names))


def _has_values(images: StepImages, columns: pa.Schema, names: Sequence[str]) -> dict[str, Mask]:
    # Of each column the mask of the images that have it; empty, as it nearly always is, where all images have all.
    if not images.has_absent and images.has_same_columns:
        return {}
    return {name: images.has_values(columns.get_field_index(name)) for name in names}


def _deleted_in_group(images: StepImages, earlier: Indices, later: Indices) -> Mask:
    """Mask of the pairs whose later image is a DELETE, in the group of the earlier one.

    A DELETE of several tables deletes a row also where a foreign key was faster: MySQL logs it then all the same, as it
    was when the statement found it.
    """
    is_deleted: Mask = images.kinds[later] == ImageKind.DELETE
    if is_deleted.any():
        groups = np.concatenate([row_batch.places()[0] for row_batch in images.row_batches])
        is_deleted &= groups[earlier] == groups[later]
    return is_deleted


def _derived(images: StepImages) -> Mask:
    return np.concatenate(
        [np.full(len(row_batch.images.table), row_batch.is_derived) for row_batch in images.row_batches]
    )


def proved_rows(change: Change) -> int:
    """Rows of a target that *change* proves when nothing contradicts it."""
    return 0 if change.expected is None else int(np.count_nonzero(needs_row(change.expected)))


def contradicted(
    images: StepImages, keys: Sequence[str], change: Change, found: Contradictions, masked: Collection[str] = ()
) -> TableError:
    """The error for a target that does not hold what it must hold before a change.

    Args:
        keys: Names of the key columns.
        masked: Columns of which no value is told.
    """
    number = int(found.numbers[0])
    wanted = change.key_rows(keys).slice(number, 1)
    assert change.firsts is not None
    place, kind = _described(images, int(change.firsts[number]))
    held = int(found.held[0])
    there = "there is " + ("no row" if not held else "a row" if held == 1 else f"{held} rows")
    if found.different is not None:
        there = f"the row there differs: {_differences(found.different, masked)}"
    needs = "no row" if found.expected[0] == Expected.NO_ROW else "the row"
    more = f"; {len(found) - 1} more keys of this step are contradicted" if len(found) > 1 else ""
    return TableError(
        "CONTRADICTED",
        f"{images.source_table}: {kind} at {place} needs a target with {needs} of key {_text(wanted)}, and "
        f"{there}{more}",
        hint=_hint(images),
    )


def contradicted_by_step(
    images: StepImages, columns: pa.Schema, keys: Sequence[str], found: BrokenChain, masked: Collection[str] = ()
) -> TableError:
    """The error for a change that the change before it contradicts.

    Args:
        keys: Names of the key columns.
        masked: Columns of which no value is told.
    """
    (place, kind), (place_before, kind_before) = (_described(images, image) for image in (found.later, found.earlier))
    later = np.array([found.later])
    row = _text(_rows_of(images, columns, keys, later))
    needs = "no row" if expected_rows(images, later)[0] == Expected.NO_ROW else "the row"
    left = "no row" if needs == "the row" else "a row"
    if found.different is not None:
        left = f"another one: {_differences(found.different, masked)}"
    more = f"; {found.count - 1} more changes of this step are contradicted" if found.count > 1 else ""
    return TableError(
        "CONTRADICTED",
        f"{images.source_table}: {kind} at {place} needs {needs} of key {row}, and the change before it in the log, "
        f"{kind_before} at {place_before}, left {left}{more}",
        hint="What changed the table in between is not in this log (a filter of the server such as binlog_do_db, a "
        "session with sql_log_bin = 0), and nothing of the step was written. " + _WAY_BACK.format(_command(images)),
    )


def rows_of_dropped(commit_id: CommitId, dropped: str) -> TableError:
    """The error for rows of a table that is gone. *dropped*: where, as its target records it."""
    table = commit_id.source_table
    return TableError(
        "CONTRADICTED",
        f"{table}: the log has rows of it, the last at {commit_id.last_change}, but it has been gone since {dropped}, "
        "and no statement created it again",
        hint="A temporary table of this name was renamed (MariaDB logs that as it logs any RENAME), or the table was "
        "created where no log has it (sql_log_bin = 0, a filter of the server). If it was renamed, its new name has "
        "its rows, and needs a snapshot, too. " + _WAY_BACK.format(snapshot_command(TableName.parse(table))),
    )


def missing_rows(
    images: StepImages, columns: pa.Schema, error: MissingRowsError, *, has_unknown_nulls: bool
) -> TableError:
    """The error for a target without a key that lacks rows which a step takes from it; arguments as `contradicted`.

    Args:
        has_unknown_nulls: A null in the target may be a value that the log lacked.
    """
    row = _text(_rows_of(images, columns, columns.names, np.array([error.image])))
    place, kind = _described(images, error.image)
    more = f"; {error.count - 1} more rows of this step are missing" if error.count > 1 else ""
    return TableError(
        "CONTRADICTED",
        f"{images.source_table}: {kind} at {place} needs a target with the row "
        f"{row}, and there is none that is equal{more}",
        hint=_hint(images) + (_NULLS if has_unknown_nulls else ""),
    )


def wrong_document(images: StepImages, columns: pa.Schema, keys: Sequence[str], error: DocumentError) -> TableError:
    """The error for a target whose JSON value is not the one that logged changes are made to; see `contradicted`."""
    place, kind = _described(images, error.image)
    row = _text(_rows_of(images, columns, keys, np.array([error.image - 1])))
    return TableError(
        "CONTRADICTED",
        f"{images.source_table}: {kind} at {place} changes a part of the JSON value {error.column} of the row with key "
        f"{row}, and the target has {error.held} there",
        hint="The target was wrong before this change already, and nothing of the step was written. Let the job go on "
        'without the table (on_error = "set_aside"), and take a new snapshot: ' + _command(images),
    )


def _hint(images: StepImages) -> str:
    return (
        "The target was wrong before this change already, and nothing of the step was written; binlog-stream "
        "prove names the rows that differ. " + _WAY_BACK.format(_command(images))
    )


def _command(images: StepImages) -> str:
    return snapshot_command(TableName.parse(images.source_table))


def _differences(different: DifferentRow, masked: Collection[str]) -> str:
    hidden = folded_names(masked)
    texts = []
    for name, value in different.shown.items():
        if folded_name(name) in hidden:
            texts.append(f"{name} (masked)")
        else:
            there, needed = (row_value(_shortened(repr(found))) for found in (different.held[name], value))
            texts.append(f"{name} is {there}, not {needed}")
    more = len(texts) - _COLUMNS_MAX
    return ", ".join(texts[:_COLUMNS_MAX]) + (f" and {more} more columns" if more > 0 else "")


def _described(images: StepImages, image: int) -> tuple[str, str]:
    # Where an image is, and what it is of.
    row_batch, number = images.place_of(image)
    event = row_batch.events[int(row_batch.images.table["event"][number])]
    group = row_batch.groups[int(event["group"])]
    gtid = gtid_of(group, row_batch.gtid_sources)
    position = f"{group['file_no']}:{group['page']}:{group['chunk']}, event {event['event_no']}"
    # Of a key that was dealt out only its last image is known.
    kind = "a change" if row_batch.expected is not None else _EVENT_NAMES[ImageKind(int(images.kinds[image]))]
    return position if gtid is None else f"{gtid} ({position})", kind


def _text(key: pa.Table) -> str:
    columns = zip(key.column_names, key.columns, strict=True)
    return _shortened(", ".join(f"{name} = {row_value(repr(column[0].as_py()))}" for name, column in columns))


def _shortened(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}..."
