"""Kernels that write GTIDs as text: `domain-server-seqno`, and of MySQL `uuid:seqno` or `uuid:tag:seqno`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import allocating_kernel, kernel
from binlog_format.memory_kernels import copy_bytes
from binlog_format.writing_kernels import digit_count, put_digits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes

    Int32s = NDArray[np.int32]
    Uint64s = NDArray[np.uint64]


@allocating_kernel
def gtid_offsets(
    domains: Uint64s, servers: Uint64s, seqnos: Uint64s, sources: Int32s, prefix_offsets: Int32s
) -> tuple[int, Int32s]:
    """Compute the start of each text, and the end of the last one.

    Args:
        domains: Of each GTID; as *servers*, only of MariaDB.
        servers: Of each GTID.
        seqnos: Of each GTID.
        sources: Row of its prefix; below 0: MariaDB's.
        prefix_offsets: Where each prefix begins, and the last one ends.

    Returns:
        The first row whose source has no prefix, -1 without one; and the offsets.
    """
    offsets = np.empty(seqnos.size + 1, dtype=np.int32)
    offsets[0] = 0
    for row in range(seqnos.size):
        size = digit_count(seqnos[row])
        source = sources[row]
        if source < 0:
            size += digit_count(domains[row]) + digit_count(servers[row]) + 2
        elif source + 1 < prefix_offsets.size:
            size += prefix_offsets[source + 1] - prefix_offsets[source]
        else:
            return row, offsets
        offsets[row + 1] = offsets[row] + size
    return -1, offsets


@kernel
def write_gtids(
    domains: Uint64s,
    servers: Uint64s,
    seqnos: Uint64s,
    sources: Int32s,
    prefixes: Bytes,
    prefix_offsets: Int32s,
    offsets: Int32s,
    out: Bytes,
) -> None:
    """Write the texts at the *offsets* that `gtid_offsets` gave; *prefixes* are the texts up to the last number."""
    for row in range(seqnos.size):
        at = offsets[row]
        source = sources[row]
        if source < 0:
            at = put_digits(out, at, domains[row])
            out[at] = 0x2D
            at = put_digits(out, at + 1, servers[row])
            out[at] = 0x2D
            at += 1
        else:
            size = prefix_offsets[source + 1] - prefix_offsets[source]
            copy_bytes(out, at, prefixes, prefix_offsets[source], size)
            at += size
        put_digits(out, at, seqnos[row])
