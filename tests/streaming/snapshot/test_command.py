"""`binlog-stream snapshot` on a live server, as a whole: killed, altered under its hands, refused, resumed."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from binlog_streaming.snapshot import run
from binlog_streaming.snapshot.marks import MarksTable
from binlog_streaming.snapshot.table_snapshot import TableSnapshot
from tests.program import PROGRAM, run_program
from tests.streaming.snapshot.live import job_file, logged_groups, run_sql, session_on, url_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import DatabaseServer, MariaDbServer
    from tests.streaming.snapshot.live import LoggedGroup

pytestmark = pytest.mark.server

ROWS = 3000
TABLES = ("one", "two", "three")
PATIENCE_S = 300.0
COUNT_MARKS = "SELECT COUNT(*) FROM binlog_stream.snapshot_marks"
FORK = multiprocessing.get_context("fork")


def arguments(server: MariaDbServer, job: Path, *more: str) -> list[str]:
    return ["snapshot", str(job), "--server", url_of(server), *more]


def password(server: MariaDbServer) -> dict[str, str]:
    return {"BINLOG_STREAM_PASSWORD": server.password}


@pytest.fixture
def job(shared_server: MariaDbServer, tmp_path: Path) -> Path:
    """A job about three tables of a database that is as new."""
    run_sql(shared_server, ["DROP DATABASE IF EXISTS binlog_stream", "CREATE OR REPLACE DATABASE shop", "RESET MASTER"])
    for table in TABLES:
        create = f"CREATE TABLE shop.{table} (id INT PRIMARY KEY, v VARCHAR(20))"
        run_sql(shared_server, [create, f"INSERT INTO shop.{table} SELECT seq, seq FROM shop.seq_1_to_{ROWS}"])
    return job_file(tmp_path, shared_server.binlog_directory)


def marks(server: DatabaseServer) -> list[tuple[str, str, int, int]]:
    """Kind, table, chunk and rows of all marks."""
    with session_on(server) as session:
        if not MarksTable(session).exists():
            return []
        return session.rows("SELECT kind, source_table, chunk, row_count FROM binlog_stream.snapshot_marks ORDER BY id")


def wait_for_marks(server: DatabaseServer, count: int, is_running: Callable[[], bool]) -> None:
    """Until so many are there, while a snapshot runs."""
    deadline = time.monotonic() + PATIENCE_S
    with session_on(server) as session:
        while not MarksTable(session).exists() or session.value(COUNT_MARKS) < count:
            assert is_running(), "it has ended before there were so many"
            assert time.monotonic() < deadline
            time.sleep(0.02)


def snapshots(server: DatabaseServer) -> dict[str, list[LoggedGroup]]:
    """Groups of each snapshot in the log, by its UUID."""
    found: dict[str, list[LoggedGroup]] = {}
    for group in logged_groups(server.binlog_directory):
        if group.mark is not None:
            found.setdefault(group.mark["snapshot"], []).append(group)
    return found


def check_whole(groups: list[LoggedGroup], rows: int) -> None:
    """See that a snapshot has each row once, in chunks without gaps."""
    told = [group.mark for group in groups if group.mark is not None]
    assert [mark["kind"] for mark in told] == ["begin", *["chunk"] * (len(told) - 2), "end"]
    chunks = told[1:-1]
    assert [mark["chunk"] for mark in chunks] == list(range(len(chunks)))
    assert [mark["detail"]["from"] for mark in chunks] == [None, *(mark["detail"]["through"] for mark in chunks[:-1])]
    assert chunks[-1]["detail"]["through"] is None
    ids = [after["id"] for group in groups for _, _, _, after in group.changes if after is not None]
    assert sorted(ids) == list(range(1, rows + 1))
    assert told[-1]["detail"] == {"chunks": len(chunks), "rows": rows}


def test_it_goes_on_after_it_was_killed_anywhere(shared_server: MariaDbServer, job: Path) -> None:
    numbers = random.Random(7)
    command = arguments(shared_server, job, "--yes", "--rate", "1000")
    for _ in range(3):
        wanted = len(marks(shared_server)) + numbers.randrange(1, 8)
        process = FORK.Process(target=run_program, args=command, kwargs={"environment": password(shared_server)})
        process.start()
        wait_for_marks(shared_server, wanted, process.is_alive)
        process.kill()
        process.join()
    begun = snapshots(shared_server)
    kinds = [group.mark["kind"] for groups in begun.values() for group in groups if group.mark is not None]
    is_within_a_table = kinds.count("end") < len(begun)
    done = run_program(*arguments(shared_server, job, "--yes"), environment=password(shared_server))
    assert (done.returncode, "goes on" in done.stdout) == (0, is_within_a_table), (done.stdout, done.stderr)
    found = snapshots(shared_server)
    assert len(found) == len(TABLES), "a table was begun twice"
    for groups in found.values():
        check_whole(groups, ROWS)
    with session_on(shared_server) as session:
        assert session.rows("SHOW TABLES IN binlog_stream") == [("snapshot_marks",)]


def test_restart_begins_every_table_anew(shared_server: MariaDbServer, job: Path) -> None:
    for more in ((), ("--restart",)):
        done = run_program(*arguments(shared_server, job, "--yes", *more), environment=password(shared_server))
        assert done.returncode == 0, done.stderr
        assert f"3 tables, {3 * ROWS:,} rows" in done.stdout
    found = snapshots(shared_server)
    assert len(found) == 2 * len(TABLES)
    for groups in found.values():
        check_whole(groups, ROWS)


def test_nobody_to_ask_is_wrong_use(shared_server: MariaDbServer, job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as nothing:  # noqa: PTH123
        monkeypatch.setattr("sys.stdin", nothing)
        done = run_program(*arguments(shared_server, job), environment=password(shared_server))
    assert done.returncode == 2
    assert "[BINLOG_OPTION.MISSING] --yes" in done.stderr
    assert "shop.three" in done.stdout
    assert marks(shared_server) == []


@contextlib.contextmanager
def before_chunk(
    monkeypatch: pytest.MonkeyPatch, number: int, what: list[str], server: MariaDbServer
) -> Iterator[None]:
    """Statements run between two chunks."""
    write = TableSnapshot.write

    def writing(self: TableSnapshot, *args: object, **options: object) -> object:
        if self.chunk_count == number and what:
            run_sql(server, [what.pop(0) for _ in list(what)])
        return write(self, *args, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(TableSnapshot, "write", writing)
        yield
    assert not what


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE shop.one ADD COLUMN n INT DEFAULT 5 FIRST",
        "ALTER TABLE shop.one DROP PRIMARY KEY, ADD UNIQUE KEY other (id)",
        "ALTER TABLE shop.one MODIFY v VARCHAR(20) NOT NULL DEFAULT 'x'",
    ],
)
def test_a_table_that_is_altered_on_the_way_begins_anew(
    shared_server: MariaDbServer, job: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    command = arguments(shared_server, job, "--yes", "--tables", r"shop\.one", "--rate", "10000")
    with before_chunk(monkeypatch, 2, [change], shared_server):
        done = run_program(*command, environment=password(shared_server))
    assert done.returncode == 0, done.stderr
    first, second = snapshots(shared_server).values()
    assert [group.mark and group.mark["kind"] for group in first] == ["begin", "chunk", "chunk"]
    check_whole(second, ROWS)
    begins = [groups[0].mark for groups in (first, second)]
    assert begins[0] is not None
    assert begins[1] is not None
    assert begins[0]["detail"]["purpose"] == begins[1]["detail"]["purpose"]


def test_what_an_alter_does_to_no_column_does_not_begin_it_anew(
    shared_server: MariaDbServer, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = arguments(shared_server, job, "--yes", "--tables", r"shop\.one", "--rate", "10000")
    changes = ["ALTER TABLE shop.one ADD INDEX (v), COMMENT = 'with an index'", "OPTIMIZE TABLE shop.one"]
    with before_chunk(monkeypatch, 2, changes, shared_server):
        done = run_program(*command, environment=password(shared_server))
    assert done.returncode == 0, done.stderr
    (groups,) = snapshots(shared_server).values()
    check_whole(groups, ROWS)


def test_a_table_that_was_altered_since_it_was_cut_off_begins_anew(
    shared_server: MariaDbServer, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = arguments(shared_server, job, "--yes", "--tables", r"shop\.one", "--rate", "10000")

    def cut(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TableSnapshot, "end", cut)
        done = run_program(*command, environment=password(shared_server))
    assert done.returncode == 130
    assert "The same command goes on" in done.stderr
    run_sql(shared_server, ["ALTER TABLE shop.one ADD COLUMN n INT"])
    done = run_program(*command, environment=password(shared_server))
    assert done.returncode == 0, done.stderr
    _, second = snapshots(shared_server).values()
    check_whole(second, ROWS)


def test_a_table_that_is_dropped_on_the_way_is_cancelled(
    shared_server: MariaDbServer, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = arguments(shared_server, job, "--yes", "--tables", r"shop\.one", "--rate", "10000")
    with before_chunk(monkeypatch, 2, ["RENAME TABLE shop.one TO shop.gone"], shared_server):
        done = run_program(*command, environment=password(shared_server))
    assert done.returncode == 1
    assert "[BINLOG_SCHEMA.TABLE_NOT_FOUND]" in done.stderr
    assert "shop.one was dropped or renamed" in done.stderr
    assert [kind for kind, *_ in marks(shared_server)] == ["begin", "chunk", "chunk", "cancel"]


def test_a_shadow_that_somebody_removes_is_a_named_error(
    shared_server: MariaDbServer, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = (
        "SELECT CONCAT('DROP TABLE binlog_stream.', TABLE_NAME) INTO @drop FROM information_schema.TABLES"
        " WHERE TABLE_SCHEMA = 'binlog_stream' AND TABLE_NAME <> 'snapshot_marks'"
    )
    command = arguments(shared_server, job, "--yes", "--tables", r"shop\.one", "--rate", "10000")
    with before_chunk(monkeypatch, 1, [find, "EXECUTE IMMEDIATE @drop"], shared_server):
        done = run_program(*command, environment=password(shared_server))
    assert done.returncode == 1
    assert "[BINLOG_SERVER.FAILED]" in done.stderr
    done = run_program(*command, environment=password(shared_server))
    assert done.returncode == 0, done.stderr
    (groups,) = snapshots(shared_server).values()
    check_whole(groups, ROWS)


def test_two_runs_about_a_table_do_not_meet(
    shared_server: MariaDbServer, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from binlog_streaming.snapshot.run import _turn_name
    from binlog_streaming.snapshot.source_table import read_table

    monkeypatch.setattr(run, "TURN_SECONDS", 0)
    command = arguments(shared_server, job, "--yes", "--tables", r"shop\.one")
    with session_on(shared_server) as other:
        assert other.value("SELECT GET_LOCK(%s, 0)", _turn_name(read_table(other, "shop", "one"))) == 1
        done = run_program(*command, environment=password(shared_server))
    assert done.returncode == 1
    assert "[BINLOG_SERVER.BUSY]" in done.stderr
    assert marks(shared_server) == []


@pytest.mark.parametrize("table", ["one", "keyless"])
def test_rows_that_stay_locked_are_a_named_error_and_waited_for_before(
    shared_server: MariaDbServer, job: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """A prepared XA transaction holds its locks until it is ended, whoever began it."""
    run_sql(shared_server, ["CREATE TABLE shop.keyless (id INT, v INT)", "INSERT INTO shop.keyless VALUES (1, 1)"])
    monkeypatch.setattr(run, "LOCKED_SECONDS_MAX", 0.5)
    monkeypatch.setattr(run, "KEYLESS_NOWAIT_SECONDS", 0.2)
    command = arguments(shared_server, job, "--yes", "--tables", rf"shop\.{table}")
    with shared_server.connect() as connection, connection.cursor() as cursor:
        for statement in ("XA START 'x'", f"UPDATE shop.{table} SET v = 7 WHERE id IN (1, 1500)"):
            cursor.execute(statement)
        cursor.execute("XA END 'x'")
        cursor.execute("XA PREPARE 'x'")
        try:
            done = run_program(*command, environment=password(shared_server))
        finally:
            cursor.execute("XA COMMIT 'x'")
    assert done.returncode == 1
    assert "[BINLOG_SERVER.LOCKED]" in done.stderr
    assert "XA RECOVER" in done.stderr
    done = run_program(*command, environment=password(shared_server))
    assert done.returncode == 0, done.stderr
    assert [kind for kind, *_ in marks(shared_server)].count("begin") == 1


def test_a_rate_holds_it_up(shared_server: MariaDbServer, job: Path) -> None:
    started = time.monotonic()
    command = arguments(shared_server, job, "--yes", "--tables", r"shop\.one", "--rate", "2000")
    done = run_program(*command, environment=password(shared_server))
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - started > ROWS / 2000
    assert max(rows for kind, _, _, rows in marks(shared_server) if kind == "chunk") <= 200


def test_passwords_are_nowhere(shared_server: MariaDbServer, job: Path, tmp_path: Path) -> None:
    secret = shared_server.password
    file = tmp_path / "password"
    file.write_text(f"{secret}\n")
    command = [PROGRAM, *arguments(shared_server, job, "--yes", "--rate", "300", "--password-file", str(file))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wait_for_marks(shared_server, 3, lambda: process.poll() is None)
    with open(f"/proc/{process.pid}/cmdline") as line:  # noqa: PTH123
        assert secret not in line.read()
    with session_on(shared_server) as session:
        shown = session.rows("SELECT INFO, USER FROM information_schema.PROCESSLIST")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate()
    assert process.returncode == 130, output
    assert secret not in f"{shown}{output}"

    refused = run_program(
        *arguments(shared_server, job, "--yes"), environment={"BINLOG_STREAM_PASSWORD": "not-the-password"}
    )
    assert "[BINLOG_SERVER.AUTHENTICATION]" in refused.stderr
    assert "not-the-password" not in refused.stdout + refused.stderr
    url = f"mysql://root:{secret}@127.0.0.1:{shared_server.port}/"
    refused = run_program("snapshot", job, "--server", url, "--yes")
    assert refused.returncode == 2
    assert secret not in refused.stdout + refused.stderr
    kept = b"".join(path.read_bytes() for path in shared_server.binlog_directory.iterdir())
    assert secret.encode() not in kept + shared_server.error_log.read_bytes()
