"""MariaDB cases once more, with their row events in fragments: the same truth, out of both containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.format.fragments.fragmented_files import fragmented_copy
from tests.truth.cases import case
from tests.truth.comparison import Comparison
from tests.truth.reading import json_changes
from tests.truth.replay import replay, rows_that_differ
from tests.truth.schemas import decoding_of_log
from tests.truth.test_repacked_logs import repacked

if TYPE_CHECKING:
    from pathlib import Path

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
