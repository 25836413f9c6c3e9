"""Files of a Delta table that a catalog manages: `ManagedStore`, in which a commit is there when the catalog took it.

By the Delta protocol's feature `catalogManaged` (delta-io/delta, PROTOCOL.md). A commit is staged under a name of its
own, the catalog ratifies it, and then it is published: copied to the name that commits of other tables have. So for
who reads and writes the log, a managed table's is as any other: names of commits lead to what the catalog has taken,
and a name that it has given to another commit exists.
"""

from __future__ import annotations

import json
import re
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from binlog_connector.crash_points import reached
from binlog_format.errors import OptionError, TableError
from binlog_streaming.lake.delta.actions import Metadata, Protocol, milliseconds
from binlog_streaming.lake.delta.checkpoints import LOG_FOLDER, commit_name, decoded_lines
from binlog_streaming.lake.delta.features import features, named_features, with_properties
from binlog_streaming.lake.delta.unity_catalog import OPTIONS, CatalogError, UnityCatalog
from binlog_streaming.lake.store import Store, StoredFile
from binlog_streaming.lake.table_places import store_at
from binlog_streaming.lake.target import CrashPoint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from binlog_streaming.lake.delta.actions import Line
    from binlog_streaming.lake.delta.log import Named
    from binlog_streaming.lake.delta.unity_catalog import FileAccess, ManagedTable, TableFacts
    from binlog_streaming.lake.store import NewFile
    from binlog_streaming.settings import Sink

STAGED_FOLDER = f"{LOG_FOLDER}/_staged_commits"

TRIES = 4
"""Requests for a commit whose outcome is not known, or for which others have to be published first."""

_TOO_MANY = "ResourceExhaustedException"
_MANAGED = "delta.feature.catalogManaged"
_DERIVED = re.compile(
    r"delta\.(feature\..*|min(Reader|Writer)Version|clusteringColumns|rowTracking\.rowIdHighWaterMark"
    r"|last(UpdateVersion|CommitTimestamp))"
)
"""Properties that the catalog makes of what it knows, and that no log has."""

_LOG_FILE = re.compile(rf"{LOG_FOLDER}/(\d{{20}})\..*")
_COMMIT_FILE = re.compile(rf"{LOG_FOLDER}/(\d{{20}})\.json")


class ManagedStore(Store):
    """Files of the table *name* in a catalog, as the catalog says that they are at the look.

    Attributes:
        uri: Place of the table; of one that is not there, the place that its job has for it.
    """

    def __init__(self, catalog: UnityCatalog, name: tuple[str, str], uri: str, options: Mapping[str, str]) -> None:
        self.uri = uri
        self._catalog = catalog
        self._name = name
        self._options = options
        self._files: Store | None = None
        self._table: ManagedTable | None = None
        self._new_id: str | None = None
        self._refresh()

    @classmethod
    def at(cls, sink: Sink, uri: str) -> ManagedStore:
        """The store of the table that a job has at *uri*.

        Raises:
            OptionError: `INVALID_VALUE`: it can have no such name there, or the catalog has not the API that it needs.
            TableError: `TABLE_FEATURE`: the table of that name is not managed by the catalog.
            CatalogError: The catalog cannot be asked.
        """
        parts = uri.removeprefix(sink.directory.rstrip("/")).strip("/").split("/")
        if len(parts) != 2:
            raise OptionError(
                "INVALID_VALUE",
                f"sink.catalog: {'/'.join(parts)}: tables of Unity Catalog have a schema and a name",
                hint='Set target = "{database}/{table}", or another one of two parts',
            )
        return cls(UnityCatalog.of(sink.catalog), (parts[0], parts[1]), uri, sink.storage)

    def _refresh(self) -> None:
        table = self._catalog.load(self._name)
        if table is not None and _MANAGED not in table.metadata.properties:
            raise TableError(
                "TABLE_FEATURE",
                f"{'.'.join(self._name)}: the catalog has this table, and does not manage it",
                hint=f"Leave [sink.catalog] out, and name the place of its files: {table.metadata.location}",
            )
        before = self._table
        if before is not None and (table is None or table.metadata.table_uuid != before.metadata.table_uuid):
            raise CatalogError(f"{'.'.join(self._name)}: the table was dropped, or made anew, since it was looked at")
        if table is not None and before is None:
            access = self._catalog.access(self._name)
            self._open(table.metadata.location, access)
        self._take(table)

    def _take(self, table: ManagedTable | None) -> None:
        self._table = table
        self._staged = {} if table is None else {commit.version: commit.file_name for commit in table.commits}
        self._latest = -1 if table is None else table.latest_table_version or 0
        self._is_fresh = True

    def _open(self, location: str, access: Sequence[FileAccess]) -> None:
        near = [each for each in access if location.startswith(each.prefix)]
        given = max(near, key=lambda each: len(each.prefix)).config if near else {}
        options = dict(self._options) | {OPTIONS[key]: value for key, value in given.items() if key in OPTIONS}
        self.uri = unquote(urlsplit(location).path) if location.startswith("file:") else location
        self._files = store_at(self.uri, options)

    @property
    def _there(self) -> Store:
        if self._files is None:
            raise FileNotFoundError(f"{'.'.join(self._name)}: there is no such table")
        return self._files

    def read(self, name: str) -> bytes:
        """See `Store`; of a commit, that which the catalog has taken."""
        return self._there.read(self._place(name))

    def _place(self, name: str) -> str:
        version = _version(_COMMIT_FILE, name)
        if version is None:
            return name
        if version > self._latest:
            if not self._is_fresh:
                self._refresh()
            self._is_fresh = False
        if version > self._latest:
            raise FileNotFoundError(f"{self.uri}: the catalog has no version {version}")
        return f"{STAGED_FOLDER}/{self._staged[version]}" if version in self._staged else name

    def read_part(self, name: str, start: int, size: int) -> bytes:
        """See `Store`."""
        return self._there.read_part(name, start, size)

    def opened(self, name: str) -> pa.NativeFile:
        """See `Store`."""
        return self._there.opened(name)

    def create(self, name: str, content: bytes) -> bool:
        """See `Store`; a commit is created by the catalog, after the crash points STAGED and RATIFIED."""
        version = _version(_COMMIT_FILE, name)
        if version is None:
            return self._there.create(name, content)
        if self._table is None:
            return self._create_table(name, content)
        return version == self._latest + 1 and self._commit(version, content)

    def _commit(self, version: int, content: bytes) -> bool:
        assert self._table is not None
        staged = f"{version:020}.{uuid.uuid4()}.json"
        self._there.create(f"{STAGED_FOLDER}/{staged}", content)
        self._there.sync_names()
        reached(CrashPoint.STAGED)
        lines = decoded_lines(content)
        commit: dict[str, object] = {
            "version": version,
            "timestamp": _commit_time(lines),
            "file-name": staged,
            "file-size": len(content),
            "file-modification-timestamp": milliseconds(),
        }
        added: dict[str, object] = {"action": "add-commit", "commit": commit}
        updates = [added, *_changes(lines, self._table.metadata)]
        if not self._ratify(version, staged, updates):
            return False
        reached(CrashPoint.RATIFIED)
        with suppress(OSError):  # the commit is there; whoever makes the next one publishes this one too
            self._publish()
        return True

    def _ratify(self, version: int, staged: str, updates: list[dict[str, object]]) -> bool:
        # An answer may be lost, or tell a conflict with the request before: the name of the file tells whose it is.
        assert self._table is not None
        for attempt in range(TRIES):
            try:
                self._take(self._catalog.update(self._name, self._table.metadata.table_uuid, updates))
            except CatalogError as error:
                if error.is_refusal:
                    raise
                self._refresh()
                if self._latest >= version:
                    return self._staged.get(version) == staged
                if error.kind == _TOO_MANY:
                    self._publish()
                if attempt == TRIES - 1:
                    raise
            else:
                return True
        return False

    def _publish(self) -> None:
        assert self._table is not None
        if not self._staged:
            return
        for version, staged in sorted(self._staged.items()):
            self._there.create(commit_name(version), self._there.read(f"{STAGED_FOLDER}/{staged}"))
        self._there.sync_names()
        published: dict[str, object] = {
            "action": "set-latest-backfilled-version",
            "latest-published-version": max(self._staged),
        }
        self._take(self._catalog.update(self._name, self._table.metadata.table_uuid, [published]))

    def is_published(self, version: int) -> bool:
        """True if the commits up to a version that the catalog has taken are published."""
        return version <= self._latest and all(version < staged for staged in self._staged)

    def as_new(self, actions: Sequence[Named]) -> list[Named]:
        """The first actions of a table at a place that the catalog chooses, with what the catalog asks of it."""
        new = self._catalog.stage(self._name)
        self._open(new.location, new.storage_credentials)
        self._new_id = new.table_id
        made: list[Named] = []
        for name, action in actions:
            if isinstance(action, Protocol):
                readers, writers = features(action)
                readers.update(new.required_protocol.reader_features)
                writers.update(new.required_protocol.writer_features)
                made.append((name, named_features(readers, writers)))
            elif isinstance(action, Metadata):
                asked = {key: value for key, value in new.required_properties.items() if value is not None}
                missing = new.required_properties.keys() - asked - action.configuration.keys()
                if missing:
                    raise CatalogError(f"{'.'.join(self._name)}: the catalog asks for {', '.join(sorted(missing))}")
                made.append((name, with_properties(action, asked)))
            else:
                made.append((name, action))
        return made

    def _create_table(self, name: str, content: bytes) -> bool:
        self._there.create(name, content)
        self._there.sync_names()
        lines = decoded_lines(content)
        protocol = next(line.protocol for line in lines if line.protocol is not None)
        metadata = next(line.meta_data for line in lines if line.meta_data is not None)
        body: dict[str, object] = {
            "table-type": "MANAGED",
            "location": self.uri if "://" in self.uri else f"file://{self.uri}",
            "comment": metadata.description or "",
            "columns": _columns({"fields": metadata.columns}),
            "partition-columns": metadata.partition_columns,
            "properties": metadata.configuration,
            "protocol": _protocol(protocol),
            "last-commit-timestamp-ms": _commit_time(lines),
        }
        try:
            self._take(self._catalog.create(self._name, body))
        except CatalogError:
            self._refresh()
            if self._table is None:
                raise
        assert self._table is not None
        return self._table.metadata.table_uuid == self._new_id

    def exchange(self, name: str, before: bytes | None, content: bytes) -> bool:
        """See `Store`."""
        return self._there.exchange(name, before, content)

    def write(self, name: str, content: bytes) -> None:
        """See `Store`."""
        self._there.write(name, content)

    def may_hold(self, name: str) -> bool:
        """See `Store`."""
        return _version(_COMMIT_FILE, name) is not None or self._there.may_hold(name)

    def new_file(self, name: str) -> NewFile:
        """See `Store`."""
        return self._there.new_file(name)

    def files(self, folder: str = "", *, after: str = "") -> Iterator[StoredFile]:
        """See `Store`; of the log, what is not newer than the catalog says."""
        published = set()
        for file in self._there.files(folder, after=after) if self._files is not None else ():
            version = _version(_LOG_FILE, file.name)
            if version is None or version <= self._latest:
                published.add(file.name)
                yield file
        for name in map(commit_name, sorted(self._staged)):
            if name.startswith(f"{folder}/") and after < name not in published:
                yield StoredFile(name, 0, 0.0)

    def remove(self, name: str) -> None:
        """See `Store`."""
        self._there.remove(name)

    def clear(self) -> None:
        """See `Store`."""
        self._there.clear()

    def sync_names(self) -> None:
        """See `Store`."""
        self._there.sync_names()


def _version(pattern: re.Pattern[str], name: str) -> int | None:
    match = pattern.fullmatch(name)
    return None if match is None else int(match[1])


def _commit_time(lines: Sequence[Line]) -> int:
    times = [line.commit_info.in_commit_timestamp for line in lines if line.commit_info is not None]
    assert times[0] is not None, "commits of a managed table have timestamps"
    return times[0]


def _changes(lines: Sequence[Line], facts: TableFacts) -> Iterator[dict[str, object]]:
    # What the catalog has to learn of a commit, beside that it is there.
    protocols = [line.protocol for line in lines if line.protocol is not None]
    if protocols:
        yield {"action": "set-protocol", "protocol": _protocol(protocols[-1])}
    for metadata in [line.meta_data for line in lines if line.meta_data is not None][-1:]:
        yield {"action": "set-columns", "columns": _columns({"fields": metadata.columns})}
        if metadata.partition_columns != facts.partition_columns:
            yield {"action": "set-partition-columns", "partition-columns": metadata.partition_columns}
        before = {key: value for key, value in facts.properties.items() if not _DERIVED.fullmatch(key)}
        after = metadata.configuration
        changed = {key: value for key, value in after.items() if before.get(key) != value}
        if changed:
            yield {"action": "set-properties", "updates": changed}
        gone = sorted(before.keys() - after.keys())
        if gone:
            yield {"action": "remove-properties", "removals": gone}
    domains = [line.domain_metadata for line in lines if line.domain_metadata is not None]
    known = {domain.domain: json.loads(domain.configuration) for domain in domains if not domain.removed}
    if known:
        yield {"action": "set-domain-metadata", "updates": known}


def _protocol(protocol: Protocol) -> dict[str, object]:
    readers, writers = features(protocol)
    return {
        "min-reader-version": protocol.min_reader_version,
        "min-writer-version": protocol.min_writer_version,
        "reader-features": sorted(readers),
        "writer-features": sorted(writers),
    }


_HYPHENS = {
    "elementType": "element-type",
    "containsNull": "contains-null",
    "keyType": "key-type",
    "valueType": "value-type",
    "valueContainsNull": "value-contains-null",
}


def _columns(kind: object) -> object:
    # A type as the log has it, in the catalog's words; metadata of columns stay as they are.
    if not isinstance(kind, dict):
        return kind
    if "fields" in kind:
        fields = [field | {"type": _columns(field["type"])} for field in kind["fields"]]
        return {"type": "struct", "fields": fields}
    return {_HYPHENS.get(key, key): _columns(value) for key, value in kind.items()}
