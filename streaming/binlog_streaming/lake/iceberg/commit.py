"""One commit of an Iceberg table: `Commit(...).on(table)`; it is made on what was looked at, or not at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.table import Transaction
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AddSchemaUpdate, AssertTableUUID, SetCurrentSchemaUpdate, SetSnapshotRefUpdate
from pyiceberg.table.update.snapshot import _ManifestMergeManager, _MergeAppendFiles, _OverwriteFiles

from binlog_streaming.lake.iceberg.files import remove_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

    Producer = _OverwriteFiles | _MergeAppendFiles

SNAPSHOT_PROPERTY = "binlog-stream.snapshotId"
"""Property of a table: the snapshot of the last step that made one."""

MANIFESTS_MAX = 16
"""Manifests of a table; every look at its files reads all of them, so they are joined when there are more."""

MANIFEST_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Commit:
    """What changes in a table.

    Attributes:
        properties: Set with it.
        cleared: Properties that go, where they are there.
        schema: New columns; None: as they are.
        snapshot: Whether there is a new snapshot: `replaced` and `added` count only then.
        replaced: Files that go.
        added: Files that come; they are removed when it fails.
        summary: What the snapshot says beside its counts.
        is_step: `SNAPSHOT_PROPERTY` names the snapshot from now on.
        keeps_rows: The rows stay as they are; who follows the snapshots can pass over this one.
        staged: A snapshot that is in the table's metadata, made by another writer, and becomes the current one.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    cleared: tuple[str, ...] = ()
    schema: Schema | None = None
    snapshot: bool = True
    replaced: Sequence[DataFile] = ()
    added: Sequence[DataFile] = ()
    summary: Mapping[str, str] = field(default_factory=dict)
    is_step: bool = False
    keeps_rows: bool = False
    staged: int | None = None

    def on(self, table: Table) -> Table:
        """Make the commit.

        Args:
            table: The table as it was looked at; not to be used any more when this fails.

        Raises:
            CommitFailedException: It is not any more what it was.
        """
        transaction = _OneTry(table)
        transaction._stage((), (_Unchanged.since(table.metadata),))
        if self.schema is not None and self.schema.fields != table.metadata.schema().fields:
            transaction._stage(_schema_updates(table.metadata, self.schema))
        if self.staged is not None:
            transaction._stage((_current_snapshot(self.staged),))
        producer: Producer | None = None
        try:
            said = dict(self.properties)
            if self.staged is not None and self.is_step:
                said[SNAPSHOT_PROPERTY] = str(self.staged)
            if self.snapshot:
                producer = self._produce(transaction)
                if self.is_step:
                    said[SNAPSHOT_PROPERTY] = str(producer.snapshot_id)
            if said:
                transaction.set_properties(said)
            cleared = [name for name in self.cleared if name in table.properties and name not in said]
            if cleared:
                transaction.remove_properties(*cleared)
            return transaction.commit_transaction()
        except Exception as error:
            if not _may_have_landed(table, producer, error):
                self._clean(table, producer)
            raise

    def _produce(self, transaction: Transaction) -> Producer:
        make: type[Producer] = _Rewrite if self.replaced else _MergeAppendFiles
        operation = Operation.OVERWRITE if self.replaced else Operation.APPEND
        if self.keeps_rows:
            operation = Operation.REPLACE
        producer = make(operation, transaction, transaction._table.io, snapshot_properties=dict(self.summary))
        for file in self.replaced:
            producer.delete_data_file(file)
        for file in self.added:
            producer.append_data_file(file)
        try:
            producer.commit()
        except Exception:
            producer._clean_all_uncommitted()
            raise
        return producer

    def _clean(self, table: Table, producer: Producer | None) -> None:
        if producer is not None:
            producer._clean_all_uncommitted()
        remove_files(table.io, [file.file_path for file in self.added])


def _schema_updates(metadata: TableMetadata, schema: Schema) -> tuple[TableUpdate, ...]:
    if any(one.schema_id == schema.schema_id for one in metadata.schemas):
        return (SetCurrentSchemaUpdate.model_validate({"schema-id": schema.schema_id}),)
    return (AddSchemaUpdate(schema=schema), SetCurrentSchemaUpdate())


def _current_snapshot(snapshot_id: int) -> TableUpdate:
    return SetSnapshotRefUpdate.model_validate({"ref-name": MAIN_BRANCH, "type": "branch", "snapshot-id": snapshot_id})


class _OneTry(Transaction):
    # The library repeats a commit on top of what somebody else has committed meanwhile: that would bring a batch in
    # twice, when that was a dying process of this job.
    def _rebuild_snapshot_updates(self) -> None:
        raise CommitFailedException("the table was changed between the look and the write")


class _Unchanged(AssertTableUUID):
    # Of the same type as what it derives from, because that is what the library takes; the catalog asks `validate` of
    # the table that it then swaps for the new one in one step.
    type: Literal["assert-table-uuid"] = "assert-table-uuid"
    snapshot_id: int | None
    schema_id: int
    properties: dict[str, str]

    @classmethod
    def since(cls, metadata: TableMetadata) -> _Unchanged:
        return cls(
            uuid=metadata.table_uuid,
            snapshot_id=metadata.current_snapshot_id,
            schema_id=metadata.current_schema_id,
            properties=dict(metadata.properties),
        )

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        super().validate(base_metadata)
        if base_metadata is None or self != _Unchanged.since(base_metadata):
            raise CommitFailedException("the table was changed between the look and the write")


class _Rewrite(_OverwriteFiles):
    # The library's keeps a manifest for ever of which no file lives any more, and joins none: with every merge of a
    # mirror there would be two more to be read by the next one.
    def _existing_manifests(self) -> list[ManifestFile]:
        return [
            manifest
            for manifest in super()._existing_manifests()
            if manifest.has_added_files() or manifest.has_existing_files()
        ]

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        manager = _ManifestMergeManager(
            target_size_bytes=MANIFEST_BYTES,
            min_count_to_merge=MANIFESTS_MAX,
            merge_enabled=True,
            snapshot_producer=self,
        )
        return manager.merge_manifests(manifests)

    def _summary(self, snapshot_properties: Mapping[str, str] | None = None) -> Summary:
        # The library counts for three operations only.
        operation, self._operation = self._operation, Operation.OVERWRITE
        try:
            summary = super()._summary(dict(snapshot_properties or {}))
        finally:
            self._operation = operation
        return Summary(operation=operation, **summary.additional_properties)


def _may_have_landed(table: Table, producer: Producer | None, error: Exception) -> bool:
    # Whether somebody may refer to the files of a commit that failed.
    if isinstance(error, (CommitFailedException, ValidationException)) or producer is None:
        return False
    try:
        table.refresh()
    except Exception:
        return True  # the first error is the one to be told; maintenance removes the files later
    return table.snapshot_by_id(producer.snapshot_id) is not None
