"""The real log `oltp_small` of MariaDB 10.11, and what its four tables hold at the end."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from tests.corpus import SERVER_CASES

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

OLTP = SERVER_CASES / "mariadb-10.11" / "oltp_small"
TABLES = ("sbtest1", "sbtest2", "sbtest3", "sbtest4")
CHANGES = 400 + 1200
"""Rows loaded first, then 300 transactions of two updates, a delete and an insert."""
IMAGES = CHANGES + 600


def truth(table: str) -> list[tuple[int, int, str, str]]:
    """Rows that the server had at the end, by primary key."""
    with gzip.open(OLTP / f"{table}.csv.gz", "rt", newline="") as file:
        return [(int(row["id"]), int(row["k"]), row["c"], row["pad"]) for row in csv.DictReader(file)]


def mirror(directory: Path, table: str) -> list[tuple[object, ...]]:
    """Rows of the Delta table, by primary key."""
    rows = DeltaTable(str(directory / "sb" / table)).to_pyarrow_table().sort_by("id")
    return [tuple(row.values()) for row in rows.to_pylist()]


def play_changelog(path: Path) -> tuple[list[tuple[object, ...]], Counter[str]]:
    """`play` of a Delta table."""
    return play(DeltaTable(str(path)).to_pyarrow_table())


def play(table: pa.Table) -> tuple[list[tuple[object, ...]], Counter[str]]:
    """What a changelog makes of an empty table, row by row: the rows at the end, and how many changes of each kind.

    Nothing is doubled, nothing is missing: every place in the log comes once, and every image of a row before a change
    is what the changes so far have made of it.
    """
    order = ("_commit_version", "_event_no", "_row_no")
    state: dict[object, tuple[object, ...]] = {}
    places = set()
    kinds: Counter[str] = Counter()
    # Of an update, the image before comes first.
    before_first = {"update_postimage": 1}
    rows = table.to_pylist()
    rows.sort(key=lambda row: (*(row[name] for name in order), before_first.get(row["_change_type"], 0)))
    for row in rows:
        kind = row["_change_type"]
        values = (row["id"], row["k"], row["c"], row["pad"])
        place = (*(row[name] for name in order), kind)
        assert place not in places
        places.add(place)
        kinds[kind] += 1
        if kind in ("insert", "update_postimage"):
            assert row["id"] not in state
            state[row["id"]] = values
        else:
            assert state.pop(row["id"]) == values
    return sorted(state.values()), kinds
