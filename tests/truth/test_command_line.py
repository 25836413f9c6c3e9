"""`binlog-stream changes` prints for every case what the Python face gives."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.streaming.cli.test_changes import run_changes
from tests.truth.comparison import Comparison
from tests.truth.reading import Change, decoding_of_log, json_changes, schema_text, typed_changes
from tests.truth.truth_case import NAMED, NAMELESS, case
from tests.truth.truth_values import Number

if TYPE_CHECKING:
    from pathlib import Path


def as_change(line: dict[str, Any]) -> Change:
    place = line["position"]
    return Change(
        gtid=line["gtid"],
        op=line["op"],
        table=f"{line['database']}.{line['table']}",
        before=line["before"],
        after=line["after"],
        absent=tuple(line["absent"] or ()),
        order=(place["file_no"], place["page"], place["chunk"], line["event_no"], line["row_no"]),
    )


def lines(*arguments: object) -> list[Change]:
    text = run_changes(*arguments, "--output", "jsonl")
    return [as_change(json.loads(line, parse_float=Number)) for line in text.split("\n") if line]


@pytest.mark.parametrize("name", NAMED)
def test_json_lines_are_what_the_server_did(name: str) -> None:
    truth = case(name)
    tally = Comparison(truth, declared=True).compare(lines(truth.path), truth.logged())
    assert tally.all_changes == len(truth.logged())


@pytest.mark.parametrize("name", NAMELESS)
def test_json_lines_with_the_ddl_of_the_log(name: str) -> None:
    truth = case(name)
    tally = Comparison(truth, declared=True).compare(lines(truth.path), truth.logged())
    assert tally.all_changes == len(truth.logged())


@pytest.mark.parametrize("name", ["mariadb-10.11/ops_nochecksum", "mariadb-10.11/ops_minimal"])
def test_json_lines_from_the_middle_know_what_tables_were_there(name: str) -> None:
    """DDL before the start states what the columns are after it."""
    path = case(name).path
    wanted = json_changes(path, start="0-1011-100", decoding=decoding_of_log(path))
    assert lines(path, "--start", "0-1011-100") == wanted
    assert wanted


@pytest.mark.parametrize("name", ["mariadb-10.11/types_noblob_metamin", "mariadb-10.11/types_minimal_nolog"])
def test_json_lines_with_a_schema_file(name: str, tmp_path: Path) -> None:
    truth = case(name)
    path = tmp_path / "schema.sql"
    path.write_text(schema_text(truth))
    found = lines(truth.path, "--schema-file", path)
    tally = Comparison(truth, declared=True).compare(found, truth.logged())
    assert tally.all_changes == len(truth.logged())


@pytest.mark.parametrize(
    ("name", "table"), [("mariadb-10.11/types_full", "t.t_int"), ("mysql-9/types_full", "t.t_geo")]
)
def test_arrow_file_has_the_typed_changes(name: str, table: str, tmp_path: Path) -> None:
    truth = case(name)
    path = tmp_path / "changes.arrow"
    run_changes(truth.path, "--table", table, "--output", "arrow", path)
    with pa.ipc.open_file(path) as reader:
        rows = reader.read_all().to_pylist()
    assert [as_change(row) for row in rows] == typed_changes(truth.path, table)
