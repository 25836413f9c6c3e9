from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from bench.__main__ import keep
from bench.registry import Benchmark, all_benchmarks, chosen

if TYPE_CHECKING:
    from pathlib import Path


def test_names_and_patterns_choose() -> None:
    names = [one.name for one in all_benchmarks()]
    assert "spark.noop.typed.rows_per_s" in names
    assert [one.name for one in chosen([])] == names
    assert [one.name for one in chosen(["spark.noop.typed.*"])] == ["spark.noop.typed.rows_per_s"]
    assert chosen(["spark.noop.typed.rows_per_s", "spark.*"])[0].name == "spark.noop.typed.rows_per_s"
    assert len(chosen(["spark.*", "spark.*"])) == len(chosen(["spark.*"]))


def test_unknown_name_says_which_there_are() -> None:
    with pytest.raises(ValueError, match=r"no benchmark is called spork\.\*; there are: .*spark\.noop\.typed"):
        chosen(["spork.*"])


def test_every_benchmark_says_what_it_measures() -> None:
    assert [one.name for one in all_benchmarks() if not one.about] == []


def test_results_of_other_benchmarks_stay(tmp_path: Path) -> None:
    path = tmp_path / "results" / "latest.json"
    for name, value in (("a.rows_per_s", 1.0), ("b.rows_per_s", 2.0), ("a.rows_per_s", 3.0)):
        keep(path, Benchmark(name, "rows/s", "about", lambda: 0.0), value)
    results = json.loads(path.read_text())
    assert {name: result["value"] for name, result in results.items()} == {"a.rows_per_s": 3.0, "b.rows_per_s": 2.0}
    assert results["a.rows_per_s"]["unit"] == "rows/s"
    assert results["a.rows_per_s"]["command"] == "python -m bench a.rows_per_s"
