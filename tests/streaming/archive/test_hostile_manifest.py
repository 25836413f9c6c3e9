"""An archive whose manifest names what lies elsewhere: nothing there is read or removed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from binlog_format import open_log
from binlog_format.errors import CorruptError
from binlog_format.formats.manifest import MANIFEST_NAME, Manifest
from binlog_streaming.archive.archiver import Archiver
from tests.connector.shop import Shop

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "name", ["../outside", "1/../../outside", "{folder}/outside", "1//outside", "", ".", "1\\..\\outside", "s3://b/c"]
)
def test_parts_lie_below_the_archive(name: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"not a part")
    with Shop(tmp_path / "log", files_of=1 << 18) as shop:
        shop.sell(300)
    archiver = Archiver(str(tmp_path / "log"), str(tmp_path / "archive"))
    archiver.archive()
    archiver.close()

    path = tmp_path / "archive" / MANIFEST_NAME
    manifest = Manifest.from_bytes(path.read_bytes(), str(path))
    file = manifest.files[0]
    part = replace(file.parts[0], name=name.format(folder=tmp_path))
    path.write_bytes(manifest.with_file(replace(file, parts=(part, *file.parts[1:]))).to_bytes())

    with pytest.raises(CorruptError, match=r"BINLOG_CORRUPT\.ARCHIVE.*is not a place of a part"):
        open_log(str(tmp_path / "archive"))
    with pytest.raises(CorruptError, match=r"BINLOG_CORRUPT\.ARCHIVE"):
        Archiver(str(tmp_path / "log"), str(tmp_path / "archive"))
    assert outside.read_bytes() == b"not a part"
