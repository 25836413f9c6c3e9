"""The entry points to a log: `open_log(path)` -> `Log`, `open_live_files(path, format_name)` -> `LiveFiles`.

The formats, and where the code of each is: `FORMAT_CLASSES`.

Detection of the format of a path's files: `detect_format`.

Checks everything in a log that can be checked: `verify_log(path)` -> `Finding`s.
"""

from __future__ import annotations

import pkgutil
import re
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from binlog_format.classic.layout import FILE_NAME as CLASSIC_FILE_NAME
from binlog_format.classic.layout import MAGIC as CLASSIC_MAGIC
from binlog_format.classic.layout import MAGIC_ENCRYPTED, MYSQL_ENCRYPTION_HEADER_SIZE
from binlog_format.errors import OptionError, StartError, UnsupportedError
from binlog_format.format_traits import CLASSIC, FORMAT_TRAITS, INNODB, STRUCTURED
from binlog_format.formats.archive_directory import ArchiveDirectory
from binlog_format.formats.directories import open_directory
from binlog_format.innodb.header import file_number
from binlog_format.innodb.layout import MAGIC, MAGIC_SIZE
from binlog_format.log_format import Bound, CheckScope
from binlog_format.position import Place
from binlog_format.source_file import PACKED_BY, first_bytes, is_pattern, look_until_listed_again

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from binlog_format.live_files import LiveFiles
    from binlog_format.log.log import Log
    from binlog_format.log_format import Finding, LogCheck, OnProgress
    from binlog_format.position import Position
    from binlog_format.source_file import Directory, FileEntry


class FormatClasses(NamedTuple):
    """The classes of a format, by name: each brings compiled code, which takes a moment to load."""

    log: str
    live_files: str
    check: str


FORMAT_CLASSES = {
    INNODB: FormatClasses(
        "innodb.reader:InnodbLog", "innodb.live_files:InnodbLiveFiles", "innodb.inspection.log_check:InnodbCheck"
    ),
    CLASSIC: FormatClasses(
        "classic.reader:ClassicLog", "classic.live_files:ClassicLiveFiles", "classic.verify:ClassicCheck"
    ),
    STRUCTURED: FormatClasses(
        "structured.reader:StructuredLog",
        "structured.files.file_list:StructuredLiveFiles",
        "structured.files.check:StructuredCheck",
    ),
}
"""All formats, by `Log.format_name`."""


class LogAndFiles(NamedTuple):
    """A log, and a cheap look at its files."""

    log: Log
    files: LiveFiles


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
    return _open(path, format_name, bound)[0]


def open_log_and_files(path: str, *, format_name: str | None = None, bound: Bound | str = Bound.VISIBLE) -> LogAndFiles:
    """A log as `open_log` gives it, and its files as `open_live_files` gives them, in one directory."""
    log, directory, only = _open(path, format_name, bound)
    return LogAndFiles(log, _live_files(directory, only, log.format_name))


def open_live_files(path: str, format_name: str) -> LiveFiles:
    """The files of a log, to look at them again and again.

    Args:
        path: As for `open_log`.
        format_name: `Log.format_name`.
    """
    directory, only = open_directory(path)
    return _live_files(directory, only, format_name)


def _open(path: str, format_name: str | None, bound: Bound | str) -> tuple[Log, Directory, str | None]:
    if format_name is not None and format_name not in FORMAT_CLASSES:
        raise OptionError("INVALID_VALUE", f"format: expected {' or '.join(FORMAT_CLASSES)}, got {format_name!r}")
    if bound not in tuple(Bound):
        raise OptionError("INVALID_VALUE", f"bound: expected {' or '.join(Bound)}, got {bound!r}")
    directory, only = open_directory(path)
    found = detect_format(directory, only) if format_name is None else format_name
    make: Callable[..., Log] = _loaded(FORMAT_CLASSES[found].log)
    if FORMAT_TRAITS[found].has_sealed_bound:
        return make(directory, only, bound=Bound(bound)), directory, only
    if bound != Bound.VISIBLE:
        named = " or ".join(name for name, traits in FORMAT_TRAITS.items() if traits.has_sealed_bound)
        raise OptionError("INVALID_VALUE", f"bound: {bound} is for {named} logs, {path} is {found}")
    return make(directory, only), directory, only


def _live_files(directory: Directory, only: str | None, format_name: str) -> LiveFiles:
    files: LiveFiles = _loaded(FORMAT_CLASSES[format_name].live_files)(directory, only)
    return files


@cache
def _loaded(name: str) -> Any:
    return pkgutil.resolve_name(f"binlog_format.{name}")


RELAY_LOG_WORD = "relay"
"""Part of the usual names of relay logs, which are classic files even if the binlog has another format."""

_INNODB_MAGIC = MAGIC.to_bytes(MAGIC_SIZE, "little")
_CLASSIC_MAGICS = (CLASSIC_MAGIC, MAGIC_ENCRYPTED)
_PACKED_SUFFIX = re.compile(r"\.(?:gz|xz|zst|bz2)$")
_NUMBERED = re.compile(rf".*\.(?:\d{{6,}}|ibb)(?:{_PACKED_SUFFIX.pattern})?")
"""Names of binlog files, and of what a compressor makes of them: `mysql-bin.000001.gz`."""

_ONE_FILE_HINT = (
    "Give the directory of the binlog files, or one file that is named as the server named it; option "
    "format=structured reads a structured log of which nothing is there yet"
)


def detect_format(directory: Directory, only: str | None) -> str:
    """The name of the format: `innodb`, `classic` or `structured`.

    Files are told by their names, files of the classic format by their first bytes too, structured ones by their first
    entry alone, and only where there are none of the others; whatever else lies in the directory does not count.

    Args:
        only: The one file, or the pattern, that was given; None: the whole directory.
    """
    if only is not None:
        return STRUCTURED if is_pattern(only) else _format_of_file(directory, only)
    found = look_until_listed_again(
        lambda: sorted(directory.entries(), key=lambda entry: entry.name),
        lambda entries: _format_of(directory, entries),
    )
    if found is not None:
        return found
    _refuse_compressed(directory)
    raise StartError(
        "NO_LOG_FILES",
        f"{directory.path}: there are no binlog files",
        hint="They are named binlog-NNNNNN.ibb or <name>.NNNNNN; the server's variables binlog_directory and "
        "log_bin_basename show where they are. Structured logs are told by their first entry; option "
        "format=structured reads one of which nothing is there yet",
    )


def _format_of(directory: Directory, entries: Sequence[FileEntry]) -> str | None:
    innodb_name: str | None = None
    classic_heads: dict[str, tuple[str, bytes]] = {}
    for entry in entries:
        if file_number(entry.name) is not None:
            innodb_name = entry.name
        match = CLASSIC_FILE_NAME.fullmatch(entry.name)
        # Files of each name are looked into up to the first one that shows it: others were made this moment, purged
        # since the listing, or are damaged.
        if match is not None and entry.size >= len(CLASSIC_MAGIC) and match["base"] not in classic_heads:
            head = _head(directory, entry.name)
            if head in _CLASSIC_MAGICS:
                classic_heads[match["base"]] = entry.name, head
    classic = {base: name for base, (name, _) in classic_heads.items()}
    binlogs = sorted(name for base, name in classic.items() if RELAY_LOG_WORD not in base)
    if innodb_name is not None:
        if binlogs:
            raise StartError(
                "CONFLICTING_OPTIONS",
                f"{directory.path}: there are files of two formats: {innodb_name} and {binlogs[0]}",
                hint="State which format to read, name one file, or move the files of the other log away",
            )
        return INNODB
    if not classic:
        return STRUCTURED if any(_is_structured(directory, entry.name) for entry in entries) else None
    encrypted = [name for base, name in classic.items() if classic_heads[base][1] == MAGIC_ENCRYPTED]
    if len(encrypted) == len(classic):
        raise _encrypted(directory, encrypted[0])
    return CLASSIC


def _format_of_file(directory: Directory, name: str) -> str:
    head = _head(directory, name)
    if head == CLASSIC_MAGIC:
        return CLASSIC
    if head == MAGIC_ENCRYPTED:
        raise _encrypted(directory, name)
    _refuse_packed(directory, name, head)
    if head == _INNODB_MAGIC or file_number(name) is not None:
        return INNODB  # files are made before they are used: an empty or damaged one is the reader's to judge
    if not head and CLASSIC_FILE_NAME.fullmatch(name) is not None:
        return CLASSIC
    if _is_structured(directory, name):
        return STRUCTURED
    raise UnsupportedError(
        "FORMAT",
        f"the file begins with {head.hex(' ') or 'nothing'}, as no binlog file does",
        at=Place(directory.path_of(name), byte=0),
        hint=_ONE_FILE_HINT,
    )


def _is_structured(directory: Directory, name: str) -> bool:
    from binlog_format.structured.files.head import (  # compiled code takes a moment to load
        HEAD_SIZE,
        FormatGuess,
        guess_format,
    )

    return guess_format(first_bytes(directory, name, HEAD_SIZE)) is FormatGuess.LOG


def _refuse_compressed(directory: Directory) -> None:
    names = (entry.name for entry in sorted(directory.entries(), key=lambda entry: entry.name))
    for name in names:
        if _NUMBERED.fullmatch(name) is not None:
            _refuse_packed(directory, name, _head(directory, name))


def _refuse_packed(directory: Directory, name: str, head: bytes) -> None:
    for magic, (packed_by, unpack) in PACKED_BY.items():
        if head.startswith(magic):
            raise UnsupportedError(
                "FORMAT",
                f"the file begins with {magic.hex(' ')}: {packed_by}",
                at=Place(directory.path_of(name), byte=0),
                hint="Unpack it into another folder, under the name that the server gave it: "
                f"{unpack} < {directory.path_of(name)} > FOLDER/{_PACKED_SUFFIX.sub('', name)}",
            )


def _head(directory: Directory, name: str, size: int = len(CLASSIC_MAGIC)) -> bytes:
    return first_bytes(directory, name, size).tobytes()


def _encrypted(directory: Directory, name: str) -> UnsupportedError:
    from binlog_format.classic.file import encrypted_by_mysql

    head = _head(directory, name, MYSQL_ENCRYPTION_HEADER_SIZE)
    return encrypted_by_mysql(head, Place(directory.path_of(name), byte=0))


def verify_log(
    path: str, *, start: Position | None = None, end: Position | None = None, on_progress: OnProgress | None = None
) -> Iterator[Finding]:
    """Check every checksum, header, chunk, reference, event boundary and GTID state of a log, past all damage.

    The log is taken as it lies there: a damaged page is a finding at the log end too. What is merely not there yet
    is a remark.

    Args:
        path: The directory of a server's binlog files or of a program's logs, one of them, or a URL.
        start: Check from here on; default: the start.
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
    check: type[LogCheck] = _loaded(FORMAT_CLASSES[detect_format(directory, only)].check)
    findings = check(CheckScope(directory, only, start, end, on_progress)).findings()
    return chain(directory.findings(), findings) if isinstance(directory, ArchiveDirectory) else findings
