"""Which files an archive may let go: `without_old_files`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_format.formats.opening import open_live_files

if TYPE_CHECKING:
    from binlog_format.archives.manifest import Manifest


def without_old_files(manifest: Manifest, before: int, uri: str, *, keep_from: int | None = None) -> Manifest:
    """*manifest* without its oldest files: whole ones, of which every transaction is older than a time.

    The newest file stays, and so do files that hold data of transactions that end in one that stays.

    Args:
        manifest: Of the archive.
        before: Seconds since 1970 UTC.
        uri: The archive, to look into the files that stay.
        keep_from: Number of the oldest file that somebody still reads; None: nobody asks for any.
    """
    count = 0
    last_time: int | None = None
    for file in manifest.files[:-1]:
        # A file without transactions goes with those before it.
        last_time = file.last_time or last_time or file.archived_at
        is_needed = keep_from is not None and file.file_no >= keep_from
        if not file.is_sealed or last_time >= before or is_needed:
            break
        count += 1
    if count == 0:
        return manifest
    files = open_live_files(uri, manifest.format)
    try:
        needed = min(files.oldest_reference(file.file_no) for file in manifest.files[count:])
    finally:
        files.close()
    return replace(manifest, files=tuple(file for file in manifest.files if file.file_no >= needed))
