"""A server killed inside a write, and what it writes after its recovery."""

from __future__ import annotations

from collections import Counter

import pytest

from binlog_format import open_log
from tests.truth.cases import TORN, case
from tests.truth.comparison import Comparison
from tests.truth.reading import json_changes, typed_changes
from tests.truth.replay import replay, rows_that_differ

KILLED_STEP = 8


@pytest.mark.parametrize("name", TORN)
def test_changes_before_the_tear_are_given_and_the_torn_group_is_not(name: str) -> None:
    truth = case(name)
    wanted = [change for change in truth.logged("t.r") if change.step < KILLED_STEP]
    Comparison(truth).compare(json_changes(truth.path), wanted)
    Comparison(truth, typed=True).compare(typed_changes(truth.path, "t.r"), wanted)
    ids = [change.after["id"] for change in json_changes(truth.path) if change.after]
    assert sorted(set(ids)) == truth.settings["rows_after_crash_recovery"]


@pytest.mark.parametrize("name", TORN)
def test_end_of_data_is_after_the_last_whole_group(name: str) -> None:
    truth = case(name)
    with open_log(str(truth.path)) as log:
        span = log.span(log.start_position())
    # After the group there may be events that are none's, such as a checkpoint.
    assert truth.step_end(KILLED_STEP - 1) <= span.end
    assert (span.end.file_no, span.end.page, span.end.chunk) < (
        3,
        *divmod(truth.settings["last_complete_event_end"], 16384),
    )
    assert span.groups == len([gtid for step in truth.steps[:KILLED_STEP] for gtid in step["gtids"]])


@pytest.mark.parametrize("name", TORN)
def test_gtid_that_is_used_again_comes_once_with_the_rows_that_were_committed(name: str) -> None:
    truth = case(name)
    changes = json_changes(truth.path / "after_recovery")
    Comparison(truth).compare(changes, truth.logged())
    again = truth.steps[KILLED_STEP + 1]["gtids"][0]
    assert [change.after["id"] for change in changes if change.gtid == again and change.after] == [9999]
    assert rows_that_differ(truth, replay(truth, changes), declared=False) == []


@pytest.mark.parametrize("name", TORN)
def test_reading_on_after_the_recovery_gives_what_was_not_there(name: str) -> None:
    """The position that a reader of the torn log has kept is good in the recovered one."""
    truth = case(name)
    with open_log(str(truth.path)) as log:
        position = log.end_position()
    later = json_changes(truth.path / "after_recovery", start=position)
    Comparison(truth).compare(later, [change for change in truth.logged() if change.step > KILLED_STEP])
    assert Counter(change.op for change in later) == {"insert": 1}
