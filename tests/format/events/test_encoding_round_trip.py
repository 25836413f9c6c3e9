"""What is encoded is what the decoder gives back: any table of the written types, any values, any statement."""

from __future__ import annotations

import datetime
import string
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binlog_format.block import EVENT_DTYPE, EXTENT_DTYPE, GROUP_DTYPE, Block
from binlog_format.events.layout import EVENT_HEADER_STRUCT
from binlog_format.events.table_map import parse_table_map
from binlog_format.kernels import as_bytes
from binlog_format.position import Position
from binlog_format.rows.columns import arrow_schema
from binlog_format.rows.images import ImageKind, read_images
from binlog_format.rows.table_events import TableMaps
from binlog_lab.demo.proof.expected_rows import arrow_schema as expected_schema
from binlog_lab.demo.proof.expected_rows import to_arrow
from binlog_lab.event_encoding.event_encoding import Origin
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableEncoder, TableSpec
from tests.chance import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_lab.event_encoding.value_encoding import Value

    Row = tuple[Value, ...]

ORIGIN = Origin(1_790_000_000, 1)

# Characters of latin1 as the server has it that Python can encode too.
LATIN1 = "".join(bytes([byte]).decode("cp1252", "ignore") for byte in range(32, 256))
DATES = st.dates(min_value=datetime.date(1, 1, 1))


def whole(bits: int, *, unsigned: bool) -> st.SearchStrategy[int]:
    return st.integers(0, 2**bits - 1) if unsigned else st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def cut(at: datetime.datetime, digits: int) -> datetime.datetime:
    return at.replace(microsecond=at.microsecond // 10 ** (6 - digits) * 10 ** (6 - digits))


@st.composite
def integers(draw: st.DrawFn) -> tuple[str, str, st.SearchStrategy[Value]]:
    name, bits = draw(
        st.sampled_from([("tinyint", 8), ("smallint", 16), ("mediumint", 24), ("int", 32), ("bigint", 64)])
    )
    unsigned = draw(st.booleans())
    return f"{name} unsigned" if unsigned else name, "utf8mb4", whole(bits, unsigned=unsigned)


@st.composite
def decimals(draw: st.DrawFn) -> tuple[str, str, st.SearchStrategy[Value]]:
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, min(precision, 30)))
    top = 10**precision - 1
    return (
        f"decimal({precision},{scale})",
        "utf8mb4",
        st.integers(-top, top).map(lambda number: Decimal((number < 0, _digits(number), -scale))),
    )


def _digits(number: int) -> tuple[int, ...]:
    return tuple(int(digit) for digit in str(abs(number)))


@st.composite
def temporals(draw: st.DrawFn) -> tuple[str, str, st.SearchStrategy[Value]]:
    digits = draw(st.integers(0, 6))
    first, last = datetime.datetime(1000, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001
    spans = st.integers(-3_020_399_999_999, 3_020_399_999_999).map(
        lambda us: (
            datetime.timedelta(microseconds=abs(us) // 10 ** (6 - digits) * 10 ** (6 - digits)) * (-1) ** (us < 0)
        )
    )
    moments = st.datetimes(datetime.datetime(1970, 1, 1, 0, 0, 1), datetime.datetime(2038, 1, 19))  # noqa: DTZ001
    made: dict[str, st.SearchStrategy[Value]] = {
        f"datetime({digits})": st.datetimes(first, last).map(lambda at: cut(at, digits)),
        f"timestamp({digits})": moments.map(lambda at: cut(at, digits).replace(tzinfo=datetime.UTC)),
        f"time({digits})": spans,
        "date": DATES,
    }
    name = draw(st.sampled_from(sorted(made)))
    return name, "utf8mb4", made[name]


@st.composite
def texts(draw: st.DrawFn) -> tuple[str, str, st.SearchStrategy[Value]]:
    charset = draw(st.sampled_from(["utf8mb4", "utf8mb3", "latin1", "ascii"]))
    length = draw(st.integers(1, 255))
    # CHAR: a trailing blank is padding.
    name = draw(
        st.sampled_from([f"char({length})", f"varchar({length})", "tinytext", "text", "mediumtext", "longtext"])
    )
    alphabet = {
        "utf8mb4": st.characters(exclude_categories=["Cs"]),
        "utf8mb3": st.characters(exclude_categories=["Cs"], max_codepoint=0xFFFF),
        "latin1": st.sampled_from(LATIN1),
        "ascii": st.sampled_from(string.printable),
    }[charset]
    strategy: st.SearchStrategy[Value] = st.text(alphabet, max_size=min(length, 40))
    if name.startswith("char"):
        strategy = strategy.map(lambda text: str(text).rstrip(" "))
    return name, charset, strategy


@st.composite
def binaries(draw: st.DrawFn) -> tuple[str, str, st.SearchStrategy[Value]]:
    length = draw(st.integers(1, 40))
    name = draw(st.sampled_from([f"binary({length})", f"varbinary({length})", "tinyblob", "blob", "longblob"]))
    strategy: st.SearchStrategy[Value] = st.binary(max_size=length)
    if name.startswith("binary"):
        strategy = strategy.map(lambda data: bytes(data).ljust(length, b"\0"))  # type: ignore[arg-type]
    return name, "utf8mb4", strategy


@st.composite
def others(draw: st.DrawFn) -> tuple[str, str, st.SearchStrategy[Value]]:
    count = draw(st.sampled_from([1, 3, 255, 256, 300]))
    members = [f"m{number}'" for number in range(count)]
    quoted = ",".join("'" + member.replace("'", "''") + "'" for member in members)
    made: dict[str, st.SearchStrategy[Value]] = {
        "float": st.floats(width=32, allow_nan=False, allow_infinity=False),
        "double": st.floats(allow_nan=False, allow_infinity=False),
        f"enum({quoted})": st.sampled_from(members),
    }
    name = draw(st.sampled_from(sorted(made)))
    return name, "utf8mb4", made[name]


@st.composite
def tables(draw: st.DrawFn) -> tuple[TableSpec, list[Row]]:
    kinds = draw(
        st.lists(st.one_of(integers(), decimals(), temporals(), texts(), binaries(), others()), min_size=1, max_size=12)
    )
    columns, values = [], []
    for number, (sql_type, charset, strategy) in enumerate(kinds):
        nullable = draw(st.booleans())
        columns.append(ColumnSpec(f"c{number}", sql_type, nullable=nullable, charset=charset))
        values.append(st.none() | strategy if nullable else strategy)
    names = [column.name for column in columns]
    key = draw(st.lists(st.sampled_from(names), unique=True, max_size=3))
    spec = TableSpec("d", "t", tuple(columns), tuple(key))
    return spec, draw(st.lists(st.tuples(*values), min_size=1, max_size=8))


def block_of(events: Sequence[bytes]) -> Block:
    """One group with these events."""
    starts = np.cumsum([0, *(len(event) for event in events)])
    table = np.zeros(len(events), EVENT_DTYPE)
    for number, event in enumerate(events):
        timestamp, kind, server_id, size, _, flags = EVENT_HEADER_STRUCT.unpack_from(event)
        assert size == len(event)
        table[number] = (starts[number], size, kind, flags, timestamp, server_id, 0, number)
    groups = np.zeros(1, GROUP_DTYPE)
    groups["event_count"], groups["size"], groups["begins"], groups["ends"] = len(events), starts[-1], True, True
    extents = np.array([(0, 0, 0, starts[-1])], EXTENT_DTYPE)
    return Block(as_bytes(b"".join(events)), groups, table, extents, Position(0, 1, 1))


def decoded(events: Sequence[bytes]) -> tuple[pa.Table, list[int]]:
    """All row images, and their kinds."""
    block = block_of(events)
    (touched,) = TableMaps().resolve(block)
    images = read_images(block.data, block.events, touched.events, touched.layout)
    columns = [images.column(index) for index in range(len(touched.layout.columns))]
    return pa.Table.from_arrays(columns, schema=arrow_schema(touched.layout)), images.table["kind"].tolist()


def expected(spec: TableSpec, rows: Sequence[Row]) -> pa.Table:
    fields = zip(expected_schema(spec), spec.columns, strict=True)
    return to_arrow(spec, rows).cast(pa.schema([field.with_nullable(column.nullable) for field, column in fields]))


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])
@given(tables())
def test_rows_come_back_as_they_were(made: tuple[TableSpec, list[Row]]) -> None:
    """Inserts, updates and deletes, in one transaction."""
    spec, rows = made
    encoder = TableEncoder(spec, 77)
    pairs = list(zip(rows, reversed(rows), strict=True))
    events = [
        encoder.table_map(ORIGIN),
        *encoder.insert(rows, ORIGIN),
        encoder.table_map(ORIGIN),
        *encoder.update(pairs, ORIGIN),
        encoder.table_map(ORIGIN),
        *encoder.delete(rows, ORIGIN),
    ]
    table, kinds = decoded(events)
    images = [*rows, *(row for pair in pairs for row in pair), *rows]
    assert kinds == [
        *[ImageKind.INSERT] * len(rows),
        *[ImageKind.UPDATE_BEFORE, ImageKind.UPDATE_AFTER] * len(rows),
        *[ImageKind.DELETE] * len(rows),
    ]
    wanted = expected(spec, images)
    for name in wanted.column_names:
        assert table.column(name).to_pylist() == wanted.column(name).to_pylist()
    assert table.schema.types == wanted.schema.types


@given(tables())
def test_table_maps_come_back_as_they_were(made: tuple[TableSpec, list[Row]]) -> None:
    spec, _ = made
    layout = parse_table_map(TableEncoder(spec, 5).table_map(ORIGIN))
    assert (layout.database, layout.table) == (spec.database, spec.table)
    assert layout.primary_key == spec.key_indices
    for index, (column, wanted) in enumerate(zip(layout.columns, spec.columns, strict=True)):
        nullable = wanted.nullable and index not in spec.key_indices
        assert (column.name, column.nullable) == (wanted.name, nullable)
        if wanted.codec.numeric:
            assert column.unsigned == wanted.codec.unsigned
        if wanted.codec.is_text:
            assert column.charset == wanted.charset
        assert column.enum_values == wanted.codec.enum_values


def test_a_statement_that_is_cut_into_many_events_comes_back_whole() -> None:
    spec = TableSpec("d", "t", (ColumnSpec("id", "int"), ColumnSpec("v", "varchar(300)")), ("id",))
    rows: list[Row] = [(number, f"{number}" * 20) for number in range(5000)]
    encoder = TableEncoder(spec, 1)
    events = [encoder.table_map(ORIGIN), *encoder.insert(rows, ORIGIN)]
    assert len(events) > 20
    table, _ = decoded(events)
    assert table.to_pylist() == expected(spec, rows).to_pylist()
