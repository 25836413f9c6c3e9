"""Servers that are Java programs: what is fetched for them, how they start, and what is said when they cannot."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from binlog_lab.demo.failures import DemoError
from binlog_lab.demo.servers.fetch import REST_CATALOG, S3PROXY, fetch, require_fetched
from binlog_lab.demo.servers.java_server import JavaServer
from binlog_lab.demo.view import DemoView

if TYPE_CHECKING:
    from pathlib import Path

MAVEN = """#!/bin/sh
echo "[INFO] Downloaded from central: https://maven.example/org/one-1.0.jar (1 kB at 2 kB/s)"
for argument; do case $argument in -DoutputDirectory=*) folder=${argument#*=};; esac; done
mkdir -p "$folder" && touch "$folder/s3proxy-4.1.0-jar-with-dependencies.jar"
"""
BROKEN_MAVEN = """#!/bin/sh
echo "[ERROR] no way to maven.example"
exit 1
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in which programs are found: those that scripts here use, and no Java."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("mkdir", "touch", "yes", "head", "sleep"):
        (folder / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return folder


def program(folder: Path, name: str, text: str) -> None:
    """A program; what `JavaServer` calls gets an option of Java before its arguments."""
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def view() -> DemoView:
    return DemoView(Console(quiet=True))


def test_a_server_that_does_not_start_says_why(path: Path) -> None:
    program(path, "java", "#!/bin/sh\necho no port $2 left\nexit 3\n")
    with (
        pytest.raises(DemoError, match=r"PROCESS_FAILED\] one: exit status 3: no port 7 left"),
        JavaServer("one", ["7"], re.compile("ready")),
    ):
        pass


def test_a_server_may_say_any_amount_and_is_ended(path: Path) -> None:
    """It would wait for ever, were its words not read; the words that it was ready with stay."""
    program(path, "java", "#!/bin/sh\necho listening on 77\nyes | head -c 1000000\ntouch $2\nexec sleep 1000\n")
    said = path / "said"
    with JavaServer("one", [str(said)], re.compile(r"on (\d+)")) as server:
        assert server._answer[1] == "77"
        while not said.exists():
            assert server._process.poll() is None
    assert server._process.poll() == -9


def test_what_was_not_fetched_names_what_fetches_it(path: Path, tmp_path: Path) -> None:
    server = replace(S3PROXY, folder=tmp_path / "s3proxy")
    with pytest.raises(DemoError, match="NO_SERVER") as caught:
        require_fetched(server)
    assert "make servers" in (caught.value.hint or "")


def test_servers_are_fetched_whole_or_not_at_all(path: Path, tmp_path: Path) -> None:
    server = replace(S3PROXY, folder=tmp_path / "s3proxy")
    with pytest.raises(DemoError, match=r"NO_SERVER\] s3proxy.* there is no mvn") as caught:
        fetch(server, view())
    assert "apt-get install maven" in (caught.value.hint or "")
    program(path, "mvn", BROKEN_MAVEN)
    with pytest.raises(DemoError, match=r"was not fetched, mvn: .*no way to maven"):
        fetch(server, view())
    program(path, "mvn", MAVEN)
    catalog = replace(REST_CATALOG, folder=tmp_path / "catalog")
    with pytest.raises(DemoError, match="an Iceberg REST catalog needs javac"):
        fetch(catalog, view())
    assert not server.folder.exists()
    assert not catalog.folder.exists()
    fetch(server, view())
    (path / "mvn").unlink()
    fetch(server, view())
    assert require_fetched(server) == server.folder / server.program
