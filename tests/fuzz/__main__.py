"""Fuzzes all targets in turn: `python -m tests.fuzz --seconds 60`; `make fuzz` runs it with checks of all bounds."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS

ROUND_EXAMPLES = 50


def fuzz(name: str, number: int, examples: int) -> None:
    """Try *examples* inputs on a target; the number of the round decides which."""
    target, strategies = TARGETS[name]

    def one(arguments: tuple[object, ...]) -> None:
        target(*arguments)

    limits = settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=True
    )
    seed(number)(limits(given(st.tuples(*strategies))(one)))()


def main() -> None:
    """Run until the time is over, or for the given number of inputs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", help="names; default: all")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--examples", type=int, help="inputs for each target, however long that takes")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    names = arguments.targets or list(TARGETS)
    mode = "without the compiler" if os.environ.get("NUMBA_DISABLE_JIT") == "1" else "compiled"
    if os.environ.get("NUMBA_BOUNDSCHECK") == "1":
        mode += ", bounds checked"
    print(f"fuzzing {len(names)} targets, {mode}, seed {arguments.seed}", flush=True)
    started = time.monotonic()
    counts = dict.fromkeys(names, 0)
    for number in itertools.count(arguments.seed):
        for name in names:
            examples = arguments.examples or ROUND_EXAMPLES
            try:
                fuzz(name, number, examples)
            except BaseException:
                print(f"target {name}, seed {number}", file=sys.stderr)
                raise
            counts[name] += examples
            if arguments.examples is None and time.monotonic() - started > arguments.seconds:
                break
        if arguments.examples is not None or time.monotonic() - started > arguments.seconds:
            break
    for name, count in counts.items():
        print(f"  {name:16} {count:8,} inputs")
    print(f"no fault in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
