"""Ends of processes, made and real, and full disks: `Killed`, `Kill`, `in_a_process`, `files_up_to`.

Writes that are cut off at a step, for `steps.watched`: `CutOff`, `CutOffSince`, `DeadFrom`, `CutAt`; and `Cut`.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from enum import StrEnum


class Killed(BaseException):
    """The process ends here: nothing that follows is done, and nobody handles it."""


class Kill:
    """Ends this process at the step with a number, as nobody can be told."""

    def __init__(self, left: int) -> None:
        self._left = left

    def __call__(self, step: StrEnum) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def in_a_process(work: Callable[[], object]) -> int:
    """Do *work* in a process of its own; its exit status, or the number of the signal that ended it, below zero."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # reported by the status
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextlib.contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """Writing more gives an error in the middle of a file, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


class Cut(BaseException):
    """The process ends here: no error of a step, which would be named."""


class CutOff:
    """Cuts a write off at the step with a number."""

    def __init__(self, left: int) -> None:
        self._left = left

    def __call__(self, step: StrEnum) -> None:
        self._left -= 1
        if self._left == 0:
            raise Cut(step)


class CutOffSince(CutOff):
    """Cuts a write off at the step with a number, counted from a certain one on."""

    def __init__(self, since: StrEnum, left: int) -> None:
        super().__init__(left)
        self._since = since
        self._counts = False

    def __call__(self, step: StrEnum) -> None:
        self._counts |= step is self._since
        if self._counts:
            super().__call__(step)


class DeadFrom:
    """Ends a process at the step with a number: what would clean up after that ends at its own first step, too."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __call__(self, step: StrEnum) -> None:
        self.left -= 1
        if self.left <= 0:
            raise Cut(step)


class CutAt:
    """Cuts the write off at a step."""

    def __init__(self, step: StrEnum) -> None:
        self.step = step

    def __call__(self, step: StrEnum) -> None:
        if step is self.step:
            raise Cut
