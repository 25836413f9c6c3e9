"""`verify_log` finds whatever is wrong with an `.ibb` log, and nothing in a good one."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import pytest

from binlog_format import BinlogError, Gtid, Position
from binlog_format.events.layout import EventType
from binlog_format.formats.opening import verify_directory, verify_log
from binlog_format.innodb.header import FileHeader, read_header
from binlog_format.innodb.inspection.page_rows import PageRow, page_rows
from binlog_format.innodb.layout import HEADER_SIZE
from binlog_format.log_format import NOT_YET, Finding
from binlog_format.source_file import LocalDirectory
from binlog_lab.innodb_writer.encoding import encode_compressed_int, encode_header_page, set_page_checksum
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter
from tests.chance import some
from tests.format.innodb.inspection.small_logs import (
    PAGE_SIZE,
    Files,
    LogInMemory,
    edited,
    forged,
    mixed_log,
    read_files,
    tiny_log,
)
from tests.format.innodb.test_corpus_manifests import DATA_SETS, data_set
from tests.format.innodb.test_large_groups import event, write_group

FIRST, SECOND = "binlog-000000.ibb", "binlog-000001.ibb"


def findings(files: Files) -> list[Finding]:
    return list(verify_directory(LogInMemory(files)))


def errors(files: Files) -> list[Finding]:
    return [finding for finding in findings(files) if finding.is_error]


def conditions(files: Files) -> list[str]:
    return [finding.condition for finding in errors(files)]


@functools.cache
def tiny() -> Files:
    with tempfile.TemporaryDirectory() as folder:
        return tiny_log(Path(folder) / "log")


@functools.cache
def mixed() -> Files:
    with tempfile.TemporaryDirectory() as folder:
        return mixed_log(Path(folder) / "log")


def rows(files: Files, kind: str) -> list[PageRow]:
    """First chunks of the records of a kind."""
    return [row for row in page_rows(LogInMemory(files)) if row.kind == kind and row.begins]


def test_every_single_bit_flip_is_found() -> None:
    """Header, data, the rest of the last page, pages that were never written, and a file that was made ahead."""
    files = tiny()
    assert errors(files) == []
    assert [len(content) // PAGE_SIZE for content in files.values()] == [4, 4, 4]
    missed = []
    for name, content in files.items():
        damaged = bytearray(content)
        # A bit of every fifth byte, or all bits of what has been begun; never all of the file that was made ahead.
        bits = range(8 * len(content))
        for bit in some(bits if any(content) else bits[::9], 41):
            damaged[bit // 8] ^= 1 << bit % 8
            found = verify_directory(LogInMemory({**files, name: bytes(damaged)}))
            if not any(finding.is_error for finding in found):
                missed.append((name, bit))
            damaged[bit // 8] ^= 1 << bit % 8
    assert missed == []


@pytest.mark.parametrize("byte", [2 * PAGE_SIZE, 3 * PAGE_SIZE + 77, 5 * PAGE_SIZE - 1])
def test_flipped_bit_is_found_with_its_page(byte: int) -> None:
    name = list(mixed())[1]
    found = errors(edited(mixed(), name, byte, bytes([mixed()[name][byte] ^ 4])))
    assert found[0].condition == "BINLOG_CORRUPT.PAGE_CHECKSUM"
    assert found[0].at is not None
    assert (found[0].at.name, found[0].at.page) == (name, byte // PAGE_SIZE)


def test_check_goes_on_after_damage() -> None:
    """Damage in several files, each found once."""
    files = dict(mixed())
    names = [name for name in list(files)[:-1] if len(files[name]) > 9 * PAGE_SIZE]
    for name in names:
        files = edited(files, name, 9 * PAGE_SIZE + 100, bytes([files[name][9 * PAGE_SIZE + 100] ^ 1]))
    found = [finding for finding in errors(files) if finding.condition.endswith("PAGE_CHECKSUM")]
    assert [str(finding.at) for finding in found] == [
        f"memory/{name}: page 9, byte {9 * PAGE_SIZE:#x}" for name in names
    ]


@pytest.mark.parametrize("name", DATA_SETS)
def test_good_logs_have_no_findings(name: str) -> None:
    path, _ = data_set(name)
    directories = [path, *sorted(part for part in path.iterdir() if part.is_dir())]
    for directory in directories:
        assert [str(finding) for finding in verify_log(str(directory)) if finding.is_error] == [], directory


@pytest.mark.parametrize("page_size", [512, 1024, 4096, 16384])
def test_logs_of_the_writer_have_no_findings(page_size: int, tmp_path: Path) -> None:
    assert errors(mixed_log(tmp_path / "log", page_size=page_size, pages=64)) == []


def test_end_of_a_live_log_is_a_remark() -> None:
    """A record whose end is not on disk is not there yet."""
    path, _ = data_set("live")
    found = [finding for step in sorted(path.glob("step*")) for finding in verify_log(str(step))]
    assert len(found) > 5
    assert {(finding.condition, finding.is_error) for finding in found} == {(NOT_YET, False)}


def test_live_end_that_is_torn_is_a_finding() -> None:
    """The log is looked at as it lies there: nobody will write that page again."""
    name = SECOND
    half_written = tiny()[name][PAGE_SIZE : PAGE_SIZE + 100].ljust(PAGE_SIZE, b"\0")
    found = errors(edited(tiny(), name, PAGE_SIZE, half_written))
    assert [finding.condition for finding in found] == ["BINLOG_CORRUPT.PAGE_CHECKSUM"]


@pytest.mark.parametrize(
    ("change", "condition"),
    [
        ({"file_no": 7}, "BINLOG_CORRUPT.HEADER"),
        ({"page_count": 1}, "BINLOG_CORRUPT.HEADER"),
        ({"lsn": 1}, "BINLOG_CORRUPT.HEADER"),
        ({"state_interval": 3}, "BINLOG_CORRUPT.HEADER"),
        ({"oob_reference_file_no": 9}, "BINLOG_CORRUPT.HEADER"),
        ({"xa_reference_file_no": 9}, "BINLOG_CORRUPT.HEADER"),
        ({"version_major": 2}, "BINLOG_UNSUPPORTED.VERSION"),
        ({"page_size": 1024}, "BINLOG_CORRUPT.HEADER"),
    ],
)
def test_wrong_header_field_is_found(change: dict[str, int], condition: str) -> None:
    """With both checksums right."""
    old = read_header(tiny()[SECOND][:HEADER_SIZE], SECOND)
    assert old is not None
    fields = {name: getattr(old, name) for name in FileHeader.__slots__}
    page = encode_header_page(FileHeader(**{**fields, **change}))
    content = page + tiny()[SECOND][len(page) :]
    assert condition in conditions({**tiny(), SECOND: content})


def test_bytes_after_the_header_fields_are_found() -> None:
    assert "BINLOG_CORRUPT.HEADER" in conditions(forged(tiny(), FIRST, 100, b"\1"))


def test_missing_file_is_found() -> None:
    files = dict(mixed())
    del files["binlog-000003.ibb"]
    found = [finding for finding in errors(files) if "binlog-000003.ibb" in str(finding.at)]
    assert found[0].condition == "BINLOG_DATA_LOSS.FILE_PURGED"


def test_file_that_was_cut_off_is_found() -> None:
    name = list(mixed())[2]
    files = {**mixed(), name: mixed()[name][: 5 * PAGE_SIZE]}
    assert "BINLOG_DATA_LOSS.TRUNCATED_TRANSACTION" in conditions(files)
    files = {**mixed(), name: mixed()[name][:-100]}
    assert "BINLOG_DATA_LOSS.TRUNCATED_TRANSACTION" in conditions(files)


def test_zeroed_pages_are_found() -> None:
    name = list(mixed())[2]
    assert "BINLOG_CORRUPT.PAGE_CHECKSUM" in conditions(edited(mixed(), name, 5 * PAGE_SIZE, bytes(2 * PAGE_SIZE)))
    tail = len(mixed()[name]) - 3 * PAGE_SIZE
    assert "BINLOG_DATA_LOSS.TRUNCATED_TRANSACTION" in conditions(edited(mixed(), name, tail, bytes(3 * PAGE_SIZE)))


def test_file_that_was_emptied_is_found() -> None:
    name = list(mixed())[2]
    assert "BINLOG_CORRUPT.HEADER" in conditions({**mixed(), name: bytes(len(mixed()[name]))})


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ((1, b"\xff\x7f"), "does not fit"),  # length
        ((0, b"\x81"), "none has begun"),
        ((0, b"\x01"), "room after"),  # the last chunk, but not the record's
        ((0, b"\x00"), "the rest of the page is not zero"),
    ],
)
def test_wrong_chunk_is_found(edit: tuple[int, bytes], said: str) -> None:
    """The page's checksum is right."""
    row = next(row for row in rows(mixed(), "commit") if row.ends and row.chunk == 1)
    found = errors(forged(mixed(), row.file, row.file_offset + edit[0], edit[1]))
    assert any(finding.condition == "BINLOG_CORRUPT.BAD_CHUNK" and said in finding.reason for finding in found)


def test_record_that_stops_is_found() -> None:
    """A continuation is made the start of a record."""
    files = mixed()
    row = next(row for row in page_rows(LogInMemory(files)) if row.kind == "oob" and row.begins is False)
    assert row.type is not None
    found = errors(forged(files, row.file, row.file_offset, bytes([row.type & 0x7F])))
    assert any("another one begins" in finding.reason for finding in found)


def test_wrong_references_are_found() -> None:
    """Each of the five integers of an out-of-band record, and the place in a commit record."""
    files = mixed()
    row = next(row for row in rows(files, "oob") if row.ends and row.holds["index"] == 4)
    for byte in range(4, 9):
        value = files[row.file][row.file_offset + byte] ^ 0x10
        assert errors(forged(files, row.file, row.file_offset + byte, bytes([value]))) != [], byte
    commit = next(row for row in rows(files, "commit") if row.ends and row.holds["oob_records"])
    value = files[commit.file][commit.file_offset + 3] ^ 0x08
    found = conditions(forged(files, commit.file, commit.file_offset + 3, bytes([value])))
    assert "BINLOG_CORRUPT.OOB_REFERENCE" in found


def test_reference_of_a_prepared_transaction_is_checked() -> None:
    files = mixed()
    row = next(row for row in rows(files, "xa_prepare") if row.ends)
    assert row.length is not None
    last = row.file_offset + 3 + row.length - 1
    found = conditions(forged(files, row.file, last, bytes([files[row.file][last] ^ 1])))
    assert "BINLOG_CORRUPT.OOB_REFERENCE" in found or "BINLOG_CORRUPT.BAD_CHUNK" in found


def test_wrong_event_size_is_found_and_the_next_groups_are_checked() -> None:
    files = mixed()
    chosen = [row for row in rows(files, "commit") if row.ends and row.holds["gtid"] and not row.holds["oob_records"]]
    assert len(chosen) > 5
    for row in (chosen[1], chosen[-2]):
        files = forged(files, row.file, row.file_offset + 3 + 1 + 9, b"\xee")
    found = [finding for finding in errors(files) if finding.condition == "BINLOG_CORRUPT.BAD_EVENT"]
    assert len(found) == 2


def test_checksum_of_a_server_start_is_verified() -> None:
    files = mixed()
    row = next(row for row in rows(files, "commit") if row.holds["event_type"] == EventType.FORMAT_DESCRIPTION)
    assert conditions(forged(files, row.file, row.file_offset + 60, b"\x99")) == ["BINLOG_CORRUPT.EVENT_CHECKSUM"]


def test_wrong_gtid_state_is_found() -> None:
    """In page 1 of a file and further on, too low and too high, and one GTID missing."""
    files = mixed()
    states = [row for row in rows(files, "gtid_state") if row.ends and row.file_no > 1 and row.holds["gtid_count"] == 1]
    first = next(row for row in states if row.page == 1)
    later = next(row for row in states if row.page > 1)
    for row in (first, later):
        seqno = int(str(row.holds["gtids"]).strip("[]'").split("-")[2])
        start = row.file_offset + 3 + 4
        size = len(encode_compressed_int(seqno))
        for other in (seqno - 1, seqno + 3):  # a state may know of the group after it
            if len(encode_compressed_int(other)) == size:
                found = errors(forged(files, row.file, start, encode_compressed_int(other)))
                assert "BINLOG_CORRUPT.GTID_STATE" in {finding.condition for finding in found}
                assert f"it records 0-1-{other}" in found[0].reason


def test_gtid_state_in_a_wrong_place_and_a_missing_one_are_found() -> None:
    files = mixed()
    commit = next(row for row in rows(files, "commit") if row.ends and row.chunk == 2)
    assert "BINLOG_CORRUPT.GTID_STATE" in conditions(forged(files, commit.file, commit.file_offset, b"\x42"))
    state = next(row for row in rows(files, "gtid_state") if row.page == 4 and row.ends)
    assert "BINLOG_CORRUPT.GTID_STATE" in conditions(forged(files, state.file, state.file_offset, b"\x44"))


def test_state_may_forget_a_domain_at_a_flush(tmp_path: Path) -> None:
    """As after `FLUSH BINARY LOGS DELETE_DOMAIN_ID`; a domain with a wrong number is wrong all the same."""
    options = WriterOptions(
        page_size=PAGE_SIZE, max_binlog_size=64 * PAGE_SIZE, state_interval=2 * PAGE_SIZE, sync=False
    )
    with BinlogWriter(tmp_path / "log", options) as writer:
        for seqno in range(1, 9):
            write_group(writer, seqno, [event(EventType.QUERY, 100)])
        writer.flush_logs([])
        write_group(writer, 9, [event(EventType.QUERY, 100)])
        writer.flush_logs([Gtid(0, 1, 7)])
        write_group(writer, 10, [event(EventType.QUERY, 100)])
    assert conditions(read_files(tmp_path / "log")) == ["BINLOG_CORRUPT.GTID_STATE"]


def test_range_is_checked_alone() -> None:
    name = list(mixed())[4]
    files = edited(mixed(), name, 9 * PAGE_SIZE + 100, bytes([mixed()[name][9 * PAGE_SIZE + 100] ^ 1]))
    directory = LogInMemory(files)

    def found(start: Position | None, end: Position | None) -> list[str]:
        return [finding.condition for finding in verify_directory(directory, start=start, end=end) if finding.is_error]

    assert found(None, Position(4, 0, 0)) == []
    assert "BINLOG_CORRUPT.PAGE_CHECKSUM" in found(Position(4, 1, 0), Position(5, 0, 0))
    assert found(Position(5, 1, 0), None) == []
    with pytest.raises(BinlogError, match="NO_LOG_FILES"):
        found(Position(99, 1, 0), None)


def test_one_file_is_checked_alone(tmp_path: Path) -> None:
    for name, content in mixed().items():
        (tmp_path / name).write_bytes(content)
    found = list(verify_directory(LocalDirectory(str(tmp_path)), list(mixed())[3]))
    assert {finding.condition for finding in found} <= {NOT_YET}  # a record goes on in the next file


def test_progress_grows_to_its_end() -> None:
    seen: list[tuple[int, int]] = []
    list(verify_directory(LogInMemory(mixed()), on_progress=lambda done, total: seen.append((done, total))))
    assert seen == sorted(seen)
    assert seen[-1] == (2 * sum(map(len, mixed().values())),) * 2


def test_file_larger_than_a_batch_is_checked(tmp_path: Path) -> None:
    """Records over the ends of batches, of windows and of files."""
    options = WriterOptions(
        max_binlog_size=5 << 20, state_interval=65536, cache_size=32768, preallocate=False, sync=False
    )
    with BinlogWriter(tmp_path / "log", options) as writer:
        for seqno in range(1, 120):
            write_group(writer, seqno, [event(EventType.QUERY, 3000 * seqno, seqno), event(EventType.XID, 27)])
    assert list(verify_log(str(tmp_path / "log"))) == []
    path = tmp_path / "log" / FIRST
    content = bytearray(path.read_bytes())
    for page in (70, 71, 200):
        content[page * 16384 + 1000] ^= 1
    for page in (250,):
        part = bytearray(content[page * 16384 : (page + 1) * 16384])
        part[0] = 0x81
        set_page_checksum(part)
        content[page * 16384 : (page + 1) * 16384] = part
    path.write_bytes(content)
    found = list(verify_log(str(tmp_path / "log")))
    assert [finding.at.page for finding in found if finding.at and finding.condition.endswith("CHECKSUM")] == [
        70,
        71,
        200,
    ]
