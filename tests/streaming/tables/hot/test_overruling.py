"""Steps cut by places in the log: what parts make of a table together is what the step makes of it."""

from __future__ import annotations

import itertools
import random
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_format.errors import TableError
from binlog_format.position import Position
from binlog_streaming.modes.row_batches import ChangePlace, RowBatch
from binlog_streaming.modes.shards import IndivisibleError, failed
from binlog_streaming.settings import Merge, Mode, TableFormat, TableRule
from binlog_streaming.settings.choices import partition_rule
from binlog_streaming.tables.late_dedup import KEY_STATE_DTYPE, LogPart, key_messages, key_states, shared_keys
from binlog_streaming.tables.row_evidence import RowEvidence
from binlog_streaming.tables.rows_step import KeyedImages
from tests.chance import examples
from tests.streaming.tables.lake.sink_cases import MIRROR_COMMIT_ID, Place
from tests.streaming.tables.modes.histories import KEY_NAMES, SCHEMA, Batch, RowImage, histories
from tests.streaming.tables.modes.row_images import step_of

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_format.block import Table as KeyStates
    from binlog_streaming.lake.merge import WrittenFiles
    from binlog_streaming.lake.target import Target

COMMIT_ID = replace(MIRROR_COMMIT_ID, keys=KEY_NAMES)


def _parts(target: Target, batch: Batch, start: int, cuts: list[int]) -> list[tuple[LogPart, pa.Table, KeyStates]]:
    """The parts of a batch, written by themselves, and the keys of each."""
    edges = [0, *sorted({cut % (len(batch.changes) + 1) for cut in cuts}), len(batch.changes)]
    parts = []
    for low, high in itertools.pairwise(edges):
        if low < high:
            images = step_of(batch.changes[low:high], SCHEMA, row_batches=2, start=start + low)
            evidence = RowEvidence(rows=None)
            change = KeyedImages(images, SCHEMA, KEY_NAMES, Mode.MIRROR, TableRule(), evidence=evidence).change()
            written = target.merge_part(change, KEY_NAMES)
            places = [RowBatch.start(images.row_batches[0]), RowBatch.end(images.row_batches[-1])]
            keys = pa.concat_tables([change.upserts.select(KEY_NAMES), change.deletes])
            part = LogPart(f"{start}-{low}", places[0], places[1], written)
            parts.append((part, keys, key_states(change, written)))
    return parts


def _all_parts(
    target: Target, parts: list[tuple[LogPart, pa.Table, KeyStates]], count: int
) -> list[WrittenFiles[object]]:
    """What *count* tasks make of them, to which messages come in any order."""
    shards: dict[int, list[bytes]] = {}
    for part, keys, states in parts:
        for shard, message in key_messages(part, keys, count, states):
            shards.setdefault(shard, []).append(message)
    written = []
    for number, messages in shards.items():
        random.Random(number).shuffle(messages)
        shared = shared_keys(messages, "shop.orders")
        assert shared is not None
        known = [part.written for part in shared.parts]
        superseded_by_later_part = target.superseded_by_later_part(known, shared.keys, shared.by)
        written += [part.written for part in shared.whole]
        written.append(replace(superseded_by_later_part, row_count=-shared.repeats))
    return written


@pytest.mark.parametrize(
    ("kind", "merge", "by"),
    [
        (TableFormat.DELTA, Merge.AUTO, ()),
        (TableFormat.DELTA, Merge.MARK, ()),
        (TableFormat.DELTA, Merge.MARK, ("n",)),
        (TableFormat.ICEBERG, Merge.AUTO, ()),
        (TableFormat.ICEBERG, Merge.MARK, ("n",)),
    ],
)
@settings(max_examples=examples(8), deadline=None)
@given(data=st.data(), count=st.integers(1, 3), cuts=st.lists(st.integers(0, 12), max_size=4))
def test_parts_together_are_the_step(
    tmp_path_factory: pytest.TempPathFactory,
    kind: TableFormat,
    merge: Merge,
    by: tuple[str, ...],
    data: st.DataObject,
    count: int,
    cuts: list[int],
) -> None:
    place = Place(tmp_path_factory.mktemp("lake"), kind, merge_kind=merge)
    start = 0
    commit_id = replace(COMMIT_ID, partition_by=tuple(map(partition_rule, by)))
    with closing(place.target()) as target:
        target.create(SCHEMA, commit_id)
        for number, batch in enumerate(data.draw(histories(st.just(RowImage.FULL)))):
            if batch.changes:
                assert target.supports_late_dedup
                written = _all_parts(target, _parts(target, batch, start, cuts), count)
                keys = target.commit_parts(written, replace(commit_id, batch_id=number, last_change=f"0:1:{number}"))
                touched = {row[:2] for change in batch.changes for row in change if row is not None}
                assert keys in (0, len(touched))  # 0: rows that came and went
            start += len(batch.changes)
    with closing(place.target()) as target:
        rows = [tuple(row.values()) for row in target.read().read_all().to_pylist()]
        assert sorted(rows, key=repr) == sorted(batch.rows, key=repr)


@pytest.mark.parametrize("kind", [TableFormat.DELTA, TableFormat.ICEBERG])
def test_file_of_which_no_row_stays_is_none(tmp_path: Path, kind: TableFormat) -> None:
    """Later parts have all its keys: it is not in the table, and not in its folder."""
    place = Place(tmp_path, kind, merge_kind=Merge.MARK)
    row = ("a", 1, None, None, None)
    changed = (*row[:2], "x", None, None)
    with closing(place.target()) as target:
        target.create(SCHEMA, COMMIT_ID)
        parts = _parts(target, Batch([(None, row), (row, changed)], [], []), 0, [1])
        names = {path.name for path in (tmp_path / place.name).rglob("*.parquet")}
        assert target.commit_parts(_all_parts(target, parts, 2), COMMIT_ID) == 1
        assert [tuple(row.values()) for row in target.read().read_all().to_pylist()] == [changed]
    assert len(names) == 2
    assert len({path.name for path in (tmp_path / place.name).rglob("*.parquet")} & names) == 1


CHANGES: dict[str, list[tuple[tuple[int, str] | None, tuple[int, str] | None]]] = {
    "update of a row that is not there": [((1, "a"), (1, "b"))],
    "delete of a row that is not there": [((1, "a"), None)],
    "insert of a row that is there": [(None, (0, "a"))],
    "update of a row that is another": [((0, "y"), (0, "z"))],
    "key that becomes one that is there": [(None, (1, "a")), ((1, "a"), (0, "a"))],
    "insert after an insert": [(None, (1, "a")), (None, (1, "b"))],
    "update after a delete": [((0, "x"), None), ((0, "x"), (0, "y"))],
}


@pytest.mark.parametrize(
    ("name", "cuts"),
    # Within one part only the first image of a key is compared.
    [(name, cuts) for name in CHANGES for cuts in ([], [1]) if cuts or " after a" not in name],
)
def test_parts_that_contradict_the_target_or_each_other_are_refused(tmp_path: Path, name: str, cuts: list[int]) -> None:
    def row(values: tuple[int, str] | None) -> tuple[object, ...] | None:
        return None if values is None else ("a", values[0], values[1], None, None)

    place = Place(tmp_path, TableFormat.DELTA, merge_kind=Merge.MARK)
    with closing(place.target()) as target:
        target.create(SCHEMA, COMMIT_ID)
        first = _parts(target, Batch([(None, row((0, "x")))], [], []), 0, [])
        target.commit_parts(_all_parts(target, first, 1), COMMIT_ID)
        batch = Batch([(row(before), row(after)) for before, after in CHANGES[name]], [], [])
        with pytest.raises(IndivisibleError):
            _all_parts(target, _parts(target, batch, 9, cuts), 2)


def test_parts_that_lie_across_each_other_are_refused(tmp_path: Path) -> None:
    place = Place(tmp_path, TableFormat.DELTA)
    with closing(place.target()) as target:
        target.create(SCHEMA, COMMIT_ID)
        rows = pa.table({"tenant": ["a"], "n": pa.array([1], pa.int16())})
        empty = target.append_part(SCHEMA.empty_table().to_reader())
    first, shared, last = (ChangePlace(Position(0, 0, 0), event_no, 0, None) for event_no in (1, 9, 10))
    parts = [LogPart("one", first, shared, empty), LogPart("two", shared, last, empty)]
    states = np.zeros(1, KEY_STATE_DTYPE)
    messages = [message for part in parts for _, message in key_messages(part, rows, 1, states)]
    with pytest.raises(IndivisibleError):
        shared_keys(messages, "shop.orders")


def test_what_went_wrong_in_a_part_is_raised() -> None:
    with pytest.raises(TableError, match="gone"):
        shared_keys([failed(TableError("NULL_KEY", "gone", hint="none"))], "shop.orders")


def test_no_parts_share_nothing() -> None:
    assert shared_keys([], "shop.orders") is None
