"""Row images as a rule shows them: `apply_rules_to_images(images, table)`.

Masked values are put after the bytes that were read, as texts with their size before them, and the images' cells point
there; so all that reads images reads masked ones, and pays nothing for it.

Effects of statements on tables as rules show these: `apply_rules_to_changes(changes, decoding, vendor)`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.rules.row_rule import MaskKind
from binlog_connector.rules.rules_on_tables import BoundRule, apply_rules_to_table, column_renamed, table_renamed
from binlog_connector.schema.snapshot_marks import SnapshotBegun
from binlog_connector.schema.table_changes import TableAltered, TableCreated, TableRenamed
from binlog_format.errors import BinlogError, UnsupportedError
from binlog_format.events.table_map import TableLayout
from binlog_format.kernels import as_bytes, empty_bytes
from binlog_format.names import folded_name
from binlog_format.rows.arrow_arrays import text_array
from binlog_format.rows.column_types import column_name
from binlog_format.rows.columns import arrow_type, column_array
from binlog_format.rows.decoding import TimeType
from binlog_format.rows.images import ABSENT, CHANGES_ONLY, NULL, ImageKind, Images

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from binlog_connector.rules.predicate import Predicate
    from binlog_connector.rules.row_rule import Mask
    from binlog_connector.rules.row_rules import TableRules
    from binlog_connector.rules.rules_on_tables import ShownTable
    from binlog_connector.schema.effects.column_facts import ColumnFacts
    from binlog_connector.schema.snapshot_marks import SnapshotChange
    from binlog_connector.schema.table_changes import StatementChange
    from binlog_format.events.table_map import Column
    from binlog_format.kernels import Bytes, Int32s, Int64s
    from binlog_format.rows.decoding import Decoding
    from binlog_format.vendor import Vendor

    BoolMask = NDArray[np.bool_]


_DATA_SIZE_MAX = (1 << 31) - 1  # places are 32-bit numbers
_SIZES = text_array(pa.binary(), np.arange(257, dtype=np.int32), np.arange(256, dtype=np.uint8), None)
_WHOLE_IMAGES = "Set binlog_row_image=FULL on the server, and start after the rows that were logged before"


def apply_rules_to_images(images: Images, table: ShownTable) -> Images:
    """*images*, which were just read and are nobody else's, as *table* shows them."""
    if table.computed and images.has_absent():
        images = _without_computed(images, table.computed)
    if table.predicate is not None:
        images = _chosen(images, table, table.predicate)
    images = _masked(images, table)
    slots = images.slots[list(table.columns)]
    # What is not shown must not count as absent.
    images.cells[np.setdiff1d(images.slots, slots)] = NULL
    return replace(images, layout=table.layout, slots=slots)


def _without_computed(images: Images, computed: tuple[int, ...]) -> Images:
    """*images* that show null where they lack one of the generated columns *computed*."""
    slots = images.slots.copy()
    # Columns that no image has share their cells: those that are not generated stay absent.
    others = np.delete(slots, computed)
    apart = [column for column in computed if slots[column] in others]
    cells = images.cells
    if apart:
        slots[apart] = len(cells)
        cells = np.vstack([cells, np.full((1, cells.shape[1]), NULL, cells.dtype)])
    for slot in np.unique(slots[list(computed)]):
        cells[slot][cells[slot] == ABSENT] = NULL
    return replace(images, cells=cells, slots=slots)


def _chosen(images: Images, table: ShownTable, predicate: Predicate) -> Images:
    """The images of rows of which *predicate* is true; an update in or out of it is an insert or a delete."""
    absent = [column for column in predicate.columns if images.absent_mask(column).any()]
    if absent:
        raise _lacking(images, absent, "`where` asks for them")
    columns = {column: _values(images, table, column, predicate.decoding) for column in predicate.columns}
    wanted: BoolMask = predicate.is_true(columns).to_numpy(zero_copy_only=False)
    kinds = images.table["kind"].copy()
    before = np.flatnonzero(kinds == ImageKind.UPDATE_BEFORE)
    entering = before[~wanted[before] & wanted[before + 1]] + 1
    leaving = before[wanted[before] & ~wanted[before + 1]]
    _check_entering(images, entering, table)
    kinds[entering], kinds[leaving] = ImageKind.INSERT, ImageKind.DELETE
    chosen = images.select(wanted)
    chosen.table["kind"] = kinds[wanted]
    return chosen


def _check_entering(images: Images, entering: Int64s, table: ShownTable) -> None:
    lacking = [column for column in table.columns if images.absent_mask(column)[entering].any()]
    if lacking:
        raise _lacking(images, lacking, "an update brings such a row into `where`")


def _lacking(images: Images, columns: list[int], why: str) -> UnsupportedError:
    names = ", ".join(str(images.layout.columns[column].name) for column in columns)
    return UnsupportedError(
        "ROW_IMAGE", f"{images.layout.full_name}: row images without {names}, and {why}", hint=_WHOLE_IMAGES
    )


def _masked(images: Images, table: ShownTable) -> Images:
    made: list[Bytes] = []
    end = len(images.data)
    for column, mask in table.masks:
        cells = images.cells[images.slots[column]]
        # Changes alone, to a JSON value that no image has, are to a value that is not NULL.
        any_value = mask.kind in (MaskKind.NULL, MaskKind.TEXT)
        present = np.flatnonzero((cells >= 0) | ((cells <= CHANGES_ONLY) & any_value))
        if not len(present):
            continue  # columns that no image has share their cells
        if mask.kind is MaskKind.NULL:
            cells[present] = NULL
            continue
        places, texts = _masked_values(images, table, column, mask, present)
        cells[present] = np.where(places == NULL, NULL, places + end)
        end += len(texts)
        made.append(texts)
        if end > _DATA_SIZE_MAX:
            raise UnsupportedError("ROW_IMAGE", f"{end} bytes of events and masked values at once")
    if not made:
        return images
    data = empty_bytes(end)
    np.concatenate([images.data, *made], out=data)
    return replace(images, data=data)


def _masked_values(images: Images, table: ShownTable, column: int, mask: Mask, present: Int64s) -> tuple[Int32s, Bytes]:
    # Texts with their sizes before them, each one once; and where the one for each value starts.
    if mask.kind is MaskKind.TEXT:
        text = mask.text.encode()
        return np.zeros(len(present), dtype=np.int32), as_bytes(bytes([len(text)]) + text)
    # What a time is hashed as does not depend on what it is shown as elsewhere.
    decoding = replace(images.decoding, time_type=TimeType.TEXT)
    values = _values(images, table, column, decoding, present).dictionary_encode()
    texts = mask.masked(values.dictionary).cast(pa.binary())
    sized = pc.binary_join_element_wise(_SIZES.take(pc.binary_length(texts)), texts, b"")
    if not len(sized):
        return np.full(len(present), NULL, dtype=np.int32), empty_bytes(0)
    starts = np.frombuffer(sized.buffers()[1], dtype=np.int32, count=len(sized) + 1)
    codes = values.indices.fill_null(len(sized)).to_numpy()
    places = np.append(starts[:-1], np.int32(NULL))[codes]
    return places, np.frombuffer(sized.buffers()[2], dtype=np.uint8, count=int(starts[-1]))


def _values(images: Images, table: ShownTable, column: int, decoding: Decoding, rows: Int64s | None = None) -> pa.Array:
    offsets = images.column_offsets(column)
    offsets = offsets if rows is None else offsets[rows]
    try:
        return column_array(images.layout, column, images.data, np.ascontiguousarray(offsets), decoding=decoding)
    except BinlogError as error:
        if column not in table.hidden:
            raise
        reason = f"{column_name(images.layout, column)}: a value cannot be read, and a rule hides what it is"
        raise type(error)(error.subclass, reason, at=error.at, hint=error.hint) from None


def apply_rules_to_changes(
    changes: Sequence[StatementChange | SnapshotChange], rules: TableRules, decoding: Decoding, vendor: Vendor
) -> list[StatementChange | SnapshotChange]:
    """Convert *changes* of tables to changes of their visible parts.

    Args:
        changes: Of a statement, or of a mark of a snapshot.

    Raises:
        OptionError: `INVALID_VALUE`: a rule does not fit a table.
        SchemaError: `SCHEMA_CHANGED`, `TABLE_RENAMED`: a column, or a table, gets a name under which its values would
            be shown otherwise.
    """
    return [_shown_change(change, rules, decoding, vendor) for change in changes]


def _shown_change(
    change: StatementChange | SnapshotChange, rules: TableRules, decoding: Decoding, vendor: Vendor
) -> StatementChange | SnapshotChange:
    if isinstance(change, TableRenamed) and not rules.shows_alike(change.old, change.new):
        raise table_renamed(change.old, change.new)
    if not isinstance(change, TableCreated | TableAltered | SnapshotBegun):
        return change
    rule = rules.of(*change.name)
    if rule is None:
        return change
    view = _StatementView(rule, replace(decoding, rules=None), vendor)
    if isinstance(change, SnapshotBegun):
        if rule.rule.drops_generated and not change.is_defined:
            return replace(change, created=replace(change.created, columns=None))  # they come with the first rows
        return replace(change, created=view.created(change.created))
    return view.created(change) if isinstance(change, TableCreated) else view.altered(change)


@dataclass(frozen=True, slots=True)
class _StatementView:
    rule: BoundRule
    decoding: Decoding
    vendor: Vendor

    def created(self, change: TableCreated) -> TableCreated:
        if change.columns is None:
            return change
        logged = self._layout(change, [fact.column for fact in change.columns])
        names = [folded_name(fact.name) for fact in change.columns]
        logged = replace(logged, primary_key=tuple(names.index(folded_name(key)) for key in change.primary_key))
        generated = {folded_name(fact.name) for fact in change.columns if fact.generated}
        shown = apply_rules_to_table(self.rule, logged, self.decoding, generated)
        facts = tuple(
            self._fact(change.columns[index], column)
            for index, column in zip(shown.columns, shown.layout.columns, strict=True)
        )
        key = tuple(str(shown.layout.columns[index].name) for index in shown.layout.primary_key)
        return replace(change, columns=facts, primary_key=key)

    def altered(self, change: TableAltered) -> TableAltered:
        # Generated columns are left in it: what they were before, the statement does not tell.
        rule = self.rule
        dropped = [name for name in change.dropped if rule.shows(name)]
        renamed = {}
        for old, new in change.renamed.items():
            if rule.shows(old) and not rule.shows(new):
                dropped.append(old)
            elif rule.shows_alike(old, new):
                renamed.update({old: new} if rule.shows(new) else {})
            else:
                raise column_renamed(change.name, old, new)
        key = change.primary_key
        if key is not None:
            rule.check_keys(str(change.name), key)
            key = key if all(map(rule.tells_rows_apart, key)) else ()
        return replace(
            change,
            renamed=renamed,
            added=self._facts(change, change.added),
            modified=self._facts(change, change.modified),
            dropped=tuple(dropped),
            primary_key=key,
        )

    def _facts(self, change: TableAltered, facts: Sequence[ColumnFacts]) -> tuple[ColumnFacts, ...]:
        facts = [fact for fact in facts if self.rule.shows(fact.name)]
        logged = self._layout(change, [fact.column for fact in facts])
        columns = [self.rule.masked_column(logged, index, self.decoding) for index in range(len(facts))]
        return tuple(map(self._fact, facts, columns))

    def _layout(self, change: TableCreated | TableAltered, columns: Sequence[Column]) -> TableLayout:
        return TableLayout(*change.name, tuple(columns), (), "", b"", self.vendor)

    def _fact(self, fact: ColumnFacts, column: Column) -> ColumnFacts:
        mask = self.rule.mask(fact.name)
        if mask is None or (fact.generated and self.rule.rule.drops_generated):
            return fact
        if mask.kind is MaskKind.NULL:
            kind = arrow_type(TableLayout("", "", (column,), (), "", b"", self.vendor), 0, self.decoding)
            return replace(fact, column=column, existing=pa.scalar(None, kind), unknown=None, generated="")
        existing = fact.existing
        if existing is not None:
            known = pa.array([existing.as_py()], existing.type).drop_null()
            existing = pa.concat_arrays([mask.masked(known), pa.nulls(1, pa.string())])[0]
        return replace(fact, column=column, existing=existing)
