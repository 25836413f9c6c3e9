"""The short form of the fuzzing: a few inputs for each target, compiled and without the compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import atheris_engine
from tests.fuzz.hypothesis_engine import fuzz
from tests.fuzz.targets import TARGETS

REPO = Path(__file__).resolve().parents[2]
SEED = 20261120


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_give_a_result_or_a_named_error(name: str) -> None:
    fuzz(name, SEED, 60)


def _run(*arguments: str) -> str:
    result = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", *arguments, "--seed", str(SEED)],
        cwd=REPO,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_no_kernel_reads_past_its_input() -> None:
    """Without the compiler every load and copy of a kernel checks its bounds."""
    assert "without the compiler" in _run("--examples", "20")


@pytest.mark.slow
def test_guided_fuzzing_takes_the_same_targets() -> None:
    printed = _run("--engine", "atheris", "--seconds", "2", "mysql_gtid")
    if atheris_engine.is_there():
        assert "no fault in" in printed
        assert "mysql_gtid" in printed
    else:
        assert "pip install atheris" in printed
