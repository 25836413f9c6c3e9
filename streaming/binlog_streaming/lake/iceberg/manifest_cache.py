"""Manifests that were read, kept between looks at a table: `live_entries`; what is written once is never changed.

A commit brings few new manifests, and each look needs all of them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from binlog_streaming.lake.iceberg.manifests import inherited_values, read_entries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestEntry, ManifestFile

COLUMNS_MAX = 300_000
"""Columns of files whose statistics are kept in a process: 80 MB, 15,000 files with 20 columns."""

_FIXED_COLUMNS = 4
"""Cost of an entry without statistics, in columns."""

Entries = tuple["ManifestEntry", ...]


class ManifestCache:
    """The manifests that were asked for last.

    Args:
        columns_max: Columns of files that are kept, at most.
    """

    def __init__(self, columns_max: int) -> None:
        self._columns_max = columns_max
        self._columns = 0
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[object, ...], Entries] = OrderedDict()

    def live_entries(self, io: FileIO, manifest: ManifestFile) -> Sequence[ManifestEntry]:
        """Files of a manifest that are in the table; not to be changed."""
        key = (manifest.manifest_path, *inherited_values(manifest))
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        entries = tuple(read_entries(io, manifest))
        with self._lock:
            self._keep(key, entries)
        return entries

    def _keep(self, key: tuple[object, ...], entries: Entries) -> None:
        columns = _columns(entries)
        if key in self._kept or columns > self._columns_max:
            return
        self._kept[key] = entries
        self._columns += columns
        while self._columns > self._columns_max:
            _, oldest = self._kept.popitem(last=False)
            self._columns -= _columns(oldest)


def _columns(entries: Entries) -> int:
    return sum(_FIXED_COLUMNS + len(entry.data_file.value_counts or ()) for entry in entries)


_KEPT = ManifestCache(COLUMNS_MAX)
live_entries = _KEPT.live_entries
