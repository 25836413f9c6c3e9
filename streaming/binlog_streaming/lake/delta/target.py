"""One Delta table as a target: `DeltaTarget.at`; a step is one commit of our own that carries batch and step."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError

from binlog_connector.crash_points import reached
from binlog_format.errors import TableError
from binlog_streaming.lake.commit_id import (
    BATCH_KEY,
    COST_KEY,
    GTID_POSITION_KEY,
    LAST_CHANGE_KEY,
    MODE_PROPERTY,
    STEP_KEY,
    Applied,
    CommitId,
    WriteCost,
    write_cost,
)
from binlog_streaming.lake.delta.actions import Metadata, statistics_of
from binlog_streaming.lake.delta.checkpoints import commit_name
from binlog_streaming.lake.delta.columns import created, delta_schema, widens, with_columns
from binlog_streaming.lake.delta.commit import DeltaTableWrite
from binlog_streaming.lake.delta.features import FEED, check_changed, check_features, upgrade, with_properties
from binlog_streaming.lake.delta.file_reader import DeltaFileReader
from binlog_streaming.lake.delta.generated import generated_columns, identity_columns
from binlog_streaming.lake.delta.iceberg_compat import forbids_vectors
from binlog_streaming.lake.delta.log import (
    conflict,
    empty_log,
    learn_cost,
    look_back,
    make_commit,
    newest_log,
    recent_information,
)
from binlog_streaming.lake.delta.maintenance import maintain, retention_properties, table_upgrade
from binlog_streaming.lake.delta.managed_store import ManagedStore
from binlog_streaming.lake.delta.mapping import file_columns, row_id_properties
from binlog_streaming.lake.evolution import cast_rows, changed_rows, variant_fields, with_identity, without_identity
from binlog_streaming.lake.files_target import FilesTarget
from binlog_streaming.lake.store import looking_at
from binlog_streaming.lake.table_places import store_at
from binlog_streaming.lake.target import CrashPoint, RecordedFile, Target, Upgrade
from binlog_streaming.settings import Json, Merge, Mode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from binlog_streaming.lake.delta.log import Named, TableLog
    from binlog_streaming.lake.evolution import SchemaChange
    from binlog_streaming.lake.store import Store
    from binlog_streaming.settings import Sink

HISTORY_MAX = 16
"""Commits among which the last step's own is looked for; maintenance makes a few after it."""

GTIDS_HISTORY_MAX = 64
"""Commits among which the GTIDs of the last step are looked for."""

STEP_BITS = 32
"""The version of an application transaction is one 64-bit number: batch and step, the batch above."""


@dataclass(slots=True)
class DeltaTarget(FilesTarget[DeltaTableWrite]):
    """A target table as it is now."""

    write_errors: ClassVar[tuple[type[Exception], ...]] = (DeltaError,)

    uri: str
    store: Store
    log: TableLog
    sink: Sink

    @classmethod
    def at(cls, sink: Sink, uri: str) -> DeltaTarget:
        """See `Target`."""
        with looking_at(uri, DeltaError, access="sink.storage, sink.catalog: the access to it"):
            store = ManagedStore.at(sink, uri) if sink.catalog else store_at(uri, sink.storage)
            log = newest_log(store) or empty_log()
        if log.is_there:
            check_features(uri, log, is_managed=isinstance(store, ManagedStore))
        return cls(uri, store, log, sink)

    def properties(self) -> Mapping[str, str] | None:
        """See `Target`."""
        return self.log.metadata.configuration if self.log.is_there else None

    def applied(self, commit_id: CommitId) -> Applied | None:
        """See `Target`."""
        log, application = self.log, _application(commit_id)
        if (lost := log.lost.get(application)) is not None:
            raise _copied_back(self.uri, commit_id, _place_of(lost))
        version = log.transactions.get(application)
        if version is None:
            return None
        place = _place_of(version)
        look_back(self.store, log, application)
        if log.history.is_set_back(application):
            raise _set_back(self.uri, commit_id, place, log.history.steps[application])
        return Applied(*place, self._last_change(place) if place == commit_id.place else None)

    def _last_change(self, place: tuple[int, int]) -> str | None:
        batch_id, step = map(str, place)
        for recorded in recent_information(self.store, self.log, HISTORY_MAX):
            if recorded.get(BATCH_KEY) == batch_id and recorded.get(STEP_KEY) == step:
                return str(recorded.get(LAST_CHANGE_KEY))
        return None

    def gtid_positions(self) -> list[str]:
        """See `Target`; a replay records them in the properties, a step in its commit."""
        recorded = Target.gtid_positions(self)
        for commit in recent_information(self.store, self.log, GTIDS_HISTORY_MAX):
            step = _step_of_commit(commit)
            if step is not None:
                return [*recorded, step.get(GTID_POSITION_KEY, "")]
        return recorded

    def sync(self) -> None:
        """See `Target`."""
        self.store.sync(commit_name(self.log.version))

    def version(self) -> str | None:
        """See `Target`."""
        return str(self.log.version) if self.log.is_there else None

    def schema(self) -> pa.Schema:
        """See `Target`."""
        return self.log.metadata.schema

    def stored_schema(self, schema: pa.Schema) -> pa.Schema:
        """See `Target`."""
        columns = variant_fields(schema) if self.sink.json is Json.VARIANT else schema
        return pa.schema(delta_schema(columns))

    def create(self, schema: pa.Schema, commit_id: CommitId) -> None:
        """See `Target`. Raises `CommitFailedError`: somebody else was faster."""
        if self.log.is_there:
            return
        configuration = {**commit_id.table_properties(), **(row_id_properties() if self.sink.row_ids else {})}
        if not isinstance(self.store, ManagedStore):  # a catalog maintains its tables itself
            configuration["delta.targetFileSize"] = str(self.sink.target_file_size)
            configuration |= retention_properties(self.sink.retention_hours)
        # A key is looked up by its text.
        columns = [
            schema.field(stored.name) if stored.name in commit_id.keys else stored
            for stored in self.stored_schema(schema)
        ]
        recorded = created(
            pa.schema(columns),
            name=commit_id.source_table,
            description=commit_id.description,
            configuration=configuration,
            partition_by=commit_id.partition_by,
        )
        if isinstance(self.store, ManagedStore):
            recorded = self.store.as_new(recorded)
        make_commit(self.store, self.log, "CREATE TABLE", recorded)
        if self.sink.merge is Merge.MARK and commit_id.mode is not Mode.CHANGELOG and (actions := upgrade(self.log)):
            make_commit(self.store, self.log, "SET TBLPROPERTIES", actions)
        reached(CrashPoint.CREATED)

    def set_properties(self, commit_id: CommitId, *, recorded: Mapping[str, str] | None = None) -> None:
        """See `Target`. Raises `CommitFailedError`: the table is not any more what it was when it was looked at."""
        log = self.log
        wanted = commit_id.table_properties() | dict(recorded or {})
        if not wanted.items() <= log.metadata.configuration.items():
            actions = [("metaData", with_properties(log.metadata, wanted))]
            make_commit(self.store, log, "SET TBLPROPERTIES", actions)

    @property
    def is_divisible(self) -> bool:
        """See `Target`."""
        return not identity_columns(self.log.metadata)

    @property
    def supports_late_dedup(self) -> bool:
        """See `Target`."""
        return self._merge_kind is not Merge.REWRITE and self.log.metadata.configuration.get(FEED) != "true"

    @property
    def _merge_kind(self) -> Merge:
        metadata = self.log.metadata
        is_plain = metadata.configuration.get(MODE_PROPERTY) == Mode.CHANGELOG or forbids_vectors(metadata)
        return Merge.REWRITE if is_plain else self.sink.merge

    def evolve(self, change: SchemaChange, commit_id: CommitId) -> None:
        """See `Target`.

        Columns that are only added cost nothing, as do other names in a table with column mapping, and wider types in
        one with type widening; anything else writes the table anew.
        """
        schema = self.stored_schema(change.applied_to(self.schema()))
        metadata = self.log.metadata
        names_cost = bool(change.renamed) and not metadata.is_mapped
        types_cost = bool(change.retyped) and (bool(change.renamed) or not widens(self.log, schema, change.retyped))
        if names_cost or types_cost or change.filled or change.converted:
            # What is generated is made anew.
            made = [change.renamed.get(column.name, column.name) for column in generated_columns(metadata)[0]]
            fills = {name: pa.scalar(None, pa.null()) for name in made if name not in change.converted}
            whole = replace(change, filled=fills | dict(change.filled))
            self._overwrite(changed_rows(self.identified_rows(), whole, schema), commit_id, change.renamed)
            return
        recorded = self._recorded(schema, change.renamed)
        with self._begin(recorded) as write:
            operation = "CHANGE COLUMN" if change.retyped else "ADD COLUMN"
            self._commit(write, commit_id, "RENAME COLUMN" if change.renamed else operation)

    def read(self) -> pa.RecordBatchReader:
        """See `Target`."""
        return self._rows(identified=False)

    def identified_rows(self) -> pa.RecordBatchReader:
        """See `Target`."""
        return self._rows(identified=self.log.metadata.keeps_row_ids)

    def _rows(self, *, identified: bool) -> pa.RecordBatchReader:
        schema, files = self.schema(), list(self.log.files.values())
        reader = DeltaFileReader(self.store, file_columns(self.log.metadata))
        batches = (rows for add in files for rows in reader.live_rows(add, schema, identified=identified))
        return pa.RecordBatchReader.from_batches(with_identity(schema) if identified else schema, batches)

    def recorded_files(self) -> Iterator[RecordedFile]:
        """See `Target`."""
        for add in self.log.files.values():
            count = statistics_of(add).get("numRecords")
            rows = count if isinstance(count, int) else None
            yield RecordedFile(add.place, add.size, rows, partial(self.store.opened, add.place))

    def replace(self, rows: pa.RecordBatchReader, commit_id: CommitId) -> None:
        """See `Target`."""
        schema = with_identity(self.stored_schema(without_identity(rows.schema)), rows.schema)
        self._overwrite(cast_rows(rows, schema), commit_id, {})

    def _overwrite(self, rows: pa.RecordBatchReader, commit_id: CommitId, renamed: Mapping[str, str]) -> None:
        log, schema = self.log, without_identity(rows.schema)
        recorded = self._recorded(schema, renamed, is_rewritten=True)
        with self._begin(recorded) as write:
            for add in log.files.values():
                write.remove(add)
            write.write(rows)
            self._commit(write, commit_id)

    def _recorded(self, schema: pa.Schema, renamed: Mapping[str, str], *, is_rewritten: bool = False) -> list[Named]:
        log = self.log
        recorded = with_columns(log, schema, renamed, is_rewritten=is_rewritten)
        for _, action in recorded:
            if isinstance(action, Metadata):
                check_changed(self.uri, log.metadata, action, renamed)
        return recorded

    def upgrade(self, sink: Sink, *, is_dry: bool) -> Sequence[Upgrade]:
        """See `Target`. Raises `CommitFailedError`: the table is not any more what it was when it was looked at."""
        upgrades, actions = table_upgrade(self.uri, self.store, self.log, sink)
        if upgrades and not is_dry:
            make_commit(self.store, self.log, "UPGRADE PROTOCOL", actions)
        return upgrades

    def maintain(self, sink: Sink) -> None:
        """See `Target`."""
        maintain(self.store, self.log, sink)

    def is_conflict(self, error: Exception) -> bool:
        """See `Target`."""
        return isinstance(error, CommitFailedError)

    def _begin(self, recorded: Sequence[Named] = ()) -> DeltaTableWrite:
        return DeltaTableWrite(self.store, self.log, file_size=self.sink.target_file_size, recorded=recorded)

    def bytes_per_row(self) -> float | None:
        """See `Target`."""
        recorded = self.log.write_cost
        return write_cost(recorded).bytes_per_row if recorded else None

    def write_cost(self) -> WriteCost:
        """See `FilesTarget`."""
        log = self.log
        if log.write_cost is None:
            # Each step carries it on.
            recent = recent_information(self.store, log, HISTORY_MAX)
            learn_cost(self.store, log, next((str(step.get(COST_KEY, "")) for step in recent if BATCH_KEY in step), ""))
        return write_cost(log.write_cost)

    def _commit(
        self, write: DeltaTableWrite, commit_id: CommitId, operation: str = "WRITE", cost: WriteCost | None = None
    ) -> None:
        version = commit_id.batch_id << STEP_BITS | commit_id.step
        recorded = commit_id.batch_properties()
        if self._merge_kind is Merge.AUTO:
            recorded |= (cost or self.write_cost()).properties()
        write.commit(operation, recorded, (_application(commit_id), version))

    def _conflict(self) -> Exception:
        return conflict(self.store, self.log)


def _set_back(uri: str, commit_id: CommitId, place: tuple[int, int], version: int) -> TableError:
    return TableError(
        "OTHER_WRITER",
        f"{commit_id.source_table}: {uri} had batch {place[0]}, step {place[1]} in version {version}, and was set back "
        "to an older version (RESTORE)",
        hint=f"Set it forward (RESTORE ... TO VERSION AS OF {version}, or a later one from before it was set back); or "
        "delete the table, and do as BINLOG_TABLE.TARGET_GONE advises then: a snapshot alone does not bring it back",
    )


def _copied_back(uri: str, commit_id: CommitId, place: tuple[int, int]) -> TableError:
    return TableError(
        "OTHER_WRITER",
        f"{commit_id.source_table}: {uri} had batch {place[0]}, step {place[1]} while this job ran, and has it no "
        "more: an older copy of the table is in its place",
        hint="Bring the newer files back; or delete the table, and do as BINLOG_TABLE.TARGET_GONE advises then",
    )


def _place_of(version: int) -> tuple[int, int]:
    # Batch and step of a transaction.
    return version >> STEP_BITS, version & ((1 << STEP_BITS) - 1)


def _application(commit_id: CommitId) -> str:
    # Name of the application transaction.
    return f"binlog-stream/{commit_id.query_id}"


def _step_of_commit(commit: Mapping[str, object]) -> Mapping[str, str] | None:
    # None: it is no step. Spark, which wrote tables in former versions, puts the properties of a commit into one text.
    if BATCH_KEY in commit:
        return {name: str(value) for name, value in commit.items()}
    try:
        recorded = json.loads(str(commit.get("userMetadata")))
    except ValueError:
        return None
    return recorded if isinstance(recorded, dict) and BATCH_KEY in recorded else None
