"""Rows of a table on a live server start and stop snapshots of topics: `snapshot --follow-signals`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from binlog_format.errors import OptionError
from binlog_streaming.server.address import Credentials, ServerAddress
from binlog_streaming.settings import PublishJob, parse_any_job
from binlog_streaming.snapshot import signals
from binlog_streaming.snapshot.signals import SignalQueue, follow_signals, require_signal_table
from tests.servers import ServerKind, server_in
from tests.streaming.topics.publishing import messages_made

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import DatabaseServer

ROWS = 4000
STATEMENTS = (
    "CREATE DATABASE shop CHARACTER SET utf8mb4",
    "CREATE TABLE shop.items (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(40))",
    "CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(40))",
    "CREATE TABLE shop.other (id INT PRIMARY KEY)",
    "CREATE TABLE shop.debezium_signal (id VARCHAR(42) PRIMARY KEY, type VARCHAR(32) NOT NULL, data VARCHAR(2048))",
    "INSERT INTO shop.items (name) VALUES " + ",".join(["('a')"] * ROWS),
    "INSERT INTO shop.orders VALUES (1, 'x'), (2, 'y')",
    "INSERT INTO shop.debezium_signal VALUES ('old', 'execute-snapshot', '{\"data-collections\": [\"shop.items\"]}')",
)


class Shop:
    """A live server, a job that publishes its log, and a follower of its signals that ends when nothing is left."""

    def __init__(self, server: DatabaseServer, folder: Path) -> None:
        self.server = server
        job = parse_any_job(
            f'checkpoint = "state"\n[source]\npath = "{server.binlog_directory}"\n[sink]\nkind = "kafka"\n'
            'bootstrap_servers = "127.0.0.1:1"\ntopic_prefix = "t"\n"signal.data.collection" = "shop.debezium_signal"\n'
            "[[tables]]\nselect = 'shop\\.(items|orders)'\n",
            file=folder / "job.toml",
        )
        assert isinstance(job, PublishJob)
        self.job = job
        self.lines: list[str] = []
        self.on_line: Callable[[str], None] = lambda _: None

    def run(self, *statements: str) -> None:
        with self.server.connect(autocommit=True) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def signal(self, name: str, kind: str, **data: Any) -> None:
        with self.server.connect(autocommit=True) as connection, connection.cursor() as cursor:
            text = json.dumps({key.replace("_", "-"): value for key, value in data.items()})
            cursor.execute("INSERT INTO shop.debezium_signal VALUES (%s, %s, %s)", (name, kind, text))

    def follow(self, *, rate: int | None = None) -> list[str]:
        self.lines = []
        address = ServerAddress.parse(f"mysql://root@127.0.0.1:{self.server.port}/")
        credentials = Credentials("root", self.server.password)
        follow_signals(self.job, address, credentials, rate=rate, tell=self._tell, is_ended=self._is_ended)
        return self.lines

    def _tell(self, line: str) -> None:
        self.lines.append(line)
        self.on_line(line)

    def _is_ended(self) -> bool:
        return bool(self.lines)

    def copied(self, table: str) -> list[int]:
        values = (message["value"] for message in messages_made(self.job) if message["topic"] == f"t.shop.{table}")
        messages = [json.loads(value) for value in values if value is not None]
        return [message["after"]["id"] for message in messages if message["op"] == "r"]


@pytest.fixture(params=[ServerKind.MARIADB, pytest.param(ServerKind.MYSQL, marks=pytest.mark.thorough)])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    with server_in(request.param, tmp_path / "server") as server:
        shop = Shop(server, tmp_path)
        shop.run(*STATEMENTS)
        SignalQueue(shop.job, shop.lines.append).__exit__()  # it has been started once: what is older counts no more
        yield shop


@pytest.mark.server
def test_tables_are_taken_that_signals_name(shop: Shop) -> None:
    shop.signal("ad-hoc-1", "execute-snapshot", data_collections=["shop.orders"], type="incremental")
    lines = shop.follow()
    assert lines[0] == "signal ad-hoc-1: execute-snapshot shop.orders"
    assert lines[-1] == "signal ad-hoc-1: 2 rows are in the log"
    assert shop.copied("orders") == [1, 2]
    assert shop.copied("items") == []
    shop.signal("ad-hoc-2", "execute-snapshot", data_collections=["shop.(items|orders)"], type="BLOCKING")
    shop.follow()
    assert shop.copied("orders") == [1, 2, 1, 2]
    assert shop.copied("items") == list(range(1, ROWS + 1))


@pytest.mark.server
def test_a_signal_stops_the_snapshot_after_a_chunk(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "LOOK_SECONDS", 0.01)
    shop.signal("go", "execute-snapshot", data_collections=["shop.items", "shop.orders"])
    looks = SignalQueue.look

    def look(queue: SignalQueue, seconds: float) -> None:
        if any(one.has_begun and "items" in one.tables for one in queue.wanted) and not stopped:
            stopped.append(True)
            shop.signal("halt", "stop-snapshot", data_collections=["shop.items"])
        looks(queue, seconds)

    stopped: list[bool] = []
    monkeypatch.setattr(SignalQueue, "look", look)
    lines = shop.follow(rate=1000)
    assert any("the snapshot of shop.items was stopped by a signal" in line for line in lines), lines
    assert 0 < len(shop.copied("items")) < ROWS
    assert shop.copied("orders") == [1, 2]
    shop.signal("again", "execute-snapshot", data_collections=["shop.items"])
    before = len(shop.copied("items"))
    shop.follow()
    assert shop.copied("items")[before:] == list(range(1, ROWS + 1))


@pytest.mark.server
def test_a_follower_that_was_killed_goes_on(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "LOOK_SECONDS", 0.0)
    shop.signal("go", "execute-snapshot", data_collections=["shop.items"])
    looks = SignalQueue.look

    def look(queue: SignalQueue, seconds: float) -> None:
        if any(one.has_begun for one in queue.wanted):
            raise KeyboardInterrupt
        looks(queue, seconds)

    with monkeypatch.context() as killed:
        killed.setattr(SignalQueue, "look", look)
        with pytest.raises(KeyboardInterrupt):
            shop.follow(rate=1000)
    assert 0 < len(shop.copied("items")) < ROWS
    shop.follow()
    assert shop.copied("items") == list(range(1, ROWS + 1))


@pytest.mark.server
def test_what_is_not_obeyed_is_named(shop: Shop) -> None:
    shop.signal("s1", "pause-snapshot")
    shop.signal("s2", "execute-snapshot", data_collections=["shop.items"], additional_conditions=[{"filter": "id < 5"}])
    shop.signal("s3", "execute-snapshot")
    shop.signal("s4", "execute-snapshot", data_collections=["shop.("])
    shop.signal("s5", "execute-snapshot", data_collections=["shop.other"])
    shop.signal("s6", "stop-snapshot")
    shop.run("INSERT INTO shop.debezium_signal VALUES ('s7', 'execute-snapshot', '[')")
    lines = dict(line.removeprefix("signal ").split(": ", 1) for line in shop.follow())
    assert "'pause-snapshot', and execute-snapshot and stop-snapshot are known" in lines["s1"]
    assert "additional-conditions is not supported" in lines["s2"]
    assert "expected tables, got none" in lines["s3"]
    assert "data-collections" in lines["s4"]
    assert lines["s6"] == "stop-snapshot shop.other"
    assert lines["s7"].startswith("not obeyed: ")
    shop.signal("s8", "execute-snapshot", data_collections=["shop.other"])
    assert "the server shows no table that is asked for" in shop.follow()[-1]
    assert shop.copied("items") == []


def test_a_job_without_a_table_of_signals_is_told(tmp_path: Path) -> None:
    sink = 'kind = "kafka"\nbootstrap_servers = "a:1"\ntopic_prefix = "t"\n'
    job = parse_any_job(f'checkpoint = "c"\n[source]\npath = "x"\n[sink]\n{sink}', file=tmp_path / "job.toml")
    assert isinstance(job, PublishJob)
    with pytest.raises(OptionError, match="signal_table"):
        require_signal_table(job)
