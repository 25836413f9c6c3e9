"""A log read in parts gives what it gives as a whole, wherever it is cut: nothing lost, nothing twice."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from binlog_format import Position, open_log
from tests.format.classic.logs import open_classic
from tests.truth.reading import changes_of, decoding_of_log, json_changes
from tests.truth.test_repacked_logs import of_mariadb, repacked
from tests.truth.truth_case import NAMED, NAMELESS, case

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_format.rows.decoding import Decoding

CUTS = 9


def cuts(path: Path) -> list[Position]:
    """Some positions of event groups, spread over the log."""
    with open_log(str(path)) as log:
        positions = [
            Position(*place)
            for block in log.blocks()
            for place in block.groups[["file_no", "page", "chunk"]][block.groups["begins"]].tolist()
        ]
    return positions[1 :: max(1, len(positions) // CUTS)]


def check_parts(path: Path, decoding: Decoding | None) -> None:
    whole = json_changes(path, decoding=decoding)
    edges = [None, *cuts(path), None]
    parts = [json_changes(path, start=start, end=end, decoding=decoding) for start, end in itertools.pairwise(edges)]
    assert len(parts) > CUTS
    assert [change for part in parts for change in part] == whole


@pytest.mark.thorough_where("ops_[nm]|types_[mno]|json")
@pytest.mark.parametrize("name", [*NAMED, *NAMELESS])
def test_parts_of_a_log_are_the_whole(name: str) -> None:
    """XA transactions among them are prepared in one part and committed in another."""
    truth = case(name)
    check_parts(truth.path, None if truth.has_names and name in NAMED else decoding_of_log(truth.path))


@pytest.mark.parametrize("name", of_mariadb(NAMED))
def test_parts_of_a_repacked_log_are_the_whole(name: str, tmp_path: Path) -> None:
    check_parts(repacked(case(name).path, tmp_path / "ibb"), None)


@pytest.mark.thorough_where("rotation|/ops|mysql-9/types|types_[mno]|json_full|20000")
@pytest.mark.parametrize("block_size", [512, 20_000])
@pytest.mark.parametrize("name", [*NAMED, *NAMELESS])
def test_blocks_of_other_sizes_give_the_same(name: str, block_size: int) -> None:
    """Transactions come in many pieces, with savepoints, XA and compressed events across their borders."""
    truth = case(name)
    decoding = None if name in NAMED else decoding_of_log(truth.path)
    with open_classic(truth.path, block_size=block_size) as log:
        assert changes_of(log.changes(decoding=decoding)) == json_changes(truth.path, decoding=decoding)


@pytest.mark.thorough_where("ops_[nm]|types_[mno]|json")
@pytest.mark.parametrize("name", [*NAMED, *NAMELESS])
def test_reading_after_a_gtid_gives_the_rest(name: str) -> None:
    truth = case(name)
    decoding = None if name in NAMED else decoding_of_log(truth.path)
    whole = json_changes(truth.path, decoding=decoding)
    is_mariadb = name.startswith("mariadb")
    first = truth.gtids[0].rstrip("0123456789")  # the domain and the server, or the UUID
    ends = [gtid.removeprefix(first) for gtid in truth.gtids]
    numbers = {first + end: int(end) for end in ends if end.isdigit()}
    middle = sorted(numbers.values())[len(numbers) // 2]
    point = f"{first}{middle}" if is_mariadb else f"{first}1-{middle}"
    wanted = [change for change in whole if numbers.get(change.gtid or "", middle + 1) > middle]
    assert 0 < len(wanted) < len(whole)
    assert json_changes(truth.path, start=point, decoding=decoding) == wanted


@pytest.mark.parametrize("name", ["mariadb-10.11/ops", "mysql-9/ops"])
def test_xa_rows_come_wherever_reading_starts_between_prepare_and_commit(name: str) -> None:
    truth = case(name)
    prepared = next(step for step in truth.steps if step["sql"] == "XA PREPARE 'xa5'")
    committed = next(step for step in truth.steps if step["sql"] == "XA COMMIT 'xa5'")
    for start in (truth.step_start(prepared["step"]), truth.step_end(prepared["step"])):
        changes = json_changes(truth.path, start=start)
        rows = [change for change in changes if change.after and change.after.get("id") == 6005]
        assert [change.gtid for change in rows] == committed["gtids"]
    changes = json_changes(truth.path, start=truth.step_end(committed["step"]))
    assert not [change for change in changes if change.after and change.after.get("id") == 6005]
    changes = json_changes(truth.path, end=truth.step_start(committed["step"]))
    assert not [change for change in changes if change.after and change.after.get("id") == 6005]
