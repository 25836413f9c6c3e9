"""A mirror and another program's compaction of its table: both come to an end, and the table is right."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from binlog_streaming.lake.delta import commit as commit_module
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.lake.target import CrashPoint
from binlog_streaming.settings import Merge, Sink
from binlog_streaming.settings.choices import partition_rule
from binlog_streaming.tables.open_targets import ATTEMPTS_MAX, OpenTargets
from tests.streaming.tables.lake.sink_cases import INT_KEY, MIRROR_COMMIT_ID, change_of, numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from typing import Self

    from binlog_streaming.lake.change import Change
    from binlog_streaming.lake.commit_id import CommitId

MERGES = [Merge.REWRITE, Merge.MARK]
PARTITIONED = replace(MIRROR_COMMIT_ID, partition_by=(partition_rule("value"),))
BATCHES, BURST = 60, 6


def bring(targets: OpenTargets, uri: str, change: Change, commit_id: CommitId) -> int:
    """Bring a step of a mirror in, as jobs do; number of attempts."""
    attempts = 0

    def write(target: DeltaTarget) -> None:
        nonlocal attempts
        attempts += 1
        if not target.is_done(commit_id):
            target.merge(change, commit_id)

    targets.write_with_retry(uri, write)  # type: ignore[arg-type]
    return attempts


def held(uri: str) -> dict[int, str]:
    rows = DeltaTarget.at(Sink(directory=""), uri).read().read_all().to_pylist()
    values = {row["id"]: row["value"] for row in rows}
    assert len(values) == len(rows)
    return values


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table with two files in each of the partitions `a` to `h`, of the ids 10 to 17 and 20 to 27."""
    target = DeltaTarget.at(Sink(directory=""), str(tmp_path))
    target.create(INT_KEY, PARTITIONED)
    for first in (10, 20):
        rows = numbers(*range(first, first + 8)).set_column(1, "value", [[*"abcdefgh"]])
        DeltaTarget.at(Sink(directory=""), str(tmp_path)).append(rows.to_reader(), replace(PARTITIONED, step=first))
    return str(tmp_path)


def compact(uri: str, values: Iterable[str]) -> None:
    """Join the files of some partitions, each in a commit of its own."""
    for value in values:
        assert DeltaTable(uri).optimize.compact([("value", "=", value)])["numFilesRemoved"] == 2


@pytest.fixture
def before_commits(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Sets what another program does when the files of a commit are written, each time."""

    def give(act: Callable[[], None]) -> None:
        def reached(point: CrashPoint) -> None:
            if point is CrashPoint.FILES_WRITTEN:
                act()

        monkeypatch.setattr(commit_module, "reached", reached)

    return give


@pytest.mark.parametrize("merge", MERGES)
def test_compaction_of_other_files_needs_no_second_attempt(
    uri: str, merge: Merge, before_commits: Callable[[Callable[[], None]], None]
) -> None:
    """Else one that commits each partition for itself would win every time."""
    before = held(uri)
    version = DeltaTable(uri).version()
    before_commits(lambda: compact(uri, "bcdefg"))
    targets = OpenTargets(Sink(directory="", merge=merge), DeltaTarget)
    assert bring(targets, uri, change_of([(10, "a"), (30, "a")], [20]), replace(PARTITIONED, batch_id=1)) == 1
    assert held(uri) == {key: value for key, value in before.items() if key != 20} | {30: "a"}
    # An upgrade of the table for vectors is part of our commit.
    assert DeltaTable(uri).version() == version + 7


@pytest.mark.parametrize("merge", MERGES)
def test_rows_of_compacted_files_are_looked_up_again(
    uri: str, merge: Merge, before_commits: Callable[[Callable[[], None]], None]
) -> None:
    before = held(uri)
    values = iter("a")
    before_commits(lambda: compact(uri, values))
    targets = OpenTargets(Sink(directory="", merge=merge), DeltaTarget)
    assert bring(targets, uri, change_of([(10, "a"), (11, "x")], [20]), replace(PARTITIONED, batch_id=1)) == 2
    assert held(uri) == {key: value for key, value in before.items() if key != 20} | {11: "x"}


@pytest.mark.parametrize("key", [10, 300])
def test_a_change_of_rows_by_others_is_no_compaction(
    uri: str, key: int, before_commits: Callable[[Callable[[], None]], None]
) -> None:
    """Another writer may have brought a key that was not there, in other files than those that change."""
    keys = iter(range(100, 200))

    def insert() -> None:
        write_deltalake(uri, numbers(next(keys)).set_column(1, "value", [["h"]]), mode="append")

    before_commits(insert)
    targets = OpenTargets(Sink(directory="", merge=Merge.MARK), DeltaTarget)
    with pytest.raises(CommitFailedError):
        bring(targets, uri, change_of([(key, "b")]), replace(PARTITIONED, batch_id=1))
    assert next(keys) == 100 + ATTEMPTS_MAX


class LoopingCompactor:
    """deltalake's compaction, one after the other, within `with`."""

    def __init__(self, uri: str) -> None:
        self.outcomes: Counter[str] = Counter()
        self._uri = uri
        self._is_over = False
        self._ended = threading.Condition()
        self._thread = threading.Thread(target=self._compact)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._thread.join()

    def wait_for_a_whole_one(self) -> None:
        """Wait for the end of one that began after this call."""
        with self._ended:
            wanted = self.outcomes.total() + 2
            assert self._ended.wait_for(lambda: self.outcomes.total() >= wanted, timeout=60)

    def _compact(self) -> None:
        while not self._is_over:
            try:
                made = DeltaTable(self._uri).optimize.compact()["numFilesAdded"]
                outcome = "made" if made else "nothing to do"
            except CommitFailedError:
                outcome = "lost"
            with self._ended:
                self.outcomes[outcome] += 1
                self._ended.notify_all()


@pytest.mark.parametrize("merge", MERGES)
def test_neither_a_mirror_nor_a_compactor_in_a_loop_starves(tmp_path: Path, merge: Merge) -> None:
    """Batches come in bursts: after each one a compaction has the time that it takes."""
    uri = str(tmp_path / "table")
    targets = OpenTargets(Sink(directory=str(tmp_path), merge=merge), DeltaTarget)
    targets.get(uri).create(INT_KEY, MIRROR_COMMIT_ID)
    targets.get(uri).append(numbers(*range(500)).to_reader(), MIRROR_COMMIT_ID)
    model: dict[int, str] = dict.fromkeys(range(500), "x")
    with LoopingCompactor(uri) as compactor:
        for batch_id in range(1, BATCHES + 1):
            inserted, updated, deleted = 1000 + batch_id, batch_id, 250 + batch_id
            changes_rows = batch_id % 4 == 0
            updates = [(updated, "u")] if changes_rows else []
            change = change_of([(inserted, "n"), *updates], [deleted] if changes_rows else [])
            bring(targets, uri, change, replace(MIRROR_COMMIT_ID, batch_id=batch_id))
            targets.reopen(uri)
            model |= {inserted: "n", **dict(updates)}
            if changes_rows:
                model.pop(deleted)
            if batch_id % BURST == 0:
                compactor.wait_for_a_whole_one()
    assert held(uri) == model
    assert compactor.outcomes["made"] >= BATCHES // BURST // 2, compactor.outcomes
