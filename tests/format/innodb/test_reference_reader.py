"""The tests' own reader must itself be right: it reads every data set as its manifest describes it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest

from tests.corpus import corpus
from tests.format.innodb.reference_reader import Damaged, read_log

if TYPE_CHECKING:
    from pathlib import Path

SETS = ("small", "live", "flushed", "xa", "mixed", "forest", "savepoint", "restart", "crash", "oltp")


@pytest.mark.parametrize("name", SETS)
def test_every_group_is_as_the_manifest_says(name: str) -> None:
    folder = corpus("innodb-binlog") / "innodb-binlog" / name
    manifest = json.loads((folder / "manifest.json").read_text())
    log = read_log(folder)
    expected = manifest["groups"][: manifest.get("groups_visible_on_disk", len(manifest["groups"]))]
    assert [
        (group.file_no, group.file_offset, len(group.data), hashlib.sha256(group.data).hexdigest())
        for group in log.groups
    ] == [(group["file_no"], group["offset"], group["bytes"], group["sha256"]) for group in expected]
    assert [(group.oob_records, group.oob_records_second_set) for group in log.groups] == [
        (group["oob_records"], group["oob_records_second_set"]) for group in expected
    ]


def test_a_flipped_bit_is_damage(tmp_path: Path) -> None:
    source = corpus("innodb-binlog") / "innodb-binlog" / "small" / "binlog-000000.ibb"
    data = bytearray(source.read_bytes())
    data[40_000] ^= 1
    target = tmp_path / source.name
    target.write_bytes(data)
    with pytest.raises(Damaged, match="checksum"):
        read_log(target.parent)
