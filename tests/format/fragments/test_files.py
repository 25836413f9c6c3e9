"""Fragments in files: a live one at each of its lengths, blocks of all sizes, places in the middle, `verify`."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from binlog_format import Position, open_log
from binlog_format.classic.reader import ClassicLog
from binlog_format.errors import CorruptError
from binlog_format.formats.opening import verify_directory, verify_log
from binlog_format.gtids.gtid import Gtid
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter
from tests.corpus import SERVER_CASES
from tests.format.classic.logs import MemoryDirectory, file_of, groups_of, open_classic, raw_events
from tests.format.fragments.fragmented_files import with_fragments

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from binlog_format.log.log import Log

NAME = "mysql-bin.000001"
FRAGMENT = 172
GTID = 162
IN_USE = 4 + 17
"""Where a file's header states that its server has not closed it."""


def _events() -> list[bytes]:
    """The head of a real file, then the four smallest transactions of it whose row events are cut."""
    content, _ = with_fragments((SERVER_CASES / "mariadb-10.11" / "oltp_small" / NAME).read_bytes(), 150)
    events = raw_events(content)
    starts = [number for number, event in enumerate(events) if event[4] == GTID]
    groups = [events[start:end] for start, end in itertools.pairwise(starts)]
    cut = sorted((g for g in groups if FRAGMENT in [event[4] for event in g]), key=lambda g: sum(map(len, g)))[:4]
    return [*events[: starts[0]], *(event for group in groups if group in cut for event in group)]


EVENTS = _events()
CONTENT = file_of(EVENTS)


def _classic(content: bytes, block_size: int = 1 << 21) -> ClassicLog:
    return ClassicLog(MemoryDirectory({NAME: content}), block_size=block_size)


def _rows(log: Log, start: Position | None = None) -> list[dict[str, object]]:
    batches = list(log.changes(start=start))
    rows: list[dict[str, object]] = pa.Table.from_batches(batches).to_pylist() if batches else []
    return rows


def _in_use(content: bytes) -> bytes:
    return content[:IN_USE] + bytes([content[IN_USE] | 1]) + content[IN_USE + 1 :]


def _ibb(folder: Path, events: list[bytes], page_size: int = 512) -> Path:
    """The same transactions in an `.ibb` log whose pages cut them; most go out of band."""
    options = WriterOptions(
        page_size=page_size, max_binlog_size=64 * page_size, state_interval=8 * page_size, cache_size=4096, sync=False
    )
    starts = [number for number, event in enumerate(events) if event[4] == GTID]
    with BinlogWriter(folder, options) as writer:
        for start, end in zip(starts, [*starts[1:], len(events)], strict=True):
            plain = [event[:9] + (len(event) - 4).to_bytes(4, "little") + event[13:-4] for event in events[start:end]]
            gtid = Gtid(0, int.from_bytes(plain[0][5:9], "little"), int.from_bytes(plain[0][19:27], "little"))
            writer.write_group(gtid, plain[0], plain[1:])
    return folder


def _whole() -> list[dict[str, object]]:
    """The changes of the same transactions without fragments."""
    content = (SERVER_CASES / "mariadb-10.11" / "oltp_small" / NAME).read_bytes()
    gtids = {row["gtid"] for row in _rows(_classic(CONTENT))}
    return [row for row in _rows(_classic(content)) if row["gtid"] in gtids]


def _without_position(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{name: value for name, value in row.items() if name != "position"} for row in rows]


@pytest.mark.parametrize("block_size", [64, 1000])
def test_blocks_of_any_size_give_the_same_changes(block_size: int) -> None:
    rows = _rows(_classic(CONTENT, block_size))
    assert len(rows) >= 4
    assert _without_position(rows) == _without_position(_whole())
    assert rows == _rows(_classic(CONTENT))


def test_pages_that_cut_fragments_give_the_same_changes(tmp_path: Path) -> None:
    with open_log(str(_ibb(tmp_path / "log", EVENTS))) as log:
        assert _without_position(_rows(log)) == _without_position(_whole())


def test_live_file_gives_whole_transactions_at_each_of_its_lengths() -> None:
    """What is cut off within fragments is not there yet, and is no error; reading goes on at its transaction."""
    rows = _rows(_classic(CONTENT))
    groups = groups_of(_classic(CONTENT).blocks())
    ends = [Position(*group.position) for group in groups[1:]] + [_classic(CONTENT).end_position()]
    ends_of_events = [0, *itertools.accumulate(map(len, EVENTS))]
    for size in (4 + end - cut for end in ends_of_events[-25:] for cut in (0, 3)[: 1 + end % 2]):
        log = _classic(_in_use(CONTENT[:size]), 200)
        found = _rows(log)
        assert found == rows[: len(found)]
        position = log.end_position()
        assert position in (ends[0], *ends) or found == []
        assert found + _rows(_classic(CONTENT, 200), position) == rows


@pytest.mark.parametrize("number_first", [False, True])
def test_reading_begins_at_every_transaction(number_first: bool) -> None:
    content, _ = with_fragments(
        (SERVER_CASES / "mariadb-10.11" / "ops" / NAME).read_bytes(), 100, number_first=number_first
    )
    log = _classic(content, 500)
    groups = groups_of(log.blocks())
    rows = _rows(log)
    for group in groups[:: len(groups) // 5]:
        position = Position(*group.position)
        wanted = [row for row in rows if tuple(row["position"].values()) >= group.position]  # type: ignore[attr-defined]
        assert _rows(log, position) == wanted


def _without(events: list[bytes], number: int) -> list[bytes]:
    return events[:number] + events[number + 1 :]


def _fragment_numbers() -> list[int]:
    return [number for number, event in enumerate(EVENTS) if event[4] == FRAGMENT]


def test_verify_finds_nothing_wrong_with_good_fragments(tmp_path: Path) -> None:
    assert list(verify_directory(MemoryDirectory({NAME: CONTENT}))) == []
    assert [str(finding) for finding in verify_log(str(_ibb(tmp_path / "log", EVENTS))) if finding.is_error] == []


@pytest.mark.parametrize("number", [0, 1, -1])
def test_missing_fragment_is_named_by_readers_and_by_verify(number: int, tmp_path: Path) -> None:
    """Each checksum is right: only the fragments themselves tell. What comes after it is checked as well."""
    missing = _fragment_numbers()[number]
    events = _without(EVENTS, missing)
    openers: list[Callable[[], Log]] = [
        lambda: _classic(file_of(events)),
        lambda: open_log(str(_ibb(tmp_path / f"log{missing}", events))),
    ]
    for opened in openers:
        with opened() as log, pytest.raises(CorruptError, match="fragment") as raised:
            _rows(log)
        assert raised.value.at is not None
        assert raised.value.at.byte is not None
    (finding,) = verify_directory(MemoryDirectory({NAME: file_of(events)}))
    assert (finding.condition, finding.is_error) == ("BINLOG_CORRUPT.BAD_EVENT", True)
    starts = [4 + sum(map(len, events[:n])) for n in range(len(events))]
    assert finding.at is not None
    assert finding.at.byte == starts[missing]
    found = [finding for finding in verify_log(str(tmp_path / f"log{missing}")) if finding.is_error]
    assert [finding.condition for finding in found] == ["BINLOG_CORRUPT.BAD_EVENT"]


def test_verify_finds_the_faults_of_all_transactions() -> None:
    starts = [number for number, event in enumerate(EVENTS) if event[4] == GTID]
    of_group = [next(n for n in _fragment_numbers() if n > start) for start in starts]
    events = [event for number, event in enumerate(EVENTS) if number not in of_group]
    assert len(list(verify_directory(MemoryDirectory({NAME: file_of(events)})))) == len(starts) == 4


def test_open_classic_reads_fragments_from_disk(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(CONTENT)
    with open_classic(tmp_path) as log:
        assert _rows(log) == _rows(_classic(CONTENT))
