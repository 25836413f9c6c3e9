"""The recorded operation streams must give the recorded files, byte for byte."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from binlog_format.errors import CorruptError, UnsupportedError
from binlog_format.innodb.writer.operations import replay
from binlog_format.innodb.writer.options import WriterOptions
from binlog_format.innodb.writer.server import BinlogWriter
from tests.corpus import corpus

if TYPE_CHECKING:
    from pathlib import Path

LSN = slice(32, 40)
HEADER_CHECKSUM = slice(508, 512)

BEGIN_1 = b"\x01\x01\0\0\0"
RAW_COMMIT = b"\x09\x04\0\0\0abcd"


def _without_lsn(data: bytes, page_size: int) -> bytes:
    page = bytearray(data)
    for part in (LSN, HEADER_CHECKSUM, slice(page_size - 4, page_size)):
        page[part] = bytes(part.stop - part.start)
    return bytes(page)


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["small", "flushed", "xa", "mixed", "forest"])
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
        replay(corpus("innodb-ops") / "innodb-ops" / f"{name}.ops", writer)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    recorded = {path.name: path.read_bytes() for path in expected.glob("*.ibb")}
    assert sorted(written) == sorted(recorded)
    for file in recorded:
        size = options.page_size
        assert _without_lsn(written[file], size) == _without_lsn(recorded[file], size), file


def _stream(folder: Path, operations: bytes) -> Path:
    path = folder / "test.ops"
    path.write_bytes(b"IBBOPS1\n" + operations)
    return path


def test_snapshots_are_copies_with_and_without_the_partial_page(tmp_path: Path) -> None:
    name = b"\x01\0\0\0a"
    path = _stream(tmp_path, RAW_COMMIT + b"\x0f" + name + b"\0" + b"\x0f" + name.replace(b"a", b"b") + b"\x01")
    with BinlogWriter(tmp_path / "log", WriterOptions(max_binlog_size=1 << 16)) as writer:
        assert replay(path, writer, tmp_path) == 3
    first_data_byte = {}
    for copy in ("a", "b"):
        assert sorted(file.name for file in (tmp_path / copy).iterdir()) == ["binlog-000000.ibb", "binlog-000001.ibb"]
        first_data_byte[copy] = (tmp_path / copy / "binlog-000000.ibb").read_bytes()[16384]
    assert first_data_byte == {"a": 0x00, "b": 0x42}


@pytest.mark.parametrize(
    ("operations", "byte"),
    [(b"\x7f", 8), (BEGIN_1 + b"\x01\x01", 13), (b"\x09\xff\0\0\0ab", 8), (b"\x02\x01\0\0\0\x07\x01\0\0\0a", 8)],
    ids=["unknown code", "cut off", "blob cut off", "unknown cache"],
)
def test_bad_operation_is_an_error_with_its_place(operations: bytes, byte: int, tmp_path: Path) -> None:
    path = _stream(tmp_path, operations)
    with BinlogWriter(tmp_path, WriterOptions(max_binlog_size=1 << 16)) as writer, pytest.raises(CorruptError) as error:
        replay(path, writer)
    assert error.value.condition == "BINLOG_CORRUPT.BAD_ENTRY"
    assert error.value.at is not None
    assert error.value.at.byte == byte


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.ops"
    path.write_bytes(b"something else")
    with BinlogWriter(tmp_path, WriterOptions(max_binlog_size=1 << 16)) as writer, pytest.raises(CorruptError):
        replay(path, writer)


def test_crash_operations_are_unsupported(tmp_path: Path) -> None:
    path = _stream(tmp_path, b"\x13")
    with BinlogWriter(tmp_path, WriterOptions(max_binlog_size=1 << 16)) as writer, pytest.raises(UnsupportedError):
        replay(path, writer)
