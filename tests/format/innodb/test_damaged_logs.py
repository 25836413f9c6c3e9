"""Whatever happens to the files, readers give a prefix of the groups, and name what is wrong."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from binlog_format import BinlogError, Position, open_log
from binlog_format.errors import DataLossError
from tests.format.innodb.damage import PAGE_SIZE, copy_log, cut, edit, flip_bit, forge
from tests.format.innodb.log_groups import ReadGroup, collect, read_groups
from tests.format.innodb.test_corpus_manifests import data_set

if TYPE_CHECKING:
    from pathlib import Path


def read_until_error(directory: Path) -> tuple[list[ReadGroup], BinlogError | None]:
    found: list[ReadGroup] = []
    try:
        with open_log(str(directory)) as log:
            for block in log.blocks():
                found += collect([block])
    except BinlogError as error:
        return found, error
    return found, None


def whole_log(name: str) -> tuple[Path, list[ReadGroup]]:
    path, _ = data_set(name)
    with open_log(str(path)) as log:
        return path, read_groups(log)


@pytest.mark.parametrize("name", ["small", "mixed", "oltp", "xa"])
def test_flipped_bit_is_named_with_its_page(name: str, tmp_path: Path) -> None:
    """Every file but the last: what follows shows that the page is final."""
    path, whole = whole_log(name)
    random_source = random.Random(f"flip {name}")
    for attempt in range(12):
        directory = copy_log(path, tmp_path / str(attempt))
        byte = random_source.randrange(PAGE_SIZE, 16 * PAGE_SIZE)
        flip_bit(directory, 1, byte, random_source.randrange(8))
        found, error = read_until_error(directory)
        assert found == whole[: len(found)]
        assert len(found) < len(whole)
        assert error is not None
        assert error.condition == "BINLOG_CORRUPT.PAGE_CHECKSUM"
        assert error.at is not None
        assert (error.at.file, error.at.page) == (f"{directory}/binlog-000001.ibb", byte // PAGE_SIZE)
        assert error.at.byte == byte // PAGE_SIZE * PAGE_SIZE
        assert "stored 0x" in str(error)
        assert "computed 0x" in str(error)


def test_groups_before_the_damage_are_given(tmp_path: Path) -> None:
    path, whole = whole_log("oltp")
    directory = copy_log(path, tmp_path / "log")
    flip_bit(directory, 2, 5 * PAGE_SIZE + 77, 3)
    found, _ = read_until_error(directory)
    # A group that starts before the page and goes on in it is lost; all others before it are there.
    before = [group for group in whole if group.position < Position(2, 5, 0)]
    assert len(before) - len(found) in (0, 1)


@pytest.mark.parametrize("name", ["small", "flushed", "live", "mixed", "oltp"])
def test_cut_file_gives_a_prefix(name: str, tmp_path: Path) -> None:
    """The last file: not there yet. An earlier one: data loss, even where the cut is between two records.

    One file of the set `flushed` ends in a page that is all dummy; without that nothing is lost, and nothing is wrong.
    """
    path, whole = whole_log(name)
    with open_log(str(path)) as log:
        begun = [file for file in log.files() if file.header]
    random_source = random.Random(f"cut {name}")
    for attempt in range(24):
        directory = copy_log(path, tmp_path / str(attempt))
        file = random_source.choice(begun)
        size = random_source.randrange(file.used_size)
        cut(directory, file.file_no, size if attempt % 2 else size - size % PAGE_SIZE)
        found, error = read_until_error(directory)
        assert found == whole[: len(found)], (file.name, size)
        assert len(found) <= len(whole)
        if file is not begun[-1]:
            assert error is not None or found == whole, (file.name, size)


@pytest.mark.parametrize("name", ["small", "oltp"])
def test_zero_tail_of_an_earlier_file_is_an_error(name: str, tmp_path: Path) -> None:
    path, whole = whole_log(name)
    directory = copy_log(path, tmp_path / "log")
    edit(directory, 1, 9 * PAGE_SIZE, bytes(7 * PAGE_SIZE))
    found, error = read_until_error(directory)
    assert found == whole[: len(found)]
    assert error is not None
    assert error.condition in ("BINLOG_DATA_LOSS.TRUNCATED_TRANSACTION", "BINLOG_CORRUPT.PAGE_CHECKSUM")
    assert error.at is not None
    assert error.at.page == 9


def test_missing_file_in_the_middle_is_named(tmp_path: Path) -> None:
    path, whole = whole_log("oltp")
    directory = copy_log(path, tmp_path / "log")
    (directory / "binlog-000002.ibb").unlink()
    found, error = read_until_error(directory)
    assert found == whole[: len(found)]
    assert error is not None
    assert error.condition == "BINLOG_DATA_LOSS.FILE_PURGED"
    assert "binlog-000002.ibb" in str(error)


def test_purged_start_is_named(tmp_path: Path) -> None:
    path, _ = whole_log("oltp")
    directory = copy_log(path, tmp_path / "log")
    (directory / "binlog-000000.ibb").unlink()
    with open_log(str(directory)) as log:
        assert log.start_position() == Position(1, 1, 0)
        with pytest.raises(BinlogError) as raised:
            list(log.blocks(Position(0, 1, 0)))
    assert raised.value.condition == "BINLOG_DATA_LOSS.FILE_PURGED"


def test_out_of_band_data_in_a_purged_file_is_named(tmp_path: Path) -> None:
    """The set `small` has a transaction that starts in file 0 and commits in file 2."""
    path, _ = whole_log("small")
    directory = copy_log(path, tmp_path / "log")
    (directory / "binlog-000000.ibb").unlink()
    _, error = read_until_error(directory)
    assert error is not None
    assert error.condition == "BINLOG_DATA_LOSS.FILE_PURGED"
    assert "binlog-000000.ibb" in str(error)


def test_who_does_not_need_what_began_before_the_log_reads_all_other_groups(tmp_path: Path) -> None:
    path, whole = whole_log("small")
    directory = copy_log(path, tmp_path / "log")
    (directory / "binlog-000000.ibb").unlink()
    with open_log(str(directory)) as log:
        found = collect(log.blocks(skips_purged=True))
        left_out = [group for group in whole if group.position.file_no > 0 and group not in found]
        for group in left_out:
            with pytest.raises(DataLossError, match=rf"FILE_PURGED\].*binlog-000000\.ibb.* {group.gtid}, committed"):
                next(log.blocks(group.position))
    assert left_out
    assert found == [group for group in whole if group.position.file_no > 0 and group not in left_out]


@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize("byte", [0, 1, 2, 3, 4, 20, 40])
def test_forged_out_of_band_record_is_refused(byte: int, bit: int, tmp_path: Path) -> None:
    """With the checksum made right again, the checks of chunks and of the forest are all that is left.

    Bytes of the payload are not theirs to judge: only what the record's place, index and links say.
    """
    path, whole = whole_log("forest")
    group = next(group for group in whole if group.oob_records == 7)
    with open_log(str(path)) as log:
        block = next(block for block in log.blocks(group.position))
    # The extent after the commit record's own is the payload of node 0; its header and chunk head lie before.
    extent = block.extents[1]
    file_no, payload = int(extent["file_no"]), int(extent["file_offset"])
    page_start = payload // PAGE_SIZE * PAGE_SIZE
    directory = copy_log(path, tmp_path / "log")
    target = max(payload - 8 + byte % 8, page_start)
    original = (directory / f"binlog-{file_no:06}.ibb").read_bytes()[target]
    forge(directory, file_no, target, bytes([original ^ 1 << bit]))
    found, error = read_until_error(directory)
    assert found == whole[: len(found)]
    assert error is not None or found == whole


@pytest.mark.parametrize(
    ("byte", "data", "condition"),
    [
        (0, b"\x00\x00\x00\x01", "BINLOG_CORRUPT.HEADER"),
        (4, b"\x2e\x00\x00\x00", "BINLOG_CORRUPT.HEADER"),
        (8, b"\x02\x00\x00\x00", "BINLOG_CORRUPT.HEADER"),
        (9000, b"\x01", "BINLOG_CORRUPT.PAGE_CHECKSUM"),
    ],
)
def test_damaged_header_page_is_named(byte: int, data: bytes, condition: str, tmp_path: Path) -> None:
    path, _ = whole_log("oltp")
    directory = copy_log(path, tmp_path / "log")
    edit(directory, 0, byte, data)
    found, error = read_until_error(directory)
    assert found == []
    assert error is not None
    assert error.condition == condition


def test_renamed_file_is_refused(tmp_path: Path) -> None:
    """The number in the header is the file's; a name with another number would put groups at wrong places."""
    path, whole = whole_log("oltp")
    directory = copy_log(path, tmp_path / "log")
    (directory / "binlog-000003.ibb").rename(directory / "binlog-000004.ibb")
    (directory / "binlog-000002.ibb").rename(directory / "binlog-000003.ibb")
    found, error = read_until_error(directory)
    assert found == whole[: len(found)]
    assert error is not None
    assert error.condition == "BINLOG_CORRUPT.HEADER"
