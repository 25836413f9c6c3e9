"""The short form of the fuzzing: a few inputs for each target, compiled and without the compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.__main__ import fuzz
from tests.fuzz.targets import TARGETS

REPO = Path(__file__).resolve().parents[2]
SEED = 20261120


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_give_a_result_or_a_named_error(name: str) -> None:
    fuzz(name, SEED, 60)


def test_no_kernel_reads_past_its_input() -> None:
    """Without the compiler every load and copy of a kernel checks its bounds."""
    result = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--examples", "30", "--seed", str(SEED)],
        cwd=REPO,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "without the compiler" in result.stdout
