"""Logs to measure on, in either format, written once and kept: `kept_log`."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bench.logs.classic_log import ClassicWriter
from binlog_lab.event_encoding.event_encoding import Origin, encode_format_description
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from binlog_format.gtids.gtid import Gtid

DATA = Path(__file__).parents[1] / "data"
"""Not in the repository; delete it to have everything made anew."""

FIRST_SECOND = 1_767_225_600
SERVER_ID = 1
FILE_SIZE = 64 << 20

SYSBENCH_COLUMNS = (
    ColumnSpec("id", "int"),
    ColumnSpec("k", "int"),
    ColumnSpec("c", "char(120)"),
    ColumnSpec("pad", "char(60)"),
)
SBTEST = TableSpec("sbtest", "sbtest1", SYSBENCH_COLUMNS, ("id",))


class Form(StrEnum):
    """Format of a log."""

    INNODB = "innodb"
    CLASSIC = "classic"


class GroupWriter(Protocol):
    """What writes event groups in either format."""

    def write_group(self, gtid: Gtid, gtid_event: bytes, events: Sequence[bytes]) -> object:
        """Append a group; events have no checksums, and may be joined."""


@dataclass(frozen=True, slots=True)
class KeptLog:
    """A log and what is in it.

    Attributes:
        size: Bytes of the files up to the end of the log.
    """

    path: Path
    changes: int
    size: int


def kept_log(name: str, form: Form, write: Callable[[GroupWriter], int]) -> KeptLog:
    """The log of a name, which is written if it is not there.

    Args:
        name: Names its content: another one for other content.
        write: Writes all groups, and gives the number of row changes.
    """
    directory = DATA / f"{name}-{form}"
    about = directory / "about.json"
    if not about.exists():
        partial = directory.with_name(f"{directory.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        changes, size = write_log(partial, form, write)
        (partial / "about.json").write_text(json.dumps({"changes": changes, "size": size}))
        shutil.rmtree(directory, ignore_errors=True)
        partial.rename(directory)
    made = json.loads(about.read_text())
    return KeptLog(directory, made["changes"], made["size"])


def write_log(directory: Path, form: Form, write: Callable[[GroupWriter], int]) -> tuple[int, int]:
    """Write a log into *directory*; its row changes, and its size up to the end of the log."""
    if form is Form.CLASSIC:
        with ClassicWriter(directory, Origin(FIRST_SECOND, SERVER_ID)) as classic:
            changes = write(classic)
        return changes, classic.size
    start = encode_format_description("12.3.1-MariaDB-log", FIRST_SECOND, Origin(FIRST_SECOND, SERVER_ID))
    options = WriterOptions(max_binlog_size=FILE_SIZE, sync=False)
    with BinlogWriter(directory, options, format_description=start) as writer:
        changes = write(writer)
        writer.checkpoint()
        end = writer.position
        return changes, end.file_no * FILE_SIZE + end.file_offset
