"""One life: a server, its log, the disk between it and the job, and the job, from one seed: `Life`."""

from __future__ import annotations

import errno
import re
import shutil
from collections import Counter
from contextlib import ExitStack, nullcontext
from random import Random
from typing import TYPE_CHECKING, cast

from deltalake.exceptions import DeltaError

from binlog_connector.crash_points import watched
from binlog_format.classic.layout import MAGIC_SIZE
from binlog_format.errors import BinlogError, DataLossError
from binlog_lab.simulator.classic_server_log import ClassicServerLog
from binlog_lab.simulator.disk import Disk, Killed
from binlog_lab.simulator.machine import Clock, forget_process, one_machine
from binlog_lab.simulator.model_tables import ModelLake
from binlog_lab.simulator.scheduler import Conduct, ModelSession
from binlog_lab.simulator.script import Act, LifeResult, LifeStep, Script
from binlog_lab.simulator.server import DATABASE, ModelServer
from binlog_lab.simulator.server_log import InnodbServerLog
from binlog_lab.simulator.visible_folder import LOOKS, Look, VisibleFolder
from binlog_streaming.job_state.checkpoint import read_checkpoint, state_of
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.settings import Job, Mode, Sink, Source, TableRule, Trigger
from binlog_streaming.tables.job import TablesJob

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import StrEnum
    from pathlib import Path

    from pyspark.sql import SparkSession

    from binlog_connector.following.offsets import SourceOffset
    from binlog_lab.simulator.server import ModelTable
    from binlog_lab.simulator.server_log import ServerLog
    from binlog_streaming.lake.target import TargetFactory

RUNS_TO_CATCH_UP = 3
"""Runs within which a job without faults has to reach the end of the log."""

DELTA_SHARE = 0.1
"""Share of the lives whose tables are real Delta tables, which take ten times as long."""

CHANGELOG_SHARE = 0.4
"""Share of the lives whose tables have changelogs, too."""

_FIRST_CALLS = 90
"""Calls of a run among which a fault is put, evenly; a short run has fewer, and no fault then."""


class DefectError(Exception):
    """Something that must not be: what it is."""


class Life:
    """A life.

    Args:
        script: What happens.
        folder: For its files; removed at its end.
    """

    def __init__(self, script: Script, folder: Path) -> None:
        self.script = script
        self.outcome = LifeResult()
        self._folder = folder
        self._clock = Clock()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        chance = script.chance
        self._server = ModelServer.new(self._new_log(chance), self._clock)
        self._view = VisibleFolder(folder / "server", folder / "log")
        self._disk = Disk(folder / "job", folder / "log", Random(script.seed))
        self._lake = ModelLake(self._disk.commit) if chance.random() >= DELTA_SHARE else None
        self._job = self._new_job(chance)
        self._shown = 0  # number of the last group that the reader may have seen
        self._truth = self._server.history  # that the reader's files are of
        self._survivors: list[int] = []  # last groups after crashes of which the reader's files show nothing yet
        self._may_have_lost = False  # groups that the job has taken, or has been reading
        self._is_running = False
        self._began_late = False  # the log had lost its beginning before the job saw it
        self._is_stale = False  # what the reader sees of an earlier file
        self._has_changed_meanwhile = False  # files that are being read

    def _new_log(self, chance: Random) -> ServerLog:
        second, folder = int(self._clock.now), self._folder / "server"
        is_synced = chance.random() < 0.7
        kind = chance.choice(("mariadb", "mysql", "innodb"))
        if kind == "innodb":
            return InnodbServerLog(folder, second, page_size=chance.choice((512, 1024, 16384)), is_synced=is_synced)
        return ClassicServerLog(folder, second, is_mysql=kind == "mysql", is_synced=is_synced)

    def _new_job(self, chance: Random) -> Job:
        directory = self._folder / "job"
        directory.mkdir()
        modes = (Mode.MIRROR, Mode.CHANGELOG) if chance.random() < CHANGELOG_SHARE else (Mode.MIRROR,)
        return Job(
            source=Source(
                path=str(self._folder / "log"),
                max_bytes_per_trigger=chance.choice((500, 2000, 100_000)),
                min_partitions=chance.choice((None, None, 2, 3)),
            ),
            sink=Sink(directory="model://tables" if self._lake is not None else str(directory / "tables")),
            checkpoint=str(directory / "checkpoint"),
            tables=(TableRule(mode=modes, target="{database}/{table}/{mode}"),),
            trigger=Trigger(available_now=True),
        )

    def live(self) -> LifeResult:
        """Live it."""
        tell, log = self._tell, self._server.log
        source = self._job.source
        tables = "Delta" if self._lake is None else "model"
        tell(f"a server with a log {log.kind}; {tables} tables; {source.max_bytes_per_trigger} bytes a batch")
        with ExitStack() as machine:
            machine.enter_context(one_machine(self._clock, Random(f"ids {self.script.seed}")))
            machine.callback(self._end)
            try:
                self._begin()
                for step in self.script.steps:
                    self._clock.sleep(1)
                    self._do(step)
                    if self.outcome.named is not None:
                        return self.outcome
                self._catch_up()
            except (DefectError, BinlogError, DeltaError) as error:  # the last two: of files that are to be looked at
                self.outcome.defect = str(error)
                tell(f"DEFECT: {error}")
        return self.outcome

    def _tell(self, line: str) -> None:
        self.outcome.story.append(line)

    def _begin(self) -> None:
        for number in range(self.script.chance.choice((1, 2, 3))):
            self._tell(f"server: {self._server.create(number)}")
        self._show(Look.ALL, Random(0))

    def _end(self) -> None:
        self._server.log.close()
        forget_process()
        shutil.rmtree(self._folder, ignore_errors=True)

    # --- steps ---------------------------------------------------------------------------------------------------

    def _do(self, step: LifeStep) -> None:
        self.outcome.reached.add(str(step.act))
        if step.act is Act.RUN:
            self._run_step(step)
        elif step.act is Act.SHOW:
            self._show(step.chance.choice(LOOKS), step.chance, f"{step.number}. ")
        else:
            self._tell(f"{step.number}. server: {self._of_server(step)}")

    def _of_server(self, step: LifeStep) -> str:
        server, chance = self._server, step.chance
        if step.act is Act.TRANSACTION:
            told = server.transaction(chance) or "nothing to do"
            return f"{server.last}: {told}"
        if step.act is Act.ALTER:
            told = server.alter(chance) or "nothing to alter"
            return f"{server.last}: {told}"
        if step.act is Act.CREATE:
            return f"{server.create(chance.randrange(3)) or 'the table is there'}"
        if step.act is Act.PURGE:
            return f"purges files {server.purge(chance.choice((1, 1, 2)))}"
        if step.act in (Act.CRASH, Act.POWER_LOSS):
            lost = server.crash(chance, of_machine=step.act is Act.POWER_LOSS)
            if lost:
                self._survivors.append(server.last)
            return f"{step.act}, {lost} groups are lost, the last one is {server.last}"
        call = {Act.FLUSH: server.log.flush, Act.ROTATE: server.rotate, Act.RESTART: server.restart}[step.act]
        call()
        return str(step.act)

    def _show(self, look: Look, chance: Random, number: str = "") -> None:
        begun_anew = self._view.begun_anew() if look is not Look.STALE_SIZE else frozenset()
        if self._view.show(look, chance):
            self.outcome.reached.add(f"look {look}")
            reached = self._shown if self._is_running else self._reached()
            self._may_have_lost |= any(reached > last for last in self._survivors)
            self._may_have_lost |= not begun_anew.isdisjoint(self._files_reached())
            self._survivors.clear()
            self._is_stale = look is Look.STALE_SIZE
            self._shown, self._truth = self._server.last, dict(self._server.history)
            self._tell(f"{number}reader sees: {look}")

    # --- runs of the job -----------------------------------------------------------------------------------------

    def _run_step(self, step: LifeStep) -> None:
        chance, disk = step.chance, self._disk
        disk.restart()
        kind = chance.choice(("", "", "kill", "kill", "kill", "power", "EIO", "ENOSPC", "meanwhile", "meanwhile"))
        at = chance.randint(1, _FIRST_CALLS)
        actions: dict[str, Callable[[], None]] = {
            "kill": disk.kill,
            "power": disk.lose_power,
            "EIO": disk.fail(errno.EIO),
            "ENOSPC": disk.fail(errno.ENOSPC),
        }
        if kind == "meanwhile":
            disk.at_read[at] = lambda: self._meanwhile(step)
        elif kind:
            disk.at_write[at] = actions[kind]
        conduct = Conduct(chance, twice=chance.choice((0, 0, 0.5)), late=chance.choice((0, 0, 0.3)))
        self._tell(f"{step.number}. job runs{f', {kind} at call {at}' if kind else ''}")
        self._run(conduct)

    def _meanwhile(self, step: LifeStep) -> None:
        """The server goes on while the job reads."""
        chance = Random(step.seed ^ 1)
        for act in chance.choices((Act.TRANSACTION, Act.ROTATE, Act.PURGE, Act.CRASH), (6, 2, 1, 1), k=3):
            self._has_changed_meanwhile |= act in (Act.PURGE, Act.CRASH)
            self._tell(f"   meanwhile, server: {self._of_server(LifeStep(step.number, act, chance.getrandbits(60)))}")
        self._server.log.flush()
        self._show(chance.choice((Look.ALL, Look.TORN)), chance, "   meanwhile, ")
        self.outcome.reached.add("meanwhile")

    def _run(self, conduct: Conduct, *, clean: bool = False) -> bool:
        """Let the job take what is there; True: it has ended by itself."""
        disk, session = self._disk, ModelSession(conduct)
        is_first = self._taken() == 0
        disk.reached.clear()
        had_lost, self._is_running, self._has_changed_meanwhile = self._may_have_lost, True, False
        error: BaseException | None = None
        tables = nullcontext() if self._lake is None else self._lake.installed()
        with disk.installed(), watched(self._at_crash_point), tables:
            try:
                TablesJob(self._job, session=cast("SparkSession", session)).run()
            except (Killed, Exception) as raised:
                error = raised
        forget_process()
        self._is_running = False
        self._began_late |= is_first and self._server.purged_to > 0
        self.outcome.reached |= set(disk.reached)
        self.outcome.reached |= {"task twice"} if conduct.done_twice else set()
        self.outcome.reached |= {"task late"} if conduct.done_late else set()
        faults = list(disk.reached)
        disk.restart()
        if isinstance(error, Killed):
            self._tell(f"   {faults[-1]}")
            return False
        if error is not None:
            self._judge(error, faults, clean=clean)
            return False
        self._tell(f"   it did {session.batches} batches{f', {faults}' if faults else ''}")
        if had_lost or not self._may_have_lost:  # else it has taken them before they were lost
            self._check_tables()
        return True

    def _at_crash_point(self, step: StrEnum) -> None:
        if self._disk.is_dead:
            raise Killed
        self.outcome.reached.add(f"step {step}")

    # --- verdicts ------------------------------------------------------------------------------------------------

    def _judge(self, error: BaseException, faults: list[str], *, clean: bool) -> None:
        """See that an error is named, and its reason true."""
        if not isinstance(error, BinlogError):
            raise DefectError(f"an error without a name: {type(error).__name__}: {error}") from error
        self._tell(f"   {error.condition}: {error.reason[:160]}")
        self.outcome.reached.add(f"error {error.condition}")
        if faults and not clean and error.condition in _OF_FAULTS:
            return
        if self._has_changed_meanwhile and isinstance(error, DataLossError):
            return  # a file went while it was read; the next run tells whether anything is lost
        if self._is_lost() and (isinstance(error, DataLossError) or error.condition == _BEGAN_LATE):
            self.outcome.named = error.condition
            return
        if error.condition == _CUT_OFF and self._is_stale and not clean:
            return
        if error.condition == _NO_FILES and not clean and not self._has_file_with_content():
            return
        raise DefectError(f"an error whose reason is not true: {error}") from error

    def _has_file_with_content(self) -> bool:
        """True if the reader sees a file of which so much is there that its format shows."""
        return any(path.stat().st_size >= MAGIC_SIZE for path in self._view.path.iterdir())

    def _is_lost(self) -> bool:
        """True if a group is gone that the job had not taken, or that it had taken, or seen."""
        return self._server.purged_to > self._taken() or self._may_have_lost or self._began_late

    def _taken(self) -> int:
        """Number of the last group in batches that have ended."""
        checkpoint = read_checkpoint(state_of(self._job))
        return 0 if checkpoint is None else _number(checkpoint.offset)

    def _files_reached(self) -> set[int]:
        """Files in which the job is, or will be after a batch that has begun."""
        checkpoint = read_checkpoint(state_of(self._job))
        offsets = () if checkpoint is None else (checkpoint.offset, checkpoint.pending)
        return {offset.position.file_no for offset in offsets if offset is not None}

    def _reached(self) -> int:
        """Number of the last group in batches that have begun."""
        checkpoint = read_checkpoint(state_of(self._job))
        return 0 if checkpoint is None else max(_number(checkpoint.offset), _number(checkpoint.pending))

    def _check_tables(self) -> None:
        taken = self._taken()
        if taken not in self._truth:
            raise DefectError(f"the job is at {taken}, the log that it sees ends at {max(self._truth)}")
        for name, table in sorted(self._truth[taken].tables.items()):
            self._check_mirror(name, table, taken)
            self._check_changelog(name, table, taken)

    def _rows(self, name: str, mode: str, columns: list[str]) -> list[tuple[object, ...]] | None:
        """Columns of all rows of a target; none where there is no target, None if there cannot be one."""
        factory: TargetFactory = sink_type(self._job.sink.format) if self._lake is None else self._lake
        target = factory.at(self._job.sink, f"{self._job.sink.directory}/{DATABASE}/{name}/{mode}")
        if target.properties() is None:
            return None if self._began_late else []
        held = target.read().read_all()
        missing = sorted(set(columns) - set(held.column_names))
        if missing:
            raise DefectError(f"{name} ({mode}) lacks columns {missing}")
        return [tuple(row.values()) for row in held.select(columns).to_pylist()]

    def _check_changelog(self, name: str, table: ModelTable, taken: int) -> None:
        """Each change is there once; values of columns are looked at in the mirror."""
        if Mode.CHANGELOG not in self._job.tables[0].modes:
            return
        changes = (change for number in range(1, taken + 1) for change in self._truth[number].changes)
        expected: Counter[tuple[object, ...]] = Counter(
            (kind, *key) for table_name, kind, key in changes if table_name == name
        )
        rows = self._rows(name, "changelog", ["_change_type", *table.spec.primary_key])
        found = Counter(row for row in rows or () if row[0] != "truncate")
        if found != expected and not self._began_late:  # which has no changes from before
            raise DefectError(
                f"the changelog of {name} at {taken} lacks {list((expected - found).items())[:3]}, and has too often "
                f"{list((found - expected).items())[:3]}"
            )

    def _check_mirror(self, name: str, table: ModelTable, taken: int) -> None:
        rows = self._rows(name, "mirror", [column.name for column in table.spec.columns])
        if rows is None:
            return
        expected = sorted(table.rows.values(), key=repr)
        found = sorted(rows, key=repr)
        if found != expected:
            lacking = [row for row in expected if row not in found][:3]
            extra = [row for row in found if row not in expected][:3]
            raise DefectError(
                f"{name} at {taken} has {len(found)} rows, the server {len(expected)}: it lacks {lacking}, "
                f"and has too many {extra}"
            )

    def _catch_up(self) -> None:
        """Faults end: the job has to reach the end of the log."""
        self._server.log.flush()
        self._show(Look.ALL, Random(0))
        for _ in range(RUNS_TO_CATCH_UP):
            self._tell("at the end, job runs")
            is_done = self._run(Conduct(Random(0)), clean=True)
            if self.outcome.named is not None:
                return
            # Of a log that has lost its beginning, and has nothing after it, a job takes nothing.
            lost = self._server.purged_to if self._taken() == 0 else 0
            if is_done and max(self._taken(), lost) == self._server.last:
                return
        raise DefectError(f"the job stays at {self._taken()}, the log ends at {self._server.last}")


def _number(offset: SourceOffset | None) -> int:
    found = None if offset is None else re.search(r"(\d+)$", str(offset.gtid))
    return 0 if found is None else int(found[1])


_BEGAN_LATE = "BINLOG_TABLE.INCOMPLETE"
"""The log that the job saw first had lost its beginning."""

_CUT_OFF = "BINLOG_CORRUPT.BAD_EVENT"
"""A later file states more than the reader sees of an earlier one."""
_NO_FILES = "BINLOG_START.NO_LOG_FILES"
"""Files of which nothing is there yet are no log yet."""

_OF_FAULTS = frozenset({"BINLOG_STORAGE.NO_SPACE", "BINLOG_STORAGE.FAILED", "BINLOG_TABLE.WRITE_FAILED"})
"""Errors for a disk that fails."""
