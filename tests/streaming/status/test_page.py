"""The page of a job over HTTP: what it answers, whom, and that nothing of it is there without being asked for."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

import pytest

from binlog_connector.following.log_end import end_of_log, start_of_log
from binlog_connector.following.watched import WatchedLog
from binlog_format.errors import MachineError, OptionError
from binlog_streaming.status.model import PurgeRisk, PurgeStatus
from binlog_streaming.status.page.app import TABLES_MAX
from binlog_streaming.status.page.serving import is_loopback, serving
from binlog_streaming.status.recorder import StatusRecorder
from tests.connector.shop import Shop
from tests.streaming.status.states import HOSTILE, Shown, log, served, state, trouble
from tests.streaming.tables.oltp import OLTP
from tests.streaming.test_job_check import job_for

if TYPE_CHECKING:
    from email.message import Message
    from pathlib import Path

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

TOKEN = "correct horse battery staple"
WAIT_S = 300


def get(url: str, path: str = "", **headers: str) -> tuple[int, str, Message]:
    request = urllib.request.Request(f"{url}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), error.headers


def first_events(url: str, number: int, change: object = None) -> list[dict[str, object]]:
    """What is sent to who has the page open, at each new look at the log; *change* is called after the first of it."""
    found = []
    with urllib.request.urlopen(f"{url}events", timeout=WAIT_S) as answer:
        for line in answer:
            if line.startswith(b"data: ") and b'"log":' in line:  # a look that took long is shown for longer
                found.append(json.loads(line.removeprefix(b"data: ")))
                if len(found) == 1 and callable(change):
                    change()
                if len(found) == number:
                    return found
    raise AssertionError(f"the page ended after {len(found)} events")


def test_a_page_of_a_job_on_a_real_log(tmp_path: Path) -> None:
    with WatchedLog(str(OLTP)) as watched:
        first, last = start_of_log(watched), end_of_log(watched)
    with StatusRecorder(job_for(tmp_path)) as recorder, serving("127.0.0.1:0", None, recorder) as url:
        recorder.goes_on_at(first)
        recorder.started()
        status, text, headers = get(url, "status.json")
        shown = json.loads(text)
        assert (status, headers["content-type"], shown["phase"]) == (200, "application/json", "running")
        assert shown["log"]["size"] > 800_000
        status, text, headers = get(url, "metrics")
        assert (status, headers["content-type"].split(";")[0]) == (200, "text/plain")
        assert 'binlog_stream_lag_known{name="binlog-stream"} 1.0' in text
        recorder.progress.consumed = type(recorder.progress.consumed)(last)  # type: ignore[misc]
        status, text, _ = get(url, "map.json")
        assert (status, json.loads(text)["problem"][:27]) == (200, "[BINLOG_UNSUPPORTED.FORMAT]")
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=WAIT_S)


def test_answers_carry_what_keeps_browsers_from_harm(tmp_path: Path) -> None:
    with served(tmp_path, Shown(state(), log())) as url:
        for path in ("", "page.js", "style.css", "status.json", "healthz", "metrics", "nothing-like-this"):
            status, _, headers = get(url, path)
            assert status == (404 if path == "nothing-like-this" else 200)
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
            assert headers["cache-control"] == "no-store"
            assert "server" not in headers


def test_page_names_nothing_from_elsewhere(tmp_path: Path) -> None:
    with served(tmp_path, Shown(state(), log())) as url:
        texts = {path: get(url, path)[1] for path in ("", "page.js", "charts.js", "texts.js", "style.css")}
    for path, text in texts.items():
        assert "//" not in text.replace("http://www.w3.org/2000/svg", "").replace("// ", ""), path
        assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(", text) == [], path
    assert "<script>" not in texts[""]
    assert "style=" not in texts[""]


def test_health_follows_the_verdict(tmp_path: Path) -> None:
    shown = Shown(state(), log())
    with served(tmp_path, shown) as url:
        assert get(url, "healthz")[:2] == (200, '{"level":"ok"}')
        shown.log = log(purge=PurgeStatus(PurgeRisk.GONE, reason="it is gone"))
        deadline = time.monotonic() + WAIT_S
        while get(url, "healthz")[:2] != (503, '{"level":"danger"}'):
            assert time.monotonic() < deadline


def test_a_site_that_gives_its_name_our_address_reads_nothing(tmp_path: Path) -> None:
    with served(tmp_path, Shown(state(), log())) as url:
        for name in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", ""):
            for path in ("", "status.json", "events", "healthz"):
                assert get(url, path, Host=name)[0] == 421
        port = urlsplit(url).port
        for name in ("localhost", f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
            assert get(url, "healthz", Host=name)[0] == 200


def test_only_what_has_changed_is_sent(tmp_path: Path) -> None:
    shown = Shown(state(), log())

    def change() -> None:
        shown.log = log(size=5, waiting_seconds=1.0)

    with served(tmp_path, shown) as url:
        first, second = first_events(url, 2, change)
    assert {"verdict", "log", "tables", "batches", "minutes", "errors", "name", "tables_total"} <= first.keys()
    assert {"verdict", "log", "now"} <= second.keys()
    assert not {"name", "source", "errors", "tables_total"} & second.keys()


def test_names_are_data_on_the_wire_too(tmp_path: Path) -> None:
    hostile = state(name=HOSTILE, source=HOSTILE, tables=tuple(trouble()))
    with served(tmp_path, Shown(hostile, log())) as url:
        (event,) = first_events(url, 1)
        assert event["name"] == HOSTILE
        assert json.loads(get(url, "status.json")[1])["source"] == HOSTILE


def test_of_many_tables_those_with_problems_are_sent(tmp_path: Path) -> None:
    from binlog_streaming.status.model import TableStatus

    many = (*(TableStatus(name=f"shop.t{number}") for number in range(2 * TABLES_MAX)), *trouble())
    with served(tmp_path, Shown(state(tables=many), log())) as url:
        (event,) = first_events(url, 1)
    tables = event["tables"]
    assert isinstance(tables, list)
    assert (len(tables), event["tables_total"]) == (TABLES_MAX, len(many))
    assert tables[0]["name"] == "shop.events"


def test_the_end_of_the_job_lets_viewers_go(tmp_path: Path) -> None:
    seen: list[int] = []

    def look(url: str, opened: threading.Event) -> None:
        with urllib.request.urlopen(f"{url}events", timeout=WAIT_S) as answer:
            answer.readline()
            opened.set()
            seen.append(len(answer.read()))

    opened = threading.Event()
    with served(tmp_path, Shown(state(), log())) as url:
        viewer = threading.Thread(target=look, args=(url, opened))
        viewer.start()
        assert opened.wait(WAIT_S)
    viewer.join(WAIT_S)
    assert seen, "the answer ended in order"


def test_an_address_that_others_reach_needs_a_token(tmp_path: Path) -> None:
    recorder = StatusRecorder(job_for(tmp_path))
    for address in ("0.0.0.0:0", "[::]:0", "10.1.2.3:0", "db.example.com:0"):
        with pytest.raises(OptionError, match="there is no token"), serving(address, None, recorder):
            pass
    with pytest.raises(OptionError, match="at least 16 characters"), serving("127.0.0.1:0", "short", recorder):
        pass
    for address in ("8765", "127.0.0.1", "127.0.0.1:http", ":80", "127.0.0.1:99999"):
        with pytest.raises(OptionError, match="expected HOST:PORT"), serving(address, None, recorder):
            pass
    assert [is_loopback(host) for host in ("127.8.8.8", "::1", "localhost", "0.0.0.0")] == [True, True, True, False]


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with served(tmp_path, Shown(state(), log())) as url:
        taken = urlsplit(url).netloc
        with (
            pytest.raises(MachineError, match=f"cannot listen at {taken}"),
            serving(taken, None, StatusRecorder(job_for(tmp_path))),
        ):
            pass


def test_with_a_token_only_who_knows_it_sees_anything(tmp_path: Path) -> None:
    with served(tmp_path, Shown(state(), log()), TOKEN) as url:
        for path in ("status.json", "events", "metrics", "map.json", "page.js"):
            assert get(url, path)[0] == 401
            assert get(url, path, Authorization="Bearer wrong")[0] == 401
        assert get(url, "status.json", Authorization=f"Bearer {TOKEN}")[0] == 200
        status, text, _ = get(url)
        assert (status, "shop" in text, "password" in text) == (401, False, True)
        assert get(url, "healthz")[:2] == (200, '{"level":"ok"}'), "probes of a supervisor have no token"
        # Behind a proxy the page has another name.
        assert get(url, "status.json", Host="status.example.com", Authorization=f"Bearer {TOKEN}")[0] == 200


def login(url: str, token: str) -> tuple[int, str | None]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=WAIT_S)
    body = urlencode({"token": token})
    connection.request("POST", "/login", body, {"Content-Type": "application/x-www-form-urlencoded"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, answer.getheader("set-cookie")


def test_a_browser_keeps_a_cookie_that_is_not_the_token(tmp_path: Path) -> None:
    with served(tmp_path, Shown(state(), log()), TOKEN) as url:
        assert login(url, "wrong") == (303, None)
        assert login(url, "x" * 10_000)[0] == 413
        status, cookie = login(url, TOKEN)
        assert status == 303
        assert cookie is not None
        assert {"HttpOnly", "SameSite=strict"} <= set(cookie.split("; "))
        assert "horse" not in cookie
        assert get(url, "status.json", Cookie=cookie.partition(";")[0])[0] == 200
        assert get(url, "status.json", Cookie=cookie.partition(";")[0] + "0")[0] == 401


def test_the_file_that_is_read_is_drawn(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "log")
    shop.sell(300)
    with WatchedLog(str(shop.directory)) as watched:
        offset = end_of_log(watched)
    with (
        StatusRecorder(job_for(tmp_path, log=shop.directory)) as recorder,
        serving("127.0.0.1:0", None, recorder) as url,
    ):
        recorder.goes_on_at(offset)
        recorder.started()
        drawn = json.loads(get(url, "map.json")[1])
    assert drawn["file"] == f"binlog-{offset.position.file_no:06}.ibb"
    assert len(drawn["cells"]) == drawn["pages"]
    assert all(250 <= sum(shares) <= 260 for shares in drawn["cells"])
    assert 0 < drawn["read_to"] < drawn["pages"]
    assert any("commit" in line["label"] for line in drawn["legend"])


WITHOUT_A_PAGE = """
import sys
from pathlib import Path
from binlog_streaming.cli.status.observing import NO_PAGE, observed
from tests.streaming.test_job_check import job_for
with observed(job_for(Path(sys.argv[1])), NO_PAGE) as recorder:
    recorder.started()
    assert recorder.addresses == {}
loaded = {name.partition(".")[0] for name in sys.modules}
assert not loaded & {"starlette", "uvicorn", "anyio", "h11", "prometheus_client"}, loaded
assert not [name for name in sys.modules if name.startswith("binlog_streaming.status.page")]
"""


def test_a_job_without_a_page_loads_nothing_of_it(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_A_PAGE, tmp_path], check=True)
