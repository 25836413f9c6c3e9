"""What an Iceberg table may have that is not written correctly here: `require_plain` and `plain_files` refuse it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.manifest import FileFormat, ManifestContent
from pyiceberg.table import TableProperties

from binlog_format.errors import TableError
from binlog_streaming.lake.iceberg.files import live_files, manifests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

FORMAT_VERSION_MAX = 2
"""Version 3 numbers rows; a rewritten row would have to keep its number."""


def require_plain(table: Table, uri: str) -> None:
    """See that rows can be added to the table.

    Raises:
        TableError: `TABLE_FEATURE`: it has something that another writer gave it, and that would not be kept.
    """
    for feature, way in _features(table):
        raise _refused(uri, feature, way)


def plain_files(table: Table, uri: str) -> list[DataFile]:
    """Data files of the table, oldest first, when they can be read and replaced one by one.

    Raises:
        TableError: `TABLE_FEATURE`.
    """
    deletes = [
        manifest
        for manifest in manifests(table.metadata, table.io)
        if manifest.content == ManifestContent.DELETES and (manifest.has_added_files() or manifest.has_existing_files())
    ]
    if deletes:
        count = sum((one.added_files_count or 0) + (one.existing_files_count or 0) for one in deletes)
        raise _refused(
            uri,
            f"{count} delete files",
            "Compact it with who wrote them (Spark: CALL system.rewrite_data_files with 'delete-file-threshold' 1), "
            "and let only this job write to it",
        )
    files = live_files(table.metadata, table.io)
    foreign = {file.file_format for file in files} - {FileFormat.PARQUET}
    if foreign:
        names = ", ".join(sorted(str(kind.value) for kind in foreign))
        raise _refused(uri, f"data files in {names}", "Rewrite them as Parquet with who wrote them")
    return files


def require_unsorted(table: Table, schema: Schema, uri: str) -> None:
    """See that no column goes that the table's sort order names.

    Raises:
        TableError: `TABLE_FEATURE`.
    """
    kept = {field.field_id for field in schema.fields}
    gone = [field.source_id for field in table.sort_order().fields if field.source_id not in kept]
    for field_id in gone:
        name = table.schema().find_column_name(field_id)
        raise _refused(
            uri, f"a sort order by {name}, which changes", "Take the sort order away (ALTER TABLE ... WRITE UNORDERED)"
        )


def _features(table: Table) -> Iterator[tuple[str, str]]:
    version = table.metadata.format_version
    if version > FORMAT_VERSION_MAX:
        yield f"format version {version}", "Let this job make the table anew, with version 2; or write with Spark"
    if not table.spec().is_unpartitioned():
        names = ", ".join(field.name for field in table.spec().fields)
        yield f"partitions by {names}", "Drop the partition fields (ALTER TABLE ... DROP PARTITION FIELD)"
    required = [field.name for field in table.schema().fields if field.required]
    if required:
        yield (
            f"columns that must not be null: {', '.join(required)}",
            "Let them be null (ALTER TABLE ... ALTER COLUMN ... DROP NOT NULL): rows may come without some columns",
        )
    kind = table.properties.get(TableProperties.WRITE_FILE_FORMAT, TableProperties.WRITE_FILE_FORMAT_DEFAULT)
    if kind != TableProperties.WRITE_FILE_FORMAT_DEFAULT:
        yield f"files in {kind}", f"Set the table property {TableProperties.WRITE_FILE_FORMAT} to parquet"


def _refused(uri: str, feature: str, way: str) -> TableError:
    return TableError("TABLE_FEATURE", f"{uri} has {feature}, which this sink does not write", hint=way)
