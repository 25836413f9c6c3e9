"""Flink's format debezium-json reads the messages of a job, with schemas and without."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from binlog_lab.demo.failures import DemoError
from binlog_lab.demo.servers.fetch import FLINK, require_fetched
from binlog_lab.demo.servers.java_server import find_java
from binlog_streaming.settings import PublishJob, parse_any_job
from tests.streaming.topics.publishing import messages_made

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer

pytestmark = [pytest.mark.server, pytest.mark.thorough]

STATEMENTS = (
    "CREATE DATABASE shop CHARACTER SET utf8mb4",
    "CREATE TABLE shop.items (id INT PRIMARY KEY, name VARCHAR(40), stock INT)",
    "INSERT INTO shop.items VALUES (1, 'a', 1), (2, 'ü', NULL), (3, 'c', 3)",
    "UPDATE shop.items SET stock = 9 WHERE id < 3",
    "UPDATE shop.items SET id = 30 WHERE id = 3",
    "DELETE FROM shop.items WHERE id = 2",
    "TRUNCATE shop.items",  # skipped by default: Flink stops at its message
    "INSERT INTO shop.items VALUES (7, 'again', 7)",
)
ROWS = """\
+I 1 a 1
+I 2 ü null
+I 3 c 3
-U 1 a 1
+U 1 a 9
-U 2 ü null
+U 2 ü 9
-D 3 c 3
+I 30 c 3
-D 2 ü 9
+I 7 again 7
"""


@pytest.mark.parametrize("schemas", ["true", "false"])
def test_flink_reads_messages(mariadb_server: MariaDbServer, tmp_path: Path, schemas: str) -> None:
    try:
        classes = require_fetched(FLINK).parent
        program = find_java("Flink")
    except DemoError as error:
        pytest.skip(f"{error.reason}: {error.hint}")
    with mariadb_server.connect(autocommit=True) as connection, connection.cursor() as cursor:
        for statement in STATEMENTS:
            cursor.execute(statement)
    job = parse_any_job(
        f'checkpoint = "state"\n[source]\npath = "{mariadb_server.binlog_directory}"\n[sink]\nkind = "kafka"\n'
        f'bootstrap_servers = "a:1"\ntopic_prefix = "t"\nschemas_enable = {schemas}\n',
        file=tmp_path / "job.toml",
    )
    assert isinstance(job, PublishJob)
    given = tmp_path / "messages"
    given.write_text("".join(f"{message['value'] or 'null'}\n" for message in messages_made(job)))
    command = [program, "-Dfile.encoding=UTF-8", "-cp", f"{classes}:{classes}/*", FLINK.program, str(given), schemas]
    made = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120, check=False)
    assert (made.stdout, made.returncode) == (ROWS, 0), made.stderr[-2000:]
