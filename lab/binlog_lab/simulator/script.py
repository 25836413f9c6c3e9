"""Events of a life: `Script`, made from a seed; leaving steps out leaves the others as they are."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from binlog_lab.simulator.structured.program import ProgramAct

if TYPE_CHECKING:
    from collections.abc import Mapping


class Act(StrEnum):
    """Kind of an event."""

    TRANSACTION = "transaction"
    ALTER = "alter"
    CREATE = "create"
    DROP = "drop"
    RENAME = "rename"
    XA = "XA"
    RESET = "reset"
    """RESET MASTER, after all tables were dropped."""
    FLUSH = "flush"
    ROTATE = "rotate"
    RESTART = "restart"
    CRASH = "crash"
    POWER_LOSS = "power loss"
    """The server's machine loses its power."""
    PURGE = "purge"
    FAILOVER = "failover"
    """A replica is the primary."""
    CLOCK = "clock"
    """The server's clock jumps, also back."""
    ROT = "bit rot"
    """A bit of a file that is written changes."""
    SHOW = "show"
    """The reader sees more of the server's files."""
    STALE = "stale"
    """The reader sees a later file, and an earlier one as it was before."""
    RUN = "run"
    """The job takes what it sees."""
    ARCHIVE = "archive"
    """The archiver takes what it sees."""
    SNAPSHOT = "snapshot"
    """The command goes on with snapshots of tables."""
    CLAIM = "claim"
    """The archiver runs, with a fault where it claims its archive."""
    FAULT = "fault"
    """The job runs, with a fault at a call that rarely has one."""


_WEIGHTS: Mapping[Act | ProgramAct, float] = {
    Act.TRANSACTION: 30,
    Act.ALTER: 4,
    Act.CREATE: 3,
    Act.DROP: 1,
    Act.RENAME: 2,
    Act.XA: 5,
    Act.RESET: 0.5,
    Act.FLUSH: 5,
    Act.ROTATE: 5,
    Act.RESTART: 2,
    Act.CRASH: 3,
    Act.POWER_LOSS: 2,
    Act.PURGE: 2,
    Act.FAILOVER: 1,
    Act.CLOCK: 1,
    Act.ROT: 0.5,
    Act.SHOW: 10,
    Act.RUN: 12,
}
LENGTHS = (5, 8, 10, 14, 20)
"""Steps of a life; short ones find as much in the same time."""
_SWITCH = (
    *(Act.TRANSACTION, Act.TRANSACTION, Act.ROTATE, Act.TRANSACTION, Act.FLUSH, Act.SHOW, Act.RUN, Act.RUN),
    *(Act.FAILOVER, Act.TRANSACTION, Act.TRANSACTION, Act.TRANSACTION),
)
"""A job that has taken something goes on in the log of a replica."""
_ROT = (Act.TRANSACTION, Act.TRANSACTION, Act.ROTATE, Act.ROT, Act.SHOW, Act.RUN)
"""A file that nobody has read yet is damaged."""
_STALE = (Act.SHOW, Act.TRANSACTION, Act.ROTATE, Act.TRANSACTION, Act.STALE, Act.ARCHIVE)
"""An archiver sees a file as it was, beside the one after it."""
_ARCHIVE_WEIGHTS: Mapping[Act | ProgramAct, float] = {
    Act.TRANSACTION: 20,
    Act.ALTER: 2,
    Act.XA: 5,
    Act.FLUSH: 3,
    Act.ROTATE: 10,
    Act.RESTART: 2,
    Act.CRASH: 2,
    Act.PURGE: 8,
    Act.SHOW: 12,
    Act.RUN: 8,
    Act.ARCHIVE: 12,
}
_PROGRAM_WEIGHTS: Mapping[Act | ProgramAct, float] = {
    ProgramAct.LOG: 8,
    ProgramAct.NO_TIME: 1,
    ProgramAct.IN_PART: 2,
    ProgramAct.ROTATE: 3,
    ProgramAct.RENAME: 1,
    ProgramAct.REMOVE: 2,
    ProgramAct.EMPTY: 1,
    ProgramAct.RESTART: 1,
    ProgramAct.TEAR: 1,
    ProgramAct.NOISE: 1,
    ProgramAct.RUN: 8,
}
_SNAPSHOT_WEIGHTS: Mapping[Act | ProgramAct, float] = {
    Act.TRANSACTION: 20,
    Act.ALTER: 3,
    Act.XA: 3,
    Act.FLUSH: 5,
    Act.ROTATE: 3,
    Act.RESTART: 2,
    Act.CRASH: 2,
    Act.SHOW: 12,
    Act.RUN: 14,
    Act.SNAPSHOT: 16,
}


class LifeKind(StrEnum):
    """Kind of a life."""

    SERVER = "server"
    ARCHIVE = "archive"
    SNAPSHOT = "snapshot"
    PROGRAM = "program"
    """A program that logs."""


_STEERED: Mapping[LifeKind, tuple[tuple[str, float, tuple[Act, ...]], ...]] = {
    LifeKind.SERVER: (("switch", 0.1, _SWITCH), ("rot", 0.05, _ROT)),
    LifeKind.ARCHIVE: (("stale", 0.4, _STALE),),
}
"""Acts that come together in some lives of a kind, as by chance alone they are too rare; and the shares."""
_ENDS: Mapping[LifeKind, tuple[int, tuple[Act, ...]]] = {
    LifeKind.ARCHIVE: (0, (Act.CLAIM,) * 3),
    LifeKind.SERVER: (9, (Act.FAULT,) * 2),
}
"""Acts after all others in the lives of a kind with so many steps or more, for what is too rare by chance alone."""
_KINDS = ((LifeKind.PROGRAM, 0.08), (LifeKind.ARCHIVE, 0.07), (LifeKind.SNAPSHOT, 0.05))
"""Kinds that are not the usual one, and their shares of those that are left."""
_WEIGHTS_OF = {
    LifeKind.SERVER: _WEIGHTS,
    LifeKind.ARCHIVE: _ARCHIVE_WEIGHTS,
    LifeKind.SNAPSHOT: _SNAPSHOT_WEIGHTS,
    LifeKind.PROGRAM: _PROGRAM_WEIGHTS,
}


@dataclass(frozen=True, slots=True)
class LifeStep:
    """One thing that happens.

    Attributes:
        number: Its place in the whole script.
        seed: Of all choices in it.
    """

    number: int
    act: Act | ProgramAct
    seed: int

    @property
    def chance(self) -> random.Random:
        """Its choices, from the first one on."""
        return random.Random(self.seed)


@dataclass(frozen=True, slots=True)
class Script:
    """A life, before it is lived."""

    seed: int
    steps: tuple[LifeStep, ...]

    @classmethod
    def of(cls, seed: int) -> Script:
        """The script of a seed."""
        chance = random.Random(f"script {seed}")
        kind = _kind_of(seed)
        weights = _WEIGHTS_OF[kind]
        acts = chance.choices(list(weights), list(weights.values()), k=chance.choice(LENGTHS))
        for name, share, together in _STEERED.get(kind, ()):
            steered = random.Random(f"{name} {seed}")
            if steered.random() < share:
                place = steered.randint(0, len(acts))
                acts[place:place] = together
        long, ends = _ENDS.get(kind, (0, ()))
        ends = ends if len(acts) >= long else ()
        at_end = random.Random(f"end {seed}")
        seeds = [*(chance.getrandbits(60) for _ in acts), *(at_end.getrandbits(60) for _ in ends)]
        return cls(seed, tuple(map(LifeStep, range(1, len(seeds) + 1), (*acts, *ends), seeds)))

    @property
    def kind(self) -> LifeKind:
        """Kind of the life."""
        return _kind_of(self.seed)

    def only(self, numbers: frozenset[int]) -> Script:
        """The same with some of its steps."""
        return replace(self, steps=tuple(step for step in self.steps if step.number in numbers))

    @property
    def chance(self) -> random.Random:
        """Choices of settings."""
        return random.Random(f"settings {self.seed}")


@dataclass(slots=True)
class LifeResult:
    """Result of a life.

    Attributes:
        story: What happened, line by line.
        defect: What must not be; None: all was as it must be.
        named: The named error that ended it, with a reason that is true; None: none did.
        reached: What happened, for coverage.
    """

    story: list[str] = field(default_factory=list)
    defect: str | None = None
    named: str | None = None
    reached: set[str] = field(default_factory=set)
    kind: str = ""


def _kind_of(seed: int) -> LifeKind:
    rare = (kind for kind, share in _KINDS if random.Random(f"{kind} {seed}").random() < share)
    return next(rare, LifeKind.SERVER)
