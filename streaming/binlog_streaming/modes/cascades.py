"""Effects of parents' changes on rows of a child, computed from its history: `derived_changes`.

A version of a child's row is a state with the time from which on, and that up to which, the row was in it. A change of
a parent's referenced columns at a time between changes the versions that refer to the values before: they end there,
and with an update others begin, which later changes may end again. So it goes on until nothing new comes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from binlog_connector.schema.foreign_keys import CASCADE
from binlog_format.errors import UnsupportedError
from binlog_format.messages import row_value
from binlog_format.rows.arrow_arrays import numbers_array
from binlog_streaming.lake.row_values import comparable_table, equal_rows
from binlog_streaming.modes.reference_values import reference_ids
from binlog_streaming.modes.table_history import AFTER_ALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_connector.schema.foreign_keys import ForeignKey
    from binlog_format.kernels import Indices, Mask
    from binlog_streaming.modes.table_history import RowVersions, TableHistory

LEVELS_MAX = 15
"""Foreign keys, one after the other, through which InnoDB carries a change on; a statement that goes deeper fails."""
TIMES = 32
"""Times of one row change of the log: its own comes first, then one for each level to which it is carried on."""


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Changes of rows of a table, one row for each.

    Attributes:
        before: The rows before, or some of their columns.
        after: The rows after; of deletes anything.
        origins: Number of the image that the log has of the change, or of the one that was carried on to it.
        nodes: The state that the row was in, or that a foreign key made this one of; see `TableHistory`.
    """

    before: pa.Table
    after: pa.Table
    deletes: Mask
    times: Indices
    origins: Indices
    nodes: Indices

    def __len__(self) -> int:
        return len(self.times)

    def take(self, chosen: Indices | Mask) -> RowChanges:
        """The *chosen* changes."""
        rows = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
        numbers = numbers_array(rows.astype(np.int64))
        return RowChanges(
            self.before.take(numbers),
            self.after.take(numbers),
            self.deletes[rows],
            self.times[rows],
            self.origins[rows],
            self.nodes[rows],
        )

    def selected(self, columns: Sequence[int]) -> RowChanges:
        """The same with some of the columns."""
        names = [self.before.column_names[column] for column in columns]
        return replace(self, before=self.before.select(names), after=self.after.select(names))

    def equals(self, other: RowChanges) -> bool:
        """True if they are the same."""
        return (
            len(self) == len(other)
            and bool((self.times == other.times).all() and (self.deletes == other.deletes).all())
            and bool(self.before.equals(other.before) and self.after.equals(other.after))
        )

    @classmethod
    def joined(cls, parts: Sequence[RowChanges]) -> RowChanges:
        """All of *parts*, of which there is one at least."""
        names = ("deletes", "times", "origins", "nodes")
        return cls(
            pa.concat_tables([part.before for part in parts]),
            pa.concat_tables([part.after for part in parts]),
            *(np.concatenate([getattr(part, name) for part in parts]) for name in names),
        )

    def a_level_later(self) -> RowChanges:
        """Changes that continue within a circle of tables, without those at deeper levels than InnoDB has."""
        later = replace(self, times=self.times + 1)
        return later.take(later.times % TIMES <= LEVELS_MAX + 1)

    @property
    def is_too_deep(self) -> bool:
        """True if some changes are at more levels than InnoDB has."""
        return bool((self.times % TIMES > LEVELS_MAX).any())

    def in_one(self) -> RowChanges:
        """The same with one change of each row for each row change of the log, at the time of that one."""
        own = self.times - self.times % TIMES
        order = np.lexsort((self.times, self.nodes, own))
        begins = np.ones(len(order), dtype=np.bool_)
        begins[1:] = (own[order][1:] != own[order][:-1]) | (self.nodes[order][1:] != self.nodes[order][:-1])
        first, last = order[begins], order[np.roll(begins, -1)]
        by_time = np.argsort(first)
        ended = self.take(last[by_time])
        begun = self.take(first[by_time])
        return replace(begun, after=ended.after, deletes=ended.deletes, times=own[first[by_time]])


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key of the child, and what changes of its parent it carries on.

    Attributes:
        columns: Indices of the key's columns in the child.
        changes: Of the referenced columns alone, in the order of *columns*; those that it carries on.
    """

    key: ForeignKey
    columns: tuple[int, ...]
    changes: RowChanges

    @classmethod
    def of(cls, key: ForeignKey, columns: tuple[int, ...], changes: RowChanges) -> Reference:
        """Choose from *changes* of the referenced columns."""
        before, after = comparable_table(changes.before.columns), comparable_table(changes.after.columns)
        carried = np.where(changes.deletes, bool(key.on_delete), bool(key.on_update) & ~equal_rows(before, after))
        return cls(key, columns, changes.take(carried))

    def removes(self, changes: RowChanges) -> Mask:
        """Mask of the changes that remove rows of the child."""
        return changes.deletes & (self.key.on_delete == CASCADE)

    def follows(self, changes: RowChanges) -> Mask:
        """Mask of the changes after which rows of the child refer to what the parent's row has become."""
        return ~changes.deletes & (self.key.on_update == CASCADE)


class _Hits(NamedTuple):
    # Which change is the first that meets a version, for those that one meets.
    versions: Indices
    changes: Indices


@dataclass(frozen=True, slots=True)
class _Active:
    # Versions that changes may meet; `rows`: whole rows, where they are no nodes of the history.
    history: TableHistory
    versions: RowVersions
    rows: pa.Table | None

    def column(self, index: int) -> pa.ChunkedArray:
        if self.rows is not None:
            return self.rows.column(index)
        # A row that nobody knows is in no target.
        return self.history.values(index, self.versions.nodes, unknown_is_null=True)

    def whole(self, numbers: Indices) -> pa.Table:
        if self.rows is not None:
            return self.rows.take(numbers_array(numbers))
        return self.history.rows(self.versions.nodes[numbers])


def derived_changes(history: TableHistory, references: Sequence[Reference], *, checks_order: bool) -> RowChanges:
    """Compute the effects of foreign keys on the rows of a child, ordered by time; one change per row and time.

    Args:
        history: Of the child; it has keys.
        checks_order: Refuse what depends on the order in which the server takes foreign keys.
    """
    references = [reference for reference in references if len(reference.changes)]
    versions = history.versions()
    found = [_none(history)]
    active = _Active(history, versions, None)
    while references and len(active.versions.nodes):
        met, changes = _first_changes(active, references, checks_order=checks_order)
        if not len(changes):
            break
        found.append(changes)
        active = _begun(active, met, changes, references)
    changes = RowChanges.joined(found)
    return changes.take(np.argsort(changes.times, kind="stable"))


def _begun(active: _Active, met: Indices, changes: RowChanges, references: Sequence[Reference]) -> _Active:
    """The versions that begin where those with the numbers *met* end by *changes*."""
    history, stays = active.history, np.flatnonzero(~changes.deletes)
    rows, times = changes.after.take(numbers_array(stays)), changes.times[stays]
    numbers, ends = active.versions.rows[met][stays], active.versions.ends[met][stays]
    columns = {column for reference in references for column in reference.columns}
    if columns & set(history.keys):
        ends = history.ends_of(rows, times)  # the next image of a row has its key, which may be another one now
    _check_known(history, sorted(columns), numbers, times)
    versions = active.versions._replace(nodes=active.versions.nodes[met][stays], starts=times, ends=ends, rows=numbers)
    return _Active(history, versions, rows)


def _none(history: TableHistory) -> RowChanges:
    none = np.empty(0, np.int64)
    rows = history.schema.empty_table()
    return RowChanges(rows, rows, none.astype(np.bool_), none, none, none)


def _first_changes(
    active: _Active, references: Sequence[Reference], *, checks_order: bool
) -> tuple[Indices, RowChanges]:
    """The versions that are met, and what the first change (all changes of that time) makes of each."""
    hits = [_first_hits(active, reference) for reference in references]
    first = np.full(len(active.versions.nodes), AFTER_ALL, dtype=np.int64)
    for hit, reference in zip(hits, references, strict=True):
        np.minimum.at(first, hit.versions, reference.changes.times[hit.changes])
    for left, right in combinations(zip(references, hits, strict=True), 2) if checks_order else ():
        _check_order(active, left, right, first)
    met = np.flatnonzero(first < AFTER_ALL)
    before = active.whole(met)
    after, deletes, origins = before, np.zeros(len(met), np.bool_), np.zeros(len(met), np.int64)
    for hit, reference in zip(hits, references, strict=True):
        counts = reference.changes.times[hit.changes] == first[hit.versions]
        places = np.searchsorted(met, hit.versions[counts])
        changes = reference.changes.take(hit.changes[counts])
        origins[places] = changes.origins
        deletes[places] |= reference.removes(changes)
        after = _referring(after, places, reference, changes)
    return met, RowChanges(before, after, deletes, first[met], origins, active.versions.nodes[met])


def _check_order(
    active: _Active, left: tuple[Reference, _Hits], right: tuple[Reference, _Hits], first: Indices
) -> None:
    """Check that the order of two foreign keys does not matter: they do the same to the columns that both have.

    One change of the log may reach a row by both. InnoDB carries the change on along one foreign key to its end, then
    along the other one, which may not find the row any more.
    """
    (one, one_hits), (other, other_hits) = left, right
    shared = sorted({*one.columns} & {*other.columns})
    if not shared:
        return
    versions, in_one, in_other = np.intersect1d(one_hits.versions, other_hits.versions, True, return_indices=True)
    changes, others = one.changes.take(one_hits.changes[in_one]), other.changes.take(other_hits.changes[in_other])
    origin = first[versions] // TIMES
    is_one_change = (changes.times // TIMES == origin) & (others.times // TIMES == origin)
    follows, other_follows = one.follows(changes), other.follows(others)
    differs = (one.removes(changes) != other.removes(others)) | (follows != other_follows)
    for column in shared:
        kind = active.history.schema.field(column).type
        value = changes.after.column(one.columns.index(column)).cast(kind)
        other_value = others.after.column(other.columns.index(column)).cast(kind)
        differs |= follows & other_follows & ~equal_rows(comparable_table([value]), comparable_table([other_value]))
    if (is_one_change & differs).any():
        raise _no_order(active, one, other)


_IGNORE = 'set foreign_keys = "ignore" for the child table: the job then leaves such changes of its rows out'


def _no_order(active: _Active, one: Reference, other: Reference) -> UnsupportedError:
    child = active.history.images.source_table
    names = " and ".join(f"{reference.key.name} (to {reference.key.parent})" for reference in (one, other))
    return UnsupportedError(
        "FOREIGN_KEY_CASCADE",
        f"{child}: one change reaches a row by the foreign keys {names}, and they do different things to the same "
        "column: what becomes of the row depends on which one the server takes first, and the log does not show that",
        hint=f"Drop one of the foreign keys and copy the table again; or {_IGNORE}",
    )


def _referring(rows: pa.Table, places: Indices, reference: Reference, changes: RowChanges) -> pa.Table:
    """*rows* with the columns of a foreign key as the changes of its parent make them; columns that stay, stay."""
    follows = reference.follows(changes)
    for number, column in enumerate(reference.columns):
        field = rows.schema.field(column)
        old, new = changes.before.column(number), changes.after.column(number)
        changed = ~follows | ~equal_rows(comparable_table([old]), comparable_table([new]))
        values = pa.chunked_array(
            [*rows.column(column).chunks, *new.cast(field.type).chunks, pa.nulls(1, field.type)], field.type
        )
        chosen = np.arange(rows.num_rows, dtype=np.int64)
        taken = np.where(follows, rows.num_rows + np.arange(len(changes)), rows.num_rows + len(changes))
        chosen[places[changed]] = taken[changed]
        rows = rows.set_column(column, field, values.take(numbers_array(chosen)))
    return rows


def _first_hits(active: _Active, reference: Reference) -> _Hits:
    versions, changes = active.versions, reference.changes
    values = [active.column(column) for column in reference.columns]
    wanted, held = reference_ids(changes.before.columns, values)
    usable = np.flatnonzero(wanted >= 0)
    order = usable[np.lexsort((changes.times[usable], wanted[usable]))]
    if not len(order):
        return _Hits(order, order)
    # Value and time as one number, in the order of the changes.
    width = int(changes.times.max()) + 2
    places = np.searchsorted(wanted[order] * width + changes.times[order], held * width + versions.starts, side="right")
    found = order[np.minimum(places, len(order) - 1)]
    meets = (places < len(order)) & (held >= 0) & (wanted[found] == held) & (changes.times[found] < versions.ends)
    hits = _Hits(np.flatnonzero(meets), found[meets])
    _check_same(active, reference, hits, values)
    return hits


def _check_same(active: _Active, reference: Reference, hits: _Hits, values: Sequence[pa.ChunkedArray]) -> None:
    held = comparable_table([column.take(numbers_array(hits.versions)) for column in values])
    before = reference.changes.before.take(numbers_array(hits.changes))
    wanted = comparable_table([column.cast(own.type) for column, own in zip(before.columns, values, strict=True)])
    same = equal_rows(held, wanted)
    if same.all():
        return
    number = int(np.argmin(same))
    values = [", ".join(map(str, table.slice(number, 1).to_pylist()[0].values())) for table in (held, wanted)]
    ours, theirs = (row_value(repr(text)) for text in values)
    child = active.history.images.source_table
    raise UnsupportedError(
        "FOREIGN_KEY_CASCADE",
        f"{child}: a row refers to {ours} by its foreign key {reference.key.name}, and {reference.key.parent} "
        f"changed {theirs}: the collation decides if these are equal, and the log does not name it",
        hint=f"Write both alike; or {_IGNORE}",
    )


def _check_known(history: TableHistory, columns: Sequence[int], rows: Indices, times: Indices) -> None:
    # With partial images a later image may leave out a column that has been changed here.
    carried, owners = history.is_carried(columns)
    if not len(carried) or not len(rows):
        return
    if set(columns) & set(history.keys):  # and have another key
        rows, times = np.concatenate([rows, owners]), np.append(times, np.full(len(owners), times.min()))
    changed = np.full(max(int(rows.max(initial=0)), int(owners.max())) + 1, AFTER_ALL, dtype=np.int64)
    np.minimum.at(changed, rows, times)
    if (changed[owners] < carried).any():
        raise history.lacking(columns[0])
