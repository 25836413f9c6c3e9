"""Messages of several tables and kinds in one order: `MessageRun` of each, `message_batch` of all."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_connector.envelope.message_kernels import copy_texts
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
NO_KEY = -1

_KINDS = tuple(MessageKind)
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
    """Messages of one kind and table, in order; keys by their number in *keys*, or `NO_KEY`.

    Attributes:
        database: Of the table; None: none.
        table: Its name; None: none.
        order: What all runs are sorted by.
        events: Of each message the row of its event.
        row_nos: Number of its row in the event.
        ops: Number in `OPS`, or `NO_OP`.
        keys: The keys; None: there are none.
        key: Of each message its key.
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
    key: Int64s
    old_key: Int64s
    new_key: Int64s
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
        numbers, none = np.arange(count, dtype=np.int64), np.full(count, NO_KEY, dtype=np.int64)
        return cls(
            kind,
            database,
            table,
            order,
            events,
            row_nos=np.zeros(count, dtype=np.int32),
            ops=np.full(count, NO_OP, dtype=np.int32),
            keys=keys,
            key=none if keys is None else numbers,
            old_key=none,
            new_key=none,
            valued=numbers,
            values=values,
        )


def message_batch(block: Block, runs: Sequence[MessageRun]) -> pa.RecordBatch:
    """All messages of *runs*, of which there is at least one, in one order: `MESSAGES_SCHEMA`."""
    order = np.concatenate([run.order for run in runs])
    sorting = np.argsort(order, kind="stable")
    ranks = np.empty_like(sorting)
    ranks[sorting] = np.arange(len(sorting))
    of_runs = np.split(ranks, np.cumsum([len(run) for run in runs])[:-1])
    valued = [ranks[run.valued] for run, ranks in zip(runs, of_runs, strict=True)]
    owners = np.repeat(np.arange(len(runs), dtype=np.int32), [len(run) for run in runs])[sorting]
    events = np.concatenate([run.events for run in runs])[sorting]
    places = PlaceColumns(block.events, block.groups, events, block.gtid_sources)
    kinds = np.array([_KINDS.index(run.kind) for run in runs], dtype=np.int32)
    columns = {
        "kind": _names(kinds[owners], _KINDS),
        "database": _names_of_runs([run.database for run in runs], owners),
        "table": _names_of_runs([run.table for run in runs], owners),
        "op": _names(np.concatenate([run.ops for run in runs])[sorting], OPS),
        "key": _keys(runs, of_runs, [run.key for run in runs]),
        "value": _values([run.values for run in runs], valued, len(order)),
        "attributes": _attributes(runs, valued, len(order)),
        "old_key": _keys(runs, of_runs, [run.old_key for run in runs]),
        "new_key": _keys(runs, of_runs, [run.new_key for run in runs]),
        "position": places.position(SURE_POSITION_TYPE),
        "event_no": places.event_no(),
        "row_no": numbers_array(np.concatenate([run.row_nos for run in runs])[sorting]),
        "commit_time": places.commit_time(),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in MESSAGES_SCHEMA.names], schema=MESSAGES_SCHEMA)


def _names(codes: Int32s, names: Sequence[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(fixed_array(pa.int32(), codes, codes >= 0), strings_array(names))


def _names_of_runs(names: Sequence[str | None], owners: Int32s) -> pa.Array:
    known = sorted({name for name in names if name is not None})
    codes = np.array([-1 if name is None else known.index(name) for name in names], dtype=np.int32)
    return _names(np.ascontiguousarray(codes[owners]), known)


def _values(values: Sequence[ChangeValues], ranks: Sequence[Int64s], count: int) -> pa.Array:
    sizes = np.zeros(count, dtype=np.int64)
    for of_run, valued in zip(values, ranks, strict=True):
        sizes[valued] = of_run.sizes
    offsets = offsets_of(sizes)
    out = empty_bytes(int(offsets[-1]))
    for of_run, valued in zip(values, ranks, strict=True):
        of_run.write(out, offsets[valued])
    return _binary_array(sizes, offsets, out)


def _attributes(runs: Sequence[MessageRun], ranks: Sequence[Int64s], count: int) -> pa.Array:
    of_runs = [(run.values.attributes, valued) for run, valued in zip(runs, ranks, strict=True)]
    present = [(attributes, valued) for attributes, valued in of_runs if attributes is not None]
    if not present:
        return pa.nulls(count, pa.large_binary())
    return _values([attributes for attributes, _ in present], [valued for _, valued in present], count)


def _keys(runs: Sequence[MessageRun], of_runs: Sequence[Int64s], keys: Sequence[Int64s]) -> pa.Array:
    count = sum(map(len, keys))
    if max(key.max() for key in keys if len(key)) < 0:
        return pa.nulls(count, pa.large_binary())
    sizes = np.zeros(count, dtype=np.int64)
    for run, ranks, key in zip(runs, of_runs, keys, strict=True):
        if run.keys is not None:
            there = key >= 0
            sizes[ranks[there]] = run.keys.sizes[key[there]]
    offsets = offsets_of(sizes)
    out = empty_bytes(int(offsets[-1]))
    for run, ranks, key in zip(runs, of_runs, keys, strict=True):
        if run.keys is not None:
            copy_texts(out, offsets[ranks], run.keys.data, run.keys.offsets, key)
    return _binary_array(sizes, offsets, out)


def _binary_array(sizes: Int64s, offsets: Int64s, data: Bytes) -> pa.Array:
    there = sizes > 0  # no text is empty
    validity = None if there.all() else mask_array(there).buffers()[1]
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(sizes), buffers)
