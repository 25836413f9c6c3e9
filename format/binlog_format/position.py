"""A place in a log where something starts: `Position`; bytes of files as positions: `position_of`, `byte_of`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a log, ordered as a tuple; always the next thing to read.

    Attributes:
        file_no: Number of the binlog file, as the server counts.
        page: Page in the file. `innodb`: the page on disk, the header is page 0. `classic`: a virtual page of
            16 KiB, `byte // 16384`.
        chunk: Chunk in the page, 0-based; every chunk counts. `classic`: `byte % 16384`.
    """

    file_no: int
    page: int
    chunk: int

    def __str__(self) -> str:
        return f"{self.file_no}:{self.page}:{self.chunk}"

    def to_json(self) -> dict[str, int]:
        """The one form that positions have in JSON."""
        return {"file_no": self.file_no, "page": self.page, "chunk": self.chunk}

    @classmethod
    def of(cls, fields: np.void | Mapping[str, int]) -> Position:
        """The position in the fields of a row of a group table (`GROUP_DTYPE`), or in JSON (`to_json`)."""
        return cls(int(fields["file_no"]), int(fields["page"]), int(fields["chunk"]))

    @classmethod
    def parse(cls, text: str) -> Position:
        """Read the form that `str()` writes, `file_no:page:chunk`.

        Raises:
            ValueError: *text* is not three non-negative numbers.
        """
        parts = text.split(":")
        if len(parts) != 3 or not all(part.isdecimal() for part in parts):
            raise ValueError(f"position {text!r}: expected file_no:page:chunk, for example 0:12:3")
        file_no, page, chunk = (int(part) for part in parts)
        return cls(file_no, page, chunk)


VIRTUAL_PAGE_SIZE = 16384
"""Bytes of a page in positions of formats whose files have no pages."""


def position_of(file_no: int, file_offset: int) -> Position:
    """The position of a byte, in those formats."""
    return Position(file_no, *divmod(file_offset, VIRTUAL_PAGE_SIZE))


def byte_of(position: Position) -> int:
    """The byte in its file that *position* stands for, in those formats."""
    return position.page * VIRTUAL_PAGE_SIZE + position.chunk


BEFORE_ALL = Position(0, 0, 0)
"""Start of a log that was empty: before all its files, whatever they are."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place of an error in a file; only for messages, never to read from.

    Attributes:
        file: Path of the file, as far as it is known.
        page: Page in the file, where the format has pages.
    """

    file: str
    page: int | None = None
    byte: int | None = None

    @property
    def name(self) -> str:
        """Name of the file, without its directory."""
        return self.file.rpartition("/")[2]

    def __str__(self) -> str:
        parts = []
        if self.page is not None:
            parts.append(f"page {self.page}")
        if self.byte is not None:
            parts.append(f"byte {self.byte:#x}")
        return f"{self.file}: {', '.join(parts)}" if parts else self.file
