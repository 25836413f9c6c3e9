"""Durations, sizes, times and names as people read them, on a terminal and on the page.

State of a job, in one line and a level: `verdict_of`.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from binlog_format.messages import count_text
from binlog_streaming.status.model import Level, Phase, PurgeRisk, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_streaming.status.model import BatchStatus, LogStatus, PurgeStatus, RecordedStatus


NAMES_SHOWN_MAX = 20
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))
# What moves the cursor, ends a line, or turns the direction of what follows.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


_ACCESS = re.compile(r"(?<=://)[^/@\s]+@")
"""A user, a password or a key, in a URL."""


def duration_text(seconds: float) -> str:
    """Two units at most: `1.2 s`, `47 s`, `6 min`, `2 h 5 min`, `3 d 4 h`."""
    if seconds < 9.95:
        return f"{max(seconds, 0):.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    for number, (unit, size) in enumerate(_UNITS):
        if seconds >= size:
            whole, rest = divmod(int(seconds), size)
            if unit == "min":
                return f"{whole} min {rest} s" if whole < 10 and rest else f"{whole} min"
            smaller, smaller_size = _UNITS[number + 1]
            part = rest // smaller_size
            return f"{whole} {unit} {part} {smaller}" if part and whole < 100 else f"{whole} {unit}"
    return f"{seconds:.0f} s"


def bytes_text(size: float) -> str:
    """Size in the largest decimal unit that it fills."""
    value, unit = float(size), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"


def clock_text(seconds: float, now: float) -> str:
    """`12:03 UTC` of the same day, else with its date."""
    when = time.gmtime(seconds)
    form = "%H:%M UTC" if time.gmtime(now)[:3] == when[:3] else "%Y-%m-%d %H:%M UTC"
    return time.strftime(form, when)


def names_text(names: Sequence[str]) -> str:
    """The first names, and the number of the others."""
    more = f" and {len(names) - NAMES_SHOWN_MAX} more" if len(names) > NAMES_SHOWN_MAX else ""
    return f"{', '.join(names[:NAMES_SHOWN_MAX])}{more}"


def without_access(text: str) -> str:
    """*text* without the users, passwords and keys that URLs in it may contain."""
    return _ACCESS.sub("", text)


def visible(text: str) -> str:
    """*text* with everything spelled out that would not be seen, or would change how other text is shown."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


CURRENT_SECONDS = 15.0
"""A change that waits no longer than this is about to be taken, where the work that is left takes no longer either."""
BEHIND_SECONDS = 300.0
"""Lag in seconds from which on there is a warning; docs/monitoring.md alerts at the same value."""
SAFE_SHARE = 0.5
"""Share of the server's expiry: less time left is a warning, less than `DANGER_SHARE` is urgent."""
DANGER_SHARE = 0.2
STILL_SECONDS = 60.0
"""A job with work that has finished no batch for so long, beside three times its longest one, stands still."""
STAMP_SECONDS = 1.0
"""Servers state commit times in whole seconds."""
RECENT_BATCHES = 10
"""Number of batches from which the speed of a job is computed."""


def verdict_of(phase: Phase, state: RecordedStatus, log: LogStatus | None, now: float) -> Verdict:
    """Verdict on a job, for people.

    Args:
        log: What the job's log shows; None: it reads none.
        now: Seconds since 1970 UTC.
    """
    parts = [_activity(phase, state, log, now), *_hazards(state, log)]
    texts = [text for _, text, _ in parts if text]
    level = max((level for level, _, _ in parts), key=lambda level: level.rank)
    first, *others = texts
    return Verdict(level, "; ".join([f"{first[:1].upper()}{first[1:]}", *others]), tuple(a for _, _, a in parts if a))


_Part = tuple[Level, str, str]
"""Urgency, text and advice."""


def _activity(phase: Phase, state: RecordedStatus, log: LogStatus | None, now: float) -> _Part:
    if phase is Phase.STARTING:
        return Level.OK, f"starting for {duration_text(now - state.started_at)}", ""
    if phase is Phase.RUNNING:
        return _running(state, log, now)
    since = state.seen_at if state.ended_at is None else state.ended_at
    when = f"since {clock_text(since, now)} ({duration_text(now - since)})"
    waiting = _waiting(log)
    if phase is Phase.ENDED:
        return Level.OK, f"ended {when} as asked{waiting}", ""
    if phase is Phase.STOPPED:
        return Level.WARNING, f"stopped {when}{waiting}", "Start it again: it goes on where it was."
    if phase is Phase.FAILED:
        error = state.errors[-1] if state.errors else None
        told = "" if error is None else f": {error.text}"
        hint = None if error is None else error.hint
        return Level.DANGER, f"failed, not running {when}{waiting}{told}", hint or "Put that right, and start it again."
    advice = "Its process was killed, or its machine is gone: start it again, it goes on where it was."
    return Level.DANGER, f"not running, no sign of life {when}{waiting}", advice


def _waiting(log: LogStatus | None) -> str:
    if log is None or log.problem is not None:
        return ""
    return f", {_amount(log)} not taken" if log.size else ", everything in the log is taken"


def _running(state: RecordedStatus, log: LogStatus | None, now: float) -> _Part:
    latest = state.batches[-1] if state.batches else None
    if state.offset is None and latest is None:
        return Level.OK, "running, no batch has been finished yet", ""
    if log is None:
        return Level.OK, f"running{_latency(latest)}", ""
    if log.problem is not None:
        return Level.WARNING, "running, how far behind is not known", log.problem
    if log.size == 0:
        return Level.OK, f"current{_latency(latest)}", ""
    behind = log.waiting_seconds
    if behind is None:
        return Level.OK, f"running, {_amount(log)} behind", ""
    work = work_left(state, log, now)
    if behind <= CURRENT_SECONDS and _is_taken_soon(state, log, work):
        return Level.OK, f"current, {duration_text(behind)} behind the server", ""
    text = f"{duration_text(behind)} behind the server ({_amount(log)})"
    level = Level.WARNING if behind > BEHIND_SECONDS else Level.OK
    advice = "Its last batch took long: look at the batches, and at docs/tuning.md."
    if latest is None or now - latest.finished_at > STILL_SECONDS:
        advice = "No batch has been finished lately: look at the batches, and at its errors."
    if work is not None:
        text = f"{text}, about {duration_text(work)} of work left"
        # What waits was written since the oldest of it was: the server writes as fast as that.
        if work < behind:
            return Level.WARNING if work > BEHIND_SECONDS else Level.OK, f"catching up, {text}", ""
        advice = "The server writes as much as it takes, or more: docs/tuning.md."
    return level, text, advice if level is Level.WARNING else ""


def _is_taken_soon(state: RecordedStatus, log: LogStatus, work: float | None) -> bool:
    """True if what waits is little: where the speed is not known, no more than one short batch took before."""
    if work is not None:
        return work <= CURRENT_SECONDS
    short = (batch.size or 0 for batch in state.batches if batch.read_seconds + batch.commit_seconds <= CURRENT_SECONDS)
    return log.size <= max(short, default=0)


def _latency(latest: BatchStatus | None) -> str:
    if latest is None or latest.lag_seconds is None:
        return ", everything in the log is taken"
    return f", the last change came {duration_text(latest.lag_seconds)} after its commit"


def _amount(log: LogStatus) -> str:
    if log.transactions:
        return f"{count_text(log.transactions, 'transaction')}, {bytes_text(log.size)}"
    return bytes_text(log.size)


def work_left(state: RecordedStatus, log: LogStatus, now: float) -> float | None:
    """Seconds that the job needs for what waits, at the speed at which it took what came before.

    Only batches that began since the oldest waiting change was committed count: they had all the work that they could
    take. What the server writes meanwhile does not count. None: that is not known, or batches have stopped.
    """
    since = max(now - (log.waiting_seconds or 0.0) + STAMP_SECONDS, state.started_at)
    recent = [batch for batch in state.batches if batch.size and _begin(batch) >= since][-RECENT_BATCHES:]
    if not recent:
        return None
    start = _begin(recent[0])
    seconds, size = recent[-1].finished_at - start, sum(batch.size or 0 for batch in recent)
    longest = max(batch.read_seconds + batch.commit_seconds for batch in recent)
    if seconds <= 0 or now - recent[-1].finished_at > STILL_SECONDS + 3 * longest:
        return None
    return log.size * seconds / size


def _begin(batch: BatchStatus) -> float:
    return batch.finished_at - batch.read_seconds - batch.commit_seconds


def _hazards(state: RecordedStatus, log: LogStatus | None) -> list[_Part]:
    parts = [] if log is None else [_purging(log.purge)]
    aside = [table for table in state.tables if table.set_aside is not None]
    if aside:
        first = aside[0]
        reason = str(first.set_aside).rstrip(".")
        advice = f"{first.name} does not go on: {reason}. Bring it back with binlog-stream replay JOB.toml or snapshot."
        parts.append((Level.WARNING, f"{count_text(len(aside), 'table')} set aside", advice))
    cut = [table for table in state.tables if table.snapshot is not None and table.snapshot.problem is not None]
    if cut and cut[0].snapshot is not None:
        advice = f"The snapshot of {cut[0].name} does not complete it: {cut[0].snapshot.problem}. Take it again."
        parts.append((Level.WARNING, f"{count_text(len(cut), 'snapshot')} failed", advice))
    return parts


def _purging(purge: PurgeStatus) -> _Part:
    if purge.risk is PurgeRisk.GONE:
        advice = "Add an archive that has it (source.archive), or begin anew with a snapshot: docs/snapshot.md."
        return Level.DANGER, f"the server has removed what the job needs: {purge.reason}", advice
    if purge.risk is PurgeRisk.NONE:
        return Level.OK, "safe: an archive keeps what the server removes", ""
    if purge.left_seconds is None or purge.expiry_seconds is None:
        return Level.OK, "", purge.reason
    left = duration_text(max(purge.left_seconds, 0))
    if purge.left_seconds >= SAFE_SHARE * purge.expiry_seconds:
        return Level.OK, f"safe for {left}", ""
    level = Level.WARNING if purge.left_seconds >= DANGER_SHARE * purge.expiry_seconds else Level.DANGER
    text = (
        f"only {left} until the server may remove what the job needs"
        if purge.left_seconds > 0
        else ("the server may remove what the job needs at any moment")
    )
    advice = (
        f"{purge.file} is removed {duration_text(purge.expiry_seconds)} after the server's last write to it: raise "
        "binlog_expire_logs_seconds, or start an archive (docs/archive.md), until the job has caught up."
    )
    return level, text, advice
