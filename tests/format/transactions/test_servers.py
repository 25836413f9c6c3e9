"""XA transactions and savepoints in the logs of real servers."""

from __future__ import annotations

import itertools
import json

import pytest

from binlog_format import open_log
from binlog_format.transactions.xa import PreparedXa, XaKind, pending_after
from tests.corpus import SERVER_CASES

MARIADB_CASES = ["mariadb-10.11/ops", "mariadb-10.11/ops_compressed"]
MYSQL_CASES = ["mysql-9/ops", "mysql-9/ops_zstd"]
XA_GTIDS = {
    "mariadb-10.11/ops": ("0-1011-133", "0-1011-134", "0-1011-139"),
    "mariadb-10.11/ops_compressed": ("0-1011-133", "0-1011-134", "0-1011-139"),
}


def _rows(case: str, **options: object) -> list[tuple[int, str | None]]:
    """Id and GTID of each row of `t.many` after a change."""
    rows = []
    with open_log(str(SERVER_CASES / case)) as log:
        for batch in log.changes(tables=r"t\.many", **options):  # type: ignore[arg-type]
            rows += [
                (json.loads(row["after"])["id"], row["gtid"]) for row in batch.to_pylist() if row["after"] is not None
            ]
    return rows


@pytest.mark.parametrize("case", MARIADB_CASES + MYSQL_CASES)
def test_xa_rows_come_at_their_commit_or_never(case: str) -> None:
    rows = dict(_rows(case))
    assert {6001, 6002, 6005} <= rows.keys()
    assert 6003 not in rows, "XA ROLLBACK X'00ff27'"
    assert 3004 not in rows, "between SAVEPOINT `q1` and ROLLBACK TO `q1`"
    gtids = [gtid for row, gtid in rows.items() if row in (6001, 6002, 6005)]
    if case in XA_GTIDS:
        assert tuple(gtids) == XA_GTIDS[case]
    numbers = [int(str(gtid).replace(":", "-").rsplit("-", 1)[1]) for gtid in gtids]
    assert [later - first for first, later in itertools.pairwise(numbers)] == [1, 5]


@pytest.mark.parametrize("case", MARIADB_CASES + MYSQL_CASES)
def test_steps_of_xa_transactions_are_found_by_headers(case: str) -> None:
    with open_log(str(SERVER_CASES / case)) as log:
        steps = log.span(log.start_position()).xa
        assert [(step.kind, step.xid.gtrid) for step in steps] == [
            (XaKind.PREPARED, b"xa1"),
            (XaKind.COMMITTED, b"xa1"),
            (XaKind.PREPARED, b"\x00\xff'"),
            (XaKind.ROLLED_BACK, b"\x00\xff'"),
            (XaKind.PREPARED, b"xa5"),
            (XaKind.COMMITTED, b"xa5"),
        ]
        assert pending_after((), steps) == ()
        assert pending_after((), steps[:5]) == (PreparedXa(steps[4].xid, steps[4].position),)


@pytest.mark.parametrize("case", MARIADB_CASES + MYSQL_CASES)
def test_reading_from_the_middle_finds_the_rows_before_it(case: str) -> None:
    whole = _rows(case)
    with open_log(str(SERVER_CASES / case)) as log:
        commit = log.span(log.start_position()).xa[-1]
    later = _rows(case, start=commit.position)
    assert later == whole[len(whole) - len(later) :]
    assert later[0][0] == 6005
