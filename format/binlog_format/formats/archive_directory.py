"""An archive as a directory of binlog files: `ArchiveDirectory` joins the parts of each file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.errors import CorruptError, DataLossError, StartError, storage_error
from binlog_format.formats.manifest import MANIFEST_NAME, Manifest, crc_of
from binlog_format.kernels import empty_bytes
from binlog_format.log_format import Finding
from binlog_format.position import Place
from binlog_format.source_file import Directory, FileEntry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.formats.manifest import ArchivedFile, ManifestPart
    from binlog_format.kernels import Bytes
    from binlog_format.source_file import SourceFile

_CHECKED_SIZE = 8 << 20
"""Bytes read at a time when an archive is checked."""

_GONE_HINT = "Restore the archive from a backup; what the server still has can go to a new archive"


class ArchiveDirectory(Directory):
    """The files of an archive; sizes are what is archived of each.

    Listings look at the manifest anew, and so does who opens a file that still grows.

    Args:
        storage: The folder or the place in an object store that holds the archive.
    """

    def __init__(self, storage: Directory) -> None:
        self.path = storage.path
        self._storage = storage
        self._content = b""
        self.refresh()

    def refresh(self) -> None:
        """Look at the manifest as it is now. Raises `StartError`: `PATH_NOT_FOUND`: it is not there any more."""
        damaged = None
        while (content := self._read_manifest()) != self._content:
            try:
                self.manifest = Manifest.from_bytes(content, self._storage.path_of(MANIFEST_NAME))
            except CorruptError:
                # Of an object that an archiver replaces meanwhile, a store may give bytes of both, or bytes of neither
                # after the shorter one: its size comes first. What is damaged is the same the next time.
                if content == damaged:
                    raise
                damaged = content
                continue
            self._files = self.manifest.by_name()
            self._content = content

    def _read_manifest(self) -> bytes:
        try:
            return _read_whole(self._storage.open(MANIFEST_NAME))
        except FileNotFoundError as error:
            raise _no_archive(self.path) from error
        except OSError as error:
            raise storage_error(self._storage.path_of(MANIFEST_NAME), "read", error) from error

    def entries(self) -> list[FileEntry]:
        """See `Directory`."""
        self.refresh()
        return [FileEntry(file.name, file.size) for file in self.manifest.files]

    def names(self) -> list[str]:
        """See `Directory`."""
        return [entry.name for entry in self.entries()]

    def file(self, name: str) -> ArchivedFile | None:
        """Return the manifest's entry for a file; None: it is not archived. Incomplete files are looked up anew."""
        known = self._files.get(name)
        if known is None or not known.is_complete:
            self.refresh()
        return self._files.get(name)

    def entry(self, name: str) -> FileEntry | None:
        """See `Directory`."""
        file = self.file(name)
        return None if file is None else FileEntry(name, file.size)

    def open(self, name: str) -> SourceFile:
        """See `Directory`."""
        file = self.file(name)
        if file is None:
            raise FileNotFoundError(self.path_of(name))
        return ArchiveFile(self, file)

    def open_part(self, name: str) -> SourceFile:
        """Open one object of the archive. Raises `OSError`: it is not there, or not to be had."""
        return self._storage.open(name)

    def findings(self) -> Iterator[Finding]:
        """Compare every part with its size and its checksum in the manifest."""
        for file in self.manifest.files:
            offset = 0
            for part in file.parts:
                reason = self._part_fault(part, offset)
                if reason is not None:
                    at = Place(self._storage.path_of(part.name))
                    yield Finding.of(CorruptError("ARCHIVE", f"{file.name}, from byte {offset}: {reason}", at=at))
                offset += part.size

    def _part_fault(self, part: ManifestPart, offset: int) -> str | None:
        try:
            source = self.open_part(part.name)
        except OSError as error:
            return f"the part cannot be opened: {error}"
        computed = done = 0
        buffer = empty_bytes(min(_CHECKED_SIZE, part.size))
        try:
            while done < part.size:
                data = buffer[: source.read_into(done, buffer[: part.size - done])]
                if len(data) == 0:
                    return f"the part has {done} bytes, the manifest records {part.size}"
                computed = crc_of(data, offset + done, self.manifest.unstable_byte, computed)
                done += len(data)
        finally:
            source.close()
        return None if computed == part.crc32c else f"CRC-32C: stored {part.crc32c}, computed {computed}"


class ArchiveFile:
    """One file of an archive, over its parts."""

    def __init__(self, directory: ArchiveDirectory, file: ArchivedFile) -> None:
        self.name = file.name
        self.path = directory.path_of(file.name)
        self._directory = directory
        self._file = file
        self._size = file.size
        self._open: tuple[ManifestPart, SourceFile] | None = None

    def size(self) -> int:
        """Bytes that were archived when it was opened."""
        return self._size

    def read_into(self, offset: int, buffer: Bytes) -> int:
        """Fill *buffer* from byte *offset* on.

        Raises:
            DataLossError: `FILE_PURGED`: retention has removed the file meanwhile.
        """
        wanted = max(0, min(len(buffer), self._size - offset))
        done = 0
        while done < wanted:
            part, start = self._part_at(offset + done)
            count = min(wanted - done, start + part.size - offset - done)
            try:
                self._read_part(part, offset + done - start, buffer[done : done + count])
            except OSError as error:
                self._look_again(part, error)
                continue
            done += count
        return done

    def close(self) -> None:
        """Close the part that was read last."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _part_at(self, offset: int) -> tuple[ManifestPart, int]:
        """The part that holds a byte, and where in the file it begins."""
        start = 0
        for part in self._file.parts:
            if offset < start + part.size:
                return part, start
            start += part.size
        raise AssertionError("sizes of parts add up to the size of the file")

    def _read_part(self, part: ManifestPart, offset: int, buffer: Bytes) -> None:
        if self._open is None or self._open[0] != part:
            self.close()
            self._open = part, self._directory.open_part(part.name)
        if self._open[1].read_into(offset, buffer) < len(buffer):
            raise CorruptError(
                "ARCHIVE",
                f"{part.name} ends before byte {part.size}, which the manifest records",
                at=Place(self.path),
                hint=_GONE_HINT,
            )

    def _look_again(self, part: ManifestPart, error: OSError) -> None:
        """A part could not be read: others may have taken its place, with the same bytes."""
        self.close()
        self._directory.refresh()
        now = self._directory.file(self.name)
        if now is None or now.identity != self._file.identity or now.size < self._size:
            reason = "the archive does not hold the file any more: its retention removed it while it was read"
            raise DataLossError("FILE_PURGED", reason, at=Place(self.path)) from error
        if part in now.parts:
            if not isinstance(error, FileNotFoundError):
                raise storage_error(f"{self._directory.path}/{part.name}", "read", error) from error
            reason = f"{part.name} is not there, though the manifest names it"
            raise CorruptError("ARCHIVE", reason, at=Place(self.path), hint=_GONE_HINT) from error
        self._file = now


def _no_archive(path: str) -> StartError:
    return StartError(
        "PATH_NOT_FOUND",
        f"{path}: this is not an archive: there is no {MANIFEST_NAME}",
        hint="Begin it first: binlog-stream archive PATH --to URL",
    )


def require_archive(directory: Directory) -> ArchiveDirectory:
    """The archive that *directory* holds. Raises `StartError`: `PATH_NOT_FOUND`: it holds none."""
    if directory.entry(MANIFEST_NAME) is None:
        raise _no_archive(directory.path)
    return ArchiveDirectory(directory)


def _read_whole(file: SourceFile) -> bytes:
    try:
        content = empty_bytes(file.size())
        return content[: file.read_into(0, content)].tobytes()
    finally:
        file.close()
