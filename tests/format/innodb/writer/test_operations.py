"""The recorded operation streams must give the recorded files, byte for byte."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from binlog_format.errors import CorruptError
from binlog_format.gtids.gtid import Gtid
from binlog_lab.innodb_writer.operation_stream import encode_steps, read_steps
from binlog_lab.innodb_writer.operations import Player, WriterStep, replay
from binlog_lab.innodb_writer.operations_layout import OperationCode
from binlog_lab.innodb_writer.options import RedoSync, WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter
from tests.corpus import corpus

if TYPE_CHECKING:
    from pathlib import Path

LSN = slice(32, 40)
HEADER_CHECKSUM = slice(508, 512)

OPTIONS = WriterOptions(max_binlog_size=1 << 16, sync=False, redo_sync=RedoSync.EXPLICIT)

BEGIN_1 = b"\x01\x01\0\0\0"
RAW_COMMIT = b"\x09\x04\0\0\0abcd"


def _replay(path: Path, writer: BinlogWriter, snapshots: Path | None = None) -> int:
    return replay(read_steps(path), Player(writer, snapshots), path.name)


def _without_lsn(data: bytes, page_size: int) -> bytes:
    page = bytearray(data)
    for part in (LSN, HEADER_CHECKSUM, slice(page_size - 4, page_size)):
        page[part] = bytes(part.stop - part.start)
    return bytes(page)


@pytest.mark.parametrize("name", ["small", "flushed", "xa", "mixed", "forest", "savepoint"])
def test_replay_writes_the_recorded_files(name: str, tmp_path: Path) -> None:
    """All bytes are the same, but for the LSN in the header and the two checksums over it."""
    expected = corpus("innodb-binlog") / "innodb-binlog" / name
    manifest = json.loads((expected / "manifest.json").read_text())
    options = WriterOptions(
        page_size=manifest["page_size"],
        max_binlog_size=manifest["max_binlog_size"],
        state_interval=manifest["state_interval_bytes"],
        cache_size=manifest["binlog_cache_size"],
        preallocate="--no-prealloc" not in manifest["options"],
    )
    with BinlogWriter(tmp_path, options) as writer:
        _replay(corpus("innodb-ops") / "innodb-ops" / f"{name}.ops", writer)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    recorded = {path.name: path.read_bytes() for path in expected.glob("*.ibb")}
    assert sorted(written) == sorted(recorded)
    for file in recorded:
        size = options.page_size
        assert _without_lsn(written[file], size) == _without_lsn(recorded[file], size), file


@pytest.mark.parametrize("name", ["small", "flushed", "xa", "mixed", "forest", "savepoint"])
def test_encoded_steps_are_the_recorded_stream(name: str) -> None:
    path = corpus("innodb-ops") / "innodb-ops" / f"{name}.ops"
    assert encode_steps(placed.step for placed in read_steps(path)) == path.read_bytes()


def _stream(folder: Path, operations: bytes) -> Path:
    path = folder / "test.ops"
    path.write_bytes(b"IBBOPS1\n" + operations)
    return path


def _bytes_of_page(folder: Path, name: str, file_no: int = 0) -> bytes:
    return (folder / name / f"binlog-{file_no:06}.ibb").read_bytes()[16384 : 2 * 16384]


def test_snapshots_are_copies_with_and_without_the_partial_page(tmp_path: Path) -> None:
    name = b"\x01\0\0\0a"
    path = _stream(tmp_path, RAW_COMMIT + b"\x0f" + name + b"\0" + b"\x0f" + name.replace(b"a", b"b") + b"\x01")
    with BinlogWriter(tmp_path / "log", OPTIONS) as writer:
        assert _replay(path, writer, tmp_path) == 3
    for copy in ("a", "b"):
        assert sorted(file.name for file in (tmp_path / copy).iterdir()) == ["binlog-000000.ibb", "binlog-000001.ibb"]
    assert [_bytes_of_page(tmp_path, copy)[0] for copy in ("a", "b")] == [0x00, 0x42]


@pytest.mark.parametrize("name", ["../a", "/a", "", "x/../../y"])
def test_snapshots_stay_in_their_folder(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.ops"
    path.write_bytes(encode_steps([WriterStep(OperationCode.SNAPSHOT, name=name)]))
    (tmp_path / "snapshots").mkdir()
    with BinlogWriter(tmp_path / "log", OPTIONS) as writer, pytest.raises(CorruptError, match="cannot have the name"):
        _replay(path, writer, tmp_path / "snapshots")
    assert list((tmp_path / "snapshots").iterdir()) == []


@pytest.mark.parametrize(
    ("operations", "byte"),
    [
        (b"\x7f", 8),
        (BEGIN_1 + b"\x01\x01", 13),
        (b"\x09\xff\0\0\0ab", 8),
        (b"\x02\x01\0\0\0\x07\x01\0\0\0a", 8),
        (BEGIN_1 + b"\x0c\x01\0\0\0\x07\0\0\0", 13),
    ],
    ids=["unknown code", "cut off", "blob cut off", "unknown cache", "no such savepoint"],
)
def test_bad_operation_is_an_error_with_its_place(operations: bytes, byte: int, tmp_path: Path) -> None:
    path = _stream(tmp_path, operations)
    with BinlogWriter(tmp_path, OPTIONS) as writer, pytest.raises(CorruptError) as error:
        _replay(path, writer)
    assert error.value.condition == "BINLOG_CORRUPT.BAD_ENTRY"
    assert error.value.at is not None
    assert error.value.at.byte == byte


@pytest.mark.parametrize("content", [b"", b"something else", b"IBBOPS2\n"])
def test_another_file_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.ops"
    path.write_bytes(content)
    with BinlogWriter(tmp_path, OPTIONS) as writer, pytest.raises(CorruptError):
        _replay(path, writer)


def test_server_operations_that_are_our_own(tmp_path: Path) -> None:
    """Checkpoint, purge, RESET MASTER with a new state; they come through the binary form."""
    fill = [WriterStep(OperationCode.RAW_COMMIT, data=b"x" * 40), WriterStep(OperationCode.FLUSH)] * 3
    steps = [
        *fill,
        WriterStep(OperationCode.PURGE, number=2),
        WriterStep(OperationCode.RAW_COMMIT, data=b"y"),
        WriterStep(OperationCode.CHECKPOINT),
        WriterStep(OperationCode.SNAPSHOT, name="purged"),
        WriterStep(OperationCode.RESET_MASTER, gtids=(Gtid(1, 2, 3),)),
        WriterStep(OperationCode.SNAPSHOT, name="reset", number=1),
    ]
    path = tmp_path / "x.ops"
    path.write_bytes(encode_steps(steps))
    with BinlogWriter(tmp_path / "log", OPTIONS) as writer:
        assert _replay(path, writer, tmp_path) == len(steps)
        assert writer.gtids() == [Gtid(1, 2, 3)]
    assert [file.stem for file in sorted((tmp_path / "purged").iterdir())] == [
        "binlog-000002",
        "binlog-000003",
        "binlog-000004",
    ]
    assert _bytes_of_page(tmp_path, "purged", 3)[5:9] == b"\x41\x02\x00\x00"
    assert [file.stem for file in sorted((tmp_path / "reset").iterdir())] == ["binlog-000000", "binlog-000001"]
    assert _bytes_of_page(tmp_path, "reset")[:8] == b"\x42\x05\x00\x08\x00\x08\x10\x18"
