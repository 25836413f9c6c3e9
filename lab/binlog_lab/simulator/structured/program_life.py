"""The life of a program that logs, of its files, and of the job that has its events in a table: `ProgramLife`."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import nullcontext
from random import Random
from typing import TYPE_CHECKING, Any

from binlog_format.errors import BinlogError, CorruptError, DataLossError
from binlog_format.position import Position
from binlog_lab.simulator.any_life import RUNS_TO_CATCH_UP, AnyLife
from binlog_lab.simulator.disk import Killed
from binlog_lab.simulator.model_tables import ModelLake
from binlog_lab.simulator.reasons import OF_FAULTS
from binlog_lab.simulator.settings import DELTA_SHARE, write_event_job
from binlog_lab.simulator.structured.program import ProgramAct, ProgramLog
from binlog_lab.simulator.verdict import DefectError
from binlog_streaming.event_tables.run import EventTablesRun
from binlog_streaming.event_tables.state import EventTablesStateFile
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.settings import EventTablesJob, load_any_job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlog_lab.simulator.script import LifeStep, Script
    from binlog_streaming.lake.target import TargetFactory

_FAULTS = ("", "one batch", *("kill",) * 3, "power", "EIO", "ENOSPC", "meanwhile", "meanwhile")
_NOTHING_LEFT = "BINLOG_START.POSITION_NOT_FOUND"
"""All files with events went between two looks at the log; the next run sees what is left."""
_FIRST_CALLS = 40
"""Calls of a run among which a fault is put."""
_ACCEPTING_SHARE = 0.75
"""Share of the lives whose job goes on after losses and damage."""


class ProgramLife(AnyLife):
    """A life of a program."""

    def __init__(self, script: Script, folder: Path) -> None:
        super().__init__(script, folder)
        chance = script.chance
        self._log = ProgramLog(folder / "log-1")
        self._lake = ModelLake(self._disk.elsewhere) if chance.random() >= DELTA_SHARE else None
        self._accepts = chance.random() < _ACCEPTING_SHARE
        file = write_event_job(
            chance, folder, folder / "log-1", has_model_tables=self._lake is not None, accepts=self._accepts
        )
        job = load_any_job(file)
        assert isinstance(job, EventTablesJob)
        self._job = job
        self.outcome.kind = "events of programs"
        self._has_removed_meanwhile = False

    def _begin(self) -> None:
        kind = "Delta" if self._lake is None else "model"
        how = "accepts losses" if self._accepts else "ends at losses"
        self._tell(f"a program that logs; {kind} tables; {how}; {self._job.source.max_bytes_per_trigger} bytes a batch")
        self._log.log(Random(self.script.seed))

    def _end(self) -> None:
        self._log.close()
        super()._end()

    def _do(self, step: LifeStep) -> None:
        self.outcome.reached.add(str(step.act))
        if step.act is ProgramAct.RUN:
            self._run_step(step)
        else:
            self._let(ProgramAct(step.act), step.chance, f"{step.number}. ")

    def _let(self, act: ProgramAct, chance: Random, number: str) -> None:
        self._log.do(act, chance)
        self._tell(f"{number}{act}; {len(self._log.places)} events")

    # --- runs of the job -----------------------------------------------------------------------------------------

    def _run_step(self, step: LifeStep) -> None:
        kind = self._put_fault(step, step.chance, "job", _FAULTS, _FIRST_CALLS)
        self._run(is_short=kind == "one batch")

    def _meanwhile(self, step: LifeStep) -> None:
        """The program goes on while the job reads."""
        chance = Random(step.seed ^ 1)
        acts = ProgramAct.LOG, ProgramAct.IN_PART, ProgramAct.ROTATE, ProgramAct.RENAME, ProgramAct.REMOVE
        for act in chance.choices(acts, (3, 2, 2, 1, 1), k=3):
            self._has_removed_meanwhile |= act is ProgramAct.REMOVE
            self._let(act, chance, "   meanwhile, ")
        self.outcome.reached.add("meanwhile")

    def _run(self, *, is_short: bool = False, clean: bool = False) -> bool:
        """Let the job take what is there; True: it has ended by itself."""
        self._has_removed_meanwhile = False
        written = set(self._log.places) if self._log.is_whole else set()

        def work() -> None:
            running = EventTablesRun(self._job, once=True, listener=lambda _: running.stop() if is_short else None)
            running.run()

        installed = nullcontext() if self._lake is None else self._lake.installed()
        error, faults = self._process(work, installed)
        if error is None:
            self._tell(f"   it ended{f', {faults}' if faults else ''}")
            self._look()
            self._check(set() if is_short else written)
        elif isinstance(error, Killed):
            self._tell(f"   {faults[-1]}")
        else:
            self._judge(self._named(error), faults, clean=clean)
        return error is None

    def _look(self) -> None:
        """Note which files the job knows."""
        start = EventTablesStateFile(self._job).start
        assert start is not None
        self._log.known |= {start.position.file_no, *(file.file_no for file in start.files)}

    def _catch_up(self) -> None:
        self._log.do(ProgramAct.LOG, Random(0))
        for _ in range(RUNS_TO_CATCH_UP):
            self._tell("at the end, job runs")
            if self._run(clean=True) or self.outcome.named is not None:
                return
        raise DefectError("the job does not come to the end of the log")

    # --- verdicts ------------------------------------------------------------------------------------------------

    def _judge(self, error: BinlogError, faults: list[str], *, clean: bool) -> None:
        if faults and not clean and error.condition in OF_FAULTS:
            return
        if error.condition == _NOTHING_LEFT and self._has_removed_meanwhile:
            return
        is_true = (isinstance(error, DataLossError) and self._log.has_lost) or (
            isinstance(error, CorruptError) and self._log.is_damaged
        )
        if self._accepts or not is_true:
            raise DefectError(f"an error whose reason is not true: {error}") from error
        self.outcome.named = error.condition

    def _check(self, written: set[int]) -> None:
        """See that the table has every event once, and that those that it lacks of *written* are in named gaps."""
        found = Counter(json.loads(row["args"])[0] for row in self._rows("logs"))
        if (doubled := sorted(number for number, count in found.items() if count > 1)) or not set(found) <= set(
            self._log.places
        ):
            raise DefectError(f"the table has events twice, {doubled}, or of none: {sorted(found)}")
        named = list(self._gaps())
        for number in sorted(written - set(found) - self._log.unseen):
            place = self._log.places[number]
            # A gap that goes on before its start goes on in a file without an event, which has no number yet.
            if not any(
                (start <= place and (place < end or end < start)) or f"number is {place.file_no}" in reason
                for start, end, reason in named
            ):
                raise DefectError(f"the table lacks event {number} at {place}, and gaps are {named}")

    def _gaps(self) -> Iterator[tuple[Position, Position, str]]:
        """Gaps that were named: their places, and reasons."""
        for gap in self._rows(f"_binlog_stream/gaps_{EventTablesStateFile(self._job).state.query_id[:8]}"):
            # That of a single event that was left out has a byte in place of a range; none is logged here.
            if "byte" not in gap["start"]:
                yield Position.parse(gap["start"]), Position.parse(gap["go_on"]), gap["reason"]

    def _rows(self, place: str) -> list[dict[str, Any]]:
        factory: TargetFactory = sink_type(self._job.sink.format) if self._lake is None else self._lake
        target = factory.at(self._job.sink, f"{self._job.sink.directory}/{place}")
        rows: list[dict[str, Any]] = [] if target.properties() is None else target.read().read_all().to_pylist()
        return rows
