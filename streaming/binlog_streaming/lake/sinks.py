"""Sinks of jobs: `sink_type(format)` gives the class, a `Target`; `joint_commit(sink)` commits several of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from binlog_connector.installing import install_hint
from binlog_format.errors import OptionError

if TYPE_CHECKING:
    from binlog_streaming.lake.files_target import JointCommit
    from binlog_streaming.lake.target import Target
    from binlog_streaming.settings.model import Sink


def sink_type(table_format: str) -> type[Target]:
    """The class of a format's targets; a format's library is loaded only by who uses it."""
    try:
        if table_format == "iceberg":
            from binlog_streaming.lake.iceberg.target import IcebergTarget

            return IcebergTarget
        if table_format == "parquet":
            from binlog_streaming.lake.parquet import ParquetTarget

            return ParquetTarget
        from binlog_streaming.lake.delta.target import DeltaTarget
    except ImportError as error:
        raise OptionError(
            "MISSING",
            f"option sink.format={table_format}: its library is not installed: {error}",
            hint=f"Install it: {install_hint(table_format)}",
        ) from error
    return DeltaTarget


def joint_commit(sink: Sink) -> JointCommit[Any] | None:
    """The one commit of several tables; None: each table has its own, the place has nothing else."""
    if sink.format != "iceberg" or not sink.catalog:
        return None
    sink_type(sink.format)  # names the library, where it is missing
    from binlog_streaming.lake.iceberg.joint_commit import IcebergJointCommit

    return IcebergJointCommit.of(sink)


def may_have_tables(sink: Sink) -> bool:
    """True if tables may exist; a look at an Iceberg table would create a missing catalog."""
    if "://" in sink.directory or sink.catalog:
        return True
    if sink.format != "iceberg":
        return Path(sink.directory).is_dir()
    sink_type(sink.format)  # names the library, where it is missing
    from binlog_streaming.lake.iceberg.catalog import CATALOG_FILE

    return Path(sink.directory, CATALOG_FILE).exists()
