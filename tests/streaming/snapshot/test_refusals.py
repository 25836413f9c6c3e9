"""What a server must be, and be set to: every refusal by name, before anything is written."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from binlog_connector.schema.snapshot_marks import Purpose
from binlog_format.errors import OptionError, SchemaError, ServerError
from binlog_streaming.server import session as session_module
from binlog_streaming.server.address import Credentials, ServerAddress
from binlog_streaming.server.session import ServerVersion, connect
from binlog_streaming.settings import load_job
from binlog_streaming.snapshot.plan import make_plan
from binlog_streaming.snapshot.reading.plan import plan_reading
from binlog_streaming.snapshot.server_checks import check_server, rights_refusal
from binlog_streaming.snapshot.shadow import ShadowEngine
from binlog_streaming.snapshot.source_table import read_table
from tests.corpus import SERVER_CASES
from tests.program import run_program
from tests.servers import mariadb_server_in
from tests.streaming.snapshot.live import job_file, run_sql, session_on, url_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer
    from binlog_streaming.snapshot.plan import SnapshotPlan

pytestmark = pytest.mark.server

ITEMS = "CREATE TABLE IF NOT EXISTS shop.items (id INT PRIMARY KEY, v INT)"
RIGHTS = ("SELECT ON shop.items", *(f"{right} ON binlog_stream.*" for right in ("CREATE", "DROP", "INSERT", "SELECT")))
"""Each right that a snapshot needs."""


def plan_of(server: MariaDbServer, job: Path, tables: str | None = None, *, user: str | None = None) -> SnapshotPlan:
    if user is None:
        with session_on(server) as session:
            return make_plan(session, load_job(job), tables=tables)
    with connect(ServerAddress.parse(url_of(server, user)), Credentials(user, "secret")) as session:
        return make_plan(session, load_job(job), tables=tables)


@contextlib.contextmanager
def setting(server: MariaDbServer, name: str, value: str) -> Iterator[None]:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT @@GLOBAL.{name}")
        (before,) = cursor.fetchone()
        cursor.execute(f"SET GLOBAL {name} = {value}")
        try:
            yield
        finally:
            cursor.execute(f"SET GLOBAL {name} = %s", (before,))


@pytest.fixture
def job(shared_server: MariaDbServer, tmp_path: Path) -> Path:
    run_sql(shared_server, [ITEMS])
    return job_file(tmp_path, shared_server.binlog_directory)


def logged(server: MariaDbServer) -> str:
    return server.gtid_position()


def test_a_plan_says_what_would_be_done_and_does_nothing(shared_server: MariaDbServer, job: Path) -> None:
    before = logged(shared_server)
    plan = plan_of(shared_server, job, r"shop\.items")
    (planned,) = plan.tables
    assert planned.table.source.full_name == "shop.items"
    assert planned.purpose is Purpose.COMPLETE
    assert not planned.is_resumed
    assert plan.engine.engine is ShadowEngine.BLACKHOLE
    assert (plan.engine.is_installed, plan.replicas, plan.keyless, plan.run) == (True, (), (), None)
    assert logged(shared_server) == before
    with session_on(shared_server) as session:
        assert session.rows("SHOW DATABASES LIKE 'binlog%'") == []


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("binlog_format", "'STATEMENT'", "binlog_format is STATEMENT, expected ROW"),
        ("binlog_format", "'MIXED'", "binlog_format is MIXED, expected ROW"),
        ("read_only", "1", "read_only is ON, expected OFF"),
    ],
)
def test_settings_that_do_not_log_rows_are_refused(
    shared_server: MariaDbServer, job: Path, name: str, value: str, reason: str
) -> None:
    with setting(shared_server, name, value), pytest.raises(ServerError) as raised:
        plan_of(shared_server, job)
    assert raised.value.condition == "BINLOG_SERVER.SETTINGS"
    assert raised.value.reason == reason


def test_partial_row_images_are_refused_for_tables_that_hold_rows(
    shared_server: MariaDbServer, tmp_path: Path, job: Path
) -> None:
    rule = 'select = "shop[.]items"\nmode = "changelog"'
    changelog = job_file(tmp_path, shared_server.binlog_directory, rule)
    with setting(shared_server, "binlog_row_image", "'MINIMAL'"):
        assert plan_of(shared_server, changelog).tables
        job = job_file(tmp_path, shared_server.binlog_directory)
        plan = plan_of(shared_server, job)
        assert not plan.tables
        (left_out,) = plan.left_out
        assert str(left_out).startswith("shop.items: binlog_row_image is MINIMAL")
        assert left_out.reason.endswith("or copy the rows into tables with snapshot --method read")
        with session_on(shared_server) as session:
            (read,) = plan_reading(session, load_job(job)).tables
        assert read.table.source.full_name == "shop.items"


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ("TABLE shop.other (id INT PRIMARY KEY) WITH SYSTEM VERSIONING", "it has system versioning"),
        (
            "TABLE shop.other (id INT PRIMARY KEY) ENGINE=MRG_MyISAM",
            "its engine is MRG_MyISAM, whose rows are elsewhere",
        ),
        ("VIEW shop.other AS SELECT 1", "a view has no rows of its own"),
        ("SEQUENCE shop.other", "of a sequence no target has the next number"),
    ],
)
def test_what_cannot_be_taken_is_left_out_by_name_and_the_rest_is_taken(
    shared_server: MariaDbServer, job: Path, other: str, reason: str
) -> None:
    run_sql(shared_server, [f"CREATE {other}"])
    try:
        plan = plan_of(shared_server, job)
        assert [planned.table.source.full_name for planned in plan.tables] == ["shop.items"]
        (left_out,) = plan.left_out
        assert str(left_out).startswith(f"shop.other: {reason}")
        has_rows = other.startswith("TABLE")
        assert left_out.has_rows == has_rows
        with session_on(shared_server) as session:
            assert [str(one).partition(":")[0] for one in plan_reading(session, load_job(job)).left_out] == [
                "shop.other"
            ]
        assert plan_of(shared_server, job, r"shop\.items").left_out == ()
        environment = {"BINLOG_STREAM_PASSWORD": shared_server.password}
        done = run_program("snapshot", job, "--server", url_of(shared_server), "--yes", environment=environment)
        assert done.returncode == (1 if has_rows else 0), done.stderr
        assert f"left out shop.other: {reason}" in done.stdout
        assert done.stderr.endswith("\nleft out, as the plan tells: shop.other\n") == has_rows
        assert "1 table, " in done.stdout
    finally:
        run_sql(shared_server, [f"DROP {other.split()[0]} shop.other", "DROP DATABASE IF EXISTS binlog_stream"])


def test_a_table_that_another_session_has_locked_is_left_out(
    shared_server: MariaDbServer, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "TABLE_WAIT_SECONDS", 1)
    run_sql(shared_server, ["CREATE TABLE shop.other (id INT PRIMARY KEY)"])
    try:
        with shared_server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("LOCK TABLES shop.other WRITE")
            plan = plan_of(shared_server, job)
        assert [planned.table.source.full_name for planned in plan.tables] == ["shop.items"]
        assert [one.name for one in plan.left_out] == ["shop.other"]
        assert "[BINLOG_SERVER.LOCKED]" in plan.left_out[0].reason
        assert "SHOW FULL PROCESSLIST" in plan.left_out[0].reason
    finally:
        run_sql(shared_server, ["DROP TABLE shop.other"])


@pytest.mark.parametrize("missing", [None, *RIGHTS])
def test_each_missing_right_is_named(shared_server: MariaDbServer, job: Path, missing: str | None) -> None:
    before = [
        "CREATE OR REPLACE USER cdc@'127.0.0.1' IDENTIFIED BY 'secret'",
        "CREATE OR REPLACE ROLE taker",
        # So that the table is seen at all.
        "GRANT INSERT ON shop.items TO taker",
        *(f"GRANT {right} TO taker" for right in RIGHTS if right != missing),
        "GRANT taker TO cdc@'127.0.0.1'",
        "SET DEFAULT ROLE taker FOR cdc@'127.0.0.1'",
    ]
    run_sql(shared_server, before)
    last = logged(shared_server)
    if missing is None:
        plan = plan_of(shared_server, job, r"shop\.items", user="cdc")
        assert plan.tables
        assert plan.replicas is None
    else:
        if missing == RIGHTS[0]:
            (left_out,) = plan_of(shared_server, job, r"shop\.items", user="cdc").left_out
            reason, _, grant = left_out.reason.removesuffix(")").partition(" (")
        else:
            with pytest.raises(ServerError) as raised:
                plan_of(shared_server, job, r"shop\.items", user="cdc")
            assert raised.value.condition == "BINLOG_SERVER.DENIED"
            reason, grant = raised.value.reason, raised.value.hint or ""
        assert reason == f"missing rights: {missing}"
        assert logged(shared_server) == last
        # The hint is SQL that gives what is missing.
        run_sql(shared_server, [grant])
        assert plan_of(shared_server, job, r"shop\.items", user="cdc").tables
        return
    assert logged(shared_server) == last


@pytest.mark.parametrize("name", ["items", "gone"])
def test_table_that_is_altered_or_dropped_while_it_is_looked_at_lacks_no_right(
    shared_server: MariaDbServer, job: Path, name: str
) -> None:
    """The server may show no columns of it at that moment."""
    with session_on(shared_server) as session:
        looked_at = replace(read_table(session, "shop", "items"), name=name, columns=())
        assert "altered or dropped it at that moment; start again" in str(rights_refusal(session, looked_at))


def test_wrong_password_and_user(shared_server: MariaDbServer, job: Path) -> None:
    address = ServerAddress.parse(url_of(shared_server))
    with pytest.raises(ServerError, match="AUTHENTICATION") as raised:
        connect(address, Credentials("root", "not the password"))
    assert "not the password" not in str(raised.value)
    # The server says the same where TLS is missing.
    run_sql(shared_server, ["CREATE OR REPLACE USER tls@'127.0.0.1' IDENTIFIED BY 'secret' REQUIRE SSL"])
    with pytest.raises(ServerError, match=r"AUTHENTICATION.*REQUIRE SSL.*ssl-mode=REQUIRED"):
        connect(ServerAddress.parse(url_of(shared_server, "tls")), Credentials("tls", "secret"))


def test_no_server_and_no_tls(shared_server: MariaDbServer) -> None:
    with pytest.raises(ServerError, match="UNREACHABLE"):
        connect(ServerAddress.parse("mysql://127.0.0.1:1/"), Credentials("root", ""))
    address = ServerAddress.parse(f"{url_of(shared_server)}?ssl-mode=required")
    with pytest.raises(ServerError, match="TLS"):
        connect(address, Credentials("root", shared_server.password))


@pytest.mark.parametrize("case", ["mariadb-10.11/oltp_small", "mysql-9/ops"])
def test_another_server_than_that_of_the_log(shared_server: MariaDbServer, tmp_path: Path, case: str) -> None:
    job = job_file(tmp_path, SERVER_CASES / case)
    with pytest.raises(ServerError, match="OTHER_SERVER"):
        plan_of(shared_server, job)


@pytest.mark.thorough
def test_another_server_with_the_same_numbers(tmp_path: Path, shared_server: MariaDbServer, job: Path) -> None:
    """A twin with one server id, domain and names of files, which has logged as much, and other things."""
    with mariadb_server_in(tmp_path / "twin") as twin:
        run_sql(
            twin, ["CREATE DATABASE shop", ITEMS, *["FLUSH BINARY LOGS"] * 2, "INSERT INTO shop.items VALUES (1, 1)"]
        )
        run_sql(twin, [f"INSERT INTO shop.items VALUES ({number}, 1)" for number in range(2, 300)])
        run_sql(shared_server, ["FLUSH BINARY LOGS"] * 2)
        with pytest.raises(ServerError, match=r"OTHER_SERVER.*mariadb-bin\.000003 begins after GTID"):
            plan_of(twin, job)


def test_no_such_tables(shared_server: MariaDbServer, job: Path) -> None:
    with pytest.raises(SchemaError, match="TABLE_NOT_FOUND"):
        plan_of(shared_server, job, "nothing")
    with pytest.raises(OptionError, match="INVALID_VALUE"):
        plan_of(shared_server, job, "(")


@pytest.mark.thorough
def test_databases_that_are_not_logged(tmp_path: Path) -> None:
    with mariadb_server_in(tmp_path / "server", options=["--binlog-do-db=shop"]) as server:
        run_sql(server, ["CREATE DATABASE shop", "USE shop", ITEMS])
        job = job_file(tmp_path, server.binlog_directory)
        with pytest.raises(ServerError, match=r"NOT_LOGGED.*binlog_do_db = shop leaves out binlog_stream"):
            plan_of(server, job)


@pytest.mark.parametrize(
    ("text", "is_taken"),
    [
        ("10.2.44-MariaDB", False),
        ("5.5.5-10.11.19-MariaDB-log", True),
        ("11.8.1-MariaDB", True),
        ("5.7.44", False),
        ("8.0.21", False),
        ("8.0.36-0ubuntu0.22.04.1", True),
        ("9.4.0", True),
    ],
)
def test_versions(shared_server: MariaDbServer, text: str, is_taken: bool) -> None:
    with session_on(shared_server) as session:
        session.version = ServerVersion.parse(text)
        with contextlib.nullcontext() if is_taken else pytest.raises(ServerError, match="VERSION"):
            check_server(session)
