"""What a job makes of the tables of histories: equal, named with a reason that holds, or wrong: `judge`."""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_streaming.settings import Json, Merge, OnError, TableFormat
from tests.judge.running import mirror_of, run_once
from tests.judge.tables import differences, read_targets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from binlog_streaming.plan.job_state import SetAside
    from binlog_streaming.settings import Job
    from tests.judge.histories.history import Done, History
    from tests.judge.running import JobEnd
    from tests.judge.tables import TargetTable

_CONDITION = re.compile(r"\[(BINLOG_[A-Z_]+\.[A-Z_]+)\]")
_MAY_BE_NULL = "Or the row has null in the target for a value that the log lacked"
"""Of a table without a key: a row that was given a null is found no more, which is no defect."""


class Kind(StrEnum):
    """What became of a table; there is nothing between right and wrong but a name."""

    EQUAL = "equal"
    NAMED = "named"
    WRONG = "wrong"
    """It differs, nothing names it, and the job ended well."""
    FALSE_NAME = "false name"
    """The error is about something that is not in the history, or about no table at all."""
    CRASH = "crash"
    """The job ended with an error without a name."""


NEVER_TRUE = (
    *("BINLOG_TABLE.INCOMPLETE", "BINLOG_SCHEMA.NO_COLUMN_METADATA", "BINLOG_SCHEMA.COLUMN_COUNT_MISMATCH"),
    *("BINLOG_SCHEMA.COLUMN_MISMATCH", "BINLOG_TABLE.KEYS_CHANGED", "BINLOG_TABLE.CONTRADICTED"),
    "BINLOG_TABLE.UNEXPECTED_ERROR",
)
"""The log of a history begins with the server's first transaction, and nobody else writes targets: the log has every
row and every definition, and what contradicts a target shows that the job had made a wrong one. An error that nobody
expected is a defect of the product everywhere."""
BAD = (Kind.WRONG, Kind.FALSE_NAME, Kind.CRASH)


@dataclass(frozen=True)
class Verdict:
    """About one table.

    Attributes:
        why: Differences, or the error's text.
        condition: Of a named error.
        statement: What the job stopped at, where the error tells.
        label: What that statement is counted as.
    """

    kind: Kind
    why: str = ""
    condition: str = ""
    statement: str = ""
    label: str = ""


@dataclass(frozen=True)
class SinkChoices:
    """How targets are written; see `mirror_of`."""

    table_format: TableFormat = TableFormat.DELTA
    merge: Merge = Merge.AUTO
    json: Json = Json.TEXT


@dataclass
class Run:
    """How jobs are run.

    Attributes:
        server_log: Folder of the server's log.
        work: Folder for copies of the log and for targets.
        sink: What is set for all targets.
        system_time_zone: Of the server, as the job states it; None: it does not.
    """

    server_log: Path
    work: Path
    rule: Mapping[str, object]
    sink: SinkChoices = SinkChoices()
    bytes_max: str | None = None
    system_time_zone: str | None = None
    _log: Path | None = None

    def targets(self, job: Job) -> dict[str, TargetTable]:
        """What the job has made."""
        return read_targets(job.sink, only_live=True, lacks_values="null" in self.rule.values())

    def job(self, select: str = ".*") -> Job:
        """A job that takes the log from its start; its folder is empty."""
        self._log = empty_log_folder(self.work)
        return self.same_job(select)

    def same_job(self, select: str = ".*") -> Job:
        """The same job again, which goes on."""
        assert self._log is not None
        copy_log(self.server_log, self._log)
        return mirror_of(
            self._log,
            self.work / "lake",
            rule={"select": select, **self.rule},
            on_error=OnError.SET_ASIDE,
            bytes_max=self.bytes_max,
            table_format=self.sink.table_format,
            merge=self.sink.merge,
            json=self.sink.json,
            system_time_zone=self.system_time_zone,
        )


def empty_log_folder(work: Path) -> Path:
    """A folder for a copy of a log in *work*, which is emptied before.

    At a place of its own: other logs had files of the same name there, and a process remembers files.
    """
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    return Path(tempfile.mkdtemp(prefix="log-", dir=work))


def copy_log(server_log: Path, into: Path) -> None:
    """Copy the files of a server's log."""
    for file in server_log.iterdir():
        if file.is_file():
            shutil.copy(file, into / file.name)


def judge(run: Run, histories: Sequence[History], begun: JobEnd | None = None) -> dict[str, Verdict]:
    """The verdict about every table of every history.

    Args:
        run: How the job is run.
        begun: How the job ended that took the first part of the log; None: there was none.
    """
    if begun is None or not (begun.error or begun.crash):
        job = run.job() if begun is None else run.same_job()
        end = run_once(job)
        if not end.error and not end.crash:
            end.set_aside += [] if begun is None else begun.set_aside
            targets = run.targets(job)
            return {name: one for history in histories for name, one in verdicts_of(history, end, targets).items()}
        culprit = next((history for history in histories if statement_at(history, _gtid_in(end.error))), None)
        if culprit is not None and not _concerns_a_table(culprit, end.error):
            # It stops every job of this log; the others cannot be judged.
            return stopped_by(culprit, end)
    # One history must not hide what becomes of the others.
    return {name: one for history in histories for name, one in judge_alone(run, history).items()}


def judge_alone(run: Run, history: History) -> dict[str, Verdict]:
    """The verdicts about one history, by a job that takes nothing else from the log."""
    job = run.job(rf"{history.database}b?\..*")
    end = run_once(job)
    if not end.error and not end.crash:
        return verdicts_of(history, end, run.targets(job))
    if len(history.server) <= 1:
        return stopped_by(history, end)
    found: dict[str, Verdict] = {}
    for name in history.server:
        job = run.job(re.escape(name))
        one = run_once(job)
        if one.error or one.crash:
            found |= stopped_by(history, one, (name,))
        else:
            found |= {
                key: verdict for key, verdict in verdicts_of(history, one, run.targets(job)).items() if key == name
            }
    if not {verdict.kind for verdict in found.values()} & {Kind.CRASH, Kind.FALSE_NAME}:
        found |= stopped_by(history, end, (history.database,))
    return found


def verdicts_of(history: History, end: JobEnd, targets: Mapping[str, TargetTable]) -> dict[str, Verdict]:
    """The verdict about each table of a history, from what a job made and told."""
    places = (f"{history.database}.", f"{history.database}b.")
    own = {name: target for name, target in targets.items() if name.startswith(places)}
    wrong = differences(history.server, own)
    aside = {str(one.name): one for one in end.set_aside if f"{one.database}." in places}
    found = {}
    for name in sorted({*history.server, *own, *aside}):
        stopped = aside.get(name)
        if stopped is not None:
            found[name] = _named(history, stopped)
        elif name in own and own[name].set_aside:
            found[name] = Verdict(Kind.FALSE_NAME, f"set aside, but the job did not tell: {own[name].set_aside}")
        elif name in wrong:
            found[name] = Verdict(Kind.WRONG, wrong[name])
        else:
            found[name] = Verdict(Kind.EQUAL)
    return found


def _named(history: History, stopped: SetAside) -> Verdict:
    """A second look: the error is about a table of the history, and the statement it stopped at is about it."""
    condition = _CONDITION.search(stopped.reason)
    if condition is None or not _concerns_a_table(history, stopped.reason):
        return Verdict(Kind.FALSE_NAME, stopped.reason)
    if condition[1] in NEVER_TRUE and _MAY_BE_NULL not in stopped.reason:
        return Verdict(Kind.FALSE_NAME, stopped.reason)
    at = statement_at(history, stopped.gtid)
    statement, label = ("", "") if at is None else (at.text, at.label)
    return Verdict(Kind.NAMED, stopped.reason, condition[1], statement, label)


def _gtid_in(text: str) -> str | None:
    found = re.search(r"GTID ([\w:-]+)", text)
    return None if found is None else found[1]


def _concerns_a_table(history: History, text: str) -> bool:
    if "changes rows of any table" in text:
        return True  # a trigger of another history may change this one's tables, too
    return any(name.casefold() in text.casefold() for name in mentioned_tables(history))


def stopped_by(history: History, end: JobEnd, names: Sequence[str] = ()) -> dict[str, Verdict]:
    """The verdicts about tables of a history whose job has ended with an error. *names*: empty for all of them."""
    names = names or tuple(history.server) or (history.database,)
    if end.crash:
        return dict.fromkeys(names, Verdict(Kind.CRASH, end.crash))
    condition = _CONDITION.search(end.error)
    if condition is None or condition[1] in NEVER_TRUE or not _concerns_a_table(history, end.error):
        return dict.fromkeys(names, Verdict(Kind.FALSE_NAME, end.error))
    return dict.fromkeys(names, Verdict(Kind.NAMED, end.error, condition[1]))


def mentioned_tables(history: History) -> set[str]:
    """Tables that statements of the history name, with their database."""
    tables = {name.partition(".")[2] for name in history.server}
    for done in history.done:
        tables |= set(re.findall(r"(?i)\b(?:TABLE|INTO|TO|UPDATE|FROM|LIKE)\s+(?:\w+\.)?`?(\w+)`?", done.text))
    return {f"{database}.{table}" for database in (history.database, f"{history.database}b") for table in tables}


def statement_at(history: History, gtid: str | None) -> Done | None:
    """The statement that an event group of the log is of."""
    if not gtid:
        return None
    number = re.split(r"[-:]", gtid)[-1]
    return next((done for done in history.done if re.split(r"[-:]", done.gtid)[-1] == number), None)
