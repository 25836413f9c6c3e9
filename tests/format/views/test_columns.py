"""Columns that state where a change is: texts spread over rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.kernels import as_bytes
from binlog_format.views.columns import texts_of_rows

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


@st.composite
def spreads(draw: st.DrawFn) -> tuple[list[str], list[int], list[bool] | None]:
    """Texts, for each row the number of one, and where rows have one."""
    texts = draw(st.lists(st.text(max_size=5), min_size=1, max_size=6))
    rows = draw(st.lists(st.integers(0, len(texts) - 1), max_size=20))
    valid = draw(st.none() | st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    return texts, rows, valid


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
@given(spread=spreads())
def test_texts_of_rows_are_what_arrow_takes(
    dtype: DTypeLike, spread: tuple[list[str], list[int], list[bool] | None]
) -> None:
    texts, rows, valid = spread
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    mask = None if valid is None else np.array(valid, dtype=np.bool_)
    made = texts_of_rows(offsets, as_bytes(b"".join(encoded)), np.array(rows, dtype=dtype), mask)
    made.validate(full=True)
    numbers = pa.array(rows, pa.int64(), mask=None if mask is None else ~mask)
    assert made.equals(pa.array(texts, pa.string()).take(numbers))


@pytest.mark.parametrize("row", [-1, 2, 1 << 40])
def test_a_text_that_is_not_there_is_not_read(row: int) -> None:
    with pytest.raises(AssertionError, match="not there"):
        texts_of_rows(np.array([0, 1, 2], dtype=np.int32), as_bytes(b"ab"), np.array([0, row]))
