"""`verify_log` on classic logs."""

from __future__ import annotations

import struct

import pytest

from binlog_format import Position, StartError
from binlog_format.formats.opening import verify_directory, verify_log
from binlog_format.log_format import NOT_YET, NOTE, Finding
from binlog_format.source_file import LocalDirectory
from tests.format.classic.logs import (
    IN_USE_BIT,
    MARIADB_CASES,
    MYSQL_CASES,
    OLTP_SMALL,
    MemoryDirectory,
    case_path,
    file_of,
    findings,
    raw_events,
    with_checksum,
)

NAME = "mysql-bin.000001"
NEXT = "mysql-bin.000002"


def small_file(groups: int = 2) -> bytes:
    """The head of a real file and its smallest groups, whole."""
    events = raw_events((OLTP_SMALL / NAME).read_bytes())
    starts = [index for index, event in enumerate(events) if event[4] == 162]
    parts = [events[start:end] for start, end in zip(starts, [*starts[1:], -1], strict=True)]
    chosen = sorted(sorted(parts, key=lambda part: sum(map(len, part)))[:groups], key=lambda part: part[0][19:27])
    return file_of([*events[: starts[0]], *(event for part in chosen for event in part)])


def errors(files: dict[str, bytes]) -> list[Finding]:
    return [finding for finding in findings(files) if finding.is_error]


@pytest.mark.parametrize("case", [*MARIADB_CASES, *MYSQL_CASES])
def test_good_logs_have_no_findings(case: str) -> None:
    assert [str(finding) for finding in verify_log(str(case_path(case))) if finding.is_error] == []


def test_committed_log_has_no_findings() -> None:
    assert list(verify_log(str(OLTP_SMALL))) == []


def test_gtid_list_that_does_not_follow_is_found() -> None:
    events = raw_events((OLTP_SMALL / NAME).read_bytes())
    first = small_file()
    last = [event for event in raw_events(first) if event[4] == 162][-1]
    seqno, domain = struct.unpack_from("<QI", last, 19)
    server = int.from_bytes(last[5:9], "little")

    def next_file(listed: int) -> bytes:
        body = struct.pack("<IIIQ", 1, domain, server, listed)
        gtid_list = with_checksum(events[1][:4] + bytes([163]) + events[1][5:19] + body)
        return file_of([events[0], gtid_list])

    assert errors({NAME: first, NEXT: next_file(seqno)}) == []
    found = errors({NAME: first, NEXT: next_file(seqno + 1)})
    assert [finding.condition for finding in found] == ["BINLOG_CORRUPT.GTID_STATE"]
    listed = f"{domain}-{server}-{seqno + 1}"
    assert f"it records {listed}, the groups before it {domain}-{server}-{seqno}" in found[0].reason


def test_missing_file_is_found() -> None:
    content = small_file()
    found = errors({NAME: content, "mysql-bin.000004": content})
    assert found[0].condition == "BINLOG_DATA_LOSS.FILE_PURGED"
    assert "2 to 3" in found[0].reason


def test_end_that_is_not_there_is_a_remark_while_the_server_runs() -> None:
    content = bytearray(small_file()[:-20])
    assert [finding.condition for finding in errors({NAME: bytes(content)})] == ["BINLOG_CORRUPT.BAD_EVENT"]
    content[IN_USE_BIT // 8] |= 1
    assert [(f.condition, f.is_error) for f in findings({NAME: bytes(content)})] == [(NOT_YET, False)]
    found = findings({NAME: bytes(content), NEXT: b""})
    assert {(finding.condition, finding.is_error) for finding in found} == {(NOTE, False), (NOT_YET, False)}


def test_range_is_checked_alone() -> None:
    content = bytearray(small_file(60))
    content[len(content) // 2] ^= 1
    directory = MemoryDirectory({NAME: bytes(content)})
    (damage,) = [finding for finding in verify_directory(directory) if finding.is_error]
    assert damage.at is not None
    assert damage.at.byte is not None
    before = Position(1, 0, 4)
    assert not [f for f in verify_directory(directory, start=before, end=Position(1, 0, 300)) if f.is_error]
    with pytest.raises(StartError):
        list(verify_directory(directory, start=Position(9, 0, 4)))
    with pytest.raises(StartError):
        list(verify_directory(directory, start=Position(1, 4000, 0)))


def test_progress_reaches_its_end() -> None:
    seen: list[tuple[int, int]] = []
    list(verify_directory(LocalDirectory(str(OLTP_SMALL)), on_progress=lambda done, total: seen.append((done, total))))
    size = (OLTP_SMALL / NAME).stat().st_size
    assert seen[-1] == (size, size)
