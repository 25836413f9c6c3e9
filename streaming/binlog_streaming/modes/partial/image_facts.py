"""Facts of the columns that the row images of a step lack: `ImageFacts`, by image; `AbsentKinds`, by column.

A definition may change within a step: a statement that sets another default changes no row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.rows.images import ImageKind
from binlog_streaming.modes.partial.absent_columns import GENERATED, UNCLEAR, AbsentFacts, absent_facts, with_default

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from binlog_streaming.modes.row_batches import RowBatch, StepImages

    Indices = NDArray[np.int64]
    Mask = NDArray[np.bool_]
    Kinds = NDArray[np.uint8]


NO_FACTS = -1
"""Number in place of a fact's number: the value has no facts."""


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """Facts of some images.

    Attributes:
        known: Different ones.
        numbers: Of each image which of these hold at its place.
    """

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
        known: Mask = np.array([name in one.defaults for one in self.known], np.bool_)
        return known[self.numbers]

    def kinds(self, name: str) -> Kinds:
        """Meaning of each image's lack of the column *name*, by its facts: `AbsentFacts.kind`."""
        kinds: Kinds = np.array([one.kind(name) for one in self.known], np.uint8)
        return kinds[self.numbers]

    def can_be_null(self, name: str) -> Mask:
        """Mask of the images whose column *name* can be NULL."""
        nullable: Mask = np.array([name in one.nullable for one in self.known], np.bool_)
        return nullable[self.numbers]

    def is_blob(self, name: str) -> Mask:
        """Mask of the images whose column *name* is one that `binlog_row_image=NOBLOB` leaves out."""
        blobs: Mask = np.array([name in one.blobs for one in self.known], np.bool_)
        return blobs[self.numbers]

    def with_defaults(self, name: str, values: pa.ChunkedArray, facts: Indices) -> pa.ChunkedArray:
        """*values* of the column *name*, with its default where an INSERT has left it out.

        Args:
            name: Of the column.
            values: Of some images.
            facts: Of each value which of `known` has the default; `NO_FACTS`, or less: the value stays.
        """
        for number, one in enumerate(self.known):
            if name in one.defaults:
                values = with_default(values, facts == number, one.defaults[name])
        return values


@dataclass(frozen=True)
class AbsentKinds:
    """Meaning of columns that images lack, from their facts and from the images themselves.

    Attributes:
        images: Of a step.
        schema: Columns of the table.
    """

    images: StepImages
    schema: pa.Schema

    def of(self, column: int) -> Kinds:
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
        return kinds

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
