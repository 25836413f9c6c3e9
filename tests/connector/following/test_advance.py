"""Where batches end: those without limits, and many small ones, over the same log."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from binlog_connector.following.starts import Edge, advance, initial_offset
from binlog_connector.following.watched import WatchedLog
from binlog_format.errors import DataLossError
from binlog_format.gtids.gtid import Gtid
from binlog_lab.event_encoding.event_encoding import (
    Origin,
    encode_format_description,
    encode_gtid,
    encode_query,
    encode_xid,
)
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_connector.following.offsets import SourceOffset

SECOND = 1_767_225_600


def write_log(directory: Path, seed: int) -> None:
    """Groups of three domains and two servers, some longer than a file, some of them right after a file's start."""
    numbers = random.Random(seed)
    origin = Origin(SECOND, 1)
    start = encode_format_description("12.3.1-MariaDB-log", SECOND, origin)
    options = WriterOptions(max_binlog_size=4 * 16384, sync=False)
    with BinlogWriter(directory, options, format_description=start) as writer:
        for seqno in range(1, 200):
            gtid = Gtid(numbers.choice((0, 0, 0, 1, 7)), numbers.choice((1, 2)), seqno)
            size = numbers.choice((10, 500, 3000, 9000, 20_000, 100_000 if seqno % 20 == 0 else 1000))
            events = [encode_query(f"INSERT INTO t VALUES ('{'x' * size}')", origin), encode_xid(seqno, origin)]
            writer.write_group(gtid, encode_gtid(gtid, SECOND), events)
        writer.checkpoint()


def small_steps(watched: WatchedLog, start: SourceOffset) -> list[SourceOffset]:
    """The ends of batches of a group each, which have all bytes scanned."""
    passed = [start]
    while (following := advance(watched, passed[-1], size_max=1).offset) != passed[-1]:
        passed.append(following)
    return passed


@pytest.mark.parametrize("seed", range(3))
def test_batch_without_limits_ends_where_many_small_ones_do(tmp_path: Path, seed: int) -> None:
    write_log(tmp_path / "log", seed)
    with WatchedLog(str(tmp_path / "log")) as watched:
        passed = small_steps(watched, initial_offset(watched, Edge.EARLIEST))
        assert passed[-1].position.file_no > 8
        for start in passed[::13]:
            assert advance(watched, start).offset == passed[-1]
            for end in (one for one in passed[::7] if one.position > start.position):
                assert advance(watched, start, end=end.position).offset == end


def test_batch_without_limits_does_not_pass_a_file_that_lacks(tmp_path: Path) -> None:
    write_log(tmp_path / "log", 1)
    with WatchedLog(str(tmp_path / "log")) as watched:
        start = initial_offset(watched, Edge.EARLIEST)
        end = advance(watched, start).offset
    (tmp_path / "log" / "binlog-000004.ibb").unlink()
    with WatchedLog(str(tmp_path / "log")) as watched, pytest.raises(DataLossError, match=r"FILE_PURGED.*000004"):
        advance(watched, start, end=end.position)
