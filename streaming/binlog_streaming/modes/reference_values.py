"""Values of foreign keys, matched with those of parents: `reference_ids`, `foldings`.

Rows match when their values are the same. A server compares text by a collation, which the log does not have: to it
`a` and `A` may be equal. Text that is equal but for upper and lower case, accents and spaces at the end, and not the
same, is refused: nobody knows whether the one refers to the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_streaming.lake.evolution import is_binary
from binlog_streaming.lake.row_values import comparable, one_array, row_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_format.kernels import Indices, Mask

_Values = TypeVar("_Values", pa.Array, pa.ChunkedArray)
_FOLDED = ((r"\p{M}+", ""), ("ß", "s"), ("æ", "ae"), ("œ", "oe"), ("ø", "o"), ("đ", "d"), ("ł", "l"), ("s+", "s"))
"""Replacements in decomposed lower case text that make texts equal which some collation takes as equal."""


def folding(array: pa.Array) -> pa.Array:
    """Values that are the same wherever a collation may take two for equal; other types stay as they are."""
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        return array
    folded = pc.utf8_lower(pc.utf8_normalize(array, "NFKD"))
    for pattern, replacement in _FOLDED:
        folded = pc.replace_substring_regex(folded, pattern, replacement)
    return pc.utf8_rtrim(folded, " ")


def reference_ids(parents: Sequence[pa.ChunkedArray], children: Sequence[pa.ChunkedArray]) -> tuple[Indices, Indices]:
    """A number for each row of both, the same for rows that may refer to each other; -1: one of its values is null.

    Args:
        parents: Columns of the referenced values.
        children: As many columns, in types that values of the parents can be cast to.

    Raises:
        ArrowInvalid: They cannot.
    """
    count = len(parents[0])
    arrays, is_null = [], np.zeros(count + len(children[0]), dtype=np.bool_)
    for parent, child in zip(parents, children, strict=True):
        both = one_array(pa.chunked_array([*_as(parent, child.type).chunks, *child.chunks], child.type))
        is_null |= both.is_null().to_numpy(zero_copy_only=False)
        arrays += comparable(folding(both))
    ids, _ = row_ids(pa.Table.from_arrays(arrays, names=[f"c{number}" for number in range(len(arrays))]))
    ids[is_null] = -1
    return ids[:count], ids[count:]


def _as(values: _Values, kind: pa.DataType) -> _Values:
    if is_binary(values.type) != is_binary(kind):
        # Bytes of a UUID whose definition is gone from the log may be characters, and are not its text.
        raise pa.ArrowInvalid(f"values of {values.type} are not compared with {kind}")
    return values.cast(kind)


def rows_matching(batch: pa.RecordBatch, wanted: pa.Table) -> Mask:
    """Mask of the rows that may have the values of a row of *wanted*, compared column by column.

    Args:
        wanted: Some columns of such rows, by name, in types that can be cast to theirs.
    """
    mask = np.ones(batch.num_rows, dtype=np.bool_)
    for name in wanted.column_names:
        held = batch.column(name)
        values = folding(_as(one_array(wanted.column(name)), held.type))
        mask &= pc.is_in(folding(held), value_set=values, skip_nulls=True).to_numpy(zero_copy_only=False)
    return mask
