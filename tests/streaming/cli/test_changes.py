"""`binlog-stream changes` on logs of real servers, against what the servers said about their rows."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections import defaultdict
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from binlog_format.errors import BinlogError, OptionError, SchemaError, StartError, StorageError
from binlog_streaming.cli.logs.changes import changes as command
from tests.corpus import SERVER_CASES, corpus

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    JsonObject = dict[str, object]

OLTP = SERVER_CASES / "mariadb-10.11" / "oltp_small"


def run_changes(*arguments: object) -> str:
    """What the command prints."""
    app = typer.Typer()
    app.callback()(lambda: None)
    app.command()(command)
    result = CliRunner().invoke(app, ["changes", *(str(argument) for argument in arguments)])
    if result.exception is not None:
        raise result.exception
    return result.stdout


def _lines(*arguments: object) -> list[JsonObject]:
    text = run_changes(*arguments, "--output", "jsonl")
    assert text.endswith("\n") or not text
    return [json.loads(line) for line in text.split("\n")[:-1]]


def _read_arrow(path: Path) -> pa.Table:
    with pa.ipc.open_file(path) as reader:
        return reader.read_all()


def _case(name: str) -> Path:
    return corpus("servers") / "mariadb-10.11" / name


def _by_gtid_and_table(changes: list[JsonObject]) -> dict[tuple[str, str], list[JsonObject]]:
    grouped = defaultdict(list)
    for change in changes:
        grouped[str(change["gtid"]), f"{change['database']}.{change['table']}"].append(change)
    return dict(grouped)


def test_changes_lead_to_the_final_rows() -> None:
    _check_final_rows(_lines(OLTP), OLTP)


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


@pytest.mark.parametrize(("output", "read"), [("parquet", pq.read_table), ("arrow", _read_arrow)])
def test_changes_are_written_to_files(output: str, read: Callable[[Path], pa.Table], tmp_path: Path) -> None:
    file = tmp_path / "changes"
    assert "1,600 rows" in run_changes(OLTP, file, "--output", output)
    written = read(file)
    lines = _lines(OLTP)
    assert written.column("gtid").to_pylist() == [line["gtid"] for line in lines]
    assert [json.loads(text) if text else None for text in written.column("after").to_pylist()] == [
        line["after"] for line in lines
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["changes"]


def test_one_table_is_typed_in_files(tmp_path: Path) -> None:
    file = tmp_path / "typed.parquet"
    run_changes(OLTP, file, "--output", "parquet", "--table", "sb.sbtest2")
    lines = _lines(OLTP, "--table", "sb.sbtest2")
    assert pq.read_table(file).column("after").to_pylist() == [line["after"] for line in lines]
    run_changes(OLTP, file, "--output", "parquet", "--table", "sb.sbtest2", "--view", "changefeed", "--limit", 5)
    assert pq.read_table(file).column("id").to_pylist() == [
        line["id"] for line in _lines(OLTP, "--view", "changefeed", "--table", "sb.sbtest2", "--limit", 5)
    ]


def test_a_file_is_not_left_half_written(tmp_path: Path) -> None:
    file = tmp_path / "changes.parquet"
    file.write_bytes(b"older")
    with pytest.raises(SchemaError, match=r"TABLE_NOT_FOUND.*no\.such"):
        run_changes(OLTP, file, "--output", "parquet", "--table", "no.such")
    assert file.read_bytes() == b"older"
    with pytest.raises(StorageError, match="NOT_FOUND"):
        run_changes(OLTP, tmp_path / "no folder" / "file", "--output", "parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["changes.parquet"]


def test_table_for_people_shows_changes() -> None:
    text = run_changes(OLTP, "--limit", 3)
    assert "sb.sbtest" in text
    assert "insert" in text
    assert "The first 3 rows" in text
    assert "No changes" in run_changes(OLTP, "--tables", "no.such")
    assert "insert" in run_changes(OLTP, "--view", "changefeed", "--table", "sb.sbtest1", "--limit", 1)


def test_wrong_use_is_named() -> None:
    for arguments, message in (
        (["--view", "changefeed"], "MISSING"),
        (["--output", "parquet"], "MISSING"),
        (["file.parquet", "--output", "jsonl"], "MISSING"),
        (["--tables", "("], "INVALID_VALUE"),
        (["--start", "yesterday"], "INVALID_VALUE"),
    ):
        with pytest.raises(BinlogError, match=message):
            run_changes(OLTP, *arguments)
    with pytest.raises(StartError, match="PATH_NOT_FOUND"):
        run_changes(OLTP / "nowhere")


def test_messages_of_a_real_log_say_what_its_changes_are() -> None:
    """`--output debezium` and `flat`, beside the changes as they are."""
    changes = _lines(OLTP)
    printed = run_changes(OLTP, "--output", "debezium", "--topic-prefix", "shop")
    messages = [json.loads(line) for line in printed.split("\n")[:-1]]
    values = [message["value"] for message in messages if message["value"] is not None]
    assert {message["topic"] for message in messages} == {f"shop.{one['database']}.{one['table']}" for one in changes}
    assert len(changes) > 1000
    # No change of this log moves a key, so each is one message, and each delete has a tombstone.
    assert [value["op"] for value in values] == [str(one["op"])[0].replace("i", "c") for one in changes]
    assert [(value["before"], value["after"]) for value in values] == [(one["before"], one["after"]) for one in changes]
    assert [value["source"]["gtid"] for value in values] == [one["gtid"] for one in changes]
    tombstones = [message["key"] for message in messages if message["value"] is None]
    assert tombstones == [message["key"] for message in messages if (message["value"] or {}).get("op") == "d"]
    flat = [json.loads(line)["value"] for line in run_changes(OLTP, "--output", "flat").split("\n")[:-1]]
    rows = [{name: one for name, one in value.items() if name[:2] != "__"} for value in flat if value is not None]
    assert rows == [value["after"] or value["before"] for value in values]


def test_statements_that_change_rows_are_told_once_for_each_table() -> None:
    app = typer.Typer()
    app.callback()(lambda: None)
    app.command()(command)
    result = CliRunner().invoke(app, ["changes", str(_case("ops")), "--output", "jsonl"])
    warnings = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert sorted(line.split(": ")[1] for line in warnings[:-1]) == ["t.audit", "t.many", "t.sv3"]
    assert warnings[-1].startswith("warning: 12 statements change rows without row events")
    result = CliRunner().invoke(app, ["changes", str(_case("ops")), "--output", "jsonl", "--tables", "t[.]nt"])
    nothing = "warning: the log has no changes of 't[.]nt'. Tables with changes there: t."
    assert result.stderr.startswith(nothing)
    assert re.search(r" and \d+ more\n$", result.stderr)


@pytest.mark.parametrize("output", ["jsonl", "debezium", "flat"])
def test_rules_in_a_file_hide_columns_and_rows(tmp_path: Path, output: str) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[[tables]]\ncolumns = ['id', 'c']\nmask = { c = 'text -' }\nwhere = 'id <= 100'\n")
    text = run_changes(OLTP, "--output", output, "--rules", rules)
    found = [json.loads(line) for line in text.splitlines()]
    messages = [one["value"] for one in found if one.get("value")] if output != "jsonl" else found
    rows = messages if output == "flat" else [one["after"] or one["before"] for one in messages]
    assert len(rows) > 100
    metadata = {name for row in rows for name in row if name.startswith("__")}
    assert {frozenset(row) - metadata for row in rows} == {frozenset(["id", "c"])}
    assert {row["c"] for row in rows} == {"-"}
    assert max(row["id"] for row in rows) <= 100


def test_rules_that_are_none_are_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"option rules: Object contains unknown field `columnz`"):
        run_changes(OLTP, "--rules", '{"columnz": []}')
    with pytest.raises(OptionError, match=r"columns names column idd, and its columns are id, k, c, pad"):
        run_changes(OLTP, "--rules", '{"columns": ["idd"]}')
