"""Features of an Iceberg table that are not written correctly here: `require_writable` refuses them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import TableProperties
from pyiceberg.transforms import UnknownTransform

from binlog_streaming.lake.iceberg.data_files import NUMBER_FIELDS
from binlog_streaming.lake.iceberg.table_files import refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

FORMAT_VERSION_MAX = 3
"""Written through REST catalogs alone."""


def require_writable(table: Table, uri: str) -> None:
    """See that rows can be added to the table.

    Raises:
        TableError: `TABLE_FEATURE`: it has something that another writer gave it, and that would not be kept.
    """
    for feature, way in _features(table):
        raise refused(uri, feature, way)


def require_kept_columns(table: Table, schema: Schema, uri: str) -> None:
    """See that no column goes that the table's partitions or its sort order name.

    Raises:
        TableError: `TABLE_FEATURE`.
    """
    kept = {field.field_id for field in schema.fields}
    for field in table.sort_order().fields:
        if field.source_id not in kept:
            name = table.schema().find_column_name(field.source_id)
            way = "Take the sort order away (ALTER TABLE ... WRITE UNORDERED)"
            raise refused(uri, f"a sort order by {name}, which changes", way)
    for partition in table.spec().fields:
        if partition.source_id not in kept:
            way = f"Drop the partition field (ALTER TABLE ... DROP PARTITION FIELD {partition.name})"
            name = table.schema().find_column_name(partition.source_id)
            raise refused(uri, f"partitions by {name}, which changes", way)


def _features(table: Table) -> Iterator[tuple[str, str]]:
    version = table.metadata.format_version
    if version > FORMAT_VERSION_MAX:
        yield f"format version {version}", "Let this job make the table anew"
    elif version == FORMAT_VERSION_MAX and not isinstance(table.catalog, RestCatalog):
        # Other catalogs leave it to pyiceberg to write the table's metadata, which it does up to version 2.
        yield f"format version {version}", "Keep it in a REST catalog, or let this job make the table anew"
    elif version == FORMAT_VERSION_MAX and (
        own := [field.name for field in NUMBER_FIELDS if field.name in table.schema().column_names]
    ):
        yield f"columns with Iceberg's own names: {', '.join(own)}", "Rename them (ALTER TABLE ... RENAME COLUMN)"
    unknown = [field.name for field in table.spec().fields if isinstance(field.transform, UnknownTransform)]
    if unknown:
        yield f"partitions by {', '.join(unknown)}", "Drop the partition fields (ALTER TABLE ... DROP PARTITION FIELD)"
    required = [field.name for field in table.schema().fields if field.required]
    if required:
        yield (
            f"columns that must not be null: {', '.join(required)}",
            "Let them be null (ALTER TABLE ... ALTER COLUMN ... DROP NOT NULL): rows may come without some columns",
        )
    kind = table.properties.get(TableProperties.WRITE_FILE_FORMAT, TableProperties.WRITE_FILE_FORMAT_DEFAULT)
    if kind != TableProperties.WRITE_FILE_FORMAT_DEFAULT:
        yield f"files in {kind}", f"Set the table property {TableProperties.WRITE_FILE_FORMAT} to parquet"
