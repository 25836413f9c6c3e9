from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format import open_log
from binlog_format.errors import CorruptError
from binlog_format.transactions.expansion import expanded
from binlog_format.views.events import EVENTS_SCHEMA, EventsView, StatementTexts
from binlog_format.views.filters import GroupFilter, TableFilter
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
