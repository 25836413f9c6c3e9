"""A `Change` into a table in two halves: `supersede` writes its rows and finds theirs, `remove_rows` removes these.

The first half needs no more of the table than its files, and changes nothing that readers see: several tasks may do it
(`WrittenFiles` is their result), each for a part of the keys, or for a part of the log, of whose rows then those go
whose keys come again later (`superseded_by_later_part`). The second half belongs to the commit. Of files that may
hold a changed key the key's columns are read, and no others; only rows that keep values of some columns are read as a
whole. Rows that are superseded are marked as deleted where they are, or their files are written anew without them.
"""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_streaming.lake.change import ContradictedError, Overlay, check_defaults, check_generated, contradictions
from binlog_streaming.lake.commit_id import STEP_BYTES_MAX, WriteCost
from binlog_streaming.lake.evolution import NO_ID, cast_table, identified
from binlog_streaming.lake.key_lookup import KeyLookup, union
from binlog_streaming.lake.row_values import KeyRows, differing_rows
from binlog_streaming.settings.choices import Merge

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from binlog_format.kernels import Indices, Mask
    from binlog_streaming.lake.change import Change, Contradictions, TableFiles
    from binlog_streaming.lake.row_values import Differing

THREADS = 2
"""Files of a table whose keys are looked at at a time."""

WRITTEN_NOTHING = WriteCost()

File = TypeVar("File")


@dataclass(frozen=True, slots=True)
class Superseded(Generic[File]):
    """Rows of a file that a change takes the place of.

    Attributes:
        rows: Numbers of the rows, ascending.
        marked: Numbers of those that were marked as deleted before, ascending.
    """

    file: File
    rows: Indices
    marked: Indices


@dataclass(frozen=True, slots=True)
class WrittenFiles(Generic[File]):
    """A part of a step on its way into a table: its files are there, and nobody refers to them; it can be pickled.

    Attributes:
        version: `Target.version` of the table that it was made for.
        fed: Files that tell of changed rows.
        superseded: Rows whose place they take.
        row_count: Rows and keys of the change.
        contradicted: Of a part, keys for which the table holds something else than the part's first change of them
            finds; a part before it may explain that. None: there are none.
        proved: Rows that the table has as the part's changes need them.
    """

    version: str | None
    added: tuple[File, ...]
    fed: tuple[File, ...]
    superseded: tuple[Superseded[File], ...]
    row_count: int
    contradicted: Contradictions | None = None
    proved: int = 0


def supersede(files: TableFiles[File], change: Change, keys: Sequence[str]) -> list[Superseded[File]]:
    """Like `supersede_part`, for a whole step.

    Raises:
        ContradictedError: The table does not hold what it must hold before the change.
    """
    superseded, contradicted = supersede_part(files, change, keys)
    if contradicted is not None:
        raise ContradictedError(contradicted)
    return superseded


def supersede_part(
    files: TableFiles[File], change: Change, keys: Sequence[str]
) -> tuple[list[Superseded[File]], Contradictions | None]:
    """Write the rows of *change*; gives the rows of the table that they take the place of, and what contradicts it.

    Args:
        keys: Names of the key columns; none where the change has only rows that come new.
    """
    merging = _Merging(files, change, keys)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(merging.write_whole)
        found = merging.found()
        contradicted = merging.contradicted(found)
        writing.result()
    for in_file in found:
        merging.replace(in_file)
    merging.write_new()
    return [Superseded(in_file.file, in_file.rows, in_file.marked) for in_file in found], contradicted


def superseded_by_later_part(
    files: TableFiles[File], parts: Sequence[WrittenFiles[File]], keys: pa.Table, by: Indices
) -> list[Superseded[File]]:
    """Rows of parts of the log whose keys come again in later parts.

    Args:
        parts: What was written, in the order of the log.
        keys: Keys that several parts have, one row for each.
        by: For each the number of the last part that has it.
    """
    key_schema = pa.schema([files.schema.field(name) for name in keys.column_names])
    typed = cast_table(keys, key_schema)
    lookup = KeyLookup(typed)
    superseded = []
    for number, part in enumerate(parts):
        own = files.files_with(typed, among=part.added)
        for found in _rows_with(files, own, lookup, key_schema):
            rows = found.rows[by[found.numbers] > number]
            if len(rows):
                superseded.append(Superseded(found.file, rows, found.marked))
    return superseded


def remove_rows(
    files: TableFiles[File], superseded: Iterable[Superseded[File]], kind: Merge, cost: WriteCost = WRITTEN_NOTHING
) -> WriteCost:
    """Take superseded rows out of their files.

    Args:
        superseded: The rows; several may be about the same file.
        cost: Of the steps before it: `Merge.AUTO` marks rows from the step on that would make it too high.

    Returns:
        The cost after the step; the same if it wrote no file anew.
    """
    by_file: defaultdict[str, list[Superseded[File]]] = defaultdict(list)
    for in_file in superseded:
        by_file[files.name_of(in_file.file)].append(in_file)
    if not by_file:
        return cost
    written = sum(files.size_of(some[0].file) for some in by_file.values())
    after = cost.after(written, sum(len(in_file.rows) for some in by_file.values() for in_file in some))
    is_marked = kind is Merge.MARK or (
        kind is Merge.AUTO and (files.has_deletion_vectors or written > STEP_BYTES_MAX or after.is_too_high)
    )
    for some in by_file.values():
        # Two parts of the log may have superseded the same row.
        gone = union([some[0].marked, *(in_file.rows for in_file in some)])
        take = files.mark if is_marked else files.rewrite
        take(some[0].file, gone)
    return cost if is_marked else after


@dataclass(frozen=True, slots=True)
class _Found(Generic[File]):
    # Rows of a file that hold changed keys, marked ones left out.
    file: File
    rows: Indices
    numbers: Indices  # of their keys, among all changed ones
    marked: Indices
    gone: Mask | None = None  # which rows count as not there; None: none do

    @property
    def live(self) -> Indices:
        # Numbers of the keys whose rows count as being there.
        return self.numbers if self.gone is None else self.numbers[~self.gone]

    @property
    def live_rows(self) -> Indices:
        # The numbers of these rows.
        return self.rows if self.gone is None else self.rows[~self.gone]

    def only(self, mask: Mask) -> _Found[File]:
        # The rows of *mask*.
        gone = None if self.gone is None else self.gone[mask]
        return _Found(self.file, self.rows[mask], self.numbers[mask], self.marked, gone)


@dataclass(frozen=True, slots=True)
class _Flags:
    # Boolean columns of a table that tell which rows count.
    current: str | None = None
    gone: str | None = None

    def added_to(self, keys: pa.Schema, schema: pa.Schema) -> pa.Schema:
        return pa.schema([*keys, *(schema.field(name) for name in (self.current, self.gone) if name is not None)])


_NO_FLAGS = _Flags()


def _rows_with(
    files: TableFiles[File], some: Sequence[File], lookup: KeyLookup, key_schema: pa.Schema, flags: _Flags = _NO_FLAGS
) -> list[_Found[File]]:
    # Where the keys are; reading and comparing them is done outside of Python's lock.
    if len(some) == 1:
        every = [_rows_in(files, some[0], lookup, key_schema, flags)]
    else:
        with ThreadPoolExecutor(THREADS) as pool:
            every = list(pool.map(lambda file: _rows_in(files, file, lookup, key_schema, flags), some))
    return [in_file for in_file in every if len(in_file.rows)]


def _rows_in(
    files: TableFiles[File], file: File, lookup: KeyLookup, key_schema: pa.Schema, flags: _Flags
) -> _Found[File]:
    wanted = flags.added_to(key_schema, files.schema)
    found: list[tuple[Indices, Indices, Mask]] = [(*np.empty((2, 0), np.int64), np.empty(0, np.bool_))]
    for first, batch in files.reader.key_batches(file, wanted):
        rows, numbers = lookup.find(batch.columns[: len(key_schema)])
        if flags.current is not None:
            holds = _is_true(batch, flags.current, rows)
            rows, numbers = rows[holds], numbers[holds]
        gone = np.zeros(len(rows), np.bool_) if flags.gone is None else _is_true(batch, flags.gone, rows)
        found.append((rows + first, numbers, gone))
    rows, numbers, gone = (np.concatenate(part) for part in zip(*found, strict=True))
    marked = files.reader.marked(file) if len(rows) else rows
    left = ~np.isin(rows, marked, assume_unique=True)
    return _Found(file, rows, numbers, marked, None if flags.gone is None else gone).only(left)


def _one_row_by_key(found: Sequence[_Found[File]], key_count: int) -> list[_Found[File]]:
    """Leave rows out that count as gone, where another row has the same key: theirs was another one when they went.

    A statement that changes the key of a table does not make it unique among rows that are marked as deleted.
    """
    if not found:
        return []
    numbers = np.concatenate([in_file.numbers for in_file in found])
    gone = np.concatenate([in_file.gone for in_file in found if in_file.gone is not None])  # all of them tell
    places = np.arange(len(numbers))
    is_live, last = np.zeros(key_count, np.bool_), np.empty(key_count, np.int64)
    is_live[numbers[~gone]], last[numbers] = True, places
    stays = ~gone | (~is_live[numbers] & (last[numbers] == places))
    if stays.all():
        return list(found)
    masks = np.split(stays, np.cumsum([len(in_file.rows) for in_file in found])[:-1])
    left = [in_file.only(mask) for in_file, mask in zip(found, masks, strict=True)]
    return [in_file for in_file in left if len(in_file.rows)]


def _is_true(batch: pa.RecordBatch, column: str, rows: Indices) -> Mask:
    flags: Mask = pc.fill_null(batch.column(column), False).to_numpy(zero_copy_only=False)
    return flags[rows]


class _Merging(Generic[File]):
    # Keys are numbered: upserts, deletes, patches.

    def __init__(self, files: TableFiles[File], change: Change, keys: Sequence[str]) -> None:
        self._files = files
        self._schema = files.schema
        self._change = change
        self._key_schema = pa.schema([self._schema.field(name) for name in keys])
        self._upserts = self._typed(change.upserts)
        self._appends = () if change.appends is None else (change.appends,)
        brought = [change.upserts, *self._appends, *([] if change.patches is None else [change.patches.rows])]
        check_generated(files, *(rows.schema for rows in brought))
        patches = self._typed(change.patches.rows) if change.patches is not None else None
        tables = [self._upserts, change.deletes, *([] if patches is None else [patches])]
        self._changed = pa.concat_tables(cast_table(table.select(keys), self._key_schema) for table in tables)
        self._overlays = [self._overlay(0, self._upserts, pa.table({}))]
        if patches is not None and change.patches is not None:
            first = self._changed.num_rows - patches.num_rows
            self._overlays.append(self._overlay(first, patches, change.patches.present))
        # Upserts that lack columns keep those of the row whose place they take; and its identity, where rows have one.
        self._is_partial = set(self._upserts.column_names) < set(self._schema.names)
        self._is_there = np.zeros(self._upserts.num_rows, np.bool_)
        self._waits = self._is_partial or files.keeps_identity
        self._ids = np.full(self._upserts.num_rows, NO_ID, np.int64)

    def found(self) -> list[_Found[File]]:
        if not self._changed.num_rows:
            return []
        files = self._files.files_with(self._changed, self._change.current)
        if not files:
            return []
        flags = _Flags(self._change.current, self._change.gone)
        found = _rows_with(self._files, files, KeyLookup(self._changed), self._key_schema, flags)
        return found if flags.gone is None else _one_row_by_key(found, self._changed.num_rows)

    def contradicted(self, found: Sequence[_Found[File]]) -> Contradictions | None:
        """Contradictions between the found rows and the change's expectations; None: there are none."""
        if self._change.expected is None:
            return None
        numbers = np.concatenate([np.empty(0, np.int64), *(in_file.live for in_file in found)])
        held = np.bincount(numbers, minlength=len(self._change.expected))
        return contradictions(self._change, held, self._differing(found))

    def _differing(self, found: Sequence[_Found[File]]) -> Differing | None:
        # Rows that are not what the images before their changes show.
        if self._change.before is None:
            return None
        live = [KeyRows(in_file.file, in_file.live_rows, in_file.live) for in_file in found]
        return differing_rows(self._files, self._change.before, live)

    def replace(self, found: _Found[File]) -> None:
        """Write what replaces the found rows of a file that keep values."""
        replaced = found.numbers < self._upserts.num_rows
        self._is_there[found.numbers[replaced]] = True
        if self._files.keeps_identity and not self._is_partial:
            self._ids[found.numbers[replaced]] = self._files.reader.row_ids(found.file, found.rows[replaced])
        if self._files.has_change_feed:
            self._feed(found)
        for overlay in self._overlays if self._is_partial else self._overlays[1:]:
            own = np.flatnonzero((found.numbers >= overlay.first) & (found.numbers < overlay.after))
            for places, old in self._files.reader.rows_at(found.file, found.rows[own], overlay.kept):
                rows = found.rows[own[places]]
                ids = self._files.reader.row_ids(found.file, rows) if self._files.keeps_identity else None
                self._write_rows(overlay.over(old, found.numbers[own[places]], self._schema), ids)

    def write_whole(self) -> None:
        """Write what depends on no row of the table."""
        for rows in self._appends if self._waits else (self._upserts, *self._appends):
            self._write_rows(rows)

    def write_new(self) -> None:
        """Write the upserts that take no row's place, as far as `write_whole` has not."""
        if not (self._waits or self._files.has_change_feed):
            return
        fresh = self._upserts.filter(pa.array(~self._is_there)) if self._is_there.any() else self._upserts
        if self._files.has_change_feed:
            self._feed_rows("insert", fresh, *self._appends)
        if self._is_partial:
            self._write_rows(fresh)
        elif self._waits:
            self._write_rows(self._upserts, self._ids)

    def _write_rows(self, rows: pa.Table, ids: Indices | None = None) -> None:
        if rows.num_rows:
            check_defaults(self._files, rows.schema)
            # Values of before are not those of the other columns now.
            made = [name for name in self._files.generated if name in rows.column_names]
            typed = cast_table(rows.drop_columns(made), self._schema)
            # Also rows that have no id yet, so that all are in one file.
            self._files.write((identified(typed, ids) if self._files.keeps_identity else typed).to_batches())

    def _typed(self, rows: pa.Table) -> pa.Table:
        return cast_table(rows, pa.schema([self._schema.field(name) for name in rows.column_names]))

    def _overlay(self, first: int, rows: pa.Table, present: pa.Table) -> Overlay:
        written = set(rows.column_names) - set(present.column_names)
        kept = [field for field in self._schema if field.name not in written]
        return Overlay(first, rows, present, pa.schema(kept or [self._schema.field(0)]))

    def _feed(self, found: _Found[File]) -> None:
        deleted = self._upserts.num_rows, self._upserts.num_rows + self._change.deletes.num_rows
        for places, old in self._files.reader.rows_at(found.file, found.rows, self._schema):
            numbers = found.numbers[places]
            is_deleted = (numbers >= deleted[0]) & (numbers < deleted[1])
            self._feed_rows("delete", pa.Table.from_batches([old.filter(pa.array(is_deleted))]))
            for overlay in self._overlays:
                own = (numbers >= overlay.first) & (numbers < overlay.after)
                before = old.filter(pa.array(own))
                self._feed_rows("update_preimage", pa.Table.from_batches([before]))
                self._feed_rows("update_postimage", overlay.over(before, numbers[own], self._schema))

    def _feed_rows(self, kind: str, *tables: pa.Table) -> None:
        for rows in tables:
            if rows.num_rows:
                typed = cast_table(rows, self._schema)
                self._files.feed(typed.append_column("_change_type", pa.repeat(kind, rows.num_rows)))
