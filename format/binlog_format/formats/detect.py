"""Detection of the format of a path's files: `detect_format`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from binlog_format.classic.layout import FILE_NAME as CLASSIC_FILE_NAME
from binlog_format.classic.layout import MAGIC as CLASSIC_MAGIC
from binlog_format.classic.layout import MAGIC_ENCRYPTED, MYSQL_ENCRYPTION_HEADER_SIZE
from binlog_format.errors import StartError, UnsupportedError
from binlog_format.format_traits import CLASSIC, INNODB, STRUCTURED
from binlog_format.innodb.header import file_number
from binlog_format.innodb.layout import MAGIC, MAGIC_SIZE
from binlog_format.kernels import empty_bytes
from binlog_format.position import Place
from binlog_format.source_file import PACKED_BY, is_pattern

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes
    from binlog_format.source_file import Directory

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
        directory: Where the files are.
        only: The one file, or the pattern, that was given; None: the whole directory.

    Raises:
        StartError: `NO_LOG_FILES`; `CONFLICTING_OPTIONS`: logs of both formats are there.
        UnsupportedError: `FORMAT`: the one file is something else, or all that is there is compressed; `ENCRYPTED`.
    """
    if only is not None:
        return STRUCTURED if is_pattern(only) else _format_of_file(directory, only)
    innodb_name: str | None = None
    classic_heads: dict[str, tuple[str, bytes]] = {}
    for entry in sorted(directory.entries(), key=lambda entry: entry.name):
        if file_number(entry.name) is not None:
            innodb_name = entry.name
        match = CLASSIC_FILE_NAME.fullmatch(entry.name)
        # One file of each name is looked into; an empty one was made this moment.
        if match is not None and entry.size >= len(CLASSIC_MAGIC) and match["base"] not in classic_heads:
            classic_heads[match["base"]] = entry.name, _head(directory, entry.name)
    classic = {base: name for base, (name, head) in classic_heads.items() if head in _CLASSIC_MAGICS}
    binlogs = sorted(name for base, name in classic.items() if RELAY_LOG_WORD not in base)
    if innodb_name is not None:
        if binlogs:
            raise StartError(
                "CONFLICTING_OPTIONS",
                f"{directory.path}: there are files of two formats: {innodb_name} and {binlogs[0]}",
                hint="Say which format to read, name one file, or move the files of the other log away",
            )
        return INNODB
    if not classic:
        if any(_is_structured(directory, entry.name) for entry in directory.entries()):
            return STRUCTURED
        _refuse_compressed(directory)
        raise StartError(
            "NO_LOG_FILES",
            f"{directory.path}: there are no binlog files",
            hint="They are named binlog-NNNNNN.ibb or <name>.NNNNNN; the server's variables binlog_directory and "
            "log_bin_basename show where they are. Structured logs are told by their first entry; option "
            "format=structured reads one of which nothing is there yet",
        )
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

    return guess_format(_head_bytes(directory, name, HEAD_SIZE)) is FormatGuess.LOG


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
    return _head_bytes(directory, name, size).tobytes()


def _head_bytes(directory: Directory, name: str, size: int) -> Bytes:
    buffer = empty_bytes(size)
    try:
        file = directory.open(name)
    except FileNotFoundError:
        return buffer[:0]  # purged since the listing
    try:
        return buffer[: file.read_into(0, buffer)]
    finally:
        file.close()


def _encrypted(directory: Directory, name: str) -> UnsupportedError:
    from binlog_format.classic.file import encrypted_by_mysql

    head = _head(directory, name, MYSQL_ENCRYPTION_HEADER_SIZE)
    return encrypted_by_mysql(head, Place(directory.path_of(name), byte=0))
