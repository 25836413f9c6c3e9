"""What a program must not wait for when it starts."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module",
    ["binlog_streaming.cli.jobs.mirror", "binlog_streaming.tables.job", "binlog_connector.spark.stream_reader"],
)
def test_pandas_is_not_imported(module: str) -> None:
    """It takes longer than all else; PyArrow does it where a scalar or an array is made of Python's values."""
    script = f"import sys, {module}; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
