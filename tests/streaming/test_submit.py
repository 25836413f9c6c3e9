"""Jobs and the source under `spark-submit`: what was submitted wins over the job file, on a cluster of processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyspark
import pytest
from deltalake import DeltaTable

from binlog_format import open_log
from binlog_format.views.changefeed import ChangefeedView
from binlog_format.views.changes import ChangesView
from binlog_lab.demo.processes import kill_family
from tests.connector.shop import Shop
from tests.faults.cluster import WORKERS, Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.spark

REPO = Path(__file__).parents[2]
SPARK = Path(pyspark.__file__).parent
SUBMIT = str(SPARK / "bin" / "spark-submit")
PROGRAM = str(REPO / "deploy/spark/job.py")
TRANSACTIONS = 1200
PATIENCE_S = 1800

JOB = f"""
checkpoint = "checkpoint"

[source]
path = "log"
maxBytesPerTrigger = "64k"
minPartitions = {WORKERS}

[[tables]]
select = ".*"
mode = ["mirror", "changelog"]
target = "{{mode}}/{{database}}/{{table}}"

[sink]
directory = "tables"

[spark]
master = "local[7]"
"""

SESSION = """
import json, sys
from binlog_streaming.spark_session import local_session
given = {"spark.sql.shuffle.partitions": "7", "spark.executor.memory": "700m", "spark.ui.enabled": "false"}
spark = local_session("job", master="local[7]", settings=given)
rows = spark.read.format("binlog-stream").load(sys.argv[1]).count()
names = [*given, "spark.master", "spark.app.name", "spark.sql.session.timeZone", "spark.driver.host"]
print(json.dumps({"rows": rows} | {name: spark.sparkContext.getConf().get(name) for name in names}))
"""

SOURCE = """
import json, os, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
if len(sys.argv) > 2:
    from binlog_connector import BinlogDataSource
    spark.dataSource.register(BinlogDataSource)  # of what comes with the job Spark finds none
changes = spark.read.format("binlog-stream").option("minPartitions", 2).load(sys.argv[1])
with_place = changes.rdd.map(lambda row: (os.getcwd(), 1))
print(json.dumps({"rows": changes.count(), "places": sorted(set(with_place.keys().collect()))}))
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("submit")
    with Shop(folder / "log") as shop:
        shop.sell(TRANSACTIONS)
    return folder / "log"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


def environment(python: str | Path = sys.executable, **more: str) -> dict[str, str]:
    known = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "PYTHONPATH")}
    # Java has little to do: compiling as well as it can would take longer than the work.
    java = f"{known.get('SPARK_SUBMIT_OPTS', '')} -XX:TieredStopAtLevel=1"
    given = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SUBMIT_OPTS": java, "PYSPARK_PYTHON": str(python)}
    return known | given | more


def submitted(*arguments: object, folder: Path, given: Mapping[str, str] | None = None) -> str:
    """What a program prints that is submitted and ends well."""
    command = [SUBMIT, *map(str, arguments)]
    done = subprocess.run(
        command,
        cwd=folder,
        env=given or environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_settings_of_the_submitter_win(log: Path, tmp_path: Path) -> None:
    """The program is found by the workers though the `python3` that Spark would take by itself has none of it."""
    program = tmp_path / "session.py"
    program.write_text(SESSION)
    given = environment()
    del given["PYSPARK_PYTHON"]
    options = ["--master", "local[1]", "--conf", f"spark.pyspark.python={sys.executable}"]
    options += ["--conf", "spark.sql.shuffle.partitions=3", "--conf", "spark.sql.session.timeZone=Europe/Berlin"]
    found = json.loads(submitted(*options, program, log, folder=tmp_path, given=given))
    assert found.pop("rows") > TRANSACTIONS
    assert found == {
        "spark.master": "local[1]",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.session.timeZone": "Europe/Berlin",
        "spark.executor.memory": "700m",  # nobody submitted it
        "spark.ui.enabled": "false",
        "spark.app.name": "job",
        "spark.driver.host": "127.0.0.1",
    }


@pytest.mark.thorough
def test_job_that_is_killed_goes_on_on_the_cluster(log: Path, tmp_path: Path, cluster: Cluster) -> None:
    job_file = write_job(tmp_path, log)
    options = ["--master", cluster.url, "--conf", "spark.executor.memory=512m", "--conf", "spark.executor.cores=1"]
    command = [SUBMIT, *options, PROGRAM, "run", str(job_file), "--once", "--output", "jsonl"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(), cwd=tmp_path) as running:
        assert running.stdout is not None
        # Spark has warnings, which are for standard error, on standard output, too.
        events_of = (msgspec.json.decode(line) for line in running.stdout if line.startswith("{"))
        before = [event for event, _ in zip(events_of, range(2), strict=False)]
        assert [one["event"] for one in before] == ["started", "batch"]
        kill_family(running.pid)  # Java, Python and all: only the checkpoint is left
    lines = submitted(*options, PROGRAM, "run", job_file, "--once", "--output", "jsonl", folder=tmp_path)
    events = [msgspec.json.decode(line) for line in lines.splitlines() if line.startswith("{")]
    assert events[0]["spark_log"] is None
    assert sum(one["event"] == "batch" for one in events) > 1
    check_tables(log, tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["installed", "wheel", "packed"])
def test_the_source_reads_on_the_cluster(log: Path, tmp_path: Path, cluster: Cluster, way: str) -> None:
    """Python of the executors has the program; or the libraries alone (wheel); or nothing of all (packed)."""
    options: list[object] = ["--master", cluster.url, "--conf", "spark.executor.memory=512m"]
    given = environment()
    if way == "wheel":
        bare = bare_environment(tmp_path)
        add_libraries(bare)
        wheel = built_wheel(tmp_path).rename(tmp_path / "binlog_stream.zip")  # Spark knows no other ending
        options += ["--py-files", wheel]
        given = environment(bare / "bin" / "python")
    if way == "packed":
        bare = bare_environment(tmp_path)
        wheel = built_wheel(tmp_path)
        subprocess.run([bare / "bin" / "python", "-m", "pip", "install", "--no-deps", "--quiet", wheel], check=True)
        packed = packed_environment(tmp_path, bare)
        unpacked = tmp_path / "environment"  # for the driver, which runs here
        unpacked.mkdir()
        subprocess.run(["tar", "-xzf", packed, "-C", unpacked], check=True)
        options += ["--archives", f"{packed}#environment"]
        given = environment("./environment/bin/python")
    program = tmp_path / "source.py"
    program.write_text(SOURCE)
    comes_along = ["register"] if way != "installed" else []
    found = json.loads(submitted(*options, program, log, *comes_along, folder=tmp_path, given=given).splitlines()[-1])
    with open_log(str(log)) as opened:
        assert found["rows"] == sum(batch.num_rows for batch in ChangesView().batches(opened.committed_blocks()))
    assert all("/worker-" in place for place in found["places"])


def write_job(folder: Path, log: Path) -> Path:
    job_file = folder / "job.toml"
    job_file.write_text(JOB.replace('path = "log"', f'path = "{log}"'))
    return job_file


def built_wheel(folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
    subprocess.run(command, cwd=REPO, check=True, capture_output=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def bare_environment(folder: Path) -> Path:
    """A virtual environment without the program."""
    bare = folder / "bare"
    subprocess.run([sys.executable, "-m", "venv", str(bare)], check=True)
    return bare


def add_libraries(environment: Path) -> Path:
    """The file that gives an environment the libraries that are installed here: a gigabyte that is not copied."""
    (site,) = environment.glob("lib/python*/site-packages")
    file = site / "libraries.pth"
    file.write_text(f"{SPARK.parent}\n")  # its own .pth files, the program's among them, do not count there
    return file


def packed_environment(folder: Path, bare: Path) -> Path:
    packed = folder / "environment.tar"
    subprocess.run([sys.executable, "-m", "venv_pack", "-q", "-p", bare, "-o", packed], check=True)
    file = add_libraries(bare).relative_to(bare)
    subprocess.run(["tar", "-rf", packed, "-C", bare, file], check=True)
    subprocess.run(["gzip", packed], check=True)
    return folder / "environment.tar.gz"


def check_tables(log: Path, folder: Path) -> None:
    for table in ("orders", "items"):
        with open_log(str(log)) as opened:
            view = ChangefeedView(table=f"shop.{table}")
            images = [row for batch in view.batches(opened.committed_blocks()) for row in batch.to_pylist()]
        names = [name for name in images[0] if not name.startswith("_")]
        kind = [*names, "_change_type"]
        wanted = sorted((tuple(image[name] for name in kind) for image in images), key=repr)
        assert rows_of(folder / "tables" / "changelog" / "shop" / table, kind) == wanted
        current = {image["id"]: tuple(image[name] for name in names) for image in images}
        assert rows_of(folder / "tables" / "mirror" / "shop" / table, names) == sorted(current.values(), key=repr)


def rows_of(folder: Path, names: list[str]) -> list[tuple[object, ...]]:
    rows = DeltaTable(folder).to_pyarrow_table().select(names).to_pylist()
    return sorted((tuple(row[name] for name in names) for row in rows), key=repr)
