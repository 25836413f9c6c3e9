"""Many histories on one server, and one job for all of them: `Round`."""

from __future__ import annotations

import random
import re
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from binlog_streaming.settings.choices import Evidence, Json, Merge, OnStatement, TableFormat
from tests.judge.histories.generator import Life
from tests.judge.histories.history import JOB_RUNS, History, Session
from tests.judge.histories.server_settings import set_globally, some_settings
from tests.judge.running import run_once
from tests.judge.servers import SYSTEM_TIME_ZONE
from tests.judge.topics import TOPIC, TopicsJudge
from tests.judge.verdicts import BAD, Run, SinkChoices, judge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.judge.running import JobEnd
    from tests.judge.servers import LiveServer
    from tests.judge.verdicts import Verdict

TARGETS: Sequence[tuple[SinkChoices, Mapping[str, object]]] = (
    (SinkChoices(), {}),
    (SinkChoices(merge=Merge.MARK), {}),
    (SinkChoices(json=Json.VARIANT), {"mode": "scd2"}),
    (SinkChoices(merge=Merge.REWRITE), {"deletes": "mark"}),
    (SinkChoices(TableFormat.ICEBERG), {"mode": "scd2"}),
    (SinkChoices(TableFormat.ICEBERG, Merge.MARK), {}),
    (SinkChoices(), {"unknown_values": "null", "rewritten": "null", "generated": "null"}),
    (SinkChoices(TableFormat.ICEBERG), {"unknown_values": "null", "rewritten": "null", "mode": "scd2"}),
)
"""What jobs write: a format, and settings of its tables."""
RULE = {"foreign_keys": "apply", "on_partition_drop": "apply"}
STEPS = (2, 12)
"""Statements of each half of a history, beside those that it begins with."""


@dataclass(frozen=True)
class Choices:
    """How a server lives histories, and how a job takes them.

    Attributes:
        evidence: What the job compares with its targets, which nobody else writes: nothing may be contradicted.
        on_drop: What becomes of rows of dropped tables; what gets their names begins anew.
        system_time_zone: Of the server, as the job states it; None: it does not.
        targets: One of `TARGETS`.
    """

    bytes_max: str | None = None
    evidence: Evidence = Evidence.ROWS
    on_drop: OnStatement = OnStatement.APPLY
    settings: Mapping[str, str] = field(default_factory=dict)
    system_time_zone: str | None = None
    targets: tuple[SinkChoices, Mapping[str, object]] = TARGETS[0]

    def run(self, server: LiveServer, work: Path) -> Run:
        """Such jobs."""
        sink, own = self.targets
        rule = {**RULE, "evidence": self.evidence, "on_drop": self.on_drop, **own}
        return Run(server.log_directory, work, rule, sink, self.bytes_max, self.system_time_zone)


@dataclass
class Judged:
    """A history, and what became of its tables.

    Attributes:
        history: It was lived.
        verdicts: By table.
        choices: Of the server and the job.
    """

    history: History
    verdicts: dict[str, Verdict]
    choices: Choices = field(default_factory=Choices)

    @property
    def bad(self) -> dict[str, Verdict]:
        """Those that are neither equal nor named."""
        return {name: verdict for name, verdict in self.verdicts.items() if verdict.kind in BAD}


@dataclass
class Round:
    """What a number decides: histories, and how the job takes them.

    Attributes:
        server: It runs; what it has is forgotten.
        work: A folder for targets.
        folds_names: The server does not tell letters of another case apart in names of tables.
    """

    server: LiveServer
    seed: str
    work: Path
    folds_names: bool = False
    count: int = 20
    histories: list[History] = field(default_factory=list)

    def judged(self) -> list[Judged]:
        """Live all histories, with the job in between, and judge their tables."""
        chance = random.Random(self.seed)
        # Drawn apart, so that the histories of a seed stay the same.
        evidence = random.Random(f"{self.seed}/evidence").choice((Evidence.ROWS, Evidence.ROWS, Evidence.KEYS))
        settings = some_settings(random.Random(f"{self.seed}/settings"), is_mysql=self.server.is_mysql)
        on_drop = random.Random(f"{self.seed}/on_drop").choice((OnStatement.APPLY, OnStatement.IGNORE))
        zone = random.Random(f"{self.seed}/zone").choice((None, SYSTEM_TIME_ZONE))
        targets = random.Random(f"{self.seed}/targets").choice(TARGETS)
        choices = Choices(chance.choice((None, "3k", "20k")), evidence, on_drop, settings, zone, targets)
        run = choices.run(self.server, self.work)
        self.server.forget()
        with set_globally(self.server, settings), ExitStack() as sessions:
            begun = self._live(chance, run, sessions)
            sessions.close()
            verdicts = judge(run, self.histories, begun)
            verdicts |= TopicsJudge(self.server, self.work).judge(self.histories)
        return [Judged(history, _own(history, verdicts), choices) for history in self.histories]

    def _live(self, chance: random.Random, run: Run, sessions: ExitStack) -> JobEnd | None:
        """Live all histories; how the job ended that ran in between, if one did."""
        lives = []
        for number in range(1, self.count + 1):
            history = History(number, f"{self.seed}/{number}")
            session = Session(self.server, history)
            sessions.callback(session.close)
            lives.append(Life(session, random.Random(history.seed), folds_names=self.folds_names))
        for life in lives:
            life.begin()
            life.go_on(chance.randint(*STEPS))
        begun = None
        if chance.random() < 0.5:
            begun = run_once(run.job())
            for life in lives:
                life.do(JOB_RUNS)
        for life in lives:
            life.go_on(chance.randint(*STEPS))
            life.session.keep_tables()
        self.histories = [life.session.history for life in lives]
        return begun


def replayed(
    server: LiveServer, work: Path, statements: Sequence[str], choices: Choices | None = None, *, topics: bool = True
) -> Judged:
    """The verdicts about a history of some statements, which may fail.

    Args:
        topics: They are judged, too; the server's log ends with a DELETE of all rows then.
    """
    choices = choices or Choices()
    server.forget()
    history = History(1, "")
    run = choices.run(server, work)
    begun = None
    with set_globally(server, choices.settings):
        with closing(Session(server, history)) as session:
            for statement in statements:
                session.do(statement)
                if statement == JOB_RUNS:
                    begun = run_once(run.job())
            session.keep_tables()
        verdicts = judge(run, [history], begun)
        verdicts |= TopicsJudge(server, work).judge([history]) if topics else {}
    return Judged(history, verdicts, choices)


def _own(history: History, verdicts: dict[str, Verdict]) -> dict[str, Verdict]:
    name_of = re.compile(rf"({TOPIC})?{history.database}(b?\..*)?")
    return {name: verdict for name, verdict in verdicts.items() if name_of.fullmatch(name)}
