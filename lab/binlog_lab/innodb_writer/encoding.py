"""Lists of compressed integers, as records begin with them: `encode_compressed_ints`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.innodb.compressed_int_kernels import encode_compressed_int

if TYPE_CHECKING:
    from collections.abc import Iterable


def encode_compressed_ints(numbers: Iterable[int]) -> bytes:
    """The shortest forms of *numbers*, one after the other."""
    return b"".join(map(encode_compressed_int, numbers))
