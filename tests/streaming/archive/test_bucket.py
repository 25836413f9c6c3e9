"""An archive in an object store: the same as in a folder, against a real S3 server."""

from __future__ import annotations

import random
import re
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from binlog_connector.crash_points import watched
from binlog_connector.following.starts import Edge
from binlog_connector.following.tailer import FollowOptions, Tailer
from binlog_format import open_log
from binlog_format.errors import StartError, StorageError
from binlog_format.formats.opening import verify_log
from binlog_format.source_file import with_archive
from binlog_lab.demo.servers.lake_servers import BUCKET
from binlog_streaming.archive.archiver import Archiver
from tests.faults.object_store import Fault, FaultyProxy, ObjectStore
from tests.faults.processes import Cut, CutOff
from tests.program import run_program
from tests.streaming.archive.growing_logs import GrowingClassic, GrowingInnodb, join_groups, read_groups
from tests.streaming.archive.test_archiver import ROTATION, archive_once

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.server


@pytest.fixture
def url(request: pytest.FixtureRequest, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in object_store.options().items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{re.sub(r'[^a-z0-9]', '-', request.node.name)}/log"


@pytest.mark.parametrize("kind", ["classic", "innodb"])
def test_log_is_read_from_the_bucket_when_the_server_has_purged_it(url: str, tmp_path: Path, kind: str) -> None:
    server = tmp_path / "server"
    source = random.Random(1)
    log = GrowingClassic(ROTATION, server, source) if kind == "classic" else GrowingInnodb(server, source, count=40)
    cuts = 0
    for number, _ in enumerate(log.steps()):
        if number >= 2 and number % 5 == 0:
            # Not in a fork: the library of the object store has threads.
            with watched(CutOff(source.randint(1, 8))):
                try:
                    archive_once(server, url)
                except Cut:
                    cuts += 1
    assert cuts > 2
    if isinstance(log, GrowingInnodb):
        log.close()
    archive_once(server, url)
    expected = log.data() if isinstance(log, GrowingInnodb) else log.groups()
    with open_log(url) as archived:
        assert read_groups(archived) == expected
    for path in sorted(server.iterdir())[:3]:
        path.unlink()
    with open_log(with_archive(str(server), url)) as union:
        assert read_groups(union) == expected
    findings = [one for one in verify_log(url) if one.is_error and "Format_description" not in one.reason]
    assert findings == []


def test_follower_of_the_bucket_sees_the_archive_grow(url: str, tmp_path: Path) -> None:
    server = tmp_path / "server"
    log = GrowingClassic(ROTATION, server, random.Random(2))
    steps = log.steps()
    for _ in range(4):
        next(steps)
    found: list[bytes] = []
    with closing(Archiver(str(server), url)) as one:
        one.archive()
        with Tailer(url, Edge.EARLIEST, how=FollowOptions(poll_interval=0.05)) as tailer:
            for number, _ in enumerate(steps):
                if number % 4 == 0:
                    one.archive()
                    for step in tailer.steps(idle_seconds=0.01):
                        join_groups(step.blocks(), found)
            one.archive()
            while len(found) < len(log.groups()):
                for step in tailer.steps(idle_seconds=1):
                    join_groups(step.blocks(), found)
    assert found == log.groups()


@pytest.mark.parametrize("loses_reply", [False, True], ids=["503", "lost replies"])
@pytest.mark.parametrize("what", ["binlog-archive", "mysql-bin"])
def test_bucket_that_fails_now_and_then_costs_only_time(
    object_store: ObjectStore, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, loses_reply: bool
) -> None:
    server = tmp_path / "server"
    log = GrowingClassic(ROTATION, server, random.Random(3))
    for _ in log.steps():
        continue
    fault = Fault(re.compile(rf"PUT .*{what}"), count=2, loses_reply=loses_reply)
    with FaultyProxy(object_store.port, fault) as proxy, monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
        archive_once(server, url)
    assert fault.met == 2
    with open_log(url) as archived:
        assert read_groups(archived) == log.groups()


def test_bucket_that_is_not_there_is_named(object_store: ObjectStore, url: str, tmp_path: Path) -> None:
    del object_store
    server = tmp_path / "server"
    for _ in GrowingClassic(ROTATION, server, random.Random(4)).steps():
        continue
    with pytest.raises(StorageError, match=r"FAILED|NOT_FOUND"):
        archive_once(server, "s3://no-such-bucket/log")
    with pytest.raises(StartError, match="PATH_NOT_FOUND"):
        open_log(url)
    done = run_program("archive", server, "--to", "nowhere://bucket/log", "--once")
    assert done.returncode == 2
    assert "--to" in done.stderr
