"""The benchmarks of Kafka work on a part of their data; what a consumer sees is counted."""

from __future__ import annotations

import pytest

from bench.registry import chosen
from binlog_lab.demo.servers.fetch import KAFKA
from tests.bench.parts import part_of_data

pytestmark = [pytest.mark.server, pytest.mark.thorough]


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("kafka.producer.confluent.rows_per_s", 0.02),
        ("kafka.producer.python.rows_per_s", 0.02),
        ("kafka.confluent.rows_per_s", 0.1),
        ("kafka.python.rows_per_s", 0.1),
        ("kafka.latency_p95_ms", 0.1),
        ("kafka.python.latency_p95_ms", 0.1),
        ("kafka.back.rows_per_s", 0.1),
    ],
)
def test_a_run(name: str, share: float) -> None:
    if not KAFKA.file.exists():
        pytest.skip("there is no Kafka broker: `make servers` fetches it")
    (one,) = chosen([name])
    with part_of_data(share):
        assert one.measure() > 0
