"""The peers: how each is built and run: `PEERS`."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.logs.datasets import DATA
from bench.peers.found import PeerError, last_pass, parse_found, run_process
from bench.peers.mariadb_binlog import found_in_text
from bench.peers.server_log import FILE_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.peers.found import Found, Run

SOURCES = Path(__file__).parent
BUILT = DATA / "peers"
HOT_PASSES = 7
"""Passes in one process, of which the last counts, where code is compiled while it runs or loaded before it."""
PYTHON_TRANSACTIONS = 5_000
"""Of the file: all of it would take a minute for each run."""


class Peer(ABC):
    """Another decoder.

    Attributes:
        name: Short, for names of results.
        about: What it is, with its version.
        verifies: Whether it verifies checksums as it is run here.
        transactions: How many of the file it reads; None: all.
    """

    name: str
    about: str
    verifies = False
    transactions: int | None = None

    @abstractmethod
    def build(self) -> None:
        """Make it ready. Raises `PeerError`: what it needs is not here; the message names it."""

    @abstractmethod
    def prove(self, path: Path) -> Found:
        """What it finds in a file, with all sums."""

    @abstractmethod
    def measure(self, path: Path) -> Run:
        """One run over a file."""


class Program(Peer):
    """A program of ours around a library: FILE quick|full, and what it found as a line of JSON."""

    command: tuple[str, ...]

    def prove(self, path: Path) -> Found:
        """As `Peer`."""
        return parse_found(run_process([*self.command, str(path), "full"]).output)

    def measure(self, path: Path) -> Run:
        """As `Peer`: the whole process."""
        return run_process([*self.command, str(path), "quick"]).run


class MariadbBinlog(Peer):
    """The server's own program, which prints."""

    name = "mariadb_binlog"

    def build(self) -> None:
        """It is installed, or not."""
        self._program = _tool("mariadb-binlog", "apt-get install mariadb-client")
        version = run_process([self._program, "--version"]).output.partition(" Ver ")[2].split(" ")[0]
        self.about = f"mariadb-binlog {version} -v, rows as text"

    def prove(self, path: Path) -> Found:
        """From what it prints."""
        return found_in_text([self._program, "-v", str(path)])

    def measure(self, path: Path) -> Run:
        """The whole process; nobody reads what it prints."""
        return run_process([self._program, "-v", f"--result-file={Path('/dev/null')}", str(path)]).run


class GoMysql(Program):
    """go-mysql's parser, from a buffered file."""

    name = "go_mysql"
    about = "go-mysql 1.14.0 (Go), ParseReader"

    def build(self) -> None:
        """With the Go toolchain; its module proxy has the library."""
        go = _tool("go", "the Go toolchain")
        target = BUILT / self.name / "decode"
        _make([go, "build", "-o", str(target), "."], SOURCES / self.name)
        self.command = (str(target),)


class Rust(Program):
    """A crate."""

    def build(self) -> None:
        """With cargo; crates.io has the library."""
        cargo = _tool("cargo", "the Rust toolchain")
        target = BUILT / self.name
        _make([cargo, "build", "--release", "--locked", "--target-dir", str(target)], SOURCES / self.name)
        self.command = (str(target / "release" / "decode"),)


class ConnectorRust(Rust):
    """mysql-binlog-connector-rust."""

    name = "connector_rust"
    about = "mysql-binlog-connector-rust 0.3.3"


class MysqlCommon(Rust):
    """mysql_common."""

    name = "mysql_common"
    about = "mysql_common 0.38.2 (Rust)"


class ConnectorJava(Peer):
    """mysql-binlog-connector-java, once the virtual machine has compiled it."""

    name = "connector_java"
    about = "mysql-binlog-connector-java 0.30.1 (zendesk), JVM hot"

    def build(self) -> None:
        """With Maven, and the compiler of a JDK."""
        maven, compiler = _tool("mvn", "Maven"), _tool("javac", "a JDK")
        self._java = _tool("java", "a Java runtime")
        source, target = SOURCES / self.name, BUILT / self.name
        _make(
            [maven, "--quiet", "--batch-mode", "dependency:copy-dependencies", f"-DoutputDirectory={target / 'lib'}"],
            source,
        )
        _make([compiler, "-cp", f"{target / 'lib'}/*", "-d", str(target), "src/main/java/Decode.java"], source)
        self._classes = f"{target}:{target / 'lib'}/*"

    def prove(self, path: Path) -> Found:
        """As `Peer`."""
        return parse_found(run_process([*self._command(path, "full"), "1"]).output)

    def measure(self, path: Path) -> Run:
        """The last of some passes."""
        return last_pass(run_process([*self._command(path, "quick"), str(HOT_PASSES)]))[1]

    def _command(self, path: Path, mode: str) -> list[str]:
        return [self._java, "-cp", self._classes, "Decode", str(path), mode]


class PythonReplication(Peer):
    """python-mysql-replication, from a server that has the file as its first binlog file."""

    name = "python_replication"
    about = "python-mysql-replication 1.0.17, live server"
    transactions = PYTHON_TRANSACTIONS

    def build(self) -> None:
        """With pip, into a folder of its own."""
        target = BUILT / self.name
        if not (target / "pymysqlreplication").is_dir():
            package = "mysql-replication==1.0.17"
            _make([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target), package], SOURCES)

    def prove(self, path: Path) -> Found:
        """As `Peer`."""
        with self._server(path) as command:
            return last_pass(run_process([*command, "full", self._changes()], environment=self._environment))[0]

    def measure(self, path: Path) -> Run:
        """From the connection to the last row; the server's time does not count."""
        with self._server(path) as command:
            return last_pass(run_process([*command, "quick", self._changes()], environment=self._environment))[1]

    @staticmethod
    def _changes() -> str:
        return str(4 * PYTHON_TRANSACTIONS)

    @contextmanager
    def _server(self, path: Path) -> Iterator[list[str]]:
        """A server of the file; the program's command, but for its last two arguments."""
        from binlog_lab.demo.mariadb.installed import DatabaseServerError
        from binlog_lab.demo.mariadb.server import MariaDbServer

        with tempfile.TemporaryDirectory(prefix="peers-", dir=BUILT) as directory, ExitStack() as running:
            try:
                server = MariaDbServer(Path(directory))
                server.binlog_directory.mkdir()
                (server.binlog_directory / FILE_NAME).hardlink_to(path)
                (server.binlog_directory / "mariadb-bin.index").write_text(f"{server.binlog_directory / FILE_NAME}\n")
                running.enter_context(server)
            except DatabaseServerError as error:
                raise PeerError(str(error)) from error
            password = secrets.token_hex(16)
            with server.connect() as connection, connection.cursor() as cursor:
                cursor.execute("CREATE USER peer@'127.0.0.1' IDENTIFIED BY %s", (password,))
                cursor.execute("GRANT SELECT, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO peer@'127.0.0.1'")
            self._environment = {"PASSWORD": password, "PYTHONPATH": str(BUILT / self.name)}
            program = SOURCES / "python_replication.py"
            yield [sys.executable, str(program), "127.0.0.1", str(server.port), "peer", FILE_NAME]


PEERS: tuple[type[Peer], ...] = (
    ConnectorRust,
    MysqlCommon,
    ConnectorJava,
    GoMysql,
    MariadbBinlog,
    PythonReplication,
)


def _tool(name: str, what: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise PeerError(f"there is no {name} on PATH ({what})")
    return found


def _make(command: list[str], directory: Path) -> None:
    result = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if result.returncode:
        lines = (result.stdout + result.stderr).strip().splitlines()
        raise PeerError(f"{Path(command[0]).name} failed: {' | '.join(lines[-3:])}")
