"""The benchmarks of `publish` work on a part of their data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench.registry import chosen, set_share
from binlog_lab.demo.servers.fetch import KAFKA

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.server, pytest.mark.thorough]


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    set_share(0.1)
    yield
    set_share(1)


@pytest.mark.parametrize(
    "name",
    [
        "kafka.confluent.rows_per_s",
        "kafka.python.rows_per_s",
        "kafka.latency_p95_ms",
        "kafka.python.latency_p95_ms",
        "kafka.back.rows_per_s",
    ],
)
def test_a_run(name: str) -> None:
    if not KAFKA.file.exists():
        pytest.skip("there is no Kafka broker: `make servers` fetches it")
    (one,) = chosen([name])
    assert one.measure() > 0
