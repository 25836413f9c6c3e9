"""Arrow arrays over NumPy arrays, without a copy: `fixed_array`, `text_array`, `struct_array`; `same_values`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_format.kernels import as_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes, Int32s, Mask, Uint64s


def validity(offsets: Int32s) -> Mask:
    """Mask of the values that are neither NULL nor absent."""
    mask: Mask = offsets >= 0
    return mask


def fixed_array(kind: pa.DataType, values: NDArray[np.generic], valid: Mask) -> pa.Array:
    """An array of a type of fixed width; *values* holds the bytes that Arrow wants."""
    bitmap, null_count = _bitmap(valid)
    return pa.Array.from_buffers(kind, len(valid), [bitmap, pa.py_buffer(values)], null_count)


def text_array(kind: pa.DataType, text_offsets: Int32s, data: Bytes, valid: Mask | None) -> pa.Array:
    """An array of `string` or `binary`; *text_offsets* has one element more than *valid*. None: all are there."""
    bitmap, null_count = _bitmap(valid)
    buffers = [bitmap, pa.py_buffer(text_offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(text_offsets) - 1, buffers, null_count)


def numbers_array(values: NDArray[np.generic], kind: pa.DataType | None = None) -> pa.Array:
    """Numbers without nulls, of *kind*, whose bytes they are; default: of NumPy's type.

    As `pa.array`, which imports pandas where it is installed, to see whether it is given something of its: that takes
    longer than all else that the first batch of a process takes.
    """
    kind = pa.from_numpy_dtype(values.dtype) if kind is None else kind
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))], 0)


def mask_array(mask: Mask) -> pa.Array:
    """An array of `bool` without nulls."""
    packed = pa.py_buffer(np.packbits(mask, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, packed], 0)


def array_mask(array: pa.Array) -> Mask:
    """Mask of the true values of an array of `bool` without nulls; without pandas, as `numbers_array`."""
    end = array.offset + len(array)
    packed = np.frombuffer(array.buffers()[1], dtype=np.uint8)
    mask: Mask = np.unpackbits(packed, count=end, bitorder="little")[array.offset :].view(np.bool_)
    return mask


def strings_array(texts: Sequence[str]) -> pa.Array:
    """A few texts; without pandas, as `numbers_array`."""
    offsets, data = joined_texts(texts)
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(data))


def joined_texts(texts: Sequence[str]) -> tuple[Int32s, Bytes]:
    """Join a few texts; returns the start of each and the end of the last, then the joined texts."""
    encoded = [text.encode() for text in texts]
    return np.cumsum([0, *map(len, encoded)], dtype=np.int32), as_bytes(b"".join(encoded))


def repeated_text(text: str, count: int) -> pa.Array:
    """The same text *count* times."""
    encoded = text.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * len(encoded)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(encoded * count))


def struct_array(kind: pa.StructType, columns: Sequence[pa.Array], valid: Mask | None = None) -> pa.Array:
    """Structs of *columns*, of which there is at least one; null where not *valid*."""
    count = len(columns[0])
    bitmap, null_count = _bitmap(valid)
    return pa.Array.from_buffers(kind, count, [bitmap], null_count, children=list(columns))


def boolean_array(values: Mask, valid: Mask) -> pa.Array:
    """An array of `bool`."""
    return fixed_array(pa.bool_(), np.packbits(values, bitorder="little"), valid)


def unsigned_64_array(values: Uint64s, valid: Mask) -> pa.Array:
    """Numbers of 64 bits without sign as decimal128(20, 0): Arrow's readers know no such integers, Spark above all."""
    words = np.zeros((len(values), 2), dtype=np.uint64)
    words[:, 0] = values
    return fixed_array(pa.decimal128(20, 0), words, valid)


def _bitmap(valid: Mask | None) -> tuple[pa.Buffer | None, int]:
    if valid is None:
        return None, 0
    null_count = len(valid) - int(np.count_nonzero(valid))
    if null_count == 0:
        return None, 0
    return pa.py_buffer(np.packbits(valid, bitorder="little")), null_count


def same_values(values: pa.Array, others: pa.Array) -> Mask:
    """Mask of the places where two columns of one type have the same value, or both NULL."""
    if pa.types.is_nested(values.type):  # Arrow does not compare these
        pairs = zip(values.to_pylist(), others.to_pylist(), strict=True)
        return np.array([value == other for value, other in pairs], dtype=np.bool_)
    are_null = pc.and_(pc.is_null(values), pc.is_null(others))
    same: Mask = pc.or_(pc.fill_null(pc.equal(values, others), False), are_null).to_numpy(zero_copy_only=False)
    return same
