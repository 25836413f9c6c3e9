"""The commands that look at a log, on logs of a real MySQL server."""

from __future__ import annotations

import json

import pytest

from binlog_format import Position
from tests.corpus import SERVER_CASES
from tests.program import run_program as run

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
