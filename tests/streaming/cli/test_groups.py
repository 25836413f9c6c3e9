"""`binlog-stream files` and `binlog-stream groups`.

The commands that look at a log, on logs of a real MySQL server.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from binlog_format import Position
from binlog_format.events.layout import EventType
from tests.corpus import SERVER_CASES
from tests.format.innodb.test_corpus_manifests import data_set, manifest_groups
from tests.program import run_program
from tests.program import run_program as run

if TYPE_CHECKING:
    from pathlib import Path


FIELDS = {
    "file_offset": "offset",
    "gtid": "gtid",
    "events": "n_events",
    "bytes": "bytes",
    "oob_records": "oob_records",
    "oob_records_second_set": "oob_records_second_set",
    "sha256": "sha256",
}


def test_groups_prints_what_the_manifest_says() -> None:
    path, manifest = data_set("mixed")
    result = run_program("groups", str(path), "--output", "jsonl")
    assert result.returncode == 0, result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert all(set(line) == {*FIELDS, "position", "event_types", "commit_time"} for line in lines)
    for line, group in zip(lines, manifest_groups(manifest), strict=True):
        assert {name: line[name] for name in FIELDS} == {name: group[key] for name, key in FIELDS.items()}
        assert (line["position"]["file_no"], line["position"]["page"]) == (group["file_no"], group["page"])
        codes = group["event_types"]
        assert isinstance(codes, list)
        names = [EventType(code).name.lower() for code in codes]
        assert line["event_types"] == names
    part = run_program("groups", str(path), "-o", "jsonl", "--start", "1:1:0", "--end", "2:1:0")
    of_file = [line for line in lines if line["position"]["file_no"] == 1]
    assert [json.loads(line) for line in part.stdout.splitlines()] == of_file


def test_files_prints_state_and_header() -> None:
    path, _ = data_set("live")
    lines = [json.loads(line) for line in run_program("files", str(path), "-o", "jsonl").stdout.splitlines()]
    assert [line["state"] for line in lines] == ["full", "full", "full", "active", "empty"]
    assert lines[3]["used_size"] == 4 * 16384
    assert lines[0]["header"]["page_size"] == 16384


def test_both_commands_print_tables_and_read_classic_logs() -> None:
    path = str(SERVER_CASES / "mariadb-10.11" / "oltp_small")
    files, groups = run_program("files", path), run_program("groups", path)
    assert files.returncode == groups.returncode == 0
    assert "mysql-bin.000001" in files.stdout
    assert "mariadb_gtid" in groups.stdout
    first = json.loads(run_program("groups", path, "-o", "jsonl").stdout.splitlines()[0])
    assert set(first) == {*FIELDS, "position", "server_position", "event_types", "commit_time"}


def test_errors_are_one_line(tmp_path: Path) -> None:
    result = run_program("groups", str(tmp_path / "nowhere"))
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "BINLOG_START.PATH_NOT_FOUND" in result.stderr
    assert run_program("groups", str(tmp_path), "--start", "x").returncode == 2


MYSQL = SERVER_CASES / "mysql-9"
A = "88ee60ec-e4d9-11f1-baee-02fc00000001"


def test_files_say_vendor_and_sets() -> None:
    result = run("files", str(MYSQL / "ops"), "-o", "jsonl")
    assert result.returncode == 0, result.stderr
    first, second = (json.loads(line) for line in result.stdout.splitlines())
    assert first["header"]["vendor"] == second["header"]["vendor"] == "mysql"
    assert (first["first_gtid_state"], second["last_gtid_state"]) == ("", None)
    assert first["last_gtid_state"] == second["first_gtid_state"]
    assert second["first_gtid_state"].startswith(f"{A}:1-154:tag_one:1-2,aaaaaaaa-bbbb")
    assert "vendor mysql, server version 9.7.4-2" in run("files", str(MYSQL / "ops")).stdout


def test_groups_are_cut_by_sets() -> None:
    arguments = ("groups", str(MYSQL / "ops"), "--end", f"{A}:1-160")
    result = run(*arguments, "--start", f"{A}:1-158:tag_one:1-2", "-o", "jsonl")
    assert result.returncode == 0, result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["gtid"] for line in lines] == [f"{A}:159", f"{A}:160"]
    assert [line["event_types"] for line in lines] == [["gtid", "query"], ["gtid", "query"]]
    position = lines[0]["position"]
    assert lines[0]["file_offset"] == position["page"] * 16384 + position["chunk"]
    wrong = run(*arguments, "--start", "0-1-5")
    assert (wrong.returncode, "the log is of a MySQL server" in wrong.stderr) == (2, True)


@pytest.mark.parametrize(("gtid", "position"), [(f"{A}:160", "2:0:1413"), (f"{A.upper()}:TAG_one:2", "1:7:14291")])
def test_gtid_is_found(gtid: str, position: str) -> None:
    result = run("find", str(MYSQL / "ops"), "--gtid", gtid, "-o", "jsonl")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert (Position(**found["position"]), found["gtid"]) == (Position.parse(position), gtid.lower())


def test_verify_finds_nothing_wrong() -> None:
    for case in ("ops", "torn"):
        result = run("verify", str(MYSQL / case))
        assert (result.returncode, "Nothing is wrong" in result.stdout) == (0, True), result.stdout
