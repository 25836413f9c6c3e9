"""A log that is being written: what is not there yet is no error, and shows as soon as it is there."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from binlog_format import DataLossError, Position, open_log
from binlog_format.innodb.files import LogFiles
from binlog_format.innodb.header import FileHeader
from binlog_format.innodb.pages.pages import PageReader
from binlog_format.source_file import LocalDirectory
from binlog_lab.innodb_writer.encoding import encode_header_page
from tests.format.innodb.damage import PAGE_SIZE, copy_log, cut, edit
from tests.format.innodb.log_groups import ReadGroup, collect, read_groups
from tests.format.innodb.test_corpus_manifests import data_set
from tests.format.innodb.test_damaged_logs import read_until_error

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_format import Log
    from binlog_format.innodb.files import OpenFile


def tail(log: Log, position: Position) -> tuple[list[ReadGroup], Position]:
    """One look of a tailer: what is new, and where to look next."""
    blocks = list(log.blocks(position))
    return collect(blocks), blocks[-1].next_position if blocks else position


def test_tailer_over_all_views_gets_every_group_once(tmp_path: Path) -> None:
    """The views of the set `live` put into one directory one after the other, as the server would write them."""
    path, manifest = data_set("live")
    directory = tmp_path / "log"
    directory.mkdir()
    position = Position(0, 1, 0)
    found: list[ReadGroup] = []
    views = manifest["snapshots"]
    assert isinstance(views, list)
    for view in [str(snapshot["dir"]) for snapshot in views] + ["."]:
        for file in sorted((path / view).glob("*.ibb")):
            (directory / file.name).write_bytes(file.read_bytes())
        with open_log(str(directory)) as log:
            new, position = tail(log, position)
            span = log.span(position)
            assert (span.end, span.groups) == (position, 0)
        found += new
    with open_log(str(path)) as log:
        assert found == read_groups(log)


def test_one_open_log_sees_what_is_written_later(tmp_path: Path) -> None:
    path, _ = data_set("oltp")
    directory = copy_log(path, tmp_path / "log")
    with open_log(str(directory)) as log:
        whole = read_groups(log)
    page = (directory / "binlog-000003.ibb").read_bytes()[2 * PAGE_SIZE : 5 * PAGE_SIZE]
    edit(directory, 3, 2 * PAGE_SIZE, bytes(3 * PAGE_SIZE))
    with open_log(str(directory)) as log:
        first, position = tail(log, log.start_position())
        edit(directory, 3, 2 * PAGE_SIZE, page)
        second, _ = tail(log, position)
    assert 0 < len(first) < len(whole)
    assert first + second == whole


def test_torn_last_page_is_not_there_yet(tmp_path: Path) -> None:
    """Half of a page written: nothing of it is given and the position stays; when it is whole, reading goes on."""
    path, _ = data_set("oltp")
    directory = copy_log(path, tmp_path / "log")
    with open_log(str(directory)) as log:
        whole = read_groups(log)
    last_page = 4 * PAGE_SIZE
    good = (directory / "binlog-000003.ibb").read_bytes()[last_page : last_page + PAGE_SIZE]
    edit(directory, 3, last_page + 700, bytes(PAGE_SIZE - 700))
    with open_log(str(directory)) as log:
        first, position = tail(log, log.start_position())
        assert tail(log, position) == ([], position)
        edit(directory, 3, last_page, good)
        second, _ = tail(log, position)
    assert first + second == whole
    assert second


def test_record_without_its_end_is_not_given(tmp_path: Path) -> None:
    """A commit record that goes on in a page that is not on disk: its group waits, even its whole events."""
    path, _ = data_set("oltp")
    with open_log(str(path)) as log:
        whole = read_groups(log)
    crossing = next(
        group
        for group, after in itertools.pairwise(whole)
        if group.position.file_no == 3 and after.position.page > group.position.page
    )
    directory = copy_log(path, tmp_path / "log")
    after = (crossing.position.page + 1) * PAGE_SIZE
    edit(directory, 3, after, bytes(16 * PAGE_SIZE - after))
    with open_log(str(directory)) as log:
        found, position = tail(log, log.start_position())
    assert found == whole[: whole.index(crossing)]
    assert position == crossing.position


def test_record_without_its_end_is_data_loss_once_the_file_is_sealed(tmp_path: Path) -> None:
    """The server makes file N+2 only when N is complete and on disk."""
    path, _ = data_set("oltp")
    directory = copy_log(path, tmp_path / "log")
    with open_log(str(path)) as log:
        whole = read_groups(log)
    edit(directory, 3, 3 * PAGE_SIZE, bytes(13 * PAGE_SIZE))
    for name in ("binlog-000004.ibb", "binlog-000005.ibb"):
        (directory / name).write_bytes(bytes(16 * PAGE_SIZE))
    found, error = read_until_error(directory)
    assert error is not None
    assert error.condition == "BINLOG_DATA_LOSS.TRUNCATED_TRANSACTION"
    assert 0 < len(found) < len(whole)
    assert found == whole[: len(found)]


def test_file_that_grows_while_it_is_made_is_no_error(tmp_path: Path) -> None:
    """The file made ahead can have any length for a moment, and may not be there at all."""
    path, _ = data_set("live")
    directory = copy_log(path, tmp_path / "log")
    with open_log(str(path)) as log:
        whole = read_groups(log)
    for size in (0, 3, 700, PAGE_SIZE, PAGE_SIZE + 1):
        cut(directory, 4, size)
        with open_log(str(directory)) as log:
            assert read_groups(log) == whole
    (directory / "binlog-000004.ibb").unlink()
    with open_log(str(directory)) as log:
        assert read_groups(log) == whole


def test_position_in_a_file_that_is_not_there_yet_waits() -> None:
    path, _ = data_set("oltp")
    with open_log(str(path)) as log:
        assert tail(log, Position(4, 1, 0)) == ([], Position(4, 1, 0))
        assert log.span(Position(4, 1, 0)).end == Position(4, 1, 0)


def test_log_begun_anew_between_two_files_is_named(tmp_path: Path) -> None:
    """RESET MASTER while file 0 was read: its name is another file's now, and file 1 is not the one that follows."""
    directory = copy_log(data_set("oltp")[0], tmp_path / "log")
    files = LogFiles(LocalDirectory(str(directory)))
    read = files.begun(0)
    assert read is not None
    files.check_same(read)
    (directory / "binlog-000000.ibb").unlink()
    page = encode_header_page(FileHeader(0, 16, lsn=999_999, state_interval=4, oob_reference_file_no=0))
    (directory / "binlog-000000.ibb").write_bytes(page)
    with pytest.raises(DataLossError) as raised:
        files.check_same(read)
    assert raised.value.condition == "BINLOG_DATA_LOSS.LOG_RESET"


def test_purge_of_a_file_that_is_done_is_no_error(tmp_path: Path) -> None:
    path, _ = data_set("oltp")
    directory = copy_log(path, tmp_path / "log")
    with open_log(str(directory)) as log:
        whole = read_groups(log)
        (directory / "binlog-000000.ibb").unlink()
        assert read_groups(log) == [group for group in whole if group.position.file_no > 0]


def test_page_of_a_file_that_is_purged_while_it_is_read_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader has seen a part of it; when it looks for what was written after it, the file is gone."""
    directory = copy_log(data_set("oltp")[0], tmp_path / "log")
    edit(directory, 1, 5 * PAGE_SIZE + 700, bytes(PAGE_SIZE - 700))
    look = PageReader.has_data_after

    def purged(reader: PageReader, file: OpenFile, page: int) -> str | None:
        (directory / "binlog-000001.ibb").unlink()
        return look(reader, file, page)

    monkeypatch.setattr(PageReader, "has_data_after", purged)
    with open_log(str(directory)) as log, pytest.raises(DataLossError, match="FILE_PURGED"):
        read_groups(log)
