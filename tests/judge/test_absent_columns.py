"""Columns that row images lack: a changelog names them; changes to a JSON value that no image has stop a job."""

from __future__ import annotations

import re
import shutil
import tarfile
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.judge.running import mirror_of, run_once
from tests.judge.test_reported import ARCHIVE

INSERTS: list[tuple[str, list[str] | None]] = [("insert", None)] * 3
ABSENT: dict[str, list[tuple[str, list[str] | None]]] = {
    # Generated columns, with binlog_row_image=FULL.
    "m118_stored_full": [
        *INSERTS,
        *[(kind, ["total"]) for _ in range(3) for kind in ("update_preimage", "update_postimage")],
    ],
    # What the statement did not set, before it all but the key.
    "stored_minimal": [
        *[("insert", ["note"])] * 3,
        ("update_preimage", ["qty", "price", "total", "note"]),
        ("update_postimage", ["id", "qty", "note"]),
        ("update_preimage", ["qty", "price", "total", "note"]),
        ("update_postimage", ["id", "qty", "price"]),
        ("update_preimage", ["qty", "price", "total", "note"]),
        ("update_postimage", ["id", "price"]),
    ],
}


@pytest.mark.parametrize("name", ABSENT)
def test_changelog_names_the_columns_that_an_image_lacks(tmp_path: Path, name: str) -> None:
    with tarfile.open(ARCHIVE) as archive:
        wanted = [member for member in archive.getmembers() if member.name.startswith(f"reported/{name}/")]
        archive.extractall(tmp_path, members=wanted, filter="data")
    shutil.copytree(tmp_path / "reported" / name, tmp_path / "log")
    end = run_once(mirror_of(tmp_path / "log", tmp_path / "lake", rule={"mode": "changelog"}))
    assert (end.error, end.crash) == ("", "")
    rows = DeltaTable(str(tmp_path / "lake" / "w" / "l")).to_pyarrow_table().to_pylist()
    rows.sort(key=lambda row: (row["_commit_version"], row["_row_no"], row["_change_type"] == "update_postimage"))
    assert [(row["_change_type"], row["_absent"]) for row in rows] == ABSENT[name]
    assert {row[column] for row in rows for column in row["_absent"] or ()} == {None}


# CREATE TABLE j (id INT PRIMARY KEY, doc JSON, n INT) on MySQL 9.7; then, with binlog_row_image=MINIMAL and
# binlog_row_value_options=PARTIAL_JSON: UPDATE j SET doc = JSON_SET(doc, '$.a', 1001) WHERE id = 1.
PARTIAL_JSON = Path(__file__).parents[1] / "data" / "partial_json"


def test_changelog_names_changes_to_a_json_value_that_no_image_has(tmp_path: Path) -> None:
    shutil.copytree(PARTIAL_JSON, tmp_path / "log")
    end = run_once(mirror_of(tmp_path / "log", tmp_path / "lake", rule={"mode": "changelog"}))
    assert end.crash == ""
    assert re.search(r"\[BINLOG_UNSUPPORTED\.ROW_IMAGE\] w\.j: .*doc: .*changes to a JSON value", end.error), end.error
