"""A real Kafka broker for tests: `KafkaBroker`; a test without one is skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_streaming.demo.failures import DemoError
from binlog_streaming.demo.servers import kafka_broker as demo

if TYPE_CHECKING:
    from pathlib import Path


class KafkaBroker(demo.KafkaBroker):
    """The demo's broker; a test without one is skipped."""

    def __init__(self, folder: Path, *, proxy_port: int | None = None) -> None:
        try:
            super().__init__(folder, proxy_port=proxy_port)
        except DemoError as error:
            pytest.skip(f"{error.reason}: {error.hint}")
