"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pyspark.sql import SparkSession

    from binlog_streaming.demo.mariadb_server import MariaDbServer

# Kernels are compiled at their first call: the first example of a test may take a second.
settings.register_profile("kernels", deadline=None)
settings.load_profile("kernels")


TESTS = Path(__file__).parent
SLOW = (
    "fuzz",
    "truth",
    "test_peers_mistakes.py",
    "connector/schema/test_table_changes_corpus.py",
    "streaming/simulation",
    "streaming/tables/test_iceberg_maintenance.py",
    "streaming/tables/test_sinks.py",
    "streaming/test_cli_pipes.py",
    "streaming/test_cli_tail.py",
    "streaming/test_replay.py",
)
"""Whole modules and folders whose tests take long together: they are marked `slow`, as single tests are."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in `SLOW`."""
    slow = [TESTS / part for part in SLOW]
    for item in items:
        if any(item.path == one or one in item.path.parents for one in slow):
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI all is there that the markers `spark` and `server` ask for: a test of theirs that skips has failed.

    Unless a `skipif` says where it need not run, and this is there.
    """
    report = yield
    marks = {mark.name for mark in item.iter_markers()}
    is_exempt = any(mark.args[0] for mark in item.iter_markers("skipif"))
    must_run = bool(marks & {"spark", "server"}) and "corpus" not in marks and not is_exempt
    if must_run and report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI") == "true":
        report.outcome = "failed"
    return report


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of a test run: a JVM takes seconds to start."""
    from binlog_streaming.spark_session import local_session  # Spark is imported only where a test asks for it

    folder = tmp_path_factory.mktemp("spark")
    places = {"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.local.dir": str(folder / "local")}
    session = local_session("tests", settings=places, log_file=folder / "spark.log")
    yield session
    session.stop()


@pytest.fixture
def mariadb_server(tmp_path: Path) -> Iterator[MariaDbServer]:
    """A MariaDB server of its own for each test, running; skips where none is installed, but fails in CI."""
    from binlog_streaming.demo.mariadb_server import MariaDbError, MariaDbServer

    try:
        server = MariaDbServer(tmp_path / "server")
    except MariaDbError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    with server:
        yield server
