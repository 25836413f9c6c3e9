"""Rows between Arrow and Spark: `frame_of` brings a table in, `read_frame` a frame out, `staged` what is large."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from pyspark.sql import functions as sql

from binlog_streaming.lake.conforming import conformed
from binlog_streaming.lake.spark.merge import name_of
from binlog_streaming.lake.spark.types import spark_schema, spark_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame, SparkSession

    from binlog_streaming.lake.evolution import SchemaChange

PIECE_BYTES = 64 << 20
"""Rows that Java gets at a time, in bytes of Arrow; it holds them in memory."""

TASK_BYTES = 32 << 20
"""Rows that a task of Spark writes, into one file; Spark itself would make a file of ten thousand rows."""


def frame_of(session: SparkSession, table: pa.Table) -> DataFrame:
    """The rows of *table*, held by Java."""
    # With the schema, because PySpark 4.1 stumbles over structs without one; in one piece, because an empty piece would
    # be taken for the table's end.
    frame = session.createDataFrame(table.combine_chunks(), spark_schema(table.schema))
    return frame.coalesce(1 + table.nbytes // TASK_BYTES)


def read_frame(frame: DataFrame, schema: pa.Schema) -> pa.RecordBatchReader:
    """All rows of *frame* in the types of *schema*; what the driver holds is a partition at a time."""
    return pa.RecordBatchReader.from_batches(schema, _batches(frame, schema))


def _batches(frame: DataFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    # Packed by the workers, because rows one by one would be a hundred times as slow.
    names = frame.columns
    # Under plain names: PySpark takes a dot or a backtick in one for syntax.
    packed = frame.toDF(*(f"c{number}" for number in range(len(names)))).mapInArrow(_packed, "batch binary")
    for row in packed.toLocalIterator():
        with pa.ipc.open_stream(row.batch) as stream:
            for batch in stream:
                yield conformed(batch.rename_columns(names).select(schema.names), schema)


def _packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, batch.schema) as stream:
            stream.write_batch(batch)
        packed = pa.array([out.getvalue().to_pybytes()], pa.binary())
        yield pa.RecordBatch.from_arrays([packed], names=["batch"])


def changed_frame(session: SparkSession, frame: DataFrame, change: SchemaChange, schema: pa.Schema) -> DataFrame:
    """What *change* makes of the rows of a table.

    Args:
        session: The frame's.
        frame: All rows, in the columns before the change.
        change: What becomes of the columns.
        schema: The columns behind it, in the types that the table keeps.
    """
    olds = {change.renamed.get(name, name): name for name in frame.columns}
    fills = {name: value for name, value in change.filled.items() if value.is_valid}
    if fills:
        # Of any type, structs as well: as a row that is joined, not as literals.
        arrays = [pa.array([value.as_py()], value.type).cast(schema.field(name).type) for name, value in fills.items()]
        names = [f"fill {number}" for number in range(len(fills))]
        row = frame_of(session, pa.Table.from_arrays(arrays, names=names))
        frame = frame.crossJoin(sql.broadcast(row))
    numbers = {name: number for number, name in enumerate(fills)}
    columns: list[Column] = []
    for field in schema:
        name = field.name
        if name in numbers:
            column = sql.col(name_of(f"fill {numbers[name]}"))
        elif name in change.filled or name not in olds:
            column = sql.lit(None)
        else:
            column = sql.col(name_of(olds[name]))
        columns.append(column.cast(spark_type(field.type, name)).alias(name))
    return frame.select(*columns)


@contextmanager
def staged(session: SparkSession, rows: pa.RecordBatchReader, folder: str) -> Iterator[DataFrame]:
    """The rows of a reader as a frame, however many they are: more than a piece of them go through files in *folder*.

    Args:
        session: For the frame.
        rows: Taken to their end.
        folder: Not there yet; it is removed at the end.
    """
    first, rest = _piece(rows)
    if not rest:
        yield frame_of(session, first)
        return
    try:
        while first.num_rows or rest:
            frame_of(session, first).write.mode("append").parquet(folder)
            first, rest = _piece(rows) if rest else (first.slice(0, 0), False)
        yield session.read.schema(spark_schema(rows.schema)).parquet(folder)
    finally:
        remove_folder(session, folder)


@contextmanager
def kept_aside(session: SparkSession, frame: DataFrame, folder: str) -> Iterator[DataFrame]:
    """The rows of *frame* as they are now, whatever becomes of where they come from; *folder* is as for `staged`."""
    try:
        frame.write.parquet(folder)
        yield session.read.schema(frame.schema).parquet(folder)
    finally:
        remove_folder(session, folder)


def remove_folder(session: SparkSession, folder: str) -> None:
    """Remove a folder, where Spark has its files; nothing when it is not there."""
    jvm, java = session._jvm, session._jsparkSession
    assert jvm is not None
    path = jvm.org.apache.hadoop.fs.Path(folder)
    path.getFileSystem(java.sessionState().newHadoopConf()).delete(path, True)


def _piece(rows: pa.RecordBatchReader) -> tuple[pa.Table, bool]:
    # The next rows, and whether there may be more.
    batches, size = [], 0
    for batch in rows:
        batches.append(batch)
        size += batch.nbytes
        if size >= PIECE_BYTES:
            return pa.Table.from_batches(batches, rows.schema), True
    return cast("pa.Table", pa.Table.from_batches(batches, rows.schema)), False
