"""`fetch-log.sh`, which fetches the log of a server whose files cannot be reached, with the real client."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_lab.demo.mariadb.server import MariaDbServer

SCRIPT = Path(__file__).parents[2] / "deploy/compose/fetch-log.sh"
PASSWORD = "only-in-a-file"
PATIENCE_S = 300


@pytest.mark.server
def test_fetched_files_are_the_server_s_and_never_become_shorter(tmp_path: Path, mariadb_server: MariaDbServer) -> None:
    execute(
        mariadb_server,
        f"CREATE USER replica@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'",
        "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO replica@'127.0.0.1'",
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY, text VARCHAR(100))",
        "FLUSH BINARY LOGS",
    )
    insert(mariadb_server, range(100))
    fetched = tmp_path / "log"
    fetched.mkdir()
    with Fetching(mariadb_server, fetched, tmp_path) as first:
        wait_until(lambda: same_files(mariadb_server, fetched), first)
    insert(mariadb_server, range(100, 200))
    before = {file.name: file.read_bytes() for file in fetched.iterdir() if file.is_file()}
    with Fetching(mariadb_server, fetched, tmp_path) as second:

        def all_there() -> bool:
            for name, content in before.items():
                assert (fetched / name).stat().st_size >= len(content)
            return same_files(mariadb_server, fetched)

        wait_until(all_there, second)
        assert PASSWORD not in Path(f"/proc/{second.process.pid}/cmdline").read_text()
        execute(mariadb_server, "FLUSH BINARY LOGS")
        insert(mariadb_server, range(200, 300))
        wait_until(lambda: same_files(mariadb_server, fetched), second)
    assert len(before) < len([file for file in fetched.iterdir() if file.is_file()])


class Fetching:
    def __init__(self, server: MariaDbServer, folder: Path, tmp_path: Path) -> None:
        password = tmp_path / "password"
        password.write_text(PASSWORD)
        shell = shutil.which("sh")
        assert shell is not None
        self.errors = tmp_path / "errors"
        environment = {
            "SERVER_HOST": "127.0.0.1",
            "SERVER_USER": "replica",
            "SERVER_PASSWORD_FILE": str(password),
            "CLIENT_OPTIONS": f"--no-defaults --port={server.port} --protocol=tcp",
            "LOG": str(folder),
        }
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen([shell, str(SCRIPT)], env=os.environ | environment, stderr=errors)

    def __enter__(self) -> Fetching:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE_S)


def wait_until(condition: Callable[[], bool], fetching: Fetching) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert fetching.process.poll() is None, fetching.errors.read_text()
        assert time.monotonic() < deadline, fetching.errors.read_text()
        time.sleep(0.1)  # the script itself looks once a second


def same_files(server: MariaDbServer, folder: Path) -> bool:
    theirs = sorted(file for file in server.binlog_directory.iterdir() if file.suffix[1:].isdecimal())
    return bool(theirs) and all(
        (folder / file.name).is_file() and same_bytes(file.read_bytes(), (folder / file.name).read_bytes())
        for file in theirs
    )


def same_bytes(theirs: bytes, ours: bytes) -> bool:
    # The flag LOG_EVENT_BINLOG_IN_USE_F, in the header of the first event, is the file's own.
    in_use = 4 + 17
    return theirs[:in_use] == ours[:in_use] and theirs[in_use + 1 :] == ours[in_use + 1 :]


def insert(server: MariaDbServer, numbers: range) -> None:
    execute(server, *(f"INSERT INTO shop.t VALUES ({number}, REPEAT('x', {number % 100}))" for number in numbers))


def execute(server: MariaDbServer, *statements: str) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
