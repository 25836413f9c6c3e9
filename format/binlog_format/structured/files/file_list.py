"""The files of one structured log in a directory, numbered in the order of writing: `list_series`.

Heads of files that nobody writes any more: `known_heads`. So a look at many files costs a listing, and reads few.

A log is opened anew for each look and each batch, and the start of each file tells which one it is. In an object store
that would be a request for each file each time.

Files of a structured log as they are now: `StructuredLiveFiles`. A file is known by its start, not by its name.
"""

from __future__ import annotations

import fnmatch
import functools
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from binlog_format.errors import CorruptError, DataLossError, StartError, StorageError, UnsupportedError
from binlog_format.kernels import empty_bytes
from binlog_format.live_files import EndMark, LiveFiles
from binlog_format.position import VIRTUAL_PAGE_SIZE, Place, position_of
from binlog_format.source_file import PACKED_BY, is_pattern
from binlog_format.structured.files.head import FileHead, FormatGuess, read_head
from binlog_format.structured.layout import NS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_format.position import Position
    from binlog_format.source_file import Directory, FileEntry, SourceFile


SETTLED_NS = 2_000_000_000
"""A file that was changed within this time of the newest one may change again, and its time stays the same: those of
object stores, and of some file systems, are whole seconds."""

_LOGS_MAX = 64

_Key = tuple[str, int, int]


class KnownHeads:
    """Heads of files as a listing shows them: by name, size and the time of the last change."""

    def __init__(self) -> None:
        self._heads: dict[_Key, FileHead] = {}

    def of(self, entry: FileEntry) -> FileHead | None:
        """The head of a file; None: it has to be read."""
        return self._heads.get(_key(entry))

    def keep(self, found: Iterable[tuple[FileEntry, FileHead]]) -> None:
        """Keep the heads of a listing, and no others."""
        heads = dict(found)
        newest = max((entry.modified_ns for entry in heads), default=0)
        self._heads = {
            _key(entry): head for entry, head in heads.items() if 0 < entry.modified_ns <= newest - SETTLED_NS
        }

    def forget(self) -> None:
        """A file is not the one that it was taken for."""
        self._heads = {}


def _key(entry: FileEntry) -> _Key:
    return entry.name, entry.size, entry.modified_ns


@functools.lru_cache(_LOGS_MAX)
def known_heads(path: str, only: str | None) -> KnownHeads:
    """Known heads of the files of one log, shared by all readers in this process.

    Args:
        only: The name or the pattern of the files; None: all.
    """
    del path, only
    return KnownHeads()


_ONE_PROGRAM = "Give a pattern for one program's files, for example /var/log/app.blog*"
_OPENING_TRIES = 20
"""Files can be renamed between a listing and the opening, but not again and again."""
_LISTING_TRIES = 100
"""The same while they are listed."""


@dataclass(frozen=True, slots=True)
class SeriesFile:
    """A file of a log, as a listing found it."""

    file_no: int
    name: str
    size: int
    head: FileHead


@dataclass(frozen=True, slots=True)
class Series:
    """The files of one log.

    Attributes:
        only: The name or the pattern of their names; None: all that are structured logs.
        begun: Those with an event, by number, ascending.
        unwritten: Those without, as they were written last; their numbers come after all others, and are not theirs.
    """

    directory: Directory
    only: str | None
    begun: dict[int, SeriesFile] = field(default_factory=dict)
    unwritten: tuple[SeriesFile, ...] = ()

    def open(self, file_no: int) -> SourceFile:
        """Open a file, whatever its name is now. Raises `DataLossError`: `FILE_PURGED`: it is not there any more."""
        series = self
        for _ in range(_OPENING_TRIES):
            file = series.begun.get(file_no)
            if file is None:
                raise self.purged(file_no)
            try:
                source = self.directory.open(file.name)
            except FileNotFoundError:
                series = list_series(self.directory, self.only)
                continue
            if read_head(source).identity == file.head.identity:
                return source
            source.close()
            known_heads(self.directory.path, self.only).forget()
            series = list_series(self.directory, self.only)
        raise _renamed_too_often(self.directory, f"{_OPENING_TRIES} times while one was opened")

    @property
    def path(self) -> str:
        """Path of the log, for messages."""
        return self.directory.path if self.only is None else self.directory.path_of(self.only)

    def purged(self, file_no: int) -> DataLossError:
        """The error for a file that is not there any more."""
        begun = datetime.fromtimestamp(file_no // NS_PER_SECOND, UTC)
        return DataLossError(
            "FILE_PURGED",
            f"file {file_no}, begun at {begun:%Y-%m-%d %H:%M:%S} UTC, was rotated away and removed before it was read "
            "to its end",
            at=Place(self.path),
            hint="Keep rotated files until they have been read, and name all of them: a directory, or a pattern",
        )


def list_series(directory: Directory, only: str | None) -> Series:
    """Look at the directory, and at the start of each file.

    Args:
        only: A file's name, or a pattern of names; None: all files that begin with metadata of a structured log.
    """
    for _ in range(_LISTING_TRIES):
        entries = list(_candidates(directory, only))
        found, error = None, None
        try:
            found = _series_of(directory, only, entries)
        except FileNotFoundError:
            continue  # renamed or removed since the listing
        except (StartError, UnsupportedError, CorruptError) as raised:
            error = raised
        # A file that was renamed meanwhile may have been seen under both of its names, or under none.
        if _are_same(entries, list(_candidates(directory, only))):
            if found is None:
                assert error is not None
                raise error
            return found
    raise _renamed_too_often(directory, f"{_LISTING_TRIES} times while they were listed")


def _renamed_too_often(directory: Directory, how: str) -> StorageError:
    return StorageError(
        "FAILED",
        f"its files are renamed again and again, {how}",
        at=Place(directory.path),
        hint="Let the program rename its files less often: let them become larger",
    )


def _are_same(before: list[FileEntry], after: list[FileEntry]) -> bool:
    """True if no file was renamed between two listings; the file that is being written may have grown."""
    were, are = ({entry.name: (entry.size, entry.modified_ns) for entry in listing} for listing in (before, after))
    return were.keys() == are.keys() and sum(were[name] != are[name] for name in were) <= 1


def _series_of(directory: Directory, only: str | None, entries: list[FileEntry]) -> Series:
    begun: dict[int, SeriesFile] = {}
    unwritten: list[tuple[FileEntry, FileHead]] = []
    blank: list[tuple[FileEntry, FileHead]] = []
    for entry, head in _heads(directory, entries, only):
        if not _is_of_log(directory, entry, head, only):
            continue
        if head.number is None:
            # Of a directory's empty files nobody knows whose they are.
            is_named = only is not None or head.looks is not FormatGuess.UNWRITTEN
            (unwritten if is_named else blank).append((entry, head))
            continue
        file = SeriesFile(head.number, entry.name, entry.size, head)
        same = begun.get(head.number)
        begun[head.number] = file if same is None else _whole_one(directory, same, file)
    if not begun and not unwritten:
        unwritten = blank
    if not begun and not unwritten:
        raise StartError(
            "NO_LOG_FILES",
            f"{directory.path if only is None else directory.path_of(only)}: there are no files of a structured log",
            hint=_ONE_PROGRAM,
        )
    unwritten.sort(key=lambda pair: (pair[0].modified_ns, pair[0].name))
    first = max(begun, default=-1) + 1
    return Series(
        directory,
        only,
        dict(sorted(begun.items())),
        tuple(SeriesFile(first + n, entry.name, entry.size, head) for n, (entry, head) in enumerate(unwritten)),
    )


def _candidates(directory: Directory, only: str | None) -> Iterable[FileEntry]:
    if only is None:
        return directory.entries()
    if not is_pattern(only):
        entry = directory.entry(only)
        return [] if entry is None else [entry]
    return [entry for entry in directory.entries() if fnmatch.fnmatchcase(entry.name, only)]


def _heads(directory: Directory, entries: list[FileEntry], only: str | None) -> list[tuple[FileEntry, FileHead]]:
    """The heads of all files that are still there under their names."""
    known = known_heads(directory.path, only)
    found: list[tuple[FileEntry, FileHead]] = []
    for entry in entries:
        head = known.of(entry)
        if head is None:
            try:
                source = directory.open(entry.name)
            except FileNotFoundError:
                continue  # renamed or removed since the listing
            with closing(source):
                head = read_head(source)
        found.append((entry, head))
    known.keep(found)
    return found


def _is_of_log(directory: Directory, entry: FileEntry, head: FileHead, only: str | None) -> bool:
    if head.looks is not FormatGuess.OTHER and (only is not None or head.looks is not FormatGuess.CONTINUATION):
        return True
    if only is None or _is_packed(directory, entry.name):
        return False
    at = Place(directory.path_of(entry.name), byte=0)
    raise UnsupportedError("FORMAT", "the file does not begin as a structured log", at=at, hint=_ONE_PROGRAM)


def _is_packed(directory: Directory, name: str) -> bool:
    buffer = empty_bytes(max(len(magic) for magic in PACKED_BY))
    try:
        source = directory.open(name)
    except FileNotFoundError:
        return True  # renamed or removed meanwhile: nothing of the log
    with closing(source):
        start = buffer[: source.read_into(0, buffer)].tobytes()
    return any(start.startswith(magic) for magic in PACKED_BY)


def _whole_one(directory: Directory, one: SeriesFile, other: SeriesFile) -> SeriesFile:
    """Choose the file of two, if the other is a copy of its start (or of all of it)."""
    short, long = sorted((one, other), key=lambda file: file.size)
    if _is_start_of(directory, short, long):
        return long
    raise StartError(
        "CONFLICTING_OPTIONS",
        f"{directory.path}: {one.name} and {other.name} begin with events "
        f"{'of the same time' if one.file_no else 'without a time (clock 0)'}: which comes first cannot be told",
        hint=f"If they are of two programs: {_ONE_PROGRAM[0].lower()}{_ONE_PROGRAM[1:]}. Give the path of one file to "
        "read it alone; `bread --all FILE FILE` prints several in the order given. A program whose events have no time "
        "begins each file with one that has",
    )


def _is_start_of(directory: Directory, short: SeriesFile, long: SeriesFile) -> bool:
    window = 1 << 20
    ours, theirs = empty_bytes(window), empty_bytes(window)
    with closing(directory.open(short.name)) as first, closing(directory.open(long.name)) as second:
        for at in range(0, short.size, window):
            size = min(window, short.size - at)
            if first.read_into(at, ours[:size]) < size or second.read_into(at, theirs[:size]) < size:
                return False
            if ours[:size].tobytes() != theirs[:size].tobytes():
                return False
    return True


class StructuredLiveFiles(LiveFiles):
    """See `LiveFiles`."""

    def __init__(self, directory: Directory, only: str | None) -> None:
        super().__init__(directory, only)
        self._series: Series | None = None

    def names(self) -> dict[int, str]:
        """See `LiveFiles`; files without an event have no number yet, and count only where there are no others."""
        series = self._list()
        files = series.begun.values() or series.unwritten
        return {file.file_no: file.name for file in files}

    def identity(self, file_no: int) -> str:
        """See `LiveFiles`: the time of the first event, and a checksum of all up to it."""
        file = self._file(file_no)
        return "" if file is None else file.head.identity

    def inode(self, file_no: int) -> int:
        """See `LiveFiles`: a program that opens its log anew cuts it, and goes on in the same file."""
        file = self._file(file_no)
        entry = None if file is None else self._directory.entry(file.name)
        return 0 if entry is None else entry.inode

    def is_emptied(self, inode: int) -> bool:
        """See `LiveFiles`."""
        begun = {file.name for file in self._list().begun.values()}
        entries = _candidates(self._directory, self._only)
        return any(entry.inode == inode and entry.name not in begun for entry in entries)

    def consumed(self, position: Position) -> bytes | None:
        """See `LiveFiles`."""
        page = position.page if position.chunk > 0 else position.page - 1
        if page < 0 or self._file(position.file_no) is None:
            return None
        data = empty_bytes(position.chunk or VIRTUAL_PAGE_SIZE)
        try:
            source = self._known().open(position.file_no)
        except DataLossError:  # removed since the listing
            return None
        with closing(source):
            whole = source.read_into(page * VIRTUAL_PAGE_SIZE, data) == len(data)
        return data.tobytes() if whole else None

    def end_of(self, file_no: int) -> Position:
        """See `LiveFiles`."""
        return position_of(file_no, self.size_of(file_no))

    def look(self) -> EndMark:
        """See `LiveFiles`; older files count too: they must not change, and whoever reads them finds out."""
        begun = self._list().begun
        newest = max(begun, default=-1)
        all_of_them = len(begun), sum(file.size for file in begun.values())
        if newest < 0:
            return EndMark(newest)
        return EndMark(newest, begun[newest].head.identity, begun[newest].size, checksums=all_of_them)

    def size_of(self, file_no: int) -> int:
        """See `LiveFiles`."""
        file = self._file(file_no)
        return 0 if file is None else file.size

    def close(self) -> None:
        """See `LiveFiles`: none is kept open."""

    def _known(self) -> Series:
        return self._series or self._list()

    def _list(self) -> Series:
        self._series = list_series(self._directory, self._only)
        return self._series

    def _file(self, file_no: int) -> SeriesFile | None:
        """The file in the last listing; listed again before the result is None."""
        return self._known().begun.get(file_no) or self._list().begun.get(file_no)
