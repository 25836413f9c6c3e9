"""A server killed inside a write, and what it writes after its recovery.

An encrypted log is named as such, never taken for damage or for an empty log. Values around and beyond 16 MB in
compressed logs, by their hashes. MariaDB cases once more, with their row events in fragments: the same truth, out of
both containers.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from binlog_format import open_log
from binlog_format.errors import UnsupportedError
from tests.format.fragments.fragmented_files import fragmented_copy
from tests.truth.comparison import Comparison
from tests.truth.reading import decoding_of_log, json_changes, typed_changes
from tests.truth.replay import replay, rows_that_differ
from tests.truth.test_repacked_logs import repacked
from tests.truth.truth_case import ENCRYPTED, HUGE, TORN, case

if TYPE_CHECKING:
    from pathlib import Path


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


def test_encrypted_log_is_refused_with_its_key_version() -> None:
    truth = case(ENCRYPTED)
    assert truth.variables["encrypt_binlog"] == "ON"
    assert "key version 1" in truth.settings["algorithm"]
    with pytest.raises(UnsupportedError, match=r"\bversion 1 of the key\b") as raised:
        json_changes(truth.path)
    assert raised.value.condition == "BINLOG_UNSUPPORTED.ENCRYPTED"
    assert "mysql-bin.000001" in str(raised.value)


@pytest.mark.parametrize("name", HUGE)
def test_huge_values_in_json(name: str) -> None:
    truth = case(name)
    assert Comparison(truth).compare(json_changes(truth.path), truth.logged()).changes == 5


@pytest.mark.parametrize("name", HUGE)
def test_huge_values_typed(name: str) -> None:
    truth = case(name)
    assert Comparison(truth, typed=True).compare(typed_changes(truth.path, "t.h"), truth.logged()).changes == 5


CASES = ["ops", "ops_compressed", "types_full"]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("threshold", "number_first"), [(48, False), (120, True)])
def test_changes_are_what_the_server_did(name: str, threshold: int, number_first: bool, tmp_path: Path) -> None:
    truth = case(f"mariadb-10.11/{name}")
    log = tmp_path / "log"
    assert fragmented_copy(truth.path, log, threshold, number_first=number_first) > 10
    for path in (log, repacked(log, tmp_path / "ibb")):
        changes = json_changes(path)
        assert Comparison(truth).compare(changes, truth.logged()).changes == len(truth.logged())
        assert rows_that_differ(truth, replay(truth, changes), declared=False) == []


def test_changes_of_a_log_without_checksums_and_names(tmp_path: Path) -> None:
    """The definitions come from the DDL in the log."""
    truth = case("mariadb-10.11/ops_nochecksum")
    log = tmp_path / "log"
    assert fragmented_copy(truth.path, log, 60) > 10
    changes = json_changes(log, decoding=decoding_of_log(log))
    assert Comparison(truth, declared=True).compare(changes, truth.logged()).all_changes == len(truth.logged())
