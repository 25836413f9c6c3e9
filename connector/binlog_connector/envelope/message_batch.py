"""Messages of several tables and kinds in one order: `MessageRun` of each, `message_batch` of all."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_connector.envelope.message_kernels import MessageNumbers, add_text_sizes, arrange_messages, copy_texts
from binlog_format.kernels import empty_bytes, offsets_of
from binlog_format.rows.arrow_arrays import fixed_array, mask_array, numbers_array, strings_array
from binlog_format.views.columns import COMMIT_TIME_TYPE, SURE_POSITION_TYPE, PlaceColumns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_connector.envelope.encoding import Texts
    from binlog_connector.envelope.json.change_values import ChangeValues
    from binlog_format.block import Block
    from binlog_format.kernels import Bytes, Int32s, Int64s


class MessageKind(StrEnum):
    """Subject of a message, which decides its topic."""

    CHANGE = "change"
    TRANSACTION = "transaction"
    SCHEMA_CHANGE = "schema_change"


class MessagePlace(IntEnum):
    """Place of a message among those of the same event."""

    BEGIN = 0
    ROW = 1
    STATEMENT = 2
    END = 3


def sort_keys(events: Int64s, place: MessagePlace) -> Int64s:
    """Sort keys of messages of those events."""
    return events * len(MessagePlace) + int(place)


OPS = ("c", "u", "d", "t", "r")
"""Letters for what happened to a row; `r`: it exists."""
NO_OP = -1

_DICTIONARIES_MAX = 256
_NAME_TYPE = pa.dictionary(pa.int32(), pa.string())

MESSAGES_SCHEMA = pa.schema(
    [
        pa.field("kind", _NAME_TYPE, nullable=False),
        ("database", _NAME_TYPE),
        ("table", _NAME_TYPE),
        ("op", _NAME_TYPE),
        ("key", pa.large_binary()),
        ("value", pa.large_binary()),
        ("attributes", pa.large_binary()),
        ("old_key", pa.large_binary()),
        ("new_key", pa.large_binary()),
        pa.field("position", SURE_POSITION_TYPE, nullable=False),
        pa.field("event_no", pa.int32(), nullable=False),
        pa.field("row_no", pa.int32(), nullable=False),
        pa.field("commit_time", COMMIT_TIME_TYPE, nullable=False),
    ]
)
"""Messages in the order in which they are to be sent.

A tombstone has a key, no value, and no `op`. `attributes` (JSON) are for the headers of a CloudEvent, `old_key` (of the
creation) and `new_key` (of the delete) for `__debezium.oldkey` and `__debezium.newkey` after a change of a key.
Messages about transactions have no table. `position` is that of the event group: what comes after the last message of a
group may be committed with it.
"""


@dataclass(frozen=True, slots=True)
class MessageRun:
    """Messages of one kind and table, in order; keys by their number in *keys*, below 0: none.

    Attributes:
        database: Of the table; None: none.
        table: Its name; None: none.
        order: What all runs are sorted by.
        events: Of each message the row of its event.
        row_nos: Number of its row in the event.
        ops: Number in `OPS`, or `NO_OP`.
        keys: The keys; None: there are none.
        key: Of each message its key; None: there are none, as in the two below.
        old_key: For its header.
        new_key: For its header.
        valued: The messages that have values.
    """

    kind: MessageKind
    database: str | None
    table: str | None
    order: Int64s
    events: Int64s
    row_nos: Int32s
    ops: Int32s
    keys: Texts | None
    key: Int64s | None
    old_key: Int64s | None
    new_key: Int64s | None
    valued: Int64s
    values: ChangeValues

    def __len__(self) -> int:
        return len(self.order)

    @classmethod
    def of_events(
        cls,
        kind: MessageKind,
        database: str | None,
        table: str | None,
        order: Int64s,
        events: Int64s,
        keys: Texts | None,
        values: ChangeValues,
    ) -> MessageRun:
        """Messages about events themselves, one for every event."""
        count = len(events)
        numbers = np.arange(count, dtype=np.int64)
        return cls(
            kind,
            database,
            table,
            order,
            events,
            row_nos=np.zeros(count, dtype=np.int32),
            ops=np.full(count, NO_OP, dtype=np.int32),
            keys=keys,
            key=None if keys is None else numbers,
            old_key=None,
            new_key=None,
            valued=numbers,
            values=values,
        )


def message_batch(block: Block, runs: Sequence[MessageRun]) -> pa.RecordBatch:
    """All messages of *runs*, of which there is at least one, in one order: `MESSAGES_SCHEMA`."""
    numbers, owners, of_runs = _arranged(runs)
    count = len(owners)
    valued = [ranks.take(run.valued) for run, ranks in zip(runs, of_runs, strict=True)]
    places = PlaceColumns(block.events, block.groups, numbers.events, block.gtid_sources)
    columns = {
        "kind": _names_of_runs([run.kind for run in runs], owners),
        "database": _names_of_runs([run.database for run in runs], owners),
        "table": _names_of_runs([run.table for run in runs], owners),
        "op": _names(fixed_array(pa.int32(), numbers.ops, numbers.ops >= 0), OPS),
        "key": _keys(runs, of_runs, [run.key for run in runs], count),
        "value": _values([run.values for run in runs], valued, count),
        "attributes": _attributes(runs, valued, count),
        "old_key": _keys(runs, of_runs, [run.old_key for run in runs], count),
        "new_key": _keys(runs, of_runs, [run.new_key for run in runs], count),
        "position": places.position(SURE_POSITION_TYPE),
        "event_no": places.event_no(),
        "row_no": numbers_array(numbers.row_nos),
        "commit_time": places.commit_time(),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in MESSAGES_SCHEMA.names], schema=MESSAGES_SCHEMA)


def _arranged(runs: Sequence[MessageRun]) -> tuple[MessageNumbers, Int64s, list[Int64s]]:
    # The messages in order, the run of each; and of each run's messages their places in order.
    order = np.concatenate([run.order for run in runs])
    of_runs = MessageNumbers(
        np.concatenate([run.events for run in runs]),
        np.concatenate([run.row_nos for run in runs]),
        np.concatenate([run.ops for run in runs]),
    )
    in_order = MessageNumbers(*map(np.empty_like, of_runs))
    ranks, owners = np.empty_like(order), np.empty_like(order)
    run_ends = np.cumsum([len(run) for run in runs])
    arrange_messages(np.argsort(order, kind="stable"), run_ends, of_runs, in_order, ranks, owners)
    return in_order, owners, np.split(ranks, run_ends[:-1])


def _names(codes: pa.Array, names: Sequence[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(codes, _dictionary(tuple(names)), safe=False)


@lru_cache(_DICTIONARIES_MAX)
def _dictionary(names: tuple[str, ...]) -> pa.Array:
    return strings_array(names)


def _names_of_runs(names: Sequence[str | None], owners: Int64s) -> pa.Array:
    known = sorted({name for name in names if name is not None})
    of_runs = np.array([-1 if name is None else known.index(name) for name in names], dtype=np.int32)
    codes = of_runs.take(owners)
    return _names(fixed_array(pa.int32(), codes, codes >= 0) if None in names else numbers_array(codes), known)


def _values(values: Sequence[ChangeValues], ranks: Sequence[Int64s], count: int) -> pa.Array:
    sizes = np.zeros(count, dtype=np.int64)
    for of_run, valued in zip(values, ranks, strict=True):
        sizes[valued] = of_run.sizes
    offsets = offsets_of(sizes)
    out = empty_bytes(int(offsets[-1]))
    for of_run, valued in zip(values, ranks, strict=True):
        of_run.write(out, offsets.take(valued))
    return _binary_array(sizes, offsets, out)


def _attributes(runs: Sequence[MessageRun], ranks: Sequence[Int64s], count: int) -> pa.Array:
    of_runs = [(run.values.attributes, valued) for run, valued in zip(runs, ranks, strict=True)]
    present = [(attributes, valued) for attributes, valued in of_runs if attributes is not None]
    if not present:
        return pa.nulls(count, pa.large_binary())
    return _values([attributes for attributes, _ in present], [valued for _, valued in present], count)


def _keys(runs: Sequence[MessageRun], of_runs: Sequence[Int64s], keys: Sequence[Int64s | None], count: int) -> pa.Array:
    present = [
        (run.keys, ranks, key)
        for run, ranks, key in zip(runs, of_runs, keys, strict=True)
        if run.keys is not None and key is not None
    ]
    if not present:
        return pa.nulls(count, pa.large_binary())
    sizes = np.zeros(count, dtype=np.int64)
    for texts, ranks, key in present:
        add_text_sizes(sizes, ranks, texts.offsets, key)
    offsets = offsets_of(sizes)
    out = empty_bytes(int(offsets[-1]))
    for texts, ranks, key in present:
        copy_texts(out, offsets.take(ranks), texts.data, texts.offsets, key)
    return _binary_array(sizes, offsets, out)


def _binary_array(sizes: Int64s, offsets: Int64s, data: Bytes) -> pa.Array:
    there = sizes > 0  # no text is empty
    validity = None if there.all() else mask_array(there).buffers()[1]
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(sizes), buffers)
