"""Kernels that write GTIDs as text, `domain-server-seqno`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import kernel
from binlog_format.views.json_part_kernels import digit_count, put_digits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes

    Uint64s = NDArray[np.uint64]


@kernel
def gtid_offsets(domains: Uint64s, servers: Uint64s, seqnos: NDArray[np.uint64]) -> NDArray[np.int32]:
    """Where each text begins, and the last one ends."""
    offsets = np.empty(domains.size + 1, dtype=np.int32)
    offsets[0] = 0
    for row in range(domains.size):
        size = digit_count(domains[row]) + digit_count(servers[row]) + digit_count(seqnos[row]) + 2
        offsets[row + 1] = offsets[row] + size
    return offsets


@kernel
def write_gtids(
    domains: Uint64s,
    servers: Uint64s,
    seqnos: Uint64s,
    offsets: NDArray[np.int32],
    out: Bytes,
) -> None:
    """Write the texts at their *offsets*."""
    for row in range(domains.size):
        at = put_digits(out, offsets[row], domains[row])
        out[at] = 0x2D
        at = put_digits(out, at + 1, servers[row])
        out[at] = 0x2D
        put_digits(out, at + 1, seqnos[row])
