"""Facts of columns that row images leave out: `absent_facts`.

A server leaves columns out of row images with `binlog_row_image` MINIMAL, NOBLOB and FULL_NODUP, MariaDB 11.8 also with
FULL. What such a column holds:

* After an INSERT its default, where the column's definition is known; else nobody knows. (Defaults that are expressions
  or the time of the statement are logged.)
* After an UPDATE what it held before, if a server logs the column whenever it changes. MySQL does so with all columns,
  MariaDB with all that are not generated: VIRTUAL ones, and in 11.8 STORED ones too, it computes anew and leaves out.

Only a definition tells which columns are generated; of MariaDB also that a column cannot be NULL. The decision
`docs/decisions/0030-what-an-image-lacks.md` has what servers were seen to log.

Facts of the columns that the row images of a step lack: `ImageFacts`, by image; `AbsentKinds`, by column.

A definition may change within a step: a statement that sets another default changes no row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_connector.schema.expressions.computed_images import plain_sources
from binlog_format.names import folded_name, folded_names
from binlog_format.rows.arrow_arrays import numbers_array
from binlog_format.rows.declared.completion import ColumnCompletion, LayoutCompletion
from binlog_format.rows.declared.declared_types import Generated
from binlog_format.rows.declared.default_values import layout_defaults
from binlog_format.rows.images import ImageKind
from binlog_format.rows.virtual_columns import BLOBS
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from binlog_format.events.table_map import Column, TableLayout
    from binlog_format.kernels import Bytes, Indices, Mask
    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.modes.row_batches import RowBatch, StepImages

GENERATED_HINT = (
    'Set generated = "null" for the table (they are null where the log lacks them), or leave them out of a new target '
    '(drop_columns, or generated = "drop" for all of them); '
    "MariaDB 10.11 logs them with binlog_row_image=FULL, but a replica logs NULL or the old value where its source "
    "left them out, so these do not count: read the log of the source, or set source.fullSourceImages if that has FULL"
)
UNCLEAR_HINT = (
    "Put the table's definition into the log (binlog-stream snapshot --definitions), or give it as a schema file "
    "(option schemaFile); binlog_row_image=FULL on the server leaves out generated columns at most"
)
WHOLE_IMAGES_HINT = "Set binlog_row_image=FULL on the server, or use mode changelog for this table"

_MISLOGGED = (Generated.VIRTUAL_INDEXED, Generated.MISLOGGED, Generated.WITHOUT_VALUES)
# Of a column that an UPDATE image lacks.
UNCHANGED_IF_ABSENT, GENERATED, UNCLEAR = range(3)


@dataclass(frozen=True, slots=True)
class AbsentFacts:
    """Facts of definitions, by column name.

    Attributes:
        defaults: What an INSERT that leaves the column out puts there, where that is known.
        generated: Columns that the server computes anew with an UPDATE, and may leave out of its images.
        unchanged: Columns that an UPDATE leaves as they are when its images lack them. Of those that are in neither,
            nobody knows which kind they are.
        nullable: Columns that can be NULL. An image before an UPDATE that has one is not MINIMAL.
        blobs: Columns that `binlog_row_image=NOBLOB` leaves out.
        sources: Of generated columns that depend on others alone: those that are not generated among these.
    """

    defaults: Mapping[str, pa.Scalar] = field(default_factory=dict)
    generated: frozenset[str] = frozenset()
    unchanged: frozenset[str] = frozenset()
    nullable: frozenset[str] = frozenset()
    blobs: frozenset[str] = frozenset()
    sources: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def kind(self, name: str) -> int:
        """`UNCHANGED_IF_ABSENT`, `GENERATED` or `UNCLEAR`."""
        if name in self.generated:
            return GENERATED
        return UNCHANGED_IF_ABSENT if name in self.unchanged else UNCLEAR


def absent_facts(layout: TableLayout, decoding: Decoding) -> AbsentFacts:
    """Facts of a layout, from DDL or a schema file."""
    defaults = layout_defaults(layout, decoding)
    named = [(column.name, column, fact) for column, fact in zip(layout.columns, defaults, strict=True) if column.name]
    declared = _declared(layout)
    kinds = {name: _kind(column, declared.get(name), layout.vendor) for name, column, _ in named}
    return AbsentFacts(
        {name: fact.value for name, _, fact in named if fact.value is not None},
        frozenset(name for name, kind in kinds.items() if kind == GENERATED),
        frozenset(name for name, kind in kinds.items() if kind == UNCHANGED_IF_ABSENT),
        frozenset(name for name, column, _ in named if column.nullable),
        frozenset(name for name, column, _ in named if column.type in BLOBS),
        {} if layout.vendor is Vendor.MYSQL else plain_sources(layout.completion, layout.vendor),
    )


def _declared(layout: TableLayout) -> dict[str, ColumnCompletion]:
    # What rules mask has lost its definition, and is what it was all the same.
    found: dict[str, ColumnCompletion] = {}
    for text in (layout.logged.completion if layout.logged else "", layout.completion):
        columns = LayoutCompletion.from_json(text).columns if text else ()
        found |= {column.name: column for column in columns if column.declared is not None}
    return found


def _kind(column: Column, declared: ColumnCompletion | None, vendor: Vendor) -> int:
    if vendor is Vendor.MYSQL and (declared is None or declared.generated not in _MISLOGGED):
        return UNCHANGED_IF_ABSENT
    if declared is not None:
        return GENERATED if declared.generated else UNCHANGED_IF_ABSENT
    # MariaDB's grammar has no NOT NULL for generated columns.
    return UNCLEAR if column.nullable else UNCHANGED_IF_ABSENT


def with_default(values: pa.ChunkedArray, chosen: Mask, default: pa.Scalar) -> pa.ChunkedArray:
    """*values*, and *default* in the *chosen* rows."""
    if not chosen.any():
        return values
    # A take works for every type; `if_else` does not.
    rows = np.arange(len(values), dtype=np.int64)
    rows[chosen] = len(values)
    both = pa.chunked_array([*values.chunks, pa.array([default.as_py()], values.type)], values.type)
    return both.take(numbers_array(rows))


NO_FACTS = -1
"""Number in place of a fact's number: the value has no facts."""


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """Facts of some images. *known*: different ones. *numbers*: of each image which of these hold at its place."""

    known: tuple[AbsentFacts, ...]
    numbers: Indices

    @classmethod
    def of(cls, row_batches: Sequence[RowBatch]) -> ImageFacts:
        """The facts that the row batches state, or their layouts define."""
        defined: dict[tuple[str, str], AbsentFacts] = {}
        known: dict[int, AbsentFacts] = {}
        numbers = [np.empty(0, np.int64)]
        for row_batch in row_batches:
            facts, layout = row_batch.facts, row_batch.layout
            if facts is None:
                key = layout.digest, layout.completion
                if key not in defined:
                    defined[key] = absent_facts(layout, row_batch.decoding)
                facts = defined[key]
            known.setdefault(id(facts), facts)
            numbers.append(np.full(len(row_batch.images.table), list(known).index(id(facts)), np.int64))
        return cls(tuple(known.values()), np.concatenate(numbers))

    def has_default(self, name: str) -> Mask:
        """Mask of the images for which the result of an INSERT without the column *name* is known."""
        known: Mask = np.array([name in facts_there.defaults for facts_there in self.known], np.bool_)
        return known[self.numbers]

    def kinds(self, name: str) -> Bytes:
        """Meaning of each image's lack of the column *name*, by its facts: `AbsentFacts.kind`."""
        kinds: Bytes = np.array([facts_there.kind(name) for facts_there in self.known], np.uint8)
        return kinds[self.numbers]

    def can_be_null(self, name: str) -> Mask:
        """Mask of the images whose column *name* can be NULL."""
        nullable: Mask = np.array([name in facts_there.nullable for facts_there in self.known], np.bool_)
        return nullable[self.numbers]

    def is_blob(self, name: str) -> Mask:
        """Mask of the images whose column *name* is one that `binlog_row_image=NOBLOB` leaves out."""
        blobs: Mask = np.array([name in facts_there.blobs for facts_there in self.known], np.bool_)
        return blobs[self.numbers]

    def with_defaults(self, name: str, values: pa.ChunkedArray, facts: Indices) -> pa.ChunkedArray:
        """*values* of the column *name*, with its default where an INSERT has left it out.

        Args:
            facts: Of each value which of `known` has the default; `NO_FACTS`, or less: the value stays.
        """
        for number, facts_there in enumerate(self.known):
            if name in facts_there.defaults:
                values = with_default(values, facts == number, facts_there.defaults[name])
        return values


@dataclass(frozen=True)
class AbsentKinds:
    """Meaning of columns that images lack, from their facts and from the images themselves."""

    images: StepImages
    schema: pa.Schema

    def of(self, column: int) -> Bytes:
        """Meaning of each image's lack: `UNCHANGED_IF_ABSENT`, `GENERATED` or `UNCLEAR`.

        An image before a change that has a column that can be NULL is not MINIMAL: that has columns of a key at most.
        All others have every column but blobs (NOBLOB), and, on some servers, generated ones.
        """
        name = self.schema.names[column]
        kinds = self.images.facts.kinds(name)
        unclear = kinds == UNCLEAR
        if unclear.any():
            before = self._before
            lacks = self.images.absent_mask(column)[before] & ~self.images.facts.is_blob(name)
            kinds[unclear & lacks & self._is_whole_but_generated[before]] = GENERATED
        kinds[self._keeps_sources(name)] = UNCHANGED_IF_ABSENT
        return kinds

    def _keeps_sources(self, name: str) -> Mask:
        """Mask of the images after updates that leave out all that a generated column is computed of, so keep it."""
        found = np.zeros(len(self.images), np.bool_)
        indices = {folded_name(column): index for index, column in enumerate(self.schema.names)}
        for number, facts in enumerate(self.images.facts.known):
            sources = folded_names(facts.sources.get(name, ()))
            if not sources or not sources <= indices.keys():
                continue
            kept = (self.images.facts.numbers == number) & (self.images.kinds == ImageKind.UPDATE_AFTER)
            for source in sources:
                kept &= self.images.absent_mask(indices[source])
            found |= kept
        return found

    @cached_property
    def _before(self) -> Indices:
        # Of each image the one before the change.
        numbers = np.arange(len(self.images), dtype=np.int64)
        numbers[self.images.kinds == ImageKind.UPDATE_AFTER] -= 1
        return numbers

    @cached_property
    def _is_whole_but_generated(self) -> Mask:
        # Inserts too lack columns that have their defaults.
        found = np.zeros(len(self.images), np.bool_)
        for column, name in enumerate(self.schema.names):
            found |= ~self.images.absent_mask(column) & self.images.facts.can_be_null(name)
        found &= self.images.kinds != ImageKind.INSERT
        return found
