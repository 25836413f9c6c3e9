"""What a server said about its rows (`expected.json` of the shared corpus), compared with JSON changes."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

JsonObject = dict[str, object]

_DOUBLE = struct.Struct("<d")
_CODECS = {"utf8mb3": "utf-8", "utf8mb4": "utf-8", "ascii": "ascii", "latin1": "cp1252"}
# A sequence's row is always an insert; of tables with periods the changed row is updated and the old one inserted,
# where the file has it the other way round.
_TOLD_OTHERWISE = frozenset({"t.sq", "t.per", "t.sv1", "t.sv2"})
_TEXT_TYPES = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_BINARY_TYPES = frozenset(
    {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "uuid", "inet4", "inet6"}
)


@dataclass(frozen=True, slots=True)
class Truth:
    """The row changes of one case.

    Attributes:
        changes: By GTID and table, in order; rows are lists of values in the file's own form.
        told_otherwise: GTIDs and tables whose rows the log tells in another way with the same effect (REPLACE).
        columns: Of each table, each time it was made or changed: the step, and its columns from then on.
    """

    changes: dict[tuple[str, str], list[JsonObject]]
    told_otherwise: set[tuple[str, str]]
    columns: dict[str, list[tuple[int, list[JsonObject]]]]

    @classmethod
    def load(cls, case: Path) -> Truth:
        """Read the case's `expected.json`, without changes that are not in the log as rows, or were rolled back."""
        expected = json.loads((case / "expected.json").read_text())
        changes = defaultdict(list)
        for change in expected["changes"]:
            if not change.get("mark") and not change.get("rolled_back"):
                changes[change["gtid"], change["table"]].append(change)
        otherwise = {
            (change["gtid"], change["table"])
            for change in expected["changes"]
            if change.get("net_effect_only") or change["table"] in _TOLD_OTHERWISE
        }
        columns = defaultdict(list)
        for schema in expected["schemas"]:
            if "columns" in schema:
                columns[schema["table"]].append((schema["step"], schema["columns"]))
        plain = {key: of_key for key, of_key in changes.items() if key not in otherwise}
        return cls(plain, otherwise, dict(columns))

    def columns_of(self, change: JsonObject) -> list[JsonObject]:
        """Columns of the change's table at that time."""
        step = change["step"]
        assert isinstance(step, int)
        return [columns for since, columns in self.columns[str(change["table"])] if since <= step][-1]

    def check(self, expected: list[JsonObject], got: list[JsonObject], *, in_order: bool = True) -> None:
        """Assert that the same rows changed in the same way.

        Args:
            expected: Changes of one GTID and table.
            got: Parsed lines of the same GTID and table.
            in_order: Whether the order is known; within one statement the file has that of the table, not of the log.
        """
        assert len(got) == len(expected)
        left = list(got)
        for theirs in expected:
            found = 0 if in_order else next((i for i, ours in enumerate(left) if not self.difference(theirs, ours)), 0)
            assert not self.difference(theirs, left.pop(found))

    def difference(self, expected: JsonObject, got: JsonObject) -> str:
        """The first difference between a change of the file and a parsed line; empty when there is none."""
        if got["op"] != expected["op"]:
            return f"{expected['gtid']} {expected['table']}: expected {expected['op']}, got {got['op']}"
        for image in ("before", "after"):
            row, values = got[image], expected[image]
            if row is None and values is None:
                continue
            if not isinstance(row, dict) or not isinstance(values, list):
                return f"{expected['gtid']} {expected['table']}: expected {image} {values}, got {row}"
            for column, value in zip(self.columns_of(expected), values, strict=True):
                name = str(column["name"])
                if not _equal(column, value, row[name]):
                    return f"{expected['gtid']} {expected['table']}.{name}: expected {value}, got {row[name]!r}"
        return ""


def _equal(column: JsonObject, expected: object, got: object) -> bool:
    kind = str(column["type"])
    if expected is None or (
        isinstance(expected, str) and kind in {"date", "datetime", "timestamp"} and "-00" in expected
    ):
        return got is None  # zero and partial dates are null
    if isinstance(expected, str):
        return _equal_text(kind, expected, got)
    assert isinstance(expected, dict)
    if "f64le" in expected:
        (exact,) = _DOUBLE.unpack(bytes.fromhex(expected["f64le"]))
        return isinstance(got, int | float) and bool((float(np.float32(got)) if kind == "float" else got) == exact)
    content = _content(column, kind, got)
    if "sha256" in expected:
        return len(content) == int(expected["len"]) and hashlib.sha256(content).hexdigest() == str(expected["sha256"])
    return content.hex() == str(expected["hex"]).lower()


def _equal_text(kind: str, expected: str, got: object) -> bool:
    if kind == "decimal":
        return isinstance(got, str) and Decimal(got) == Decimal(expected)
    if kind in {"date", "datetime", "timestamp"}:
        return got == expected.replace(" ", "T") + ("Z" if kind == "timestamp" else "")
    if kind == "time":
        return got == expected
    if kind == "bit" and isinstance(got, bool):
        return int(got) == int(expected)
    return isinstance(got, int) and got == int(expected)


def _content(column: JsonObject, kind: str, got: object) -> bytes:
    assert isinstance(got, str)
    if kind in _BINARY_TYPES:
        return base64.b64decode(got, validate=True)
    assert kind in _TEXT_TYPES | {"enum", "set"}
    return b"".join(_encoded(char, _CODECS[str(column["charset"])]) for char in got)


def _encoded(char: str, codec: str) -> bytes:
    # The server's latin1 is cp1252 with its five holes as themselves.
    return char.encode("latin-1") if codec == "cp1252" and char in "\x81\x8d\x8f\x90\x9d" else char.encode(codec)
