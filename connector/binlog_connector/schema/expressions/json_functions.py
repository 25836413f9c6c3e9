"""Values that paths find in JSON documents: `json_texts`, `json_numbers`.

Each document is read in Python: an ALTER TABLE that adds such a column reads its table once.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pyarrow as pa

from binlog_connector.schema.effects.conversion import UNKNOWN, by_distinct
from binlog_connector.schema.expressions.operands import Kind, NotComputedError, Operand, number

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_format.kernels import Mask

_PATH = re.compile(r"\$(?:\.[A-Za-z_$][\w$]*|\.\"[^\"\\]*\"|\[\d+\])*", re.ASCII)
_LEG = re.compile(r"\.\"(?P<quoted>[^\"]*)\"|\.(?P<name>[\w$]+)|\[(?P<place>\d+)\]", re.ASCII)
_DIGITS = 20
_INT64_MAX = (1 << 63) - 1
_MISSING = object()


class _OpenError(Exception):
    """A document of which servers may make something else."""


def json_texts(document: Operand, path: str, *, null: object) -> Operand:
    """Texts without quotes of what a path finds.

    Args:
        null: Result for a `null` in the document: a text, None, or `UNKNOWN`.
    """

    def found(value: object) -> object:
        if value is None:
            return null
        if isinstance(value, str):
            return value
        return str(value) if type(value) is int else UNKNOWN

    array, unknown = _found(document, path, found, pa.string())
    return Operand(Kind.TEXT, array, unknown, charset="utf8mb4")


def json_numbers(document: Operand, path: str) -> Operand:
    """Whole numbers that a path finds; all else is unknown."""

    def found(value: object) -> object:
        return value if type(value) is int and abs(value) <= _INT64_MAX else UNKNOWN

    array, unknown = _found(document, path, found, pa.int64())
    return number(array, _DIGITS, unknown=unknown)


def _found(
    document: Operand, path: str, found: Callable[[object], object], kind: pa.DataType
) -> tuple[pa.Array, Mask | None]:
    legs = _legs(path)

    def read(text: object) -> object:
        try:
            value = json.loads(
                str(text), object_pairs_hook=_members, parse_int=_whole, parse_float=_open, parse_constant=_open
            )
            for leg in legs:
                value = _step(value, leg)
                if value is _MISSING:
                    return None
        except (ValueError, RecursionError, _OpenError):
            return UNKNOWN
        return found(value)

    values = by_distinct(read, kind)(document.of_kind(Kind.JSON).array)
    return values.array, document.doubted(values.unknown).unknown


def _legs(path: str) -> list[str | int]:
    if _PATH.fullmatch(path) is None:
        raise NotComputedError(f"the path {path!r}")
    return [
        int(leg["place"]) if leg["place"] else leg["name"] if leg["name"] else leg["quoted"]
        for leg in _LEG.finditer(path)
    ]


def _step(value: object, leg: str | int) -> object:
    if isinstance(leg, str):
        return value.get(leg, _MISSING) if isinstance(value, dict) else _MISSING
    if not isinstance(value, list):
        raise _OpenError  # servers take what is no array for an array of one
    return value[leg] if leg < len(value) else _MISSING


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _OpenError
    return members


class _Open:
    """A number whose text depends on the server."""


def _open(_: str) -> _Open:
    return _Open()


def _whole(text: str) -> int | _Open:
    return _Open() if text == "-0" else int(text)
