"""Every page size: the whole, any page as a start, and any number of parts give the same groups."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from binlog_format import Position, open_log
from binlog_lab.innodb_writer.options import WriterOptions
from tests.format.innodb.log_groups import read_groups
from tests.format.innodb.test_out_of_band import write_interleaved

if TYPE_CHECKING:
    from pathlib import Path

PAGE_SIZES = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536]


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_any_page_is_a_start(page_size: int, tmp_path: Path) -> None:
    options = WriterOptions(
        page_size=page_size,
        max_binlog_size=max(16 * page_size, 65536),
        state_interval=4 * page_size,
        cache_size=4096,
        sync=False,
    )
    wanted = write_interleaved(tmp_path / "log", options, transactions=25, seed=page_size)
    with open_log(str(tmp_path / "log")) as log:
        whole = read_groups(log)
        assert {group.gtid: group.data for group in whole} == wanted
        assert [group.position for group in whole] == sorted({group.position for group in whole})
        starts = [
            Position(file.file_no, page, 0)
            for file in log.files()
            if file.header
            for page in range(1, file.used_size // page_size + 1)
        ]
        assert len(starts) > 10
        for start in starts[:: max(len(starts) // 60, 1)]:
            assert read_groups(log, None, start) + read_groups(log, start) == whole
        begin, end = log.start_position(), log.end_position()
        assert end == log.span(begin).end
        for count in (2, 5, 40):
            borders = [begin, *log.split(begin, end, count), end]
            parts = [group for part in itertools.pairwise(borders) for group in read_groups(log, *part)]
            assert parts == whole
