"""Rows found by any of their columns: what is found is in the table, and files that cannot hold it are left alone."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_streaming.lake.change import Change
from binlog_streaming.lake.key_lookup import Search
from binlog_streaming.modes.reference_values import rows_matching
from binlog_streaming.settings import TableFormat
from tests.chance import examples
from tests.streaming.tables.lake.sink_cases import MIRROR_VARIANTS, VARIANTS, Place, Variant

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCHEMA = pa.schema([("id", pa.int32()), ("p", pa.int32()), ("code", pa.string())])
PARENT = pa.schema([("p", pa.int64()), ("code", pa.string())])
_PARENTS = st.one_of(st.none(), st.integers(-3, 3), st.just(2**31 - 1))
_CODES = st.sampled_from([None, "", "a", "b"])
_VALUES = st.lists(st.tuples(_PARENTS, _CODES), max_size=4)


def rows(*values: tuple[int, int | None, str | None]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, one, strict=True)) for one in values], SCHEMA)


def search_of(wanted: list[pa.Table]) -> Search:
    def matches(batch: pa.RecordBatch) -> NDArray[np.bool_]:
        assert set(batch.schema.names) >= {"p", "code"}
        mask = np.zeros(batch.num_rows, np.bool_)
        for one in wanted:
            mask |= rows_matching(batch, one)
        return mask

    return Search(("p", "code"), matches, tuple(wanted))


def add(place: Place, batch_id: int, new: pa.Table) -> None:
    """One more file."""
    if place.format is TableFormat.PARQUET:
        place.append(batch_id, new)
    else:
        place.bring(Change(new, new.select(["id"]).slice(0, 0)), batch_id=batch_id, schema=SCHEMA)


def selected(place: Place, search: Search, *names: str) -> list[tuple[object, ...]]:
    with closing(place.target()) as target:
        found = target.select(search, names)
    assert found.column_names == list(names)
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


@pytest.mark.parametrize("variant", VARIANTS)
@given(
    batches=st.lists(st.lists(st.tuples(_PARENTS, _CODES), min_size=1, max_size=5), min_size=1, max_size=3),
    deleted=st.sets(st.integers(0, 14), max_size=5),
    by_both=_VALUES,
    by_one=st.lists(_PARENTS, max_size=3),
)
@settings(max_examples=examples(12))
def test_what_is_found_is_what_a_look_at_all_rows_finds(
    variant: Variant,
    batches: list[list[tuple[int | None, str | None]]],
    deleted: set[int],
    by_both: list[tuple[int | None, str | None]],
    by_one: list[int | None],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = variant.place(Path(folder))
        for number, batch in enumerate(batches):
            add(place, number, rows(*((5 * number + at, *one) for at, one in enumerate(batch))))
        if variant in MIRROR_VARIANTS:
            gone = pa.table({"id": pa.array(sorted(deleted), pa.int32())})
            place.bring(Change(SCHEMA.empty_table(), gone), batch_id=len(batches), schema=SCHEMA)
        wanted = [
            pa.Table.from_pylist([{"p": p, "code": code} for p, code in by_both], PARENT),
            pa.table({"p": pa.array(by_one, pa.int64())}),
        ]
        search = search_of(wanted)
        table = place.read()
        mask = [bool(search.matches(batch)[0]) for batch in table.to_batches(max_chunksize=1)]
        expected = table.filter(pa.array(mask, pa.bool_())).select(["code", "id"]).to_pylist()
        assert selected(place, search, "code", "id") == sorted((tuple(row.values()) for row in expected), key=repr)


@pytest.mark.parametrize("variant", MIRROR_VARIANTS)
def test_files_whose_statistics_exclude_the_values_are_not_read(tmp_path: Path, variant: Variant) -> None:
    place = variant.place(tmp_path)
    for number in range(3):
        add(place, number, rows(*((10 * number + at, 10 * number + at, "x") for at in range(10))))
    for file in tmp_path.rglob("*.parquet"):
        if pc.min(pq.read_table(file).column("p")).as_py() != 10:
            file.unlink()
    wanted = pa.table({"p": pa.array([15, None, 19], pa.int64())})
    assert selected(place, search_of([wanted]), "id") == [(15,), (19,)]
    with pytest.raises(OSError, match="parquet"):
        place.read()
