"""Changes to JSON values that no row image has are made to the target's documents: a log of MySQL 9.7, and its rows."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from binlog_format.messages import SHOW_VALUES
from binlog_streaming.lake.delta import log as delta_log
from binlog_streaming.settings import Json, OnError, TableFormat
from tests.judge.running import JobEnd, mirror_of, run_once
from tests.judge.tables import read_targets

if TYPE_CHECKING:
    from collections.abc import Mapping

DATA = Path(__file__).parents[3] / "data"
UPDATES = DATA / "json_updates"
GTID = 33
PARTIAL_UPDATE_ROWS = 39
FORMATS = [(TableFormat.DELTA, Json.TEXT), (TableFormat.ICEBERG, Json.TEXT), (TableFormat.DELTA, Json.VARIANT)]


@pytest.fixture(autouse=True)
def values_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors name the row."""
    monkeypatch.setenv(SHOW_VALUES, "1")


def replayed(
    tmp_path: Path,
    log: Path,
    rule: Mapping[str, object],
    table_format: TableFormat,
    bytes_max: str | None = None,
    json_type: Json = Json.TEXT,
) -> tuple[JobEnd, dict[str, pa.Table]]:
    if not (tmp_path / "log").exists():
        shutil.copytree(log, tmp_path / "log")
    on_error = OnError.SET_ASIDE if rule["mode"] == "scd2" else OnError.STOP
    job = mirror_of(
        tmp_path / "log",
        tmp_path / "lake",
        rule=rule,
        table_format=table_format,
        on_error=on_error,
        bytes_max=bytes_max,
        json=json_type,
    )
    end = run_once(job)
    return end, {name: table.content for name, table in read_targets(job.sink).items()}


def documents(rows: list[dict[str, Any]]) -> list[list[Any]]:
    return sorted([row["id"], row["doc"]] for row in rows)


def server_rows(table: str) -> list[list[Any]]:
    rows: list[list[Any]] = json.loads((UPDATES / "final.json").read_text())[table]
    return rows


@pytest.mark.thorough_where("mark-.*iceberg")
@pytest.mark.parametrize(("table_format", "json_type"), FORMATS)
@pytest.mark.parametrize("bytes_max", [None, "1b"])
@pytest.mark.parametrize("deletes", ["remove", "mark"])
def test_mirror_has_the_documents_of_the_server(
    tmp_path: Path, table_format: TableFormat, json_type: Json, bytes_max: str | None, deletes: str
) -> None:
    rule = {"mode": "mirror", "deletes": deletes}
    end, tables = replayed(tmp_path, UPDATES, rule, table_format, bytes_max, json_type)
    assert (end.error, end.crash) == ("", "")
    for name in ("minimal", "noblob"):
        rows = [row for row in tables[f"w.{name}"].to_pylist() if not row.get("_deleted")]
        assert documents(rows) == server_rows(name)


@pytest.mark.parametrize(("table_format", "json_type"), FORMATS)
@pytest.mark.parametrize("bytes_max", [None, "1b"])
def test_versions_have_the_documents_of_the_server(
    tmp_path: Path, table_format: TableFormat, json_type: Json, bytes_max: str | None
) -> None:
    # `minimal` is set aside: updates leave other columns out, and versions need whole rows.
    end, tables = replayed(tmp_path, UPDATES, {"mode": "scd2"}, table_format, bytes_max, json_type)
    assert (end.error, end.crash) == ("", "")
    rows = tables["w.noblob"].to_pylist()
    assert documents([row for row in rows if row["_is_current"]]) == server_rows("noblob")
    versions = sorted((row["_position"], row["doc"]) for row in rows if row["id"] == 2)
    assert [(json.loads(text)["a"], json.loads(text)["in"]["list"]) for _, text in versions] == [
        ("aaaaaaaaaaaaaaaa", [1, {"z": "zzzzzzzz"}, 3]),
        (1, [1, {"z": "zzzzzzzz"}, 3]),
        (1, [{"z": "zzzzzzzz"}, 3]),
        (1, [{"z": "zzzzzzzz"}, 4]),
    ]


def begun(tmp_path: Path, rule: Mapping[str, object]) -> tuple[Path, list[dict[str, Any]], bytes]:
    # A target with the rows before the updates; its folder, these, and the whole log.
    shutil.copytree(UPDATES, tmp_path / "log")
    content = (UPDATES / "mysql-bin.000001").read_bytes()
    (tmp_path / "log" / "mysql-bin.000001").write_bytes(content[: updates_start(content)])
    end, tables = replayed(tmp_path, UPDATES, rule, TableFormat.DELTA)
    assert (end.error, end.crash) == ("", "")
    return next((tmp_path / "lake").rglob("minimal")), tables["w.minimal"].to_pylist(), content


def updates_start(content: bytes) -> int:
    # Where the first transaction with such an update begins.
    place, gtid = 4, 4
    while (kind := content[place + 4]) != PARTIAL_UPDATE_ROWS:
        gtid = place if kind == GTID else gtid
        place += int.from_bytes(content[place + 9 : place + 13], "little")
    return gtid


def transaction_after(content: bytes, text: bytes) -> int:
    # Where the first transaction after the first one with *text* in it begins.
    place, wanted = 4, content.index(text)
    while not (content[place + 4] == GTID and place > wanted):
        place += int.from_bytes(content[place + 9 : place + 13], "little")
    return place


def overwrite(folder: Path, rows: list[dict[str, Any]]) -> int:
    schema = pa.schema(DeltaTable(str(folder)).schema().to_arrow())
    write_deltalake(str(folder), pa.Table.from_pylist(rows, schema), mode="overwrite")
    return DeltaTable(str(folder)).version()


@pytest.mark.parametrize(("held", "told"), [(None, "null"), ('{"b": 1}', "another value"), ("{oops", "another value")])
def test_a_document_that_changes_do_not_fit_is_named(tmp_path: Path, held: str | None, told: str) -> None:
    folder, rows, content = begun(tmp_path, {"mode": "mirror"})
    version = overwrite(folder, [row | ({"doc": held} if row["id"] == 1 else {}) for row in rows])
    (tmp_path / "log" / "mysql-bin.000001").write_bytes(content)
    end, _ = replayed(tmp_path, UPDATES, {"mode": "mirror"}, TableFormat.DELTA)
    assert end.crash == ""
    assert re.search(rf"\[BINLOG_TABLE\.CONTRADICTED\] .*doc of the row with key id = 1, .*{told}", end.error), (
        end.error
    )
    assert DeltaTable(str(folder)).version() == version


def test_a_row_that_the_target_lacks_is_named(tmp_path: Path) -> None:
    folder, rows, content = begun(tmp_path, {"mode": "mirror"})
    version = overwrite(folder, [row for row in rows if row["id"] != 1])
    (tmp_path / "log" / "mysql-bin.000001").write_bytes(content)
    end, _ = replayed(tmp_path, UPDATES, {"mode": "mirror"}, TableFormat.DELTA)
    assert end.crash == ""
    assert re.search(r"\[BINLOG_TABLE\.CONTRADICTED\] .*the row of key id = 1, and there is no row", end.error), (
        end.error
    )
    assert DeltaTable(str(folder)).version() == version
    # Where rows prove nothing, the change of one that is not there is none: as with all that leaves columns out.
    end, tables = replayed(tmp_path, UPDATES, {"mode": "mirror", "evidence": "off"}, TableFormat.DELTA)
    assert (end.error, end.crash) == ("", "")
    assert documents(tables["w.minimal"].to_pylist()) == [row for row in server_rows("minimal") if row[0] != 1]


def test_changes_to_a_document_that_a_rule_hides(tmp_path: Path) -> None:
    for mask, shown in (("null", None), ("text ***", "***")):
        rule = {"mode": "mirror", "mask": {"doc": mask}}
        end, tables = replayed(tmp_path / (shown or "null"), UPDATES, rule, TableFormat.DELTA)
        assert (end.error, end.crash) == ("", "")
        assert documents(tables["w.minimal"].to_pylist()) == [[key, shown] for key, _ in server_rows("minimal")]
    end, _ = replayed(tmp_path, UPDATES, {"mode": "mirror", "mask": {"doc": "last 4"}}, TableFormat.DELTA)
    assert end.crash == ""
    assert re.search(r"\[BINLOG_UNSUPPORTED\.ROW_IMAGE\] w\.\w+: .*doc: .*changes to a JSON value", end.error), (
        end.error
    )


@pytest.mark.parametrize("evidence", ["keys", "rows"])
def test_a_folder_that_came_back_from_a_backup_is_contradicted(tmp_path: Path, evidence: str) -> None:
    rule = {"mode": "mirror", "evidence": evidence}
    folder, _, content = begun(tmp_path, rule)
    shutil.copytree(folder, tmp_path / "backup")
    # Up to the update that makes row 4 row 14, which the next one changes again.
    log = tmp_path / "log" / "mysql-bin.000001"
    log.write_bytes(content[: transaction_after(content, b"moved")])
    end, tables = replayed(tmp_path, UPDATES, rule, TableFormat.DELTA)
    assert (end.error, end.crash) == ("", "")
    assert 14 in tables["w.minimal"]["id"].to_pylist()
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "backup", folder)
    delta_log._seen.clear()  # the job did not run meanwhile
    log.write_bytes(content)
    end, _ = replayed(tmp_path, UPDATES, rule, TableFormat.DELTA)
    assert end.crash == ""
    assert re.search(r"\[BINLOG_TABLE\.CONTRADICTED\] .*w\.minimal: .*id = 14", end.error), end.error
