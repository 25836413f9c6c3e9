"""Writes that are cut off at a step, for `steps.watched`: `CutOff`, `CutOffSince`, `DeadFrom`, `CutAt`; and `Cut`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from enum import StrEnum


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
