"""A replacement of Spark: `ModelSession` plans batches, runs tasks, and writes the checkpoint, as Spark does.

A batch is planned and written down, then its partitions are read and its tables written by tasks, then its end is
written down; a query that starts again does a batch that was begun once more. Tasks come in any order. One may be done
twice, of which only the second attempt counts; a first attempt that was thought dead may do its work after the batch.

The data source, its reader, its partitions and tasks go through `pickle`, as between Spark's processes.
"""

from __future__ import annotations

import json
import pickle
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from binlog_connector.following.offsets import SourceOffset
from binlog_connector.spark.source import BinlogDataSource
from binlog_format.errors import BinlogError
from binlog_streaming.job_state.checkpoint import (
    StateFolder,
    begin_batch,
    begin_query,
    end_batch,
    read_checkpoint,
    read_offset,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from binlog_connector.spark.stream_reader import BinlogStreamReader

PARALLELISM = 2
_BEFORE_END = 0.5
"""Share of late attempts that work before their batch's end is written down; others work in a later batch."""


class StreamError(Exception):
    """The end of a query, as Spark tells it."""


@dataclass(slots=True)
class Conduct:
    """Treatment of tasks by the scheduler.

    Attributes:
        twice: Share of the tasks that are done twice.
        late: Share of the tasks whose first attempt works after the batch.
    """

    chance: random.Random
    twice: float = 0.0
    late: float = 0.0
    zombies: list[Callable[[], object]] = field(default_factory=list)
    done_twice: int = 0
    done_late: int = 0

    def attempts(self, work: Callable[[], list[Any]]) -> list[Any]:
        """Do a task; the result of the attempt that counts."""
        if self.chance.random() < self.twice:
            self.done_twice += 1
            with suppress(BinlogError):
                work()
        elif self.chance.random() < self.late:
            self.done_late += 1
            self.zombies.append(work)
        return work()

    def let_zombies_work(self) -> None:
        """Attempts of batches that are over do their work."""
        zombies, self.zombies = self.zombies, []
        for zombie in zombies:
            with suppress(BinlogError):
                zombie()


@dataclass(slots=True)
class ModelRow:
    """A row of a frame."""

    fields: dict[str, object]

    def asDict(self, *, recursive: bool = False) -> dict[str, object]:
        """Its columns."""
        del recursive
        return self.fields


@dataclass(slots=True)
class ModelRdd:
    """Items in slices."""

    slices: list[list[Any]]
    conduct: Conduct

    def mapPartitions(self, work: Callable[[Iterable[Any]], Iterator[Any]]) -> ModelRdd:
        """Do *work* on each slice."""
        order = list(range(len(self.slices)))
        self.conduct.chance.shuffle(order)
        results: dict[int, list[Any]] = {}
        for number in order:
            results[number] = self.conduct.attempts(partial(_do_slice, work, pickle.dumps(self.slices[number])))
        return ModelRdd([results[number] for number in range(len(self.slices))], self.conduct)

    def collect(self) -> list[Any]:
        """All items."""
        return [item for one in self.slices for item in one]


@dataclass(slots=True)
class ModelContext:
    """Stands in for a SparkContext."""

    query_id: str
    conduct: Conduct
    defaultParallelism: int = PARALLELISM

    def getLocalProperty(self, name: str) -> str:
        """The query's id is all that is asked for."""
        assert name == "sql.streaming.queryId"
        return self.query_id

    def parallelize(self, items: Sequence[Any], count: int) -> ModelRdd:
        """Cut *items* into *count* slices."""
        edges = [len(items) * number // count for number in range(count + 1)]
        slices = [list(items[edges[number] : edges[number + 1]]) for number in range(count)]
        return ModelRdd(slices, self.conduct)


@dataclass(slots=True)
class ModelFrame:
    """Rows of a batch; they are read when they are collected."""

    sparkSession: ModelBatchSession
    reader: BinlogStreamReader
    partitions: Sequence[Any]
    columns: tuple[str, ...] = ()

    def select(self, *columns: str) -> ModelFrame:
        """Choose columns."""
        return ModelFrame(self.sparkSession, self.reader, self.partitions, columns)

    def collect(self) -> list[ModelRow]:
        """Read all partitions, each in a task."""
        conduct = self.sparkSession.sparkContext.conduct
        order = list(range(len(self.partitions)))
        conduct.chance.shuffle(order)
        found: dict[int, list[pa.RecordBatch]] = {}
        sent = pickle.dumps(self.reader)
        for number in order:
            found[number] = conduct.attempts(partial(_read, sent, pickle.dumps(self.partitions[number])))
        batches = [batch.select(self.columns) for number in range(len(order)) for batch in found[number]]
        return [ModelRow(row) for batch in batches for row in batch.to_pylist()]


@dataclass(slots=True)
class ModelBatchSession:
    """The session of a batch."""

    sparkContext: ModelContext


@dataclass(slots=True)
class ModelQuery:
    """A query that has ended: batches are done when it starts.

    Attributes:
        failure: What ended it; None: it has taken all that was there.
    """

    id: str
    failure: StreamError | None = None

    def awaitTermination(self) -> None:
        """It has ended."""
        if self.failure is not None:
            raise self.failure

    def stop(self) -> None:
        """It has ended."""


class ModelSession:
    """Stands in for a SparkSession: `readStream...load(path).writeStream...start()` does all batches that there are.

    Attributes:
        batches: How many batches were done as a whole.
    """

    def __init__(self, conduct: Conduct) -> None:
        self.conduct = conduct
        self.batches = 0
        self._options: dict[str, str] = {}
        self._write: Callable[[Any, int], None] | None = None

    # `readStream`, `writeStream` and what they give are one object: the product calls one after the other.

    @property
    def readStream(self) -> ModelSession:
        """Begin to describe the source."""
        return self

    @property
    def writeStream(self) -> ModelSession:
        """Begin to describe the sink."""
        return self

    def format(self, name: str) -> ModelSession:
        """The source's name."""
        assert name == BinlogDataSource.name()
        return self

    def options(self, **options: str) -> ModelSession:
        """The source's options."""
        self._options |= options
        return self

    def load(self, path: str) -> ModelSession:
        """The log."""
        self._options["path"] = path
        return self

    def foreachBatch(self, write: Callable[[Any, int], None]) -> ModelSession:
        """The function that writes a batch."""
        self._write = write
        return self

    def queryName(self, name: str) -> ModelSession:
        """A name, for people."""
        del name
        return self

    def option(self, name: str, value: str) -> ModelSession:
        """The checkpoint."""
        self._options[name] = value
        return self

    def trigger(self, *, availableNow: bool) -> ModelSession:
        """End when all that is there has been taken."""
        assert availableNow
        return self

    def start(self) -> ModelQuery:
        """Do all batches."""
        state = StateFolder(self._options.pop("checkpointLocation"), {})
        query = ModelQuery(begin_query(state))
        try:
            source = pickle.loads(pickle.dumps(BinlogDataSource(self._options)))
            reader = source.streamReader(source.schema())
            self._do_batches(state, query.id, reader)
        except Exception as error:
            query.failure = StreamError(f"[STREAM_FAILED] {error}")
            query.failure.__cause__ = error
        return query

    def _do_batches(self, state: StateFolder, query_id: str, reader: BinlogStreamReader) -> None:
        reader.prepareForTriggerAvailableNow()
        checkpoint = read_checkpoint(state)
        assert checkpoint is not None, "the query has begun"
        number, start = 0, checkpoint.offset
        if checkpoint.batch_id is not None:
            number = checkpoint.batch_id + 1
        place = reader.initialOffset() if start is None else _sent(start.to_json())
        if checkpoint.pending is not None:
            place = self._do_batch(state, query_id, reader, number, place, _sent(checkpoint.pending.to_json()))
            number += 1
        while True:
            end = _sent(reader.latestOffset(place, reader.getDefaultReadLimit()))
            if end == place:
                return
            offset = SourceOffset.from_json(end)
            # Of a request whose answer was lost, the next try finds what it put there.
            if not begin_batch(state, number, offset) and read_offset(state, number) != offset:
                raise RuntimeError(f"batch {number} was begun by another query")
            place = self._do_batch(state, query_id, reader, number, place, end)
            number += 1

    def _do_batch(
        self,
        state: StateFolder,
        query_id: str,
        reader: BinlogStreamReader,
        number: int,
        start: dict[str, Any],
        end: dict[str, Any],
    ) -> dict[str, Any]:
        assert self._write is not None
        session = ModelBatchSession(ModelContext(query_id, self.conduct))
        self._write(ModelFrame(session, reader, reader.partitions(start, end)), number)
        if self.conduct.chance.random() < _BEFORE_END:
            self.conduct.let_zombies_work()
        end_batch(state, number)
        self.batches += 1
        return end


def _do_slice(work: Callable[[Iterable[Any]], Iterator[Any]], items: bytes) -> list[Any]:
    return list(work(pickle.loads(items)))


def _read(reader: bytes, partition: bytes) -> list[pa.RecordBatch]:
    return list(pickle.loads(reader).read(pickle.loads(partition)))


def _sent(offset: dict[str, Any]) -> dict[str, Any]:
    """An offset as it is after its way through Spark."""
    sent: dict[str, Any] = json.loads(json.dumps(offset))
    return sent
