"""The judge finds what is wrong, makes it short, and says the same of the same number."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from binlog_lab.demo.mariadb.installed import DatabaseServerError, find_server
from binlog_streaming.lake.commit_id import DROPPED_COLUMNS_PROPERTY, DROPPED_PROPERTY
from binlog_streaming.plan.job_state import SetAside
from tests.judge.coverage import Coverage, is_computable, pair_of
from tests.judge.histories.history import Done, History
from tests.judge.histories.server_settings import set_globally
from tests.judge.replicas import ReplicaStoppedError, ReplicatedServer
from tests.judge.rounds import Choices, Round, replayed
from tests.judge.running import JobEnd
from tests.judge.servers import SYSTEM_TIME_ZONE, LiveServer
from tests.judge.shrinking import shrunk, sign_of, write_case
from tests.judge.tables import (
    JSON_VALUE,
    ServerTable,
    TargetTable,
    difference,
    differences,
    read_targets,
    read_value,
    server_tables,
    server_value,
)
from tests.judge.verdicts import Kind, Verdict, verdicts_of
from tests.servers import mariadb_of_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlog_lab.demo.mariadb.installed import Installed
    from binlog_streaming.settings import Sink

SERVER = ServerTable(["id", "v"], ["int", "varchar"], [["1", "a"], ["2", None]])
STATEMENTS = (
    "CREATE DATABASE h1",
    "USE h1",
    "CREATE TABLE t1 (id INT PRIMARY KEY, v INT)",
    "INSERT INTO t1 VALUES (1, 1), (2, 2)",
    "CREATE TABLE t2 (id INT PRIMARY KEY, v INT)",
    "DROP TABLE nosuch",
    "INSERT INTO t2 VALUES (1, 1)",
    "UPDATE t1 SET v = 5",
)
ALL_EQUAL = dict.fromkeys(("h1.t1", "h1.t2", "topic of h1.t1", "topic of h1.t2"), "equal")


@pytest.fixture(scope="module")
def installed() -> Installed:
    return mariadb_of_path()


@pytest.fixture(scope="module")
def server(installed: Installed) -> Iterator[LiveServer]:
    with LiveServer(installed) as one:
        yield one


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("18446744073709551615", Decimal("18446744073709551615"), "bigint"),
        ("1", True, "bit"),
        ('{"b":1e3,  "a":[]}', '{"a": [], "b": 1000.0e0}', JSON_VALUE),
        ("0012.50", Decimal("12.50"), "decimal"),
        ("1.000000000000000000000000000009", "1.000000000000000000000000000009", "decimal"),
        ("0.10000000149011612", 0.10000000149011612, "float"),
        ("2024-01-02 03:04:05.600", dt.datetime(2024, 1, 2, 3, 4, 5, 600000), "datetime"),  # noqa: DTZ001
        ("2024-01-02 03:04:05", dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC), "timestamp"),
        ("2024-00-00", None, "date"),
        ("00FF", b"\0\xff", "varbinary"),
        ("4326:0101", {"srid": 4326, "wkb": b"\1\1"}, "point"),
        ("12:00:00.5", "12:00:00.5", "time"),
    ],
)
def test_the_same_value_is_the_same(text: str, value: object, kind: str) -> None:
    assert server_value(text, kind) == read_value(value, kind)


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("1.50", "1.5000", "decimal"),
        ("0", -0.0, "double"),
        ("12:00:00.000", "12:00:00", "time"),
        ("::1", b"\0" * 15 + b"\1", "inet6"),
        ("a", "A", "enum"),
        ("1", "one", "decimal"),
        ("1", None, "int"),
        ("1e3", "1000", JSON_VALUE),
    ],
)
def test_another_value_is_another(text: str, value: object, kind: str) -> None:
    assert server_value(text, kind) != read_value(value, kind)


def target(columns: dict[str, list[object]], **properties: str) -> TargetTable:
    return TargetTable(pa.table(columns), properties)


def test_tables_are_compared_as_rows_in_any_order() -> None:
    assert difference(SERVER, target({"V": [None, "a"], "id": [2, 1]})) == ""


@pytest.mark.parametrize(
    ("columns", "properties", "why"),
    [
        ({"id": [1, 2]}, {}, "lacks the columns v"),
        ({"id": [1], "v": ["a"]}, {}, "1 rows, the server has 2"),
        ({"id": [1, 2], "v": ["a", "b"]}, {}, r"values of varchar\): the target alone has \(2, 'b'\)"),
        ({"id": [1, 2], "v": ["a", None], "hidden": [1, 1]}, {}, "has the columns hidden"),
        ({"id": [1, 2], "v": ["a", None], "V": [1, 1]}, {}, "differ in case alone"),
        ({"id": [1, 2], "v": ["a", None]}, {DROPPED_PROPERTY: "1:2:3"}, "was dropped"),
    ],
)
def test_tables_that_differ(columns: dict[str, list[object]], properties: dict[str, str], why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        assert not difference(SERVER, TargetTable(pa.table(columns), properties)), difference(
            SERVER, TargetTable(pa.table(columns), properties)
        )


@pytest.mark.parametrize(("values", "is_equal"), [([None, None], True), (["b", None], False), ([None, "a"], False)])
def test_a_value_that_the_log_lacks_may_be_null(values: list[object], is_equal: bool) -> None:
    table = TargetTable(pa.table({"id": [1, 2], "v": values}), {}, lacks_values=True)
    assert (difference(SERVER, table) == "") == is_equal
    assert difference(SERVER, TargetTable(table.content, {})) != ""


def test_a_dropped_column_may_stay_in_a_target() -> None:
    table = TargetTable(pa.table({"id": [1, 2], "v": ["a", None], "old": [1, 1]}), {DROPPED_COLUMNS_PROPERTY: "old"})
    assert difference(SERVER, table) == ""


def test_a_target_of_no_table_is_wrong_unless_it_states_so() -> None:
    assert set(differences({}, {"w.a": target({"id": [1]})})) == {"w.a"}
    assert differences({}, {"w.a": TargetTable(pa.table({"id": [1]}), {DROPPED_PROPERTY: "1:2:3"})}) == {}


def test_pairs_of_types() -> None:
    assert pair_of("int(11) -> VARCHAR(40) CHARACTER SET utf16 NOT NULL (strict)") == (
        "int -> varchar(40) character set utf16"
    )
    assert is_computable("MySQL: decimal(12,4) -> int")
    assert not is_computable("MySQL: double -> varchar(40)")
    assert not is_computable("MariaDB: int -> json")


@pytest.mark.server
def test_the_same_number_is_the_same_history(server: LiveServer, tmp_path: Path) -> None:
    seen, coverage = [], Coverage()
    for _ in range(2):
        one = Round(server, "5", tmp_path / "lake", count=3)
        coverage.saw("MariaDB", one.judged())
        seen.append([(done.text, done.error) for history in one.histories for done in history.done])
    assert seen[0] == seen[1]
    assert coverage.histories == 6
    assert {"insert", "CREATE TABLE"} <= {kind for kind, _ in coverage.statements}
    assert coverage.outcomes.total() >= 6
    assert list(coverage.lines())


@pytest.mark.server
def test_what_is_wrong_is_made_short_and_written_as_a_case(
    server: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = replayed(server, tmp_path / "lake", STATEMENTS)
    assert {name: verdict.kind for name, verdict in right.verdicts.items()} == ALL_EQUAL

    def losing(sink: Sink, **chosen: bool) -> dict[str, TargetTable]:
        return {
            name: TargetTable(table.content.slice(name == "h1.t2"), table.properties)
            for name, table in read_targets(sink, **chosen).items()
        }

    monkeypatch.setattr("tests.judge.verdicts.read_targets", losing)
    failed = replayed(server, tmp_path / "lake", STATEMENTS)
    ((name, verdict),) = failed.bad.items()
    assert (name, verdict.kind) == ("h1.t2", Kind.WRONG)
    short = shrunk(server, tmp_path / "lake", failed, sign_of(verdict))
    assert short is not None
    texts = [done.text for done in short.history.done]
    assert texts == [STATEMENTS[at] for at in (0, 1, 4, 6)]
    case = write_case(tmp_path, "lost", server, replayed(server, tmp_path / "lake", texts), "5")
    assert (case / "statements.sql").read_text().splitlines() == [f"{text};" for text in texts]
    assert server_tables(case / "final.json")["h1.t2"].rows == [["1", "1"]]
    assert (case / "mysql-bin.index").read_text() == "./mysql-bin.000001\n"
    assert "h1.t2: wrong" in (case / "note.txt").read_text()


SYSTEM_STATEMENTS = (
    *("CREATE DATABASE h1", "USE h1", "SET time_zone = 'SYSTEM'"),
    "CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP NULL, d DATETIME)",
    "INSERT INTO t VALUES (1, '2020-01-01', '2020-01-01'), (2, '2020-07-01', '2020-07-01'), (3, NULL, NULL)",
    "ALTER TABLE t ADD made DATETIME DEFAULT CURRENT_TIMESTAMP, ADD since TIMESTAMP NULL DEFAULT '2020-02-03 04:05:06'",
    "ALTER TABLE t MODIFY ts DATETIME, MODIFY d TIMESTAMP NULL",
)


@pytest.mark.server
@pytest.mark.parametrize("zone", [SYSTEM_TIME_ZONE, None])
def test_times_of_sessions_without_a_time_zone_are_those_of_the_servers_machine(
    installed: Installed, tmp_path: Path, zone: str | None
) -> None:
    with LiveServer(installed) as server:
        judged = replayed(server, tmp_path / "lake", SYSTEM_STATEMENTS, Choices(system_time_zone=zone))
    assert [done.error for done in judged.history.done] == [""] * len(SYSTEM_STATEMENTS)
    verdict = judged.verdicts["h1.t"]
    assert verdict.kind == (Kind.NAMED if zone is None else Kind.EQUAL)
    assert ("systemTimeZone" in verdict.why) == (zone is None)


@pytest.mark.server
def test_the_log_of_a_replica_is_judged_and_its_stop_is_told(installed: Installed, tmp_path: Path) -> None:
    choices = Choices(settings={"default_storage_engine": "MyISAM"})
    with ReplicatedServer(installed) as both:
        judged = replayed(both, tmp_path / "lake", STATEMENTS, choices)
        assert {name: verdict.kind for name, verdict in judged.verdicts.items()} == ALL_EQUAL
        # A session has the settings that it began with, and so has the one that applies what the primary did.
        engines = [server.ask("SHOW CREATE TABLE h1.t1")[0][1].split("ENGINE=")[1].split()[0] for server in both.all]
        assert engines == ["MyISAM", "InnoDB"]
        both.replica.ask("SET sql_log_bin = 0", "DROP TABLE h1.t1")
        both.ask("INSERT INTO h1.t1 VALUES (9, 9)")
        with pytest.raises(ReplicaStoppedError, match=r"h1\.t1"):
            both.settle()


def named(reason: str, gtid: str | None = None) -> Verdict:
    """What is said of a table that a job set aside for *reason*."""
    statement = Done("ALTER TABLE t1 MODIFY v TEXT", gtid="0-7-12", label="int -> TEXT")
    history = History(1, "", [statement], {"h1.t1": ServerTable(["id"], ["int"], [["1"]])})
    aside = SetAside(database="h1", table="t1", position="1:0:4:1", gtid=gtid, reason=reason)
    return verdicts_of(history, JobEnd(set_aside=[aside]), {})["h1.t1"]


def test_a_name_is_looked_at_again() -> None:
    true = named("[BINLOG_SCHEMA.SCHEMA_CHANGED] h1.t1: v was int and is text", "0-7-12")
    assert (true.kind, true.statement, true.label) == (Kind.NAMED, "ALTER TABLE t1 MODIFY v TEXT", "int -> TEXT")
    assert true.condition == "BINLOG_SCHEMA.SCHEMA_CHANGED"
    # About no table of the history; without a condition; what cannot be, as the log begins with the first transaction.
    assert named("[BINLOG_SCHEMA.SCHEMA_CHANGED] h1.other: v was int and is text").kind is Kind.FALSE_NAME
    assert named("h1.t1: v was int and is text").kind is Kind.FALSE_NAME
    assert named("[BINLOG_TABLE.INCOMPLETE] h1.t1: its rows begin before the log").kind is Kind.FALSE_NAME


def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DatabaseServerError, match="fetch-server"):
        find_server(str(tmp_path))


@pytest.mark.parametrize(("folder", "vendor"), [("mysql-5.7.22", "MySQL"), ("mariadb-10.2.11", "MariaDB")])
def test_a_vendors_archive_is_a_server(tmp_path: Path, folder: str, vendor: str) -> None:
    root = tmp_path / folder
    for name in ("bin", "share", "libs"):
        (root / name).mkdir(parents=True)
    (root / "bin/mysqld").write_text("#!/bin/sh\n")
    installed = find_server(str(root))
    assert installed.vendor == vendor
    words = installed.command()
    assert words[:3] == ["env", f"LD_LIBRARY_PATH={root}/libs:{root}/bin", f"{root}/bin/mysqld"]
    assert f"--basedir={root}" in words


def test_settings_that_a_server_lacks_are_left_out(server: LiveServer) -> None:
    wanted = {"binlog_checksum": "NONE", "binlog_rows_query_log_events": "1", "alter_algorithm": "no such value"}
    ((before,),) = server.ask("SELECT @@global.binlog_checksum")
    with set_globally(server, wanted):
        assert server.ask("SELECT @@global.binlog_checksum") == [("NONE",)]
    assert server.ask("SELECT @@global.binlog_checksum") == [(before,)]
