"""Bytes that repeat with other values in them: `Template`; a million transactions are made by NumPy in seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Template:
    """Content with marks in it: values that no other bytes of it look like, and that are replaced in copies.

    Args:
        content: The bytes.
    """

    def __init__(self, content: bytes) -> None:
        self.content = content

    def copies(self, count: int) -> NDArray[np.uint8]:
        """The content, *count* times; a row each."""
        return np.tile(np.frombuffer(self.content, np.uint8), (count, 1))

    def fill(self, copies: NDArray[np.uint8], mark: int, values: NDArray[np.generic], kind: type[np.integer]) -> None:
        """Put a number into each copy wherever *mark* is; *kind* says how both are stored."""
        wanted = np.ascontiguousarray(values.astype(np.dtype(kind).newbyteorder("<")))
        size = wanted.dtype.itemsize
        self._replace(copies, mark.to_bytes(size, "little"), wanted.view(np.uint8).reshape(-1, size))

    def fill_text(self, copies: NDArray[np.uint8], mark: str, texts: NDArray[np.uint8]) -> None:
        """Put a text into each copy wherever *mark*, which is as long, is."""
        self._replace(copies, mark.encode(), texts)

    def _replace(self, copies: NDArray[np.uint8], mark: bytes, values: NDArray[np.uint8]) -> None:
        start = self.content.find(mark)
        assert start >= 0
        while start >= 0:
            copies[:, start : start + len(mark)] = values
            start = self.content.find(mark, start + len(mark))


def digit_groups(numbers: np.random.Generator, groups: int, *, count: int) -> NDArray[np.uint8]:
    """*count* texts as sysbench has them, a row each: groups of eleven digits, joined by dashes."""
    texts = numbers.integers(ord("0"), ord("9") + 1, (count, 12 * groups - 1), dtype=np.uint8)
    texts[:, 11::12] = ord("-")
    return texts


def decimal_digits(values: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    """Numbers as decimal text with zeros in front, a row each."""
    powers = 10 ** np.arange(width - 1, -1, -1)
    return (values[:, None] // powers % 10 + ord("0")).astype(np.uint8)
