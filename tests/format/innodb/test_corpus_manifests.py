"""Every data set of the corpus against its manifest, group by group."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from binlog_format import open_log
from tests.corpus import corpus
from tests.format.innodb.log_groups import read_groups

if TYPE_CHECKING:
    from pathlib import Path


DATA_SETS = ("small", "live", "flushed", "xa", "mixed", "forest", "savepoint", "restart", "crash", "oltp")
Manifest = dict[str, object]


def data_set(name: str) -> tuple[Path, Manifest]:
    path = corpus("innodb-binlog") / "innodb-binlog" / name
    return path, cast("Manifest", json.loads((path / "manifest.json").read_text()))


def manifest_groups(manifest: Manifest) -> list[Manifest]:
    groups = cast("list[Manifest]", manifest["groups"])
    return groups[: cast("int", manifest.get("groups_visible_on_disk", len(groups)))]


@pytest.mark.parametrize("name", DATA_SETS)
def test_groups_match_the_manifest(name: str) -> None:
    path, manifest = data_set(name)
    with open_log(str(path)) as log:
        found = [
            {
                "file_no": group.position.file_no,
                "page": group.position.page,
                "offset": group.file_offset,
                "gtid": group.gtid,
                "oob_records": group.oob_records,
                "oob_records_second_set": group.oob_records_second_set,
                "n_events": len(group.event_types),
                "event_types": list(group.event_types),
                "bytes": len(group.data),
                "sha256": group.sha256,
            }
            for group in read_groups(log)
        ]
    wanted = manifest_groups(manifest)
    assert found == [{key: group[key] for key in found[0]} for group in wanted]


@pytest.mark.parametrize("name", [name for name in DATA_SETS if name != "live"])
def test_stream_of_all_groups_matches_the_manifest(name: str) -> None:
    path, manifest = data_set(name)
    with open_log(str(path)) as log:
        stream = b"".join(block.data.tobytes() for block in log.blocks())
    assert len(stream) == manifest["stream_bytes"]
    assert hashlib.sha256(stream).hexdigest() == manifest["stream_sha256"]


@pytest.mark.parametrize("name", ["live", "restart", "crash"])
def test_snapshots_show_the_groups_that_were_on_disk(name: str) -> None:
    """Each view of the directory shows a prefix; groups that a crash took away show only in the earlier views."""
    path, manifest = data_set(name)
    snapshots = cast("list[Manifest]", manifest["snapshots"])
    assert snapshots
    for snapshot in snapshots:
        with open_log(str(path / str(snapshot["dir"]))) as log:
            assert len(read_groups(log)) == snapshot["groups_visible_on_disk"], snapshot["dir"]


def test_crash_views_differ_in_the_groups_that_were_lost() -> None:
    """The same GTIDs stand for other transactions after the crash."""
    path, manifest = data_set("crash")
    with open_log(str(path / "b_seen_by_tailer")) as seen_log, open_log(str(path / "d_later")) as later_log:
        seen = {group.gtid: group.sha256 for group in read_groups(seen_log) if group.gtid}
        later = {group.gtid: group.sha256 for group in read_groups(later_log) if group.gtid}
    lost = [str(group["gtid"]) for group in cast("list[Manifest]", manifest["lost_in_crash"])]
    assert lost
    assert set(lost) <= set(seen)
    reused = [gtid for gtid in lost if gtid in later]
    assert reused
    assert all(seen[gtid] != later[gtid] for gtid in reused)


@pytest.mark.parametrize("name", DATA_SETS)
def test_headers_match_the_manifest(name: str) -> None:
    path, manifest = data_set(name)
    with open_log(str(path)) as log:
        files = log.files()
    assert [(file.name, file.size, file.state == "empty") for file in files] == [
        (file["name"], file["size"], file["empty"]) for file in cast("list[Manifest]", manifest["files"])
    ]
    headers = {file.file_no: file.header for file in files if file.header}
    for wanted in cast("list[Manifest]", manifest["headers"]):
        header = headers[cast("int", wanted["file"])]
        assert header["page_count"] == wanted["pages"]
        assert header["lsn"] == wanted["lsn"]
        assert header["state_interval"] == wanted["interval"]
        assert header["oob_reference_file_no"] == wanted["oob_ref"]
        no_reference = 2**64 - 1
        assert header["xa_reference_file_no"] == (None if wanted["xa_ref"] == no_reference else wanted["xa_ref"])


@pytest.mark.parametrize("name", DATA_SETS)
def test_extents_give_the_same_bytes(name: str) -> None:
    path, _ = data_set(name)
    with open_log(str(path)) as log:
        for block in log.blocks():
            assert np.array_equal(log.read_extents(block.extents), block.data)
            assert len(log.read_extents(block.extents[::-1])) == len(block.data)


@pytest.mark.parametrize("name", ["oltp", "xa", "restart"])
def test_gtid_position_is_that_of_the_groups_before(name: str) -> None:
    path, _ = data_set(name)
    with open_log(str(path)) as log:
        groups = read_groups(log)
        last: dict[int, str] = {}
        for index, group in enumerate(groups):
            if index % 23 == 0:
                known = log.gtid_position_at(group.position)
                assert str(known) == ",".join(last[domain] for domain in sorted(last))
            if group.gtid is not None:
                last[int(group.gtid.partition("-")[0])] = group.gtid
