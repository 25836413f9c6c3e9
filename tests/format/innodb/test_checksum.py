"""Page checksums: the kernel and the package agree, on any page size, about any damage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.innodb.pages import checksum_kernels
from binlog_format.innodb.pages.checksum import PageState, verify_pages
from binlog_format.kernels import as_bytes
from binlog_lab.innodb_writer.encoding import set_page_checksum

PAGE_SIZES = [512, 1024, 16384, 65536]


def pages(count: int, page_size: int, seed: int = 1) -> bytearray:
    data = bytearray(np.random.default_rng(seed).integers(0, 256, count * page_size, dtype=np.uint8).tobytes())
    for start in range(0, len(data), page_size):
        set_page_checksum(memoryview(data)[start : start + page_size])
    return data


@pytest.mark.parametrize("with_kernel", [True, False])
@given(data=st.data())
def test_pages_are_good_up_to_the_damage(with_kernel: bool, data: st.DataObject) -> None:
    page_size = data.draw(st.sampled_from(PAGE_SIZES))
    count = data.draw(st.integers(0, 11))
    content = pages(count, page_size, data.draw(st.integers(0, 99)))
    wanted, state = count, PageState.GOOD
    if count > 0 and data.draw(st.booleans()):
        byte = data.draw(st.integers(0, len(content) - 1))
        content[byte] ^= 1 << data.draw(st.integers(0, 7))
        wanted, state = byte // page_size, PageState.BAD
    elif count > 0 and data.draw(st.booleans()):
        wanted, state = data.draw(st.integers(0, count - 1)), PageState.ZERO
        content[wanted * page_size : (wanted + 1) * page_size] = bytes(page_size)
    with pytest.MonkeyPatch.context() as patch:
        if not with_kernel:
            patch.setattr(checksum_kernels, "count_good_pages", None)
        assert verify_pages(as_bytes(content), page_size) == (wanted, state)
