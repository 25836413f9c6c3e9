"""Check that a server's bytes equal the archived ones: `KnownBytes` compares them as they are read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.archives.manifest import crc_of
from binlog_format.errors import DataLossError
from binlog_format.position import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from binlog_format.archives.manifest import ManifestPart
    from binlog_format.kernels import Bytes
    from binlog_format.live_files import FinalBlock

CHANGED_HINT = (
    "The server took transactions back when it recovered from a crash, or was set up anew. The archive stays as it is: "
    "name another place with --to, and begin the jobs that read it anew"
)


class KnownBytes:
    """Compares blocks of a file with the parts that were archived of it.

    Args:
        path: Of the file, for messages.
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
