"""Features of Delta tables, and what they ask of who writes them.

Features that a table may use and be written without Spark: `check_features`; others are refused by name. Columns that
need a value in each row: `required_columns`.

Each name in `FEATURES` was tried: a table that Spark made with it was appended to, merged into, given a column,
written anew and compacted, and then Spark read the right rows from it, and wrote on.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from binlog_format.errors import TableError
from binlog_format.names import folded_name
from binlog_streaming.lake.commit_id import MODE_PROPERTY
from binlog_streaming.lake.delta.actions import Protocol
from binlog_streaming.lake.delta.generated import EXPLICIT, generated_columns, identity_columns, is_numbered
from binlog_streaming.lake.delta.iceberg_compat import iceberg_changes, iceberg_restrictions
from binlog_streaming.lake.delta.row_checks import INVARIANT, row_checks
from binlog_streaming.lake.delta.vectors import ENABLED
from binlog_streaming.settings import Mode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from binlog_streaming.lake.delta.actions import Domain, Metadata
    from binlog_streaming.lake.delta.log import Named, TableLog

VECTORS = "deletionVectors"
VARIANTS = "variantType"
MANAGED = "catalogManaged"
"""Feature of tables whose commits a catalog takes; only through it they are read and written."""
VARIANT_NAME = "variant"
"""The type's name in `schemaString`."""
_INNER_VARIANT = re.compile(rf'"(?:type|elementType|keyType|valueType)":\s*"{VARIANT_NAME}"')
FEED = "delta.enableChangeDataFeed"
NAMED_FEATURES = 3, 7
"""Versions of readers and writers from which on a protocol names its features."""

_IMPLIED_WRITER = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}
_IMPLIED_READER = {2: ("columnMapping",)}
"""Features that a version, and every later one, has without naming them."""

FEATURES = frozenset(
    {
        "allowColumnDefaults",
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "checkpointProtection",
        "clustering",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "generatedColumns",
        "icebergCompatV1",
        "icebergCompatV2",
        "icebergCompatV3",
        "identityColumns",
        "inCommitTimestamp",
        "invariants",
        "rowTracking",
        "timestampNtz",
        "typeWidening",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        VARIANTS,
        "variantShredding",
        "variantShredding-preview",
    }
)
"""Table features of the Delta protocol that a table may name; some of them only as long as it makes no use of them."""

READER_VERSION_MAX = 3
WRITER_VERSION_MAX = 7
"""The versions of the Delta protocol from which on tables name their features."""

_NESTED = re.compile(r'"(?:elementType|keyType|valueType)":\s*\{')
_REQUIRED = re.compile(r'"nullable":\s*false|"(?:valueContainsNull|containsNull)":\s*false')
_MAP = "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
_DROP_COLUMN = _MAP, "DROP COLUMN `{column}`"
_REMEDIES = {
    r"invariants \(": (),
    r"icebergCompatV([12])": ("UNSET TBLPROPERTIES ('delta.enableIcebergCompatV{0}')",),
    r"appendOnly": ("UNSET TBLPROPERTIES ('delta.appendOnly')",),
    r"checkConstraints \(([^:]+)": ("DROP CONSTRAINT `{0}`",),
    r"clustering": ("CLUSTER BY NONE",),
    r"columnMapping of": ("SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')",),
    r"identityColumns GENERATED ALWAYS beside": ("UNSET TBLPROPERTIES ('delta.enableChangeDataFeed')",),
    r"generatedColumns|identityColumns|variantType in|invariants": _DROP_COLUMN,
    r"(typeWidening|coordinatedCommits-preview)": ("DROP FEATURE `{0}`",),
}
"""Statements that Spark takes, by the beginning of a use in messages; for all else it has none."""
CLUSTERING = "delta.clustering"
"""Domain of the columns by which a table is clustered."""

TYPE_CHANGES = "delta.typeChanges"
"""Metadata of a column: types that it had before, of which files may still be."""

_INTEGER_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}
_NUMBERS = ("byte", "short", "integer", "long")
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def check_features(uri: str, log: TableLog, *, is_managed: bool) -> None:
    """See that a table can be written to. *is_managed*: whether it was found through its catalog."""
    uses = list(dict.fromkeys([*_unknown_features(log.protocol), *_restrictions(log.metadata)]))
    if is_managed:
        uses = [use for use in uses if use != MANAGED]
        if "iceberg" in log.metadata.configuration.get("delta.universalFormat.enabledFormats", ""):
            uses.append(f"{MANAGED} beside UniForm, whose metadata each commit has to bring")
    uses += iceberg_restrictions(log.metadata, features(log.protocol)[1])
    uses += [
        f"clustering (field {'.'.join(path)} of a struct)" for path in clustering_columns(log.domains) if len(path) > 1
    ]
    if any(":" in add.place or add.place.startswith("/") for add in log.files.values()):
        uses.append("files of another table (shallow clone)")
    if uses:
        raise _table_feature(uri, uses, log.metadata)


def check_changed(uri: str, before: Metadata, after: Metadata, renamed: Mapping[str, str]) -> None:
    """See that other columns keep what a table promises.

    Its rules stay rules for the same columns, its columns are generated of the same ones, and Iceberg can follow.

    Args:
        renamed: Old names and new ones.
    """
    checks, uses = row_checks(after)
    made, unmade = generated_columns(after)
    names = {old for old, new in renamed.items() if folded_name(old) != folded_name(new)}
    checks = [check for check in [*row_checks(before)[0], *checks] if not names.isdisjoint(check.columns.values())]
    uses += [f"{check.feature} ({check.name}: {check.expression}) of a column that is renamed" for check in checks]
    made = [column for column in [*generated_columns(before)[0], *made] if names & {column.name, column.column}]
    uses += [*unmade, *(f"generatedColumns (column {column.name}: {column.expression}), renamed" for column in made)]
    uses += [*iceberg_restrictions(after), *iceberg_changes(before, after)]
    if uses:
        raise _table_feature(uri, list(dict.fromkeys(uses)), before)


def _table_feature(uri: str, uses: Sequence[str], metadata: Metadata) -> TableError:
    steps = dict.fromkeys(f"ALTER TABLE ... {remedy}" for use in uses for remedy in _remedies(use))
    remedies = "; ".join(step for step in steps if not (metadata.is_mapped and step.endswith(_MAP)))
    taken = f"Take it off the table with Spark: {remedies}; or name" if remedies else "Name"
    return TableError(
        "TABLE_FEATURE",
        f"{uri}: the table uses features that only Spark writes correctly: {', '.join(uses)}",
        hint=f"{taken} another target and let this job build the table anew from the log",
    )


def _remedies(use: str) -> Iterator[str]:
    # Statements of Spark's Delta that take off what *use*, as messages name it, begins with.
    column = re.search(r"\(column ([^:)]+)", use)
    for begin, statements in _REMEDIES.items():
        if (found := re.match(begin, use)) is not None:
            for statement in statements:
                yield statement.format(*found.groups(), column=column[1] if column else "")
            return


def _unknown_features(protocol: Protocol) -> Iterator[str]:
    if protocol.min_reader_version > READER_VERSION_MAX:
        yield f"reader version {protocol.min_reader_version}"
    if protocol.min_writer_version > WRITER_VERSION_MAX:
        yield f"writer version {protocol.min_writer_version}"
    yield from sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())} - FEATURES)


def _restrictions(metadata: Metadata) -> Iterator[str]:
    # Where a table has a rule, the log does not count any more; the log may differ at any time.
    configuration = metadata.configuration
    if metadata.mapping_mode not in ("none", "name", "id"):
        yield f"columnMapping by {metadata.mapping_mode}"
    if metadata.is_mapped and _NESTED.search(metadata.schema_string):
        yield "columnMapping of structs in a list or a map"
    # Only changelogs are never written anew.
    if configuration.get(MODE_PROPERTY) != Mode.CHANGELOG:
        if configuration.get("delta.appendOnly") == "true":
            yield "appendOnly"
        # Rows of the feed and of the table would have to get the same numbers.
        if configuration.get(FEED) == "true" and identity_columns(metadata):
            yield "identityColumns GENERATED ALWAYS beside changeDataFeed"
    yield from row_checks(metadata)[1]
    yield from generated_columns(metadata)[1]
    for column in metadata.columns:
        yield from (f"{use} (column {column['name']})" for use in _column_uses(column))


def _column_uses(column: Mapping[str, Any]) -> Iterator[str]:
    metadata = column.get("metadata", {})
    if metadata.get(EXPLICIT) is False and not is_numbered(column):
        yield "identityColumns GENERATED ALWAYS without start or step"
    if not isinstance(column["type"], str) and _INNER_VARIANT.search(json.dumps(column["type"])):
        yield f"{VARIANTS} in a struct, a list or a map"
    if not isinstance(column["type"], str) and _REQUIRED.search(json.dumps(column["type"])):
        yield "invariants NOT NULL of inner values"
    if not isinstance(column["type"], str) and INVARIANT in json.dumps(column["type"]):
        yield "invariants of inner values"
    for change in metadata.get(TYPE_CHANGES, ()):
        if not is_widening(change["fromType"], change["toType"]):
            yield f"typeWidening {change['fromType']} to {change['toType']}"


def required_columns(metadata: Metadata) -> dict[str, str]:
    """Columns in which new rows need a value, and why: else Delta would have to make one, or refuse the row."""
    required = {column["name"]: "NOT NULL" for column in metadata.columns if not column["nullable"]}
    return required | {
        column["name"]: "identityColumns" for column in metadata.columns if EXPLICIT in column.get("metadata", {})
    }


def clustering_columns(domains: Mapping[str, Domain]) -> list[list[str]]:
    """Columns by which a table is clustered, as files call them; of a field in a struct all names of the way to it."""
    domain = domains.get(CLUSTERING)
    if domain is None:
        return []
    columns = json.loads(domain.configuration).get("clusteringColumns", [])
    return [[column] if isinstance(column, str) else list(column) for column in columns]


def is_widening(before: object, after: object) -> bool:
    """True if Delta knows the change of a column's type, both as `schemaString` has them, for one that keeps values."""
    if before == after:
        return True
    if not isinstance(before, str) or not isinstance(after, str):
        return False
    if before in _NUMBERS and after in _NUMBERS:
        return _NUMBERS.index(before) < _NUMBERS.index(after)
    if after == "double":
        return before in ("float", "byte", "short", "integer")
    if (wide := _DECIMAL.fullmatch(after)) is None:
        return (before, after) == ("date", "timestamp_ntz")
    scale, whole = int(wide[2]), int(wide[1]) - int(wide[2])
    narrow = _DECIMAL.fullmatch(before)
    if narrow is None:
        return whole >= _INTEGER_DIGITS.get(before, math.inf)
    return scale >= int(narrow[2]) and whole >= int(narrow[1]) - int(narrow[2])


def upgrade(log: TableLog) -> list[Named]:
    """Actions that a table's log needs before its files may have deletion vectors."""
    actions: list[Named] = []
    readers, writers = features(log.protocol)
    if VECTORS not in readers or VECTORS not in writers:
        actions.append(("protocol", named_features({*readers, VECTORS}, {*writers, VECTORS})))
    if log.metadata.configuration.get(ENABLED) != "true":
        actions.append(("metaData", with_properties(log.metadata, {ENABLED: "true"})))
    return actions


def named_features(readers: set[str], writers: set[str]) -> Protocol:
    """A protocol that names these features."""
    return Protocol(
        min_reader_version=NAMED_FEATURES[0],
        min_writer_version=NAMED_FEATURES[1],
        reader_features=tuple(sorted(readers)),
        writer_features=tuple(sorted(writers)),
    )


def features(protocol: Protocol) -> tuple[set[str], set[str]]:
    """Features for readers and for writers, those included that a version has without naming them."""
    readers, writers = set(protocol.reader_features or ()), set(protocol.writer_features or ())
    if protocol.min_writer_version < NAMED_FEATURES[1]:
        writers.update(*(names for version, names in _IMPLIED_WRITER.items() if version <= protocol.min_writer_version))
    if protocol.min_reader_version < NAMED_FEATURES[0]:
        readers.update(*(names for version, names in _IMPLIED_READER.items() if version <= protocol.min_reader_version))
    return readers, writers


def with_properties(metadata: Metadata, recorded: Mapping[str, str]) -> Metadata:
    """*metadata* with more properties."""
    return replace(metadata, configuration=metadata.configuration | dict(recorded))
