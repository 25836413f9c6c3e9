"""A folder of Parquet files as a target of changelogs: `ParquetTarget`; a batch is one file with the batch's number.

The file comes under a name that readers pass over and gets its own name when it is whole, so it is there or it is not,
and its name says that the batch is done. What the table is stands in `_binlog-stream.json`.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pyarrow.parquet as pq

from binlog_format.errors import UnsupportedError
from binlog_streaming.tables.sinks import require_local
from binlog_streaming.tables.steps import Step, reached
from binlog_streaming.tables.target import LAST_CHANGE_KEY, QUERY_PROPERTY, Applied, Target, Ticket

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from binlog_streaming.settings import Sink
    from binlog_streaming.tables.mirror import Reduced

TABLE_FILE = "_binlog-stream.json"
BATCH_FILE = re.compile(r"batch-(\d{10,})\.parquet")
_UNFINISHED = ".unfinished-"
"""Spark, DuckDB and Arrow pass over names that begin with a dot or an underscore."""


@dataclass(slots=True)
class ParquetTarget(Target):
    """A folder as it is now; `table` is None while nothing has been written."""

    write_errors: ClassVar[tuple[type[Exception], ...]] = ()

    uri: str
    table: Mapping[str, Mapping[str, str]] | None

    @classmethod
    def at(cls, sink: Sink, uri: str) -> ParquetTarget:
        """See `Target`."""
        require_local("parquet", sink.directory)
        return cls.find(uri)

    @classmethod
    def find(cls, uri: str) -> ParquetTarget:
        """Look at what is there."""
        try:
            content = (Path(uri) / TABLE_FILE).read_text(encoding="utf-8")
        except FileNotFoundError:
            # Files of somebody else: a table that nobody owns.
            foreign = any(Path(uri).glob("*.parquet"))
            return cls(uri, {"properties": {}, "columns": {}} if foreign else None)
        return cls(uri, json.loads(content))

    def properties(self) -> Mapping[str, str] | None:
        """See `Target`."""
        return None if self.table is None else self.table["properties"]

    def applied(self, ticket: Ticket) -> Applied | None:
        """See `Target`."""
        files = {int(match[1]): name for name in self._names() if (match := BATCH_FILE.fullmatch(name))}
        if not files:
            return None
        batch_id = max(files)
        metadata = pq.read_metadata(Path(self.uri) / files[batch_id]).metadata or {}
        last_change = metadata.get(LAST_CHANGE_KEY.encode())
        return Applied(batch_id, None if last_change is None else last_change.decode())

    def columns(self) -> dict[str, str]:
        """See `Target`."""
        assert self.table is not None
        return dict(self.table["columns"])

    def column_types(self, schema: pa.Schema) -> dict[str, str]:
        """See `Target`."""
        return {field.name: str(field.type) for field in schema}

    def ensure(self, schema: pa.Schema, ticket: Ticket) -> None:
        """See `Target`.

        Raises:
            FileExistsError: Somebody else was faster.
        """
        if self.table is not None:
            return
        folder = Path(self.uri)
        folder.mkdir(parents=True, exist_ok=True)
        table = {"properties": ticket.table_properties(), "columns": self.column_types(schema)}
        unfinished = self._unfinished()
        with unfinished.open("x", encoding="utf-8") as file:
            json.dump(table, file, ensure_ascii=False, indent=1)
            file.flush()
            os.fsync(file.fileno())
        self._give_name(unfinished, TABLE_FILE)
        self.table = table
        reached(Step.CREATED)

    def append(self, rows: pa.RecordBatchReader, ticket: Ticket) -> None:
        """See `Target`.

        Raises:
            FileExistsError: Somebody else was faster.
        """
        self._remove_unfinished()
        unfinished = self._unfinished()
        said = {QUERY_PROPERTY: ticket.query_id, **ticket.batch_properties()}
        schema = rows.schema.with_metadata(said)
        with unfinished.open("xb") as file:
            with pq.ParquetWriter(file, schema, compression="zstd", compression_level=1) as writer:
                writer.add_key_value_metadata(said)
                for batch in rows:
                    writer.write_batch(batch)
            file.flush()
            os.fsync(file.fileno())
        reached(Step.FILES_WRITTEN)
        self._give_name(unfinished, f"batch-{ticket.batch_id:010d}.parquet")
        reached(Step.COMMITTED)

    def merge(self, change: Reduced, ticket: Ticket) -> int:
        """Not possible: rows of plain files cannot be replaced in one step.

        Raises:
            UnsupportedError: `FORMAT`.
        """
        raise UnsupportedError(
            "FORMAT",
            f"{ticket.source_table}: {self.uri}: mode mirror cannot be kept in plain Parquet files",
            hint='Use mode changelog for it, or sink.format = "delta" or "iceberg"',
        )

    def maintain(self, sink: Sink) -> None:
        """Nothing: files of changelogs are never replaced."""

    def is_conflict(self, error: Exception) -> bool:
        """See `Target`."""
        return isinstance(error, FileExistsError)

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.uri)  # noqa: PTH208 (names are all that is wanted, and there are many)
        except FileNotFoundError:
            return []

    def _unfinished(self) -> Path:
        return Path(self.uri) / f"{_UNFINISHED}{uuid.uuid4().hex}"

    def _remove_unfinished(self) -> None:
        # Of runs that were cut off. A twin that still writes one gets an error when it wants to name it, as it should.
        for path in Path(self.uri).glob(f"{_UNFINISHED}*"):
            path.unlink(missing_ok=True)

    def _give_name(self, unfinished: Path, name: str) -> None:
        # A link, unlike a rename, never replaces a file.
        try:
            os.link(unfinished, Path(self.uri) / name)
        finally:
            unfinished.unlink(missing_ok=True)
        folder = os.open(self.uri, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
