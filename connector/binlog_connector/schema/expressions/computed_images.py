"""Row images with the generated columns that the server left out: `completed_images(images)`.

MariaDB leaves these out of updates. Readers compute a column where the image has all that it is computed of.
Values stand after the bytes that were read, and cells point there.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from binlog_connector.schema.definitions import ColumnDefinition, TableDefinition, TableName
from binlog_connector.schema.expressions.generated_values import GeneratedValues
from binlog_connector.schema.expressions.operands import NotComputedError
from binlog_format.errors import BinlogError
from binlog_format.kernels import empty_bytes
from binlog_format.names import folded_name
from binlog_format.rows.columns import column_array
from binlog_format.rows.declared.completion import LayoutCompletion
from binlog_format.rows.declared.declared_types import Generated
from binlog_format.rows.decoding import DEFAULT_DECODING
from binlog_format.rows.encoded_values import encoded
from binlog_format.rows.images import ABSENT, DATA_SIZE_MAX, NULL, ImageKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from binlog_format.kernels import Int32s, Int64s, Mask
    from binlog_format.rows.declared.completion import ColumnCompletion
    from binlog_format.rows.images import Images
    from binlog_format.vendor import Vendor

_LAYOUTS_KEPT = 256


def completed_images(images: Images, completion: str | None = None) -> Images:
    """*images* with the generated columns that can be computed.

    Args:
        completion: Of their layout, where a definition was found later; None: its own.
    """
    text = images.layout.completion if completion is None else completion
    rules = images.decoding.rules
    for index, generated in generated_columns(text, images.layout.vendor):
        # What is computed of hidden values would tell them.
        if rules is not None and any(rules.hides(images.layout, name) for name in generated.sources):
            continue
        # A replica may log another value of a VIRTUAL column than its rows have, and not only NULL.
        if any(generated.source(name).generated is Generated.REPLICATED for name in generated.sources):
            continue
        is_doubted = generated.column.generated is Generated.REPLICATED
        rows = np.flatnonzero(is_doubted | (images.column_offsets(index) == ABSENT))
        if len(rows):
            images = _with_column(images, index, generated, rows)
    return images


@lru_cache(_LAYOUTS_KEPT)
def generated_columns(text: str, vendor: Vendor) -> Sequence[tuple[int, GeneratedValues]]:
    """Generated columns whose values depend on other columns alone, in a known way, and their indices.

    Args:
        text: `LayoutCompletion.to_json`.
    """
    columns = LayoutCompletion.from_json(text).columns
    table = TableDefinition(TableName("", ""), tuple(map(_definition, columns)))
    found = []
    for index, column in enumerate(table.columns or ()):
        generated = GeneratedValues(column, table, vendor, DEFAULT_DECODING)
        if column.expression and column.declared and _is_understood(generated):
            found.append((index, generated))
    return found


def plain_sources(text: str, vendor: Vendor) -> Mapping[str, frozenset[str]]:
    """Columns that are not generated, of which generated ones are computed in the end, by the names of these.

    Args:
        text: `LayoutCompletion.to_json`, or nothing.
    """
    found: dict[str, frozenset[str]] = {}
    for _, generated in generated_columns(text, vendor) if text else ():  # each after those that it is computed of
        kinds = {source: generated.source(source).generated for source in generated.sources}
        if all(kind is None or source in found for source, kind in kinds.items()):
            sources = (found.get(source, {source}) for source in generated.sources)
            found[generated.column.name] = frozenset().union(*sources)
    return found


def _definition(column: ColumnCompletion) -> ColumnDefinition:
    return ColumnDefinition(
        column.name,
        column.declared or "",
        column.nullable,
        column.unsigned,
        column.charset,
        column.enum_values,
        generated=column.generated,
        unknown=frozenset() if column.declared else frozenset(["declared"]),
        zerofill=column.zerofill,
        expression=column.expression,
    )


def _is_understood(generated: GeneratedValues) -> bool:
    try:
        generated.check()
    except NotComputedError:
        return False
    return True


def _with_column(images: Images, index: int, generated: GeneratedValues, rows: Int64s) -> Images:
    names = {folded_name(str(column.name)): place for place, column in enumerate(images.layout.columns)}
    sources = {name: names[folded_name(name)] for name in generated.sources}
    table = {column.name: column for column in generated.table.columns or ()}
    cells = {
        name: _source_cells(images, place, rows, stays=table[name].generated is None) for name, place in sources.items()
    }
    there = np.ones(len(rows), np.bool_)
    for of_source in cells.values():
        there &= of_source > ABSENT
    rows = rows[there]
    try:
        arrays = {
            name: column_array(images.layout, place, images.data, np.ascontiguousarray(cells[name][there]))
            for name, place in sources.items()
        }
        # What is null, and not NULL there, is 0000-00-00.
        doubtful = {name: cells[name][there] != NULL for name in sources}
        found = generated.values(arrays, len(rows), doubtful)
    except (NotComputedError, BinlogError):  # who reads a value that is damaged names it
        return images
    written = encoded(images.layout.columns[index], found.array)
    if written is None:
        return images
    places, data = written
    end = len(images.data)
    if end + len(data) > DATA_SIZE_MAX:
        return images
    known = np.ones(len(rows), np.bool_) if found.unknown is None else ~found.unknown
    images = _with_own_cells(images, index)
    images.cells[images.slots[index], rows[known]] = np.where(places < 0, places, places + end)[known]
    joined = empty_bytes(end + len(data))
    np.concatenate([images.data, data], out=joined)
    return replace(images, data=joined)


def _source_cells(images: Images, column: int, rows: Int64s, *, stays: bool) -> Int32s:
    """Places of the values of a column. *stays*: what an update does not name is as it was before."""
    cells = images.column_offsets(column)
    found = cells[rows]
    if not stays:
        return found
    is_before: Mask = (found == ABSENT) & (images.table["kind"][rows] == ImageKind.UPDATE_AFTER)
    found[is_before] = cells[rows[is_before] - 1]
    return found


def _with_own_cells(images: Images, column: int) -> Images:
    """A copy of *images*, in which no other column has the cells of one: those that no image has share theirs."""
    slots = images.slots.copy()
    if np.count_nonzero(slots == slots[column]) == 1:
        return replace(images, cells=images.cells.copy())
    slots[column] = len(images.cells)
    empty = np.full((1, images.cells.shape[1]), ABSENT, images.cells.dtype)
    return replace(images, cells=np.vstack([images.cells, empty]), slots=slots)
