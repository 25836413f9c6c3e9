"""JSON values that the log has as changes alone, made whole with documents of the target: `with_documents`.

MySQL logs them so with `binlog_row_value_options=PARTIAL_JSON` where the image before lacks the document
(`binlog_row_image` MINIMAL or NOBLOB). The document is that of the row's last change in the step, or the one that the
target holds. Only the values that are changes cost Python; a step without any is not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from binlog_format.errors import CorruptError
from binlog_format.kernels import kernel
from binlog_format.rows.arrow_arrays import numbers_array
from binlog_format.rows.images import ImageKind
from binlog_format.rows.json.json_document import BadJsonError
from binlog_format.rows.json.json_text_changes import changed_text, text_changes
from binlog_streaming.lake.evolution import with_texts
from binlog_streaming.lake.key_lookup import KeyRuns, Search
from binlog_streaming.lake.row_values import matching_rows
from binlog_streaming.modes.decoded_images import DecodedImages
from binlog_streaming.modes.reference_values import rows_matching
from binlog_streaming.modes.row_keys import KeyTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from binlog_format.kernels import Bytes, Indices, Int64s, Mask
    from binlog_format.rows.images import Images
    from binlog_format.rows.json.json_text_changes import TextChange
    from binlog_streaming.lake.target import Target
    from binlog_streaming.modes.row_batches import RowBatch, StepImages

    Documents = Callable[[pa.Table, str], pa.Table]
    """Function from keys, and the name of a column, to rows of the target with these columns; it may return others
    too."""

_ABSENT, _PRESENT, _CHANGES = range(3)  # states of a value in an image

# In place of the number of the image that has the document:
_IN_TARGET = -1
_LEFT_OUT = -2  # by an INSERT: the default of a JSON value that the log lacks is NULL

_INSERT = np.uint8(ImageKind.INSERT)
_UPDATE_AFTER = np.uint8(ImageKind.UPDATE_AFTER)


class DocumentError(Exception):
    """A document that changes cannot be made to.

    Args:
        image: Number of the image with the changes.
        held: What there is in place of such a document.
    """

    def __init__(self, image: int, column: str, held: str) -> None:
        super().__init__(image, column, held)
        self.image = image
        self.column = column
        self.held = held


def with_documents(
    images: StepImages, schema: pa.Schema, keys: Sequence[int], there: Documents, *, null_stays: bool
) -> StepImages:
    """*images* whose changes to JSON values are whole values; they are absent where the target does not have the row.

    Args:
        schema: Columns of the table, without those of the mode.
        keys: Indices of the key columns.
        there: Finds documents of the target as they are before the step.
        null_stays: What is NULL in the target is not known, and stays so.

    Raises:
        DocumentError: There is no document, or one that the changes do not fit.
    """
    key_table = KeyTable.of(images, schema, keys)
    ids, count = key_table.ids()
    order = images.in_log_order()
    first = KeyRuns.of(ids, order).first
    made: dict[int, dict[int, str | None]] = {}
    for column in range(len(schema)):
        changes = _changes(images, column)
        if not changes:
            continue
        states = np.where(images.absent_mask(column), np.uint8(_ABSENT), np.uint8(_PRESENT))
        changed = np.fromiter(changes, np.int64, len(changes))
        states[changed] = _CHANGES
        bases = np.full((len(images), 2), _IN_TARGET, dtype=np.int64)
        sources = np.stack([np.full(count, _IN_TARGET, dtype=np.int64), np.arange(count, dtype=np.int64)], axis=1)
        _find_bases(order, images.kinds, ids, states, sources, bases)
        changed = changed[np.argsort(changed if images.ranks is None else images.ranks[changed])]
        known = _texts_in_images(images, column, schema.field(column).type, bases[changed, 0])
        asked = np.unique(bases[changed[bases[changed, 0] == _IN_TARGET], 1])
        held = {}
        if len(asked):
            wanted = key_table.taken(first[asked])
            held = dict(zip(asked.tolist(), _texts_in_target(there, wanted, schema.names[column]), strict=True))
        step = _Column(schema.names[column], changes, null_stays)
        made[column] = step.made(changed, bases, known, held)
    return replace(images, row_batches=tuple(_whole(images, schema, made)))


def documents_of(target: Target, current: str | None, keys: pa.Table, column: str) -> pa.Table:
    """Key columns and *column* of rows that may have one of *keys*; of files that cannot, nothing is read.

    Args:
        current: A boolean column that is true in each of them; None: any rows.
    """
    columns = (*keys.column_names, *(() if current is None else (current,)))

    def matches(rows: pa.RecordBatch) -> Mask:
        mask = rows_matching(rows, keys)
        if current is not None:
            mask &= rows.column(current).to_numpy(zero_copy_only=False)
        return mask

    return with_texts(target.select(Search(columns, matches, (keys,), current), [*keys.column_names, column]))


def _changes(images: StepImages, column: int) -> dict[int, tuple[TextChange, ...]]:
    # Of each image that has changes alone these.
    numbers: list[int] = []
    contents: list[bytes] = []
    start = 0
    for row_batch in images.row_batches:
        if row_batch.images.has_changes():
            found = row_batch.images.json_changes(column)
            numbers += [start + row for row in found]
            contents += found.values()
        start += len(row_batch.images.table)
    try:
        return dict(zip(numbers, text_changes(contents), strict=True))
    except BadJsonError as error:
        raise CorruptError("BAD_EVENT", f"{images.source_table}: changes to a JSON value: {error.reason}") from error


@kernel
def _find_bases(
    order: Int64s,
    kinds: Bytes,
    key_ids: Int64s,
    states: Bytes,
    sources: Int64s,
    bases: Int64s,
) -> None:
    # Follows rows through the images. sources: of each key the image that has its document (or a mark), and the key
    # that its row had before the step. bases: of each image with changes these two, as they are before it.
    for step in range(len(order)):
        image = order[step]
        key = key_ids[image]
        if kinds[image] == _INSERT:
            sources[key, 0] = image if states[image] == _PRESENT else _LEFT_OUT
        elif kinds[image] == _UPDATE_AFTER and image > 0:
            before = key_ids[image - 1]
            source, origin = sources[before, 0], sources[before, 1]
            if states[image] == _CHANGES:
                bases[image, 0], bases[image, 1] = source, origin
                source = image
            elif states[image] == _PRESENT:
                source = image
            elif states[image - 1] == _PRESENT:
                source = image - 1
            sources[key, 0], sources[key, 1] = source, origin


def _texts_in_images(images: StepImages, column: int, kind: pa.DataType, bases: Indices) -> dict[int, str | None]:
    numbers = np.unique(bases[bases >= 0])
    texts = images.values(column, kind, numbers).to_pylist() if len(numbers) else []
    return dict(zip(numbers.tolist(), texts, strict=True))


def _texts_in_target(there: Documents, keys: pa.Table, column: str) -> list[tuple[str | None] | None]:
    # Of each key the document, in a tuple; None: there is no row.
    found = there(keys, column)
    places = matching_rows(found.select(keys.column_names), keys)
    texts = found.column(column).take(numbers_array(np.maximum(places, 0))).to_pylist() if found.num_rows else []
    return [(texts[number],) if place >= 0 else None for number, place in enumerate(places.tolist())]


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    changes: Mapping[int, tuple[TextChange, ...]]
    null_stays: bool

    def made(
        self,
        changed: Indices,
        bases: Indices,
        known: dict[int, str | None],
        held: Mapping[int, tuple[str | None] | None],
    ) -> dict[int, str | None]:
        """Text of each image in *changed*, which are in log order; those without a row are left out."""
        made: dict[int, str | None] = {}
        for image, (base, key) in zip(changed.tolist(), bases[changed].tolist(), strict=True):
            found: tuple[str | None] | None
            if base == _IN_TARGET:
                found = held[key]
            elif base in self.changes:
                found = (made[base],) if base in made else None
            else:
                found = (known.get(base),)
            if found is not None:
                made[image] = self._changed(image, found[0], in_target=base == _IN_TARGET or base in self.changes)
        return made

    def _changed(self, image: int, text: str | None, *, in_target: bool) -> str | None:
        if text is None:
            if self.null_stays and in_target:
                return None
            raise DocumentError(image, self.name, "null")
        try:
            return changed_text(text, self.changes[image])
        except BadJsonError as error:
            raise DocumentError(image, self.name, f"another value ({error.reason})") from error


def _whole(images: StepImages, schema: pa.Schema, made: Mapping[int, Mapping[int, str | None]]) -> list[RowBatch]:
    row_batches, start = [], 0
    for row_batch in images.row_batches:
        count = len(row_batch.images.table)
        if not row_batch.images.has_changes():
            row_batches.append(row_batch)
            start += count
            continue
        numbers, nowhere = np.arange(count, dtype=np.int64), np.zeros(count, np.bool_)
        arrays, absent = [], {}
        for column, field in enumerate(schema):
            values = row_batch.images.column_of(column, numbers, nowhere)
            mask = row_batch.images.absent_mask(column)
            new = {row - start: text for row, text in made.get(column, {}).items() if start <= row < start + count}
            if new:
                places, rows = numbers.copy(), np.fromiter(new, np.int64, len(new))
                places[rows] = count + np.arange(len(new))
                both = pa.concat_arrays([values, pa.array(list(new.values()), field.type)])
                values, mask = both.take(numbers_array(places)), mask.copy()
                mask[rows] = False
            arrays.append(values)
            if mask.any():
                absent[column] = mask
        rows = pa.Table.from_arrays(arrays, schema=schema)
        decoded = cast("Images", DecodedImages(row_batch.images.table, rows, absent))
        row_batches.append(replace(row_batch, images=decoded))
        start += count
    return row_batches
