"""One pass over the event groups of all files: `LogScan`; and where a killed server's files end."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from binlog_format.classic.file import ClassicFile
from binlog_format.classic.file_scan import NO_LIMIT, ClassicFileScan, ScanStop
from binlog_format.classic.layout import MAGIC_SIZE
from binlog_format.errors import CorruptError, DataLossError, StartError, UnsupportedError
from binlog_format.gtids.gtid import Gtid
from binlog_format.gtids.gtid_history import gtids_of
from binlog_format.position import Place, Position, byte_of, position_of
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from binlog_format.classic.file_scan import Piece
    from binlog_format.classic.scratch import Scratch
    from binlog_format.source_file import Directory, FileEntry


def open_file(directory: Directory, file_no: int, entry: FileEntry) -> ClassicFile:
    """Open a file of a listing."""
    try:
        return ClassicFile(directory.open(entry.name), file_no)
    except FileNotFoundError as error:
        at = Place(directory.path_of(entry.name))
        raise DataLossError("FILE_PURGED", "the file is not there any more", at=at) from error


class LogScan:
    """Reads the groups whose position is in [*start*, *end*).

    Args:
        listing: What was in it before reading starts: the end of a file that is not the newest one is final.
        start: Where an event starts.
        end: None: the end of the log.
        scratch: Used by no other scan at the same time.
        ends_only: See `ClassicFileScan`.

    Attributes:
        end: Where the next read starts, once `pieces` has ended.
    """

    def __init__(
        self,
        directory: Directory,
        listing: dict[int, FileEntry],
        start: Position,
        end: Position | None,
        scratch: Scratch,
        *,
        verify: bool,
        ends_only: bool = False,
    ) -> None:
        self._directory = directory
        self._listing = listing
        self._start = start
        self._limit = end
        self._scratch = scratch
        self._verify = verify
        self._ends_only = ends_only
        self._vendor: Vendor | None = None
        self.end = start

    def pieces(self) -> Generator[Piece]:
        """Read file after file."""
        newest = max(self._listing)
        if self._start.file_no > newest:
            raise StartError(
                "POSITION_NOT_FOUND",
                f"position {self._start}: the last file is {self._listing[newest].name}",
                at=Place(self._directory.path),
                hint="The log may have been begun anew (RESET MASTER), or belongs to another server",
            )
        last = newest if self._limit is None else min(newest, self._limit.file_no)
        for file_no in range(self._start.file_no, last + 1):
            if file_no > self._start.file_no and file_no not in self._listing:
                later = self._head_after(file_no)
                if later is None:
                    return
                if self._is_all_before(later):
                    continue  # it was purged, and a stale listing shows older ones still
            with closing(self._open(file_no)) as file:
                if file.description is None:
                    continue  # the newest: not there yet; an older one: its server was killed when it made the file
                self._check_vendor(file)
                size = file.size()
                scan = self._file_scan(file)
                for piece in scan.pieces():
                    self.end = position_of(file_no, piece.next_offset)
                    yield piece
                self.end = position_of(file_no, scan.stopped_at)
                if file_no < newest and not self._is_final(file, scan, size):
                    return

    def _open(self, file_no: int) -> ClassicFile:
        entry = self._listing.get(file_no)
        if entry is None:
            oldest, newest = min(self._listing), max(self._listing)
            raise DataLossError(
                "FILE_PURGED",
                f"file number {file_no} is not there; the files that are have numbers {oldest} to {newest}",
                at=Place(self._directory.path),
                hint="The server purged it, or it was left out when the files were copied",
            )
        return open_file(self._directory, file_no, entry)

    def _file_scan(self, file: ClassicFile) -> ClassicFileScan:
        start = byte_of(self._start) if file.file_no == self._start.file_no else MAGIC_SIZE
        size = file.size()
        if start > size:
            raise StartError(
                "POSITION_NOT_FOUND",
                f"the file has {size} bytes, reading was to start at byte {start}",
                at=file.place(start),
            )
        limit = NO_LIMIT
        if self._limit is not None and self._limit.file_no == file.file_no:
            limit = byte_of(self._limit)
        start = max(start, file.events_start)
        return ClassicFileScan(file, start, limit, self._scratch, verify=self._verify, ends_only=self._ends_only)

    def _is_all_before(self, later: ClassicFile) -> bool:
        """True if *later* states just those GTIDs that are known up to `end`: the files between had no groups."""
        with closing(self._open(self.end.file_no)) as file:
            # Nothing is known of a file whose start is missing.
            has_gtids = file.description is not None and bool(later.gtid_list or later.previous_gtids)
            return has_gtids and not self._differences(file, byte_of(self.end), later)[0]

    def _is_final(self, file: ClassicFile, scan: ClassicFileScan, size: int) -> bool:
        """See `_is_whole`; False, too, if the file had *size* bytes before it was read, and has more now."""
        try:
            return self._is_whole(file, scan)
        except CorruptError:
            if file.size() > size:
                return False
            self._open(file.file_no).close()  # of one that was purged meanwhile nobody knows what it became
            raise

    def _is_whole(self, file: ClassicFile, scan: ClassicFileScan) -> bool:
        """See that an older file is there to its end: what a killed server leaves, and neither damage nor a part of it.

        A copy, or a network file system, may show a later file, and this one as it was before. A killed server leaves
        the file marked as in use. The next file lists the GTIDs that the server knew after it had looked through this
        one: it may not know of more groups than were found here.

        Returns:
            False: this is not known yet, as the start of the next file is not there.
        """
        assert file.description is not None
        is_torn = scan.stop is ScanStop.INCOMPLETE
        if scan.stop is ScanStop.LIMIT:
            return True
        if not is_torn and file.is_closed_at(scan.stopped_at) and self._is_begun(file.file_no + 1):
            return True
        at = file.place(scan.stopped_at)
        if is_torn and not file.description.in_use:
            what = "event" if scan.has_incomplete_event else "event group"
            raise CorruptError("BAD_EVENT", f"an {what} is cut off by the end of a file that its server closed", at=at)
        later = self._head_after(file.file_no)
        if later is None:
            return is_torn
        missing, lost = self._differences(file, scan.stopped_at, later)
        if missing:
            for number in range(file.file_no + 1, later.file_no):
                self._open(number).close()  # one that was purged may have had them
            for _ in ClassicFileScan(file, file.events_start, NO_LIMIT, self._scratch, verify=True).pieces():
                pass  # an event whose GTID is damaged is named itself
            what = "an event group is cut off here" if is_torn else "the file ends here"
            raise CorruptError(
                "BAD_EVENT",
                f"{what}, but the file after this one records that {missing} was logged",
                at=at,
                hint="If the files are being copied, or are on a network file system, wait until all of this one is "
                "there; else it is damaged",
            )
        if lost and later.file_no == file.file_no + 1:
            raise DataLossError(
                "TRUNCATED_TRANSACTION",
                f"the file has {lost}, and the server does not: the file after this one records what was left",
                at=at,
                hint="The server crashed and lost its last transactions, and a network file system, or a copy, still "
                "shows them. Wait until the file is as the server has it",
            )
        return True

    def _is_begun(self, file_no: int) -> bool:
        """True if a file has a start; a killed server leaves one without, and so does a copy that has just begun."""
        if file_no not in self._listing:
            return True  # which is named when it is its turn
        with closing(self._open(file_no)) as file:
            return file.description is not None

    def _differences(self, file: ClassicFile, size: int, later: ClassicFile) -> tuple[str, str]:
        """GTIDs that *later* states, and *size* bytes of *file* and the files before lack; and the other way round.

        Of MariaDB's the first one; empty: there is none.
        """
        whole = ClassicFileScan(file, file.events_start, size, self._scratch, verify=False)
        if file.vendor is Vendor.MYSQL:
            found = file.gtids_before()
            for piece in whole.pieces():
                found = found.advanced_by(gtids_of(piece.groups, piece.gtid_sources))
            if later.previous_gtids is None:
                return "", ""
            # What is set as purged (`gtid_purged`) meanwhile is not in PREVIOUS_GTIDS, which is about the log.
            return str(later.previous_gtids.without(found)), str(found.without(later.previous_gtids))
        last = {(gtid.domain, gtid.server): gtid for gtid in file.gtid_list or ()}
        for piece in whole.pieces():
            for domain, server, seqno in piece.groups[["domain", "server_id", "seqno"]].tolist():
                last[domain, server] = Gtid(domain, server, seqno)
        stated = {(gtid.domain, gtid.server): gtid for gtid in later.gtid_list or ()}
        return _newer(stated, last), _newer(last, stated)

    def _head_after(self, file_no: int) -> ClassicFile | None:
        """The first file after *file_no* that states what the files before it held; closed already."""
        for later in sorted(number for number in self._listing if number > file_no):
            with closing(self._open(later)) as file:
                if file.gtid_list is not None or file.previous_gtids is not None:
                    return file
        return None

    def _check_vendor(self, file: ClassicFile) -> None:
        """See that one kind of server wrote all files: positions in GTIDs would mean nothing."""
        assert file.description is not None
        vendor = file.description.vendor
        if self._vendor is not None and vendor is not self._vendor:
            raise UnsupportedError(
                "FORMAT",
                f"the file is of {vendor.label}, the files before it are of {self._vendor.label}",
                at=file.place(0),
                hint="Keep the files of the two servers in directories of their own",
            )
        self._vendor = vendor


def _newer(gtids: Mapping[tuple[int, int], Gtid], than: Mapping[tuple[int, int], Gtid]) -> str:
    """The first of *gtids*, by domain and server, that is newer there; empty: none is."""
    newer = (gtid for place, gtid in gtids.items() if place not in than or than[place].seqno < gtid.seqno)
    return str(next(newer, ""))
