"""Files of a Delta table's log: names of commits, and checkpoints, of which `readable_checkpoint` gives the actions.

Checkpoints of both specifications are read, with all names that they may have, with parts and sidecars.
`write_checkpoint` writes one of version 2, in one file, for tables that deltalake makes none of.
"""

from __future__ import annotations

import json
import logging
import re
import uuid
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from binlog_streaming.lake.delta.actions import DeltaTransaction, Line, milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from binlog_streaming.lake.delta.log import TableLog
    from binlog_streaming.lake.store import Store

logger = logging.getLogger(__name__)

LOG_FOLDER = "_delta_log"
LAST_CHECKPOINT = f"{LOG_FOLDER}/_last_checkpoint"
"""File with the version of a checkpoint, from which readers look on."""

_LINES = msgspec.json.Decoder(Line)
_COMMIT = re.compile(r"(\d{20})\.json")
_WHOLE_CHECKPOINT = re.compile(rf"{LOG_FOLDER}/(\d{{20}})\.checkpoint\.parquet")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10})|\.[0-9a-f-]{36})?\.(?:parquet|json)")


class _Hint(msgspec.Struct):
    version: int


_HINT = msgspec.json.Decoder(_Hint)
_TEXTS = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    {
        "storageType": pa.string(),
        "pathOrInlineDv": pa.string(),
        "offset": pa.int32(),
        "sizeInBytes": pa.int32(),
        "cardinality": pa.int64(),
    }
)
_FILE = {
    "path": pa.string(),
    "partitionValues": _TEXTS,
    "size": pa.int64(),
    "dataChange": pa.bool_(),
    "deletionVector": _VECTOR,
    "baseRowId": pa.int64(),
    "defaultRowCommitVersion": pa.int64(),
}
_FEATURES = pa.list_(pa.string())
_CHECKPOINT_COLUMNS = {
    "checkpointMetadata": {"version": pa.int64()},
    "protocol": {
        "minReaderVersion": pa.int32(),
        "minWriterVersion": pa.int32(),
        "readerFeatures": _FEATURES,
        "writerFeatures": _FEATURES,
    },
    "metaData": {
        "id": pa.string(),
        "name": pa.string(),
        "description": pa.string(),
        "format": pa.struct({"provider": pa.string(), "options": _TEXTS}),
        "schemaString": pa.string(),
        "partitionColumns": _FEATURES,
        "configuration": _TEXTS,
        "createdTime": pa.int64(),
    },
    "txn": {"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()},
    "domainMetadata": {"domain": pa.string(), "configuration": pa.string(), "removed": pa.bool_()},
    "add": _FILE
    | {"modificationTime": pa.int64(), "stats": pa.string(), "tags": _TEXTS, "clusteringProvider": pa.string()},
    "remove": _FILE | {"deletionTimestamp": pa.int64(), "extendedFileMetadata": pa.bool_()},
}
_RETENTION = "delta.deletedFileRetentionDuration"
_RETENTION_MS = 7 * 86_400_000
"""Time for which a checkpoint has files that were replaced, where the table does not say another one."""

_MAPS = frozenset({"partitionValues", "tags", "options", "configuration"})


def commit_name(version: int) -> str:
    """File of a commit."""
    return f"{LOG_FOLDER}/{version:020}.json"


def decoded_lines(content: bytes) -> list[Line]:
    """Actions of a commit."""
    return [_LINES.decode(line) for line in content.splitlines() if line]


def checkpoint_version(name: str) -> int | None:
    """Version of the checkpoint that a file is the whole of; None: it is another file."""
    match = _WHOLE_CHECKPOINT.fullmatch(name)
    return None if match is None else int(match[1])


def log_files(store: Store, version: int) -> tuple[list[int], dict[int, list[str]]]:
    """Versions of commits, and files of whole checkpoints by version; all from *version* on."""
    commits: list[int] = []
    found: dict[tuple[int, int], list[str]] = {}
    for file in store.files(LOG_FOLDER, after=commit_name(version).removesuffix(".json")):
        name = file.name.removeprefix(f"{LOG_FOLDER}/")
        if (match := _COMMIT.fullmatch(name)) is not None:
            commits.append(int(match[1]))
        elif (match := _CHECKPOINT.fullmatch(name)) is not None:
            found.setdefault((int(match[1]), int(match[2] or 1)), []).append(file.name)
    whole = {}
    for (version, parts), names in sorted(found.items()):
        if len(names) >= parts:
            whole[version] = sorted(names)[:parts]
    return commits, whole


def checkpoint_hint(store: Store) -> int:
    """Version of a checkpoint from which to look on: a log of many commits takes many requests to be listed."""
    try:
        return _HINT.decode(store.read(LAST_CHECKPOINT)).version
    except (FileNotFoundError, msgspec.MsgspecError):
        return 0


class ReadCheckpoint(NamedTuple):
    """A checkpoint that was read.

    Attributes:
        version: Of the table; -1: there is none that can be read.
        unreadable: Files of newer ones, which are no Parquet.
    """

    version: int
    lines: list[Line]
    unreadable: tuple[str, ...]


def readable_checkpoint(store: Store, checkpoints: Mapping[int, Sequence[str]]) -> ReadCheckpoint:
    """The newest of *checkpoints*; one of which a loss of power has left a part is passed over, as Spark does it."""
    unreadable: list[str] = []
    for version, names in sorted(checkpoints.items(), reverse=True):
        try:
            lines = [line for name in names for line in _lines_of(store, name)]
        except pa.ArrowException as error:
            logger.warning("%s: the checkpoint of version %d is no Parquet file: %s", store.uri, version, error)
            unreadable += names
            continue
        return ReadCheckpoint(version, lines, tuple(unreadable))
    return ReadCheckpoint(-1, [], tuple(unreadable))


def _lines_of(store: Store, name: str) -> Iterator[Line]:
    # Actions in a file of a checkpoint, and in its sidecars.
    if name.endswith(".json"):
        lines = decoded_lines(store.read(name))
    else:
        with store.opened(name) as opened, pq.ParquetFile(opened) as file:
            known = ("add", "remove", "protocol", "metaData", "txn", "domainMetadata", "sidecar")
            rows = file.read(columns=[name for name in known if name in file.schema_arrow.names]).to_pylist()
        lines = [msgspec.convert(_plain(row), Line) for row in rows if any(row.values())]
    for line in lines:
        if line.sidecar is not None:
            yield from _lines_of(store, f"{LOG_FOLDER}/_sidecars/{line.sidecar.path}")
        else:
            yield line


def _plain(value: object, name: str = "") -> object:
    # Arrow gives maps as lists of pairs, and null for what is not there.
    if name in _MAPS and isinstance(value, list):
        return dict(value)
    if isinstance(value, dict):
        return {key: _plain(inner, key) for key, inner in value.items() if inner is not None}
    return value


def write_checkpoint(store: Store, log: TableLog) -> None:
    """Write a checkpoint of the version of *log*: all that its commits and the checkpoint before have left."""
    since = 0 if _RETENTION in log.metadata.configuration else milliseconds() - _RETENTION_MS
    lines = [Line(protocol=log.protocol), Line(meta_data=log.metadata)]
    lines += [Line(txn=DeltaTransaction(app_id=name, version=number)) for name, number in log.transactions.items()]
    lines += [Line(domain_metadata=domain) for domain in log.domains.values()]
    lines += [Line(add=msgspec.structs.replace(add, data_change=False)) for add in log.files.values()]
    removed = [old for old in log.removed.values() if (old.deletion_timestamp or 0) > since]
    lines += [Line(remove=msgspec.structs.replace(old, data_change=False)) for old in removed]
    rows = [
        {"checkpointMetadata": {"version": log.version}},
        *(_with_pairs(msgspec.to_builtins(line)) for line in lines),
    ]
    schema = pa.schema({name: pa.struct(fields) for name, fields in _CHECKPOINT_COLUMNS.items()})
    file = store.new_file(f"{commit_name(log.version).removesuffix('.json')}.checkpoint.{uuid.uuid4()}.parquet")
    pq.write_table(pa.Table.from_pylist(rows, schema), file.sink, compression="zstd")
    file.finish()
    store.sync_names()
    store.write(LAST_CHECKPOINT, json.dumps({"version": log.version, "size": len(rows)}).encode())


def _with_pairs(value: object, name: str = "") -> object:
    # Arrow takes maps as lists of pairs.
    if not isinstance(value, dict):
        return value
    return list(value.items()) if name in _MAPS else {key: _with_pairs(inner, key) for key, inner in value.items()}
