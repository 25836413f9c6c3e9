from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format import open_log
from binlog_format.errors import CorruptError
from binlog_format.log.log import ReadRange
from binlog_format.transactions.expansion import expanded
from binlog_format.views.changes import ChangesView
from binlog_format.views.events import EVENTS_SCHEMA, EventsView, StatementTexts
from binlog_format.views.filters import GroupFilter, TableFilter
from binlog_format.views.transactions import TransactionsView
from tests.corpus import SERVER_CASES
from tests.format.views.made_log import MadeGroup, MadeLog, query
from tests.format.views.made_tables import Work, works

PAIRS = [("mariadb-10.11/ops", "mariadb-10.11/ops_compressed"), ("mysql-9/ops", "mysql-9/ops_zstd")]


def events_of(case: str, **options: object) -> pa.Table:
    with open_log(str(SERVER_CASES / case)) as log:
        return pa.Table.from_batches(list(EventsView(**options).batches(expanded(log.blocks()))), schema=EVENTS_SCHEMA)  # type: ignore[arg-type]


@given(works(), st.integers(1, 5), st.sampled_from([1, 2, 1000]))
def test_every_event_is_a_row(work: Work, block_groups: int, piece_events: int) -> None:
    """Row events name the table of their table map, also when that stands in an earlier piece of the group."""
    log = MadeLog(work.groups, block_groups=block_groups, piece_events=piece_events)
    found = [row for batch in EventsView().batches(log.blocks()) for row in batch.to_pylist()]
    expected = [
        (str(group.gtid) if group.gtid else None, number, len(event))
        for group in work.groups
        for number, event in enumerate(group.all_events())
    ]
    assert [(row["gtid"], row["event_no"], row["size"]) for row in found] == expected
    by_place = {(str(row["position"]), row["event_no"]): row for row in found}
    for change in work.changes:
        row = by_place[str(dataclasses.asdict(log.position(change.group))), change.event_no]
        assert (row["database"], row["table"]) == (change.spec.database, change.spec.table)
        assert row["type"] == {"insert": "write", "update": "update", "delete": "delete"}[change.op] + "_rows_v1"


@pytest.mark.parametrize(("plain", "compressed"), PAIRS)
def test_compressed_log_shows_the_same_events_and_how_they_are_stored(plain: str, compressed: str) -> None:
    one, other = events_of(plain), events_of(compressed)
    for name in ("type", "database", "table"):
        assert one[name].to_pylist() == other[name].to_pylist(), name
    assert one["stored_as"].null_count == one.num_rows
    stored = {name for name in other["stored_as"].to_pylist() if name is not None}
    assert stored <= {
        "query_compressed",
        "write_rows_compressed_v1",
        "update_rows_compressed_v1",
        "delete_rows_compressed_v1",
        "transaction_payload",
    }
    assert stored


@pytest.mark.parametrize("case", ["mariadb-10.11/ops", "mysql-9/ops"])
def test_filter_on_tables_keeps_events_about_them(case: str) -> None:
    every = events_of(case).to_pylist()
    kept = events_of(case, tables=TableFilter(r"t\.a")).to_pylist()
    assert kept == [row for row in every if (row["database"], row["table"]) == ("t", "a")]
    assert kept


def test_groups_are_chosen() -> None:
    every = events_of("mariadb-10.11/ops").to_pylist()
    kept = events_of("mariadb-10.11/ops", groups=GroupFilter(ignored_domains=(0,))).to_pylist()
    assert kept == [row for row in every if not row["gtid"].startswith("0-")]


def test_statement_in_another_character_set_is_shown_all_the_same() -> None:
    log = MadeLog([MadeGroup(None, 1, [query("SELECT 1"), query("x").replace(b"x", b"\xe9")])])
    (batch,) = EventsView().batches(log.blocks())
    assert batch["text"].to_pylist() == ["SELECT 1", "\N{REPLACEMENT CHARACTER}"]


@given(st.data())
def test_damaged_events_are_a_named_error(data: st.DataObject) -> None:
    (block,) = MadeLog([MadeGroup(None, 1, [query("SELECT 1"), query("DROP TABLE a")])]).blocks()
    events = block.events.copy()
    events["size"][data.draw(st.integers(0, 1))] = data.draw(st.integers(0, 40))
    try:
        batches = list(EventsView().batches([dataclasses.replace(block, events=events)]))
        found = str(batches[0].num_rows)
    except CorruptError as error:
        found = error.condition
    assert found in ("BINLOG_CORRUPT.BAD_EVENT", "2")


@pytest.mark.parametrize("case", ["mariadb-10.11/ops", "mysql-9/ops"])
def test_statement_of_rows_is_that_of_the_event_before(case: str) -> None:
    texts = StatementTexts()
    said = 0
    with open_log(str(SERVER_CASES / case)) as log:
        for block in log.committed_blocks():
            codes, found = texts.of_rows(block)
            is_row = np.isin(block.events["type"], [23, 24, 25, 30, 31, 32])
            words = {23: "INSERT", 30: "INSERT", 25: "DELETE", 32: "DELETE"}
            for event in np.flatnonzero(is_row & (codes >= 0)).tolist():
                text = found[int(codes[event])].as_py()
                said += text.lstrip().upper().startswith(words.get(int(block.events["type"][event]), "UPDATE"))
    assert said > 100


CASES = ["mariadb-10.11/ops", "mariadb-10.11/ops_compressed", "mysql-9/ops", "mysql-9/ops_zstd", "mysql-9/hugeblob"]


def rows_of(view: TransactionsView, log: MadeLog) -> list[dict[str, object]]:
    return [row for batch in view.batches(log.committed_blocks()) for row in batch.to_pylist()]


@given(works(), st.integers(1, 5), st.sampled_from([1, 2, 1000]))
def test_counts_are_those_of_the_changes(work: Work, block_groups: int, piece_events: int) -> None:
    """Whatever blocks and pieces the groups come in."""
    log = MadeLog(work.groups, block_groups=block_groups, piece_events=piece_events)
    found = rows_of(TransactionsView(), log)
    assert [row["gtid"] for row in found] == [str(group.gtid) if group.gtid else None for group in work.groups]
    assert [row["events"] for row in found] == [len(group.all_events()) for group in work.groups]
    assert [row["bytes"] for row in found] == [sum(map(len, group.all_events())) for group in work.groups]
    for number, row in enumerate(found):
        changes = [change for change in work.changes if change.group == number]
        ops = Counter(change.op for change in changes)
        assert (row["inserts"], row["updates"], row["deletes"]) == (ops["insert"], ops["update"], ops["delete"])
        assert row["tables"] == list(dict.fromkeys(change.spec.full_name for change in changes))


@given(works())
def test_filter_on_tables_leaves_transactions_with_their_rows(work: Work) -> None:
    log = MadeLog(work.groups, piece_events=2)
    found = rows_of(TransactionsView(tables=TableFilter(r"shop\..*")), log)
    wanted = [change for change in work.changes if change.spec.database == "shop"]
    assert [row["position"] for row in found] == [
        dataclasses.asdict(log.position(number)) for number in dict.fromkeys(change.group for change in wanted)
    ]
    assert sum(int(str(row["inserts"])) for row in found) == sum(change.op == "insert" for change in wanted)


@pytest.mark.parametrize("case", CASES)
def test_sums_of_a_server_s_log_are_those_of_its_changes(case: str) -> None:
    with open_log(str(SERVER_CASES / case)) as log:
        found = pa.Table.from_batches(list(TransactionsView().batches(log.committed_blocks())))
        changes = pa.Table.from_batches(list(ChangesView().batches(log.committed_blocks())))
        groups = sum(int(block.groups["ends"].sum()) for block in log.committed_blocks())
    ops = Counter(changes["op"].to_pylist())
    assert found.num_rows == groups
    assert [sum(found[name].to_pylist()) for name in ("inserts", "updates", "deletes")] == [
        ops[op] for op in ("insert", "update", "delete")
    ]
    with_rows = [
        gtid for gtid, tables in zip(found["gtid"].to_pylist(), found["tables"].to_pylist(), strict=True) if tables
    ]
    assert with_rows == list(dict.fromkeys(changes["gtid"].to_pylist()))


@pytest.mark.parametrize("case", ["mariadb-10.11/oltp_small", "mysql-9/oltp_small"])
def test_transaction_of_rows_has_no_statements(case: str) -> None:
    """MySQL logs a BEGIN, which is none."""
    with open_log(str(SERVER_CASES / case)) as log:
        found = pa.Table.from_batches(list(TransactionsView().batches(log.committed_blocks()))).to_pylist()
    assert {row["statements"] for row in found if row["tables"]} == {0}
    assert {row["statements"] for row in found if not row["tables"] and row["events"] == 2} <= {0, 1}
    assert sum(row["statements"] for row in found) == 5


def test_groups_are_kept_by_origin_and_time() -> None:
    with open_log(str(SERVER_CASES / "mariadb-10.11" / "ops")) as log:

        def gtids(groups: GroupFilter) -> list[str]:
            return [
                gtid
                for batch in TransactionsView(groups=groups).batches(log.committed_blocks())
                for gtid in batch["gtid"].to_pylist()
            ]

        every = gtids(GroupFilter())
        assert gtids(GroupFilter(ignored_domains=(0,))) == [gtid for gtid in every if not gtid.startswith("0-")]
        assert gtids(GroupFilter(ignored_servers=(77,))) == [gtid for gtid in every if "-77-" not in gtid]
        seconds = [
            int(block.groups["timestamp"][i]) for block in log.committed_blocks() for i in range(len(block.groups))
        ]
        middle = seconds[len(seconds) // 2]
        first, last = gtids(GroupFilter(first_second=middle)), gtids(GroupFilter(last_second=middle))
        assert first == [gtid for gtid, second in zip(every, seconds, strict=True) if second >= middle]
        assert last == [gtid for gtid, second in zip(every, seconds, strict=True) if second <= middle]
        assert gtids(ReadRange.of(log, "0-1011-5", "0-1011-8").groups) == ["0-1011-6", "0-1011-7", "0-1011-8"]
