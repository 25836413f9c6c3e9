"""CRC-32C of many pages at once: `count_good_pages`, None where the processor has no instruction for it.

The instruction takes eight bytes a cycle but gives its result after three, so that four pages are computed side by
side; one call for a run of pages also saves a Python call for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic

from binlog_format.innodb.layout import PAGE_CHECKSUM_SIZE
from binlog_format.kernels import kernel, may_use
from binlog_format.memory_kernels import load_u32, load_u64

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_format.kernels import Bytes

_CRC_START = np.uint64(0xFFFF_FFFF)
_WORD_SIZE = 8
_WORD_BITS = 64


def _step(bits: int) -> Callable[[np.uint64, int | np.uint64], np.uint64]:
    """The instruction for words of *bits* bits: CRC so far and word to the new CRC."""

    def typed(_typing: Any, crc: Any, word: Any) -> Any:
        if crc != types.uint64 or word != types.uint64:
            return None

        def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            number = ir.IntType(bits)
            function_type = ir.FunctionType(number, (number, number))
            name = f"llvm.x86.sse42.crc32.{bits}.{bits}"
            insert: Any = cgutils.get_or_insert_function
            step = insert(builder.module, function_type, name)
            if bits == _WORD_BITS:
                return builder.call(step, values)
            result = builder.call(step, [builder.trunc(value, number) for value in values])
            return builder.zext(result, ir.IntType(_WORD_BITS))

        return types.uint64(crc, word), generate

    return cast("Callable[[np.uint64, int | np.uint64], np.uint64]", intrinsic(typed))


_step_64 = _step(64)
_step_32 = _step(32)


@kernel
def _finished(data: Bytes, at: int, crc: np.uint64) -> bool:
    """True if *crc*, with the last four bytes before the checksum at `data[at]`, equals that checksum."""
    crc = _step_32(crc, np.uint64(load_u32(data, at - PAGE_CHECKSUM_SIZE)))
    return bool(crc ^ _CRC_START == np.uint64(load_u32(data, at)))


@kernel
def _count_good_pages(data: Bytes, page_size: int) -> int:
    """Count the pages at the start of *data*, whole pages, that have good checksums."""
    count = len(data) // page_size
    # The checksum and the four bytes before it make the last word.
    words_end = page_size - _WORD_SIZE
    checksum = page_size - PAGE_CHECKSUM_SIZE
    page = 0
    while page + 4 <= count:
        first = page * page_size
        second = first + page_size
        third = second + page_size
        fourth = third + page_size
        crc_1 = crc_2 = crc_3 = crc_4 = _CRC_START
        for at in range(0, words_end, _WORD_SIZE):
            crc_1 = _step_64(crc_1, load_u64(data, first + at))
            crc_2 = _step_64(crc_2, load_u64(data, second + at))
            crc_3 = _step_64(crc_3, load_u64(data, third + at))
            crc_4 = _step_64(crc_4, load_u64(data, fourth + at))
        if not _finished(data, first + checksum, crc_1):
            return page
        if not _finished(data, second + checksum, crc_2):
            return page + 1
        if not _finished(data, third + checksum, crc_3):
            return page + 2
        if not _finished(data, fourth + checksum, crc_4):
            return page + 3
        page += 4
    while page < count:
        first = page * page_size
        crc_1 = _CRC_START
        for at in range(0, words_end, _WORD_SIZE):
            crc_1 = _step_64(crc_1, load_u64(data, first + at))
        if not _finished(data, first + checksum, crc_1):
            return page
        page += 1
    return count


count_good_pages: Callable[[Bytes, int], int] | None = _count_good_pages if may_use("sse4.2") else None
"""Count the good pages at the start of a buffer of whole pages of one size, by their checksums."""
