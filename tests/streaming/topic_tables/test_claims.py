"""Values that messages have in files come back into tables, or are missed by name; batches are no larger for them."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from binlog_connector.kafka.connection import Connection
from binlog_connector.kafka.fetching import FetchedPartition
from binlog_connector.kafka.producer import CLAIM_HEADER, ClaimedFile
from binlog_connector.kafka.topic_reader import TopicReader, with_contents
from binlog_format.errors import CorruptError, DataLossError, StorageError, UnsupportedError
from binlog_format.position import Place
from binlog_streaming.lake.folder_store import FolderStore
from binlog_streaming.topics.job import TopicsJob
from binlog_streaming.topics.oversized import ClaimedValues
from tests.connector.kafka.topics import CLIENTS
from tests.program import run_program
from tests.streaming.tables.shop import ShopLog
from tests.streaming.topic_tables.test_run import back_job, bring_back, target
from tests.streaming.topics.publishing import publish_job
from tests.streaming.topics.test_oversized import FILES, LIMIT, ROWS, stored

if TYPE_CHECKING:
    from binlog_connector.kafka.fetching import Record, RecordHeaders
    from binlog_streaming.settings import PublishJob, TopicTablesJob
    from tests.faults.kafka_broker import KafkaBroker

CONTENT = b"a value"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
NAME = f"t.shop.a/0000000001.0000000002.00003-{DIGEST}"
AT = Place("topic t, partition 0, offset 7")


def claim(path: str, digest: str = DIGEST) -> bytes:
    return json.dumps({"claim": path, "bytes": len(CONTENT), "sha256": digest}).encode()


@pytest.fixture
def values(tmp_path: Path) -> ClaimedValues:
    (tmp_path / NAME).parent.mkdir()
    (tmp_path / NAME).write_bytes(CONTENT)
    return ClaimedValues(FolderStore(str(tmp_path)))


@pytest.mark.parametrize("place", ["", "/", "claims/", "s3://elsewhere/of/old/", "/etc/../"])
def test_a_file_is_read_where_the_setting_says(values: ClaimedValues, place: str) -> None:
    assert values.file_of(claim(f"{place}{NAME}"), AT).read() == CONTENT


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"[]",
        b'{"claim":"a"}',
        claim(NAME, "0" * 64),
        claim(NAME.partition("/")[2]),
        claim("/etc/passwd"),
        claim(f"../{NAME.partition('/')[2]}"),
        claim(f"a/../{NAME.partition('/')[2]}"),
        claim(f"./{NAME.partition('/')[2]}"),
        claim(f"{NAME}\n"),
        claim(f"a\n/{NAME}"),
        claim(f"{NAME}/x"),
        claim(NAME.replace("0", "\N{ARABIC-INDIC DIGIT ZERO}")),
        claim(NAME.replace("t.shop.a", "t%2e.a")),
    ],
)
def test_what_is_no_claim_names_no_file(values: ClaimedValues, value: bytes | None) -> None:
    with pytest.raises(UnsupportedError, match=r"MESSAGE\] topic t, partition 0, offset 7: it has the header"):
        values.file_of(value, AT)


def test_each_way_to_lose_a_file_has_a_name(values: ClaimedValues, tmp_path: Path) -> None:
    file = tmp_path / NAME
    file.write_bytes(CONTENT[:-1])
    with pytest.raises(CorruptError, match=rf"CORRUPT\.CLAIM\] topic t, partition 0, offset 7: {file} has 6 bytes"):
        values.file_of(claim(NAME), AT).read()
    file.unlink()
    with pytest.raises(DataLossError, match=rf"CLAIM_GONE\] topic t, partition 0, offset 7: its value is in {file}"):
        values.file_of(claim(NAME), AT).read()
    file.mkdir()
    with pytest.raises(StorageError, match="cannot read it"):
        values.file_of(claim(NAME), AT).read()
    with pytest.raises(UnsupportedError, match=r"MESSAGE\] topic t.*a claim.*source\.claims"):
        ClaimedValues(None).file_of(claim(NAME), AT)


def test_files_are_read_several_at_a_time_and_keep_their_places() -> None:
    both, partition = threading.Barrier(2, timeout=120), FetchedPartition("t", 0)

    def file_of(value: bytes | None, at: Place) -> ClaimedFile:
        assert value is not None
        return ClaimedFile(3, lambda: b"%d of %s" % (both.wait() // 2, value) + str(at)[-1:].encode())

    headers: RecordHeaders = [(CLAIM_HEADER, b"1")]
    records: list[Record] = [(7, b"k", b"a", headers), (8, None, b"plain", None), (9, b"l", b"b", headers)]
    made, size = with_contents(partition, [*records, (10, b"m", b"c", headers)], file_of, size_max=11)
    assert made == [(7, b"k", b"0 of a7", None), (8, None, b"plain", None), (9, b"l", b"0 of b9", None)]
    assert size == 3 + 5 + 3


@pytest.fixture
def published(tmp_path: Path, kafka_broker: KafkaBroker) -> PublishJob:
    with ShopLog(tmp_path / "log") as shop:
        for row in ROWS:
            shop.insert(FILES, row)
        shop.delete(FILES, ROWS[2])
    more = f'schemas_enable = true\n[sink.oversized]\nstore = "claims"\nmax_bytes = {LIMIT}\n'
    job = publish_job(tmp_path, tmp_path / "log", kafka_broker, more=more)
    TopicsJob(job, once=True, step_size_max=1).run()
    return job


def back_from(published: PublishJob, claims: str | None = "claims") -> TopicTablesJob:
    job = back_job(Path(published.checkpoint).parent, published.sink.bootstrap_servers, published.sink.topic_prefix)
    place = None if claims is None else str(Path(published.checkpoint).with_name(claims))
    return msgspec.structs.replace(job, source=msgspec.structs.replace(job.source, claims=place))


@pytest.mark.server
@pytest.mark.parametrize("client", CLIENTS)
def test_tables_have_the_values_that_are_in_files(published: PublishJob, client: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"MESSAGE\] topic .*source\.claims"):
        bring_back(back_from(published, None), client=client)
    moved = tmp_path / "claims"
    moved.rename(tmp_path / "elsewhere")
    lost = max(stored(tmp_path / "elsewhere"))
    content = lost.read_bytes()
    lost.unlink()
    job = back_from(published, "elsewhere")
    with pytest.raises(DataLossError, match="CLAIM_GONE"):
        bring_back(job, client=client)
    lost.write_bytes(content[::-1])
    with pytest.raises(CorruptError, match="CLAIM"):
        bring_back(job, client=client)
    lost.write_bytes(content)
    bring_back(job, client=client)
    rows = target(job, "mirror", "shop.files").sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in rows] == [row for row in ROWS if row != ROWS[2]]
    changes = target(job, "changelog", "shop.files").column("_change_type").to_pylist()
    assert sorted(changes) == ["delete", *["insert"] * len(ROWS)]


@pytest.mark.server
@pytest.mark.parametrize("client", CLIENTS)
def test_files_count_in_the_size_of_a_batch(published: PublishJob, client: str) -> None:
    files = 0

    def file_of(_value: bytes | None, _at: Place) -> ClaimedFile:
        nonlocal files
        files += 1
        return ClaimedFile(LIMIT, lambda: b"x" * LIMIT)

    with TopicReader(Connection(published.sink.bootstrap_servers), file_of, client) as reader:
        ends = reader.ranges(reader.partitions([f"{published.sink.topic_prefix}.shop.files"]))
        reader.go_on_at(dict.fromkeys(ends, 0))
        found: dict[FetchedPartition, list[Any]] = {}
        while any(reader.position(partition) < end for partition, (_, end) in ends.items()):
            before = files
            for run in reader.read(1000, 2 * LIMIT, 30):
                assert len(run) > 0
                found.setdefault(run.partition, []).extend(run.offsets.tolist())
            assert files - before <= 2
        ranges = {partition: (0, end) for partition, (_, end) in ends.items()}
        again = {run.partition: run.offsets.tolist() for run in reader.read_ranges(ranges)}
    assert found == again
    assert sum(map(len, again.values())) == len(ROWS) + 2
    assert files == 2 * len(stored(Path(published.checkpoint).with_name("claims"))) == 2 * 5


@pytest.mark.server
def test_check_asks_the_store(published: PublishJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, sink = tmp_path / "asked.toml", published.sink
    text = (
        f'checkpoint = "asked"\n[source]\nkind = "kafka"\nbootstrap_servers = "{sink.bootstrap_servers}"\n'
        f'topics = "{sink.topic_prefix}[.]shop[.].*"\nclaims = "CLAIMS"\n[sink]\ndirectory = "tables"\n'
    )
    file.write_text(text.replace("CLAIMS", "claims"))
    checked = run_program("check", str(file))
    assert (checked.returncode, "It can run." in checked.stdout) == (0, True), checked.stderr
    ran = run_program("run", str(file), "--once")
    assert ran.returncode == 0, ran.stderr
    file.write_text(text.replace("CLAIMS", "s3://nowhere/claims"))
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    checked = run_program("check", str(file))
    assert (checked.returncode, "BINLOG_STORAGE." in checked.stderr) == (1, True), checked.stderr


def test_topics_are_read_without_confluent_kafka() -> None:
    program = "import sys; sys.modules['confluent_kafka'] = None; import binlog_streaming.topic_tables.run"
    subprocess.run([sys.executable, "-c", program], check=True)
