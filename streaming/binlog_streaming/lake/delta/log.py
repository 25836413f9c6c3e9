"""The log of a Delta table in a folder: `read_log` gives what one version holds, `Commit` makes the next version.

deltalake does not say which deletion vector a file has, and cannot commit one; so for tables with deletion vectors the
log is read and written here. What is written is what the Delta protocol says of the actions.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from urllib.parse import unquote

import msgspec
import pyarrow.parquet as pq

LOG_FOLDER = "_delta_log"


class Action(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What actions have in common: names as the protocol has them, nothing written that is not known."""


class Vector(Action, frozen=True):
    """Where a deletion vector is: `u` in a file of the table, `p` in a file by its whole path, `i` in here."""

    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: int
    cardinality: int
    offset: int | None = None

    @property
    def name(self) -> str:
        """What tells it from other vectors."""
        offset = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage_type}{self.path_or_inline_dv}{offset}"


class Add(Action, frozen=True):
    """A data file that is in the table from now on, without the rows of its deletion vector."""

    path: str
    partition_values: dict[str, str | None]
    size: int
    modification_time: int
    data_change: bool
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    deletion_vector: Vector | None = None
    clustering_provider: str | None = None

    @property
    def place(self) -> str:
        """Path in the table's folder."""
        return unquote(self.path)

    def removed(self, *, data_change: bool) -> Remove:
        """What takes it out of the table."""
        return Remove(
            path=self.path,
            data_change=data_change,
            deletion_timestamp=milliseconds(),
            extended_file_metadata=True,
            partition_values=self.partition_values,
            size=self.size,
            deletion_vector=self.deletion_vector,
        )


class Remove(Action, frozen=True):
    """A data file, with its deletion vector, that is not in the table any more."""

    path: str
    data_change: bool
    deletion_timestamp: int | None = None
    extended_file_metadata: bool | None = None
    partition_values: dict[str, str | None] | None = None
    size: int | None = None
    deletion_vector: Vector | None = None


class Protocol(Action, frozen=True):
    """What readers and writers must know."""

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None


class FileFormat(Action, frozen=True):
    """Always Parquet."""

    provider: str
    options: dict[str, str]


class Metadata(Action, frozen=True):
    """Columns and properties."""

    id: str
    format: FileFormat
    schema_string: str
    partition_columns: tuple[str, ...]
    configuration: dict[str, str]
    name: str | None = None
    description: str | None = None
    created_time: int | None = None


class _Line(Action, frozen=True):
    add: Add | None = None
    remove: Remove | None = None
    protocol: Protocol | None = None
    meta_data: Metadata | None = None


@dataclass(slots=True)
class TableLog:
    """What a version of a table holds.

    Attributes:
        version: The version.
        protocol: The last one.
        metadata: The last one.
        files: Data files, by path and deletion vector.
        removed: Files that were replaced, as far back as the log and its checkpoint say.
        checkpoint: Version of the checkpoint that the log was read from; -1: none.
    """

    version: int
    protocol: Protocol
    metadata: Metadata
    files: dict[tuple[str, str], Add] = field(default_factory=dict)
    removed: dict[tuple[str, str], Remove] = field(default_factory=dict)
    checkpoint: int = -1

    def take(self, line: _Line) -> None:
        """Take the next action in."""
        if line.add is not None:
            self.files[_file_key(line.add)] = line.add
            self.removed.pop(_file_key(line.add), None)
        if line.remove is not None:
            self.files.pop(_file_key(line.remove), None)
            self.removed[_file_key(line.remove)] = line.remove
        self.protocol = line.protocol or self.protocol
        self.metadata = line.meta_data or self.metadata


def read_log(folder: str, version: int) -> TableLog | None:
    """What *version* of the table in *folder* holds; None where the log is in a form that is not read here."""
    try:
        return _read_log(Path(folder, LOG_FOLDER), version)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None  # there is a checkpoint of another kind, or an action of another shape


def commit_path(log: Path, version: int) -> Path:
    """File of a commit."""
    return log / f"{version:020}.json"


def milliseconds() -> int:
    """The time now, as the log has it."""
    return time.time_ns() // 1_000_000


class Commit:
    """A commit that is written, and that nobody sees yet.

    Args:
        folder: The table.
        actions: Names and contents of the actions.
    """

    def __init__(self, folder: str, actions: list[tuple[str, object]]) -> None:
        self._log = Path(folder, LOG_FOLDER)
        # deltalake names its own ones in the same way; readers of a log pass over them.
        self._path = self._log / f"_commit_{uuid.uuid4()}.json.tmp"
        encoder = msgspec.json.Encoder()
        content = b"".join(encoder.encode({name: action}) + b"\n" for name, action in actions)
        try:
            with self._path.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            self._path.unlink(missing_ok=True)
            raise

    def publish(self, version: int) -> bool:
        """Make it the commit of *version*, all at once; False: there is another one of that number."""
        try:
            os.link(self._path, commit_path(self._log, version))
        except FileExistsError:
            return False
        finally:
            self._path.unlink()
        sync_folder(self._log)
        return True


def sync_folder(folder: Path) -> None:
    """Let the names of new files be on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_log(log: Path, version: int) -> TableLog:
    checkpoint, parts = _checkpoint(log, version)
    table = TableLog(
        version,
        Protocol(min_reader_version=0, min_writer_version=0),
        Metadata(
            id="", format=FileFormat(provider="", options={}), schema_string="", partition_columns=(), configuration={}
        ),
        checkpoint=checkpoint,
    )
    for part in parts:
        for line in _checkpoint_lines(part):
            table.take(line)
    decoder = msgspec.json.Decoder(_Line)
    for number in range(checkpoint + 1, version + 1):
        lines = [decoder.decode(line) for line in commit_path(log, number).read_bytes().splitlines() if line]
        # The order of the actions of one commit says nothing: a file may change its vector.
        for line in sorted(lines, key=lambda line: line.remove is None):
            table.take(line)
    return table


_STATISTICS = msgspec.json.Decoder(dict[str, object], float_hook=Decimal)
_STATISTICS_ENCODER = msgspec.json.Encoder(decimal_format="number")


def statistics_of(add: Add) -> dict[str, object]:
    """What a file says about its rows; fractions come exactly as they are written."""
    return _STATISTICS.decode(add.stats) if add.stats else {}


def statistics_text(statistics: dict[str, object]) -> str:
    """The other way."""
    return _STATISTICS_ENCODER.encode(statistics).decode()


def _file_key(action: Add | Remove) -> tuple[str, str]:
    return action.path, "" if action.deletion_vector is None else action.deletion_vector.name


_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10}))?\.parquet")


def _checkpoint(log: Path, version: int) -> tuple[int, list[Path]]:
    # The newest one that is whole, up to *version*.
    found: dict[tuple[int, int], list[Path]] = {}
    for path in sorted(log.iterdir()):
        match = _CHECKPOINT.fullmatch(path.name)
        if match is not None and int(match[1]) <= version:
            found.setdefault((int(match[1]), int(match[2] or 1)), []).append(path)
    whole = [key for key, parts in found.items() if len(parts) == key[1]]
    return (max(whole)[0], found[max(whole)]) if whole else (-1, [])


_MAPS = frozenset({"partitionValues", "tags", "options", "configuration"})


def _checkpoint_lines(part: Path) -> list[_Line]:
    with pq.ParquetFile(part) as file:
        wanted = [name for name in ("add", "remove", "protocol", "metaData") if name in file.schema_arrow.names]
        rows = file.read(columns=wanted).to_pylist()
    return [msgspec.convert(_plain(row), _Line) for row in rows if any(row.values())]


def _plain(value: object, name: str = "") -> object:
    # Arrow gives maps as lists of pairs, and null for what is not there.
    if name in _MAPS and isinstance(value, list):
        return dict(value)
    if isinstance(value, dict):
        return {key: _plain(inner, key) for key, inner in value.items() if inner is not None}
    return value
