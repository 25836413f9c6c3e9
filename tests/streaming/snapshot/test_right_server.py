"""The server is the one whose log the job reads, or it is refused by name with status 2, and nothing is written."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from binlog_format.errors import ServerError
from binlog_streaming.server.address import Credentials, ServerAddress
from binlog_streaming.server.session import connect
from binlog_streaming.settings import Source, load_job
from binlog_streaming.snapshot import log_identity
from binlog_streaming.snapshot.log_identity import begin_writing, check_is_writer
from binlog_streaming.snapshot.plan import make_plan
from binlog_streaming.snapshot.reading.plan import plan_reading
from binlog_streaming.snapshot.run import run_snapshot
from binlog_streaming.snapshot.server_checks import check_server
from tests.program import run_program
from tests.servers import ServerKind, mariadb_server_in, server_in
from tests.streaming.snapshot.live import BLACKHOLE, follow, job_file, run_sql, session_on, url_of, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer

pytestmark = pytest.mark.server

SHOP = ("CREATE DATABASE shop", "CREATE TABLE shop.items (id INT PRIMARY KEY, v INT)")
ROWS = "INSERT INTO shop.items SELECT seq, seq FROM shop.seq_1_to_10"
ACCOUNT = (
    "CREATE OR REPLACE USER cdc@'127.0.0.1' IDENTIFIED BY 'secret'",
    "GRANT SELECT ON shop.* TO cdc@'127.0.0.1'",
    "GRANT SELECT, INSERT, CREATE, DROP ON binlog_stream.* TO cdc@'127.0.0.1'",
)
COPIED = ("data", "binlog")


def refusal(server: MariaDbServer, job: Path, user: str = "root") -> ServerError:
    """Why no snapshot is planned; nothing was written, and the program says so with status 2."""
    before = server.gtid_position()
    password = server.password if user == "root" else "secret"
    with (
        connect(ServerAddress.parse(url_of(server, user)), Credentials(user, password)) as session,
        pytest.raises(ServerError) as raised,
    ):
        make_plan(session, load_job(job))
    commands = (("snapshot", job), ("snapshot", job, "--definitions"), ("prove", job), ("prove", job, "--repair"))
    for command in commands if user == "root" else ():
        options = () if command[0] == "prove" else ("--yes",)
        environment = {"BINLOG_STREAM_PASSWORD": server.password}
        done = run_program(*command, "--server", url_of(server), *options, environment=environment)
        assert done.returncode == 2, done.stderr
        assert raised.value.condition in done.stderr
    assert server.gtid_position() == before
    return raised.value


def copied(server: MariaDbServer, folder: Path, *, parts: tuple[str, ...] = COPIED) -> None:
    """The files of a server that is stopped, in the folder of another one."""
    for part in parts:
        shutil.copytree(server.binlog_directory.parent / part, folder / part)
    index = folder / "binlog" / "mariadb-bin.index"
    if index.exists():
        index.write_text(index.read_text().replace(str(server.binlog_directory), str(folder / "binlog")))


def test_a_replica_is_refused_though_it_has_all_that_its_primary_has(tmp_path: Path) -> None:
    options = ["--log-slave-updates"]
    with (
        mariadb_server_in(tmp_path / "primary") as primary,
        mariadb_server_in(tmp_path / "replica", server_id=2, options=options) as replica,
    ):
        run_sql(primary, SHOP)
        follow(primary, replica)
        run_sql(primary, [ROWS, *ACCOUNT])
        wait_for(primary, replica)
        of_primary = job_file(tmp_path, primary.binlog_directory)
        error = refusal(replica, of_primary)
        assert error.condition == "BINLOG_SERVER.REPLICA"
        assert f"it is a replica of 127.0.0.1:{primary.port}" in error.reason
        # Who may not see the replication sees that there is one.
        error = refusal(replica, of_primary, "cdc")
        assert error.condition == "BINLOG_SERVER.REPLICA"
        assert "it is a replica of another server" in error.reason
        # Its own log is read, and still nothing may be written there; reading it is something else.
        (tmp_path / "own").mkdir()
        of_replica = job_file(tmp_path / "own", replica.binlog_directory)
        assert refusal(replica, of_replica).subclass == "REPLICA"
        with session_on(replica) as session:
            assert plan_reading(session, load_job(of_replica)).tables
            with pytest.raises(ServerError, match=r"OTHER_SERVER.*was written by server id 1, this server has 2"):
                plan_reading(session, load_job(of_primary))
        # One whose replication was stopped is told by its id.
        run_sql(replica, ["STOP SLAVE"])
        error = refusal(replica, of_primary)
        assert error.condition == "BINLOG_SERVER.OTHER_SERVER"
        assert f"at {primary.binlog_directory} was written by server id 1, this server has 2" in error.reason
        assert "a replica of that server is another one" in (error.hint or "")


@pytest.mark.parametrize("parts", [COPIED, ("data",)])
def test_a_server_set_back_to_a_backup_is_refused(tmp_path: Path, parts: tuple[str, ...]) -> None:
    """It has the same id, domain, names of files and numbers, and has gone on from the backup on its own."""
    server = mariadb_server_in(tmp_path / "server")
    with server:
        run_sql(server, [*SHOP, ROWS])
    back = tmp_path / "back"
    back.mkdir()
    copied(server, back, parts=parts)
    with server:
        run_sql(server, [f"INSERT INTO shop.items VALUES ({number}, 1)" for number in range(20, 25)])
        job = job_file(tmp_path, server.binlog_directory)
        with mariadb_server_in(back) as other:
            error = refusal(other, job)
            assert error.condition == "BINLOG_SERVER.OTHER_SERVER"
            assert "the server has logged" in error.reason
            run_sql(other, [f"UPDATE shop.items SET v = {number} WHERE id = 1" for number in range(20, 40)])
            if parts == ("data",):
                run_sql(other, ["INSERT INTO shop.items VALUES (99, 1)", "FLUSH BINARY LOGS"])
            error = refusal(other, job)
            assert error.condition == "BINLOG_SERVER.OTHER_SERVER"
            assert "set back to a backup" in f"{error.reason} {error.hint}" or "begins after GTID" in error.reason


def test_a_copy_that_has_logged_nothing_since_gets_one_statement_that_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = mariadb_server_in(tmp_path / "server")
    with server:
        run_sql(server, [BLACKHOLE, *SHOP, ROWS])
    log = tmp_path / "log"
    shutil.copytree(server.binlog_directory, log)
    job = job_file(tmp_path, log)
    monkeypatch.setattr(log_identity, "PATIENCE_SECONDS", 0.5)
    with server, session_on(server) as session:
        plan = make_plan(session, load_job(job))
        assert plan.tables
        with pytest.raises(ServerError, match=r"OTHER_SERVER.*did not come in the log at .*within 0 s") as raised:
            run_snapshot(session, plan)
        assert raised.value.is_wrong_use
        assert session.rows("SHOW DATABASES LIKE 'binlog%'") == []
        # What copies the log was behind.
        shutil.rmtree(log)
        shutil.copytree(server.binlog_directory, log)
        log.rename(tmp_path / "behind")
        log.symlink_to(server.binlog_directory)
        assert run_snapshot(session, plan).rows == 10


@pytest.mark.parametrize("kind", [ServerKind.MYSQL, ServerKind.NEW_MARIADB])
def test_servers_of_other_kinds_are_told_apart_too(tmp_path: Path, kind: ServerKind) -> None:
    """Two with the same id and as many transactions: one has the log, the other one has not."""
    with server_in(kind, tmp_path / "one") as one, server_in(kind, tmp_path / "two") as two:
        for server in (one, two):
            run_sql(server, [*SHOP, "INSERT INTO shop.items VALUES (1, 1)"])
        run_sql(two, [f"INSERT INTO shop.items VALUES ({number}, 1)" for number in range(2, 9)])
        source = Source(path=str(one.binlog_directory))
        with session_on(one) as session:
            check_server(session)
            check_is_writer(session, source.path)
            begin_writing(session, source)
            check_is_writer(session, source.path)
        with session_on(two) as session, pytest.raises(ServerError, match="OTHER_SERVER") as raised:
            check_is_writer(session, source.path)
        assert raised.value.is_wrong_use


def test_an_id_that_was_changed_is_told_with_the_remedy(tmp_path: Path) -> None:
    with mariadb_server_in(tmp_path / "server") as server:
        run_sql(server, [*SHOP, ROWS, "SET GLOBAL server_id = 9"])
        job = job_file(tmp_path, server.binlog_directory)
        assert "FLUSH BINARY LOGS" in (refusal(server, job).hint or "")
        run_sql(server, ["FLUSH BINARY LOGS"])
        with session_on(server) as session:
            assert make_plan(session, load_job(job)).tables


@pytest.mark.parametrize("options", [("--gtid-mode=ON", "--enforce-gtid-consistency=ON"), ()])
def test_a_server_that_is_committing_what_its_log_has_is_waited_for(
    tmp_path: Path, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """MySQL writes a transaction into its log, and tells of it later: in `gtid_executed`, and in SHOW BINLOG EVENTS."""
    with server_in(ServerKind.MYSQL, tmp_path / "server", options=options) as server:
        run_sql(server, [*SHOP, "INSERT INTO shop.items VALUES (1, 1)"])
        with session_on(server) as session:
            answers = session.try_rows
            executed = str(session.value("SELECT @@GLOBAL.gtid_executed"))
            late: dict[str, list[tuple[Any, ...]]] = {
                "SELECT @@GLOBAL.gtid_executed": [(executed.replace("1-3", "1-2"),)],
                "SHOW BINLOG EVENTS": [],
            }

            def early(statement: str, *values: object) -> list[tuple[Any, ...]]:
                """The answer of a moment before, once."""
                known = next((name for name in late if statement.startswith(name)), None)
                return answers(statement, *values) if known is None else late.pop(known)

            monkeypatch.setattr(session, "try_rows", early)
            check_is_writer(session, str(server.binlog_directory))
            assert late == {}
