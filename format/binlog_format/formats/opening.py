"""The entry points to a log: `open_log(path)` -> `Log`, `open_live_files(path, format_name)` -> `LiveFiles`.

The formats, and where the code of each is: `FORMAT_CLASSES`.
"""

from __future__ import annotations

import pkgutil
from typing import TYPE_CHECKING, NamedTuple, cast

from binlog_format.errors import OptionError
from binlog_format.format_traits import CLASSIC, FORMAT_TRAITS, INNODB, STRUCTURED
from binlog_format.log_format import Bound

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_format.findings import LogCheck
    from binlog_format.live_files import LiveFiles
    from binlog_format.log.log import Log


class FormatClasses(NamedTuple):
    """The classes of a format, by name: each brings compiled code, which takes a moment to load."""

    log: str
    live_files: str
    check: str

    def load_log(self) -> Callable[..., Log]:
        """Load the format's `Log`, made with a directory, and the name of one file or a pattern."""
        return cast("Callable[..., Log]", _loaded(self.log))

    def load_live_files(self) -> Callable[..., LiveFiles]:
        """Load the format's `LiveFiles`, made in the same way."""
        return cast("Callable[..., LiveFiles]", _loaded(self.live_files))

    def load_check(self) -> type[LogCheck]:
        """Load the format's `LogCheck`."""
        return cast("type[LogCheck]", _loaded(self.check))


FORMAT_CLASSES = {
    INNODB: FormatClasses(
        "innodb.reader:InnodbLog", "innodb.live_files:InnodbLiveFiles", "innodb.inspection.log_check:InnodbCheck"
    ),
    CLASSIC: FormatClasses(
        "classic.reader:ClassicLog", "classic.live_files:ClassicLiveFiles", "classic.verify:ClassicCheck"
    ),
    STRUCTURED: FormatClasses(
        "structured.reader:StructuredLog",
        "structured.files.live_files:StructuredLiveFiles",
        "structured.files.check:StructuredCheck",
    ),
}
"""All formats, by `Log.format_name`."""


def open_log(path: str, *, format_name: str | None = None, bound: Bound | str = Bound.VISIBLE) -> Log:
    """Open the binlog files of one server, or the log files of one program.

    Args:
        path: The directory that holds them, one file of it, or a URL (`s3://...`). Of `structured` logs also a pattern
            for one program's files: `/var/log/app.blog*`.
        format_name: `innodb`, `classic` or `structured`; default: what the files contain.
        bound: How far reading may go: `visible`, or, of `innodb` logs, `sealed`.

    Raises:
        StartError: `PATH_NOT_FOUND`, `NO_LOG_FILES`; `CONFLICTING_OPTIONS`: there are logs of two formats.
        UnsupportedError: `FORMAT`, `ENCRYPTED`.
        OptionError: `INVALID_VALUE`: there is no format or bound of that name.
    """
    # Not at the top: Arrow's file systems take a moment to load, and who imports this package for its errors or
    # positions needs none.
    from binlog_format.archives.directories import open_directory
    from binlog_format.formats.detect import detect_format

    if format_name is not None and format_name not in FORMAT_CLASSES:
        raise OptionError("INVALID_VALUE", f"format: expected {' or '.join(FORMAT_CLASSES)}, got {format_name!r}")
    if bound not in tuple(Bound):
        raise OptionError("INVALID_VALUE", f"bound: expected {' or '.join(Bound)}, got {bound!r}")
    directory, only = open_directory(path)
    found = detect_format(directory, only) if format_name is None else format_name
    make = FORMAT_CLASSES[found].load_log()
    if FORMAT_TRAITS[found].has_sealed_bound:
        return make(directory, only, bound=Bound(bound))
    if bound != Bound.VISIBLE:
        named = " or ".join(name for name, traits in FORMAT_TRAITS.items() if traits.has_sealed_bound)
        raise OptionError("INVALID_VALUE", f"bound: {bound} is for {named} logs, {path} is {found}")
    return make(directory, only)


def open_live_files(path: str, format_name: str) -> LiveFiles:
    """The files of a log, to look at them again and again.

    Args:
        path: As for `open_log`.
        format_name: `Log.format_name`.

    Raises:
        StartError: `PATH_NOT_FOUND`.
    """
    from binlog_format.archives.directories import open_directory

    directory, only = open_directory(path)
    return FORMAT_CLASSES[format_name].load_live_files()(directory, only)


def _loaded(name: str) -> object:
    return pkgutil.resolve_name(f"binlog_format.{name}")
