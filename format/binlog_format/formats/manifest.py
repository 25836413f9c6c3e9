"""The manifest of an archive: `Manifest`, one JSON file that is replaced as a whole.

What the manifest does not name is not in the archive: parts are written first, and named when they are on the disk.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from crc32c import crc32c

from binlog_format.errors import CorruptError, UnsupportedError
from binlog_format.kernels import empty_bytes
from binlog_format.position import Place

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes
    from binlog_format.source_file import SourceFile

MANIFEST_NAME = "binlog-archive.json"
"""A folder with a file of this name is an archive."""

MANIFEST_VERSION = 1

PROBE_SIZE = 1 << 14
"""Bytes at the start and at the end of what is archived of a file, by which a server's file is known again."""

_PART_NAME = re.compile(r"[0-9]+/(?!\.\.?$)[^/]+")
"""Names of parts: whoever wrote the manifest, none leads out of the archive."""

_KIND = "binlog-stream archive"
_HINT = "Take it from a backup, or begin a new archive elsewhere while the server still has its files"


@dataclass(frozen=True, slots=True)
class ManifestPart:
    """An object with bytes of one file, never changed once it is there.

    Attributes:
        name: Path below the archive's place.
        crc32c: Of its bytes, `Manifest.unstable_byte` taken as zero.
    """

    name: str
    size: int
    crc32c: int


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A file of the log, as far as it is archived.

    Attributes:
        identity: Who wrote it (`LiveFiles.identity`).
        parts: Its bytes from the first one on, in order.
        is_complete: Whether these are all; only the last file can lack some.
        is_sealed: Whether they were stored as one part after the server could no longer change the file.
        head_crc32c: Of the first `PROBE_SIZE` bytes, or as many as there are.
        tail_crc32c: Of the last ones.
        gtids_before: What the log held before this file: the last GTID of each domain, or MySQL's set.
        gtids: The same for the groups that were found in it.
        transactions: Groups that were found in it; one that ends in the next file is found there.
        searched: Up to where groups were looked for (`Position`); empty: nowhere yet.
        first_time: Of its first group, seconds since 1970 UTC; None: it has none.
        last_time: Of its last group.
        archived_at: When its newest part was stored, seconds since 1970 UTC.
    """

    file_no: int
    name: str
    identity: str
    parts: tuple[ManifestPart, ...] = ()
    is_complete: bool = False
    is_sealed: bool = False
    head_crc32c: int = 0
    tail_crc32c: int = 0
    gtids_before: str = ""
    gtids: str = ""
    transactions: int = 0
    searched: str = ""
    first_time: int | None = None
    last_time: int | None = None
    archived_at: int = 0

    @property
    def size(self) -> int:
        """Bytes of the file that are archived."""
        return sum(part.size for part in self.parts)


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything that is in an archive.

    Attributes:
        claim: How often an archiver began to write here; the last one to do so may.
        unstable_byte: The byte of each file that its server changes later (`LiveFiles.unstable_byte`).
        files: By number, ascending, without gaps.
    """

    format: str
    claim: int = 0
    unstable_byte: int | None = None
    files: tuple[ArchivedFile, ...] = ()

    def by_name(self) -> dict[str, ArchivedFile]:
        """Its files by their names."""
        return {file.name: file for file in self.files}

    def with_file(self, file: ArchivedFile) -> Manifest:
        """A copy with *file* in place of the file of the same number."""
        others = [known for known in self.files if known.file_no != file.file_no]
        return replace(self, files=tuple(sorted([*others, file], key=lambda archived: archived.file_no)))

    def to_bytes(self) -> bytes:
        """The manifest as it is stored, with a checksum of its own."""
        archive = _text(asdict(self))
        checksum = crc32c(archive.encode())
        return f'{{"kind":"{_KIND}","version":{MANIFEST_VERSION},"crc32c":{checksum},"archive":{archive}}}\n'.encode()

    @classmethod
    def from_bytes(cls, content: bytes, path: str) -> Manifest:
        """Read what `to_bytes` made."""
        at = Place(path)
        try:
            stored = json.loads(content)
            archive, version, checksum = stored["archive"], stored["version"], stored["crc32c"]
            is_ours = stored["kind"] == _KIND
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptError(
                "ARCHIVE", f"it is not a manifest of an archive: {error!r}", at=at, hint=_HINT
            ) from error
        if not is_ours:
            raise CorruptError("ARCHIVE", f'it is not a manifest of an archive: expected "kind": "{_KIND}"', at=at)
        if version != MANIFEST_VERSION:
            raise UnsupportedError(
                "VERSION",
                f"manifest: version {version}, this program reads version {MANIFEST_VERSION}",
                at=at,
                hint="Use the version of binlog-stream that wrote this archive, or a later one",
            )
        computed = crc32c(_text(archive).encode())
        if computed != checksum:
            reason = f"the manifest is damaged: CRC-32C stored {checksum!r}, computed {computed}"
            raise CorruptError("ARCHIVE", reason, at=at, hint=_HINT)
        files = tuple(_file(fields) for fields in archive.pop("files"))
        for part in (part for file in files for part in file.parts):
            if not _PART_NAME.fullmatch(part.name):
                raise CorruptError("ARCHIVE", f"{part.name!r} is not a place of a part", at=at, hint=_HINT)
        return cls(**archive, files=files)


def crc_of(data: Bytes, offset: int, unstable_byte: int | None, before: int = 0) -> int:
    """CRC-32C of bytes of a file, with the byte that its server changes later taken as zero.

    Args:
        unstable_byte: Where in the file that byte is; None: there is none.
        before: CRC-32C of the bytes before them.
    """
    if unstable_byte is not None and offset <= unstable_byte < offset + len(data):
        data = data.copy()
        data[unstable_byte - offset] = 0
    return crc32c(data.data, before)


def probes(source: SourceFile, size: int, unstable_byte: int | None) -> tuple[int, int] | None:
    """`head_crc32c` and `tail_crc32c` of the first *size* bytes of a file; None: it has fewer."""
    found = []
    for offset in (0, max(0, size - PROBE_SIZE)):
        data = empty_bytes(min(PROBE_SIZE, size))
        if source.read_into(offset, data) < len(data):
            return None
        found.append(crc_of(data, offset, unstable_byte))
    return found[0], found[1]


def _text(archive: object) -> str:
    return json.dumps(archive, separators=(",", ":"), sort_keys=True)


def _file(fields: dict[str, object]) -> ArchivedFile:
    listed = fields.pop("parts")
    assert isinstance(listed, list), "the checksum was right"
    return ArchivedFile(**fields, parts=tuple(ManifestPart(**part) for part in listed))  # type: ignore[arg-type]
