"""Verdicts on a model job, beside what happens next: random histories of a server, its job, and looks at both.

`BINLOG_STREAM_HISTORIES=10000` runs so many; the number of a history is its seed.
"""

from __future__ import annotations

import os
import random
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from binlog_streaming.status.model import BATCHES_MAX, BatchStatus, Level, LogStatus, Phase, PurgeRisk, PurgeStatus
from binlog_streaming.status.wording import (
    BEHIND_SECONDS,
    CURRENT_SECONDS,
    STAMP_SECONDS,
    STILL_SECONDS,
    verdict_of,
    work_left,
)
from tests.streaming.status.states import NOW, state

if TYPE_CHECKING:
    from binlog_streaming.status.model import RecordedStatus

COUNT = int(os.environ.get("BINLOG_STREAM_HISTORIES", "200"))
CHUNKS = 4
LOOKS = 12
UNKNOWN = PurgeStatus(PurgeRisk.UNKNOWN)
DURATION = re.compile(r"-?\d[\d.]* (?:s|min|h|d)\b")


@dataclass
class Commit:
    """A transaction of the server. *is_known*: its commit time is in the log."""

    at: float
    size: int
    is_known: bool = True


@dataclass
class Taken:
    """A batch of the job. *last*: number of transactions that are taken after it."""

    begun: float
    ended: float
    first: int
    last: int


@dataclass
class History:
    """What a server wrote, and when its job took it; times are seconds since the start."""

    random: random.Random
    commits: list[Commit] = field(default_factory=list)
    batches: list[Taken] = field(default_factory=list)
    started_at: float = 0.0
    hangs: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        chance = self.random
        self.speed = 10 ** chance.uniform(4, 8)
        self.overhead = 10 ** chance.uniform(-2, 0.7)
        self.batch_size = int(self.speed * max(10 ** chance.uniform(-0.5, 2.5), self.overhead))
        self.poll = chance.choice((0.1, 1.0, 5.0))
        self._write()
        if chance.random() < 0.3:
            begin = chance.uniform(0, self.end)
            self.hangs = begin, begin + 10 ** chance.uniform(1, 3.5)
        self.batches = self.taken_from(0.0, 0)

    @property
    def end(self) -> float:
        return self.commits[-1].at

    def _write(self) -> None:
        """Phases of a server: quiet, few changes, a load below or above the job's speed, a burst."""
        chance, at = self.random, 0.0
        knows_times = chance.random() < 0.9
        for _ in range(chance.randint(1, 5)):
            share, count, length = chance.choice(
                ((0.001, 20, 600), (0.3, 60, 300), (0.9, 60, 300), (1.5, 60, 300), (3.0, 40, 60), (1e4, 5, 0.05))
            )
            at += chance.choice((0.0, 1.0, 30.0, 400.0))
            for step in range(count):
                size = self.speed * share * length / count * chance.uniform(0.5, 1.5)
                self.commits.append(Commit(at + length * step / count, max(int(size), 1), knows_times))
            at += length

    def taken_from(self, now: float, first: int, until: float | None = None) -> list[Taken]:
        """Batches of a job that goes on at a time, with what was committed until then; None: with everything."""
        batches, commits = [], self.commits
        while first < len(commits) and (until is None or commits[first].at <= until):
            if commits[first].at > now:
                now = commits[first].at + self.random.uniform(0, self.poll)
            last, size = first, 0
            while last < len(commits) and commits[last].at <= now and (size == 0 or size < self.batch_size):
                if until is not None and commits[last].at > until:
                    break
                size += commits[last].size
                last += 1
            ended = now + self.overhead + size / self.speed
            if now <= self.hangs[1] and ended >= self.hangs[0]:
                ended = max(ended, self.hangs[1])
            batches.append(Taken(now, ended, first, last))
            now, first = ended, last
        return batches


@dataclass
class Look:
    """A history as it is seen at one time.

    Attributes:
        taken: Number of transactions in finished batches.
        left: Seconds until all that waits is taken, if the server writes nothing more.
    """

    history: History
    now: float

    def __post_init__(self) -> None:
        history = self.history
        finished = [batch for batch in history.batches if batch.ended <= self.now]
        self.taken = finished[-1].last if finished else 0
        self.waiting = [commit for commit in history.commits[self.taken :] if commit.at <= self.now]
        self.longest = max((batch.ended - batch.begun for batch in finished), default=0.0)
        self.quiet = self.now - finished[-1].ended if finished else self.now
        self.state = self._recorded(finished[-BATCHES_MAX:])
        self.log = self._log()
        going = [batch for batch in history.batches if batch.begun <= self.now < batch.ended]
        after, first = (going[0].ended, going[0].last) if going else (self.now, self.taken)
        later = [*going, *history.taken_from(after, first, until=self.now)]
        self.left = later[-1].ended - self.now if later and self.waiting else 0.0
        self.hangs = any(
            batch.begun <= history.hangs[1] and batch.ended >= history.hangs[0] for batch in (*later, *finished)
        )

    def _recorded(self, finished: list[Taken]) -> RecordedStatus:
        batches, commits = [], self.history.commits
        for number, batch in enumerate(finished):
            taken = commits[batch.first : batch.last]
            known = float(int(taken[-1].at)) if taken[-1].is_known else None
            batches.append(
                BatchStatus(
                    number=number,
                    finished_at=NOW + batch.ended,
                    log_seconds=None if known is None else max(batch.begun - known, 0.0),
                    read_seconds=(batch.ended - batch.begun) / 2,
                    commit_seconds=(batch.ended - batch.begun) / 2,
                    changes=len(taken),
                    size=sum(commit.size for commit in taken),
                    tables=1,
                    position=f"1:{batch.last}:0",
                    gtids="",
                )
            )
        return state(
            started_at=NOW, seen_at=NOW + self.now, batches=tuple(batches), tables=(), minutes=(),
            offset={"version": 1} if finished else None,
        )  # fmt: skip

    def _log(self) -> LogStatus:
        age = None
        if not self.waiting:
            age = 0.0
        elif self.waiting[0].is_known:
            age = max(NOW + self.now - int(NOW + self.waiting[0].at), 0.0)
        size = sum(commit.size for commit in self.waiting)
        return LogStatus(None, age, len(self.waiting), size, 1, "", "binlog-000001.ibb", UNKNOWN)


def looks(seed: int) -> list[Look]:
    history = History(random.Random(seed))
    ends = [batch.ended for batch in history.batches]
    places = [*ends, *(commit.at for commit in history.commits), history.hangs[1]]
    times = [history.random.uniform(0, ends[-1] + 100) for _ in range(LOOKS)]
    times += [place + history.random.choice((0.0, 0.3, 2.0, 20.0)) for place in history.random.choices(places, k=LOOKS)]
    return [Look(history, now) for now in times]


def seconds_of(told: str) -> float:
    number, unit = told.split()
    return float(number) * {"s": 1, "min": 60, "h": 3_600, "d": 86_400}[unit]


@pytest.mark.parametrize("seed", range(CHUNKS))
def test_verdict_is_what_the_job_does_next(seed: int) -> None:
    for number in range(seed, COUNT, CHUNKS):
        for look in looks(number):
            check(look, f"history {number} at {look.now:.1f} s")


def check(look: Look, where: str) -> None:
    """What is said of a job, beside what it does next."""
    now, behind, slack = NOW + look.now, look.log.waiting_seconds, 2 * look.longest + look.history.poll + STAMP_SECONDS
    verdict, work = verdict_of(Phase.RUNNING, look.state, look.log, now), work_left(look.state, look.log, now)
    told = f"{where}: {verdict.text} {verdict.advice}"
    stopped = verdict_of(Phase.STOPPED, replace(look.state, ended_at=now), look.log, now).text
    assert ("not taken" in stopped) is bool(look.waiting), where
    for lag in DURATION.findall(verdict.text.partition(", about")[0]):
        assert 0 <= seconds_of(lag) <= look.now + slack, f"older than the history: {told}"
    if not look.waiting:
        assert verdict.text.startswith("Current" if look.state.batches else "Running, no batch"), told
        return
    if not look.state.batches or behind is None:
        assert verdict.text.startswith("Running"), told
        return
    if not look.hangs:
        assert work is None or look.left / 2 - slack <= work <= 3 * look.left + slack, f"{look.left}: {told}"
        assert not verdict.text.startswith("Current") or look.left <= 2 * CURRENT_SECONDS + slack, told
    is_nearer = verdict.text.startswith("Catching up")
    assert is_nearer is (work is not None and work < behind) or verdict.text.startswith("Current"), told
    stands_still = look.quiet > STILL_SECONDS + 3 * look.longest
    assert not (is_nearer and stands_still), told
    if behind > BEHIND_SECONDS and not is_nearer:
        assert verdict.level is Level.WARNING, told
        assert any("No batch has been finished lately" in line for line in verdict.advice) is (
            work is None and look.quiet > STILL_SECONDS
        ), told
