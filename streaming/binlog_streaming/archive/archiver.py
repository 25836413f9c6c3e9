"""Stores a server's log in an archive as it grows: `Archiver`."""

from __future__ import annotations

import os
import time
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from binlog_connector.following.watched import file_start, written_order
from binlog_format import open_log
from binlog_format.errors import DataLossError, OptionError
from binlog_format.formats.directories import open_directory
from binlog_format.formats.manifest import ArchivedFile, ManifestPart, crc_of, probes
from binlog_format.formats.opening import detect_format, open_live_files
from binlog_format.gtids.gtid import GtidPosition
from binlog_format.gtids.gtid_set import parse_gtids
from binlog_format.position import Place, Position
from binlog_streaming.archive.archive_store import CHANGED_HINT, PART_SIZE_MAX, ArchiveStore, KnownBytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from binlog_format.formats.manifest import Manifest
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_format.live_files import FinalBlock, FinalFile
    from binlog_format.log_format import Span


PART_SIZE_MIN = 4 << 20
"""A last part that is smaller is stored again with what follows it: so a file has few parts."""

_PURGED_HINT = (
    "Let the archiver run all the time, and the server keep files for long enough (binlog_expire_logs_seconds). This "
    "archive ends here: name another place with --to for what follows"
)


@dataclass(frozen=True, slots=True)
class Stored:
    """A part that readers of the archive see from now on.

    Attributes:
        size: Bytes that are new.
        transactions: Groups that are new.
        is_linked: Whether the file is the server's own, by a hard link.
        end: Where the archived bytes end in the log.
    """

    file: ArchivedFile
    size: int
    transactions: int
    is_linked: bool
    end: Position
    gtids: GtidPoint


class Archiver:
    """Archives one log; nobody else writes to its archive while this does.

    Args:
        path: Directory of the binlog files, or a URL.
        uri: Where the archive is: a folder, or a URL of an object store.
        clock: Seconds since 1970 UTC.
    """

    def __init__(
        self,
        path: str,
        uri: str,
        *,
        listener: Callable[[Stored], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        directory, only = open_directory(path)
        if only is not None:
            raise OptionError("INVALID_VALUE", f"{path}: expected a directory: one file cannot be archived alone")
        if "://" not in uri and os.path.realpath(uri) == os.path.realpath(directory.path):
            raise OptionError("INVALID_VALUE", f"--to: {uri} is the server's own directory")
        format_name = detect_format(directory, None)
        self.path = path
        self._is_local = "://" not in directory.path
        self._listener = listener
        self._clock = clock
        self._log = open_log(path, format_name=format_name)
        self._files = open_live_files(path, format_name)
        self._check_format()
        self._store = ArchiveStore(uri)
        self._store.claim(format_name, self._files.unstable_byte)

    @property
    def files(self) -> tuple[ArchivedFile, ...]:
        """Archived files."""
        return self._store.manifest.files

    def close(self) -> None:
        """Close all files."""
        self._files.close()
        self._log.close()

    def archive(self, *, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Store what the server has written since the last call, as far as it is final.

        Args:
            is_stopped: Asked after each part: whether to leave the rest for the next call.

        Raises:
            DataLossError: `FILE_PURGED`: what comes next is not there any more; `LOG_RESET`, `FILE_REUSED`,
                `PAGE_REWRITTEN`, `TRUNCATED_TRANSACTION`: the server has other bytes than were archived.
        """
        for file_no, name in self._pending(self._files.names()).items():
            if not self._archive_file(file_no, name, is_stopped) or is_stopped():
                return

    def remove_old(self, seconds: float, *, keep_from: int | None = None) -> list[ArchivedFile]:
        """Remove files whose last transaction is older than *seconds* (`without_old_files`); what was removed."""
        before = self._store.manifest
        kept = without_old_files(before, int(self._clock() - seconds), self._store.uri, keep_from=keep_from)
        if kept != before:
            self._store.save(kept)
        return [file for file in before.files if file not in kept.files]

    def waiting_since(self) -> float | None:
        """Last write of the oldest file that the server may purge, and that is not archived completely.

        Seconds since 1970 UTC; None: there is none, or it cannot be told of the files of a URL.
        """
        if not self._is_local:
            return None
        names = self._files.names()
        complete = {file.file_no for file in self.files if file.is_complete}
        first = self.files[-1].file_no if self.files else -1
        waiting = [number for number in names if number >= first and number not in complete]
        # The newest one is being written: a server never purges it.
        times = (self._files.modified_at(number) for number in waiting[:-1])
        return next((at for at in times if at is not None), None)

    def _pending(self, names: dict[int, str]) -> dict[int, str]:
        """The files to look at, by number: from the first one on of which something may be missing."""
        if not self.files:
            return names
        last = self.files[-1]
        if max(names) < last.file_no:
            reason = f"{self.path}: the log ends before {last.name}, which has been archived"
            raise DataLossError("LOG_RESET", reason, hint=CHANGED_HINT)
        first = next((file.file_no for file in self.files if not file.is_sealed), last.file_no + 1)
        while first <= last.file_no and first not in names and self._is_complete(first):
            first += 1  # purged after all of it had been archived, in ranges
        pending = {number: name for number, name in names.items() if number >= first}
        if pending and min(pending) != first:
            raise self._purged(first, names[min(pending)])
        if last.file_no in names and last.file_no < first:
            self._check_same(last)
        return pending

    def _check_format(self) -> None:
        """Refuse, before anything is written, a log whose files cannot be archived."""
        for file_no in list(self._files.names())[:1]:
            final = self._files.final_file(file_no)
            if final is not None:
                final.source.close()

    def _is_complete(self, file_no: int) -> bool:
        return any(file.file_no == file_no and file.is_complete for file in self.files)

    def _check_same(self, last: ArchivedFile) -> None:
        with closing(self._require(last.file_no, last.name).source) as source:
            self._check_probes(source.path, probes(source, last.size, self._unstable_byte), last)

    def _archive_file(self, file_no: int, name: str, is_stopped: Callable[[], bool]) -> bool:
        """Store what is new in one file; whether all of it is stored."""
        final = self._files.final_file(file_no)
        if final is None:
            return False
        with closing(final.source):
            known = self._known(final, name)
            if not final.is_sealed:
                return self._store_ranges(final, known, is_stopped)
            span = self._span_over_end(known)
            if span is None or span.end.file_no > file_no:
                self._store_whole(final, known, span)
                return True
            return False  # the start of the next file, which tells whether all of this one is there, is not

    def _known(self, final: FinalFile, name: str) -> ArchivedFile:
        """Manifest entry of a file; of a new one, an entry without parts."""
        known = next((file for file in self.files if file.file_no == final.file_no), None)
        if known is None:
            before = self._log.gtid_position_at(file_start(final.file_no))
            self._check_follows(final, before)
            if self.files:
                before = _gtids_after(self.files[-1])
            return ArchivedFile(final.file_no, name, final.identity, gtids_before=str(before))
        if known.identity != final.identity:
            reason = f"this is not the file that was archived: identity stored {known.identity}, now {final.identity}"
            raise DataLossError("FILE_REUSED", reason, at=Place(final.source.path), hint=CHANGED_HINT)
        self._check_probes(final.source.path, probes(final.source, known.size, self._unstable_byte), known)
        return known

    def _check_follows(self, final: FinalFile, before: GtidPoint) -> None:
        """See that a new file does not lack what the archive ends with; of files that both have, their bytes tell."""
        if not self.files or not before or self.files[-1].file_no in self._files.names():
            return
        last = self.files[-1]
        archived = _gtids_after(last)
        if isinstance(before, GtidPosition) and isinstance(archived, GtidPosition):
            common = archived.last.keys() & before.last.keys()  # domains can be deleted
            lacking = [archived.last[domain] for domain in common if not before.covers(archived.last[domain])]
            is_next = not lacking and written_order(final.identity) >= written_order(last.identity)
        else:
            is_next = not archived.without(before)
        if not is_next:
            reason = f"the log before it holds the GTIDs {before}, but {last.name} was archived up to {archived}"
            raise DataLossError("LOG_RESET", reason, at=Place(final.source.path), hint=CHANGED_HINT)

    def _check_probes(self, path: str, found: tuple[int, int] | None, known: ArchivedFile) -> None:
        if found is None:
            reason = f"the file has fewer bytes than the {known.size} that were archived"
            raise DataLossError("TRUNCATED_TRANSACTION", reason, at=Place(path), hint=CHANGED_HINT)
        if found != (known.head_crc32c, known.tail_crc32c) and known.size:
            reason = f"the first {known.size} bytes are others than were archived"
            raise DataLossError("PAGE_REWRITTEN", reason, at=Place(path), hint=CHANGED_HINT)

    def _span_over_end(self, known: ArchivedFile) -> Span | None:
        """The rest of a finished file, after the part that is archived; None: its own bytes tell that it is whole.

        A later file may be there before all of an earlier one: its GTIDs tell (`BAD_EVENT`).
        """
        if self._log.traits.is_indexed or not known.identity:
            return None
        return self._log.span(self._searched(known), end=file_start(known.file_no + 1))

    def _store_whole(self, final: FinalFile, known: ArchivedFile, span: Span | None) -> None:
        """Put one part with the whole file in the place of what has been archived of it."""
        blocks = KnownBytes(final.source.path, known.parts, 0, self._unstable_byte).checked(final.blocks(0))
        linked = self._store.link(final.source.path, known.name) if self._is_local else None
        if linked is None:
            part = self._store.put(known.name, 0, blocks)
        else:
            part = self._verified(linked, blocks)
            # The link may be to another file, which has taken the name since this one was opened.
            self._store.check(part)
        self._save(final, known, (part,), is_last=True, is_linked=linked is not None, span=span)

    def _verified(self, name: str, blocks: Iterable[FinalBlock]) -> ManifestPart:
        size = crc = 0
        for data, _ in blocks:
            crc = crc_of(data, size, self._unstable_byte, crc)
            size += len(data)
        return ManifestPart(name, size, crc)

    def _store_ranges(self, final: FinalFile, known: ArchivedFile, is_stopped: Callable[[], bool]) -> bool:
        """Store what has been added to a file that the server may still change; whether that is all there will be."""
        while (first := next(final.blocks(known.size), None)) is not None:
            del first
            again = known.parts[-1:] if known.parts and known.parts[-1].size < PART_SIZE_MIN else ()
            start = known.size - sum(part.size for part in again)
            blocks = KnownBytes(final.source.path, again, start, self._unstable_byte).checked(final.blocks(start))
            part = self._store.put(known.name, start, _one(blocks), size_max=PART_SIZE_MAX)
            known = self._save(final, known, (*known.parts[: len(known.parts) - len(again)], part), is_last=False)
            if is_stopped():
                return False
        if final.is_complete and not known.is_complete:
            self._save(final, known, known.parts, is_last=True)
        return final.is_complete

    def _save(
        self,
        final: FinalFile,
        known: ArchivedFile,
        parts: tuple[ManifestPart, ...],
        *,
        is_last: bool,
        is_linked: bool = False,
        span: Span | None = None,
    ) -> ArchivedFile:
        size = sum(part.size for part in parts)
        found = probes(final.source, size, self._unstable_byte)
        if found is None:
            reason = f"the file became shorter than {size} bytes while it was archived"
            raise DataLossError("TRUNCATED_TRANSACTION", reason, at=Place(final.source.path), hint=CHANGED_HINT)
        file = replace(
            known,
            parts=parts,
            is_complete=is_last,
            is_sealed=is_last and final.is_sealed,
            head_crc32c=found[0],
            tail_crc32c=found[1],
            archived_at=int(self._clock()),
        )
        if span is None and file.size > known.size and file.identity:
            span = self._log.span(self._searched(file), end=final.position_at(size))
        file, transactions = self._with_transactions(file, span)
        self._store.save(self._store.manifest.with_file(file))
        end = final.position_at(size)
        self._listener(Stored(file, size - known.size, transactions, is_linked, end, _gtids_after(file)))
        return file

    def _with_transactions(self, file: ArchivedFile, span: Span | None) -> tuple[ArchivedFile, int]:
        """The file's transactions, with those in *span*, which follows what was searched; None: there is nothing."""
        if span is None:
            return file, 0
        start = self._searched(file)
        file = replace(file, searched=str(span.end))
        if not span.groups:
            return file, 0
        first_time = file.first_time
        if first_time is None:
            first_time = self._log.span(start, size_max=1).last_timestamp
        return replace(
            file,
            gtids=str(parse_gtids(file.gtids).advanced_by(span.gtids)),
            transactions=file.transactions + span.groups,
            first_time=first_time,
            last_time=file.last_time if span.last_timestamp is None else span.last_timestamp,
        ), span.groups

    def _searched(self, file: ArchivedFile) -> Position:
        """End of the search for transactions: in the file before, if one continues in this file."""
        found = file.searched or (self.files[-1].searched if self.files else "")
        start = file_start(file.file_no)
        before = Position.parse(found) if found else start
        return before if before.file_no in self._files.names() else start

    @property
    def _unstable_byte(self) -> int | None:
        return self._store.manifest.unstable_byte

    def _require(self, file_no: int, name: str) -> FinalFile:
        final = self._files.final_file(file_no)
        if final is None:
            raise self._purged(file_no, name)
        return final

    def _purged(self, file_no: int, following: str) -> DataLossError:
        return DataLossError(
            "FILE_PURGED",
            f"{self.path}: the server purged file {file_no} before it was archived whole; {following} comes next",
            hint=_PURGED_HINT,
        )


def _one(blocks: Iterator[FinalBlock]) -> Iterator[FinalBlock]:
    """*blocks*, not closed when whoever takes them stops."""
    return chain(blocks)


def _gtids_after(file: ArchivedFile) -> GtidPoint:
    return parse_gtids(file.gtids_before).advanced_by(parse_gtids(file.gtids))


def without_old_files(manifest: Manifest, before: int, uri: str, *, keep_from: int | None) -> Manifest:
    """*manifest* without its oldest files: whole ones, of which every transaction is older than a time.

    The newest file stays, and so do files that hold data of transactions that end in one that stays.

    Args:
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
