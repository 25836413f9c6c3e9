"""One commit on its way into a Delta table: `DeltaTableWrite` has the files written for it, and then makes it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake.exceptions import CommitFailedError
from msgspec.structs import replace

from binlog_connector.crash_points import reached
from binlog_streaming.lake.delta.actions import (
    Add,
    ChangeFile,
    DeltaTransaction,
    Domain,
    Metadata,
    Remove,
    milliseconds,
    statistics_of,
    statistics_text,
)
from binlog_streaming.lake.delta.checkpoints import commit_name
from binlog_streaming.lake.delta.data_files import DeltaDataFiles, file_layout
from binlog_streaming.lake.delta.features import FEED, upgrade
from binlog_streaming.lake.delta.file_reader import DeltaFileReader
from binlog_streaming.lake.delta.generated import NUMBERED, identity_columns, with_last_numbers
from binlog_streaming.lake.delta.log import catch_up, file_key, make_commit
from binlog_streaming.lake.delta.mapping import file_columns
from binlog_streaming.lake.delta.vectors import ENABLED, DeltaVectorFile
from binlog_streaming.lake.evolution import cast_table
from binlog_streaming.lake.key_lookup import files_that_may_hold
from binlog_streaming.lake.merge import WrittenFiles
from binlog_streaming.lake.target import CrashPoint
from binlog_streaming.prefetch import prefetch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Self

    from binlog_format.kernels import Indices
    from binlog_streaming.lake.change import Contradictions
    from binlog_streaming.lake.delta.log import Named, TableLog
    from binlog_streaming.lake.merge import Superseded
    from binlog_streaming.lake.store import Store

_CHANGE_FOLDER = "_change_data"
_METRICS = {
    "WRITE": {"FilesAdded": "numFiles", "OutputRows": "numOutputRows", "BytesAdded": "numOutputBytes"},
    "MERGE": {
        "FilesAdded": "numTargetFilesAdded",
        "FilesRemoved": "numTargetFilesRemoved",
        "BytesAdded": "numTargetBytesAdded",
        "BytesRemoved": "numTargetBytesRemoved",
        "DeletionVectorsAdded": "numTargetDeletionVectorsAdded",
        "DeletionVectorsUpdated": "numTargetDeletionVectorsUpdated",
        "DeletionVectorsRemoved": "numTargetDeletionVectorsRemoved",
        "OutputRows": "numOutputRows",
    },
    "OPTIMIZE": {
        "FilesAdded": "numAddedFiles",
        "FilesRemoved": "numRemovedFiles",
        "BytesAdded": "numAddedBytes",
        "BytesRemoved": "numRemovedBytes",
        "DeletionVectorsRemoved": "numDeletionVectorsRemoved",
    },
}
"""Spark's names of the counts of a commit, by operation."""


class DeltaTableWrite:
    """One commit, within `with`: what is written for it goes again unless `commit` or `detach` was called.

    It is the `FilesWrite` of a Delta table.

    Attributes:
        log: What it holds; after the commit, what it holds then.
        actions: What the commit does beside bringing new files.

    Args:
        file_size: Of new files, in bytes.
        data_change: Whether it makes other rows than the table had.
        recorded: What it states of the table itself: protocol, metadata, domains.
    """

    def __init__(
        self,
        store: Store,
        log: TableLog,
        *,
        file_size: int,
        data_change: bool = True,
        recorded: Sequence[Named] = (),
    ) -> None:
        after = next((action for _, action in recorded if isinstance(action, Metadata)), log.metadata)
        domains = log.domains | {action.domain: action for _, action in recorded if isinstance(action, Domain)}
        self.store = store
        self.log = log
        self.schema = after.schema
        self.actions = list(recorded)
        self.reader = DeltaFileReader(store, file_columns(log.metadata))
        self._layout = file_layout(after, domains)
        self._vectors: DeltaVectorFile | None = None
        self.files = DeltaDataFiles(store, self.schema, self._layout, file_size=file_size, data_change=data_change)
        self._numbered = identity_columns(after)
        self.has_change_feed = log.metadata.configuration.get(FEED) == "true"
        self.has_deletion_vectors = log.metadata.configuration.get(ENABLED) == "true"
        self.keeps_identity = log.metadata.keeps_row_ids
        columns = log.metadata.columns
        self.defaulted = [field["name"] for field in columns if "CURRENT_DEFAULT" in field.get("metadata", {})]
        self.generated = [column.name for column in self._layout.generated]
        self.numbered = [column.name for column in self._numbered]
        self._feed: DeltaDataFiles | None = None
        self._file_size = file_size
        self._data_change = data_change
        self._attached: dict[str, Add] = {}
        self._dropped: list[Add] = []
        self._fed: list[Add] = []
        self._is_kept = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for files in (self.files, self._feed):
            if files is not None and not self._is_kept:
                files.abandon()

    @property
    def is_empty(self) -> bool:
        """True if nothing has been written or recorded so far."""
        return not (self.actions or self.files.row_count or self._attached or self._fed)

    @property
    def row_count(self) -> int:
        """Rows that were written."""
        return self.files.row_count

    def files_with(self, keys: pa.Table, current: str | None = None, among: Sequence[Add] | None = None) -> list[Add]:
        """See `TableFiles`; statistics have nothing about *current*."""
        del current
        return files_that_may_hold(list(self.log.files.values()) if among is None else among, self._bounds, keys)

    def name_of(self, file: Add) -> str:
        """See `TableFiles`."""
        return file.path

    def size_of(self, file: Add) -> int:
        """See `TableFiles`."""
        return file.size

    def remove(self, add: Add) -> None:
        """Take a file out of the table; one that was on its way there does not come."""
        if (new := self._attached.pop(add.path, None)) is not None:
            self._dropped.append(new)
            return
        self.actions.append(("remove", add.removed(data_change=self._data_change)))

    def mark(self, file: Add, rows: Indices) -> None:
        """See `TableFiles`; a file without other rows goes."""
        count = self.reader.row_count(file)
        if len(rows) == count:
            self.remove(file)
            return
        if self._vectors is None:
            self._vectors = DeltaVectorFile()
            self.files.names.append(self._vectors.name)
        # Least and greatest values may be those of marked rows; their count must be written beside a vector.
        text = statistics_text(statistics_of(file) | {"numRecords": count, "tightBounds": False})
        marked = replace(file, deletion_vector=self._vectors.add(rows), stats=text, data_change=True)
        if file.path in self._attached:
            self._attached[file.path] = marked
            return
        self.remove(file)
        self.actions.append(("add", marked))

    def rewrite(self, file: Add, gone: Indices | None = None) -> None:
        """See `TableFiles`; *gone* None: the rows that are marked."""
        self.remove(file)
        self.write(self.reader.live_rows(file, self.schema, gone, identified=self.keeps_identity))

    def write(self, rows: Iterable[pa.RecordBatch]) -> None:
        """See `TableFiles`."""
        for batch in prefetch(rows):
            table = pa.Table.from_batches([batch])
            for column in self._numbered:
                table = column.put(self.store.uri, table)
            self.files.write(table)

    def feed(self, rows: pa.Table) -> None:
        """See `TableFiles`: what the change data feed has."""
        if self._feed is None:
            self._feed = DeltaDataFiles(
                self.store,
                rows.schema,
                dataclasses.replace(self._layout, checks=()),  # the rows of the table are checked
                file_size=self._file_size,
                folder=_CHANGE_FOLDER,
            )
        made = self.generated
        self._feed.write(cast_table(rows.drop_columns(made), rows.schema) if made else rows)

    def detach(
        self, superseded: Sequence[Superseded[Add]], row_count: int, contradicted: Contradictions | None = None
    ) -> WrittenFiles[Add]:
        """End the files, for another one to commit them; they stay."""
        assert not self._numbered, "only the commit tells which numbers are free"
        fed = () if self._feed is None else tuple(self._feed.close())
        added = tuple(self.files.close())
        written = WrittenFiles(str(self.log.version), added, fed, tuple(superseded), row_count, contradicted)
        self._is_kept = True
        return written

    def attach(self, written: WrittenFiles[Add]) -> None:
        """Add files that another process has written to the commit."""
        self._attached |= {add.path: add for add in written.added}
        self._fed += written.fed
        self.files.names += [add.place for add in (*written.added, *written.fed)]

    def commit(
        self, operation: str, recorded: Mapping[str, str] | None = None, transaction: tuple[str, int] | None = None
    ) -> None:
        """Make it.

        Args:
            operation: The name that Delta has for what it does.
            transaction: Application, and the version of it that the table holds then.

        Raises:
            CommitFailedError: Somebody else committed since the look; nothing was done.
        """
        files = [*self.files.close(), *self._attached.values()]
        fed = [*([] if self._feed is None else self._feed.close()), *self._fed]
        added: list[Named] = [("add", add) for add in files]
        for add in fed:
            values, size = add.partition_values, add.size
            added.append(("cdc", ChangeFile(path=add.path, partition_values=values, size=size, data_change=False)))
        # Of a merge that only adds the keys were looked up: another writer's commit before it matters.
        is_append = not self.actions and operation == "WRITE"
        if self._vectors is not None:
            self.actions[:0] = upgrade(self.log)
            self._vectors.write(self.store)
        reached(CrashPoint.FILES_WRITTEN)
        changes = [*self.actions, *added]
        actions = with_last_numbers(changes, self.log.metadata, self._numbered) if self._numbered else changes
        about = {"isBlindAppend": is_append, **(recorded or {})}
        if len(actions) > len(changes):
            about["tags"] = {NUMBERED: "true"}
        about["operationMetrics"] = _metrics(operation, actions)
        application = None
        if transaction is not None:
            application, version = transaction
            # Without a time it could count as old in a table whose transactions expire.
            step = DeltaTransaction(app_id=application, version=version, last_updated=milliseconds())
            actions.insert(0, ("txn", step))
        self._publish(operation, actions, about, is_append=is_append, application=application)
        self._is_kept = True
        for add in self._dropped:
            self.store.remove(add.place)
        reached(CrashPoint.COMMITTED)

    def _bounds(self, add: Add, names: Sequence[str]) -> dict[str, tuple[int, int]]:
        # Least and greatest values of columns of integers.
        statistics = statistics_of(add)
        least, greatest = statistics.get("minValues"), statistics.get("maxValues")
        assert isinstance(least, dict | None)
        assert isinstance(greatest, dict | None)
        held = ((name, self.reader.columns.name(name)) for name in names)
        bounds = {name: ((least or {}).get(in_files), (greatest or {}).get(in_files)) for name, in_files in held}
        return {
            name: (low, high) for name, (low, high) in bounds.items() if isinstance(low, int) and isinstance(high, int)
        }

    def _publish(
        self,
        operation: str,
        actions: Sequence[Named],
        recorded: Mapping[str, object],
        *,
        is_append: bool,
        application: str | None,
    ) -> None:
        while True:
            try:
                make_commit(self.store, self.log, operation, actions, recorded)
            except CommitFailedError:
                if not self._catches_up(actions, application, is_append=is_append):
                    raise
            except BaseException:
                # Files of a commit that may be there have to stay.
                if self.store.may_hold(commit_name(self.log.version + 1)):
                    self._is_kept = True
                raise
            else:
                return

    def _catches_up(self, actions: Sequence[Named], application: str | None, *, is_append: bool) -> bool:
        # Rows that are only added may come after whatever another writer did, but a twin of ours, to the columns, or
        # to the steps before. Other changes may come after compaction of files that they leave alone.
        before = self._seen(application)
        keeps_rows = catch_up(self.store, self.log)
        changed = {file_key(action) for _, action in actions if isinstance(action, Remove)}
        return before == self._seen(application) and (is_append or (keeps_rows and changed <= self.log.files.keys()))

    def _seen(self, application: str | None) -> tuple[object, ...]:
        log, name = self.log, application or ""
        return log.protocol, log.metadata, log.transactions.get(name), log.history.is_set_back(name)


def _metrics(operation: str, actions: Sequence[Named]) -> dict[str, str]:
    # Counts of a commit's files, under the names that Spark has for them in its table's history.
    adds = {action.path: action for _, action in actions if isinstance(action, Add)}
    removes = {action.path: action for _, action in actions if isinstance(action, Remove)}
    new = [add for path, add in adds.items() if path not in removes]
    gone = [old for path, old in removes.items() if path not in adds]
    marked = [removes[path].deletion_vector for path in adds.keys() & removes.keys()]
    counts: dict[str, int] = {
        "FilesAdded": len(new),
        "FilesRemoved": len(gone),
        "BytesAdded": sum(add.size for add in new),
        "BytesRemoved": sum(old.size or 0 for old in gone),
        "DeletionVectorsAdded": marked.count(None) + sum(add.deletion_vector is not None for add in new),
        "DeletionVectorsUpdated": len(marked) - marked.count(None),
        "DeletionVectorsRemoved": sum(old.deletion_vector is not None for old in gone),
    }
    rows = [statistics_of(add).get("numRecords") for add in new]
    counts["OutputRows"] = sum(count for count in rows if isinstance(count, int))
    names = _METRICS.get(operation, {})
    return {names[name]: str(count) for name, count in counts.items() if name in names}
