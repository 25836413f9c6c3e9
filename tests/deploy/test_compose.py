"""The compose file, started where a container engine is: rows of its server come into tables and topics."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from testcontainers.compose import DockerCompose

from tests.faults.container_engine import require_engine

if TYPE_CHECKING:
    from collections.abc import Callable

REPO = Path(__file__).parents[2]
PROJECT = (".dockerignore", "pyproject.toml", "README.md", "LICENSE")
FOLDERS = ("format", "connector", "streaming", "lab", "tests", "deploy")
PATIENCE_S = 600
SQL = """
CREATE TABLE shop.items (id INT PRIMARY KEY, name VARCHAR(20));
INSERT INTO shop.items VALUES (1, 'one'), (2, 'two');
UPDATE shop.items SET name = 'three' WHERE id = 2;
"""
ROWS = """
from deltalake import DeltaTable
print(DeltaTable("/lake/shop/items").to_pyarrow_table().sort_by("id").to_pylist())
"""


@pytest.mark.thorough
def test_rows_of_the_server_come_into_tables_and_topics(tmp_path: Path) -> None:
    require_engine()
    compose_folder = copied(tmp_path / "repository")
    services = ["mariadb", "kafka", "tables", "topics"]
    with DockerCompose(compose_folder, build=True, services=services) as compose:
        password = (compose_folder / "secrets/mariadb_root").read_text()
        compose.exec_in_container(["mariadb", "-uroot", f"-p{password}", "-e", SQL], "mariadb")

        def rows() -> str:
            return compose.exec_in_container(["python", "-c", ROWS], "tables")[0].strip()

        wait_until(lambda: "three" in rows(), compose, "tables")
        assert rows() == "[{'id': 1, 'name': 'one'}, {'id': 2, 'name': 'three'}]"
        topics = ["/opt/kafka/bin/kafka-get-offsets.sh", "--bootstrap-server", "localhost:19092"]

        def published() -> str:
            return compose.exec_in_container([*topics, "--topic", "shop.shop.items"], "kafka")[0]

        wait_until(lambda: any(int(line.rpartition(":")[2]) for line in published().split()), compose, "topics")
        assert compose.exec_in_container(["id", "-u"], "tables")[0].strip() == "10001"


def copied(folder: Path) -> Path:
    """The compose file's folder in a copy of all that it needs, with a password of its own."""
    for name in FOLDERS:
        shutil.copytree(REPO / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "secrets"))
    for name in PROJECT:
        shutil.copy(REPO / name, folder)
    secrets = folder / "deploy/compose/secrets"
    secrets.mkdir()
    (secrets / "mariadb_root").write_text("only-for-this-test")
    (secrets / "status_token").write_text("only-for-this-test-of-the-page")
    (secrets / "server_password").touch()
    return folder / "deploy/compose"


def wait_until(condition: Callable[[], bool], compose: DockerCompose, service: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not _holds(condition):
        assert time.monotonic() < deadline, compose.get_logs(service)
        time.sleep(1)


def _holds(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except subprocess.CalledProcessError:
        return False  # what it asks for is not there yet
