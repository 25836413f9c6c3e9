"""Read target tables as anybody would who has not written them: `read_target(sink, uri)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from binlog_streaming.lake.file_reader import without_views
from binlog_streaming.settings import TableFormat

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_streaming.settings import Sink


def read_target(sink: Sink, uri: str) -> pa.Table | None:
    """All rows of the table at *uri*, in no order; None when there is no table."""
    return _iceberg(sink, uri) if sink.format is TableFormat.ICEBERG else _delta(uri, sink.storage)


def reading_code(sink: Sink, uri: str) -> list[str]:
    """Lines of Python that read the table into the name `table`."""
    if sink.format is TableFormat.ICEBERG:
        from binlog_streaming.lake.iceberg.catalog import catalog_properties, identifier

        properties = ", ".join(f"{name}={value!r}" for name, value in catalog_properties(sink).items())
        return [
            "from pyiceberg.catalog import load_catalog",
            f"catalog = load_catalog({properties})",
            f'table = catalog.load_table("{".".join(identifier(sink.directory, uri))}").scan().to_arrow()',
        ]
    return [
        "import pyarrow as pa",
        "from deltalake import DeltaTable, QueryBuilder",
        f'table = pa.table(QueryBuilder().register("t", DeltaTable("{uri}")).execute("SELECT * FROM t"))',
    ]


def commits(sink: Sink, folder: Path) -> int:
    """Commits so far in all tables of three-part targets, as files: cheap enough to look a hundred times a second.

    Args:
        sink: With the format.
        folder: Where the files of the tables are on this machine.
    """
    names = "metadata/*.metadata.json" if sink.format is TableFormat.ICEBERG else "_delta_log/*.json"
    return sum(1 for _ in folder.glob(f"*/*/*/{names}"))


def _delta(uri: str, storage: dict[str, str]) -> pa.Table | None:
    from deltalake import DeltaTable, QueryBuilder

    if not DeltaTable.is_deltatable(uri, storage):
        return None
    # `to_pyarrow_table` refuses tables with deletion vectors, which every table of some size has.
    table = DeltaTable(uri, storage_options=storage)
    return without_views(pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t")))


def _iceberg(sink: Sink, uri: str) -> pa.Table | None:
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import NoSuchTableError

    from binlog_streaming.lake.iceberg.catalog import catalog_properties, identifier

    catalog = load_catalog(**catalog_properties(sink))
    try:
        return catalog.load_table(identifier(sink.directory, uri)).scan().to_arrow()
    except NoSuchTableError:
        return None
    finally:
        catalog.close()
