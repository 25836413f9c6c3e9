"""The benchmark of the producers works on a part of its data, and counts what a consumer sees."""

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
    set_share(0.02)
    yield
    set_share(1)


@pytest.mark.parametrize("client", ["confluent", "python"])
def test_a_run(client: str) -> None:
    if not KAFKA.file.exists():
        pytest.skip("there is no Kafka broker: `make servers` fetches it")
    (one,) = chosen([f"kafka.producer.{client}.rows_per_s"])
    assert one.measure() > 0
