"""Row images of a step dealt out by their keys, so that several tasks can merge it: `sharded` -> bytes -> `gathered`.

What happens to a key is in one shard, in log order; the modes make of a shard what they make of a step. An update that
changes the key and goes into two shards is a delete in one and an insert in the other, which is the same to them.
Values travel decoded: they are decoded where their part of the log is read, once, and of keys that only their last
image counts of (`last_only`) no more than that.
"""

from __future__ import annotations

import itertools
import pickle
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from binlog_format.block import EVENT_DTYPE, GROUP_DTYPE
from binlog_format.kernels import as_bytes
from binlog_format.rows.decoding import DEFAULT_DECODING
from binlog_format.rows.images import IMAGE_DTYPE, ImageKind
from binlog_streaming.lake.change import Expected
from binlog_streaming.lake.key_kernels import SPREAD
from binlog_streaming.lake.row_values import comparable, one_array
from binlog_streaming.modes.decoded_images import DecodedImages
from binlog_streaming.modes.row_batches import RowBatch, StepImages
from binlog_streaming.modes.row_keys import KeyTable, expected_rows
from binlog_streaming.modes.text_kernels import hash_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from binlog_format.block import Table
    from binlog_format.events.table_map import TableLayout
    from binlog_format.kernels import Bytes, Indices, Mask, Uint64s
    from binlog_format.rows.decoding import Decoding
    from binlog_format.rows.images import Images
    from binlog_streaming.lake.key_lookup import KeyRuns
    from binlog_streaming.modes.absent_columns import AbsentFacts

_PLACE_DTYPE = np.dtype(
    [
        ("file_no", np.int64),  # of the group
        ("page", np.int64),
        ("chunk", np.int32),
        ("timestamp", np.uint32),
        ("event_no", np.int64),
        ("row_no", np.int32),
        ("kind", np.uint8),  # ImageKind
        ("snapshot", np.int64),  # number in `_Shipped.snapshots`
        ("facts", np.int64),  # number in `_Shipped.facts`
    ]
)
"""Fields of an image in a shard beside its values."""


class IndivisibleError(Exception):
    """A step has to be merged as a whole."""


class RefutedPartError(IndivisibleError):
    """The same, as the target contradicts a part of it: whoever has all images of the key names what it is."""


def sharded(
    images: StepImages,
    schema: pa.Schema,
    keys: Sequence[int],
    count: int,
    *,
    last_only: bool,
    with_first: bool = False,
    check: Callable[[KeyRuns], None] | None = None,
) -> Iterator[tuple[int, bytes]]:
    """Deal out images that follow each other in the log.

    Args:
        images: At least one.
        schema: Columns of the table; all images have them.
        keys: Indices of the key columns.
        last_only: Of a key only the last one of these images counts; images that lack columns are taken all the same.
        with_first: The first one is taken, too, to be compared with the target.
        check: Looks at the images by key, where not all of them are taken; None: nothing does.

    Yields:
        Numbers of shards, ascending, and what `gathered` takes.

    Raises:
        IndivisibleError: An update changes the key, and images lack columns: what a row of one shard holds then is
            in another one. Or images have changes to JSON values, which are in bytes.
    """
    if images.has_changes:
        raise IndivisibleError(images.source_table)
    key_table = KeyTable.of(images, schema, keys)
    shards = shard_numbers(key_table.rows, count)
    kinds = images.kinds.copy()
    after = np.flatnonzero(kinds == ImageKind.UPDATE_AFTER)
    parted = after[shards[after] != shards[after - 1]]
    if len(parted) and images.has_absent:
        raise IndivisibleError(images.source_table)
    expected = None
    if last_only and not images.has_absent:
        parted = after  # of most updates the image before goes
        runs = key_table.runs(images)
        if check is not None:
            check(runs)
        chosen, expected = _ends(images, runs, with_first=with_first)
    else:
        chosen = images.in_log_order()
    kinds[parted], kinds[parted - 1] = ImageKind.INSERT, ImageKind.DELETE
    chosen = chosen[np.argsort(shards[chosen], kind="stable")]
    places = _places(images, chosen)
    places["kind"] = kinds[chosen]
    columns = [one_array(images.values(index, field.type, chosen)) for index, field in enumerate(schema)]
    rows = pa.RecordBatch.from_arrays(columns, schema=schema)
    absent = {index: images.absent_mask(index)[chosen] for index in range(len(schema))} if images.has_absent else {}
    layout, snapshots = images.row_batches[-1].layout, _snapshots(images)
    facts = images.facts.known if absent else (None,)
    edges = np.searchsorted(shards[chosen], np.arange(count + 1))
    for shard in np.flatnonzero(edges[1:] > edges[:-1]).tolist():
        part = slice(int(edges[shard]), int(edges[shard + 1]))
        own = {index: mask[part] for index, mask in absent.items() if mask[part].any()}
        content = _ipc(rows.slice(part.start, part.stop - part.start))
        begun = None if expected is None else expected[chosen[part]]
        shipped = _Shipped(content, places[part], own, layout, snapshots, facts, begun)
        yield shard, pickle.dumps(shipped, protocol=pickle.HIGHEST_PROTOCOL)


def _ends(images: StepImages, runs: KeyRuns, *, with_first: bool) -> tuple[Indices, Bytes]:
    """The last image of each key, or the first one too, in log order; and of each image what it stands for expects."""
    first, chosen = runs.ends()
    expected = np.full(len(images), Expected.ANYTHING, np.uint8)
    expected[first] = expected_rows(images, first)
    if with_first:
        chosen = np.union1d(first, chosen)
    else:  # it stands for the first one
        stands = first != chosen
        expected[chosen[stands]] = _without_image(expected[first[stands]])
    return chosen if images.ranks is None else chosen[np.argsort(images.ranks[chosen])], expected


def _without_image(expected: Bytes) -> Bytes:
    return np.where(expected == Expected.THIS_ROW, np.uint8(Expected.ROW), expected)


def gathered(messages: Iterable[bytes], decoding: Decoding = DEFAULT_DECODING) -> list[RowBatch]:
    """The row batches of a shard, by their first image; `StepImages` takes them.

    Args:
        messages: Of one shard, in any order.

    Raises:
        Exception: What `failed` has put among them.
    """
    row_batches = []
    for message in messages:
        shipped = pickle.loads(message)
        if isinstance(shipped, Exception):
            raise shipped
        row_batches += shipped.row_batches(decoding)
    row_batches.sort(key=RowBatch.start)
    return row_batches


def failed(error: Exception) -> bytes:
    """A message with the reason why there are no more of them."""
    return pickle.dumps(error, protocol=pickle.HIGHEST_PROTOCOL)


def shard_numbers(keys: pa.Table, count: int) -> Indices:
    """Number of each key's shard; it depends on the values alone. *keys*: one row for a key."""
    total = np.zeros(keys.num_rows, np.uint64)
    for column in keys.columns:
        for part in comparable(one_array(column)):
            total = (total ^ _hashes(part)) * SPREAD
            total ^= total >> np.uint64(32)
    numbers: Indices = (total % np.uint64(count)).astype(np.int64)
    return numbers


def _hashes(array: pa.Array) -> Uint64s:
    # There are no nulls in keys.
    kind = array.type
    if pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
    if pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind):
        array = array.cast(pa.string() if pa.types.is_decimal(kind) else pa.binary())
    if pa.types.is_primitive(array.type):
        width = array.type.bit_width
        unsigned = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[width]
        held = np.frombuffer(array.buffers()[1], unsigned)[array.offset : array.offset + len(array)]
        numbers: Uint64s = held.astype(np.uint64)
        return numbers
    texts = array.cast(pa.large_binary())
    hashes = np.zeros(len(texts), np.int64)
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    done = hash_texts(as_bytes(texts.buffers()[2] or b""), offsets, hashes)
    assert done, "the texts of an array lie within its bytes"
    return hashes.astype(np.uint64)


def _places(images: StepImages, chosen: Indices) -> Table:
    parts: dict[str, list[NDArray[np.generic]]] = {name: [] for name in _PLACE_DTYPE.names or ()}
    snapshots = _snapshots(images)
    for row_batch in images.row_batches:
        table = row_batch.images.table
        event = table["event"].astype(np.int64)
        group = row_batch.events["group"][event]
        for name in ("file_no", "page", "chunk", "timestamp"):
            parts[name].append(row_batch.groups[name][group])
        parts["event_no"].append(row_batch.events["event_no"][event])
        parts["row_no"].append(table["row_no"])
        parts["snapshot"].append(np.full(len(table), snapshots.index(row_batch.snapshot)))
    places = np.zeros(len(chosen), _PLACE_DTYPE)
    parts["facts"] = [images.facts.numbers] if images.has_absent else []
    for name, columns in parts.items():
        if columns:
            places[name] = np.concatenate(columns)[chosen]
    return places


def _snapshots(images: StepImages) -> tuple[str, ...]:
    return tuple(sorted({row_batch.snapshot for row_batch in images.row_batches}))


@dataclass(frozen=True, slots=True)
class _Shipped:
    # Images of one shard on their way: Arrow IPC, `_PLACE_DTYPE`, which images lack columns, the layout of the last,
    # what they are existing rows of, the facts of what they lack, and `RowBatch.expected`.
    rows: bytes
    places: Table
    absent: dict[int, Mask]
    layout: TableLayout
    snapshots: tuple[str, ...]
    facts: tuple[AbsentFacts | None, ...]
    expected: Bytes | None

    def row_batches(self, decoding: Decoding) -> list[RowBatch]:
        """One for each snapshot, and one for changes, as far as there are any; and for different facts."""
        whole = self._row_batch(decoding)
        if len(self.snapshots) == len(self.facts) == 1:
            return [replace(whole, snapshot=self.snapshots[0], facts=self.facts[0])]
        row_batches = []
        for (number, snapshot), (fact_number, facts) in itertools.product(
            enumerate(self.snapshots), enumerate(self.facts)
        ):
            is_one = (self.places["snapshot"] == number) & (self.places["facts"] == fact_number)
            rows = np.flatnonzero(is_one)
            if len(rows):
                images, expected = whole.images.select(rows), None if whole.expected is None else whole.expected[rows]
                own = replace(whole, images=images, snapshot=snapshot, facts=facts, expected=expected)
                row_batches.append(own)
        return row_batches

    def _row_batch(self, decoding: Decoding) -> RowBatch:
        places = self.places
        new_group, new_event = np.ones((2, len(places)), np.bool_)
        for name in ("file_no", "page", "chunk"):
            changed = places[name][1:] != places[name][:-1]
            new_group[1:] = changed if name == "file_no" else new_group[1:] | changed
        new_event[1:] = new_group[1:] | (places["event_no"][1:] != places["event_no"][:-1])
        groups = np.zeros(int(new_group.sum()), GROUP_DTYPE)
        for name in ("file_no", "page", "chunk", "timestamp"):
            groups[name] = places[name][new_group]
        events = np.zeros(int(new_event.sum()), EVENT_DTYPE)
        events["event_no"] = places["event_no"][new_event]
        events["group"] = (np.cumsum(new_group) - 1)[new_event]
        table = np.zeros(len(places), IMAGE_DTYPE)
        table["event"], table["row_no"], table["kind"] = np.cumsum(new_event) - 1, places["row_no"], places["kind"]
        with pa.ipc.open_stream(self.rows) as reader:
            rows = reader.read_all()
        images = DecodedImages(table, rows, self.absent)
        return RowBatch(cast("Images", images), events, groups, self.layout, (), decoding, expected=self.expected)


def _ipc(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return bytes(sink.getvalue())
