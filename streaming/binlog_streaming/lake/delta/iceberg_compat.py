"""Delta tables that Iceberg's readers can have, too (`delta.enableIcebergCompatV1` to V3): what they must not have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from binlog_streaming.lake.delta.mapping import NESTED_IDS, nested_key
from binlog_streaming.lake.delta.vectors import ENABLED

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from binlog_streaming.lake.delta.actions import Metadata

_COMPATIBLE = re.compile(r"delta\.enableIcebergCompatV(\d+)")
_KNOWN = ("1", "2", "3")
_WITH_VECTORS = "3"
_INTEGERS = ("byte", "short", "integer")
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_SIMPLE = (*_INTEGERS, "long", "float", "double", "string", "binary", "boolean", "timestamp", "timestamp_ntz", "date")


def iceberg_versions(metadata: Metadata) -> list[str]:
    """Versions of Iceberg compatibility that are on in a table."""
    found = {name: _COMPATIBLE.fullmatch(name) for name, value in metadata.configuration.items() if value == "true"}
    return sorted(match[1] for match in found.values() if match is not None)


def forbids_vectors(metadata: Metadata) -> bool:
    """True if rows of a table must not be marked, for Iceberg's readers."""
    return bool(set(iceberg_versions(metadata)) - {_WITH_VECTORS})


def iceberg_restrictions(metadata: Metadata, writer_features: Container[str] = ()) -> Iterator[str]:
    """Features of such a table that it must not have, as messages name them."""
    versions = iceberg_versions(metadata)
    if not versions:
        return
    feature = f"icebergCompatV{versions[0]}"
    if len(versions) > 1 or versions[0] not in _KNOWN:
        yield ", ".join(f"icebergCompatV{version}" for version in versions)
        return
    if not metadata.is_mapped:
        yield f"{feature} without columnMapping"
    has_vectors = metadata.configuration.get(ENABLED) == "true"
    if versions[0] == _WITH_VECTORS:
        if not metadata.keeps_row_ids:
            yield f"{feature} without rowTracking"
    elif has_vectors or (versions[0] == "1" and "deletionVectors" in writer_features):
        yield f"{feature} with deletionVectors"
    for column in metadata.columns:
        yield from (f"{feature} with {use} (column {column['name']})" for use in _column_uses(column, versions[0]))


def iceberg_changes(before: Metadata, after: Metadata) -> Iterator[str]:
    """Changes by a step that Iceberg's tables cannot follow, as messages name them."""
    for version in iceberg_versions(after):
        feature = f"icebergCompatV{version}"
        if before.partition_columns and before.partition_columns != after.partition_columns:
            yield f"{feature} with other partitions ({', '.join(after.partition_columns) or 'none'})"
        types = {_number(column): column["type"] for column in before.columns}
        for column in after.columns:
            old, new = types.get(_number(column), column["type"]), column["type"]
            if old != new and not _is_promotion(old, new):
                yield f"{feature} with a change of type from {_told(old)} to {_told(new)} (column {column['name']})"


def _number(column: dict[str, Any]) -> object:
    return column["metadata"].get("delta.columnMapping.id")


def _told(kind: object) -> object:
    return kind["type"] if isinstance(kind, dict) else kind


def _column_uses(column: dict[str, Any], version: str) -> Iterator[str]:
    kind, metadata = column["type"], column["metadata"]
    yield from _type_uses(kind, version)
    if version != "1" and (key := nested_key(column)) is not None and key not in metadata.get(NESTED_IDS, {}):
        yield "values of a list without ids"
    steps = [(change["fromType"], change["toType"]) for change in metadata.get("delta.typeChanges", ())]
    yield from (f"typeWidening {old} to {new}" for old, new in steps if not _is_promotion(old, new))


def _type_uses(kind: Any, version: str) -> Iterator[str]:
    match kind:
        case {"type": "struct", "fields": fields}:
            for column in fields:
                yield from _column_uses(column, version)
        case {"type": "array", "elementType": element}:
            if version == "1":
                yield "lists"
            yield from _type_uses(element, version)
        case {"type": "map"}:
            # Other writers have them from version 2 on; no row of ours brings one.
            yield "maps"
        case "variant" if version == _WITH_VECTORS:
            return
        case _:
            if kind not in _SIMPLE and not _DECIMAL.fullmatch(kind):
                yield f"type {kind}"


def _is_promotion(old: object, new: object) -> bool:
    # True if Iceberg's version 2 has the change of a type, or has one type for both.
    if old in _INTEGERS and new in (*_INTEGERS, "long"):
        return True
    if (old, new) == ("float", "double"):
        return True
    if not isinstance(old, str) or not isinstance(new, str):
        return False
    before, after = _DECIMAL.fullmatch(old), _DECIMAL.fullmatch(new)
    return before is not None and after is not None and before[2] == after[2] and int(before[1]) <= int(after[1])
