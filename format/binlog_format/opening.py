"""The entry points to a log: `open_log(path)` -> `Log`, `open_live_files(path, format_name)` -> `LiveFiles`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.errors import OptionError
from binlog_format.log import Bound

if TYPE_CHECKING:
    from binlog_format.live_files import LiveFiles
    from binlog_format.log import Log


def open_log(path: str, *, format_name: str | None = None, bound: Bound | str = Bound.VISIBLE) -> Log:
    """Open the binlog files of one server.

    Args:
        path: The directory that holds them, one file of it, or a URL (`s3://...`).
        format_name: `innodb` or `classic`; default: what the files say.
        bound: How far reading may go: `visible`, or, of `innodb` logs, `sealed`.

    Raises:
        StartError: `PATH_NOT_FOUND`, `NO_LOG_FILES`; `CONFLICTING_OPTIONS`: there are logs of both formats.
        UnsupportedError: `FORMAT`, `ENCRYPTED`.
        OptionError: `INVALID_VALUE`: there is no format or bound of that name.
    """
    # Not at the top: Arrow's file systems and compiled code take a moment to load, and who imports this package for its
    # errors or positions needs neither; nor does a reader of one format need the code of the other.
    from binlog_format.detect import CLASSIC, FORMATS, INNODB, detect_format
    from binlog_format.source_file import open_directory

    if format_name is not None and format_name not in FORMATS:
        raise OptionError("INVALID_VALUE", f"format: expected {' or '.join(FORMATS)}, got {format_name!r}")
    if bound not in tuple(Bound):
        raise OptionError("INVALID_VALUE", f"bound: expected {' or '.join(Bound)}, got {bound!r}")
    directory, only = open_directory(path)
    found = detect_format(directory, only) if format_name is None else format_name
    if found == INNODB:
        from binlog_format.innodb.reader import InnodbLog

        return InnodbLog(directory, only, bound=Bound(bound))
    assert found == CLASSIC
    if bound != Bound.VISIBLE:
        raise OptionError("INVALID_VALUE", f"bound: {bound} is for {INNODB} logs, {path} is {CLASSIC}")
    from binlog_format.classic.reader import ClassicLog

    return ClassicLog(directory, only)


def open_live_files(path: str, format_name: str) -> LiveFiles:
    """The files of a log, to look at them again and again.

    Args:
        path: As for `open_log`.
        format_name: `Log.format_name`.

    Raises:
        StartError: `PATH_NOT_FOUND`.
    """
    from binlog_format.detect import INNODB
    from binlog_format.source_file import open_directory

    directory, only = open_directory(path)
    if format_name == INNODB:
        from binlog_format.innodb.live_files import InnodbLiveFiles

        return InnodbLiveFiles(directory, only)
    from binlog_format.classic.live_files import ClassicLiveFiles

    return ClassicLiveFiles(directory, only)
