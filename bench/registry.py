"""The list of benchmarks: a function with `@benchmark(name, unit=...)` in one of `MODULES` measures one number."""

from __future__ import annotations

import fnmatch
import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MODULES = (
    "bench.cold_start",
    "bench.innodb_container",
    "bench.rows",
    "bench.arrow",
    "bench.kafka.envelope",
    "bench.rules",
    "bench.status",
    "bench.structured",
    "bench.spark.source",
    "bench.tables.backlogs",
    "bench.tables.live",
    "bench.tables.workloads",
    "bench.tables.first_commit",
    "bench.tables.target_limits",
    "bench.tables.evidence",
    "bench.tables.small_batches",
    "bench.tables.cascades",
    "bench.tables.conversions",
    "bench.tables.reading",
    "bench.tables.through_log",
    "bench.kafka.producer",
    "bench.kafka.publish",
)
"""Imported to fill the list; the order here is the order of the table."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One number: what it is called, what it counts, and the function that measures it."""

    name: str
    unit: str
    about: str
    measure: Callable[[], float]


_share = [1.0]


def share() -> float:
    """Which part of its data a benchmark of `lake.*` takes: 1, unless somebody only sees whether it works."""
    return _share[0]


def set_share(value: float) -> None:
    """Let benchmarks take a part of their data; what they give then is not the number that they are named after."""
    _share[0] = value


_benchmarks: dict[str, Benchmark] = {}


def benchmark(name: str, *, unit: str) -> Callable[[Callable[[], float]], Callable[[], float]]:
    """Put a function on the list; the first line of its docstring tells what it measures."""

    def put(measure: Callable[[], float]) -> Callable[[], float]:
        assert name not in _benchmarks, f"two benchmarks are called {name}"
        about = (measure.__doc__ or "").partition("\n")[0]
        _benchmarks[name] = Benchmark(name, unit, about, measure)
        return measure

    return put


def all_benchmarks() -> list[Benchmark]:
    """Every benchmark, in the order of `MODULES`."""
    for module in MODULES:
        importlib.import_module(module)
    return list(_benchmarks.values())


def chosen(patterns: Iterable[str]) -> list[Benchmark]:
    """The benchmarks that *patterns* name (`spark.*` is fine); all without patterns."""
    benchmarks = all_benchmarks()
    wanted: list[Benchmark] = []
    for pattern in patterns:
        found = [one for one in benchmarks if fnmatch.fnmatchcase(one.name, pattern)]
        if not found:
            raise ValueError(
                f"no benchmark is called {pattern}; there are: {', '.join(one.name for one in benchmarks)}"
            )
        wanted += [one for one in found if one not in wanted]
    return wanted or benchmarks
