"""Rows of a target are compared with the images before their changes: a wrong value is found, a right one never is."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from binlog_format.errors import TableError
from binlog_streaming.lake.row_values import ShownRows, differing
from binlog_streaming.modes.mode_columns import DELETED, IS_CURRENT, mode_schema
from binlog_streaming.modes.row_batches import StepImages
from binlog_streaming.modes.shards import gathered, sharded
from binlog_streaming.settings import Deletes, Mode, TableRule
from binlog_streaming.tables.row_evidence import RowEvidence
from binlog_streaming.tables.rows_step import KeyedImages
from tests.chance import examples
from tests.streaming.tables.lake.sink_cases import MIRROR_COMMIT_ID, MIRROR_VARIANTS, Variant
from tests.streaming.tables.modes.histories import KEY_NAMES, KEYS, KNOWN, SCHEMA, Batch, RowImage, histories
from tests.streaming.tables.modes.row_images import ABSENT, step_of

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_streaming.lake.target import Target

pytestmark = pytest.mark.usefixtures("shown_values")

RULES = {
    "mirror": TableRule(),
    "marks": TableRule(deletes=Deletes.MARK),
    "scd2": TableRule(mode=Mode.SCD2),
}
WHOLE = (RowImage.FULL, RowImage.FULL_NODUP)
OTHER = {"name": "another", "size": -0.0, "body": b"another"}
"""Values that no history has."""


@dataclass
class Writing:
    """A target that takes batches, and compares whole rows.

    Attributes:
        shards: In how many parts the images of a batch are dealt out by key, and put together again; 0: not.
    """

    target: Target
    rule: TableRule
    shards: int = 0
    batches: int = 0
    changes: int = 0

    def create(self) -> None:
        (mode,) = self.rule.modes
        commit_id = replace(MIRROR_COMMIT_ID, mode=mode, keys=KEY_NAMES)
        self.target.create(mode_schema(mode, SCHEMA, self.rule.deletes), commit_id)

    def take(self, batch: Batch) -> None:
        (mode,) = self.rule.modes
        images = step_of(batch.changes, SCHEMA, row_batches=2, start=self.changes, known=KNOWN)
        last_only = self.rule == RULES["mirror"]
        if self.shards and not images.has_absent:
            dealt = list(sharded(images, SCHEMA, KEYS, 1, last_only=last_only, with_first=True))
            images = StepImages(images.source_table, tuple(gathered(message for _, message in dealt)))
        self.batches, self.changes = self.batches + 1, self.changes + len(batch.changes)
        commit_id = replace(
            MIRROR_COMMIT_ID, mode=mode, keys=KEY_NAMES, batch_id=self.batches, last_change=f"0:1:{self.batches}"
        )
        keyed = KeyedImages(images, SCHEMA, KEY_NAMES, mode, self.rule, evidence=RowEvidence(rows=None))
        keyed.bring_into(self.target, commit_id)

    def live(self) -> pa.Table:
        rows = self.target.read().read_all()
        if IS_CURRENT in rows.column_names:
            return rows.filter(rows.column(IS_CURRENT))
        return rows.filter(pa.compute.invert(rows.column(DELETED))) if DELETED in rows.column_names else rows

    def change_value(self, key: tuple[object, ...], column: str) -> None:
        rows = self.target.read().read_all()
        changed = rows.to_pylist()
        for row in changed:
            if tuple(row[name] for name in KEY_NAMES) == key and row.get(IS_CURRENT, True):
                row[column] = OTHER[column]
        self.batches += 1
        (mode,) = self.rule.modes
        commit_id = replace(MIRROR_COMMIT_ID, mode=mode, keys=KEY_NAMES, batch_id=self.batches)
        self.target.replace(pa.Table.from_pylist(changed, rows.schema).to_reader(), commit_id)


def _shows(batch: Batch, key: tuple[object, ...], column: str, *, skips_nothing: bool) -> bool:
    """Whether the first image of *key* shows *column* of a row before."""
    own = [number for number, change in enumerate(batch.whole) for row in change if row is not None and row[:2] == key]
    if skips_nothing and all(batch.whole[number][0] == batch.whole[number][1] for number in own):
        return False  # an update that changes nothing ends no version
    before = batch.changes[own[0]][0] if own else None
    return before is not None and before[:2] == key and before[SCHEMA.get_field_index(column)] is not ABSENT


@pytest.mark.thorough_where("iceberg-1")
@pytest.mark.parametrize("shards", [0, 1])
@pytest.mark.parametrize("variant", MIRROR_VARIANTS)
@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_a_value_changed_behind_the_jobs_back_is_found_by_the_next_image_that_shows_it(
    tmp_path_factory: pytest.TempPathFactory, variant: Variant, rule: str, shards: int, data: st.DataObject
) -> None:
    images = st.sampled_from(WHOLE if rule == "scd2" else tuple(RowImage))
    batches = [batch for batch in data.draw(histories(images)) if batch.changes]
    assume(len(batches) > 1)
    place = variant.place(tmp_path_factory.mktemp("lake"))
    with closing(place.target()) as target:
        writing = Writing(target, RULES[rule], shards)
        writing.create()
        for batch in batches[:-1]:
            writing.take(batch)  # right targets are never contradicted
        keys = [tuple(row.values()) for row in writing.live().select(KEY_NAMES).to_pylist()]
        assume(keys)
        touched = [row[:2] for change in batches[-1].changes for row in change if row is not None and row[:2] in keys]
        key = data.draw(st.sampled_from(touched or keys))
        column = data.draw(st.sampled_from(list(OTHER)))
        writing.change_value(key, column)
        if not _shows(batches[-1], key, column, skips_nothing=rule == "scd2"):
            writing.take(batches[-1])
            return
        with pytest.raises(
            TableError, match=rf"CONTRADICTED.*the row there differs: {column} is (b?'another'|-0.0), not "
        ):
            writing.take(batches[-1])


ROW = ("a", 1, "x", 0.0, b"-")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({}, "name is 'another', not 'x'"),
        ({"mask": {"NAME": "last 1"}}, r"name \(masked\)"),
    ],
)
def test_values_are_told_but_those_with_a_mask(tmp_path: Path, rule: dict[str, Any], message: str) -> None:
    with closing(Variant.DELTA.place(tmp_path).target()) as target:
        writing = Writing(target, TableRule(**rule))
        writing.create()
        writing.take(Batch([(None, ROW)], [], []))
        writing.change_value(ROW[:2], "name")
        with pytest.raises(TableError, match=message) as caught:
            writing.take(Batch([(ROW, (*ROW[:2], "y", *ROW[3:]))], [], []))
    assert ("another" in str(caught.value)) == (not rule)
    assert "an UPDATE at " in str(caught.value)
    assert "needs a target with the row of key tenant = 'a', n = 1, and the row there differs" in str(caught.value)


def test_null_that_a_setting_puts_there_proves_nothing() -> None:
    shown = ShownRows(pa.table({"a": [1, 2, None]}), {})
    held, numbers = pa.table({"a": [None, 3, 4]}), np.arange(3) + 7
    found = differing(shown, held, numbers)
    assert found is not None
    assert found.numbers.tolist() == [7, 8, 9]
    found = differing(replace(shown, nulls_prove_nothing=True), held, numbers)
    assert found is not None
    assert found.numbers.tolist() == [8, 9]
