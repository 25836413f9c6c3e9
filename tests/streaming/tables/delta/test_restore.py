"""Delta tables that somebody set back by RESTORE: what was taken away is not left out without a word."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from binlog_connector.crash_points import watched
from binlog_format import open_log
from binlog_format.errors import TableError
from binlog_streaming.job_state.progress import Outcome
from binlog_streaming.lake.commit_id import SET_ASIDE_PROPERTY
from binlog_streaming.lake.delta import log as delta_log
from binlog_streaming.lake.delta.actions import CommitInformation, DeltaTransaction, Line
from binlog_streaming.lake.delta.log import LogHistory
from binlog_streaming.lake.target import CrashPoint
from binlog_streaming.settings import Merge, OnError, TableFormat
from binlog_streaming.tables.apply import apply_component
from tests.streaming.tables.batches import cut, plan, run, write
from tests.streaming.tables.lake.sink_cases import COMMIT_ID, MIRROR_COMMIT_ID, Place, change_of, numbers
from tests.streaming.tables.shop import ShopLog
from tests.streaming.tables.statements.statement_stories import ID, NAME, ORDERS, wanted

if TYPE_CHECKING:
    from pathlib import Path

SET_BACK = r"OTHER_WRITER\] shop\.orders: .* had batch 3, step 0 in version {}, and was set back to an older version"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path, TableFormat.DELTA)
    for batch_id in range(4):
        place.append(batch_id, numbers(batch_id), MIRROR_COMMIT_ID)
    return place


def forgotten(place: Place) -> None:
    """As to a process that has not looked at the table before."""
    delta_log._kept.pop(place.uri, None)


def newest(place: Place) -> int:
    return int(DeltaTable(place.uri).version())


@pytest.mark.parametrize("checkpoint", [False, True], ids=["commits", "checkpoint"])
@pytest.mark.parametrize("is_new", [False, True], ids=["same process", "another process"])
def test_table_set_back_is_refused(place: Place, *, checkpoint: bool, is_new: bool) -> None:
    last = newest(place)
    DeltaTable(place.uri).restore(2)
    if checkpoint:
        DeltaTable(place.uri).create_checkpoint()
    if is_new:
        forgotten(place)
    for batch_id in (3, 4):  # also the batch that it had
        with pytest.raises(TableError, match=SET_BACK.format(last)):
            place.bring(change_of([(9, "y")]), batch_id=batch_id)
    assert place.ids() == [0, 1]


@pytest.mark.parametrize("copied_at", [0, 2], ids=["before its first batch", "later"])
def test_older_copy_in_the_place_of_a_table_is_refused_while_the_job_runs(tmp_path: Path, copied_at: int) -> None:
    place = Place(tmp_path, TableFormat.DELTA)
    copies = {}
    for batch_id in range(4):
        place.append(batch_id, numbers(batch_id), MIRROR_COMMIT_ID)
        copies[batch_id] = shutil.copytree(place.uri, tmp_path / f"copy-{batch_id}")
    shutil.rmtree(place.uri)
    shutil.copytree(copies[copied_at], place.uri)
    for _ in range(2):
        with pytest.raises(TableError, match=r"OTHER_WRITER\] shop\.orders: .* had batch 3, step 0 .* an older copy"):
            place.bring(change_of([(9, "y")]), batch_id=4)
    shutil.rmtree(place.uri)
    shutil.copytree(copies[3], place.uri)
    assert place.bring(change_of([(9, "y")]), batch_id=4)
    assert place.ids() == [0, 1, 2, 3, 9]


def test_table_set_forward_again_is_taken(place: Place) -> None:
    last = newest(place)
    DeltaTable(place.uri).restore(2)
    DeltaTable(place.uri).restore(3)
    DeltaTable(place.uri).restore(last)
    assert place.bring(change_of([(9, "y")]), batch_id=4)
    assert place.ids() == [0, 1, 2, 3, 9]
    forgotten(place)
    assert place.bring(change_of([(10, "y")]), batch_id=5)


def test_what_others_did_may_be_taken_back(place: Place) -> None:
    last = newest(place)
    DeltaTable(place.uri).delete("id = 2")
    DeltaTable(place.uri).restore(last)
    assert place.bring(change_of([(9, "y")]), batch_id=4)
    assert place.ids() == [0, 1, 2, 3, 9]


def test_set_forward_to_a_version_that_was_set_back_is_refused(place: Place) -> None:
    last = newest(place)
    DeltaTable(place.uri).restore(2)
    DeltaTable(place.uri).delete("id = 0")
    DeltaTable(place.uri).restore(last + 1)
    with pytest.raises(TableError, match=SET_BACK.format(last)):
        place.bring(change_of([(9, "y")]), batch_id=4)


@pytest.mark.parametrize("is_append", [False, True], ids=["merge", "append"])
def test_table_set_back_between_the_look_and_the_write(tmp_path: Path, *, is_append: bool) -> None:
    """Rows that are only added may come after commits of others, but not after this one."""
    with ShopLog(tmp_path / "log") as writer:
        writer.insert(ORDERS, (1, "a"))
        writer.insert(ORDERS, (2, "b"))
        writer.insert(ORDERS, (3, "c")) if is_append else writer.update(ORDERS, ((1, "a"), (3, "c")))
    place = Place(tmp_path / "tables", TableFormat.DELTA, merge_kind=Merge.MARK)
    with open_log(str(tmp_path / "log")) as log:
        first, second, third = cut(log, 3)
        for batch_id, batch in enumerate((first, second)):
            write(log, batch, place.directory, batch_id, sink=place.sink)

        last, held = newest(place), place.ids()

        def set_back(step: CrashPoint) -> None:
            if step is CrashPoint.FILES_WRITTEN and newest(place) == last:
                DeltaTable(place.uri).restore(last - 1)

        with watched(set_back), pytest.raises(TableError, match=r"OTHER_WRITER\] shop\.orders: .*was set back"):
            write(log, third, place.directory, 2, sink=place.sink)
    assert newest(place) == last + 1
    assert set(place.ids()) < set(held)


def test_table_that_was_set_back_is_set_aside_and_others_go_on(tmp_path: Path) -> None:
    with ShopLog(tmp_path / "log") as writer:
        for number in (1, 2, 3):
            writer.insert(ORDERS, (number, "a"))
            writer.insert(wanted("items", ID, NAME), (number, "a"))
    place = Place(tmp_path / "tables", TableFormat.DELTA)
    outcomes: dict[str, Outcome] = {}
    with open_log(str(tmp_path / "log")) as log:
        for batch_id, batch in enumerate(cut(log, 3)):
            planned = plan(log, batch)
            assert planned.end is not None
            of_all = replace(run(place.directory, batch_id, planned.end, sink=place.sink), on_error=OnError.SET_ASIDE)
            if batch_id == 2:
                DeltaTable(place.uri).restore(1)
            for component in planned.components:
                outcomes |= {one.source_table: one.outcome for one in apply_component(of_all, component, log)}
    assert outcomes == {"shop.orders": Outcome.SET_ASIDE, "shop.items": Outcome.WRITTEN}
    assert replace(place, name="shop/items").ids() == [1, 2, 3]
    assert place.ids() == [1]
    with closing(place.target()) as target:
        assert "was set back" in (target.properties() or {})[SET_ASIDE_PROPERTY]


def test_table_of_another_query_is_not_asked_for_steps_of_this_one(place: Place) -> None:
    DeltaTable(place.uri).restore(2)
    with closing(place.target()) as target:
        assert target.applied(replace(COMMIT_ID, query_id="q-2")) is None


def restore(to: object) -> Line:
    parameters = msgspec.Raw(json.dumps({"version": to}).encode())
    return Line(commit_info=CommitInformation(operation="RESTORE", operation_parameters=parameters))


@given(events=st.lists(st.none() | st.integers(0, 20), max_size=10), as_text=st.booleans(), data=st.data())
def test_history_knows_what_rows_of_steps_are_in_the_table(
    events: list[int | None], data: st.DataObject, *, as_text: bool
) -> None:
    """In a model where a version is the set of steps that it holds; None: a step, a number: RESTORE to that version."""
    held: list[set[int]] = [{0}]
    commits = [[Line(txn=DeltaTransaction(app_id="a", version=0))]]
    for event in events:
        version, steps = len(held), [number for number, lines in enumerate(commits) if lines[0].txn is not None]
        is_step = event is None and held[-1] >= {steps[-1]}  # nothing goes on after it was set back
        to = 0 if event is None else event % version
        commits.append(
            [Line(txn=DeltaTransaction(app_id="a", version=version))]
            if is_step
            else [restore(str(to) if as_text else to)]
        )
        held.append({*held[-1], version} if is_step else held[to])
    history = LogHistory()
    for version in data.draw(st.permutations(range(len(commits)))):
        history.take(version, commits[version])
    assert history.is_set_back("a") == (history.steps["a"] not in held[-1])
    assert not history.is_set_back("b")


@pytest.mark.parametrize("parameters", [b"null", b"{}", b'{"version":null,"timestamp":"2026-01-01"}', b"[", b'"x"'])
def test_restore_to_a_time_is_taken_for_one_that_loses_rows(parameters: bytes) -> None:
    history = LogHistory()
    history.take(0, [Line(txn=DeltaTransaction(app_id="a", version=0))])
    raw = msgspec.Raw(parameters)
    history.take(1, [Line(commit_info=CommitInformation(operation="RESTORE", operation_parameters=raw))])
    assert history.is_set_back("a")
    del history.restores[1]
    assert not history.is_set_back("a")
