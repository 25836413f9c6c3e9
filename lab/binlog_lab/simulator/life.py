"""One life: a server, its log, the disk between it and the job, and the job, from one seed: `Life`."""

from __future__ import annotations

import errno
import shutil
from contextlib import ExitStack, nullcontext
from random import Random
from typing import TYPE_CHECKING, cast

from deltalake.exceptions import DeltaError

from binlog_connector.crash_points import watched
from binlog_format.classic.layout import MAGIC_SIZE
from binlog_format.errors import BinlogError, CorruptError, DataLossError, SwitchError
from binlog_lab.simulator.disk import Disk, Killed
from binlog_lab.simulator.machine import Clock, forget_process, one_machine
from binlog_lab.simulator.model_tables import ModelLake
from binlog_lab.simulator.scheduler import Conduct, ModelSession
from binlog_lab.simulator.script import Act, LifeResult, LifeStep, Script
from binlog_lab.simulator.server import ModelServer
from binlog_lab.simulator.server_log import InnodbServerLog
from binlog_lab.simulator.settings import DELTA_SHARE, new_log, write_job
from binlog_lab.simulator.verdict import DefectError, TableVerdict, group_number
from binlog_lab.simulator.visible_folder import LOOKS, Look, VisibleFolder
from binlog_streaming.job_state.checkpoint import read_checkpoint, state_of
from binlog_streaming.jobs.switch import complete_begun, job_to_switch, plan_switch
from binlog_streaming.settings import Job, load_job
from binlog_streaming.tables.job import TablesJob

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import StrEnum
    from pathlib import Path

    from pyspark.sql import SparkSession

    from binlog_connector.following.offsets import SourceOffset

RUNS_TO_CATCH_UP = 3
"""Runs within which a job without faults has to reach the end of the log."""

CLOCK_JUMPS = (-86400, -3600, -5, 5, 3600, 86400)
"""Seconds by which the server's clock jumps."""

_TOLD = ("savepoint", "rollback to savepoint", "ROLLBACK", "XA PREPARE", "XA COMMIT", "XA ROLLBACK", "swapped")
"""Parts of statements that count as reached."""

_FIRST_CALLS = 90
"""Calls of a run among which a fault is put, evenly; a short run has fewer, and no fault then."""


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
        log = new_log(chance, folder / "server-1", int(self._clock.now))
        self._server = ModelServer.new(log, self._clock)
        self._view = VisibleFolder(folder / "server-1", folder / "log-1")
        self._disk = Disk(folder / "job", folder / "log-", Random(script.seed))
        self._lake = ModelLake(self._disk.commit) if chance.random() >= DELTA_SHARE else None
        self._job_file = write_job(chance, folder, self._view.path, has_model_tables=self._lake is not None)
        self._job = load_job(self._job_file)
        self._verdict = TableVerdict(self._job, self._lake, self._server.log.terms)
        self._shown = 0  # number of the last group that the reader may have seen
        self._truth = self._server.history  # that the reader's files are of
        self._survivors: list[int] = []  # last groups after crashes of which the reader's files show nothing yet
        self._may_have_lost = False  # groups that the job has taken, or has been reading
        self._is_running = False
        self._began_late = False  # the log had lost its beginning before the job saw it
        self._is_stale = False  # what the reader sees of an earlier file, or of one that is gone
        self._has_changed_meanwhile = False  # files that are being read
        self._is_torn = False  # the last page: the reader sees only a part of its new bytes
        self._is_reset = False  # the log, since the reader looked
        self._rotten: list[VisibleFolder] = []  # of servers with a damaged file
        self._switches = 0
        self._is_old_log_gone = False

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
        server, chance, act = self._server, step.chance, step.act
        statements = {
            Act.TRANSACTION: server.transaction,
            Act.XA: server.xa,
            Act.ALTER: server.alter,
            Act.DROP: server.drop,
            Act.RENAME: server.rename,
        }
        if act in statements:
            told = statements[act](chance) or "nothing to do"
            self.outcome.reached |= {name for name in _TOLD if name in told}
            return f"{server.last}: {told}"
        if act is Act.CREATE:
            return f"{server.create(chance.randrange(3)) or 'the table is there'}"
        if act is Act.PURGE:
            return f"purges files {server.purge(chance.choice((1, 1, 2)))}"
        if act in (Act.CRASH, Act.POWER_LOSS):
            lost = server.crash(chance, of_machine=act is Act.POWER_LOSS)
            if lost:
                self._survivors.append(server.last)
            return f"{act}, {lost} groups are lost, the last one is {server.last}"
        if act is Act.CLOCK:
            seconds = chance.choice(CLOCK_JUMPS)
            self._clock.now += seconds
            return f"its clock jumps by {seconds} s"
        if act is Act.ROT:
            return self._rot(chance)
        if act is Act.FAILOVER:
            return self._fail_over(chance)
        if act is Act.RESET:
            told = server.reset()
            if server.last == 0:
                self._is_reset = True
                self._survivors.append(0)
            return told
        call = {Act.FLUSH: server.log.flush, Act.ROTATE: server.rotate, Act.RESTART: server.restart}[act]
        call()
        return str(act)

    def _fail_over(self, chance: Random) -> str:
        old, self._switches = self._view, self._switches + 1
        self._view = VisibleFolder(
            self._folder / f"server-{self._switches + 1}", self._folder / f"log-{self._switches + 1}"
        )
        lost = self._server.fail_over(self._view.server, chance)
        if not self._files_reached():  # there is no place to switch from
            text = self._job_file.read_text().replace(f'"{self._job.source.path}"', f'"{self._view.path}"')
            self._job_file.write_text(text)
            self._job = load_job(self._job_file)
        if lost:
            self._survivors.append(self._server.last)
        if chance.random() < 0.3:
            shutil.rmtree(old.path)
            self._is_old_log_gone |= self._job.source.path == str(old.path)
        self._server.log.flush()
        self._show(Look.ALL, chance, "   ")
        return f"fails over, {lost} groups are lost, the last one is {self._server.last}"

    def _rot(self, chance: Random) -> str:
        path = self._view.rot(chance)
        while path is None:
            self._server.rotate()
            path = self._view.rot(chance)
        self._rotten.append(self._view)
        return f"a bit of {path} changes"

    def _show(self, look: Look, chance: Random, number: str = "") -> None:
        if self._is_reset:
            look = Look.ALL
        begun_anew = self._view.begun_anew() if look is not Look.STALE_SIZE else frozenset()
        if self._view.show(look, chance):
            self.outcome.reached.add(f"look {look}")
            reached = self._shown if self._is_running else self._reached()
            self._may_have_lost |= any(reached > last for last in self._survivors)
            self._may_have_lost |= not begun_anew.isdisjoint(self._files_reached())
            self._survivors.clear()
            self._is_reset = False
            self._is_stale = look in (Look.STALE_SIZE, Look.PURGE_LATE) or (self._is_running and self._is_stale)
            self._is_torn = look is Look.TORN and isinstance(self._server.log, InnodbServerLog)
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
                self._switch(session)
                self._run_job(self._job, session)
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
            self._verdict.check(self._truth, self._taken(), began_late=self._began_late)
        return True

    def _run_job(self, job: Job, session: ModelSession) -> None:
        TablesJob(job, once=True, session=cast("SparkSession", session)).run()

    def _switch(self, session: ModelSession) -> None:
        """Let the job go on in the log of the server that is the primary now, once something of it is seen."""
        file, path = str(self._job_file), str(self._view.path)
        if self._view.path.exists() and self._job.source.path != path:
            complete_begun(job_to_switch(file))
            plan = plan_switch(file, path)
            if not plan.is_done:
                plan.apply(lambda job: self._run_job(job, session))
            self.outcome.reached.add("switch")
            self._job = load_job(self._job_file)

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
        if self._is_rotten_at(error):
            self.outcome.named = error.condition
            return
        if self._is_lost() and (isinstance(error, DataLossError | SwitchError) or error.condition in _OF_LOSS):
            self.outcome.named = error.condition
            return
        if error.condition == _WITHIN_BATCH and self._is_old_log_gone:
            self.outcome.named = error.condition
            return
        if (error.condition == _CUT_OFF and self._is_stale) or (error.condition == _SHORTER and self._is_torn):
            return  # once faults end, all of it is seen
        if error.condition == _NO_FILES and not self._has_file_with_content() and (self._rotten or not clean):
            self.outcome.named = error.condition if self._rotten else None
            return
        raise DefectError(f"an error whose reason is not true: {error}") from error

    def _is_rotten_at(self, error: BinlogError) -> bool:
        """True if a bit is damaged where *error* states that something is, or what it states follows from one."""
        if not self._rotten or not isinstance(error, CorruptError | DataLossError):
            return False
        at, size = error.at, self._server.log.page_size
        return at is None or isinstance(error, DataLossError) or any(one.is_damaged(at, size) for one in self._rotten)

    def _has_file_with_content(self) -> bool:
        """True if the reader sees a file of which so much is there that its format shows."""
        sizes = {path.name: path.stat().st_size for path in self._view.path.iterdir()}
        whole = (self._view.rotten.get(name, (MAGIC_SIZE, 0))[0] >= MAGIC_SIZE for name in sizes)
        return any(size >= MAGIC_SIZE and is_whole for size, is_whole in zip(sizes.values(), whole, strict=True))

    def _is_lost(self) -> bool:
        """True if a group is gone that the job had not taken, or that it had taken, or seen."""
        taken = self._taken()
        is_purged = self._server.purged_to > taken or self._server.is_out_of_reach(taken)
        return is_purged or self._may_have_lost or self._began_late

    def _taken(self) -> int:
        """Number of the last group in batches that have ended."""
        checkpoint = read_checkpoint(state_of(self._job))
        return 0 if checkpoint is None else self._number(checkpoint.offset)

    def _files_reached(self) -> set[int]:
        """Files in which the job is, or will be after a batch that has begun."""
        checkpoint = read_checkpoint(state_of(self._job))
        offsets = () if checkpoint is None else (checkpoint.offset, checkpoint.pending)
        return {offset.position.file_no for offset in offsets if offset is not None}

    def _reached(self) -> int:
        """Number of the last group in batches that have begun."""
        checkpoint = read_checkpoint(state_of(self._job))
        return 0 if checkpoint is None else max(map(self._number, (checkpoint.offset, checkpoint.pending)))

    def _number(self, offset: SourceOffset | None) -> int:
        return 0 if offset is None else group_number(str(offset.gtid), self._server.log.terms)

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
            if is_done and self._view.is_end_damaged(self._server.log.page_size):
                return
        raise DefectError(f"the job stays at {self._taken()}, the log ends at {self._server.last}")


_OF_LOSS = frozenset({"BINLOG_TABLE.INCOMPLETE", "BINLOG_START.POSITION_NOT_FOUND"})
"""The log that the job saw first had lost its beginning; or the other one ends before a batch that was begun."""

_CUT_OFF = "BINLOG_CORRUPT.BAD_EVENT"
"""A later file states more than the reader sees of an earlier one."""
_SHORTER = "BINLOG_DATA_LOSS.TRUNCATED_TRANSACTION"
"""The log is shorter while the new bytes of a page are there in part."""
_WITHIN_BATCH = "BINLOG_SWITCH.WITHIN_BATCH"
"""The job was killed in a batch, and the log that has the rest of it is gone."""
_NO_FILES = "BINLOG_START.NO_LOG_FILES"
"""Files of which nothing is there yet are no log yet."""

_OF_FAULTS = frozenset({"BINLOG_STORAGE.NO_SPACE", "BINLOG_STORAGE.FAILED", "BINLOG_TABLE.WRITE_FAILED"})
"""Errors for a disk that fails."""
