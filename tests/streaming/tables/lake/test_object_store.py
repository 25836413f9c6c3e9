"""Tables in an object store: the same steps and guarantees as in a folder, against a real S3 server."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from msgspec import structs
from pyarrow import fs

from binlog_connector.crash_points import watched
from binlog_format.errors import OptionError, StorageError, TableError
from binlog_lab.demo.servers.lake_servers import BUCKET
from binlog_streaming.job_state.checkpoint import read_checkpoint, require_places, state_of
from binlog_streaming.job_state.record import RECORD_FILE
from binlog_streaming.job_state.record_keeper import RecordKeeper
from binlog_streaming.lake.bucket_store import PART_BYTES, BucketStore
from binlog_streaming.lake.change import Patches
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.lake.evolution import SchemaChange
from binlog_streaming.lake.parquet import ParquetTarget, _newest_names
from binlog_streaming.lake.table_places import store_at
from binlog_streaming.lake.target import CrashPoint
from binlog_streaming.settings import Merge, Sink, TableFormat
from tests.faults.object_store import Fault, FaultyProxy, ObjectStore
from tests.faults.processes import Cut, CutAt
from tests.program import PROGRAM, run_program
from tests.streaming.tables.jobs.test_job import job_for, run_once, write_job
from tests.streaming.tables.lake.sink_cases import COMMIT_ID, INT_KEY, MIRROR_COMMIT_ID, change_of, numbers, rows_of
from tests.streaming.tables.oltp import OLTP, TABLES, truth

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from binlog_streaming.lake.commit_id import CommitId

pytestmark = pytest.mark.server


@pytest.fixture
def uri(request: pytest.FixtureRequest) -> str:
    return f"s3://{BUCKET}/{re.sub(r'[^a-z0-9]', '-', request.node.name)}/shop/orders"


class Table:
    """The table at *uri*: looks, and what others read there."""

    def __init__(self, uri: str, options: dict[str, str], merge: Merge = Merge.AUTO) -> None:
        self.uri = uri
        self.options = options
        self._merge = merge

    def look(self) -> DeltaTarget:
        return DeltaTarget.at(Sink(directory="", storage=dict(self.options), merge=self._merge), self.uri)

    def begin(self, *ids: int) -> None:
        target = self.look()
        target.create(INT_KEY, MIRROR_COMMIT_ID)
        target.append(numbers(*ids).to_reader(), MIRROR_COMMIT_ID)

    def rows(self) -> dict[int, str | None]:
        """As deltalake reads them; ours must be the same."""
        found = pa.table(DeltaTable(self.uri, storage_options=self.options).scan().read_all()).to_pylist()
        held = {row["id"]: row["value"] for row in found}
        assert len(held) == len(found)
        assert {row["id"]: row["value"] for row in self.look().read().read_all().to_pylist()} == held
        return held

    def files(self) -> set[str]:
        return {file.name for file in store_at(self.uri, self.options).files()}


def commit_id(batch_id: int) -> CommitId:
    return replace(MIRROR_COMMIT_ID, batch_id=batch_id)


@pytest.mark.parametrize("merge", list(Merge))
def test_all_kinds_of_steps_and_maintenance(object_store: ObjectStore, uri: str, merge: Merge) -> None:
    """Twenty batches, so there are checkpoints; deltalake reads every one."""
    table = Table(uri, object_store.options(), merge)
    table.begin(*range(50))
    model: dict[int, str | None] = dict.fromkeys(range(50), "x")
    for batch_id in range(1, 20):
        target = table.look()
        patches = Patches(numbers(0), pa.table({"value": [True]}))
        change = change_of([(batch_id, "y"), (100 + batch_id, "n")], [49 - batch_id], patches=patches)
        target.merge(change, commit_id(batch_id))
        target.maintain(Sink(directory=f"s3://{BUCKET}", storage=table.options))
        model |= {batch_id: "y", 100 + batch_id: "n"}
        model.pop(49 - batch_id, None)
    assert table.rows() == model
    assert any(".checkpoint." in name for name in table.files())
    assert table.look().is_done(commit_id(19))
    table.look().evolve(SchemaChange(added=pa.schema([("note", pa.string())])), commit_id(20))
    table.look().set_properties(commit_id(20), recorded={"binlog-stream.dropped": "0:0:0"})
    assert table.look().schema().names == ["id", "value", "note"]
    target = table.look()
    target.replace(target.read(), commit_id(21))
    assert table.rows() == model
    assert (table.look().properties() or {})["binlog-stream.dropped"] == "0:0:0"


def test_of_two_who_write_at_once_one_does(object_store: ObjectStore, uri: str) -> None:
    table = Table(uri, object_store.options())
    table.begin(1, 2)
    mine, twin = table.look(), table.look()
    mine.merge(change_of([(1, "y")], [2]), commit_id(1))
    files = table.files()
    with pytest.raises(Exception, match="another transaction") as caught:
        twin.merge(change_of([(1, "y")], [2]), commit_id(1))
    assert twin.is_conflict(caught.value)
    assert table.files() == files
    assert table.look().is_done(commit_id(1))
    assert table.rows() == {1: "y"}


@pytest.mark.parametrize("step", [CrashPoint.LOOKED, CrashPoint.FILES_WRITTEN, CrashPoint.COMMITTED])
def test_cut_off_at_any_step_and_repeated(object_store: ObjectStore, uri: str, step: CrashPoint) -> None:
    table = Table(uri, object_store.options())
    table.begin(1, 2)
    if step is not CrashPoint.LOOKED:
        with pytest.raises(Cut), watched(CutAt(step)):
            table.look().merge(change_of([(1, "y"), (3, "n")]), commit_id(1))
    target = table.look()
    assert target.is_done(commit_id(1)) == (step is CrashPoint.COMMITTED)
    if not target.is_done(commit_id(1)):
        target.merge(change_of([(1, "y"), (3, "n")]), commit_id(1))
    assert table.rows() == {1: "y", 2: "x", 3: "n"}


def test_commit_whose_reply_is_lost_is_not_taken_for_another_s(object_store: ObjectStore, uri: str) -> None:
    """The next try finds the name taken: by ourselves. Its files must stay, and the step counts."""
    fault = Fault(re.compile(r"PUT .*/_delta_log/0{18}02\.json"), loses_reply=True)
    table = Table(uri, object_store.options())
    table.begin(1, 2)
    with FaultyProxy(object_store.port, fault) as proxy:
        Table(uri, object_store.options(proxy.port)).look().merge(change_of([(1, "y")], [2]), commit_id(1))
    assert fault.met == 1
    assert table.look().is_done(commit_id(1))
    assert table.rows() == {1: "y"}


def test_store_that_is_busy_is_asked_again(object_store: ObjectStore, uri: str) -> None:
    fault = Fault(re.compile(r"(PUT|GET|HEAD) "), count=5)
    with FaultyProxy(object_store.port, fault) as proxy:
        table = Table(uri, object_store.options(proxy.port))
        table.begin(1, 2)
        table.look().merge(change_of([(1, "y")], [2]), commit_id(1))
    assert fault.met == 5
    assert Table(uri, object_store.options()).rows() == {1: "y"}


def test_store_that_refuses_us_is_a_write_error(object_store: ObjectStore, uri: str) -> None:
    """Expired credentials, say; nothing is half there."""
    table = Table(uri, object_store.options())
    table.begin(1, 2)
    target = Table(uri, object_store.options() | {"AWS_SECRET_ACCESS_KEY": "expired"})
    with pytest.raises(TableError, match=r"WRITE_FAILED\] s3://.* cannot be read: .*403"):
        target.look()
    # It may expire between the look and the write, too.
    late = table.look()
    late.store = store_at(uri, object_store.options() | {"AWS_SECRET_ACCESS_KEY": "expired"})
    with pytest.raises(OSError, match="403"):
        late.merge(change_of([(1, "y")]), commit_id(1))
    assert table.rows() == {1: "x", 2: "x"}


class Files:
    """Parquet files at *uri*."""

    def __init__(self, uri: str, options: dict[str, str]) -> None:
        self.uri = uri
        self.options = options

    def look(self) -> ParquetTarget:
        return ParquetTarget.at(Sink(directory=self.uri, storage=self.options, format=TableFormat.PARQUET), self.uri)

    def append(self, batch_id: int, rows: pa.Table) -> bool:
        target, step = self.look(), replace(COMMIT_ID, batch_id=batch_id)
        if target.is_done(step):
            return False
        target.check_owner(step)
        target.create(rows.schema, step)
        target.append(rows.to_reader(), step)
        return True

    def ids(self) -> list[int]:
        """As Arrow's readers find them by listing; ours must be the same."""
        found = ds.dataset(self.uri.removeprefix("s3://"), format="parquet", filesystem=self._filesystem()).to_table()
        ids: list[int] = sorted(found.column("id").to_pylist())
        assert sorted(self.look().read().read_all().column("id").to_pylist()) == ids
        return ids

    def names(self) -> list[str]:
        return [file.name for file in store_at(self.uri, self.options).files()]

    def _filesystem(self) -> fs.S3FileSystem:
        return fs.S3FileSystem(
            access_key=self.options["AWS_ACCESS_KEY_ID"],
            secret_key=self.options["AWS_SECRET_ACCESS_KEY"],
            endpoint_override=self.options["AWS_ENDPOINT_URL"],
            region=self.options["AWS_REGION"],
        )


def large(count: int) -> pa.Table:
    """Rows of 10,000 random characters; `LARGE` of them go in several parts."""
    values = np.random.default_rng(1).integers(0, 256, (count, 5000), np.uint8)
    return rows_of(INT_KEY, ((key, row.tobytes().hex()) for key, row in enumerate(values)))


LARGE = PART_BYTES // 4500


def test_parquet_steps_of_any_size_and_new_columns(object_store: ObjectStore, uri: str) -> None:
    files = Files(uri, object_store.options())
    assert files.append(0, numbers(9000))
    assert not files.append(0, numbers(9000))
    assert files.append(1, large(LARGE))
    assert not files.append(1, large(LARGE))
    note = SchemaChange(added=pa.schema([("note", pa.string())]))
    files.look().evolve(note, replace(COMMIT_ID, batch_id=2))
    files.look().set_properties(COMMIT_ID, recorded={"binlog-stream.dropped": "0:0:0"})
    assert files.append(3, numbers(9001))
    assert files.ids() == [*range(LARGE), 9000, 9001]
    assert files.look().schema().names == ["id", "value", "note"]
    assert (files.look().properties() or {})["binlog-stream.dropped"] == "0:0:0"
    assert files.names() == ["_binlog-stream.json", *(f"batch-{batch:010}-0000.parquet" for batch in range(4))]
    newest = max(files.look().store.files(), key=lambda file: file.name)
    assert newest.name == "batch-0000000003-0000.parquet"


@pytest.mark.parametrize("count", [1, LARGE], ids=["small", "large"])
def test_parquet_step_of_a_twin_is_written_once(object_store: ObjectStore, uri: str, count: int) -> None:
    files, step, rows = Files(uri, object_store.options()), replace(COMMIT_ID, batch_id=1), large(count)
    files.append(0, numbers(9000))
    mine, twin = files.look(), files.look()
    mine.append(rows.to_reader(), step)
    names = files.names()
    with pytest.raises(FileExistsError) as caught:
        twin.append(rows.to_reader(), step)
    assert twin.is_conflict(caught.value)
    assert files.look().is_done(step)
    assert files.names() == names
    assert files.ids() == [*range(count), 9000]


@pytest.mark.parametrize(
    ("count", "request_line"),
    [(1, r"PUT .*/batch-0{9}1-0000\.parquet"), (LARGE, r"POST .*/batch-0{9}1-0000\.parquet\?uploadId=")],
    ids=["small", "large"],
)
def test_parquet_step_whose_reply_is_lost_is_not_taken_for_another_s(
    object_store: ObjectStore, uri: str, count: int, request_line: str
) -> None:
    fault, files = Fault(re.compile(request_line), loses_reply=True), Files(uri, object_store.options())
    files.append(0, numbers(9000))
    with FaultyProxy(object_store.port, fault) as proxy:
        assert Files(uri, object_store.options(proxy.port)).append(1, large(count))
    assert fault.met == 1
    assert not files.append(1, large(count))
    assert files.ids() == [*range(count), 9000]


def test_parquet_table_s_file_is_changed_by_one_at_a_time(object_store: ObjectStore, uri: str) -> None:
    """Also where the reply is lost, which is no conflict."""
    files = Files(uri, object_store.options())
    files.append(0, numbers(1))
    late = files.look()
    fault = Fault(re.compile(r"PUT .*/_binlog-stream\.json"), loses_reply=True)
    with FaultyProxy(object_store.port, fault) as proxy:
        target = Files(uri, object_store.options(proxy.port)).look()
        target.set_properties(COMMIT_ID, recorded={"binlog-stream.dropped": "0:9:9"})
    assert fault.met == 1
    with pytest.raises(FileExistsError) as caught:
        late.set_properties(COMMIT_ID, recorded={"binlog-stream.dropped": "0:1:1"})
    assert late.is_conflict(caught.value)
    assert (files.look().properties() or {})["binlog-stream.dropped"] == "0:9:9"


@pytest.mark.parametrize("step", [CrashPoint.CREATED, CrashPoint.FILES_WRITTEN, CrashPoint.COMMITTED])
def test_parquet_cut_off_at_any_step_and_repeated(object_store: ObjectStore, uri: str, step: CrashPoint) -> None:
    files = Files(uri, object_store.options())
    with pytest.raises(Cut), watched(CutAt(step)):
        files.append(0, numbers(1, 2))
    files.append(0, numbers(1, 2))
    assert files.ids() == [1, 2]
    assert len(files.names()) == 2


def test_parquet_file_of_a_killed_writer_is_removed_by_the_next_process(object_store: ObjectStore, uri: str) -> None:
    files = Files(uri, object_store.options())
    files.append(0, numbers(1))
    # As one that was killed between its upload and its name leaves it.
    store = store_at(uri, object_store.options())
    assert store.create(".unfinished-1", b"half a step")
    assert files.ids() == [1]
    _newest_names.clear()
    files.append(1, numbers(2))
    assert files.ids() == [1, 2]
    assert not any(name.startswith(".") for name in files.names())


def test_parquet_into_a_store_that_is_busy_or_refuses_us(object_store: ObjectStore, uri: str) -> None:
    fault, files = Fault(re.compile(r"(PUT|GET|HEAD|POST) "), count=5), Files(uri, object_store.options())
    with FaultyProxy(object_store.port, fault) as proxy:
        Files(uri, object_store.options(proxy.port)).append(0, large(LARGE))
    assert fault.met == 5
    refused = Files(uri, object_store.options() | {"AWS_SECRET_ACCESS_KEY": "expired"})
    with pytest.raises(TableError, match=r"WRITE_FAILED\] s3://.* cannot be read: .*403"):
        refused.look()
    late = files.look()
    late.store = store_at(uri, refused.options)
    with pytest.raises(OSError, match="403"):
        late.append(numbers(9000).to_reader(), replace(COMMIT_ID, batch_id=1))
    assert files.ids() == list(range(LARGE))


def test_options_of_other_writers_are_passed_over_and_unknown_ones_named() -> None:
    known = {"aws_region": "eu-central-1", "AWS_S3_ALLOW_UNSAFE_RENAME": "true", "timeout": "30s"}
    assert isinstance(store_at("s3://bucket/t", known), BucketStore)
    with pytest.raises(OptionError, match=r"INVALID_VALUE\] sink\.storage: s3://bucket/t .*"):
        store_at("s3://bucket/t", {"AWS_REGOIN": "eu-central-1"})


@pytest.mark.spark
def test_job_into_an_object_store_equals_the_server(
    spark: SparkSession, object_store: ObjectStore, tmp_path: Path, uri: str
) -> None:
    """In several batches, and started again in between; large tables are marked there too."""
    place = uri.removesuffix("/shop/orders")
    sink = Sink(directory=place, storage=object_store.options(), merge=Merge.MARK)
    job = structs.replace(job_for(tmp_path, bytes_max="150k"), sink=sink)
    assert len(run_once(job, spark)) > 1
    assert run_once(job, spark) == []
    for name in TABLES:
        rows = pa.table(
            DeltaTable(f"{place}/sb/{name}", storage_options=object_store.options()).scan().read_all()
        ).to_pylist()
        assert sorted(tuple(row.values()) for row in rows) == truth(name)


def test_check_says_that_a_table_cannot_be_looked_at(object_store: ObjectStore, tmp_path: Path) -> None:
    options = object_store.options() | {"AWS_SECRET_ACCESS_KEY": "expired"}
    storage = ", ".join(f'{name} = "{value}"' for name, value in options.items())
    job_file = write_job(tmp_path)
    sink = f'directory = "s3://{BUCKET}/checked"\nstorage = {{ {storage} }}'
    job_file.write_text(job_file.read_text().replace('directory = "tables"', sink))
    for command in ("check", "versions"):
        ran = run_program(command, job_file)
        assert ran.returncode == 1, command
        assert "cannot be read" in " ".join((ran.stdout + ran.stderr).split()), command
        assert "Traceback" not in ran.stderr


@pytest.mark.spark
def test_checkpoint_that_spark_cannot_write_is_one_line(
    spark: SparkSession, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our own files get there, Spark's do not: it has no jars for it."""
    for name, value in object_store.options().items():
        monkeypatch.setenv(name, value)
    place = f"s3://{BUCKET}/refused"
    ran = run_program("mirror", OLTP, "--to", place, "--checkpoint", f"{place}/checkpoint", "--once")
    assert ran.returncode == 2
    (line,) = ran.stderr.splitlines()
    assert line.startswith(
        "error: [BINLOG_OPTION.INVALID_VALUE] Spark does not start the query with the checkpoint s3://"
    )
    assert "a job file can name a folder for the checkpoint alone" in line


@pytest.mark.thorough
@pytest.mark.spark
def test_mirror_into_an_object_store_is_asked_for_by_its_url(
    object_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint is in a folder, all else there; who mirrors, or looks, again needs to know the URL alone."""
    for name, value in object_store.options().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place = f"s3://{BUCKET}/mirrored"
    # In a process of its own: tasks of this one's session have its environment as it was when they started.
    command = [PROGRAM, "mirror", str(OLTP), "--to", place, "--once"]
    mirrored = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (mirrored.returncode, mirrored.stderr) == (0, "")
    told = mirrored.stdout.splitlines()[0]
    assert re.fullmatch(rf"checkpoint: {tmp_path}/state/binlog-stream/s3_{BUCKET}_mirrored-[0-9a-f]{{8}}", told)
    for name in TABLES:
        target = DeltaTarget.at(Sink(directory=""), f"{place}/sb/{name}")
        assert sorted(tuple(row.values()) for row in target.read().read_all().to_pylist()) == truth(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    ran = run_program("versions", place, "-o", "jsonl")
    assert {json.loads(line)["target"] for line in ran.stdout.splitlines()} == {f"{place}/sb/{name}" for name in TABLES}
    ran = run_program("check", place, "-o", "jsonl")
    start = next(row for row in map(json.loads, ran.stdout.splitlines()) if row["kind"] == "start")
    assert (ran.returncode, start["is_fresh"], start["size_behind"]) == (0, False, 0)
    ran = run_program("versions", f"s3://{BUCKET}/nothing")
    assert ran.returncode == 2
    assert "expected a job file, or a folder of binlog-stream mirror" in ran.stderr


def test_state_of_a_job_in_an_object_store(object_store: ObjectStore, tmp_path: Path) -> None:
    """Its record is written and read with the access that its tables have; what cannot be is a named error."""
    sink = Sink(directory=f"s3://{BUCKET}/tables", storage=object_store.options())
    job = structs.replace(job_for(tmp_path), sink=sink, checkpoint=f"s3://{BUCKET}/state/checkpoint")
    keeper = RecordKeeper(job)
    keeper.begin()
    keeper.record_batch([("shop", "orders")])
    state = state_of(job)
    assert b'"orders"' in (state.read(RECORD_FILE) or b"")
    state.write("metadata", json.dumps({"id": "q-1"}).encode())
    for batch_id in (0, 1):
        state.write(f"commits/{batch_id}", b"v1")
    assert sorted(state.names("commits")) == ["0", "1"]
    refused = structs.replace(job, sink=structs.replace(sink, storage=sink.storage | {"AWS_ACCESS_KEY_ID": "other"}))
    with pytest.raises(StorageError, match=r"state/checkpoint/metadata: cannot read it: .*403"):
        read_checkpoint(state_of(refused))
    require_places(job)
    state.write("topics.json", b"{}")
    with pytest.raises(OptionError, match=r"checkpoint is that of a job of another kind: it has topics\.json"):
        require_places(job)
    state.remove()
    assert (state.read("metadata"), list(state.names(""))) == (None, [])
