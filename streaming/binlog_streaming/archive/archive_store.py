"""The place of an archive, as its one archiver writes it: `ArchiveStore`; bytes that it has: `KnownBytes`.

Parts have names that nobody used before, and the manifest names them afterwards, in exchange for the one that this
archiver wrote last. Whoever has begun later has changed the manifest: then nothing of this one is ever named.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

import pyarrow as pa

from binlog_connector.crash_points import reached
from binlog_format.errors import CorruptError, DataLossError, OptionError, StorageError, storage_error
from binlog_format.formats.manifest import MANIFEST_NAME, Manifest, ManifestPart, crc_of
from binlog_format.kernels import empty_bytes
from binlog_format.position import Place
from binlog_streaming.lake.store import UNFINISHED
from binlog_streaming.lake.table_places import store_by_environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from binlog_format.kernels import Bytes
    from binlog_format.live_files import FinalBlock


PART_SIZE_MAX = 32 << 20
"""Bytes of a file that is being written that become one part, unless one transaction is larger."""

_CHECKED_SIZE = 8 << 20
_CLAIMS_MAX = 5


class ArchiveStore:
    """Writes one archive.

    Args:
        uri: A folder, or a URL of an object store, with its access in the environment (`AWS_ENDPOINT_URL` ...).

    Attributes:
        uri: The same.
        manifest: As it was saved last.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.manifest = Manifest(format="")
        self._content: bytes | None = None
        self._part_count = 0
        self._store = store_by_environment("--to", uri)

    def claim(self, format_name: str, unstable_byte: int | None) -> None:
        """Begin to write here: earlier writers are refused from now on, and their unfinished parts are removed.

        Args:
            unstable_byte: See `LiveFiles`.

        Raises:
            OptionError: `INVALID_VALUE`: the archive is of another format, or other files are in this place.
            StorageError: `IN_USE`: others begin at the same time.
        """
        for _ in range(_CLAIMS_MAX):
            content = self._read_manifest()
            if content is None:
                self._check_empty()
                known = Manifest(format=format_name, unstable_byte=unstable_byte)
            else:
                known = Manifest.from_bytes(content, self.path_of(MANIFEST_NAME))
            if known.format != format_name:
                reason = f"--to: {self.uri} is an archive of a log of format {known.format}, this log is {format_name}"
                raise OptionError("INVALID_VALUE", reason, hint="Name another place for this log")
            claimed = replace(known, claim=known.claim + 1)
            if self._exchange(content, claimed):
                reached(ArchiveCrashPoint.CLAIMED)
                self._sweep()
                return
        raise self._other_writer()

    def save(self, manifest: Manifest) -> None:
        """Publish *manifest* for readers. Raises `StorageError`: `IN_USE`: another archiver has begun to write here."""
        before = self.manifest
        if not self._exchange(self._content, manifest):
            raise self._other_writer()
        reached(ArchiveCrashPoint.SAVED)
        self._remove(_part_names(before) - _part_names(manifest))

    def put(self, name: str, offset: int, blocks: Iterable[FinalBlock], *, size_max: int | None = None) -> ManifestPart:
        """Store bytes of a file as one part.

        Args:
            blocks: The bytes; taken until they end, or one may end after *size_max* bytes.
            size_max: See *blocks*; None: they are the whole file.
        """
        part_name = self._whole_name(name) if size_max is None else self._range_name(name, offset)
        size = crc = 0
        with self._storing(part_name):
            new = self._store.new_file(part_name)
            try:
                for data, may_end in blocks:
                    crc = crc_of(data, offset + size, self.manifest.unstable_byte, crc)
                    new.sink.write(pa.py_buffer(data))
                    size += len(data)
                    if size_max is not None and may_end and size >= size_max:
                        break
                new.finish()
                self._store.sync_names()
            except BaseException:
                new.abandon()
                raise
        reached(ArchiveCrashPoint.STORED)
        return ManifestPart(part_name, size, crc)

    def link(self, path: str, name: str) -> str | None:
        """Link a local file that is finished into the archive; the name of the part, None: it has to be copied."""
        part_name = self._whole_name(name)
        with self._storing(part_name):
            is_linked = self._store.link(path, part_name)
        reached(ArchiveCrashPoint.STORED)
        return part_name if is_linked else None

    def check(self, part: ManifestPart) -> None:
        """Read a part that holds a file from its first byte on, and compare it with its checksum."""
        crc = done = 0
        with self._storing(part.name):
            while done < part.size:
                data = self._store.read_part(part.name, done, min(_CHECKED_SIZE, part.size - done))
                if not data:
                    break
                buffer = empty_bytes(len(data))
                buffer.data[:] = data
                crc = crc_of(buffer, done, self.manifest.unstable_byte, crc)
                done += len(data)
        if (done, crc) != (part.size, part.crc32c):
            reason = f"{done} bytes with CRC-32C {crc} were stored, {part.size} bytes with {part.crc32c} were verified"
            raise CorruptError("ARCHIVE", reason, at=Place(self.path_of(part.name)))

    def path_of(self, name: str) -> str:
        """Path of an object, for messages."""
        return f"{self.uri.rstrip('/')}/{name}"

    def _whole_name(self, name: str) -> str:
        # Stored once under each claim, and with the server's name: other tools can read it.
        return f"{self.manifest.claim}/{name}"

    def _range_name(self, name: str, offset: int) -> str:
        self._part_count += 1
        return f"{self.manifest.claim}/{name}.{offset}-{self._part_count}"

    def _read_manifest(self) -> bytes | None:
        with self._storing(MANIFEST_NAME, "read"):
            try:
                return self._store.read(MANIFEST_NAME)
            except FileNotFoundError:
                return None

    def _exchange(self, before: bytes | None, manifest: Manifest) -> bool:
        content = manifest.to_bytes()
        with self._storing(MANIFEST_NAME):
            if not self._store.exchange(MANIFEST_NAME, before, content):
                return False
        self.manifest, self._content = manifest, content
        return True

    def _check_empty(self) -> None:
        with self._storing("", "list"):
            names = (file.name for file in self._store.files() if not file.name.startswith(UNFINISHED))
            other = next(names, None)
        if other is not None:
            reason = f"--to: {self.uri} is not an archive, and holds {other}"
            raise OptionError("INVALID_VALUE", reason, hint="Name a place of its own for the archive")

    def _sweep(self) -> None:
        """Remove what earlier archivers stored and did not name, nor ever will."""
        with self._storing("", "list"):
            stored = [file.name for file in self._store.files()]
        named = _part_names(self.manifest)
        self._remove({name for name in stored if _claim_of(name) < self.manifest.claim and name not in named})

    def _remove(self, names: set[str]) -> None:
        for name in sorted(names):
            with self._storing(name, "remove"):
                self._store.remove(name)
        if names:
            reached(ArchiveCrashPoint.REMOVED)

    @contextmanager
    def _storing(self, name: str, doing: str = "write") -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            failure = error if isinstance(error, OSError) else OSError(str(error))
            raise storage_error(self.path_of(name), doing, failure) from error

    def _other_writer(self) -> StorageError:
        return StorageError(
            "IN_USE",
            "another archiver has begun to write to this archive",
            at=Place(self.uri),
            hint="Nothing was damaged. Let one archiver run for each archive",
        )


def _part_names(manifest: Manifest) -> set[str]:
    return {part.name for file in manifest.files for part in file.parts}


def _claim_of(name: str) -> int:
    """The claim under which a part was stored; for what is no part, one that never comes."""
    first = name.partition("/")[0]
    return int(first) if first.isdecimal() and "/" in name else 1 << 62


class ArchiveCrashPoint(StrEnum):
    """Step that an archiver has just finished; the process may end between any two steps."""

    CLAIMED = "claimed"
    """The manifest names this archiver."""
    STORED = "stored"
    """A part is there, and no reader sees it yet."""
    SAVED = "saved"
    """Readers see it."""
    REMOVED = "removed"
    """Parts that the manifest names no more are gone."""


CHANGED_HINT = (
    "The server took transactions back when it recovered from a crash, or was set up anew. The archive stays as it is: "
    "name another place with --to, and begin the jobs that read it anew"
)


class KnownBytes:
    """Compares blocks of a file with the parts that were archived of it.

    Args:
        parts: Some parts that follow each other.
        offset: Where in the file the first one begins, and the blocks.
        unstable_byte: See `FinalFile`.
    """

    def __init__(self, path: str, parts: Sequence[ManifestPart], offset: int, unstable_byte: int | None) -> None:
        self._path = path
        self._parts = list(parts)
        self._offset = offset
        self._unstable_byte = unstable_byte
        self._crc = self._done = 0

    def checked(self, blocks: Iterable[FinalBlock]) -> Iterator[FinalBlock]:
        """The same blocks, each one compared before it is given.

        Raises:
            DataLossError: `PAGE_REWRITTEN`: a part has other bytes now; `TRUNCATED_TRANSACTION`: there are fewer.
        """
        for block in blocks:
            self._take(block.data)
            yield block
        if self._parts:
            raise DataLossError(
                "TRUNCATED_TRANSACTION",
                f"the file ends at byte {self._offset + self._done}, but more of it has been archived",
                at=Place(self._path),
                hint=CHANGED_HINT,
            )

    def _take(self, data: Bytes) -> None:
        while self._parts and len(data):
            part = self._parts[0]
            taken = data[: part.size - self._done]
            self._crc = crc_of(taken, self._offset + self._done, self._unstable_byte, self._crc)
            self._done += len(taken)
            data = data[len(taken) :]
            if self._done == part.size:
                if self._crc != part.crc32c:
                    raise DataLossError(
                        "PAGE_REWRITTEN",
                        f"{part.size} bytes from here on are others than were archived: stored {part.crc32c:#010x}, "
                        f"computed {self._crc:#010x}",
                        at=Place(self._path, byte=self._offset),
                        hint=CHANGED_HINT,
                    )
                self._parts.pop(0)
                self._offset += part.size
                self._crc = self._done = 0
