"""Delta tables that are there get what new ones would have: one commit, with the same rows."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from msgspec.structs import replace as with_fields

from binlog_format.errors import TableError
from binlog_streaming.lake.delta import log as log_module
from binlog_streaming.lake.delta.features import with_properties
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.settings import Merge, Mode, Sink
from tests.streaming.tables.lake.sink_cases import INT_KEY, MIRROR_COMMIT_ID, change_of, numbers

if TYPE_CHECKING:
    from pathlib import Path

NEW = Sink(directory="", merge=Merge.MARK, row_ids=True, retention="3d")
OLD = Sink(directory="", merge=Merge.REWRITE)


def find(path: Path, sink: Sink = NEW) -> DeltaTarget:
    return DeltaTarget.at(sink, str(path))


def made(path: Path, **properties: str) -> None:
    """A table of a former version: without properties of retention."""
    target = find(path, OLD)
    target.create(INT_KEY, MIRROR_COMMIT_ID)
    log = target.log
    assert log is not None
    kept = {name: value for name, value in log.metadata.configuration.items() if "Retention" not in name}
    metadata = with_fields(log.metadata, configuration={**kept, **properties})
    log_module.make_commit(target.store, log, "SET TBLPROPERTIES", [("metaData", metadata)])
    for number in range(3):
        find(path, OLD).append(
            numbers(10 * number, 10 * number + 1).to_reader(), replace(MIRROR_COMMIT_ID, step=number)
        )


def ids(path: Path) -> dict[int, tuple[int, int]]:
    rows = find(path).identified_rows().read_all().to_pylist()
    return {row["id"]: tuple(row.values())[-2:] for row in rows}


def test_a_table_gets_in_one_commit_what_a_new_one_has(tmp_path: Path) -> None:
    made(tmp_path)
    version = int(find(tmp_path).version() or "")
    told = find(tmp_path).upgrade(NEW, is_dry=True)
    assert find(tmp_path).version() == str(version)
    assert [one.feature for one in told] == [
        "delta.deletedFileRetentionDuration = interval 259200 seconds",
        "delta.logRetentionDuration = interval 259200 seconds",
        "rowTracking",
        "deletionVectors",
    ]
    assert find(tmp_path).upgrade(NEW, is_dry=False) == told
    assert find(tmp_path).version() == str(version + 1)
    assert find(tmp_path).upgrade(NEW, is_dry=False) == []
    new = find(tmp_path / "new")
    new.create(INT_KEY, MIRROR_COMMIT_ID)
    old, new_log = find(tmp_path).log, new.log
    assert old is not None
    assert new_log is not None
    assert old.protocol == new_log.protocol
    assert old.metadata.configuration.keys() == new_log.metadata.configuration.keys()
    known = ids(tmp_path)
    assert sorted(number for number, _ in known.values()) == list(range(6))
    assert {last for _, last in known.values()} == {version + 1}
    find(tmp_path).merge(change_of([(10, "y"), (50, "n")], [0]), replace(MIRROR_COMMIT_ID, batch_id=1))
    now = ids(tmp_path)
    assert {key: number for key, (number, _) in now.items() if key != 50} == {
        key: number for key, (number, _) in known.items() if key != 0
    }
    assert now[50][0] > 5
    assert now[10][1] == version + 2


def test_settings_that_ask_for_nothing_more_leave_a_table_as_plain_as_it_is(tmp_path: Path) -> None:
    made(tmp_path, **{"delta.logRetentionDuration": "interval 9 days"})
    before = find(tmp_path).log
    assert before is not None
    (told,) = find(tmp_path, OLD).upgrade(OLD, is_dry=False)
    assert told.feature.startswith("delta.deletedFileRetentionDuration")
    after = find(tmp_path).log
    assert after is not None
    assert after.protocol == before.protocol
    assert after.metadata.configuration["delta.logRetentionDuration"] == "interval 9 days"


def test_row_tracking_alone_shuts_no_reader_out(tmp_path: Path) -> None:
    made(tmp_path)
    sink = Sink(directory="", row_ids=True)
    find(tmp_path, sink).upgrade(sink, is_dry=False)
    log = find(tmp_path).log
    assert log is not None
    assert log.protocol.min_reader_version == 1
    assert log.protocol.reader_features is None
    assert "rowTracking" in (log.protocol.writer_features or ())


def test_files_whose_rows_nobody_counted_are_counted(tmp_path: Path) -> None:
    made(tmp_path)
    commit = sorted((tmp_path / "_delta_log").glob("*.json"))[-1]
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            del line["add"]["stats"]
    commit.write_text("\n".join(map(json.dumps, lines)))
    find(tmp_path).upgrade(NEW, is_dry=False)
    assert sorted(number for number, _ in ids(tmp_path).values()) == list(range(6))


def test_changelogs_get_no_vectors_and_iceberg_compatibility_forbids_them(tmp_path: Path) -> None:
    made(tmp_path / "log", **{"binlog-stream.mode": Mode.CHANGELOG})
    told = find(tmp_path / "log").upgrade(NEW, is_dry=True)
    assert [one.feature for one in told][2:] == ["rowTracking"]
    made(tmp_path / "uniform")
    target = find(tmp_path / "uniform")
    log = target.log
    assert log is not None
    log.metadata = with_properties(log.metadata, {"delta.enableIcebergCompatV2": "true"})
    with pytest.raises(TableError, match=r"TABLE_FEATURE\] .* Iceberg compatibility, which forbids deletionVectors"):
        target.upgrade(NEW, is_dry=True)


def test_a_table_that_somebody_else_changes_meanwhile_is_not_upgraded(tmp_path: Path) -> None:
    made(tmp_path)
    late = find(tmp_path)
    find(tmp_path).append(numbers(70).to_reader(), replace(MIRROR_COMMIT_ID, batch_id=1))
    with pytest.raises(Exception, match="already exists") as caught:
        late.upgrade(NEW, is_dry=False)
    assert late.is_conflict(caught.value)
    assert pa.table({"id": sorted(ids(tmp_path))}).num_rows == 7
