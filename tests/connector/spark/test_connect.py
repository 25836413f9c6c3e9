"""The source through Spark Connect, and in a declarative pipeline, as `docs/spark.md` says."""

from __future__ import annotations

import os
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


def ended(*command: str, folder: Path) -> str:
    """What a command printed, which has to end well."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
    }
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
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


@pytest.mark.skipif(version("pyspark").startswith("4.0."), reason="pipelines are in PySpark from 4.1 on")
def test_a_pipeline_has_images_in_the_order_of_their_sequence(tmp_path: Path) -> None:
    with Shop(tmp_path / "log") as shop:
        shop.sell(5)
    pipeline = tmp_path / "pipeline"
    (pipeline / "flows").mkdir(parents=True)
    (pipeline / "spark-pipeline.yml").write_text(
        f"name: shop\nstorage: {(tmp_path / 'storage').as_uri()}\nlibraries: [{{glob: {{include: flows/**}}}}]\n"
    )
    flow = f"""
        from pyspark import pipelines as dp
        from pyspark.sql import SparkSession

        @dp.table
        def orders():
            source = SparkSession.active().readStream.format("binlog-stream").option("view", "changefeed")
            return (
                source.option("table", "shop.orders").option("includeSequence", "true")
                .load({str(tmp_path / "log")!r})
            )
        """
    (pipeline / "flows" / "orders.py").write_text(dedent(flow))
    cli = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"
    ended(str(cli), "run", "--spec", "spark-pipeline.yml", folder=pipeline)
    table = pads.dataset(pipeline / "spark-warehouse" / "orders", format="parquet", exclude_invalid_files=True)
    images = table.to_table().sort_by("_seq").to_pylist()
    kinds = ["insert", "update_preimage", "update_postimage"]
    assert [(row["id"], row["_change_type"]) for row in images] == [(id, kind) for id in range(1, 6) for kind in kinds]
