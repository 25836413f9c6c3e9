"""Logs at URLs and other file systems are read as those in a local directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.fs
import pytest

from binlog_format import Bound, StartError, open_log
from binlog_format.formats.directories import open_directory
from binlog_format.innodb.reader import InnodbLog
from binlog_format.source_file import ArrowDirectory
from tests.format.innodb.log_groups import read_groups
from tests.format.innodb.test_corpus_manifests import DATA_SETS, data_set

if TYPE_CHECKING:
    from pathlib import Path


def in_memory(directory: Path) -> ArrowDirectory:
    """A copy of the files in a file system that exists in memory only."""
    filesystem = pyarrow.fs._MockFileSystem()
    filesystem.create_dir("bucket/binlogs")
    for file in sorted(directory.glob("*.ibb")):
        with filesystem.open_output_stream(f"bucket/binlogs/{file.name}") as stream:
            stream.write(file.read_bytes())
    return ArrowDirectory("mock://bucket/binlogs", filesystem, "bucket/binlogs/")


@pytest.mark.parametrize("name", DATA_SETS)
def test_file_url(name: str) -> None:
    path = data_set(name)[0]
    with open_log(str(path)) as local, open_log(path.as_uri()) as remote:
        groups = read_groups(local)
        assert read_groups(remote) == groups
        assert remote.files() == local.files()
        assert remote.end_position() == local.end_position()
        for group in groups[::50]:
            assert read_groups(remote, group.position)[0] == group
        for block in remote.blocks():
            assert np.array_equal(remote.read_extents(block.extents), block.data)


@pytest.mark.parametrize("name", DATA_SETS)
def test_file_system_in_memory(name: str) -> None:
    path = data_set(name)[0]
    with open_log(str(path)) as local, InnodbLog(in_memory(path)) as remote:
        assert read_groups(remote) == read_groups(local)
        assert remote.files() == local.files()
        assert remote.end_position() == local.end_position()
        wanted = local.gtid_position_at(local.end_position())
        assert remote.position_of(wanted) == local.position_of(wanted)
    with open_log(str(path), bound="sealed") as local, InnodbLog(in_memory(path), bound=Bound.SEALED) as remote:
        assert read_groups(remote) == read_groups(local)


def test_file_system_in_a_folder() -> None:
    path = data_set("mixed")[0]
    filesystem = pyarrow.fs.SubTreeFileSystem(str(path.parent), pyarrow.fs.LocalFileSystem())
    with open_log(str(path)) as local, InnodbLog(ArrowDirectory("tree://mixed", filesystem, "mixed")) as remote:
        assert read_groups(remote) == read_groups(local)


def test_url_of_one_file() -> None:
    path = data_set("oltp")[0] / "binlog-000001.ibb"
    with open_log(str(path)) as local, open_log(path.as_uri()) as remote:
        assert read_groups(remote) == read_groups(local)
        assert remote.path == path.as_uri()


def test_url_where_nothing_is(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="PATH_NOT_FOUND"):
        open_directory((tmp_path / "none").as_uri())
    with pytest.raises(StartError, match="NO_LOG_FILES"):
        open_log(tmp_path.as_uri())
