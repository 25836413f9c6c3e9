"""`binlog_connector` gives its public names, and imports nothing before they are asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import binlog_connector


@pytest.mark.parametrize("name", binlog_connector.__all__)
def test_each_public_name_is_there(name: str) -> None:
    assert getattr(binlog_connector, name).__name__ == name


def test_another_name_is_not() -> None:
    with pytest.raises(AttributeError, match=r"binlog_connector.*Talier"):
        binlog_connector.Talier  # noqa: B018


def test_the_tailer_needs_no_spark() -> None:
    program = "import sys, binlog_connector; binlog_connector.Tailer; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
