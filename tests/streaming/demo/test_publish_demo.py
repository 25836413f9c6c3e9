"""The demo of topics: a short one gives every table back from its topic."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from binlog_lab.demo.publish_run import run_publish_demo
from binlog_lab.demo.run import DemoSource
from binlog_lab.demo.servers.fetch import KAFKA
from binlog_lab.demo.view import DemoView

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.server, pytest.mark.thorough]


def test_every_table_comes_back_from_its_topic(tmp_path: Path) -> None:
    if not KAFKA.file.exists():
        pytest.skip("there is no Kafka broker: `make servers` fetches it")
    text = io.StringIO()
    view = DemoView(Console(file=text, width=120))
    directory = tmp_path / "demo"
    assert run_publish_demo(DemoSource.WORKLOAD, directory, rows=8000, seconds=12, keep=False, view=view), (
        text.getvalue()
    )
    assert "All 8 tables are equal to the expected rows" in text.getvalue()
    assert "killed (kill -9)" in text.getvalue()
    assert [path.name for path in directory.iterdir()] == [".binlog-stream-demo"]
