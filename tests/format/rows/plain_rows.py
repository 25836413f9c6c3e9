"""Table maps, row events and values written in plain Python: what the kernels read, from the format's description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.events.table_map_layout import ColumnType

if TYPE_CHECKING:
    import datetime
    from collections.abc import Sequence
    from decimal import Decimal

WRITE, UPDATE, DELETE = 23, 24, 25
TABLE_MAP = 19


@dataclass(frozen=True)
class PlainColumn:
    """A column as the table map has it.

    Attributes:
        type: Type code in the table map.
        unsigned: For numeric types.
        collation: For text types.
        labels: For ENUM and SET, in UTF-8.
        nullable: Whether it can be NULL.
    """

    type: ColumnType
    metadata: bytes = b""
    unsigned: bool | None = None
    collation: int | None = None
    labels: tuple[str, ...] | None = None
    nullable: bool = True


def varint(number: int) -> bytes:
    if number < 0xFB:
        return bytes([number])
    size, lead = next((s, m) for s, m in ((2, 0xFC), (3, 0xFD), (8, 0xFE)) if number < 256**s)
    return bytes([lead]) + number.to_bytes(size, "little")


def bitmap(bits: Sequence[bool], *, unused: bool = False) -> bytes:
    """Bits, lowest first; those after the last one are set where *unused* is true."""
    padded = [*bits, *([unused] * (-len(bits) % 8))]
    return bytes(sum(bit << k for k, bit in enumerate(padded[i : i + 8])) for i in range(0, len(padded), 8))


def event(kind: int, body: bytes, *, flags: int = 0) -> bytes:
    size = 19 + len(body)
    header = (1_700_000_000).to_bytes(4, "little") + bytes([kind]) + (7).to_bytes(4, "little")
    return header + size.to_bytes(4, "little") + bytes(4) + flags.to_bytes(2, "little") + body


def gtid_event(seqno: int = 1) -> bytes:
    return event(162, seqno.to_bytes(8, "little") + bytes(4) + b"\x00" + bytes(6))


def table_map(
    columns: Sequence[PlainColumn],
    *,
    table_id: int = 42,
    database: str = "shop",
    table: str = "orders",
    names: bool | Sequence[str] = True,
    key: Sequence[int] = (),
) -> bytes:
    """A table map event with the optional metadata that the columns have."""
    types = bytes(ColumnType.STRING if c.type in (ColumnType.ENUM, ColumnType.SET) else c.type for c in columns)
    type_metadata = b"".join(c.metadata for c in columns)
    body = table_id.to_bytes(6, "little") + b"\x01\x00"
    for name in (database, table):
        body += bytes([len(name.encode())]) + name.encode() + b"\x00"
    body += varint(len(columns)) + types + varint(len(type_metadata)) + type_metadata
    body += bitmap([c.nullable for c in columns])
    fields: list[tuple[int, bytes]] = []
    signs = [c.unsigned for c in columns if c.unsigned is not None]
    if signs:
        bits = bytes(int(f"{byte:08b}"[::-1], 2) for byte in bitmap(signs))
        fields.append((1, bits))
    is_enum = (ColumnType.ENUM, ColumnType.SET)
    texts = [c.collation for c in columns if c.collation is not None and c.type not in is_enum]
    if texts:
        fields.append((3, b"".join(map(varint, texts))))
    if names:
        called = [f"c{i}" for i in range(len(columns))] if names is True else names
        fields.append((4, b"".join(varint(len(name.encode())) + name.encode() for name in called)))
    for number, kind in ((5, ColumnType.SET), (6, ColumnType.ENUM)):
        labels = [c.labels for c in columns if c.type is kind and c.labels is not None]
        content = b"".join(
            varint(len(group)) + b"".join(varint(len(x.encode())) + x.encode() for x in group) for group in labels
        )
        if labels:
            fields.append((number, content))
    if key:
        fields.append((8, b"".join(map(varint, key))))
    enums = [c.collation for c in columns if c.collation is not None and c.type in is_enum]
    if enums:
        fields.append((11, b"".join(map(varint, enums))))
    body += b"".join(bytes([number]) + varint(len(content)) + content for number, content in fields)
    return event(TABLE_MAP, body)


def image(row: Sequence[bytes | None], present: Sequence[bool]) -> bytes:
    """A row image: null bits of the present columns, then the values."""
    values = [value for value, is_present in zip(row, present, strict=True) if is_present]
    return bitmap([value is None for value in values], unused=True) + b"".join(v for v in values if v is not None)


def rows_event(
    kind: int,
    rows: Sequence[Sequence[bytes | None]],
    column_count: int,
    *,
    table_id: int = 42,
    present: Sequence[bool] | None = None,
    after: Sequence[bool] | None = None,
    flags: int = 1,
) -> bytes:
    """A row event v1; for UPDATE *rows* are the images before and after by turns."""
    present = [True] * column_count if present is None else present
    body = table_id.to_bytes(6, "little") + flags.to_bytes(2, "little") + varint(column_count)
    body += bitmap(present, unused=True)
    if kind != UPDATE:
        return event(kind, body + b"".join(image(row, present) for row in rows))
    after = [True] * column_count if after is None else after
    body += bitmap(after, unused=True)
    sides = (present, after)
    return event(kind, body + b"".join(image(row, sides[i % 2]) for i, row in enumerate(rows)))


def sized(content: bytes, prefix: int) -> bytes:
    return len(content).to_bytes(prefix, "little") + content


_DIGIT_BYTES = {0: 0, 1: 1, 2: 1, 3: 2, 4: 2, 5: 3, 6: 3, 7: 4, 8: 4, 9: 4}


def decimal_bytes(value: Decimal, precision: int, scale: int) -> bytes:
    """NEWDECIMAL: groups of nine digits from the point outwards, the sign in the highest bit."""
    assert value.as_tuple().exponent == -scale
    digits = "".join(map(str, value.as_tuple().digits)).zfill(precision)
    whole, fraction = digits[: precision - scale], digits[precision - scale :]
    groups = []
    first = len(whole) % 9
    if first:
        groups.append(whole[:first])
    groups += [whole[i : i + 9] for i in range(first, len(whole), 9)]
    groups += [fraction[i : i + 9] for i in range(0, len(fraction), 9)]
    packed = bytearray(b"".join(int(group).to_bytes(_DIGIT_BYTES[len(group)], "big") for group in groups))
    packed[0] ^= 0x80
    return bytes(byte ^ 0xFF for byte in packed) if value < 0 else bytes(packed)


def date_bytes(year: int, month: int, day: int) -> bytes:
    return (day + 32 * month + 512 * year).to_bytes(3, "little")


def _fraction_bytes(micros: int, digits: int) -> bytes:
    size = (digits + 1) // 2
    return int(micros // 10 ** (6 - 2 * size)).to_bytes(size, "big")


def datetime_bytes(value: datetime.datetime, digits: int) -> bytes:
    days = (value.year * 13 + value.month) * 32 + value.day
    packed = days * 2**17 + value.hour * 4096 + value.minute * 64 + value.second
    whole: bytes = (packed + 0x8000000000).to_bytes(5, "big")
    return whole + _fraction_bytes(value.microsecond, digits)


def timestamp_bytes(seconds: int, micros: int, digits: int) -> bytes:
    return seconds.to_bytes(4, "big") + _fraction_bytes(micros, digits)


def time_bytes(sign: int, hour: int, minute: int, second: int, micros: int, digits: int) -> bytes:
    """TIME: one signed number of time and fraction, moved up so that it is not negative."""
    size = (digits + 1) // 2
    fraction = int(micros // 10 ** (6 - 2 * size))
    packed = ((hour * 4096 + minute * 64 + second) << 8 * size) + fraction
    moved_up = (0x800000 << 8 * size) + sign * packed
    return moved_up.to_bytes(3 + size, "big")
