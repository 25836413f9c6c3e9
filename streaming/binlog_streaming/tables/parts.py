"""A rows step that is too much for one task, written by several and committed once: `PartsWriter`.

Most steps are cut by places in the log: a task makes of its part what it would make of a step. Of a changelog that is
all; in a mirror rows go whose keys come again in a later part (`tables.overruling`). Where more than the last image of
a key counts, tasks that read deal their rows out by key (`modes.shards`), and as many others merge a shard each. What a
task writes nobody refers to until the driver commits all of it; so a task may die, run twice, or go on when nobody
waits for it any more.
"""

from __future__ import annotations

import pickle
import uuid
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_connector.given_definitions import NOTHING_GIVEN, GivenDefinitions
from binlog_connector.worker_process import freeze_garbage_collector
from binlog_format import open_log
from binlog_format.errors import BinlogError
from binlog_format.views.changefeed import ABSENT_FIELD
from binlog_format.views.table_index import TableIndex
from binlog_streaming.lake.evolution import cast_table, cast_to_schema
from binlog_streaming.lake.merge import WrittenFiles
from binlog_streaming.modes.row_batches import RowBatch, StepImages, load_row_batches
from binlog_streaming.modes.shards import IndivisibleError, RefutedPartError, failed, gathered, sharded
from binlog_streaming.modes.whole_rows import WholeImages
from binlog_streaming.plan.failures import unexpected
from binlog_streaming.settings import Deletes, Mode
from binlog_streaming.tables.late_dedup import LogPart, SupersededRows, key_messages, key_states, shared_keys
from binlog_streaming.tables.open_targets import OpenTargets
from binlog_streaming.tables.row_evidence import proved_rows
from binlog_streaming.tables.rows_step import KeyedImages, RowsContent, changelog_batch
from binlog_streaming.tables.statements.log_facts import LogFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, TypeVar

    from binlog_format.log.log import Log
    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.lake.key_lookup import KeyRuns
    from binlog_streaming.lake.target import Target, TargetFactory
    from binlog_streaming.plan.batch_plan import LogPlace, RowsStep
    from binlog_streaming.settings import Sink, TableRule
    from binlog_streaming.tables.division import Shard, Tasks
    from binlog_streaming.tables.row_evidence import RowEvidence

    Failure = BinlogError | IndivisibleError
    Result = TypeVar("Result")

READ_BYTES = 8 << 20
"""Row events that are read and dealt out at a time; of more where there are so many shards that messages were small."""


ATTEMPTS = 3
"""Number of attempts at a step whose tasks are lost on the way."""

FAIR = 1.25
"""Times the bytes that each task would read if all read as many: what one may be given, to spare the cut."""


@dataclass(frozen=True, slots=True)
class PartsWriter:
    """A rows step of one target, written in parts; tasks get it pickled.

    Attributes:
        source_table: `database.table`.
        keys: Names of the key columns; empty: rows only come new.
        columns: Of the table, without those of the mode.
        schema: The same with those.
        after: Only rows after this place of the log.
        before: Only rows before this place.
        part_count: In how many parts, or shards, the step is merged.
        completing: Rows may be missing that the server has; see `SelectedTable`.
        evidence: What the rows prove of the target; None: nothing.
        given: Definitions that the job has beside the log.
    """

    log_path: str
    sink: Sink
    targets: TargetFactory
    uri: str
    source_table: str
    rule: TableRule
    mode: Mode
    keys: tuple[str, ...]
    columns: pa.Schema
    schema: pa.Schema
    after: LogPlace | None
    before: LogPlace | None
    decoding: Decoding
    part_count: int
    completing: bool = False
    evidence: RowEvidence | None = None
    given: GivenDefinitions = NOTHING_GIVEN

    def append_all(self, tasks: Tasks, step: RowsStep) -> list[WrittenFiles[Any]]:
        """Write *step* with tasks; none of its rows replaces another."""
        return _fine(tasks.run([index for index, _ in fair_cuts(step, tasks.parallelism)], self.append))

    def merge_by_place(self, tasks: Tasks, step: RowsStep) -> list[WrittenFiles[Any]]:
        """Write *step* with tasks, each for a part of the log; only the last image of a key may count.

        Raises:
            IndivisibleError: The parts depend on each other in more than which comes later.
        """
        parts = [pickle.dumps(some) for some in parts_of(step, self.part_count)]
        for _ in range(ATTEMPTS):
            results = _fine(tasks.run_sharded(parts, self.merge_part, self.part_count, self.find_superseded))
            merged = [result for result in results if isinstance(result, LogPart)]
            superseded_by_later_part = [result for result in results if isinstance(result, SupersededRows)]
            # A task that was lost is run again, and then some may have heard of the files of its first attempt.
            if all(late.attempts == {part.attempt for part in merged} for late in superseded_by_later_part):
                return [*(part.written for part in merged), *(late.written for late in superseded_by_later_part)]
        raise IndivisibleError(self.source_table)

    def merge_by_key(self, tasks: Tasks, step: RowsStep) -> list[WrittenFiles[Any]]:
        """Write *step* with tasks, each for some of the keys.

        Raises:
            IndivisibleError: The step has to be merged as a whole.
        """
        indexes = [index for index, _ in fair_cuts(step, tasks.parallelism)]
        return _fine(tasks.run_sharded(indexes, self.deal, self.part_count, self.merge_shard))

    def merge_part(self, parts: Iterable[bytes]) -> Iterator[Shard]:
        """In a task: merge rows of parts of the log, written for their target; return their keys, by shard."""
        try:
            with (
                open_log(self.log_path) as log,
                closing(OpenTargets(self.sink, self.targets)) as open_targets,
            ):
                for indexes in map(pickle.loads, parts):
                    yield from self._merged_part(log, open_targets, indexes)
        except Exception as error:
            yield 0, failed(self._failure(error))
        freeze_garbage_collector()

    def _merged_part(self, log: Log, open_targets: OpenTargets, indexes: Iterable[bytes]) -> Iterator[Shard]:
        row_batches: list[RowBatch] = []
        for some in self._row_batches(log, indexes):
            if any(row_batch.images.has_absent() for row_batch in some):
                raise IndivisibleError(self.source_table)  # what is missing may be in another part
            row_batches += some
        if not row_batches:
            return
        keyed = self._keyed(self._content(log, row_batches).images[1])
        change = keyed.change()
        key_schema = pa.schema([self.columns.field(key) for key in self.keys])
        keys = [cast_table(rows.select(self.keys), key_schema) for rows in (change.upserts, change.deletes)]
        written = self._at_target(open_targets, lambda target: target.merge_part(change, self.keys))
        written = replace(written, proved=proved_rows(change))
        start, end = min(map(RowBatch.start, row_batches)), max(map(RowBatch.end, row_batches))
        part = LogPart(uuid.uuid4().hex, start, end, written)
        yield from key_messages(part, pa.concat_tables(keys), self.part_count, key_states(change, written))

    def find_superseded(self, messages: Iterable[bytes]) -> Iterator[LogPart | SupersededRows | Failure]:
        """In a task: find rows of parts whose keys come again in later parts; one of the tasks returns the parts."""
        try:
            shared = shared_keys(messages, self.source_table)
            if shared is None:
                return
            yield from shared.whole
            parts = [part.written for part in shared.parts]
            written: WrittenFiles[Any] = WrittenFiles(parts[0].version, (), (), (), 0)
            if shared.keys.num_rows:
                with closing(OpenTargets(self.sink, self.targets)) as open_targets:
                    written = self._at_target(
                        open_targets, lambda target: target.superseded_by_later_part(parts, shared.keys, shared.by)
                    )
            attempts = frozenset(part.attempt for part in shared.parts)
            yield SupersededRows(attempts, replace(written, row_count=-shared.repeats))
        except Exception as error:
            yield self._failure(error)
        freeze_garbage_collector()

    def deal(self, indexes: Iterable[bytes]) -> Iterator[Shard]:
        """In a task: divide rows of the log by shard; errors go to any shard."""
        keys = [self.columns.get_field_index(key) for key in self.keys]
        last_only = self.mode is Mode.MIRROR and self.rule.deletes is Deletes.REMOVE
        compares = self.evidence is not None and self.evidence.rows != 0
        try:
            with open_log(self.log_path) as log:
                for images in self._images(log, indexes):
                    if compares and not images.has_same_columns:
                        raise IndivisibleError(self.source_table)  # a shard does not tell null from what never was
                    yield from sharded(
                        images,
                        self.columns,
                        keys,
                        self.part_count,
                        last_only=last_only,
                        with_first=compares,
                        check=partial(self._check_chain, images),
                    )
        except Exception as error:
            yield 0, failed(self._failure(error))
        freeze_garbage_collector()

    def _check_chain(self, images: StepImages, runs: KeyRuns) -> None:
        if self.evidence and self.evidence.broken_chain(images, runs, self.columns, self.keys):
            raise RefutedPartError(self.source_table)

    def merge_shard(self, messages: Iterable[bytes]) -> Iterator[WrittenFiles[Any] | Failure]:
        """In a task: merge the rows of a shard, written for its target."""
        try:
            row_batches = gathered(messages, self.decoding)
            if not row_batches:
                return
            with closing(OpenTargets(self.sink, self.targets)) as open_targets:
                keyed = self._keyed(StepImages(self.source_table, tuple(row_batches)))
                yield self._at_target(open_targets, partial(self._merged_shard, keyed))
        except Exception as error:
            yield self._failure(error)
        freeze_garbage_collector()

    def _merged_shard(self, keyed: KeyedImages, target: Target) -> WrittenFiles[Any]:
        change = keyed.change(target)
        written = target.merge_part(change, self.keys)
        if written.contradicted is not None:  # all images of these keys are in this shard
            raise keyed.contradicted(change, written.contradicted)
        return replace(written, proved=proved_rows(change))

    def append(self, indexes: Iterable[bytes]) -> Iterator[WrittenFiles[Any] | Failure]:
        """In a task: write rows of the log for a target that only grows."""
        try:
            with (
                open_log(self.log_path) as log,
                closing(OpenTargets(self.sink, self.targets)) as open_targets,
            ):
                rows = pa.RecordBatchReader.from_batches(self.schema, self._rows(log, indexes))
                yield self._at_target(open_targets, lambda target: target.append_part(rows))
        except Exception as error:
            yield self._failure(error)
        freeze_garbage_collector()

    def _keyed(self, images: StepImages) -> KeyedImages:
        return KeyedImages(images, self.columns, self.keys, self.mode, self.rule, self.completing, self.evidence)

    def _at_target(self, open_targets: OpenTargets, write: Callable[[Target], WrittenFiles[Any]]) -> WrittenFiles[Any]:
        with open_targets.naming_errors(self.source_table, self.uri):
            return write(open_targets.get(self.uri))

    def _failure(self, error: Exception) -> Failure:
        # What a task gives back in the place of a result: Spark would do it again, and tell the driver a stack trace.
        if isinstance(error, (BinlogError, IndivisibleError)):
            return error
        return unexpected(error, f"{self.source_table}: {self.uri}")

    def _rows(self, log: Log, indexes: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        for row_batches in self._row_batches(log, indexes):
            if self.mode is Mode.CHANGELOG:
                for row_batch in row_batches:
                    row_batch.images.check_changes()
                    if row_batch.images.has_absent() and ABSENT_FIELD.name not in self.schema.names:
                        raise IndivisibleError(self.source_table)  # the outline of a step does not tell of that column
                    yield cast_to_schema(changelog_batch(row_batch), self.schema)
                continue
            _, images = self._content(log, row_batches).images
            yield from WholeImages(images, self.columns).rows(images.in_log_order()).to_batches()

    def _images(self, log: Log, indexes: Iterable[bytes]) -> Iterator[StepImages]:
        for row_batches in self._row_batches(log, indexes):
            yield self._content(log, row_batches).images[1]

    def _content(self, log: Log, row_batches: Sequence[RowBatch]) -> RowsContent:
        facts = LogFacts(log, self.given)
        return RowsContent(self.source_table, row_batches, self.decoding, self.rule, facts, self.columns)

    def _row_batches(self, log: Log, indexes: Iterable[bytes]) -> Iterator[list[RowBatch]]:
        size = max(READ_BYTES, self.part_count << 18)
        for index in (cut for content in indexes for cut in TableIndex.from_bytes(content).cut(size)):
            some = (
                row_batch.between(self.after, self.before)
                for row_batch in load_row_batches((index,), log, self.decoding)
            )
            row_batches = [row_batch for row_batch in some if row_batch is not None]
            if row_batches:
                yield row_batches


def _fine(results: Sequence[Result | Failure]) -> list[Result]:
    for result in results:
        if isinstance(result, Exception):
            raise result
    return [result for result in results if not isinstance(result, Exception)]


def parts_of(step: RowsStep, count: int) -> list[list[bytes]]:
    """The indexes of *step* in up to *count* parts of the log, of about the same size."""
    cuts = fair_cuts(step, count)
    ends = np.cumsum([size for _, size in cuts])
    middles = ends - [size / 2 for _, size in cuts]
    owners = (middles * count / ends[-1]).astype(np.int64)
    parts = [[index for (index, _), owner in zip(cuts, owners, strict=True) if owner == part] for part in range(count)]
    return [part for part in parts if part]


def fair_cuts(step: RowsStep, count: int) -> list[tuple[bytes, int]]:
    """The indexes of *step*, with bytes of events, cut where *count* tasks would not have about as much each."""
    sizes = [part.size for part in step.parts]
    fair = sum(sizes) // count
    if len(sizes) % count == 0 and max(sizes) <= FAIR * fair:
        return [(part.index, part.size) for part in step.parts]
    half = max(fair // 2, 1)
    cuts = []
    for part in step.parts:
        if part.size <= half:
            cuts.append((part.index, part.size))
            continue
        cuts += [(cut.to_bytes(), cut.size) for cut in TableIndex.from_bytes(part.index).cut(half)]
    return cuts
