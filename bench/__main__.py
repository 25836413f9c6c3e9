"""`python -m bench [names]`: measure, print a table, and write `bench/results/latest.json`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from bench.machine import machine_line
from bench.registry import Benchmark, all_benchmarks, chosen, set_share

RESULTS = Path(__file__).parent / "results" / "latest.json"


def main() -> int:
    """Run the benchmarks that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=main.__doc__)
    parser.add_argument("names", nargs="*", help="which ones; * stands for anything (default: all)")
    parser.add_argument("--list", action="store_true", help="say which there are, and stop")
    parser.add_argument(
        "--share", type=float, default=1.0, help="take that part of the data, where a benchmark can; nothing is kept"
    )
    arguments = parser.parse_args()
    if arguments.list:
        for one in all_benchmarks():
            print(f"{one.name:36} {one.unit:10} {one.about}")
        return 0
    try:
        benchmarks = chosen(arguments.names)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    set_share(arguments.share)
    print(machine_line())
    print(f"{'benchmark':36} {'value':>14} {'unit':10} {'took':>7}")
    for one in benchmarks:
        started = time.perf_counter()
        value = one.measure()
        if arguments.share == 1:
            keep(RESULTS, one, value)
        print(f"{one.name:36} {_rounded(value):>14} {one.unit:10} {time.perf_counter() - started:6.1f}s", flush=True)
    if arguments.share == 1:
        print(f"written to {RESULTS}")
    return 0


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:,.3g}"


def keep(path: Path, one: Benchmark, value: float, *, command: str = "") -> None:
    """Put a result into the file at *path*.

    Results of benchmarks that did not run this time stay, each with the machine that it was measured on.
    """
    results = json.loads(path.read_text()) if path.exists() else {}
    results[one.name] = {
        "value": value,
        "unit": one.unit,
        "command": command or f"python -m bench {one.name}",
        "machine": machine_line(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    sys.exit(main())
