"""The jars of Spark's own writers: `session_settings` adds them to a session, `require_writer` looks for them.

Which jars go with which PySpark was tried, version by version; where a version has none, none of an older one works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyspark
from py4j.protocol import Py4JJavaError

from binlog_format.errors import OptionError
from binlog_streaming.settings_model import TableFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

DELTA_VERSION = "4.4.0"
SQLITE_JDBC = "org.xerial:sqlite-jdbc:3.50.3.0"
"""What the catalog of Iceberg tables is read with."""

PACKAGES: Mapping[TableFormat, Mapping[str, tuple[str, ...]]] = {
    TableFormat.DELTA: {
        version: (f"io.delta:delta-spark_{version}_2.13:{DELTA_VERSION}",) for version in ("4.0", "4.1", "4.2")
    },
    TableFormat.ICEBERG: {
        "4.0": ("org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0", SQLITE_JDBC),
        "4.1": ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0", SQLITE_JDBC),
    },
}
"""Packages by format, and by the first two numbers of PySpark's version."""

EXCLUDES: Mapping[TableFormat, tuple[str, ...]] = {
    # Most of what Delta asks for is for catalogs that are not used here: 34 jars become 3.
    TableFormat.DELTA: (
        "io.delta:delta-kernel-api",
        "io.delta:delta-kernel-defaults",
        "io.delta:delta-kernel-unitycatalog",
        "io.unitycatalog:unitycatalog-client",
        "io.unitycatalog:unitycatalog-hadoop",
    ),
    TableFormat.ICEBERG: (),
}

EXTENSIONS = {
    TableFormat.DELTA: "io.delta.sql.DeltaSparkSessionExtension",
    TableFormat.ICEBERG: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}

DEFAULTS: Mapping[TableFormat, Mapping[str, str]] = {
    # Local defaults of Delta are for large clusters: every look at a table would be 50 tasks.
    TableFormat.DELTA: {
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    },
    TableFormat.ICEBERG: {},
}

_CLASSES = {
    TableFormat.DELTA: ("org.apache.spark.sql.delta.DeltaLog",),
    TableFormat.ICEBERG: ("org.apache.iceberg.spark.SparkCatalog", "org.sqlite.JDBC"),
}
_JAR_NAMES = {TableFormat.DELTA: "delta-spark", TableFormat.ICEBERG: "iceberg-spark-runtime"}
_JAR_SETTINGS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
_EXTENSIONS_SETTING = "spark.sql.extensions"


def packages(table_format: TableFormat, version: str = pyspark.__version__) -> tuple[str, ...] | None:
    """What `spark.jars.packages` needs for a PySpark; None: there is nothing for it."""
    return PACKAGES[table_format].get(".".join(version.split(".")[:2]))


def session_settings(table_format: TableFormat, given: Mapping[str, str]) -> dict[str, str]:
    """Settings of a session that is to be started: *given*, and what the writer needs beside them.

    Args:
        table_format: Kind of the tables.
        given: What the user says; where it names the writer's jar, it is left to the user which jars there are.

    Raises:
        OptionError: `MISSING`: there are no jars for this PySpark.
    """
    settings = {**DEFAULTS[table_format], **given}
    _add(settings, _EXTENSIONS_SETTING, (EXTENSIONS[table_format],))
    if any(_JAR_NAMES[table_format] in settings.get(name, "") for name in _JAR_SETTINGS):
        return settings
    wanted = packages(table_format)
    if wanted is None:
        raise _no_packages(table_format)
    _add(settings, "spark.jars.packages", wanted)
    _add(settings, "spark.jars.excludes", EXCLUDES[table_format])
    return settings


def require_writer(table_format: TableFormat, session: SparkSession) -> None:
    """See that a running session has the writer.

    Raises:
        OptionError: `MISSING`: it does not; the hint says what it has to be started with.
    """
    assert session._jvm is not None
    loader = session._jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    missing = [name for name in _CLASSES[table_format] if not _is_there(loader, name)]
    extension = EXTENSIONS[table_format]
    extensions = session.sparkContext.getConf().get(_EXTENSIONS_SETTING, "") or ""
    if not missing and extension not in extensions:
        missing = [f"{_EXTENSIONS_SETTING} {extension}"]
    if not missing:
        return
    wanted = packages(table_format)
    if wanted is None:
        raise _no_packages(table_format)
    settings = {"spark.jars.packages": ",".join(wanted), _EXTENSIONS_SETTING: extension}
    if EXCLUDES[table_format]:
        settings["spark.jars.excludes"] = ",".join(EXCLUDES[table_format])
    raise OptionError(
        "MISSING",
        f"sink.writer spark: the Spark session has no writer for {table_format}: {', '.join(missing)} is not there",
        hint=f"For PySpark {pyspark.__version__}, start it with "
        + ", ".join(f"{name}={value}" for name, value in settings.items()),
    )


def _is_there(loader: object, name: str) -> bool:
    try:
        loader.loadClass(name)  # type: ignore[attr-defined]
    except Py4JJavaError:
        return False
    return True


def _add(settings: dict[str, str], name: str, values: tuple[str, ...]) -> None:
    there = [one.strip() for one in settings.get(name, "").split(",") if one.strip()]
    joined = ",".join([*there, *(value for value in values if value not in there)])
    if joined:
        settings[name] = joined


def _no_packages(table_format: TableFormat) -> OptionError:
    versions = " and ".join(sorted(PACKAGES[table_format]))
    return OptionError(
        "MISSING",
        f"sink.writer spark: there are no jars of {table_format} for PySpark {pyspark.__version__}",
        hint=f"Use a PySpark that has them ({versions}), or leave sink.writer out: the embedded writer needs no jars",
    )
