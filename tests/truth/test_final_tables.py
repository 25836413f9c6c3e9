"""Four connections at once: the changes, replayed, give the tables that the server dumped."""

from __future__ import annotations

import csv
import gzip
import hashlib
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.truth.reading import json_changes, typed_changes
from tests.truth.truth_case import FINAL_TABLES, case_path, expected_json

if TYPE_CHECKING:
    from pathlib import Path

    from tests.truth.reading import Change

TABLES = [f"sb.sbtest{number}" for number in range(1, 5)]


def final_rows(changes: list[Change]) -> dict[str, dict[int, dict[str, Any]]]:
    """Rows by table and id; each row that goes must be as it was left."""
    tables: dict[str, dict[int, dict[str, Any]]] = {}
    for change in changes:
        rows = tables.setdefault(change.table, {})
        if change.before is not None:
            assert rows.pop(change.before["id"]) == change.before
        if change.after is not None:
            assert change.after["id"] not in rows
            rows[change.after["id"]] = change.after
    return tables


def check_table(folder: Path, table: str, rows: dict[int, dict[str, Any]]) -> None:
    """Compare with the dump, its hash and the sums that the server made."""
    told = expected_json(folder)["tables"][table]
    with gzip.open(folder / f"{table.removeprefix('sb.')}.csv.gz", "rt", newline="") as file:
        content = file.read()
    assert hashlib.sha256(content.encode()).hexdigest() == told["csv_sha256"]
    header, *wanted = csv.reader(content.splitlines())
    assert [[str(rows[key][name]) for name in header] for key in sorted(rows)] == wanted
    assert (len(rows), sum(rows), sum(row["k"] for row in rows.values())) == (
        told["rows"],
        told["sum_id"],
        told["sum_k"],
    )


@pytest.mark.parametrize("name", FINAL_TABLES)
def test_replayed_changes_of_four_connections_give_the_dumped_tables(name: str) -> None:
    folder = case_path(name)
    changes = json_changes(folder)
    truth = expected_json(folder)
    counts = Counter(change.op for change in changes)
    assert counts["update"] + counts["delete"] == 3 * truth["transactions"]
    assert sum(counts.values()) == truth["row_changes_oltp"] + truth["load_rows"]
    tables = final_rows(changes)
    assert sorted(tables) == TABLES
    for table, rows in tables.items():
        check_table(folder, table, rows)


@pytest.mark.parametrize("name", FINAL_TABLES)
@pytest.mark.parametrize("table", TABLES)
def test_typed_changes_of_four_connections_give_the_dumped_table(name: str, table: str) -> None:
    changes = typed_changes(case_path(name), table)
    assert changes == json_changes(case_path(name), tables=re.escape(table))
    check_table(case_path(name), table, final_rows(changes)[table])
