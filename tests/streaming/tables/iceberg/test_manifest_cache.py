"""Manifests are read once: what is kept is what they hold, and it is bounded."""

from __future__ import annotations

import copy
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyiceberg")

from binlog_streaming.lake.iceberg import manifests
from binlog_streaming.lake.iceberg.manifests import (
    _ENTRY_FIRST_ROW_ID,
    FIRST_ROW_ID,
    ManifestCache,
    manifests_of,
    read_entries,
)
from binlog_streaming.lake.iceberg.target import IcebergTarget
from binlog_streaming.settings import Merge, Sink, TableFormat
from tests.streaming.tables.lake.sink_cases import INT_KEY, MIRROR_COMMIT_ID, change_of, numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestEntry, ManifestFile

MANIFESTS = 6
"""Of the table: each has one file, with statistics of two columns."""
COLUMNS_OF_ONE = 6


@pytest.fixture(scope="module")
def sink(tmp_path_factory: pytest.TempPathFactory) -> Sink:
    return Sink(directory=str(tmp_path_factory.mktemp("tables")), format=TableFormat.ICEBERG, merge=Merge.MARK)


def look(sink: Sink) -> IcebergTarget:
    return IcebergTarget.at(sink, f"{sink.directory}/shop/orders")


@pytest.fixture(scope="module")
def table(sink: Sink) -> Iterator[IcebergTarget]:
    with closing(look(sink)) as target:
        target.create(INT_KEY, MIRROR_COMMIT_ID)
        for batch_id in range(MANIFESTS):
            target.append(
                numbers(2 * batch_id, 2 * batch_id + 1).to_reader(), replace(MIRROR_COMMIT_ID, batch_id=batch_id)
            )
        yield target


def values_of(entry: ManifestEntry) -> list[object]:
    """All that there is to say of a file; files are equal to the library when their paths are."""
    file = entry.data_file
    said = [file[place] for place in range(len(file))]
    return [*said, file.spec_id, entry.status, entry.snapshot_id, entry.sequence_number, entry.file_sequence_number]


@given(
    columns_max=st.integers(0, (MANIFESTS + 1) * COLUMNS_OF_ONE),
    asked=st.lists(st.integers(0, MANIFESTS - 1), max_size=20),
)
def test_what_is_kept_is_what_was_written_and_bounded(table: IcebergTarget, columns_max: int, asked: list[int]) -> None:
    """Whatever is asked for in whatever order; what was asked for last is there still."""
    metadata, io = table.table.metadata, table.table.io
    manifests = manifests_of(metadata, io)
    assert len(manifests) == MANIFESTS
    kept = ManifestCache(columns_max)
    last: list[int] = []
    for number in asked:
        found = kept.live_entries(io, manifests[number])
        assert list(map(values_of, found)) == list(map(values_of, read_entries(io, manifests[number])))
        last = [*(one for one in last if one != number), number][-(columns_max // COLUMNS_OF_ONE) :]
        if columns_max < COLUMNS_OF_ONE:
            last = []
        assert [key[0] for key in kept._kept] == [manifests[one].manifest_path for one in last]
        assert kept._columns == len(last) * COLUMNS_OF_ONE <= columns_max


def test_a_list_that_numbers_rows_otherwise_counts(table: IcebergTarget) -> None:
    """As when a table gets format version 3: the manifest is the same one, its rows have numbers from now on."""
    metadata, io = table.table.metadata, table.table.io
    kept, manifest = ManifestCache(1000), manifests_of(metadata, io)[0]
    (before,) = kept.live_entries(io, manifest)
    numbered = copy.deepcopy(manifest)
    numbered[_ENTRY_FIRST_ROW_ID] = 700
    (after,) = kept.live_entries(io, numbered)
    assert (before.data_file[FIRST_ROW_ID], after.data_file[FIRST_ROW_ID]) == (None, 700)


def test_looks_read_new_manifests_alone(sink: Sink, table: IcebergTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(io: FileIO, manifest: ManifestFile) -> list[ManifestEntry]:
        read.append(manifest.manifest_path)
        return read_entries(io, manifest)

    assert table.read().read_all().num_rows == 2 * MANIFESTS
    monkeypatch.setattr(manifests, "read_entries", counted)
    for batch_id in range(MANIFESTS, MANIFESTS + 3):
        with closing(look(sink)) as target:
            before = set(read)
            change = change_of([(0, f"{batch_id}"), (100 + batch_id, "n")], [])
            target.merge(change, replace(MIRROR_COMMIT_ID, batch_id=batch_id))
            # At most those of the step before: its data files, and its delete files.
            assert len(set(read) - before) <= 2
    assert len(read) == len(set(read)) > 2
    with closing(look(sink)) as target:
        assert target.read().read_all().num_rows == 2 * MANIFESTS + 3
