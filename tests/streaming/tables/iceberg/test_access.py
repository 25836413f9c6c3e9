"""Catalogs that ask who is there (OAuth2), and give access to files to who loads a table: real servers, guarded.

Tokens and keys expire on the way, and are in no message.
"""

from __future__ import annotations

import logging
import re
import traceback
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

pytest.importorskip("pyiceberg")

from pyiceberg.catalog import load_catalog

from binlog_format.errors import BinlogError, OptionError, TableError
from binlog_lab.demo.servers.lake_servers import BUCKET
from binlog_streaming.lake.iceberg.catalog import catalog_properties
from binlog_streaming.lake.iceberg.target import IcebergTarget
from binlog_streaming.settings import Merge, Sink, TableFormat
from binlog_streaming.settings.text import job_text
from binlog_streaming.tables.open_targets import OpenTargets
from tests.faults.guarded_catalog import SECRET, GuardedCatalog
from tests.faults.object_store import RestCatalog
from tests.program import run_program
from tests.streaming.tables.iceberg.test_catalogs import commit_id_of
from tests.streaming.tables.jobs.test_job import job_for, run_once
from tests.streaming.tables.lake.sink_cases import INT_KEY, MIRROR_COMMIT_ID, change_of
from tests.streaming.tables.oltp import TABLES, truth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.faults.object_store import ObjectStore


pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, object_store: ObjectStore) -> Iterator[RestCatalog]:
    with RestCatalog(tmp_path_factory.mktemp("rest"), object_store) as server:
        yield server


@pytest.fixture
def guarded(
    server: RestCatalog, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> Iterator[GuardedCatalog]:
    """The front; nothing that a test logs, prints or writes down may hold what is secret."""
    caplog.set_level(logging.DEBUG)
    with GuardedCatalog(server) as front:
        yield front
    assert front.tokens
    printed = "".join(capfd.readouterr())
    assert_silent(front, caplog.text, printed)


def assert_silent(front: GuardedCatalog, *texts: str) -> None:
    assert not [text for text in texts for secret in front.secrets if secret in text]


@pytest.fixture
def sink(guarded: GuardedCatalog, tmp_path: Path) -> Sink:
    return Sink(
        directory=f"s3://{BUCKET}/{tmp_path.name}",
        format=TableFormat.ICEBERG,
        catalog=guarded.settings(),
        merge=Merge.MARK,
    )


def look(sink: Sink) -> IcebergTarget:
    return IcebergTarget.at(sink, uri_of(sink))


def uri_of(sink: Sink) -> str:
    return f"{sink.directory}/{sink.directory.rsplit('/', 1)[1]}/orders"


def rows_of_table(sink: Sink) -> list[tuple[object, ...]]:
    with closing(load_catalog(**catalog_properties(sink))) as catalog:
        table = catalog.load_table((sink.directory.rsplit("/", 1)[1], "orders"))
        return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


def write_steps(sink: Sink, *batches: int) -> None:
    for batch_id in batches:
        with closing(look(sink)) as target:
            if target.properties() is None:
                target.create(INT_KEY, MIRROR_COMMIT_ID)
            target.merge(change_of([(batch_id, "y"), (100, f"{batch_id}")], [batch_id - 1]), commit_id_of(batch_id))
            target.maintain(sink)


@pytest.mark.parametrize("prefix", [None, f"s3://{BUCKET}/"])
def test_steps_with_a_token_and_the_keys_that_the_catalog_gives(
    guarded: GuardedCatalog, sink: Sink, prefix: str | None
) -> None:
    """One token for all of them, and it is the catalog alone that has the keys of the store."""
    guarded.prefix = prefix
    write_steps(sink, 1, 2, 3)
    assert len(guarded.tokens) == 2  # one for the question how the catalog is set, one for all others
    assert rows_of_table(sink) == [(3, "y"), (100, "3")]


def test_tokens_that_expire_on_the_way_are_fetched_anew(guarded: GuardedCatalog, sink: Sink) -> None:
    """Also between the look and the commit, and again with every other request."""
    write_steps(sink, 1)
    with closing(look(sink)) as target:
        guarded.expire_tokens()
        target.merge(change_of([(2, "y"), (100, "2")], [1]), commit_id_of(2))
    guarded.token_requests = 2
    guarded.expire_tokens()
    before = len(guarded.tokens)
    write_steps(sink, 3, 4)
    assert len(guarded.tokens) > before + 1
    assert rows_of_table(sink) == [(4, "y"), (100, "4")]


# --- What goes wrong has a name, and is mended by another start ---


def failing_step(sink: Sink, batch_id: int, spoil: Callable[[], None]) -> TableError:
    """A step as a batch does it, with the name of the table; *spoil* is called after the look."""
    open_targets = OpenTargets(sink, IcebergTarget)
    uri = uri_of(sink)
    change = change_of([(batch_id, "y"), (100, f"{batch_id}")], [batch_id - 1])
    open_targets.get(uri)
    spoil()
    with (
        closing(open_targets),
        pytest.raises(TableError, match="WRITE_FAILED") as caught,
        open_targets.naming_errors("t", uri),
    ):
        open_targets.write_with_retry(uri, lambda target: target.merge(change, commit_id_of(batch_id)))
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"credential": "job:another secret"}, r"INVALID_VALUE\] sink\.catalog: .* invalid_client: no such client"),
        ({"scope": "sea"}, r"INVALID_VALUE\] sink\.catalog: .* invalid_client"),
        ({"credential": "", "token": "an old one"}, r"WRITE_FAILED\] .*/orders cannot be read: NotAuthorized"),
    ],
    ids=["another secret", "another scope", "an old token"],
)
def test_who_is_not_let_in_learns_it(guarded: GuardedCatalog, sink: Sink, wrong: dict[str, str], named: str) -> None:
    write_steps(sink, 1)
    catalog = {name: value for name, value in guarded.settings(**wrong).items() if value}
    with pytest.raises(BinlogError, match=named):
        look(structs.replace(sink, catalog=catalog))


@pytest.mark.parametrize("status", [503, 401, 200])
def test_a_token_that_cannot_be_fetched_anew(guarded: GuardedCatalog, sink: Sink, status: int) -> None:
    """The server of tokens is away, knows the client no more, or says what nobody understands."""
    write_steps(sink, 1)

    def spoil() -> None:
        guarded.expire_tokens()
        guarded.token_status = status

    failing_step(sink, 2, spoil)
    with pytest.raises(BinlogError, match=r"sink.catalog|cannot be read"):
        look(structs.replace(sink, catalog=guarded.settings(audience="another session")))
    guarded.token_status = None
    write_steps(sink, 2)
    assert rows_of_table(sink) == [(2, "y"), (100, "2")]


def test_a_token_without_its_type(guarded: GuardedCatalog, sink: Sink) -> None:
    """What the library then says has the token in it."""
    write_steps(sink, 1)
    guarded.token_reply.pop("token_type")
    error = failing_step(sink, 2, guarded.expire_tokens)
    with pytest.raises(OptionError, match=r"INVALID_VALUE\] sink\.catalog: "):
        look(structs.replace(sink, catalog=guarded.settings(**{"header.session": "another"})))
    assert_silent(guarded, *traceback.format_exception(error), error.hint or "")


def test_keys_that_expire_on_the_way(guarded: GuardedCatalog, sink: Sink) -> None:
    """The store refuses them: nothing is there of the step; the next look brings new ones."""
    write_steps(sink, 1)
    good = guarded.files
    guarded.files = good | {"s3.secret-access-key": "Expired-2"}
    error = failing_step(sink, 2, guarded.expire_tokens)
    assert re.search("ACCESS_DENIED|403|SignatureDoesNotMatch", str(error)), str(error)
    guarded.files = good
    write_steps(sink, 2)
    assert rows_of_table(sink) == [(2, "y"), (100, "2")]


# --- The job ---


@pytest.mark.parametrize("secret", [SECRET, "Never-To-Be-Seen-2"], ids=["let in", "not let in"])
def test_check_says_nothing_that_is_secret(guarded: GuardedCatalog, sink: Sink, tmp_path: Path, secret: str) -> None:
    write_steps(sink, 1)
    sink = structs.replace(sink, catalog=guarded.settings(credential=f"job:{secret}"))
    job_file = tmp_path / "job.toml"
    job_file.write_text(job_text(structs.replace(job_for(tmp_path), sink=sink)))
    for command in ("check", "versions"):
        ran = run_program(command, job_file)
        assert ran.returncode == (0 if (command, secret) == ("check", SECRET) else 2), ran.stdout + ran.stderr
        assert "Traceback" not in ran.stderr
        assert (secret != SECRET) == ("invalid_client" in " ".join((ran.stdout + ran.stderr).split()))
        assert secret not in ran.stdout + ran.stderr
        assert_silent(guarded, ran.stdout, ran.stderr)


@pytest.mark.thorough
@pytest.mark.spark
def test_job_goes_on_while_its_tokens_expire(
    spark: SparkSession, guarded: GuardedCatalog, sink: Sink, tmp_path: Path
) -> None:
    """Each token is good for ten requests, in the driver and in the tasks; nothing secret is written down."""
    guarded.token_requests = 10
    job = structs.replace(job_for(tmp_path, bytes_max="150k"), sink=sink)
    assert len(run_once(job, spark)) > 1
    assert len(guarded.tokens) > 10
    guarded.token_requests = None
    with closing(load_catalog(**catalog_properties(sink))) as catalog:
        for name in TABLES:
            rows = catalog.load_table(("sb", name)).scan().to_arrow().to_pylist()
            assert sorted(tuple(row.values()) for row in rows) == truth(name)
    assert_silent(guarded, *(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()))
