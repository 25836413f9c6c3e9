"""Programs of servers, from Maven Central into `.venv`, once: `fetch(server, view)`; `make servers` is `main`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_format.errors import BinlogError
from binlog_lab.demo.failures import DemoError
from binlog_lab.demo.servers.java_server import find_java
from binlog_lab.demo.view import DemoView

if TYPE_CHECKING:
    from collections.abc import Callable

_REPOSITORY = Path(__file__).resolve().parents[4]
KEPT = _REPOSITORY / ".venv"
_PACKAGES = {"mvn": "maven", "npm": "npm"}
_DOWNLOADED = re.compile(r"Downloaded from \S+ \S*/(\S+\.jar)\b")


@dataclass(frozen=True, slots=True)
class Fetched:
    """Download of a server.

    Attributes:
        name: For people.
        size: What is downloaded, in MB.
        program: What is started: a jar file in the folder, or a class of `source`.
        source: Folder of a project of Maven's that names what is fetched; None: the jar is all.
        project: File of that project.
        artifact: The jar, in the words of Maven.
    """

    name: str
    size: int
    folder: Path
    program: str
    source: Path | None = None
    project: str = "pom.xml"
    artifact: str = ""

    @property
    def file(self) -> Path:
        """File that exists when the download is complete."""
        return self.folder / (f"{self.program}.class" if self.is_compiled else self.program)

    @property
    def is_compiled(self) -> bool:
        """True if the program is a class of ours, which is compiled."""
        return not self.program.endswith(".jar")


S3PROXY = Fetched(
    name="s3proxy, an S3 server",
    size=55,
    folder=KEPT / "s3proxy",
    program="s3proxy-4.1.0-jar-with-dependencies.jar",
    artifact="org.gaul:s3proxy:4.1.0:jar:jar-with-dependencies",
)
REST_CATALOG = Fetched(
    name="an Iceberg REST catalog",
    size=145,
    folder=KEPT / "rest-catalog",
    program="RestCatalog",
    source=_REPOSITORY / "deploy" / "rest-catalog",
)
KAFKA = Fetched(
    name="Apache Kafka, a broker",
    size=44,
    folder=KEPT / "kafka",
    program="kafka_2.13-4.3.1.jar",
    source=_REPOSITORY / "deploy" / "kafka",
)

SPARK_KAFKA = Fetched(
    name="Spark's connector for Kafka",
    size=10,
    folder=KEPT / "spark-kafka",
    program="spark-sql-kafka-0-10_2.13-4.2.0.jar",
    source=_REPOSITORY / "deploy" / "spark-kafka",
)
DEBEZIUM = Fetched(
    name="Debezium's engine",
    size=44,
    folder=KEPT / "debezium",
    program="DebeziumMessages",
    source=_REPOSITORY / "deploy" / "debezium",
)
DEBEZIUM_MYSQL = replace(
    DEBEZIUM, name="Debezium's engine for MySQL", folder=KEPT / "debezium-mysql", project="mysql.xml"
)
FLINK = Fetched(
    name="Flink's format debezium-json",
    size=27,
    folder=KEPT / "flink",
    program="FlinkRows",
    source=_REPOSITORY / "deploy" / "flink",
)


def require_fetched(server: Fetched) -> Path:
    """The file that is started. Raises `DemoError`: `NO_SERVER`."""
    if not server.file.exists():
        raise DemoError("NO_SERVER", f"there is no {server.file}", hint="`make servers` fetches it")
    return server.file


def fetch(server: Fetched, view: DemoView) -> None:
    """Fetch what is not there yet, or was made from older sources.

    Raises:
        DemoError: `NO_SERVER`: there is no Maven, no compiler, or no way to the repository.
    """
    if _is_there(server):
        return
    maven = find_client("mvn", server.name)
    part = server.folder.with_name(f"{server.folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    with view.step(f"Fetching {server.name} (once, {server.size} MB)", f"Fetched {server.name}") as say:
        goal = ["dependency:copy", f"-Dartifact={server.artifact}"]
        if server.source is not None:
            goal = ["-f", str(server.source / server.project), "dependency:copy-dependencies"]
        _run([maven, "-B", *goal, f"-DoutputDirectory={part}"], server, say)
        if server.source is not None and server.is_compiled:
            compiler = find_java(server.name, "javac")
            source = server.source / f"{server.program}.java"
            _run([compiler, "-cp", f"{part}/*", "-d", str(part), str(source)], server, say)
    shutil.rmtree(server.folder, ignore_errors=True)
    part.rename(server.folder)  # whole, or not at all


def find_client(program: str, name: str) -> str:
    """Path of the client of a registry, which fetches *name*. Raises `DemoError`: `NO_SERVER`."""
    found = shutil.which(program)
    if found is None:
        package = _PACKAGES[program]
        raise DemoError(
            "NO_SERVER",
            f"{name} is fetched by {package}, and there is no {program} on PATH",
            hint=f"On Debian or Ubuntu: apt-get install {package}; then run it again",
        )
    return found


def _is_there(server: Fetched) -> bool:
    if not server.file.exists():
        return False
    made = server.file.stat().st_mtime
    return server.source is None or all(path.stat().st_mtime <= made for path in server.source.iterdir())


def _run(command: list[str], server: Fetched, say: Callable[[str], None]) -> None:
    last: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if match := _DOWNLOADED.search(line):
                say(match[1])
            if "ERROR" in line or "error:" in line:
                last.append(line.strip())
    if process.returncode:
        raise DemoError(
            "NO_SERVER",
            f"{server.name} was not fetched, {Path(command[0]).name}: {last[0] if last else process.returncode}",
            hint=f"To see all of it: {' '.join(command)}",
        )


def main() -> None:
    """Fetch those that are named, or all."""
    known = (S3PROXY, REST_CATALOG, KAFKA, SPARK_KAFKA, DEBEZIUM, DEBEZIUM_MYSQL, FLINK)
    servers = {server.folder.name: server for server in known}
    try:
        for name in sys.argv[1:] or servers:
            fetch(servers[name], DemoView())
    except BinlogError as error:
        sys.exit(f"{error}\nTests that need it are left out.")


if __name__ == "__main__":
    main()
