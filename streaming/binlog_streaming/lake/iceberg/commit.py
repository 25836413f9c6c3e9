"""One commit of an Iceberg table: `IcebergCommit(...).on(table)`; it is made on what was looked at, or not at all.

The catalog is asked to compare the snapshot and the columns with those that were looked at, in the way of every
catalog. Properties it cannot compare: a step is a snapshot always, so a table that had another step since is seen.
"""

from __future__ import annotations

import itertools
import uuid
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, ValidationError, ValidationException
from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntryStatus
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotSummaryCollector, Summary, update_snapshot_summaries
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    UpgradeFormatVersionUpdate,
    update_table_metadata,
)
from sqlalchemy.exc import SQLAlchemyError

from binlog_streaming.lake.iceberg.catalog import reading_replies
from binlog_streaming.lake.iceberg.data_files import remove_files
from binlog_streaming.lake.iceberg.manifests import ManifestWriter, entry_of, file_id, live_entries, manifests_of
from binlog_streaming.lake.iceberg.schema import with_schema
from binlog_streaming.lake.iceberg.snapshots import follows, sequence_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.io import OutputFile
    from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate

SNAPSHOT_PROPERTY = "binlog-stream.snapshotId"
"""Property of a table: the snapshot of the last step."""

MANIFESTS_MAX = 16
"""Manifests of one kind; every look at a table's files reads all of them, so they are joined when there are more."""

MANIFEST_BYTES = 8 << 20
"""Manifests from this size on are not joined."""


@dataclass(frozen=True, slots=True)
class IcebergCommit:
    """Changes of a table by one commit.

    Attributes:
        properties: Set with it.
        cleared: Properties that go, where they are there.
        schema: New columns; None: as they are.
        upgrades: The table, of version 2, is one of version 3 from now on, and its rows have numbers.
        snapshot: Whether there is a new snapshot: `removed` and `added` count only then.
        removed: Data files and delete files that go.
        added: Data files and delete files that come; they are removed when it fails.
        summary: Of the snapshot, beside its counts.
        is_step: `SNAPSHOT_PROPERTY` names the snapshot from now on.
        keeps_rows: The rows stay as they are; who follows the snapshots can pass over this one.
        is_blind: Nothing was looked up for the rows that it adds.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    cleared: tuple[str, ...] = ()
    schema: Schema | None = None
    upgrades: bool = False
    snapshot: bool = True
    removed: Sequence[DataFile] = ()
    added: Sequence[DataFile] = ()
    summary: Mapping[str, str] = field(default_factory=dict)
    is_step: bool = False
    keeps_rows: bool = False
    is_blind: bool = False

    def on(self, table: Table) -> Table:
        """Make the commit; that of a `WaitingTable` waits.

        Args:
            table: The table as it was looked at; not to be used any more when this fails.

        Where others only put the same rows into other files meanwhile, and leave those of this commit alone, it
        comes after their snapshots; one that only adds files comes after whatever they did to the rows.

        Raises:
            CommitFailedException: It is not any more what it was; or nobody knows whether the commit was made: a new
                look shows.
        """
        metadata = table.metadata
        updates: list[TableUpdate] = []
        if self.upgrades:
            updates.append(UpgradeFormatVersionUpdate.model_validate({"format-version": 3}))
            metadata = TableMetadataV3.model_construct(**dict(metadata) | {"format_version": 3, "next_row_id": 0})
        if self.schema is not None and self.schema.fields != metadata.schema().fields:
            updates += _schema_updates(metadata, self.schema)
            metadata = with_schema(metadata, self.schema)
        properties = dict(self.properties)
        new = _NewSnapshot(table, metadata, self)
        try:
            if self.snapshot:
                updates += new.updates()
                if self.is_step:
                    properties[SNAPSHOT_PROPERTY] = str(new.number)
        except BaseException:
            new.abandon()
            raise
        if properties:
            updates.append(SetPropertiesUpdate(updates=properties))
        cleared = [name for name in self.cleared if name in table.properties and name not in properties]
        if cleared:
            updates.append(RemovePropertiesUpdate(removals=cleared))
        requirements = _requirements(table.metadata)
        if isinstance(table, WaitingTable):
            return table.updated(self, requirements, tuple(updates))
        try:
            with reading_replies():
                response = table.catalog.commit_table(table, requirements, tuple(updates))
        except Exception as error:
            return self._after(error, table, new)
        return Table(table.name(), response.metadata, response.metadata_location, table.io, table.catalog, table.config)

    @property
    def is_plain(self) -> bool:
        """True if it changes rows, and nothing else that the table is looked at for."""
        return self.snapshot and self.schema is None and not self.upgrades

    @property
    def is_append(self) -> bool:
        """True if it means the same whatever others did to the rows."""
        return self.is_blind and _operation(self) is Operation.APPEND

    def _after(self, error: Exception, table: Table, new: _NewSnapshot) -> Table:
        # What became of a commit that the catalog gave an error for: a reply may be lost, or be that to a second try.
        try:
            now = table.catalog.load_table(table.name())
        except Exception:
            raise error from None  # files stay: it may be there; maintenance removes them later if not
        if self._is_in(now, new.number):
            return now
        if _is_final(error):
            may_follow = self.is_plain and isinstance(error, CommitFailedException)
            if may_follow and follows(table.metadata, now, self.removed, self.added, is_append=self.is_append):
                new.abandon_manifests()
                return self.on(now)
            new.abandon()
            if isinstance(error, CommitFailedException):
                raise CommitFailedException("the table was changed between the look and the write") from error
            raise error
        raise CommitFailedException(f"no reply tells whether the commit was made: {error}") from error

    def _is_in(self, table: Table, number: int) -> bool:
        if self.snapshot:
            return table.snapshot_by_id(number) is not None
        return self.properties.items() <= table.properties.items() and not set(self.cleared) & set(table.properties)


@dataclass(frozen=True, slots=True)
class WaitingUpdates:
    """Commits of a table that wait for those of other tables.

    Attributes:
        name: Of the table in the catalog.
        metadata: Of the table after them.
        base: `sequence_number` of the table before them.
        before: The table before them, without its history.
        commits: Themselves, in their order.
        requirements: Of the first of them: the table as it was looked at.
        updates: Of all of them, in their order.
    """

    name: tuple[str, ...]
    metadata: TableMetadata
    base: int
    before: TableMetadata
    commits: tuple[IcebergCommit, ...] = ()
    requirements: tuple[TableRequirement, ...] = ()
    updates: tuple[TableUpdate, ...] = ()


class WaitingTable(Table):
    """A table whose commits wait: the catalog is not told of them, `waiting` collects them.

    Args:
        table: As the catalog has it.
        waiting: By the place of the table; commits that wait already are in the table.
    """

    def __init__(self, table: Table, uri: str, waiting: dict[str, WaitingUpdates]) -> None:
        updates = waiting.get(uri)
        metadata = table.metadata if updates is None else updates.metadata
        super().__init__(table.name(), metadata, table.metadata_location, table.io, table.catalog, table.config)
        self._uri = uri
        self._waiting = waiting

    def updated(
        self, commit: IcebergCommit, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> WaitingTable:
        """The table after one more commit, which waits."""
        metadata = update_table_metadata(self.metadata, updates)
        before = self._waiting.get(self._uri)
        if before is None:
            slim = self.metadata.model_copy(update={"snapshots": [], "snapshot_log": [], "metadata_log": []})
            before = WaitingUpdates(self.name(), self.metadata, sequence_number(self), slim, (), requirements)
        self._waiting[self._uri] = replace(
            before, metadata=metadata, commits=(*before.commits, commit), updates=before.updates + updates
        )
        return WaitingTable(self, self._uri, self._waiting)


class _NewSnapshot:
    # The manifests of a commit, and what they contain.

    def __init__(self, table: Table, metadata: TableMetadata, commit: IcebergCommit) -> None:
        self.number = metadata.new_snapshot_id()
        self._table = table
        self._metadata = metadata
        self._commit = commit
        self._io = table.io
        self._locations = load_location_provider(metadata.location, metadata.properties)
        self._id = uuid.uuid4()
        self._count = itertools.count()
        self._paths: list[str] = []
        self._writer = ManifestWriter(metadata, self.number)

    def abandon_manifests(self) -> None:
        remove_files(self._io, self._paths)

    def abandon(self) -> None:
        self.abandon_manifests()
        remove_files(self._io, [file.file_path for file in self._commit.added])

    def updates(self) -> list[TableUpdate]:
        """Write the manifests; what the catalog is to do."""
        metadata = self._metadata
        manifests = [*self._added(), *self._kept()]
        output = self._output(f"snap-{self.number}-0-{self._id}.avro")
        rows = self._writer.write_list(output, manifests)
        snapshot = Snapshot.model_validate(
            {
                "snapshot-id": self.number,
                "parent-snapshot-id": metadata.current_snapshot_id,
                "manifest-list": output.location,
                "sequence-number": metadata.next_sequence_number(),
                "summary": self._summary(),
                "schema-id": metadata.current_schema_id,
                "first-row-id": None if rows is None else getattr(metadata, "next_row_id", None),
                "added-rows": rows,
            }
        )
        return [
            AddSnapshotUpdate(snapshot=snapshot),
            SetSnapshotRefUpdate.model_validate(
                {"ref-name": MAIN_BRANCH, "type": "branch", "snapshot-id": self.number}
            ),
        ]

    def _added(self) -> list[ManifestFile]:
        groups: dict[tuple[ManifestContent, int], list[ManifestEntry]] = defaultdict(list)
        for file in self._commit.added:
            entry = entry_of(file, ManifestEntryStatus.ADDED, self.number, None)
            groups[_content(file), file.spec_id].append(entry)
        return [self._write(*group, entries) for group, entries in groups.items()]

    def _kept(self) -> list[ManifestFile]:
        # Manifests of files that stay. One that names only what an earlier commit removed is of no use any more.
        removed = {file_id(file) for file in self._commit.removed}
        contents = {_content(file) for file in self._commit.removed}
        kept: list[ManifestFile] = []
        for manifest in manifests_of(self._metadata, self._io):
            if not (manifest.has_added_files() or manifest.has_existing_files()):
                continue
            entries = live_entries(self._io, manifest) if manifest.content in contents else []
            if any(file_id(entry.data_file) in removed for entry in entries):
                kept.append(self._without(manifest, entries, removed))
            else:
                kept.append(manifest)
        return self._joined(kept)

    def _without(
        self, manifest: ManifestFile, entries: Iterable[ManifestEntry], removed: set[tuple[str, int | None]]
    ) -> ManifestFile:
        written = []
        for entry in entries:
            is_removed = file_id(entry.data_file) in removed
            status = ManifestEntryStatus.DELETED if is_removed else ManifestEntryStatus.EXISTING
            written.append(entry_of(entry.data_file, status, self.number, entry))
        return self._write(manifest.content, manifest.partition_spec_id, written)

    def _joined(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        groups: dict[tuple[ManifestContent, int], list[ManifestFile]] = defaultdict(list)
        for manifest in manifests:
            # One of this commit has to stay: it names what was removed.
            if manifest.manifest_length < MANIFEST_BYTES and manifest.added_snapshot_id != self.number:
                groups[manifest.content, manifest.partition_spec_id].append(manifest)
        for (content, spec_id), group in groups.items():
            if len(group) <= MANIFESTS_MAX:
                continue
            entries = [
                entry_of(entry.data_file, ManifestEntryStatus.EXISTING, self.number, entry)
                for manifest in group
                for entry in live_entries(self._io, manifest)
            ]
            paths = {manifest.manifest_path for manifest in group}
            manifests = [manifest for manifest in manifests if manifest.manifest_path not in paths]
            manifests.append(self._write(content, spec_id, entries))
        return manifests

    def _write(self, content: ManifestContent, spec_id: int, entries: Sequence[ManifestEntry]) -> ManifestFile:
        output = self._output(f"{self._id}-m{next(self._count)}.avro")
        return self._writer.write(output, content, spec_id, entries)

    def _output(self, name: str) -> OutputFile:
        path = self._locations.new_metadata_location(name)
        self._paths.append(path)
        return self._io.new_output(path)

    def _summary(self) -> Summary:
        commit, metadata = self._commit, self._metadata
        limit = TableProperties.WRITE_PARTITION_SUMMARY_LIMIT_DEFAULT
        collector = SnapshotSummaryCollector(
            int(metadata.properties.get(TableProperties.WRITE_PARTITION_SUMMARY_LIMIT, limit))
        )
        specs, schema = metadata.specs(), metadata.schema()
        for file in commit.added:
            collector.add_file(file, schema, specs[file.spec_id])
        for file in commit.removed:
            collector.remove_file(file, schema, specs[file.spec_id])
        previous = metadata.current_snapshot()
        # The library counts for some operations only.
        counted = update_snapshot_summaries(
            Summary(operation=Operation.OVERWRITE, **collector.build(), **commit.summary),
            None if previous is None else previous.summary,
        )
        return Summary(operation=_operation(commit), **counted.additional_properties)


def _operation(commit: IcebergCommit) -> Operation:
    if commit.keeps_rows:
        return Operation.REPLACE
    is_append = not commit.removed and all(file.content == DataFileContent.DATA for file in commit.added)
    return Operation.APPEND if is_append else Operation.OVERWRITE


def _content(file: DataFile) -> ManifestContent:
    return ManifestContent.DATA if file.content == DataFileContent.DATA else ManifestContent.DELETES


def _requirements(metadata: TableMetadata) -> tuple[TableRequirement, ...]:
    snapshot = metadata.snapshot_by_name(MAIN_BRANCH)
    asked = {"type": "assert-ref-snapshot-id", "ref": MAIN_BRANCH}
    return (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertRefSnapshotId.model_validate(asked | {"snapshot-id": None if snapshot is None else snapshot.snapshot_id}),
        AssertCurrentSchemaId.model_validate({"current-schema-id": metadata.current_schema_id}),
        AssertDefaultSpecId.model_validate({"default-spec-id": metadata.default_spec_id}),
    )


def _schema_updates(metadata: TableMetadata, schema: Schema) -> list[TableUpdate]:
    if any(known.schema_id == schema.schema_id for known in metadata.schemas):
        return [SetCurrentSchemaUpdate.model_validate({"schema-id": schema.schema_id})]
    return [AddSchemaUpdate(schema=schema), SetCurrentSchemaUpdate()]


def _is_final(error: Exception) -> bool:
    # Whether a commit that is not there now cannot come any more. Errors of the disk have a number, those of a
    # connection have none.
    if isinstance(error, (CommitFailedException, ValidationError, ValidationException, SQLAlchemyError)):
        return True
    return isinstance(error, OSError) and error.errno is not None
