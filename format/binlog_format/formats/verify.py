"""Checks everything in a log that can be checked: `verify_log(path)` -> `Finding`s."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from binlog_format.archives.archive_directory import ArchiveDirectory
from binlog_format.archives.directories import open_directory
from binlog_format.findings import CheckScope
from binlog_format.formats.detect import detect_format
from binlog_format.formats.opening import FORMAT_CLASSES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.findings import Finding, OnProgress
    from binlog_format.position import Position
    from binlog_format.source_file import Directory


def verify_log(
    path: str, *, start: Position | None = None, end: Position | None = None, on_progress: OnProgress | None = None
) -> Iterator[Finding]:
    """Check every checksum, header, chunk, reference, event boundary and GTID state of a log, past all damage.

    The log is taken as it lies there: a damaged page is a finding at the log end too. What is merely not there yet
    is a remark.

    Args:
        path: The directory of a server's binlog files or of a program's logs, one of them, or a URL.
        start: Check from here on; default: the start.
        end: Check up to here.
        on_progress: Called now and then.

    Raises:
        StartError: Nothing is there to be checked, or *start* is not there.
    """
    directory, only = open_directory(path)
    return verify_directory(directory, only, start=start, end=end, on_progress=on_progress)


def verify_directory(
    directory: Directory,
    only: str | None = None,
    *,
    start: Position | None = None,
    end: Position | None = None,
    on_progress: OnProgress | None = None,
) -> Iterator[Finding]:
    """`verify_log` for a directory that is open; *only* names the one file to be checked.

    Of an archive the checksums in its manifest are checked, too.
    """
    check = FORMAT_CLASSES[detect_format(directory, only)].load_check()
    findings = check(CheckScope(directory, only, start, end, on_progress)).findings()
    return chain(directory.findings(), findings) if isinstance(directory, ArchiveDirectory) else findings
