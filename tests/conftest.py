"""What all tests share."""

from __future__ import annotations

import functools
import gc
import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.chance import register_profiles
from tests.faults.unsynced import do_not_sync
from tests.raised_conditions import raises_its_conditions
from tests.servers import made_data_folder, mariadb_server_in

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from binlog_lab.demo.mariadb.server import MariaDbServer
    from binlog_lab.demo.servers.kafka_broker import KafkaBroker
    from tests.faults.object_store import ObjectStore
    from tests.faults.tcp_proxy import TcpProxy

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in the background so, and programs that tests start would not hear Ctrl-C either.
    signal.signal(signal.SIGINT, signal.default_int_handler)


register_profiles()
do_not_sync()
made_data_folder()  # by the process that starts the others

TESTS = Path(__file__).parent
SLOW = (
    "fuzz",
    "truth",
    "format/classic",
    "format/rows/test_without_compiler.py",
    "judge",
    "test_peers_mistakes.py",
    "connector/schema/test_table_changes_corpus.py",
    "streaming/simulation",
    "streaming/tables/iceberg/test_maintenance.py",
    "streaming/tables/lake/test_sinks.py",
    "streaming/tables/lake/test_spark_tables.py",
    "streaming/cli/test_pipes.py",
    "streaming/cli/test_tail.py",
    "streaming/snapshot",
    "streaming/test_replay.py",
)
"""Whole modules and folders whose tests take long together: they are marked `slow`, as single tests are."""
FIRST_SPARK = (
    "tests/connector/",
    "tests/docs/",
    "tests/streaming/archive/",
    "tests/streaming/bad_days/",
    "tests/streaming/check/",
)
"""Tests of one of the two Spark sessions; those of the other one take about as long."""
FIRST_KAFKA = ("tests/connector/", "tests/streaming/topic_tables/")
"""Tests of one of the two Kafka brokers; those of the other one take about as long."""
SERVERS = ("kafka_broker", "object_store")
"""Fixtures of servers that a process starts once; tests of a file that uses both are where the first one is."""
LONGEST = ("server kafka_broker", "spark", "server object_store")
"""Beginnings of the names of the processes that take long, in the order in which they begin."""
_FUNCTION = re.compile(r"^ *def (\w+)\(([^)]*)\)", re.MULTILINE)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let the garbage collector pass over what is collected: ten thousand tests stay, and it would visit them again
    and again.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what is in `SLOW`, and the cases of a test that its mark `thorough_where` names."""
    if _is_slow(item.path):
        item.add_marker(pytest.mark.slow)
    _, _, case = item.name.partition("[")
    if any(re.search(mark.args[0], case.removesuffix("]")) for mark in item.iter_markers("thorough_where")):
        item.add_marker(pytest.mark.thorough)


@functools.cache
def _is_slow(path: Path) -> bool:
    place = f"{path}/"
    return any(place.startswith(f"{TESTS}/{part}/") for part in SLOW)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long, so that no process is left with it when the others have ended."""
    names = _names_by_file(item.nodeid for item in items)
    items.sort(key=lambda item: (_turn(_process_of(item.nodeid, names)), not _is_slow(item.path)))


def _turn(process: str) -> int:
    return next((turn for turn, start in enumerate(LONGEST) if process.startswith(start)), len(LONGEST))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """See that a test raises the conditions that it is named for."""
    with raises_its_conditions(item.nodeid):
        return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Say which tests run in one process.

    A file's tests share what is made for it. Files of which a test that runs uses the Spark session share that: Java,
    its compiled code, and the Python workers are there twice. So do tests of files that use the Kafka broker, which is
    there twice, too, as many of them wait for one that they have killed or frozen; and those that use the S3 server.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):  # type: ignore[misc, unused-ignore] # without types where it is not installed
        @functools.cached_property
        def _names(self) -> dict[str, frozenset[str]]:
            return _names_by_file(self.collection)

        def _split_scope(self, nodeid: str) -> str:
            return _process_of(nodeid, self._names)

    return Together(config, log)


def _process_of(nodeid: str, names: Mapping[str, frozenset[str]]) -> str:
    file, _, test = nodeid.partition("::")
    uses_spark = _spark_tests(file)
    # A file may have tests of both: a broker in the process of a Spark session would be one more.
    server = None if _function_of(test) in uses_spark else _server(file)
    if server is not None:
        return f"server {server} {file.startswith(FIRST_KAFKA)}"
    return f"spark {file.startswith(FIRST_SPARK)}" if names[file] & uses_spark else file


def _names_by_file(nodeids: Iterable[str]) -> dict[str, frozenset[str]]:
    """Of each file the functions of its tests that run."""
    found: dict[str, set[str]] = {}
    for nodeid in nodeids:
        file, _, test = nodeid.partition("::")
        found.setdefault(file, set()).add(_function_of(test))
    return {file: frozenset(names) for file, names in found.items()}


def _function_of(test: str) -> str:
    return test.partition("[")[0].rpartition("::")[2]


@functools.cache
def _spark_tests(file: str) -> frozenset[str]:
    """Functions of a file that take the Spark session, or what a fixture of the file makes with it."""
    text = (TESTS.parent / file).read_text()
    takes = {name: set(re.findall(r"\w+", given)) for name, given in _FUNCTION.findall(text)}
    found, made = set[str](), {"spark"}
    while made:
        made = {name for name, given in takes.items() if given & made} - found
        found |= made
    return frozenset(found)


@functools.cache
def _server(file: str) -> str | None:
    """The first of `SERVERS` that tests of a file use."""
    words = set(re.findall(r"\w+", (TESTS.parent / file).read_text()))
    return next((server for server in SERVERS if server in words), None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI all is there that the markers `spark` and `server` ask for: a test of theirs that skips has failed.

    Unless a `skipif` says where it need not run, and this is there.
    """
    report = yield
    marks = {mark.name for mark in item.iter_markers()}
    is_exempt = any(mark.args[0] for mark in item.iter_markers("skipif"))
    must_run = bool(marks & {"spark", "server"}) and not is_exempt
    if must_run and report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI") == "true":
        report.outcome = "failed"
    return report


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of a test run: a JVM takes seconds to start. Without Java tests skip, but fail in CI."""
    from binlog_lab.demo.failures import DemoError
    from binlog_lab.demo.servers.java_server import find_java
    from binlog_streaming.spark_session import PLANNING_ONLY, local_session  # imported only where a test asks for it

    try:
        find_java("Spark")
    except DemoError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))

    folder = tmp_path_factory.mktemp("spark")
    places = {"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.local.dir": str(folder / "local")}
    session = local_session("tests", settings=PLANNING_ONLY | places, log_file=folder / "spark.log")
    yield session
    session.stop()


@pytest.fixture
def shown_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let messages quote values of rows, as `errors_show_values` does."""
    from binlog_format.messages import SHOW_VALUES

    monkeypatch.setenv(SHOW_VALUES, "1")


@pytest.fixture
def mariadb_server(tmp_path: Path) -> Iterator[MariaDbServer]:
    """A MariaDB server of its own for each test, running; skips where none is installed, but fails in CI."""
    with mariadb_server_in(tmp_path / "server") as server:
        yield server


@pytest.fixture(scope="session")
def kafka_network() -> Iterator[TcpProxy]:
    """What stands before the Kafka broker's listener at its port; a test that breaks it mends it."""
    from tests.faults.tcp_proxy import TcpProxy

    with TcpProxy() as network:
        yield network


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory, kafka_network: TcpProxy) -> Iterator[KafkaBroker]:
    """The one Kafka broker of a test run, running; a test that kills or freezes it lets it go on."""
    from tests.faults.kafka_broker import kafka_broker_in

    broker = kafka_broker_in(tmp_path_factory.mktemp("kafka"), proxy_port=kafka_network.port)
    kafka_network.server_port = broker.proxied_port
    with broker:
        yield broker


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """The one S3 server of a test run, running; each test has a folder of its own in its bucket."""
    from tests.faults.object_store import ObjectStore

    with ObjectStore(tmp_path_factory.mktemp("s3")) as store:
        yield store
