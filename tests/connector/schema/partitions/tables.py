"""Random partitioned tables, as CREATE TABLE and rows."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    Value = int | bytes | datetime.date | datetime.datetime | None
    Draw = Callable[[random.Random], Value]


@dataclass(frozen=True, slots=True)
class Column:
    """A column that a table is partitioned by.

    Attributes:
        draw: A value for a row; never NULL.
        nullable: Whether rows have NULL in it, too.
    """

    declared: str
    draw: Draw
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """A partitioned table.

    Attributes:
        columns: Those that it is partitioned by; `c0`, `c1`, ...
    """

    create: str
    partitions: tuple[str, ...]
    columns: tuple[Column, ...]


_START = datetime.datetime(1970, 1, 2)  # noqa: DTZ001 - a DATETIME has no time zone either


def _whole(low: int, high: int, *edges: int) -> Draw:
    return lambda draw: draw.choice([draw.randint(-3, 40), draw.randint(low, high), low, high, *edges])


def _date(draw: random.Random) -> datetime.date:
    day = draw.choice([draw.randint(1, 3_652_059), draw.randint(719_000, 740_000), 719_163])
    return datetime.date.fromordinal(day)


def _datetime(draw: random.Random) -> datetime.datetime:
    seconds = datetime.timedelta(seconds=draw.choice([0, draw.randint(0, 86_399)]))
    return datetime.datetime.combine(_date(draw), datetime.time()) + seconds


def _timestamp(draw: random.Random) -> datetime.datetime:
    return _START + datetime.timedelta(seconds=draw.randint(0, 2_000_000_000), milliseconds=draw.choice([0, 500, 999]))


def _bytes(draw: random.Random) -> bytes:
    return bytes(draw.choice([0x00, 0x20, 0x41, 0x61, 0xFF]) for _ in range(draw.randint(0, 3)))


def _unsigned(draw: Draw) -> Draw:
    return lambda source: abs(value) if isinstance(value := draw(source), int) else value


INT = Column("INT", _whole(-(2**31), 2**31 - 1))
SMALL = Column("SMALLINT UNSIGNED", _unsigned(_whole(0, 2**16 - 1)))
ABOVE_3 = Column("SMALLINT UNSIGNED", lambda draw: draw.randint(4, 2**16 - 1))
TINY = Column("TINYINT", lambda draw: draw.randint(-128, 127))
BIG = Column("BIGINT", _whole(-(2**63), 2**63 - 1))
HUGE = Column("BIGINT UNSIGNED", _unsigned(_whole(0, 2**64 - 1, 2**63)))
HALF = Column("BIGINT UNSIGNED", _unsigned(_whole(0, 2**62)))
YEAR = Column("YEAR", lambda draw: draw.randint(1901, 2155))
BIT = Column("BIT(9)", lambda draw: draw.randint(0, 511))
DATE = Column("DATE NOT NULL", _date, nullable=False)
DATETIME = Column("DATETIME(3) NOT NULL", _datetime, nullable=False)
TIMESTAMP = Column("TIMESTAMP NOT NULL", _timestamp, nullable=False)
FINE_TIMESTAMP = Column("TIMESTAMP(3) NOT NULL", _timestamp, nullable=False)
VARBINARY = Column("VARBINARY(4)", _bytes)
BINARY = Column("BINARY(3)", lambda draw: _bytes(draw).ljust(3, b"\0"))

# What a table is partitioned by, of one column c0; what a bound of it looks like, of a value.
_EXPRESSIONS: tuple[tuple[str, Column], ...] = (
    *(("c0", column) for column in (INT, SMALL, TINY, BIG, HUGE, YEAR, BIT)),
    ("c0 + 3", INT),
    ("c0 * 2 - 7", ABOVE_3),
    ("-c0 + ABS(c0)", TINY),
    ("c0 DIV 7", INT),
    ("c0 DIV -3 * 5", TINY),
    ("c0 MOD 5", INT),
    ("c0 % -7 + 1", BIG),
    ("MOD(c0, 11)", HUGE),
    ("c0 DIV 1000", HUGE),
    ("c0 * 2 + 1", HALF),
    ("c0 * c0", SMALL),
    ("(c0 + 1) * (c0 - 1)", TINY),
    ("TO_DAYS(c0)", DATE),
    ("to_days(`c0`)", DATETIME),
    ("TO_SECONDS(c0)", DATE),
    ("TO_SECONDS(c0)", DATETIME),
    ("YEAR(c0)", DATE),
    ("EXTRACT(QUARTER FROM c0)", DATE),
    ("EXTRACT(YEAR_MONTH FROM c0)", DATETIME),
    ("YEAR(c0) * 100 + MONTH(c0)", DATETIME),
    ("QUARTER(c0)", DATE),
    ("DAY(c0) MOD 4", DATE),
    ("DAYOFMONTH(c0)", DATETIME),
    ("DAYOFYEAR(c0)", DATE),
    ("DAYOFWEEK(c0)", DATE),
    ("WEEKDAY(c0)", DATETIME),
    ("HOUR(c0) * 3600 + MINUTE(c0) * 60 + SECOND(c0)", DATETIME),
    ("UNIX_TIMESTAMP(c0)", TIMESTAMP),
    ("UNIX_TIMESTAMP(c0)", FINE_TIMESTAMP),
    ("FLOOR(UNIX_TIMESTAMP(c0))", FINE_TIMESTAMP),
)
EXPRESSION_COUNT = len(_EXPRESSIONS)

# MariaDB 10.11 does not open a table again that has a value from 2^63 on here.
_COLUMNS: tuple[tuple[Column, ...], ...] = (
    (INT,), (HALF,), (DATE,), (DATETIME,), (VARBINARY,), (BINARY,),
    (INT, DATE), (TINY, TINY), (TINY, VARBINARY, TINY), (DATETIME, BIG), (BINARY, SMALL),
)  # fmt: skip
COLUMNS_COUNT = len(_COLUMNS)


def literal(value: Value) -> str:
    """As a statement has it."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'" if value else "''"
    return str(value) if isinstance(value, int) else f"'{value}'"


def by_expression(number: int, draw: random.Random, values: Callable[[str, Column], Sequence[int | None]]) -> Table:
    """One that is partitioned by an expression.

    Args:
        draw: For the rest.
        values: What the server makes of the expression, for some values of the column.
    """
    expression, column = _EXPRESSIONS[number]
    found = values(expression, column)
    known = sorted({value for value in found if value is not None})
    if draw.random() < 0.5:
        bounds = draw.sample(known, min(len(known), draw.randint(1, 5)))
        partitions = [f"VALUES LESS THAN ({bound})" for bound in sorted(bounds)] + ["VALUES LESS THAN MAXVALUE"]
        kind = "RANGE"
    else:
        listed: list[str] = [str(value) for value in known] + (["NULL"] if draw.random() < 0.7 else [])
        draw.shuffle(listed)
        cut = len(listed) // 3 or 1
        partitions = [f"VALUES IN ({', '.join(part)})" for part in (listed[:cut], listed[cut : 2 * cut]) if part]
        partitions.append("DEFAULT")
        kind = "LIST"
    return _table(f"{kind} ({expression})", partitions, (column,))


def by_columns(number: int, draw: random.Random) -> Table:
    """One that is partitioned by columns."""
    columns = _COLUMNS[number]
    names = ", ".join(f"c{place}" for place in range(len(columns)))
    rows = [tuple(column.draw(draw) for column in columns) for _ in range(6)]
    if draw.random() < 0.5:
        bounds = [f"({', '.join(map(literal, row))})" for row in sorted(set(rows), key=_order)]
        if len(columns) > 1:
            bounds[-1] = f"({literal(max(rows, key=_order)[0])}, {', '.join(['MAXVALUE'] * (len(columns) - 1))})"
        bounds.append(f"({', '.join(['MAXVALUE'] * len(columns))})")
        return _table(f"RANGE COLUMNS ({names})", [f"VALUES LESS THAN {bound}" for bound in bounds], columns)
    listed = list(dict.fromkeys(rows))
    listed.append(
        tuple(
            None if column.nullable and draw.random() < 0.6 else value
            for column, value in zip(columns, listed[0], strict=True)
        )
    )
    listed = list(dict.fromkeys(listed))
    texts = [", ".join(map(literal, row)) for row in listed]
    if len(columns) > 1:
        texts = [f"({text})" for text in texts]
    half = len(texts) // 2
    partitions = [f"VALUES IN ({', '.join(texts[:half])})", f"VALUES IN ({', '.join(texts[half:])})", "DEFAULT"]
    return _table(f"LIST COLUMNS ({names})", partitions, columns)


def _order(row: tuple[Value, ...]) -> tuple[object, ...]:
    return tuple(value for value in row)


def _table(by: str, values: Sequence[str], columns: tuple[Column, ...]) -> Table:
    declared = ", ".join(f"c{place} {column.declared}" for place, column in enumerate(columns))
    names = tuple(f"p{number}" for number in range(len(values)))
    listed = ", ".join(f"PARTITION {name} {text}" for name, text in zip(names, values, strict=True))
    return Table(f"CREATE TABLE t (id INT, {declared}) PARTITION BY {by} ({listed})", names, columns)


def rows_of(columns: Sequence[Column], draw: random.Random, count: int) -> list[tuple[Value, ...]]:
    """Rows for a table with these columns."""
    return [
        tuple(None if column.nullable and draw.random() < 0.1 else column.draw(draw) for column in columns)
        for _ in range(count)
    ]
