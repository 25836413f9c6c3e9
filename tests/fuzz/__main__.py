"""Fuzzes all targets in turn: `python -m tests.fuzz --seconds 60`; `make fuzz` runs it with checks of all bounds."""

from __future__ import annotations

import argparse
import itertools
import os
import random
import resource
import sys
import time
from typing import TYPE_CHECKING

from tests.fuzz import atheris_engine

if TYPE_CHECKING:
    from collections.abc import Sequence

ROUND_EXAMPLES = 20
SECONDS_MAX = 300.0
"""A single input takes less than that, and be it that kernels are compiled for it; more is a hang."""
DATA_MAX = 6 << 30
"""Bytes that the process may ask for; more is a fault, as `MemoryError`."""


def main() -> None:
    """Run until the time is over, or for the given number of inputs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", help="names; default: all")
    parser.add_argument("--engine", choices=["hypothesis", "atheris"], default="hypothesis")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--examples", type=int, help="inputs for each target, however long that takes (hypothesis)")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    mode = "without the compiler" if os.environ.get("NUMBA_DISABLE_JIT") == "1" else "compiled"
    if os.environ.get("NUMBA_BOUNDSCHECK") == "1":
        mode += ", bounds checked"
    if arguments.engine == "atheris" and not atheris_engine.is_there():
        print("atheris cannot be imported here: no guided fuzzing; to have it: pip install atheris")
        return
    resource.setrlimit(resource.RLIMIT_DATA, (DATA_MAX, DATA_MAX))
    print(f"fuzzing with {arguments.engine}, {mode}, seed {arguments.seed}", flush=True)
    started = time.monotonic()
    if arguments.engine == "atheris":
        seconds = arguments.seconds
        counts = atheris_engine.fuzz_guided(arguments.targets, seconds, arguments.seed, seconds_max=SECONDS_MAX)
    else:
        counts = _fuzz_in_turn(arguments.targets, arguments.seconds, arguments.seed, arguments.examples)
    passed = time.monotonic() - started
    for name, (count, slowest) in counts.items():
        print(f"  {name:16} {count:9,} inputs, the slowest {slowest * 1000:8,.0f} ms")
    total = sum(count for count, _ in counts.values())
    print(f"no fault in {total:,} inputs, {len(counts)} targets, {passed:.0f} s")


def _fuzz_in_turn(
    names: Sequence[str], seconds: float, first: int, examples: int | None
) -> dict[str, tuple[int, float]]:
    from tests.fuzz.hypothesis_engine import fuzz
    from tests.fuzz.targets import TARGETS

    names = names or list(TARGETS)
    counts = dict.fromkeys(names, (0, 0.0))
    end = time.monotonic() + seconds
    for number in itertools.count(first):
        # In another order each time: the last ones have their turn in a short time, too.
        for name in random.Random(number).sample(names, len(names)):
            try:
                slowest = fuzz(name, number, examples or ROUND_EXAMPLES, seconds_max=SECONDS_MAX)
            except BaseException:
                print(f"target {name}, engine hypothesis, seed {number}", file=sys.stderr)
                raise
            counts[name] = counts[name][0] + (examples or ROUND_EXAMPLES), max(slowest, counts[name][1])
            if examples is None and time.monotonic() > end:
                return counts
        if examples is not None:
            return counts
    return counts


if __name__ == "__main__":
    main()
