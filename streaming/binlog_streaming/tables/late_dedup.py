"""Parts of the log that tasks wrote by themselves, and the keys that several of them have: `LogPart`, `shared_keys`.

Of a key that several parts have the last one counts, so rows of the earlier ones go. Tasks find them together, each for
some of the keys: a part sends each its keys (`key_messages`), and no values.
"""

from __future__ import annotations

import itertools
import pickle
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from binlog_format.rows.arrow_arrays import mask_array, numbers_array
from binlog_streaming.lake.change import Expected, needs_row
from binlog_streaming.lake.row_values import comparable_table, row_ids
from binlog_streaming.modes.shards import IndivisibleError, RefutedPartError, shard_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_format.block import Table
    from binlog_format.kernels import Indices
    from binlog_streaming.lake.change import Change
    from binlog_streaming.lake.merge import WrittenFiles
    from binlog_streaming.modes.row_batches import ChangePlace
    from binlog_streaming.tables.division import Shard


@dataclass(frozen=True, slots=True)
class LogPart:
    """Files that a task wrote for a part of the log.

    Attributes:
        attempt: No other part, and no other attempt at this one, is called so.
        end: Place of the last one.
        written: The files, and what they take the place of.
    """

    attempt: str
    start: ChangePlace
    end: ChangePlace
    written: WrittenFiles[Any]


@dataclass(frozen=True, slots=True)
class SupersededRows:
    """Rows of parts that later parts supersede, for some keys.

    Attributes:
        attempts: Those of the parts that were asked.
        written: Rows of them.
    """

    attempts: frozenset[str]
    written: WrittenFiles[Any]


class SharedKeys(NamedTuple):
    """Keys that several parts have.

    Attributes:
        parts: In the order of the log.
        keys: One row for each.
        by: For each the number of the last part that has it.
        repeats: How often a key comes that an earlier part has.
        whole: The parts with all their facts, if this task is to hand them on.
    """

    parts: list[LogPart]
    keys: pa.Table
    by: Indices
    repeats: int
    whole: list[LogPart]


KEY_STATE_DTYPE = np.dtype(
    [
        ("expected", np.uint8),  # `Expected` before the part
        ("is_refuted", np.bool_),  # the target holds something else than that
        ("stays", np.bool_),  # there is a row after the part
    ]
)
"""Fields of a key in a part beside its value."""


def key_states(change: Change, written: WrittenFiles[Any]) -> Table:
    """`KEY_STATE_DTYPE` of the keys of a part: those of upserts, then those of deletes.

    Args:
        change: What the part makes of the target, without patches.
    """
    states = np.zeros(change.upserts.num_rows + change.deletes.num_rows, KEY_STATE_DTYPE)
    states["stays"][: change.upserts.num_rows] = True
    states["expected"] = Expected.ANYTHING if change.expected is None else change.expected
    if written.contradicted is not None:
        states["is_refuted"][written.contradicted.numbers] = True
    return states


def key_messages(part: LogPart, keys: pa.Table, count: int, states: Table) -> Iterator[Shard]:
    """Send the facts about the keys of *part* to *count* tasks; the first one gets all facts of the part, too."""
    shards = shard_numbers(keys, count)
    part = replace(part, written=replace(part.written, contradicted=None))  # *states* have it
    brief = replace(part, written=replace(part.written, superseded=()))
    for shard in range(count):
        mask = shards == shard
        own = keys.filter(mask_array(mask)).combine_chunks()
        content = (brief, own, states[mask], None if shard else part)
        yield shard, pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)


def shared_keys(messages: Iterable[bytes], source_table: str) -> SharedKeys | None:
    """Keys of a task that several parts have; None: there are no parts.

    Args:
        messages: That the task got, in any order.
        source_table: `database.table`.

    Raises:
        Exception: What `modes.shards.failed` has put among them.
        RefutedPartError: What a key was before a part is contradicted, by the target or by the part before.
        IndivisibleError: The parts lie across each other: which comes later differs from row to row.
    """
    received = []
    for message in messages:
        content = pickle.loads(message)
        if isinstance(content, Exception):
            raise content
        received.append(content)
    if not received:
        return None
    received.sort(key=lambda content: content[0].start)
    parts, tables, states, whole = zip(*received, strict=True)
    if any(later.start <= earlier.end for earlier, later in itertools.pairwise(parts)):
        raise IndivisibleError(source_table)
    keys = pa.concat_tables(tables)
    ids, count = row_ids(comparable_table(keys.columns))
    if _is_contradicted(ids, np.concatenate(states)):
        raise RefutedPartError(source_table)
    numbers = np.repeat(np.arange(len(parts)), [len(table) for table in tables])
    first, last, example = np.empty((3, count), np.int64)
    first[ids[::-1]], last[ids], example[ids] = numbers[::-1], numbers, np.arange(len(ids))
    shared = np.flatnonzero(first < last)
    chosen = keys.take(numbers_array(example[shared]))
    known = [frame for frame in whole if frame is not None]
    return SharedKeys(list(parts), chosen, last[shared], len(ids) - count, known)


def _is_contradicted(ids: Indices, states: Table) -> bool:
    # *ids*: of keys, part by part. What comes first of a key was compared with the target, the rest is with the part
    # before.
    order = np.argsort(ids, kind="stable")
    states, again = states[order], np.append(False, ids[order][1:] == ids[order][:-1])[: len(ids)]
    expected, held = states["expected"], np.append(False, states["stays"][:-1])[: len(ids)]
    refuted = np.where(needs_row(expected), ~held, (expected == Expected.NO_ROW) & held)
    return bool(np.where(again, refuted, states["is_refuted"]).any())
