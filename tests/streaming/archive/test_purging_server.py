"""A MariaDB server that purges whatever is archived: jobs lose nothing through the archive, whatever is killed."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Self

import pytest
from deltalake import DeltaTable

from binlog_format.errors import OptionError, StartError
from binlog_format.formats.archive_directory import ArchiveDirectory
from binlog_format.formats.directories import open_directory
from binlog_format.source_file import with_archive
from binlog_lab.demo.servers.lake_servers import BUCKET
from binlog_streaming.settings import load_job
from tests.faults.object_store import ObjectStore
from tests.program import PROGRAM
from tests.streaming.tables.jobs.processes import RunningJob
from tests.streaming.tables.jobs.test_job import run_once
from tests.streaming.tables.oltp import play_changelog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from binlog_format.formats.manifest import ArchivedFile
    from binlog_lab.demo.mariadb.server import MariaDbServer

pytestmark = [pytest.mark.server, pytest.mark.slow]

PATIENCE_S = 300

MODES = '[[tables]]\nselect = "shop[.]items"\nmode = ["mirror", "changelog"]\ntarget = "{mode}"\n'


class Archiving:
    """The command, as it runs for years; SIGKILL ends it with the block."""

    def __init__(self, log: Path, archive: str) -> None:
        self._archive = archive
        command = [PROGRAM, "archive", str(log), "--to", archive, "--every", "10ms"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def wait_for(self, condition: Callable[[ArchivedFile], bool]) -> None:
        """Return when it is true of a file in the archive: readers see it, whoever archived it."""
        deadline = time.monotonic() + PATIENCE_S
        while not any(condition(file) for file in self._files()):
            assert self._process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def _files(self) -> tuple[ArchivedFile, ...]:
        try:
            directory, _ = open_directory(self._archive)
        except StartError:
            return ()  # it has not begun
        return directory.manifest.files if isinstance(directory, ArchiveDirectory) else ()


class Shop:
    """A table under changes, on a server that forgets them at once."""

    def __init__(self, server: MariaDbServer) -> None:
        self.server = server
        self.log = server.binlog_directory
        self.purged = 0
        self._random = random.Random(18)
        self._next = 0
        self.execute("CREATE DATABASE shop", "CREATE TABLE shop.items (id INT PRIMARY KEY, k INT, c TEXT, pad INT)")

    def execute(self, *statements: str) -> list[tuple[object, ...]]:
        with self.server.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return [tuple(row) for row in cursor.fetchall()]

    def work(self) -> None:
        """Some transactions."""
        for _ in range(10):
            self._next += 1
            known = self._random.randint(1, self._next)
            self.execute(
                f"INSERT INTO shop.items VALUES ({self._next}, 0, 'new', {self._next})",
                f"UPDATE shop.items SET k = k + 1, c = 'changed by {self._next}' WHERE id = {known}",
                f"DELETE FROM shop.items WHERE id = {known} AND id % 3 = 0",
            )

    def rotate(self) -> str:
        """Name of the file that is finished now."""
        name = str(self.execute("SHOW MASTER STATUS")[0][0])
        self.execute("FLUSH BINARY LOGS")
        return name

    def purge(self, archiving: Archiving, name: str) -> None:
        """As soon as the archive has file *name* whole, the server has neither it nor any before it."""
        archiving.wait_for(lambda file: file.name == name and file.is_sealed)
        stem, _, number = name.rpartition(".")
        following = f"{stem}.{int(number) + 1:06}"
        deadline = time.monotonic() + PATIENCE_S
        while (self.log / name).exists():  # the server keeps it until a thread of its own is done with it
            assert time.monotonic() < deadline
            self.execute(f"PURGE BINARY LOGS TO '{following}'", "DO SLEEP(0.02)")
        self.purged += 1

    def rows(self) -> list[tuple[object, ...]]:
        return sorted(self.execute("SELECT id, k, c, pad FROM shop.items"))


def write_job(folder: Path, path: str) -> Path:
    file = folder / "job.toml"
    file.write_text(
        f'checkpoint = "checkpoint"\n[source]\npath = "{path}"\n[sink]\ndirectory = "tables"\n'
        f'[trigger]\ninterval = "100ms"\n{MODES}'
    )
    return file


def check(shop: Shop, folder: Path) -> None:
    """The mirror is the server's table; the changelog, played row by row, comes to the same."""
    mirror = DeltaTable(folder / "tables" / "mirror").to_pyarrow_table().to_pylist()
    assert sorted((row["id"], row["k"], row["c"], row["pad"]) for row in mirror) == shop.rows()
    assert play_changelog(folder / "tables" / "changelog")[0] == shop.rows()


def live_through_purges(
    shop: Shop, archive: str, folder: Path, run: Callable[[Path], None], die: Callable[[Path], None]
) -> None:
    """The job is away for some files at a time, and both it and the archiver are killed."""
    both = with_archive(str(shop.log), archive)
    with Archiving(shop.log, archive) as archiving:
        shop.work()
        shop.purge(archiving, shop.rotate())
        run(write_job(folder, both))
        for _ in range(3):
            shop.work()
            shop.purge(archiving, shop.rotate())
        die(write_job(folder, both))
        shop.work()
        finished = shop.rotate()
        shop.work()
    with Archiving(shop.log, archive) as archiving:
        shop.work()
        shop.rotate()
        shop.purge(archiving, finished)
        run(write_job(folder, both))
        check(shop, folder)
        shop.work()
        last = shop.execute("SELECT @@gtid_binlog_pos")[0][0]
        archiving.wait_for(lambda file: file.gtids == last)
        run(write_job(folder, archive))  # the same log, elsewhere
        check(shop, folder)
        shop.work()
        run(write_job(folder, str(shop.log)))
        check(shop, folder)
    assert shop.purged == 5


@pytest.mark.spark
def test_tables_stay_complete(spark: SparkSession, mariadb_server: MariaDbServer, tmp_path: Path) -> None:
    def run(file: Path) -> None:
        run_once(load_job(file), spark)

    shop = Shop(mariadb_server)
    live_through_purges(shop, str(tmp_path / "archive"), tmp_path, run, run)
    other = tmp_path / "other"
    other.mkdir()
    (other / "mariadb-bin.000001").write_bytes((tmp_path / "archive" / "1" / "mariadb-bin.000001").read_bytes())
    with pytest.raises(OptionError, match=r"source\.path: this checkpoint was begun with"):
        run(write_job(tmp_path, str(other)))
    check(shop, tmp_path)


@pytest.mark.thorough
@pytest.mark.spark
def test_tables_stay_complete_through_a_bucket(
    mariadb_server: MariaDbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(file: Path) -> None:
        with RunningJob(file, "--once") as job:
            assert job.wait() == 0, job.stderr

    def die(file: Path) -> None:
        with RunningJob(file) as job:
            assert job.wait_for("batch"), job.stderr
            job.kill(workers_too=True)

    with ObjectStore(tmp_path / "s3") as store:
        for name, value in store.options().items():
            monkeypatch.setenv(name, value)
        live_through_purges(Shop(mariadb_server), f"s3://{BUCKET}/log", tmp_path, run, die)
