"""The life of a server that is older than its log: `SnapshotLife`; the job's tables, or topics, get snapshots."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from binlog_lab.simulator.life import Life
from binlog_lab.simulator.script import Act
from binlog_lab.simulator.settings import SNAPSHOT_TOPICS_SHARE, TOPIC_PREFIX
from binlog_lab.simulator.snapshots.model_snapshot import ModelSnapshots
from binlog_lab.simulator.topics.lived_topics import LivedTopicsJob

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from binlog_lab.simulator.lived_job import LivedTablesJob
    from binlog_lab.simulator.script import LifeStep, Script
    from binlog_lab.simulator.server import StateAfterGroup

_FIRST_TRANSACTIONS = 4
_STEPS_MAX = 200
"""Steps in which snapshots of all tables end, once nothing else happens."""


class SnapshotLife(Life):
    """A life in which the log begins after the tables have rows; nothing takes groups back.

    Tables get what is missing in them by snapshots; topics get the rows that there are as messages of their own.

    Args:
        script: See `AnyLife`.
        folder: See `AnyLife`.
    """

    def __init__(self, script: Script, folder: Path) -> None:
        super().__init__(script, folder)
        self.outcome.kind = f"{self._lived.kind}, with snapshots"
        has_topics = isinstance(self._lived, LivedTopicsJob)
        self._snapshots = ModelSnapshots(self._server, TOPIC_PREFIX if has_topics else None)

    def _new_job(self, chance: Random) -> LivedTablesJob | LivedTopicsJob:
        if Random(f"topics with snapshots {self.script.seed}").random() < SNAPSHOT_TOPICS_SHARE:
            return self._new_topics_job(chance)
        lived = self._new_tables_job(chance)
        lived.begin_with_snapshots()
        return lived

    def _begin(self) -> None:
        chance = self.script.chance
        for number in range(chance.choice((1, 2, 3))):
            self._tell(f"server: {self._server.create(number)}")
        for _ in range(_FIRST_TRANSACTIONS):
            self._tell(f"server: {self._server.last}: {self._server.transaction(chance)}")
        for _ in range(3):  # files that a crash may change stay
            self._server.rotate()
        self._tell(f"server: purges files {self._server.purge(1)}")
        self._reasons.began_at = self._server.purged_to
        super()._begin()

    def _of_server(self, step: LifeStep) -> str:
        if step.act is not Act.SNAPSHOT:
            return super()._of_server(step)
        chance = step.chance
        if self._snapshots.publisher is not None:
            self.outcome.reached.add("snapshot for topics")
        return "; ".join(self._snapshots.step(chance) for _ in range(chance.choice((1, 2, 4))))

    def _catch_up(self) -> None:
        chance, told = Random(self.script.seed), ""
        for _ in range(_STEPS_MAX):
            if told == "no table is left":
                break
            told = self._snapshots.step(chance)
            if told == "rows are locked":
                self._server.xa(chance)
        self._tell(f"server: snapshots end, the last group is {self._server.last}")
        super()._catch_up()

    def _expected(self) -> Mapping[int, StateAfterGroup]:
        if self._snapshots.publisher is not None:  # of groups before the log nobody gets changes
            began_at = self._reasons.began_at
            return {
                number: state if number > began_at else replace(state, changes=())
                for number, state in self._truth.items()
            }
        ended = self._snapshots.ended
        return {
            number: replace(state, tables={name: state.tables[name] for name in ended if number >= ended[name]})
            for number, state in self._truth.items()
        }
