"""Named edits on copies of good logs."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from binlog_format.innodb.header import file_name
from binlog_format.innodb.layout import PAGE_SIZE_DEFAULT
from binlog_lab.innodb_writer.encoding import set_page_checksum

if TYPE_CHECKING:
    from pathlib import Path

PAGE_SIZE = PAGE_SIZE_DEFAULT


def copy_log(source: Path, target: Path) -> Path:
    """The `.ibb` files of *source* in a new folder."""
    target.mkdir()
    for file in sorted(source.glob("*.ibb")):
        shutil.copy(file, target)
    return target


def edit(directory: Path, file_no: int, byte: int, data: bytes) -> None:
    """Overwrite bytes of a file."""
    with (directory / file_name(file_no)).open("r+b") as file:
        file.seek(byte)
        file.write(data)


def flip_bit(directory: Path, file_no: int, byte: int, bit: int) -> None:
    """Invert one bit of a file."""
    with (directory / file_name(file_no)).open("r+b") as file:
        file.seek(byte)
        value = file.read(1)[0]
        file.seek(byte)
        file.write(bytes([value ^ 1 << bit]))


def cut(directory: Path, file_no: int, size: int) -> None:
    """Make a file *size* bytes long."""
    path = directory / file_name(file_no)
    path.write_bytes(path.read_bytes()[:size])


def forge(directory: Path, file_no: int, byte: int, data: bytes) -> None:
    """Overwrite bytes of a page and make its checksum right again."""
    page_no = byte // PAGE_SIZE
    path = directory / file_name(file_no)
    content = bytearray(path.read_bytes())
    content[byte : byte + len(data)] = data
    page = bytearray(content[page_no * PAGE_SIZE : (page_no + 1) * PAGE_SIZE])
    set_page_checksum(page)
    content[page_no * PAGE_SIZE : (page_no + 1) * PAGE_SIZE] = page
    path.write_bytes(content)
