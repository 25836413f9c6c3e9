"""Verdicts on jobs, in words; `BINLOG_STREAM_HISTORIES=10000` lets a model job live so many histories."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from math import inf
from random import Random

import pytest

from binlog_streaming.status.model import BatchStatus, Level, LogStatus, Phase, PurgeRisk, PurgeStatus, RecordedStatus
from binlog_streaming.status.wording import (
    CURRENT_SECONDS,
    STILL_SECONDS,
    bytes_text,
    clock_text,
    duration_text,
    verdict_of,
    visible,
    work_left,
)
from tests.streaming.status.states import DAY, HOSTILE, NOW, batch, error, log, state, trouble

TIMED = PurgeStatus(PurgeRisk.TIMED, "b-3.ibb", DAY, 4 * DAY)
SHORT = replace(TIMED, left_seconds=DAY / 2)
BEHIND = log(waiting_seconds=7_500.0, transactions=120_000, size=1_200_000_000)
FALLING = tuple(batch(n, lag=900.0 - n * 50, ago=20.0 - n * 2, size=10_000_000) for n in range(10))
RISING = tuple(batch(n, lag=100.0 + n * 50, ago=20.0 - n * 2, size=10_000_000) for n in range(10))

VERDICTS: dict[str, tuple[Phase, RecordedStatus, LogStatus | None, Level, str]] = {
    "all is well": (
        Phase.RUNNING, state(), log(), Level.OK,
        "Current, the last change came 1.2 s after its commit; safe for 3 d 4 h",
    ),
    "a moment behind": (
        Phase.RUNNING, state(), log(waiting_seconds=1.2, transactions=3, size=900), Level.OK,
        "Current, 1.2 s behind the server; safe for 3 d 4 h",
    ),
    "a burst that has just come": (
        Phase.RUNNING, state(batches=(batch(1, ago=20.0),)),
        log(waiting_seconds=1.2, transactions=3_000, size=900_000_000), Level.OK,
        "1.2 s behind the server (3,000 transactions, 900.0 MB); safe for 3 d 4 h",
    ),
    "a burst that is being taken": (
        Phase.RUNNING, state(batches=RISING), log(waiting_seconds=12.0, transactions=3_000, size=900_000_000), Level.OK,
        "12 s behind the server (3,000 transactions, 900.0 MB), about 2 min 31 s of work left; safe for 3 d 4 h",
    ),
    "catching up": (
        Phase.RUNNING, state(batches=FALLING), BEHIND, Level.OK,
        (
            "Catching up, 2 h 5 min behind the server (120,000 transactions, 1.2 GB), about 3 min 40 s of work left; "
            "safe for 3 d 4 h"
        ),
    ),
    "a burst that is being taken, later than it was committed": (
        Phase.RUNNING, state(batches=RISING), log(waiting_seconds=1_260.0, transactions=10_000, size=16_000_000),
        Level.OK,
        (
            "Catching up, 21 min behind the server (10,000 transactions, 16.0 MB), about 2.9 s of work left; "
            "safe for 3 d 4 h"
        ),
    ),
    "falling behind": (
        Phase.RUNNING, state(batches=RISING), replace(BEHIND, waiting_seconds=400.0, size=10_000_000_000),
        Level.WARNING,
        (
            "6 min 40 s behind the server (120,000 transactions, 10.0 GB), about 30 min of work left; safe for 3 d 4 h"
        ),
    ),
    "hanging: no batch for an hour, however few changes wait": (
        Phase.RUNNING, state(batches=(batch(1, ago=3_600.0),)), log(waiting_seconds=3_590.0, transactions=1, size=80),
        Level.WARNING, "59 min behind the server (1 transaction, 80 B); safe for 3 d 4 h",
    ),
    "purging comes closer": (
        Phase.RUNNING, state(), log(purge=TIMED), Level.WARNING,
        "Current, the last change came 1.2 s after its commit; only 1 d until the server may remove what the job needs",
    ),
    "purging is close": (
        Phase.RUNNING, state(), log(purge=SHORT), Level.DANGER,
        (
            "Current, the last change came 1.2 s after its commit; "
            "only 12 h until the server may remove what the job needs"
        ),
    ),
    "purging is due": (
        Phase.RUNNING, state(), log(purge=replace(TIMED, left_seconds=-5.0)), Level.DANGER,
        "Current, the last change came 1.2 s after its commit; the server may remove what the job needs at any moment",
    ),
    "purged": (
        Phase.RUNNING, state(),
        log(problem="[BINLOG_DATA_LOSS.FILE_PURGED] gone", purge=PurgeStatus(PurgeRisk.GONE, reason="file 3 is gone")),
        Level.DANGER,
        "Running, how far behind is not known; the server has removed what the job needs: file 3 is gone",
    ),
    "archived": (
        Phase.RUNNING, state(), log(purge=PurgeStatus(PurgeRisk.NONE)), Level.OK,
        "Current, the last change came 1.2 s after its commit; safe: an archive keeps what the server removes",
    ),
    "set aside": (
        Phase.RUNNING, state(tables=trouble()), log(), Level.WARNING,
        "Current, the last change came 1.2 s after its commit; safe for 3 d 4 h; 1 table set aside",
    ),
    "failed": (
        Phase.FAILED, state(errors=(error(),), ended_at=NOW - 7_500), log(transactions=5, size=4_000), Level.DANGER,
        (
            "Failed, not running since 20:08 UTC (2 h 5 min), 5 transactions, 4.0 kB not taken: "
            "[BINLOG_STORAGE.NO_SPACE] /srv/lake: cannot write: no space left; safe for 3 d 4 h"
        ),
    ),
    "killed": (
        Phase.LOST, state(seen_at=NOW - 100), log(), Level.DANGER,
        "Not running, no sign of life since 22:11 UTC (1 min 40 s), everything in the log is taken; safe for 3 d 4 h",
    ),
    "stopped": (
        Phase.STOPPED, state(ended_at=NOW - 30), log(), Level.WARNING,
        "Stopped since 22:12 UTC (30 s), everything in the log is taken; safe for 3 d 4 h",
    ),
    "done": (
        Phase.ENDED, state(ended_at=NOW - 30), log(), Level.OK,
        "Ended since 22:12 UTC (30 s) as asked, everything in the log is taken; safe for 3 d 4 h",
    ),
    "no log": (Phase.RUNNING, state(), None, Level.OK, "Running, the last change came 1.2 s after its commit"),
    "nothing yet": (
        Phase.RUNNING, state(batches=(), offset=None), log(problem="no batch"), Level.OK,
        "Running, no batch has been finished yet; safe for 3 d 4 h",
    ),
    "starting": (Phase.STARTING, state(started_at=NOW - 5), None, Level.OK, "Starting for 5.0 s"),
}  # fmt: skip


@pytest.mark.parametrize("case", VERDICTS)
def test_verdict_in_words(case: str) -> None:
    phase, job, shown, level, text = VERDICTS[case]
    verdict = verdict_of(phase, job, shown, NOW)
    assert (verdict.text, verdict.level) == (text, level)
    needs_nobody = verdict.level is Level.OK or text.startswith("Catching up")
    assert needs_nobody or verdict.advice, "what to do is told"


def test_a_risk_that_is_not_known_is_told_and_no_alarm() -> None:
    unknown = PurgeStatus(PurgeRisk.UNKNOWN, reason="set purge_after")
    verdict = verdict_of(Phase.RUNNING, state(), log(purge=unknown), NOW)
    assert (verdict.level, verdict.advice) == (Level.OK, ("set purge_after",))
    assert "safe" not in verdict.text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0 s"), (0.04, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.4, "59 s"), (60, "1 min"),
        (100, "1 min 40 s"), (3_599, "59 min"), (3_600, "1 h"), (7_500, "2 h 5 min"), (86_399, "23 h 59 min"),
        (86_400, "1 d"), (273_600, "3 d 4 h"), (1e9, "11574 d"),
    ],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_sizes_and_times() -> None:
    shown = [bytes_text(size) for size in (0, 999, 1_000, 999_600, 1_550_000, 2_500_000, 3_100_000_000, 5e12)]
    assert shown == ["0 B", "999 B", "1.0 kB", "1.0 MB", "1.6 MB", "2.5 MB", "3.1 GB", "5.0 TB"]
    assert clock_text(NOW, NOW) == "22:13 UTC"
    assert clock_text(NOW - DAY, NOW) == "2023-11-13 22:13 UTC"


def test_nothing_in_a_name_stays_hidden() -> None:
    shown = visible(HOSTILE)
    assert shown.isprintable()
    assert shown.startswith("<script>alert(1)</script>\"'`&\\u000a\\u202egnirts\\u2066\\u001b[31m")


SEEDS = 10
HISTORIES_PER_SEED = -(-int(os.environ.get("BINLOG_STREAM_HISTORIES", "200")) // SEEDS)
TAKEN_PER_SECOND, OVERHEAD, BATCH_MAX = 1_000_000, 0.2, 4_000_000
STOOD_SECONDS = STILL_SECONDS + 3 * (OVERHEAD + 2 * BATCH_MAX / TAKEN_PER_SECOND)
"""A model job that has finished nothing for so long is known to stand still."""


FATES = ("well", "hangs", "killed", "no times", "set aside")


def model_job(random: Random, seconds: int, fate: str) -> tuple[RecordedStatus, LogStatus, float, float]:
    """A job and its server until a moment: its record, what waits, that moment, and the seconds it then needs.

    A job that hangs or is killed takes nothing from some moment on; the times of some servers' commits are 0.
    """
    bursts = [(random.uniform(0, seconds), random.randrange(1, 40_000_000)) for _ in range(random.randrange(1, 6))]
    commits = [(NOW + at + n * random.choice((0.0, 0.001)), size // 200) for at, size in bursts for n in range(200)]
    commits = sorted((at, max(size, 1)) for at, size in commits if at < NOW + seconds)
    moment, clock, taken = NOW + seconds, NOW, 0
    batches: list[BatchStatus] = []

    def next_batch(limit: float) -> tuple[float, int, int] | None:
        begin = max(clock, commits[taken][0]) if taken < len(commits) else limit
        size, count = 0, taken
        while count < len(commits) and commits[count][0] <= begin and size < BATCH_MAX:
            size, count = size + commits[count][1], count + 1
        end = begin + OVERHEAD + size / TAKEN_PER_SECOND
        return (end, size, count) if size and end <= limit else None

    last = NOW + random.uniform(0, seconds) if fate in {"hangs", "killed"} else moment
    while (found := next_batch(last)) is not None:
        clock, size, taken = found
        made = batch(len(batches), lag=max(clock - commits[taken - 1][0], 0.0), ago=NOW - clock, size=size)
        log_seconds = None if fate == "no times" else made.log_seconds
        took = OVERHEAD + size / TAKEN_PER_SECOND
        batches.append(replace(made, log_seconds=log_seconds, read_seconds=0.0, commit_seconds=took))
    waiting = commits[taken:]
    seen_at = last if fate == "killed" else moment
    aside = trouble() if fate == "set aside" else ()
    record = state(batches=tuple(batches[-50:]), started_at=NOW, seen_at=seen_at, tables=aside)
    oldest = None if fate == "no times" else moment - waiting[0][0] if waiting else 0.0
    shown = log(
        waiting_seconds=oldest if waiting else 0.0,
        transactions=len(waiting),
        size=sum(size for _, size in waiting),
    )
    if waiting and fate in {"hangs", "killed"}:
        return record, shown, moment, inf
    while (found := next_batch(inf)) is not None and taken < len(commits):
        clock, _, taken = found
    return record, shown, moment, max(clock - moment, 0.0)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_model_job_does_what_its_verdict_says(seed: int) -> None:
    """No time from nothing, nothing absurd; the work that is left takes about as long as it says."""
    random = Random(seed)
    for _ in range(HISTORIES_PER_SEED):
        fate = random.choice(FATES)
        record, shown, now, needed = model_job(random, random.randrange(5, 600), fate)
        verdict = verdict_of(Phase.LOST if fate == "killed" else Phase.RUNNING, record, shown, now)
        assert ("1 table set aside" in verdict.text) == (fate == "set aside")
        assert fate != "set aside" or verdict.level is not Level.OK
        assert not re.search(r"\d d ", verdict.text.partition(";")[0]), verdict.text
        work = work_left(record, shown, now)
        if fate == "killed":
            assert verdict.text.startswith("Not running")
            assert ("everything in the log is taken" in verdict.text) == (shown.size == 0)
            continue
        if fate == "hangs" and shown.size:
            stands = now - max((batch.finished_at for batch in record.batches), default=NOW)
            assert stands < STOOD_SECONDS or (work is None and "Catching" not in verdict.text), verdict.text
            assert (shown.waiting_seconds or 0) <= CURRENT_SECONDS or "Current" not in verdict.text
            continue
        assert fate != "no times" or not re.search(r"\d (s|min|h|d) behind", verdict.text), verdict.text
        if shown.size == 0:
            assert verdict.text.startswith(("Current", "Running"))
        elif verdict.text.startswith("Current"):
            assert needed <= 4 * CURRENT_SECONDS + 1, (verdict.text, needed)
        if work is not None and shown.size > 4 * BATCH_MAX:
            assert needed / 4 <= work <= needed * 4 + 1, (verdict.text, needed)
        if verdict.text.startswith("Catching up"):
            assert needed < (shown.waiting_seconds or 0) * 4 + 1
