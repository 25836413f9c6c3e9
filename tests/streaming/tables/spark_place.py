"""Places that Spark's own writers write to: `SparkPlace`, which a `TargetFactory` makes targets for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from binlog_streaming.settings import Sink, TableFormat, Writer
from tests.streaming.tables.sink_cases import Place

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from binlog_streaming.lake.target import Target, TargetFactory


@dataclass(frozen=True)
class SparkPlace(Place):
    """A table in a folder that Spark writes and others read."""

    targets: TargetFactory | None = None
    session: SparkSession | None = None

    @property
    def sink(self) -> Sink:
        return Sink(directory=str(self.directory), format=self.format, writer=Writer.SPARK)

    def target(self) -> Target:
        assert self.targets is not None
        return self.targets.at(self.sink, self.uri)

    def content(self) -> pa.Table:
        is_delta = self.format is TableFormat.DELTA
        if is_delta and "delta.columnMapping.mode" in DeltaTable(self.uri).metadata().configuration:
            assert self.session is not None  # nobody else here reads such tables
            return self.session.read.format("delta").load(self.uri).toArrow()
        return super().content()
