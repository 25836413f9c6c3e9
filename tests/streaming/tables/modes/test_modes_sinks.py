"""Every mode through every sink that merges: what a step makes of images, brought into a table that is then read."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binlog_streaming.lake.row_values import rows_with
from binlog_streaming.modes.mirror import mirror_change
from binlog_streaming.modes.mode_columns import mode_schema
from binlog_streaming.modes.scd2 import scd2_change
from binlog_streaming.modes.whole_rows import whole_row_change
from binlog_streaming.settings.choices import Deletes, Mode
from tests.chance import examples
from tests.streaming.tables.lake.model_sink import ModelTable
from tests.streaming.tables.lake.sink_cases import COMMIT_ID, MIRROR_VARIANTS
from tests.streaming.tables.modes.histories import KEY_NAMES, KEYS, KNOWN, SCHEMA, RowImage, histories
from tests.streaming.tables.modes.row_images import step_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from binlog_streaming.lake.commit_id import CommitId
    from binlog_streaming.lake.target import Target
    from binlog_streaming.modes.row_batches import StepImages
    from tests.streaming.tables.lake.sink_cases import Place, Variant
    from tests.streaming.tables.modes.histories import Batch
    from tests.streaming.tables.modes.row_images import Row

_MANY_FOLDERS = settings(max_examples=examples(5), suppress_health_check=[HealthCheck.function_scoped_fixture])
_ANY_IMAGES = histories(st.sampled_from(RowImage))
_WHOLE_IMAGES = histories(st.sampled_from([RowImage.FULL, RowImage.FULL_NODUP]))


def steps(
    place: Place, batches: list[Batch], mode: Mode, deletes: Deletes = Deletes.REMOVE, keys: tuple[str, ...] = KEY_NAMES
) -> Iterator[tuple[Target, CommitId, StepImages, Batch]]:
    """Each batch with a target that has been looked at."""
    start = 0
    for batch_id, batch in enumerate(batches):
        commit_id = replace(COMMIT_ID, batch_id=batch_id, mode=mode, keys=keys)
        with closing(place.target()) as target:
            target.create(mode_schema(mode, SCHEMA, deletes), commit_id)
            yield target, commit_id, step_of(batch.changes, SCHEMA, row_batches=2, start=start, known=KNOWN), batch
        start += len(batch.changes)


def _with_keys(target: Target, keys: pa.Table) -> pa.Table:
    return rows_with(target.read(), keys)


def sorted_rows(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=repr)


@pytest.mark.parametrize("variant", MIRROR_VARIANTS)
@pytest.mark.parametrize("deletes", list(Deletes))
@_MANY_FOLDERS
@given(batches=_ANY_IMAGES)
def test_mirror(
    tmp_path_factory: pytest.TempPathFactory, variant: Variant, deletes: Deletes, batches: list[Batch]
) -> None:
    place = variant.place(tmp_path_factory.mktemp("mirror"))
    model = ModelTable(mode_schema(Mode.MIRROR, SCHEMA, deletes), KEY_NAMES)
    for target, commit_id, images, batch in steps(place, batches, Mode.MIRROR, deletes):
        change = mirror_change(images, SCHEMA, KEYS, deletes=deletes, there=partial(_with_keys, target))
        target.merge(change, commit_id)
        model.merge(change)
        rows = place.rows()
        assert sorted_rows(rows) == sorted_rows([tuple(row.values()) for row in model.rows])
        if deletes is Deletes.REMOVE:
            assert sorted_rows(rows) == sorted_rows(batch.rows)


@pytest.mark.parametrize("variant", MIRROR_VARIANTS)
@_MANY_FOLDERS
@given(batches=_WHOLE_IMAGES)
def test_scd2(tmp_path_factory: pytest.TempPathFactory, variant: Variant, batches: list[Batch]) -> None:
    place = variant.place(tmp_path_factory.mktemp("scd2"))
    model = ModelTable(mode_schema(Mode.SCD2, SCHEMA), KEY_NAMES)
    for target, commit_id, images, batch in steps(place, batches, Mode.SCD2):
        change = scd2_change(images, SCHEMA, KEYS)
        target.merge(change, commit_id)
        model.merge(change)
        rows = place.content().to_pylist()
        assert sorted_rows([tuple(row.values()) for row in rows]) == sorted_rows(
            [tuple(row.values()) for row in model.rows]
        )
        current = [tuple(row.values())[: len(SCHEMA)] for row in rows if row["_is_current"]]
        assert sorted_rows(current) == sorted_rows(batch.rows)


@pytest.mark.parametrize("variant", MIRROR_VARIANTS)
@_MANY_FOLDERS
@given(batches=_WHOLE_IMAGES)
def test_whole_rows(tmp_path_factory: pytest.TempPathFactory, variant: Variant, batches: list[Batch]) -> None:
    place = variant.place(tmp_path_factory.mktemp("whole"))
    for target, commit_id, images, batch in steps(place, batches, Mode.MIRROR, keys=()):
        target.replace(whole_row_change(target.read(), images, SCHEMA), commit_id)
        assert Counter(place.rows()) == Counter(batch.rows)
