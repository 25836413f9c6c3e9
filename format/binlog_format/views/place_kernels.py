"""Kernels of the columns that state where a change is: `fill_places`, `pair_changes`, `spread_texts`, `write_gtids`.

GTIDs are texts `domain-server-seqno`, and of MySQL `uuid:seqno` or `uuid:tag:seqno`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import allocating_kernel, kernel
from binlog_format.memory_kernels import copy_bytes
from binlog_format.rows.row_event_kernels import AFTER_KIND, BEFORE_KIND, INSERT_KIND
from binlog_format.writing_kernels import digit_count, put_digits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int32s, Int64s, Uint64s

_MICROS = 1_000_000

NO_SUCH_TEXT = -1


@kernel
def pair_changes(
    images: Table, first: Int64s, before: Int64s, after: Int64s, events: Int64s, row_nos: Int32s, first_kinds: Bytes
) -> int:
    """Find the images of each change.

    Args:
        images: `IMAGE_DTYPE`.
        first: Gets of each change its first image; as long as *images*, as are all that follow.
        before: Gets the image before it, -1 for an insert.
        after: Gets the image after it, -1 for a delete.
        events: Gets what *images* contain of the first image.
        row_nos: The same.
        first_kinds: The same.

    Returns:
        The number of changes; -1 when an update lacks one of its two images.
    """
    kinds, image_events, image_row_nos = images["kind"], images["event"], images["row_no"]
    count = 0
    row = 0
    while row < len(kinds):
        kind = kinds[row]
        first[count] = row
        events[count] = image_events[row]
        row_nos[count] = image_row_nos[row]
        first_kinds[count] = kind
        before[count] = -1 if kind == INSERT_KIND else row
        after[count] = row if kind == INSERT_KIND else -1
        if kind == AFTER_KIND:
            return -1
        if kind == BEFORE_KIND:
            row += 1
            if row == len(kinds) or kinds[row] != AFTER_KIND:
                return -1
            after[count] = row
        count += 1
        row += 1
    return count


@kernel
def fill_places(
    events: Table,
    groups: Table,
    rows: Int64s,
    group_rows: Int64s,
    file_no: Int64s,
    page: Int64s,
    chunk: Int32s,
    event_no: Int32s,
    micros: Int64s,
    server_id: Int64s,
) -> int:
    """Bring together what the groups and events of some rows contain.

    Args:
        groups: `GROUP_DTYPE`, what `events["group"]` counts.
        rows: Of *events*.
        group_rows: Gets for each of *rows* its group; as long as *rows*, as are all that follow.
        file_no: Gets the file of the group's position.
        event_no: Gets the number of the event in its group.
        micros: Gets the time of the group's first event, microseconds since 1970 UTC.

    Returns:
        The first row whose event or group is not there; -1 when all are.
    """
    event_groups, event_nos, servers = events["group"], events["event_no"], events["server_id"]
    file_nos, pages, chunks, seconds = groups["file_no"], groups["page"], groups["chunk"], groups["timestamp"]
    for row in range(len(rows)):
        event = rows[row]
        if event < 0 or event >= len(events):
            return row
        group = event_groups[event]
        if group < 0 or group >= len(groups):
            return row
        group_rows[row] = group
        file_no[row] = file_nos[group]
        page[row] = pages[group]
        chunk[row] = chunks[group]
        event_no[row] = event_nos[event]
        micros[row] = np.int64(seconds[group]) * _MICROS
        server_id[row] = servers[event]
    return -1


@kernel
def spread_offsets(offsets: Int32s, rows: NDArray[np.integer], out_offsets: Int32s) -> int:
    """Compute the place of each row's text when all are joined.

    Args:
        offsets: Where each text begins, and the last one ends.
        rows: Of each row its text.
        out_offsets: Gets the start of each row's text, and the end of the last; right only if that is no more than 31
            bits hold.

    Returns:
        Bytes of all; or `NO_SUCH_TEXT`.
    """
    end = 0
    out_offsets[0] = 0
    for i in range(len(rows)):
        row = np.int64(rows[i])
        if row < 0 or row + 1 >= len(offsets):
            return NO_SUCH_TEXT
        end += np.int64(offsets[row + 1]) - offsets[row]
        out_offsets[i + 1] = end & 0x7FFFFFFF
    return end


@kernel
def spread_texts(offsets: Int32s, texts: Bytes, rows: NDArray[np.integer], out_offsets: Int32s, out: Bytes) -> None:
    """Write the texts to the places of `spread_offsets`."""
    for i in range(len(rows)):
        row = np.int64(rows[i])
        copy_bytes(out, out_offsets[i], texts, offsets[row], np.int64(offsets[row + 1]) - offsets[row])


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
