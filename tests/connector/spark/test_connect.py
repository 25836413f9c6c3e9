"""The source through Spark Connect, in declarative pipelines and in Real-Time Mode, as `docs/spark.md` says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from textwrap import dedent

import pyarrow.dataset as pads
import pyspark
import pytest

from tests.connector.shop import Shop

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

SECONDS_MAX = 600


def ended(*command: str, folder: Path, well: bool = True) -> str:
    """What a command printed, which has to end well, or not."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
    }
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert (done.returncode == 0) is well, done.stdout[-3000:] + done.stderr[-6000:]
    return done.stdout


def test_queries_through_spark_connect_have_the_rows(tmp_path: Path) -> None:
    with Shop(tmp_path / "log") as shop:
        shop.sell(5)
    program = f"""
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.remote("local[2]").getOrCreate()
        assert "connect" in type(spark).__module__
        source = {{"path": {str(tmp_path / "log")!r}, "table": "shop.items"}}
        rows = spark.read.format("binlog-stream").options(**source).load().count()
        stream = spark.readStream.format("binlog-stream").options(**source).load()
        query = stream.writeStream.format("memory").queryName("taken").trigger(availableNow=True).start()
        query.awaitTermination()
        print("rows", rows, spark.table("taken").count())
        """
    assert "rows 5 5" in ended(sys.executable, "-c", dedent(program), folder=tmp_path)


def pipeline_ended(folder: Path, flows: str, *, well: bool = True) -> str:
    """What a pipeline printed; *flows* defines it, and has `changes()`, the images of `shop.orders` in five sales."""
    with Shop(folder / "log") as shop:
        shop.sell(5)
    (folder / "flows").mkdir()
    (folder / "spark-pipeline.yml").write_text(
        f"name: shop\nstorage: {(folder / 'storage').as_uri()}\nlibraries: [{{glob: {{include: flows/**}}}}]\n"
    )
    source = f"""
        from pyspark import pipelines as dp
        from pyspark.sql import SparkSession
        from pyspark.sql.functions import expr

        def changes():
            source = SparkSession.active().readStream.format("binlog-stream").option("view", "changefeed")
            source = source.option("table", "shop.orders").option("includeSequence", "true")
            return source.load({str(folder / "log")!r})
        """
    (folder / "flows" / "orders.py").write_text(dedent(source) + dedent(flows))
    cli = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"
    return ended(str(cli), "run", "--spec", "spark-pipeline.yml", folder=folder, well=well)


@pytest.mark.skipif(version("pyspark").startswith("4.0."), reason="pipelines are in PySpark from 4.1 on")
def test_a_pipeline_has_images_in_the_order_of_their_sequence(tmp_path: Path) -> None:
    pipeline_ended(tmp_path, "dp.table(name='orders')(changes)")
    table = pads.dataset(tmp_path / "spark-warehouse" / "orders", format="parquet", exclude_invalid_files=True)
    images = table.to_table().sort_by("_seq").to_pylist()
    kinds = ["insert", "update_preimage", "update_postimage"]
    assert [(row["id"], row["_change_type"]) for row in images] == [(id, kind) for id in range(1, 6) for kind in kinds]


@pytest.mark.skipif(version("pyspark") < "4.3", reason="AUTO CDC is in PySpark from 4.3 on")
def test_auto_cdc_takes_the_images_and_asks_for_a_target_with_merge(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "spark.md").read_text()
    flow = re.search(r"^    dp\.create_auto_cdc_flow\(.*?^    \)$", guide, re.MULTILINE | re.DOTALL)
    assert flow is not None
    flows = f"dp.temporary_view(changes)\ndp.create_streaming_table('orders')\n{dedent(flow[0])}"
    output = pipeline_ended(tmp_path, flows, well=False)
    # All before it is accepted: columns, keys, sequence, deletes. When this changes, docs/spark.md has to.
    assert "[AUTOCDC_TARGET_DOES_NOT_SUPPORT_MERGE]" in output
    assert "AUTOCDC_TARGET_DOES_NOT_SUPPORT_MERGE" in guide


@pytest.mark.skipif(version("pyspark") < "4.3", reason="PySpark has the trigger from 4.3 on")
def test_real_time_mode_refuses_python_sources(tmp_path: Path) -> None:
    with Shop(tmp_path / "log") as shop:
        shop.sell(1)
    program = f"""
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.master("local[2]").getOrCreate()
        stream = spark.readStream.format("binlog-stream").load({str(tmp_path / "log")!r})
        try:
            query = stream.writeStream.format("console").outputMode("update").trigger(realTime="5 seconds").start()
            query.processAllAvailable()
        except Exception as error:
            print(error)
        """
    condition = "STREAMING_REAL_TIME_MODE.INPUT_STREAM_NOT_SUPPORTED"
    # When this changes, docs/spark.md has to.
    assert f"[{condition}]" in ended(sys.executable, "-c", dedent(program), folder=tmp_path)
    assert condition in (Path(__file__).parents[3] / "docs" / "spark.md").read_text()
