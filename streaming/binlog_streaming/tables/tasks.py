"""Execution of a step's tasks: `Tasks`; `SparkTasks` are those of a Spark session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from pyspark import SparkContext

    Shard = tuple[int, bytes]
    """Number of a shard, and a message for it."""

Result = TypeVar("Result")


class Tasks(Protocol):
    """Executor of tasks."""

    @property
    def parallelism(self) -> int:
        """Tasks that run at the same time."""

    def run(self, items: Sequence[bytes], work: Callable[[Iterable[bytes]], Iterator[Result]]) -> list[Result]:
        """Run *work* in tasks, on some *items* each; returns all results."""

    def run_sharded(
        self,
        items: Sequence[bytes],
        deal: Callable[[Iterable[bytes]], Iterator[Shard]],
        shard_count: int,
        work: Callable[[Iterable[bytes]], Iterator[Result]],
    ) -> list[Result]:
        """Divide *items* by shard in tasks, and run *work* on each shard in others; returns all results."""


@dataclass(frozen=True, slots=True)
class SparkTasks:
    """Tasks of a Spark session."""

    context: SparkContext

    @property
    def parallelism(self) -> int:
        """See `Tasks`."""
        return int(self.context.defaultParallelism)

    def run(self, items: Sequence[bytes], work: Callable[[Iterable[bytes]], Iterator[Result]]) -> list[Result]:
        """See `Tasks`."""
        return list(self._items(items).mapPartitions(work).collect())

    def run_sharded(
        self,
        items: Sequence[bytes],
        deal: Callable[[Iterable[bytes]], Iterator[Shard]],
        shard_count: int,
        work: Callable[[Iterable[bytes]], Iterator[Result]],
    ) -> list[Result]:
        """See `Tasks`."""
        shards = self._items(items).mapPartitions(deal).partitionBy(shard_count, lambda shard: shard)
        return list(shards.mapPartitions(lambda dealt: work(message for _, message in dealt)).collect())

    def _items(self, items: Sequence[bytes]) -> Any:
        return self.context.parallelize(items, max(1, min(len(items), self.parallelism)))
