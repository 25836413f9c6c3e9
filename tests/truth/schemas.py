"""What a reader may be told about tables: `decoding_of_file`, `decoding_of_log`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_connector.schema.history import SchemaHistory
from binlog_format import open_log
from binlog_format.rows.decoding import Decoding

if TYPE_CHECKING:
    from tests.truth.truth_case import Case


def schema_text(case: Case) -> str:
    """A dump of CREATE TABLEs: what SHOW CREATE TABLE returned for each table when it was first there."""
    parts = []
    for table in dict.fromkeys(schema.table for schema in case.schemas):
        database, _, _ = table.partition(".")
        create = next(schema.create for schema in case.schemas if schema.table == table and not schema.dropped)
        parts.append(f"USE `{database}`;\n{create};\n")
    # Servers keep labels in utf8mb3 and show '?' for what it lacks: what the table was made with instead.
    return "\n".join(parts).replace(",'?')", ",'😀')")


def decoding_of_file(case: Case) -> Decoding:
    """The tables' definitions come from a schema file; the DDL in the log is not looked at."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "schema.sql"
        path.write_text(schema_text(case))
        return Decoding(schemas=SchemaHistory.from_schema_file(str(path)))


def decoding_of_log(path: Path) -> Decoding:
    """The tables' definitions come from the DDL in the log."""
    history = SchemaHistory()
    with open_log(str(path)) as log:
        assert history.scan_ddl(log) > 0
    return Decoding(schemas=history)
