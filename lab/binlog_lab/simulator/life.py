"""One life: a server, its log, the disk between it and the job, and the job, from one seed: `Life`."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from binlog_lab.simulator.any_life import RUNS_TO_CATCH_UP, AnyLife
from binlog_lab.simulator.disk import Killed
from binlog_lab.simulator.lived_job import LivedTablesJob
from binlog_lab.simulator.model_tables import ModelLake
from binlog_lab.simulator.reasons import Reasons
from binlog_lab.simulator.scheduler import Conduct
from binlog_lab.simulator.script import Act, LifeStep, Script
from binlog_lab.simulator.server import ModelServer
from binlog_lab.simulator.server_log import InnodbServerLog, Terms
from binlog_lab.simulator.settings import (
    AVRO_SHARE,
    BUCKET_DELTA_SHARE,
    BUCKET_SHARES,
    DELTA_SHARE,
    TOPICS_SHARE,
    new_log,
    write_job,
    write_publish_job,
)
from binlog_lab.simulator.stores.model_bucket import URI, ModelBucket, installed
from binlog_lab.simulator.topics.lived_topics import LivedTopicsJob
from binlog_lab.simulator.topics.model_broker import ModelBroker
from binlog_lab.simulator.topics.model_registry import ModelRegistry
from binlog_lab.simulator.verdict import DefectError
from binlog_lab.simulator.visible_folder import LOOKS, Look, VisibleFolder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from binlog_lab.simulator.server import StateAfterGroup

CLOCK_JUMPS = (-86400, -3600, -5, 5, 3600, 86400)
"""Seconds by which the server's clock jumps."""

_PURGED_SHARE = 0.2
"""Share of the faults at the end of lives before which files are purged that the reader still sees."""

_TOLD = ("savepoint", "rollback to savepoint", "ROLLBACK", "XA PREPARE", "XA COMMIT", "XA ROLLBACK", "swapped")
"""Parts of statements that count as reached."""


class Life(AnyLife):
    """A life of a server."""

    def __init__(self, script: Script, folder: Path) -> None:
        super().__init__(script, folder)
        chance = script.chance
        log = new_log(chance, folder / "server-1", int(self._clock.now))
        self._server = ModelServer.new(log, self._clock)
        self._reasons = Reasons(self._server, VisibleFolder(folder / "server-1", folder / "log-1"))
        self._bucket = self._new_bucket()
        self._seen_terms = Terms(list(log.terms.starts))  # by which groups of the reader's files have their numbers
        with self._surroundings():
            self._lived = self._new_job(chance)
        self.outcome.kind = self._lived.kind
        self._rare_calls = self._lived.rare_calls
        self._shown = 0  # number of the last group that the reader may have seen
        self._truth = self._server.history  # that the reader's files are of
        self._started_at = 0  # last group before the last start of the server
        self._survivors: list[int] = []  # last groups after crashes of which the reader's files show nothing yet
        self._is_running = False
        self._is_reset = False  # the log, since the reader looked
        self._is_loss_hidden = False  # by the log of another server
        self._last_look = Look.ALL
        self._switches = 0
        self._taken_over_at = 0  # last group that the newest server had when it became the primary

    def _new_bucket(self) -> ModelBucket | None:
        chance = Random(f"bucket {self.script.seed}")
        if chance.random() >= BUCKET_SHARES.get(self.script.kind, 0):
            return None
        return ModelBucket(self._folder / "bucket", self._clock, self._disk, chance)

    def _surroundings(self) -> AbstractContextManager[None]:
        return nullcontext() if self._bucket is None else installed(self._bucket)

    def _new_job(self, chance: Random) -> LivedTablesJob | LivedTopicsJob:
        has_topics = Random(f"topics {self.script.seed}").random() < TOPICS_SHARE
        return self._new_topics_job(chance) if has_topics else self._new_tables_job(chance)

    def _new_topics_job(self, chance: Random) -> LivedTopicsJob:
        is_avro = Random(f"Avro form {self.script.seed}").random() < AVRO_SHARE
        registry = ModelRegistry(self._disk) if is_avro else None
        file = write_publish_job(chance, self._folder, self._view.path, is_avro=is_avro)
        broker = ModelBroker(self._clock, self._disk, Random(f"broker {self.script.seed}"))
        return LivedTopicsJob(file, self._seen_terms, broker, chance.choice((500, 2000, 100_000)), registry)

    def _new_tables_job(self, chance: Random) -> LivedTablesJob:
        bucket, place = (None, None) if self._bucket is None else (self._bucket, URI)
        delta_share = DELTA_SHARE if bucket is None else BUCKET_DELTA_SHARE
        lake = ModelLake(self._disk.elsewhere) if chance.random() >= delta_share else None
        file = write_job(chance, self._folder, self._view.path, has_model_tables=lake is not None, bucket=place)
        return LivedTablesJob(file, self._seen_terms, lake, bucket)

    @property
    def _view(self) -> VisibleFolder:
        """The log as the job sees it."""
        return self._reasons.view

    def _begin(self) -> None:
        self._tell(f"a server with a log {self._server.log.kind}; {self._lived.name}")
        for number in range(self.script.chance.choice((1, 2, 3))):
            self._tell(f"server: {self._server.create(number)}")
        self._show(Look.ALL, Random(0))

    def _end(self) -> None:
        self._server.log.close()
        super()._end()

    # --- steps ---------------------------------------------------------------------------------------------------

    def _do(self, step: LifeStep) -> None:
        self.outcome.reached.add(str(step.act))
        if step.act is Act.RUN:
            self._run_step(step)
        elif step.act is Act.FAULT:
            self._fault_step(step)
        elif step.act is Act.SHOW:
            self._show(step.chance.choice(LOOKS), step.chance, f"{step.number}. ")
        elif step.act is Act.STALE:
            self._show(Look.STALE_SIZE, step.chance, f"{step.number}. ")
        else:
            self._tell(f"{step.number}. server: {self._of_server(step)}")

    def _of_server(self, step: LifeStep) -> str:
        server, chance, act = self._server, step.chance, Act(step.act)
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
            # A start writes into the `.ibb` file that is there, after the last group: that may be lost, too.
            has_start = self._started_at == server.last and isinstance(server.log, InnodbServerLog)
            if lost or has_start:
                self._survivors.append(server.last - has_start)
            self._started_at = server.last
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
            is_lost = server.purged_to > self._lived.taken or bool(self._lived.files_reached)
            told = server.reset()
            if server.last == 0:
                self._is_reset = True
                self._survivors.append(0)
                self._reasons.may_have_lost |= is_lost
            return told
        call = {Act.FLUSH: server.log.flush, Act.ROTATE: server.rotate, Act.RESTART: server.restart}[act]
        call()
        if act is Act.RESTART:
            self._started_at = server.last
        return str(act)

    def _fail_over(self, chance: Random) -> str:
        old, self._switches = self._view, self._switches + 1
        server, seen = (self._folder / f"{kind}-{self._switches + 1}" for kind in ("server", "log"))
        self._reasons.view = VisibleFolder(server, seen)
        # GTIDs do not tell which of two groups with one number a server has, if nobody looks at the first one's files.
        is_lost = bool(self._survivors) and self._lived.reached > min(self._survivors)
        self._is_loss_hidden |= is_lost or self._reasons.may_have_lost
        is_seen_in_part = self._reasons.is_torn or self._reasons.is_stale  # and nobody will show the rest
        is_cut = is_seen_in_part or self._server.purged_to > self._lived.taken
        lost = self._server.fail_over(self._view.server, chance)
        if not self._lived.files_reached:  # there is no place to switch from
            self._lived.move_to(self._view.path)
        self._taken_over_at = self._server.last
        if lost:
            self._survivors.append(self._server.last)
        is_removed = chance.random() < 0.3
        if is_removed:
            shutil.rmtree(old.path)
        is_needed = self._lived.log == str(old.path)
        self._reasons.is_old_log_cut |= is_needed and (is_removed or is_cut)
        self._server.log.flush()
        self._show(Look.ALL, chance, "   ")
        return f"fails over, {lost} groups are lost, the last one is {self._server.last}"

    def _rot(self, chance: Random) -> str:
        path = self._view.rot(chance)
        while path is None:
            self._server.rotate()
            path = self._view.rot(chance)
        self._reasons.rotten.append(self._view)
        return f"a bit of {path} changes"

    def _show(self, look: Look, chance: Random, number: str = "") -> None:
        if self._is_reset:
            look = Look.ALL
        begun_anew = self._view.begun_anew() if look is not Look.STALE_SIZE else frozenset()
        if self._view.show(look, chance):
            self.outcome.reached.add(f"look {look}")
            if self._survivors:
                reached = self._shown if self._is_running else self._lived.reached
                self._reasons.may_have_lost |= reached > min(self._survivors)
            if begun_anew:
                self._reasons.may_have_lost |= not begun_anew.isdisjoint(self._lived.files_reached)
            # GTIDs alone do not tell two groups of one number apart, once the file that was read is gone.
            self._is_loss_hidden |= (
                self._reasons.may_have_lost and not self._lived.files_reached <= self._view.numbers()
            ) or (look is Look.PURGE_LATE and bool(self._survivors))
            self._is_reset = False
            self._last_look = look
            # With bytes of the file that had the name before, or of what a crash has taken back.
            is_mixed = look is Look.TORN and bool(begun_anew or self._survivors)
            was_stale = self._is_running and self._reasons.is_stale
            self._reasons.is_stale = self._view.is_stale() or is_mixed or was_stale
            self._reasons.is_torn = look is Look.TORN and isinstance(self._server.log, InnodbServerLog)
            if not self._shows_lost:
                self._survivors.clear()
            self._shown, self._truth = self._server.last, dict(self._server.history)
            self._seen_terms.starts[:] = self._server.log.terms.starts
            self._tell(f"{number}reader sees: {look}")

    @property
    def _shows_lost(self) -> bool:
        """True if the reader may still see bytes from before a crash."""
        return self._reasons.is_torn or self._reasons.is_stale

    # --- runs of the job -----------------------------------------------------------------------------------------

    def _run_step(self, step: LifeStep) -> None:
        chance, lived = step.chance, self._lived
        self._disk.restart()
        self._put_fault(step, chance, "job", lived.faults, lived.first_calls, lived.happen)
        self._run(Conduct(chance, twice=chance.choice((0, 0, 0.5)), late=chance.choice((0, 0, 0.3))))

    def _fault_step(self, step: LifeStep) -> None:
        chance, lived = step.chance, self._lived
        self._tell(f"{step.number}. server: {self._server.last}: {self._server.transaction(chance)}")
        self._server.log.flush()
        if chance.random() < _PURGED_SHARE:
            self._tell(f"   server: purges files {self._server.purge(1)}")
            self._show(Look.PURGE_LATE, chance, "   ")
        else:
            self._show(Look.ALL, chance, "   ")
        kind, call = chance.choice(lived.rare_faults)
        nth, actions = chance.randint(1, 2), self._disk_actions()
        self._disk.restart()
        if kind in actions:
            self._disk.at_nth[call, nth] = actions[kind]
        else:
            lived.happen_at(kind, call)
        self._tell(f"   job runs, {kind} at {call} {nth}")
        self._run(Conduct(chance))

    def _meanwhile(self, step: LifeStep) -> None:
        """The server goes on while the job reads."""
        chance = Random(step.seed ^ 1)
        for act in chance.choices((Act.TRANSACTION, Act.ROTATE, Act.PURGE, Act.CRASH), (6, 2, 1, 1), k=3):
            self._reasons.has_changed_meanwhile |= act in (Act.PURGE, Act.CRASH)
            self._tell(f"   meanwhile, server: {self._of_server(LifeStep(step.number, act, chance.getrandbits(60)))}")
        self._server.log.flush()
        before = self._view.names()
        self._show(chance.choice((Look.ALL, Look.TORN)), chance, "   meanwhile, ")
        self._reasons.has_changed_meanwhile |= not before <= self._view.names()
        self.outcome.reached.add("meanwhile")

    def _run(self, conduct: Conduct, *, clean: bool = False) -> bool:
        """Let the job take what is there; True: it has ended by itself."""
        done = ""
        is_first = self._lived.taken == 0
        had_lost = self._reasons.may_have_lost and not self._is_reset  # which shows only when the reader looks
        self._is_running, self._reasons.has_changed_meanwhile = True, False

        def work() -> None:
            nonlocal done
            if self._view.path.exists() and self._lived.log != str(self._view.path):
                self._lived.switch_to(self._view.path, conduct)
                self.outcome.reached.add("switch")
            done = self._lived.run(conduct)

        error, faults = self._process(work, self._lived.installed())
        self._is_running = False
        self._reasons.began_late |= is_first and self._reasons.is_purged(0)
        self.outcome.reached |= {"task twice"} if conduct.done_twice else set()
        self.outcome.reached |= {"task late"} if conduct.done_late else set()
        self._reasons.has_lost_topics |= any("topics lost" in fault for fault in faults)
        self._reasons.has_lost_offset = self._disk.has_lost_offset
        self._lived.restart()
        # Another publisher may have gone on in the log before, which has groups that the replica lacks.
        is_behind = self._lived.log != str(self._view.path)
        self._reasons.may_have_lost |= is_behind and self._lived.reached > self._taken_over_at
        if isinstance(error, Killed):
            self._tell(f"   {faults[-1]}")
        elif error is not None:
            self._judge(error, faults, clean=clean)
        else:
            self._tell(f"   it did {done}{f', {faults}' if faults else ''}")
        has_ended = error is None
        is_whole = has_ended or (self._lived.is_atomic and self.outcome.named is None)
        # Files without a start, and torn pages, may hide what was lost.
        hides_loss = self._last_look in (Look.TORN, Look.NAMES) or self._is_loss_hidden
        shows_loss = had_lost and has_ended and not hides_loss
        is_certain = not (self._shows_lost and self._survivors)
        if is_whole and is_certain and (not self._reasons.may_have_lost or shows_loss):  # else it was taken, then lost
            self._lived.check(self._expected(), began_late=self._reasons.began_late)
        return has_ended

    def _expected(self) -> Mapping[int, StateAfterGroup]:
        """States of the server after groups, as far as what the job writes must be those."""
        return self._truth

    @property
    def _is_late(self) -> bool:
        """True if the log began after the server's first groups when the job saw it first."""
        return self._reasons.is_purged(0) or self._reasons.began_at > 0

    # --- verdicts ------------------------------------------------------------------------------------------------

    def _judge(self, error: BaseException, faults: list[str], *, clean: bool) -> None:
        """See that an error is named, and its reason true."""
        named = self._named(error)
        if self._lived.is_set_back(named):
            self._tell(f"   somebody sets its log back to {Path(self._lived.log).name}")
        elif self._reasons.is_last(named, self._lived.taken, faults, clean=clean):
            self.outcome.named = named.condition

    def _catch_up(self) -> None:
        self._server.log.flush()
        self._show(Look.ALL, Random(0))
        for _ in range(RUNS_TO_CATCH_UP):
            self._tell("at the end, job runs")
            is_done = self._run(Conduct(Random(0)), clean=True)
            if self.outcome.named is not None:
                return
            # Of a log that has lost its beginning, and has nothing after it, a job takes nothing.
            lost = self._server.purged_to if self._lived.taken == 0 and self._is_late else 0
            if is_done and max(self._lived.taken, lost) == self._server.last:
                return
            if is_done and self._view.is_end_damaged(self._server.log.page_size):
                return
        raise DefectError(f"the job stays at {self._lived.taken}, the log ends at {self._server.last}")
