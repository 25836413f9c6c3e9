"""Every `make demo` of the README ends well: its command, as make would run it, with less to do."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from binlog_lab.demo.servers.fetch import KAFKA
from tests.faults.object_store import ObjectStore, RestCatalog
from tests.servers import mariadb_server_in

REPO = Path(__file__).parents[2]
SMALL = ("--rows", "8000", "--seconds", "8")
LINES = {
    "make demo": SMALL,
    "make demo SINK=iceberg": SMALL,
    "make demo STORE=s3": SMALL,
    "make demo SINK=iceberg STORE=s3": SMALL,
    "make demo SINK=kafka": ("--rows", "8000", "--seconds", "12"),
    "make demo SOURCE=mariadb": ("--rows", "20000", "--seconds", "8"),
    "make demo-logs": ("--events", "20000", "--seconds", "4"),
}
PARTS = ("make demo SINK=iceberg", "make demo STORE=s3")
"""Of which another line does both: they are tried each night, and not before a merge."""
PROGRAM = "import sys; from binlog_streaming.cli import main; sys.argv[0] = 'binlog-stream'; main()"


def test_these_are_all() -> None:
    text = " ".join((REPO / "README.md").read_text().split())
    found = re.findall(r"make demo(?:-logs)?(?: [A-Z]+=\w+)*", text)
    assert set(found) == set(LINES)


def _skip_without_servers(line: str, folder: Path) -> None:
    if "SINK=kafka" in line and not KAFKA.file.exists():
        pytest.skip("there is no Kafka broker: `make servers` fetches it")
    if "STORE=s3" in line:
        RestCatalog(folder / "rest", ObjectStore(folder / "s3"))
    if "SOURCE=mariadb" in line:
        mariadb_server_in(folder / "server")


@pytest.mark.spark
@pytest.mark.server
@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("line", [pytest.param(line, id=f"{line} (part)" if line in PARTS else line) for line in LINES])
def test_it_ends_well(line: str, tmp_path: Path) -> None:
    _skip_without_servers(line, tmp_path)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "MFLAGS"
    }
    make = [*shlex.split(line), "--dry-run", "--no-print-directory"]
    told = subprocess.run(make, cwd=REPO, env=environment, capture_output=True, text=True, check=True).stdout
    program, *arguments = shlex.split(told.splitlines()[-1])
    assert program.endswith("/binlog-stream")
    command = [sys.executable, "-c", PROGRAM, *arguments, *LINES[line], "--directory", str(tmp_path / "demo")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"All [\d,]+ (tables|events) are", done.stdout), done.stdout
