"""Features that a Delta table may use and be written without Spark: `check_features`; others are refused by name.

Each name in `FEATURES` was tried: a table that Spark made with it was appended to, merged into, given a column,
written anew and compacted, and then Spark read the right rows from it, and wrote on.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from binlog_format.errors import TableError
from binlog_streaming.lake.commit_id import MODE_PROPERTY
from binlog_streaming.lake.delta.column_mapping import MODE
from binlog_streaming.settings import Mode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_streaming.lake.delta.actions import Metadata, Protocol
    from binlog_streaming.lake.delta.log import TableLog

FEATURES = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "columnMapping",
        "deletionVectors",
        "generatedColumns",
        "invariants",
        "timestampNtz",
        "v2Checkpoint",
        "variantType",
    }
)
"""Table features of the Delta protocol that a table may name; some of them only as long as it makes no use of them."""

READER_VERSION_MAX = 3
WRITER_VERSION_MAX = 7
"""The versions of the Delta protocol from which on tables name their features."""

_IDENTITY_WRITER_VERSION = 6
"""Last version in which a protocol names no features: version 6 is all before it, and identity columns."""

_VARIANT = re.compile(r'"(?:type|elementType|valueType)":\s*"variant')
_NESTED = re.compile(r'"(?:elementType|keyType|valueType)":\s*\{')
_CONSTRAINT = "delta.constraints."
_COLUMN_USES = {
    "delta.invariants": "invariants",
    "delta.generationExpression": "generatedColumns",
    "delta.identity.start": "identityColumns",
}
"""Metadata of a column, and the feature that it is a use of."""


def check_features(uri: str, log: TableLog) -> None:
    """See that a table can be written to.

    Raises:
        TableError: `TABLE_FEATURE`: it uses something that is not written correctly here.
    """
    uses = list(dict.fromkeys([*_unknown_features(log.protocol), *_restrictions(log.metadata)]))
    if any(":" in add.place or add.place.startswith("/") for add in log.files.values()):
        uses.append("files of another table (shallow clone)")
    if uses:
        raise _table_feature(uri, ", ".join(uses))


def _table_feature(uri: str, uses: str) -> TableError:
    return TableError(
        "TABLE_FEATURE",
        f"{uri}: the table uses what is not written correctly without Spark: {uses}",
        hint="Take it off the table with Spark (ALTER TABLE ... DROP FEATURE, DROP CONSTRAINT, DROP NOT NULL or "
        "UNSET TBLPROPERTIES), or name another target and let this job build the table anew from the log",
    )


def _unknown_features(protocol: Protocol) -> Iterator[str]:
    if protocol.min_reader_version > READER_VERSION_MAX:
        yield f"reader version {protocol.min_reader_version}"
    if protocol.min_writer_version > WRITER_VERSION_MAX:
        yield f"writer version {protocol.min_writer_version}"
    if protocol.min_writer_version == _IDENTITY_WRITER_VERSION:
        yield "identityColumns"
    yield from sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())} - FEATURES)


def _restrictions(metadata: Metadata) -> Iterator[str]:
    # Where a table has a rule, the log does not count any more; the log may differ at any time.
    configuration = metadata.configuration
    for name in sorted(configuration):
        if name.startswith(_CONSTRAINT):
            yield f"checkConstraints ({name.removeprefix(_CONSTRAINT)})"
    mapping = configuration.get(MODE, "none")
    if mapping not in ("none", "name"):
        yield f"columnMapping by {mapping}"
    if mapping == "name" and _NESTED.search(metadata.schema_string):
        yield "columnMapping of structs in a list or a map"
    # deltalake itself lets tables name it that have no such column.
    if _VARIANT.search(metadata.schema_string):
        yield "variantType"
    # Only changelogs are never written anew.
    if configuration.get("delta.appendOnly") == "true" and configuration.get(MODE_PROPERTY) != Mode.CHANGELOG:
        yield "appendOnly"
    for field in json.loads(metadata.schema_string)["fields"]:
        for name, feature in _COLUMN_USES.items():
            if name in field.get("metadata", {}):
                yield f"{feature} (column {field['name']})"
        if not field["nullable"]:
            yield f"invariants (column {field['name']} NOT NULL)"
