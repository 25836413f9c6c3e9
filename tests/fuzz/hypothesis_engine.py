"""Targets under Hypothesis: `fuzz(name, number, examples)`."""

from __future__ import annotations

import faulthandler
import time
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable


def bound(name: str, passed: Callable[[float], None]) -> Callable[[], None]:
    """A target with the strategies of its arguments, as a test of Hypothesis.

    Args:
        passed: Called after each input with the processor seconds that it took.
    """
    function, strategies = TARGETS[name]

    def one(arguments: tuple[object, ...]) -> None:
        started = time.process_time()
        try:
            function(*arguments)
        except BaseException as error:
            error.add_note(f"target {name}: {arguments!r}")
            raise
        passed(time.process_time() - started)

    test: Callable[[], None] = given(st.tuples(*strategies))(one)
    return test


def fuzz(name: str, number: int, examples: int, *, seconds_max: float | None = None) -> float:
    """Try *examples* inputs on a target.

    Args:
        seconds_max: A single input that takes longer ends the process, with a traceback; None: no limit.

    Returns:
        Processor seconds of the slowest input.
    """
    slowest = 0.0

    def passed(seconds: float) -> None:
        nonlocal slowest
        slowest = max(slowest, seconds)
        if seconds_max is not None:
            faulthandler.dump_traceback_later(seconds_max, exit=True)

    # Finding the smallest input matters where there is a fault alone; explaining it takes longer than it is worth.
    limits = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
        print_blob=True,
    )
    passed(0.0)
    try:
        seed(number)(limits(bound(name, passed)))()
    finally:
        faulthandler.cancel_dump_traceback_later()
    return slowest
