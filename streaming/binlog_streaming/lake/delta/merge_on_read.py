"""A `Change` into a Delta table without writing its files anew: `Marking` marks rows in deletion vectors, and appends.

Of files that may hold a changed key the key's columns are read, and no others; the rows that are superseded go into
deletion vectors, and new images into a new file: it costs what changes, and a look at keys. Only rows that keep values
of some columns are read as a whole. All of it is one commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import CommitFailedError
from msgspec.structs import replace

from binlog_streaming.lake.conforming import conformed_table
from binlog_streaming.lake.delta.data_files import DataFiles, key_batches, recorded_count, rows_at
from binlog_streaming.lake.delta.log import (
    Commit,
    Protocol,
    milliseconds,
    read_log,
    statistics_of,
    statistics_text,
    sync_folder,
)
from binlog_streaming.lake.delta.vectors import VectorFile, read_vector
from binlog_streaming.lake.key_lookup import KeyLookup
from binlog_streaming.lake.key_ranges import key_cover, meeting
from binlog_streaming.lake.row_values import one_array
from binlog_streaming.lake.steps import Step, reached

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from binlog_streaming.lake.change import Change
    from binlog_streaming.lake.delta.log import Add, Metadata, TableLog

    Indices = NDArray[np.int64]

VECTORS = "deletionVectors"
ENABLED = "delta.enableDeletionVectors"
NAMED_FEATURES = 3, 7
"""Versions of readers and writers from which on a protocol names its features."""

_IMPLIED_WRITER = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
}
_IMPLIED_READER = {2: ("columnMapping",)}
"""Features that a version, and every later one, has without naming them."""


def markable_log(folder: str, version: int) -> TableLog | None:
    """The log of a table whose rows may be marked here.

    None: it uses something that this knows nothing of: partitions, a change data feed, checkpoints of the second
    kind, or files of other tables.
    """
    log = read_log(folder, version)
    if log is None or log.metadata.partition_columns or "v2Checkpoint" in (log.protocol.writer_features or ()):
        return None
    if log.metadata.configuration.get("delta.enableChangeDataFeed") == "true":
        return None
    return None if any(":" in add.place or add.place.startswith("/") for add in log.files.values()) else log


def upgrade(log: TableLog) -> list[tuple[str, object]]:
    """What a table's log has to say before its files may have deletion vectors."""
    actions: list[tuple[str, object]] = []
    readers, writers = features(log.protocol)
    if VECTORS not in readers or VECTORS not in writers:
        protocol = Protocol(
            min_reader_version=NAMED_FEATURES[0],
            min_writer_version=NAMED_FEATURES[1],
            reader_features=tuple(sorted({*readers, VECTORS})),
            writer_features=tuple(sorted({*writers, VECTORS})),
        )
        actions.append(("protocol", protocol))
    if log.metadata.configuration.get(ENABLED) != "true":
        actions.append(("metaData", with_properties(log.metadata, {ENABLED: "true"})))
    return actions


def features(protocol: Protocol) -> tuple[set[str], set[str]]:
    """Features for readers and for writers, those included that a version has without naming them."""
    readers, writers = set(protocol.reader_features or ()), set(protocol.writer_features or ())
    if protocol.min_writer_version < NAMED_FEATURES[1]:
        writers.update(*(names for version, names in _IMPLIED_WRITER.items() if version <= protocol.min_writer_version))
    if protocol.min_reader_version < NAMED_FEATURES[0]:
        readers.update(*(names for version, names in _IMPLIED_READER.items() if version <= protocol.min_reader_version))
    return readers, writers


def with_properties(metadata: Metadata, said: Mapping[str, str]) -> Metadata:
    """*metadata* with more properties."""
    return replace(metadata, configuration=metadata.configuration | dict(said))


def make_commit(folder: str, version: int, actions: list[tuple[str, object]], files: DataFiles | None = None) -> None:
    """Make *actions* the commit of *version*.

    Args:
        folder: The table.
        version: Of the commit.
        actions: Names and contents; that of `commitInfo` is first.
        files: What was written for it; removed when the commit is not made.

    Raises:
        CommitFailedError: Somebody else made that version.
    """
    try:
        sync_folder(Path(folder))
        staged = Commit(folder, actions)
    except BaseException:
        if files is not None:
            files.abandon()
        raise
    # An error in here does not say that the commit is not there: then the files have to stay.
    if not staged.publish(version):
        if files is not None:
            files.abandon()
        raise CommitFailedError(f"version {version} of {folder} is there already: another transaction was first")


def information(operation: str, said: Mapping[str, object] | None = None) -> tuple[str, object]:
    """What a commit says of itself: the name that Delta has for what it does, and *said*."""
    about = {"timestamp": milliseconds(), "operation": operation, "operationParameters": {}}
    return "commitInfo", {**about, "engineInfo": "binlog-stream", **(said or {})}


@dataclass(frozen=True, slots=True)
class _Overlay:
    # Rows that take the place of others, or of some of their columns.
    first: int  # among all keys
    rows: pa.Table
    present: pa.Table
    kept: pa.Schema  # columns of the old rows that are looked at: at least one

    @property
    def behind(self) -> int:
        return self.first + int(self.rows.num_rows)

    def over(self, old: pa.RecordBatch, numbers: Indices, schema: pa.Schema) -> pa.Table:
        # *numbers*: for each old row, that of its new one.
        at = pa.array(numbers)
        columns = []
        for field in schema:
            if field.name not in self.rows.column_names:
                columns.append(old.column(field.name))
                continue
            value = one_array(self.rows.column(field.name).take(at))
            if field.name in self.present.column_names:
                flags = one_array(self.present.column(field.name).take(at))
                value = pc.if_else(flags, value, old.column(field.name))
            columns.append(value)
        return pa.table(columns, schema=schema)


class Marking:
    """One change on its way into a table.

    Args:
        folder: The table.
        log: What it holds.
        schema: Its columns.
        file_size: Of new files, in bytes.
    """

    def __init__(self, folder: str, log: TableLog, schema: pa.Schema, *, file_size: int) -> None:
        self._folder = folder
        self._log = log
        self._schema = schema
        self._files = DataFiles(folder, schema, file_size=file_size)
        self._vectors = VectorFile(folder)
        self._files.paths.append(self._vectors.path)
        self._actions: list[tuple[str, object]] = []

    def bring(self, change: Change, keys: Sequence[str], said: Mapping[str, object], transaction: object) -> bool:
        """Bring *change* in, in one commit; False: there was nothing to change.

        Args:
            change: At least one key.
            keys: Names of the key columns.
            said: What the commit says of itself.
            transaction: The application transaction.
        """
        try:
            self._mark(change, keys)
            if not self._actions:
                self._files.abandon()
                return False
            self._vectors.write()
            reached(Step.FILES_WRITTEN)
        except BaseException:
            self._files.abandon()
            raise
        head = [information("MERGE", said), *upgrade(self._log), ("txn", transaction)]
        make_commit(self._folder, self._log.version + 1, [*head, *self._actions], self._files)
        return True

    def _mark(self, change: Change, keys: Sequence[str]) -> None:
        key_schema = pa.schema([self._schema.field(name) for name in keys])
        patches = self._typed(change.patches.rows) if change.patches is not None else None
        upserts = self._typed(change.upserts)
        tables = [upserts, change.deletes, *([] if patches is None else [patches])]
        changed = pa.concat_tables(conformed_table(table.select(keys), key_schema) for table in tables)
        overlays = []
        is_partial = set(upserts.column_names) < set(self._schema.names)
        if is_partial:
            overlays.append(self._overlay(0, upserts, pa.table({})))
        if patches is not None and change.patches is not None:
            overlays.append(self._overlay(changed.num_rows - patches.num_rows, patches, change.patches.present))
        found = np.zeros(changed.num_rows, np.bool_)
        lookup = KeyLookup(changed)
        wanted = key_schema if change.current is None else key_schema.append(self._schema.field(change.current))
        for add in files_that_may_hold(self._log, changed):
            rows, numbers = self._found(add, lookup, wanted, change.current)
            if not len(rows):
                continue
            marked = read_vector(self._folder, add.deletion_vector)
            left = ~np.isin(rows, marked, assume_unique=True)
            rows, numbers = rows[left], numbers[left]
            if len(rows):
                found[numbers] = True
                self._write_overlaid(add, rows, numbers, overlays)
                self._supersede(add, np.union1d(rows, marked))
        # Of upserts that lack columns, those with an old row are written by now.
        new = upserts.filter(pa.array(~found[: upserts.num_rows])) if is_partial else upserts
        self._files.write(conformed_table(new, self._schema))
        if change.appends is not None:
            self._files.write(conformed_table(change.appends, self._schema))
        self._actions += [("add", add) for add in self._files.close()]

    def _typed(self, rows: pa.Table) -> pa.Table:
        return conformed_table(rows, pa.schema([self._schema.field(name) for name in rows.column_names]))

    def _overlay(self, first: int, rows: pa.Table, present: pa.Table) -> _Overlay:
        written = set(rows.column_names) - set(present.column_names)
        kept = [field for field in self._schema if field.name not in written]
        return _Overlay(first, rows, present, pa.schema(kept or [self._schema.field(0)]))

    def _found(self, add: Add, lookup: KeyLookup, schema: pa.Schema, current: str | None) -> tuple[Indices, Indices]:
        # Rows of a file that hold one of the keys, and the numbers of the keys.
        found: list[tuple[Indices, Indices]] = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        for first, batch in key_batches(self._folder, add, schema):
            columns = batch.columns if current is None else batch.columns[:-1]
            rows, numbers = lookup.find(columns)
            if current is not None:
                holds = pc.fill_null(batch.column(batch.num_columns - 1), False).to_numpy(zero_copy_only=False)[rows]
                rows, numbers = rows[holds], numbers[holds]
            found.append((rows + first, numbers))
        rows, numbers = (np.concatenate(part) for part in zip(*found, strict=True))
        return rows, numbers

    def _write_overlaid(self, add: Add, rows: Indices, numbers: Indices, overlays: Sequence[_Overlay]) -> None:
        for overlay in overlays:
            own = np.flatnonzero((numbers >= overlay.first) & (numbers < overlay.behind))
            for places, old in rows_at(self._folder, add, rows[own], overlay.kept):
                self._files.write(overlay.over(old, numbers[own[places]] - overlay.first, self._schema))

    def _supersede(self, add: Add, marked: Indices) -> None:
        self._actions.append(("remove", add.removed(data_change=True)))
        statistics, count = statistics_of(add), recorded_count(self._folder, add)
        if len(marked) == count:
            return
        # Least and greatest values may be those of marked rows; how many there are must be said beside a vector.
        text = statistics_text(statistics | {"numRecords": count, "tightBounds": False})
        vector = self._vectors.add(marked)
        self._actions.append(("add", replace(add, deletion_vector=vector, stats=text, data_change=True)))


def files_that_may_hold(log: TableLog, keys: pa.Table) -> Iterator[Add]:
    """Files that, by their statistics, may hold one of *keys*."""
    ranges = {name: key_cover(keys.column(name)) for name in keys.column_names}
    for add in log.files.values():
        statistics = statistics_of(add)
        least, greatest = statistics.get("minValues"), statistics.get("maxValues")
        assert isinstance(least, dict | None)
        assert isinstance(greatest, dict | None)
        for name, cover in ranges.items():
            low, high = (least or {}).get(name), (greatest or {}).get(name)
            if cover is None or not isinstance(low, int) or not isinstance(high, int):
                continue
            if not meeting(cover, np.array([low]), np.array([high]))[0]:
                break
        else:
            yield add
