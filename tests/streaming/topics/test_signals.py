"""Rows of a table on a live server start and stop snapshots of topics: `snapshot --follow-signals`."""

from __future__ import annotations

import json
from functools import partial
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

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with self.server.connect(autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

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


def when_begun(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object], table: str = "") -> None:
    """Call *act* at the first look at signals after a snapshot has begun, one with *table* in it."""
    looks, called = SignalQueue.look, list[bool]()

    def look(queue: SignalQueue, seconds: float) -> None:
        begun = [wanted for wanted in queue.wanted if wanted.has_begun and (not table or table in wanted.tables)]
        if begun and not called:
            called.append(True)
            act()
        looks(queue, seconds)

    monkeypatch.setattr(SignalQueue, "look", look)


def stop_here(*_: object) -> None:
    """End as by Ctrl+C."""
    raise KeyboardInterrupt


@pytest.mark.server
def test_a_signal_stops_the_snapshot_after_a_chunk(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "LOOK_SECONDS", 0.01)
    shop.signal("go", "execute-snapshot", data_collections=["shop.items", "shop.orders"])
    halt = partial(shop.signal, "halt", "stop-snapshot", data_collections=["shop.items"])
    when_begun(monkeypatch, halt, "items")
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
    with monkeypatch.context() as killed:
        when_begun(killed, stop_here)
        with pytest.raises(KeyboardInterrupt):
            shop.follow(rate=1000)
    assert 0 < len(shop.copied("items")) < ROWS
    shop.follow()
    assert shop.copied("items") == list(range(1, ROWS + 1))


@pytest.mark.server
def test_a_snapshot_waits_between_two_signals(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "LOOK_SECONDS", 0.0)
    shop.signal("go", "execute-snapshot", data_collections=["shop.items", "shop.orders"])

    def on_line(line: str) -> None:
        if "the snapshot of shop.items waits after" in line:
            found.append(len(shop.copied("items")))
            raise KeyboardInterrupt  # the pause is in the checkpoint

    found: list[int] = []
    when_begun(monkeypatch, partial(shop.signal, "wait", "pause-snapshot"))
    shop.on_line = on_line
    with pytest.raises(KeyboardInterrupt):
        shop.follow(rate=1000)
    shop.on_line = lambda _: None
    assert 0 < found[0] < ROWS
    with SignalQueue(shop.job, shop.lines.append) as queue:
        queue.look(0.0)
        assert queue.next is None
    shop.signal("on", "resume-snapshot")
    lines = shop.follow()
    assert lines[0] == r"signal on: resume-snapshot shop\.items, shop.orders"
    assert shop.copied("items") == list(range(1, ROWS + 1))
    assert shop.copied("orders") == [1, 2]


@pytest.mark.server
def test_a_snapshot_that_waits_is_stopped(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "LOOK_SECONDS", 0.0)
    shop.signal("go", "execute-snapshot", data_collections=["shop.items"])

    def on_line(line: str) -> None:
        if "waits after" in line:
            shop.signal("halt", "stop-snapshot")

    when_begun(monkeypatch, partial(shop.signal, "wait", "pause-snapshot"))
    shop.on_line = on_line
    lines = shop.follow(rate=1000)
    assert lines[-2:] == [
        "signal halt: stop-snapshot shop\\.items",
        "signal go: the snapshot of shop.items was stopped by a signal",
    ]
    assert 0 < len(shop.copied("items")) < ROWS
    marks = "SELECT kind FROM binlog_stream.snapshot_marks WHERE kind <> 'chunk' ORDER BY id"
    assert [kind for (kind,) in shop.rows(marks)] == ["begin", "cancel"]
    shop.signal("again", "execute-snapshot", data_collections=["shop.items"])
    before = len(shop.copied("items"))
    shop.follow()  # the pause has ended with the snapshot
    assert shop.copied("items")[before:] == list(range(1, ROWS + 1))


@pytest.mark.server
def test_conditions_choose_rows(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.run(
        "UPDATE shop.items SET name = CONCAT('it''s \\\\ ', id) WHERE id > 3990",
        "INSERT INTO shop.orders VALUES (3, NULL)",
    )
    conditions = [
        {
            "data-collection": "shop.items",
            "filter": "id BETWEEN 5 AND 7 OR name IN ('it''s \\ 3995') OR name LIKE '%99_'",
        },
        {"data-collection": "shop\\.o.*", "filter": "NOT note = 'x' OR note IS NULL"},
    ]
    tables = ["shop.items", "shop.orders"]
    shop.signal("some", "execute-snapshot", data_collections=tables, additional_conditions=conditions)
    lines = shop.follow()
    assert lines[-1] == "signal some: 2 rows are in the log", lines
    assert shop.copied("items") == [5, 6, 7, *range(3991, 4000)]
    assert shop.copied("orders") == [2, 3]
    lacking = [{"data-collection": "shop.orders", "filter": "no_such = 1"}]
    shop.signal("bad", "execute-snapshot", data_collections=["shop.orders"], additional_conditions=lacking)
    assert any("left out: it has no column no_such" in line for line in shop.follow())
    monkeypatch.setattr(signals, "LOOK_SECONDS", 0.0)
    cut = [{"data-collection": "shop.items", "filter": "id > 100"}]
    shop.signal("cut", "execute-snapshot", data_collections=["shop.items"], additional_conditions=cut)
    with monkeypatch.context() as killed:
        when_begun(killed, stop_here)
        with pytest.raises(KeyboardInterrupt):
            shop.follow(rate=1000)
    before = shop.copied("items")
    shop.follow()
    ids = shop.copied("items")[12:]
    assert ids == list(range(101, ROWS + 1))
    assert len(before) < 12 + len(ids)


@pytest.mark.server
def test_what_is_not_obeyed_is_named(shop: Shop) -> None:
    shop.signal("s1", "log")
    for name, text in (("s2", "id < 5) OR (1 = 1"), ("s9", "id IN (SELECT id FROM shop.other)")):
        condition = {"data-collection": "shop.items", "filter": text}
        shop.signal(name, "execute-snapshot", data_collections=["shop.items"], additional_conditions=[condition])
    shop.signal("s10", "pause-snapshot")
    shop.signal("s11", "execute-snapshot", data_collections=["shop.items"], surrogate_key="name")
    shop.signal("s3", "execute-snapshot")
    shop.signal("s4", "execute-snapshot", data_collections=["shop.("])
    shop.signal("s5", "execute-snapshot", data_collections=["shop.other"])
    shop.signal("s6", "stop-snapshot")
    shop.run("INSERT INTO shop.debezium_signal VALUES ('s7', 'execute-snapshot', '[')")
    lines = dict(line.removeprefix("signal ").split(": ", 1) for line in shop.follow())
    assert "'log', and execute-snapshot, stop-snapshot, pause-snapshot, resume-snapshot are known" in lines["s1"]
    assert "additional-conditions: filter at character 7" in lines["s2"]
    assert "additional-conditions: filter at character 8" in lines["s9"]
    assert lines["s10"] == "pause-snapshot nothing: none is taken"
    assert "surrogate-key is not supported" in lines["s11"]
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
