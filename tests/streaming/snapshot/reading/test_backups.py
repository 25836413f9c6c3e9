"""A server that was restored from a backup is read at the GTID that was noted with it; the job goes on from there."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from binlog_format.errors import ServerError, StartError
from binlog_format.gtids.gtid_set import parse_gtids
from tests.servers import mariadb_server_in
from tests.streaming.replay_runs import run
from tests.streaming.snapshot.live import run_sql
from tests.streaming.snapshot.reading.readings import job_in, read_tables
from tests.streaming.snapshot.reading.test_join import ALL_MODES, KEYLESS, check, older_than_its_log
from tests.streaming.snapshot.storm import storm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer

pytestmark = pytest.mark.server

_GTID = re.compile(r"SET GLOBAL gtid_slave_pos='([^']*)'")


@pytest.fixture
def restored(tmp_path: Path) -> Iterator[MariaDbServer]:
    """An empty server, beside the one that writes the log."""
    if shutil.which("mariadb-dump") is None or shutil.which("mariadb") is None:
        pytest.skip("mariadb-dump is not installed")
    with mariadb_server_in(tmp_path / "restored", server_id=2) as server:
        yield server


def wait_for(counts: list[int], transactions: int) -> None:
    """Let the writers go on until they have ended so many."""
    while sum(counts) < transactions:
        time.sleep(0.01)


def client(program: str, server: MariaDbServer, *arguments: str, stdin: str | None = None) -> str:
    """What one of the server's own programs prints."""
    done = subprocess.run(
        [program, "--no-defaults", "--host=127.0.0.1", f"--port={server.port}", "--user=root", *arguments],
        env={"MYSQL_PWD": server.password, "PATH": "/usr/bin:/bin:/usr/local/bin"},
        input=stdin,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def restore_dump(server: MariaDbServer, restored: MariaDbServer) -> str:
    """Dump `shop` and load it into another server; the GTID of the dump."""
    dump = client("mariadb-dump", server, "--single-transaction", "--master-data=2", "--gtid", "--databases", "shop")
    client("mariadb", restored, "--init-command=SET sql_log_bin = 0", stdin=dump)
    found = _GTID.search(dump)
    assert found is not None
    return found[1]


def test_a_dump_is_read_at_its_gtid(shared_server: MariaDbServer, restored: MariaDbServer, tmp_path: Path) -> None:
    server = shared_server
    older_than_its_log(server)
    job = job_in(tmp_path, server.binlog_directory, ALL_MODES, KEYLESS)
    with storm(server) as counts:
        wait_for(counts, 50)
        at = restore_dump(server, restored)
        wait_for(counts, 100)
    run_sql(restored, [f"SET GLOBAL gtid_slave_pos = '{at}'"])
    with pytest.raises(ServerError, match=rf"the server is elsewhere: its gtid_slave_pos is {at}"):
        read_tables(restored, job, at=parse_gtids("0-1-1"))
    assert read_tables(restored, job, at=parse_gtids(at)).tables == 2
    run(job)
    check(server, job)
    # The job has gone on: a backup of before cannot be joined any more.
    with pytest.raises(StartError, match=r"A job cannot go back|the job has read up to"):
        read_tables(restored, job, r"shop\..*", at=parse_gtids(at))
    check(server, job)


def test_a_server_that_has_written_more_is_refused(shared_server: MariaDbServer, tmp_path: Path) -> None:
    older_than_its_log(shared_server)
    at = shared_server.gtid_position()
    run_sql(shared_server, ["INSERT INTO shop.items VALUES (3, 3, 'later')"])
    job = job_in(tmp_path, shared_server.binlog_directory)
    with pytest.raises(ServerError, match=r"the server is elsewhere: it has logged 0-1-"):
        read_tables(shared_server, job, at=parse_gtids(at))


def test_a_physical_backup_is_read_at_its_gtid(shared_server: MariaDbServer, tmp_path: Path) -> None:
    program = shutil.which("mariadb-backup")
    if program is None:
        pytest.skip("mariadb-backup is not installed")
    server = shared_server
    older_than_its_log(server)
    job = job_in(tmp_path, server.binlog_directory, ALL_MODES, KEYLESS)
    folder, data = tmp_path / "backup", server.binlog_directory.parent / "data"
    with storm(server) as counts:
        wait_for(counts, 50)
        client(program, server, "--backup", f"--datadir={data}", f"--target-dir={folder}")
    subprocess.run([program, "--no-defaults", "--prepare", f"--target-dir={folder}"], check=True, capture_output=True)
    (tmp_path / "restored").mkdir()
    shutil.copytree(folder, tmp_path / "restored" / "data")
    # Its third field; the first two are the file and the byte.
    at = (folder / "xtrabackup_binlog_info").read_text().split()[2]
    with mariadb_server_in(tmp_path / "restored", server_id=2) as restored:
        assert read_tables(restored, job, at=parse_gtids(at)).tables == 2
    run(job)
    check(server, job)
