"""CRC-32 against zlib's."""

from __future__ import annotations

import zlib

from hypothesis import given
from hypothesis import strategies as st

from binlog_format.events.checksum_kernels import crc32
from binlog_format.kernels import as_bytes


@given(st.binary(max_size=200), st.integers(0, 40), st.integers(0, 40))
def test_crc32_is_that_of_zlib(data: bytes, before: int, after: int) -> None:
    """For every size and alignment, whatever stands around."""
    buffer = as_bytes(b"\xa5" * before + data + b"\x5a" * after)
    assert int(crc32(buffer, before, before + len(data))) == zlib.crc32(data)
