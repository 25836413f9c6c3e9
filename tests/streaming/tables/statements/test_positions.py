"""What a target says of where it stands, at every step of a batch with statements."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import pytest

from binlog_connector.crash_points import watched
from binlog_format import open_log
from binlog_streaming.lake.commit_id import GTID_POSITION_KEY, commit_id_of
from binlog_streaming.settings import Mode, TableFormat, TableRule, UnknownValues
from binlog_streaming.tables.apply import apply_component
from binlog_streaming.tables.open_targets import read_target_state
from tests.faults.processes import Cut, CutOff
from tests.streaming.tables.batches import cut, plan, run
from tests.streaming.tables.jobs.test_plan import GROUPS_MAX
from tests.streaming.tables.lake.sink_cases import MIRROR_SINKS, Place
from tests.streaming.tables.shop import ShopLog
from tests.streaming.tables.statements.statement_stories import ORDERS, PRICED, STEPS_MAX

if TYPE_CHECKING:
    from pathlib import Path

    from tests.streaming.tables.statements.statement_stories import Story

MIRROR = TableRule(select=r"shop\.orders", unknown_values=UnknownValues.NULL)
CHANGELOG = TableRule(select=r"shop\.orders", mode=Mode.CHANGELOG)
CASES = [(form, MIRROR) for form in MIRROR_SINKS] + [(form, CHANGELOG) for form in TableFormat]
IDS = [f"{form}-{rule.mode}" for form, rule in CASES]


class Batches:
    """Batches of one table, so many event groups each; batch n ends at `0-1-n`, whatever is in it."""

    def __init__(self, folder: Path, story: Story, sizes: tuple[int, ...], table_format: TableFormat, rule: TableRule):
        self.log = folder / "log"
        self.sizes = sizes
        self.rule = rule
        self.place = Place(folder / "lake", table_format)
        if not self.log.exists():
            with ShopLog(self.log) as log:
                story(log)

    def write(self, batch_id: int) -> None:
        """A batch, whole."""
        with open_log(str(self.log)) as log:
            groups = cut(log, GROUPS_MAX)[-sum(self.sizes) :]
            low, high = list(pairwise(accumulate(self.sizes, initial=0)))[batch_id]
            batch = groups[low][0], groups[high - 1][1]
            (component,) = plan(log, batch, (self.rule,)).components
            of_all = run(self.place.directory, batch_id, batch[1], sink=self.place.sink)
            apply_component(replace(of_all, gtid_position=f"0-1-{batch_id}"), component, log)

    def say(self, gtid: str) -> None:
        """What a replay does behind its last batch."""
        with closing(self.place.target()) as target:
            commit_id = commit_id_of(target.properties() or {}, "q-1", "shop.orders", self.rule.modes[0])
            target.set_properties(commit_id, recorded={GTID_POSITION_KEY: gtid})

    def stands_at(self) -> str | None:
        """What the target says; None: nothing."""
        with closing(self.place.target()) as target:
            state = read_target_state(target, "shop.orders", self.rule.modes[0])
        assert state is not None
        return None if state.gtid is None else str(state.gtid)

    def content(self) -> list[str]:
        """Rows of the target."""
        return sorted(map(str, self.place.content().to_pylist()))


def rows_around_statements(log: ShopLog) -> None:
    log.insert(ORDERS, (1, "a"))
    log.insert(ORDERS, (2, "b"))
    log.statement("ALTER TABLE orders ADD COLUMN price INT DEFAULT 5")
    log.insert(PRICED, (3, "c", 7))


def columns_without_a_statement(log: ShopLog) -> None:
    log.insert(ORDERS, (1, "a"))
    log.insert(PRICED, (2, "b", 7))


@pytest.mark.thorough_where("iceberg")
@pytest.mark.parametrize(("story", "sizes"), [(rows_around_statements, (1, 3)), (columns_without_a_statement, (1, 1))])
@pytest.mark.parametrize(("table_format", "rule"), CASES, ids=IDS)
def test_target_says_the_end_of_a_batch_when_it_has_all_of_it(
    tmp_path: Path, table_format: TableFormat, rule: TableRule, story: Story, sizes: tuple[int, ...]
) -> None:
    whole = Batches(tmp_path / "whole", story, sizes, table_format, rule)
    whole.write(0)
    before = whole.content()
    whole.write(1)
    assert whole.stands_at() == "0-1-1"
    for step in range(1, STEPS_MAX):
        batches = Batches(tmp_path / str(step), story, sizes, table_format, rule)
        batches.write(0)
        batches.say("0-1-0")
        try:
            with watched(CutOff(step)):
                batches.write(1)
        except Cut:
            recorded = batches.stands_at()
            assert recorded != "0-1-1" or batches.content() == whole.content(), step
            assert recorded != "0-1-0" or batches.content() == before, step
            batches.write(1)
            assert batches.stands_at() == "0-1-1", step
            assert batches.content() == whole.content()
        else:
            assert step > 2
            return
    raise AssertionError("there are more steps")


@pytest.mark.thorough_where("iceberg")
@pytest.mark.parametrize(("table_format", "rule"), CASES, ids=IDS)
def test_last_step_that_commits_nothing_says_the_end_too(
    tmp_path: Path, table_format: TableFormat, rule: TableRule
) -> None:
    def story(log: ShopLog) -> None:
        log.insert(PRICED, (1, "a", 3))
        log.insert(PRICED, (2, "b", 4))
        log.statement("ALTER TABLE orders DROP COLUMN price")
        log.insert(ORDERS, (3, "c"))

    batches = Batches(tmp_path, story, (1, 2, 1), table_format, rule)
    for batch_id in range(3):
        batches.write(batch_id)
        assert batches.stands_at() == f"0-1-{batch_id}"
