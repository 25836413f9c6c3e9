"""`binlog-stream changes` on logs of real servers, against what the servers said about their rows."""

from __future__ import annotations

import csv
import gzip
import json
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest
import typer
from typer.testing import CliRunner

from binlog_format.errors import BinlogError, StartError, UnsupportedError
from binlog_streaming.cli.changes import register
from tests.corpus import SERVER_CASES, corpus
from tests.streaming.server_truth import JsonObject, Truth

if TYPE_CHECKING:
    from pathlib import Path

OLTP = SERVER_CASES / "mariadb-10.11" / "oltp_small"
# Types that are not read yet: an error, never a wrong value.
UNSUPPORTED_TABLES = {"t.t_allnull", "t.t_char", "t.t_compressed", "t.t_cs_mixed", "t.t_geo", "t.t_lob", "t.t_varchar"}


def _run(*arguments: object) -> str:
    app = typer.Typer()
    app.callback()(lambda: None)
    register(app)
    result = CliRunner().invoke(app, ["changes", *(str(argument) for argument in arguments)])
    if result.exception is not None:
        raise result.exception
    return result.stdout


def _lines(*arguments: object) -> list[JsonObject]:
    text = _run(*arguments, "--output", "jsonl")
    assert text.endswith("\n") or not text
    return [json.loads(line) for line in text.split("\n")[:-1]]


def _case(name: str) -> Path:
    return corpus("servers") / "mariadb-10.11" / name


def _by_gtid_and_table(changes: list[JsonObject]) -> dict[tuple[str, str], list[JsonObject]]:
    grouped = defaultdict(list)
    for change in changes:
        grouped[str(change["gtid"]), f"{change['database']}.{change['table']}"].append(change)
    return dict(grouped)


def test_changes_lead_to_the_final_rows() -> None:
    _check_final_rows(_lines(OLTP), OLTP)


@pytest.mark.corpus
def test_both_formats_give_the_same_changes() -> None:
    """The same transactions in the files of a server and laid out as an `.ibb` log, a few of them in another order."""
    case = corpus("servers") / "mariadb-11.8" / "oltp_small"
    classic, innodb = _lines(case), _lines(corpus("innodb-binlog") / "innodb-binlog" / "oltp")
    _check_final_rows(classic, case)
    assert len(classic) == len(innodb) == 1600
    for changes in (classic, innodb):
        for change in changes:
            del change["position"]
    assert sorted(map(json.dumps, classic)) == sorted(map(json.dumps, innodb))


def _check_final_rows(changes: list[JsonObject], case: Path) -> None:
    tables: dict[str, dict[object, JsonObject]] = defaultdict(dict)
    for change in changes:
        rows = tables[str(change["table"])]
        before, after = change["before"], change["after"]
        if isinstance(before, dict):
            assert rows.pop(before["id"]) == before
        if isinstance(after, dict):
            rows[after["id"]] = after
    expected = json.loads((case / "expected.json").read_text())
    assert len(changes) == expected["row_changes_oltp"] + expected["load_rows"]
    assert {f"sb.{table}" for table in tables} == set(expected["tables"])
    for table, rows in tables.items():
        with gzip.open(case / f"{table}.csv.gz", "rt", newline="") as file:
            final = list(csv.DictReader(file))
        assert [{name: str(value) for name, value in rows[key].items()} for key in sorted(rows, key=str)] == sorted(
            final, key=lambda row: row["id"]
        )


def test_keys_and_order_of_a_line() -> None:
    changes = _lines(OLTP, "--limit", 700)
    assert len(changes) == 700
    names = "position event_no row_no gtid commit_time server_id op database table before after absent"
    assert all(list(change) == names.split() for change in changes)
    places = [(tuple(c["position"].values()), c["event_no"], c["row_no"]) for c in changes]  # type: ignore[attr-defined]
    assert places == sorted(places)
    assert len(set(places)) == len(places)


def test_tables_and_ranges_are_chosen() -> None:
    everything = _lines(OLTP)
    chosen = _lines(OLTP, "--tables", r"sb\.sbtest[13],sb\.sbtest2", "--exclude-tables", "sb.sbtest1")
    assert chosen == [change for change in everything if change["table"] in ("sbtest2", "sbtest3")]
    middle = everything[len(everything) // 2]
    gtid, position = str(middle["gtid"]), ":".join(str(part) for part in middle["position"].values())  # type: ignore[attr-defined]
    first, second = _lines(OLTP, "--end", gtid), _lines(OLTP, "--start", gtid)
    assert first + second == everything
    assert first[-1]["gtid"] == gtid
    assert _lines(OLTP, "--end", position) + _lines(OLTP, "--start", position) == everything


def test_changefeed_of_a_table_has_all_its_images() -> None:
    changes = _lines(OLTP, "--tables", "sb.sbtest2")
    images = _lines(OLTP, "--view", "changefeed", "--table", "sb.sbtest2")
    expected = [change[name] for change in changes for name in ("before", "after") if change[name] is not None]
    columns = ("id", "k", "c", "pad")
    assert [{name: image[name] for name in columns} for image in images] == expected
    assert {image["_change_type"] for image in images} == {"insert", "update_preimage", "update_postimage", "delete"}
    assert [name for name in images[0] if name not in columns] == [
        "_change_type",
        "_commit_version",
        "_commit_timestamp",
        "_position",
        "_event_no",
        "_row_no",
        "_gtid",
    ]


def test_table_for_people_shows_changes() -> None:
    text = _run(OLTP, "--limit", 3)
    assert "sb.sbtest" in text
    assert "insert" in text
    assert "The first 3 rows" in text
    assert "No changes" in _run(OLTP, "--tables", "no.such")
    assert "insert" in _run(OLTP, "--view", "changefeed", "--table", "sb.sbtest1", "--limit", 1)


def test_wrong_use_is_named() -> None:
    for arguments, message in (
        (["--view", "changefeed"], "MISSING"),
        (["--table", "sb.sbtest1"], "MISSING"),
        (["--tables", "("], "INVALID_VALUE"),
        (["--start", "yesterday"], "INVALID_VALUE"),
    ):
        with pytest.raises(BinlogError, match=message):
            _run(OLTP, *arguments)
    with pytest.raises(StartError, match="PATH_NOT_FOUND"):
        _run(OLTP / "nowhere")


@pytest.mark.corpus
def test_every_type_is_as_the_server_said() -> None:
    """All tables whose types are read; the others are an error by name."""
    case = _case("types_full")
    truth = Truth.load(case)
    for name in sorted({table for _, table in truth.changes}):
        expected = [key for key in truth.changes if key[1] == name]
        escaped = "".join(char if char.isalnum() else f"\\{char}" for char in name)
        if name in UNSUPPORTED_TABLES:
            with pytest.raises(UnsupportedError, match=rf"COLUMN_TYPE\] .*{escaped}"):
                _lines(case, "--tables", escaped)
            continue
        got = _by_gtid_and_table(_lines(case, "--tables", escaped))
        assert list(got) == expected
        for key in expected:
            truth.check(truth.changes[key], got[key])


@pytest.mark.corpus
def test_every_statement_kind_is_as_the_server_said() -> None:
    """Three XA transactions are prepared in the log; they are refused, and read around."""
    case = _case("ops")
    truth = Truth.load(case)
    with pytest.raises(UnsupportedError, match="XA_TRANSACTION"):
        _lines(case)
    prepared = {f"0-1011-{number}" for number in (132, 135, 137)}
    got: list[JsonObject] = []
    for start, end in ((None, 131), (132, 134), (135, 136), (137, None)):
        options = [] if start is None else ["--start", f"0-1011-{start}"]
        got += _lines(case, *options, *([] if end is None else ["--end", f"0-1011-{end}"]))
    by_key = _by_gtid_and_table(got)
    expected = {key: changes for key, changes in truth.changes.items() if key[0] not in prepared}
    assert by_key.keys() - truth.told_otherwise == expected.keys()
    for key, changes in expected.items():
        truth.check(changes, by_key[key], in_order=False)
    assert len(got) > 1000


@pytest.mark.corpus
def test_rows_rolled_back_to_a_savepoint_are_not_there() -> None:
    """Row 3004 of t.many stands in the log between SAVEPOINT and ROLLBACK TO."""
    case = _case("ops")
    changes = _lines(case, "--start", "0-1011-137", "--tables", r"t\.many")
    after = [change["after"] for change in changes]
    assert 3004 not in [row["id"] for row in after if isinstance(row, dict)]


@pytest.mark.corpus
def test_log_without_column_names_is_refused() -> None:
    with pytest.raises(BinlogError, match=r"NO_COLUMN_METADATA.*t\.a"):
        _lines(_case("ops_minimal"), "--tables", r"t\.a")
