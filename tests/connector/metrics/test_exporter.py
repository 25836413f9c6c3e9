"""What Prometheus gets to see."""

from __future__ import annotations

import socket
import sys
import urllib.request
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from binlog_connector.following.starts import Edge
from binlog_connector.following.tailer import FollowOptions, Tailer
from binlog_connector.metrics.exporter import MetricsExporter
from binlog_connector.metrics.follower import Follower, TopicTotals
from binlog_connector.metrics.lag import Consumed, LagMeter
from binlog_format.errors import MachineError, OptionError
from tests.connector.shop import FIRST_SECOND, Shop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prometheus_client import Metric


def scraped(port: int) -> dict[str, Metric]:
    """The metrics by name."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=300) as answer:
        text = answer.read().decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def values(port: int, name: str = "tail") -> dict[str, float]:
    """Values of the metrics of one follower that have no other labels."""
    return {
        sample.name.removeprefix("binlog_stream_"): sample.value
        for family in scraped(port).values()
        for sample in family.samples
        if sample.labels == {"name": name}
    }


@pytest.fixture
def exporter() -> Iterator[MetricsExporter]:
    with MetricsExporter(0) as exporter:
        yield exporter


def test_metrics_are_the_truth(tmp_path: Path, exporter: MetricsExporter) -> None:
    with Shop(tmp_path, files_of=4 * 16384) as shop:
        shop.sell(150)
        meter = LagMeter(str(tmp_path))
        follower = Follower("tail", meter)
        exporter.add(follower)
        assert values(exporter.port)["lag_known"] == 0, "nothing is known before the first step"
        progress = follower.progress
        size = 0
        with Tailer(str(tmp_path), Edge.EARLIEST, how=FollowOptions(step_size_max=50_000)) as tailer:
            for number, step in enumerate(iter(lambda: tailer.step(0), None)):
                progress.consumed = Consumed(step.end, step.last_timestamp)
                progress.rows.add(3 * step.group_count)
                progress.size.add(step.size)
                progress.transactions += step.group_count
                size += step.size
                if number:
                    continue
                found = values(exporter.port)
                last = step.end.gtid.last[0].seqno  # type: ignore[union-attr]
                assert 0 < last < 150
                assert found["lag_transactions"] == 150 - last
                assert found["lag_seconds"] == 150 - last
                assert found["last_commit_timestamp_seconds"] == FIRST_SECOND + last
                assert found["lag_bytes"] > 0
                assert found["lag_pages"] == pytest.approx(found["lag_bytes"] / 16384, abs=4)
                assert found["position_file"] == found["oldest_file_needed"] == step.end.position.file_no
        found = values(exporter.port)
        assert [found[f"lag_{what}"] for what in ("known", "bytes", "pages", "transactions", "seconds")] == [
            1,
            0,
            0,
            0,
            0,
        ]
        assert found["bytes_total"] == size
        assert found["transactions_total"] == 151, "the server's own description, and the shop's transactions"
        assert found["rows_total"] == 453
        assert found["rows_per_second"] > 0
        assert found["bytes_per_second"] > 0
        gtids = {
            (sample.labels["state"], sample.labels["domain"]): sample.value
            for sample in scraped(exporter.port)["binlog_stream_gtid_sequence_number"].samples
        }
        assert gtids == {("consumed", "0"): 150, ("log", "0"): 150}
        shop.sell(4)
        found = values(exporter.port)
        assert (found["lag_transactions"], found["lag_seconds"]) == (4, 4), "also when nobody reads on"
        meter.close()


def test_every_metric_has_a_help_text_and_a_unit(exporter: MetricsExporter, tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell()
    with Tailer(str(tmp_path), Edge.EARLIEST) as tailer:
        follower = Follower("tail", LagMeter(str(tmp_path)))
        follower.progress.consumed = Consumed(tailer.offset, 1)
        follower.progress.set_aside = ("shop.orders",)
        follower.progress.verified = {("shop.orders", "mirror"): 1_700_000_000}
        follower.progress.proved = {"shop.orders": 3}
        follower.progress.bytes_per_row = {"shop.orders": 512.0}
        follower.progress.topics = TopicTotals(Counter(shop=1), Counter(shop=10), committed=1)
    exporter.add(follower)
    families = scraped(exporter.port)
    assert len(families) >= 17
    for name, family in families.items():
        assert name.startswith("binlog_stream_")
        assert family.documentation.endswith(".")
        assert family.samples, name
    assert follower.meter is not None
    follower.meter.close()


def test_log_that_cannot_be_read_takes_only_its_own_lag_away(
    tmp_path: Path, exporter: MetricsExporter, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("good", "bad"):
        folder = tmp_path / name
        folder.mkdir()
        with Shop(folder) as shop:
            shop.sell(3)
        follower = Follower(name, LagMeter(str(folder)))
        with Tailer(str(folder), Edge.EARLIEST) as tailer:
            follower.progress.consumed = Consumed(tailer.offset)
        exporter.add(follower)
    for path in (tmp_path / "bad").iterdir():
        path.unlink()
    assert values(exporter.port, "good")["lag_transactions"] == 3
    bad = values(exporter.port, "bad")
    assert bad["lag_known"] == 0
    assert "lag_transactions" not in bad
    assert "rows_total" in bad
    assert "metrics of bad: [BINLOG_START.NO_LOG_FILES]" in caplog.text
    exporter.remove(follower)
    assert values(exporter.port, "bad") == {}


def test_only_this_machine_is_answered(exporter: MetricsExporter) -> None:
    assert exporter._server.server_address[0] == "127.0.0.1"


def test_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(MachineError, match=rf"PORT_IN_USE.*127\.0\.0\.1:{port}: Address already in use"):
            MetricsExporter(port)


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(OptionError, match=r"MISSING.*prometheus-client.*pip install.*\[metrics\]"):
        MetricsExporter(0)
