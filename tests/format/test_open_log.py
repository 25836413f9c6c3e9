"""`open_log` finds the format, and names why there is none."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import zstandard

from binlog_format import BinlogError, Position, UnsupportedError, open_log
from binlog_format.errors import OptionError
from binlog_format.innodb.header import FileHeader
from binlog_format.source_file import refuse_keys
from binlog_lab.innodb_writer.encoding import encode_header_page
from tests.corpus import SERVER_CASES
from tests.format.innodb.inspection.small_logs import mixed_log

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CLASSIC_CASE = SERVER_CASES / "mariadb-10.11" / "oltp_small"


def make_innodb(directory: Path, name: str = "binlog-000000.ibb") -> None:
    page = encode_header_page(FileHeader(0, 16, lsn=1, state_interval=4, oob_reference_file_no=0))
    (directory / name).write_bytes(page + bytes(15 * 16384))


def condition_of(path: Path) -> str:
    with pytest.raises(BinlogError) as raised:
        open_log(str(path))
    assert "\n" not in str(raised.value)
    return raised.value.condition


def test_innodb_directory_is_found_among_a_servers_other_files(tmp_path: Path) -> None:
    make_innodb(tmp_path)
    (tmp_path / "ibdata1").write_bytes(b"\xfebin")
    (tmp_path / "ib_logfile0").write_bytes(bytes(100))
    (tmp_path / "aria_log.00000001").write_bytes(b"\xfe\xfe\xc0\x01")
    (tmp_path / "mysql").mkdir()
    (tmp_path / "binlog-000001.ibb").write_bytes(b"")
    with open_log(str(tmp_path)) as log:
        assert log.format_name == "innodb"
        assert log.start_position() == Position(0, 1, 0)
        assert [file.state for file in log.files()] == ["active", "empty"]


def test_classic_directory_is_found() -> None:
    with open_log(str(CLASSIC_CASE)) as log:
        assert log.format_name == "classic"


def test_log_and_block_show_what_they_are(tmp_path: Path) -> None:
    make_innodb(tmp_path)
    with open_log(str(tmp_path), bound="sealed") as log:
        assert repr(log) == f"InnodbLog('{tmp_path}', bound='sealed')"
    with open_log(str(CLASSIC_CASE)) as log:
        assert repr(log) == f"ClassicLog('{CLASSIC_CASE}', bound='visible')"
        block = next(log.blocks())
        assert repr(block) == (
            f"<Block of a mariadb log: 1:0:328 to {block.next_position}, {len(block.groups):,} event groups, "
            f"{len(block.events):,} events, {len(block.data):,} bytes>"
        )
        assert " empty to " in repr(replace(block, groups=block.groups[:0], events=block.events[:0]))


def test_single_files_are_told_by_their_first_bytes(tmp_path: Path) -> None:
    make_innodb(tmp_path, "copied")
    with open_log(str(tmp_path / "copied")) as log:
        assert log.format_name == "innodb"
        assert [file.name for file in log.files()] == ["copied"]
    with open_log(str(CLASSIC_CASE / "mysql-bin.000001")) as log:
        assert log.format_name == "classic"


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zst": zstandard.compress,
}


@pytest.mark.parametrize(
    ("suffix", "program", "unpack"),
    [
        ("gz", "1f 8b: gzip", "gunzip"),
        ("xz", "fd 37 7a 58: xz", "unxz"),
        ("bz2", "42 5a 68: bzip2", "bunzip2"),
        ("zst", "28 b5 2f fd: zstd", "unzstd"),
    ],
)
@pytest.mark.parametrize("keeps_name", [True, False])
def test_compressed_files_are_named_with_what_unpacks_them(
    tmp_path: Path, suffix: str, program: str, unpack: str, keeps_name: bool
) -> None:
    name = "mysql-bin.000001"
    file = tmp_path / (name if keeps_name else f"{name}.{suffix}")
    file.write_bytes(PACKERS[suffix]((CLASSIC_CASE / name).read_bytes()))
    for path in (file, tmp_path):
        with pytest.raises(UnsupportedError, match=f"begins with {program}\\.") as raised:
            open_log(str(path))
        command = f"{unpack} < {file} > FOLDER/{name}"
        assert str(raised.value).endswith(command)
    (tmp_path / "FOLDER").mkdir()
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    with open_log(str(tmp_path / "FOLDER")) as log:
        assert log.format_name == "classic"


def test_places_name_the_file_with_its_directory(tmp_path: Path) -> None:
    """However the log was named; a block has it too, for what is found when its events are decoded."""
    mixed_log(tmp_path, page_size=512, pages=64)
    file = CLASSIC_CASE / "mysql-bin.000001"
    named = {
        str(tmp_path): f"{tmp_path}/binlog-000000.ibb",
        str(tmp_path / "binlog-000000.ibb"): f"{tmp_path}/binlog-000000.ibb",
        str(CLASSIC_CASE): str(file),
        str(file): str(file),
        f"file://{CLASSIC_CASE}": f"file://{file}",
    }
    for path, expected in named.items():
        with open_log(path) as log:
            block = next(iter(log.blocks()))
            place = block.place(int(block.events["start"][0]))
        assert place is not None
        assert str(place) == f"{expected}: byte {place.byte:#x}"
        assert place.name == expected.rpartition("/")[2]


def test_missing_path_is_named(tmp_path: Path) -> None:
    assert condition_of(tmp_path / "nowhere") == "BINLOG_START.PATH_NOT_FOUND"


def test_directory_without_logs_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.000001").write_text("not a log")
    assert condition_of(tmp_path) == "BINLOG_START.NO_LOG_FILES"


def test_other_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a log")
    assert condition_of(tmp_path / "notes.txt") == "BINLOG_UNSUPPORTED.FORMAT"
    (tmp_path / "empty").write_bytes(b"")
    assert condition_of(tmp_path / "empty") == "BINLOG_UNSUPPORTED.FORMAT"


def test_encrypted_log_is_named(tmp_path: Path) -> None:
    (tmp_path / "binlog.000001").write_bytes(b"\xfdbin" + bytes(600))
    assert condition_of(tmp_path) == "BINLOG_UNSUPPORTED.ENCRYPTED"
    assert condition_of(tmp_path / "binlog.000001") == "BINLOG_UNSUPPORTED.ENCRYPTED"


def test_logs_of_both_formats_are_named_unless_one_is_chosen(tmp_path: Path) -> None:
    make_innodb(tmp_path)
    shutil.copy(CLASSIC_CASE / "mysql-bin.000001", tmp_path)
    assert condition_of(tmp_path) == "BINLOG_START.CONFLICTING_OPTIONS"
    for format_name in ("innodb", "classic"):
        with open_log(str(tmp_path), format_name=format_name) as log:
            assert log.format_name == format_name


def test_relay_logs_beside_a_binlog_are_not_a_second_log(tmp_path: Path) -> None:
    """A replica keeps them in the same directory, always in the classic format."""
    make_innodb(tmp_path)
    shutil.copy(CLASSIC_CASE / "mysql-bin.000001", tmp_path / "replica-relay-bin.000001")
    with open_log(str(tmp_path)) as log:
        assert log.format_name == "innodb"


def test_unknown_format_name_is_refused(tmp_path: Path) -> None:
    make_innodb(tmp_path)
    with pytest.raises(BinlogError) as raised:
        open_log(str(tmp_path), format_name="mysql")
    assert raised.value.condition == "BINLOG_OPTION.INVALID_VALUE"


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIA:hunter2@bucket/log",
        "s3://bucket/log?region=eu&secret_key=hunter2",
        "/var/lib/mysql?archive=s3://AKIA:hunter2@bucket/a",
        "abfs://:hunter2@account/log",
        "https://example.com/log?x=1&X-Amz-Signature=hunter2",
    ],
)
def test_keys_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(OptionError, match="INVALID_VALUE") as refused:
        open_log(url)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["s3://bucket/log?region=eu&scheme=http", "abfs://c@account.dfs.core.windows.net/log", "/a:b@c"]
)
def test_other_urls_are_not(url: str) -> None:
    refuse_keys(url)
