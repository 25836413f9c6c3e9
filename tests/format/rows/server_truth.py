"""The values of `expected.json` (what SELECT returned) as the Python values that Arrow arrays should give."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tests.truth.truth_values import moment_of, without_zerofill

if TYPE_CHECKING:
    from pathlib import Path

_DOUBLE_STRUCT = struct.Struct("<d")
_SRID_STRUCT = struct.Struct("<I")
GEOMETRIES = re.compile(r"geometry|point|linestring|polygon|multipoint|multilinestring|multipolygon|geometrycollection")
_CODECS = {"utf8mb3": "utf-8", "utf8mb4": "utf-8", "utf16": "utf-16-be", "utf32": "utf-32-be", "sjis": "shift_jis"}


@dataclass(frozen=True)
class Change:
    gtid: str
    op: str
    table: str
    before: list[Any] | None
    after: list[Any] | None
    columns: list[dict[str, str]]


def logged_changes(case: Path) -> tuple[list[Change], set[str]]:
    """The changes that the log has as row events, and the GTIDs whose changes cannot be compared one by one."""
    truth = json.loads((case / "expected.json").read_text())
    changes, skipped = [], set()
    columns: dict[str, list[dict[str, str]]] = {}
    schemas = sorted(truth["schemas"], key=lambda schema: schema["step"])
    for change in truth["changes"]:
        while schemas and schemas[0]["step"] <= change["step"]:
            schema = schemas.pop(0)
            if not schema.get("dropped"):
                columns[schema["table"]] = schema["columns"]
        if change.get("rolled_back") or change.get("mark") or change.get("net_effect_only"):
            skipped.add(change["gtid"])
            continue
        fields = {key: change[key] for key in ("gtid", "op", "table", "before", "after")}
        changes.append(Change(**fields, columns=columns[change["table"]]))
    return changes, skipped


def _decoded(content: bytes, charset: str | None) -> str | bytes:
    if charset is None:
        return content
    if charset == "latin1":
        # cp1252; what that leaves undefined stands for itself
        return "".join(bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in content)
    return content.decode(_CODECS.get(charset, charset))


def same(value: Any, truth: Any, column: dict[str, str], *, has_labels: bool = True) -> bool:
    """Whether an Arrow value (as Python has it) is what the server returned."""
    if isinstance(truth, dict) and "sha256" in truth:
        charset = column["charset"]
        content = value
        if charset == "latin1":
            content = b"".join(bytes([ord(c)]) if ord(c) in range(256) else c.encode("cp1252") for c in value)
        elif charset is not None:
            content = value.encode(_CODECS.get(charset, charset))
        return bool(len(content) == truth["len"]) and hashlib.sha256(content).hexdigest() == truth["sha256"]
    wanted = expected_value(truth, column, has_labels=has_labels)
    return type(value) is type(wanted) and value == wanted


def expected_value(truth: Any, column: dict[str, str], *, has_labels: bool = True) -> Any:
    """The Python value that an Arrow value should have."""
    if truth is None:
        return None
    kind, full = column["type"], column["column_type"]
    if kind in ("enum", "set"):
        return _decoded(bytes.fromhex(truth["hex"]), column["charset"]) if has_labels else str(truth["idx"])
    if kind in ("float", "double"):
        return _DOUBLE_STRUCT.unpack(bytes.fromhex(truth["f64le"]))[0]
    if GEOMETRIES.fullmatch(kind):
        content = bytes.fromhex(truth["hex"])
        return {"srid": _SRID_STRUCT.unpack_from(content)[0], "wkb": content[_SRID_STRUCT.size :]}
    if isinstance(truth, dict):
        return _decoded(bytes.fromhex(truth["hex"]), column["charset"])
    if kind == "decimal":
        precision = int(re.match(r"decimal\((\d+)", full)[1])  # type: ignore[index]
        return Decimal(truth) if precision <= 38 else without_zerofill(truth)
    if kind == "bit":
        bits = int(re.match(r"bit\((\d+)", full)[1])  # type: ignore[index]
        return bool(int(truth)) if bits == 1 else Decimal(truth) if bits == 64 else int(truth)
    if kind == "bigint" and "unsigned" in full:
        return Decimal(truth)
    if kind in ("tinyint", "smallint", "mediumint", "int", "bigint", "year"):
        return int(truth)
    if kind == "time":
        return truth
    return moment_of(truth, kind)
