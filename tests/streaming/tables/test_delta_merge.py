from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from binlog_streaming.lake.change import Change, Patches
from binlog_streaming.lake.delta.delta_merge import Kind, merge_source, pruning_condition
from binlog_streaming.lake.delta.target import DeltaTarget
from tests.streaming.tables.sink_cases import INT_KEY, MIRROR_TICKET, change_of, numbers

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def target(tmp_path: Path) -> DeltaTarget:
    """Eight files of a hundred keys each, with a gap of a hundred between them."""
    target = DeltaTarget.find(str(tmp_path), {}, file_size=64 << 20)
    target.create(INT_KEY, MIRROR_TICKET)
    for batch_id in range(8):
        rows = numbers(*range(batch_id * 200, batch_id * 200 + 100))
        target.append(rows.to_reader(), replace(MIRROR_TICKET, batch_id=batch_id))
    assert len(files(target)) == 8
    return target


def files(target: DeltaTarget) -> set[str]:
    assert target.table is not None
    return set(target.table.file_uris())


def rows(target: DeltaTarget) -> dict[int, str]:
    return {row["id"]: row["value"] for row in DeltaTable(target.uri).to_pyarrow_table().to_pylist()}


def condition(target: DeltaTarget, *ids: int) -> list[str] | None:
    return pruning_condition(target, [numbers(*ids[:1]), numbers(*ids[1:]).select(["id"])], ["id"])


NEXT = replace(MIRROR_TICKET, batch_id=8)


class TestPruning:
    """Merges leave files alone that hold none of the changed keys."""

    def test_new_keys_are_appended(self, target: DeltaTarget) -> None:
        assert condition(target, 150, 9999, -5) is None

    def test_nothing_by_key_is_appended(self, target: DeltaTarget) -> None:
        assert pruning_condition(target, [numbers(), numbers()], ["id"]) is None

    def test_condition_names_the_ranges_touched(self, target: DeltaTarget) -> None:
        ranges = '(t."id" BETWEEN 5 AND 5 OR t."id" BETWEEN 7 AND 7 OR t."id" BETWEEN 1450 AND 1450)'
        assert condition(target, 5, 7, 1450) == [ranges]

    def test_condition_is_left_away_when_every_file_is_touched(self, target: DeltaTarget) -> None:
        assert condition(target, *range(0, 1600, 50)) == []

    def test_untouched_files_stay(self, target: DeltaTarget) -> None:
        before = files(target)
        assert target.merge(change_of([(5, "x2"), (1450, "x2")], [1405]), NEXT) == 3
        assert len(before & files(target)) == 6
        left = rows(target)
        assert len(left) == 799
        assert (left[5], left[1450], left[6], 1405 in left) == ("x2", "x2", "x", False)

    def test_patches_and_appends_touch_only_the_files_of_patches(self, target: DeltaTarget) -> None:
        before = files(target)
        patches = Patches(numbers(205), pa.table({"value": [True]}))
        assert target.merge(change_of(patches=patches, appends=numbers(5000, 5001)), NEXT) == 3
        assert len(before & files(target)) == 7
        assert len(rows(target)) == 802

    def test_only_new_rows_touch_no_file(self, target: DeltaTarget) -> None:
        before = files(target)
        patches = Patches(numbers(150), pa.table({"value": [True]}))
        assert target.merge(change_of([(170, "n")], [190], patches=patches, appends=numbers(5)), NEXT) == 2
        assert before < files(target)
        assert len(rows(target)) == 801
        assert DeltaTable(target.uri).count() == 802


def test_source_holds_every_kind_under_plain_names() -> None:
    schema = pa.schema([("id", pa.int64()), ("a", pa.string()), ("b", pa.string()), ("c", pa.string())])
    text = pa.schema([("id", pa.int64()), ("c", pa.string())])
    change = Change(
        upserts=pa.table({"id": [1], "c": ["u"]}, text),
        deletes=pa.table({"id": [2]}),
        patches=Patches(pa.table({"id": [3], "b": ["p"], "c": ["q"]}), pa.table({"c": [False]})),
        appends=pa.table({"id": [4], "c": ["v"]}, text),
    )
    assert change.patches is not None
    parts = [
        (Kind.UPSERT, change.upserts),
        (Kind.DELETE, change.deletes),
        (Kind.PATCH, change.patches.rows),
        (Kind.APPEND, change.upserts),
    ]
    source = merge_source(change, parts, schema)
    assert source.names == {"id": "c0", "b": "c2", "c": "c3"}
    assert source.whole == ["id", "c"]
    assert source.patched == {"b": None, "c": "p3"}
    assert source.rows.to_pylist() == [
        {"c0": 1, "c2": None, "c3": "u", "kind": 0, "p3": None},
        {"c0": 2, "c2": None, "c3": None, "kind": 1, "p3": None},
        {"c0": 3, "c2": "p", "c3": "q", "kind": 2, "p3": False},
        {"c0": 1, "c2": None, "c3": "u", "kind": 3, "p3": None},
    ]
