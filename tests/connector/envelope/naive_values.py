"""What messages hold, from Python values, one value after the other: an oracle that shares no code with the kernels."""

from __future__ import annotations

import base64
import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from binlog_connector.envelope.options import (
    BinaryHandling,
    DecimalHandling,
    EnvelopeOptions,
    TimePrecision,
    UnsignedBigintHandling,
)
from binlog_format.events.table_map_layout import ColumnType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_format.events.table_map import Column

EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - a DATETIME has no zone
DAY = datetime.timedelta(days=1)
MICROSECOND = datetime.timedelta(microseconds=1)


def twos_complement(number: int) -> str:
    """Java's `BigInteger.toByteArray`, in base64."""
    size = (number.bit_length() if number >= 0 else (number + 1).bit_length()) // 8 + 1
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


def unscaled(value: Decimal) -> int:
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)))
    return -number if sign else number


def message_value(column: Column, value: Any, options: EnvelopeOptions) -> Any:
    """What the message has for a value, as `json.dumps` takes it."""
    if value is None:
        return None
    kind = column.type
    if kind is ColumnType.BIT:
        return value if isinstance(value, bool) else _bits(column, int(value))
    if kind is ColumnType.NEWDECIMAL:
        return _decimal(Decimal(value), column.metadata >> 8, options.decimal_handling)
    if kind is ColumnType.LONGLONG and column.unsigned:
        return twos_complement(int(value)) if _is_precise(options) else int(value)
    if isinstance(value, datetime.datetime):
        return _moment(column, value, options.time_precision)
    if isinstance(value, datetime.date):
        days = (value - EPOCH.date()).days
        return f"{value.isoformat()}Z" if options.time_precision is TimePrecision.ISOSTRING else days
    if kind in (ColumnType.TIME, ColumnType.TIME2):
        return _time(value, options.time_precision)
    if isinstance(value, bytes):
        return _binary(value, options.binary_handling)
    if isinstance(value, dict):
        return _geometry(column, value, options)
    if kind is ColumnType.FLOAT:
        return _shortest(value)
    if isinstance(value, list):
        return [_shortest(number) for number in value]
    return value


def _shortest(value: float) -> float:
    # A float32 is written with as few digits as tell it from other ones.
    return float(str(np.float32(value)))


def _is_precise(options: EnvelopeOptions) -> bool:
    return options.unsigned_bigint_handling is UnsignedBigintHandling.PRECISE


def _bits(column: Column, value: int) -> str:
    count = (column.metadata & 0xFF) + 8 * (column.metadata >> 8)
    return base64.b64encode(value.to_bytes((count + 7) // 8, "little")).decode()


def _decimal(value: Decimal, scale: int, handling: DecimalHandling) -> Any:
    if handling is DecimalHandling.DOUBLE:
        return float(value)
    return f"{value:.{scale}f}" if handling is DecimalHandling.STRING else twos_complement(unscaled(value))


def _moment(column: Column, value: datetime.datetime, precision: TimePrecision) -> Any:
    digits = column.metadata & 0xFF
    if value.tzinfo is not None:
        text = value.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S").zfill(19)
        return text + (f".{value.microsecond:06}"[: digits + 1] if digits else "") + "Z"
    if precision is TimePrecision.ISOSTRING:
        return f"{value.date().isoformat()}T{_iso(value.time())}"
    micros = (value - EPOCH) // MICROSECOND
    if precision is TimePrecision.NANOSECONDS:
        return micros * 1000
    if precision is TimePrecision.CONNECT:
        return micros // 1000
    is_short = precision is TimePrecision.ADAPTIVE_TIME_MICROSECONDS and digits <= 3
    return micros // 1000 if is_short else micros


def _time(value: int, precision: TimePrecision) -> Any:
    if precision is TimePrecision.ISOSTRING:
        return _iso((EPOCH + value * MICROSECOND).time())
    return {TimePrecision.CONNECT: value // 1000, TimePrecision.NANOSECONDS: value * 1000}.get(precision, value)


def _iso(value: datetime.time) -> str:
    fraction = f".{value.microsecond:06}".rstrip("0") if value.microsecond else ""
    return f"{value.replace(microsecond=0).isoformat()}{fraction}Z"


def _binary(value: bytes, handling: BinaryHandling) -> str:
    if handling is BinaryHandling.HEX:
        return value.hex()
    encode = base64.urlsafe_b64encode if handling is BinaryHandling.BASE64_URL_SAFE else base64.b64encode
    return encode(value).decode()


def _geometry(column: Column, value: dict[str, Any], options: EnvelopeOptions) -> dict[str, Any]:
    srid = value["srid"] if options.is_first_version else value["srid"] or None
    shown = {"wkb": base64.b64encode(value["wkb"]).decode(), "srid": srid}
    if column.geometry_type != 1:
        return shown
    x, y = np.frombuffer(value["wkb"][5:21], "<f8" if value["wkb"][0] else ">f8").tolist()
    return {"x": x, "y": y} | shown


def naive_messages(
    changes: Sequence[tuple[str, tuple[Any, ...], Any, Any]], *, tombstones: bool = True
) -> list[tuple[str | None, Any, Any, Any, Any, Any]]:
    """The messages of changes, one after the other.

    Args:
        changes: Of each: operation (`insert`, `update`, `delete`), names of the key's columns, row before, row after.
        tombstones: Whether a delete is followed by one.

    Returns:
        Of each message: op (None: a tombstone), key, row before, row after, old key, new key.
    """
    messages: list[tuple[str | None, Any, Any, Any, Any, Any]] = []
    for op, names, before, after in changes:
        old = {name: before[name] for name in names} if before is not None and names else None
        new = {name: after[name] for name in names} if after is not None and names else None
        has_tombstone = tombstones and bool(names)
        if op == "insert":
            messages.append(("c", new, None, after, None, None))
        elif op == "update" and old == new:
            messages.append(("u", new, before, after, None, None))
        else:
            messages.append(("d", old, before, None, None, new))
            if has_tombstone:
                messages.append((None, old, None, None, None, new))
            if op == "update":
                messages.append(("c", new, None, after, old, None))
    return messages
