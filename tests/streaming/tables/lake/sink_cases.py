"""What the conformance tests of the sinks share: `SINKS`, a `Place` to write to and to read back from, and its rows."""

from __future__ import annotations

import datetime as dt
from contextlib import closing
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from hypothesis import strategies as st

from binlog_connector.crash_points import reached
from binlog_streaming.lake.change import Change
from binlog_streaming.lake.commit_id import CommitId
from binlog_streaming.lake.iceberg.catalog import identifier, open_catalog
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.lake.target import CrashPoint
from binlog_streaming.settings import Merge, Mode, Sink, TableFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from binlog_streaming.lake.evolution import SchemaChange
    from binlog_streaming.lake.target import Target
    from tests.streaming.tables.modes.row_images import Change as RowChange
    from tests.streaming.tables.modes.row_images import Row

SINKS = tuple(TableFormat)
MIRROR_SINKS = (TableFormat.DELTA, TableFormat.ICEBERG)


class Variant(StrEnum):
    """A format, and how its rows are replaced."""

    DELTA = "delta"
    VECTORS = "vectors"
    ICEBERG = "iceberg"
    PARQUET = "parquet"

    @property
    def table_format(self) -> TableFormat:
        """The format alone."""
        return TableFormat.DELTA if self is Variant.VECTORS else TableFormat(self.value)

    def place(self, directory: Path) -> Place:
        """A place that is written in this way."""
        merge_kind = Merge.MARK if self is Variant.VECTORS else Merge.REWRITE
        return Place(directory, self.table_format, merge_kind=merge_kind)


VARIANTS = tuple(Variant)
MIRROR_VARIANTS = (Variant.DELTA, Variant.VECTORS, Variant.ICEBERG)
INT_KEY = pa.schema([("id", pa.int32()), ("value", pa.string())])
COMMIT_ID = CommitId(
    query_id="q-1",
    batch_id=0,
    step=0,
    source_table="shop.orders",
    mode=Mode.CHANGELOG,
    keys=(),
    position="0:12:3",
    last_change="0:11:2:5",
    gtid="0-1-7",
)
MIRROR_COMMIT_ID = replace(COMMIT_ID, mode=Mode.MIRROR, keys=("id",))


@dataclass(frozen=True)
class Place:
    """A table `shop/orders` in a folder, in some format."""

    directory: Path
    format: TableFormat
    name: str = "shop/orders"
    file_size: int = 64 << 20
    merge_kind: Merge = Merge.REWRITE

    @property
    def sink(self) -> Sink:
        return Sink(
            directory=str(self.directory),
            format=self.format,
            target_file_size=self.file_size,
            merge=self.merge_kind,
        )

    @property
    def uri(self) -> str:
        return f"{self.directory}/{self.name}"

    def target(self) -> Target:
        """A look; to be closed."""
        return sink_type(self.format).at(self.sink, self.uri)

    def content(self) -> pa.Table:
        """What a reader gets."""
        if self.merge_kind is Merge.MARK:
            table = DeltaTable(self.uri)
            return pa.table(table.scan().read_all()).cast(pa.schema(table.schema()))
        if self.format is TableFormat.DELTA:
            return DeltaTable(self.uri).to_pyarrow_table()
        if self.format is TableFormat.PARQUET:
            return self._files()
        with closing(open_catalog(self.sink)) as catalog:
            return catalog.load_table(identifier(str(self.directory), self.uri)).scan().to_arrow()

    def _files(self) -> pa.Table:
        # As engines read a folder whose files have not all columns yet.
        files = sorted(path for path in (self.directory / self.name).rglob("*.parquet"))
        files = [path for path in files if not path.name.startswith((".", "_"))]
        if not files:
            with closing(self.target()) as target:
                return target.schema().empty_table()
        return pa.concat_tables(map(pq.read_table, files), promote_options="permissive")

    def rows(self) -> list[Row]:
        """The same, as plain values."""
        return [tuple(row.values()) for row in self.content().to_pylist()]

    def sorted_rows(self) -> list[Row]:
        """The same, in an order that counts only on values."""
        return sorted(self.rows(), key=repr)

    def ids(self) -> list[int]:
        """Column `id`, sorted."""
        return sorted(self.content().column("id").to_pylist())

    def state(self) -> object:
        """Something that every commit changes."""
        if self.format is TableFormat.DELTA:
            return DeltaTable(self.uri).version()
        if self.format is TableFormat.PARQUET:
            folder = self.directory / self.name
            return sorted((str(path), path.stat().st_ino) for path in folder.rglob("*") if path.is_file())
        with closing(open_catalog(self.sink)) as catalog:
            return catalog.load_table(identifier(str(self.directory), self.uri)).metadata_location

    def step(self, commit_id: CommitId, write: Callable[[Target], object], schema: pa.Schema = INT_KEY) -> bool:
        """One step as a job does it: look, make the table, write; whether it wrote."""
        with closing(self.target()) as target:
            if target.is_done(commit_id):
                return False
            target.check_owner(commit_id)
            reached(CrashPoint.LOOKED)
            target.create(schema, commit_id)
            return write(target) != 0

    def append(self, batch_id: int, rows: pa.Table, commit_id: CommitId = COMMIT_ID) -> bool:
        """A batch into a changelog."""
        commit_id = replace(commit_id, batch_id=batch_id)
        return self.step(commit_id, lambda target: target.append(rows.to_reader(), commit_id), rows.schema)

    def merge(
        self, batch_id: int, changes: Sequence[RowChange], schema: pa.Schema = INT_KEY, key_count: int = 1
    ) -> bool:
        """A batch into a mirror whose first columns are the key."""
        commit_id = replace(MIRROR_COMMIT_ID, batch_id=batch_id, keys=tuple(schema.names[:key_count]))
        change = net_change(changes, schema, key_count)
        return self.step(commit_id, lambda target: target.merge(change, commit_id), schema)

    def bring(self, change: Change, *, batch_id: int = 1, step: int = 0, schema: pa.Schema = INT_KEY) -> bool:
        """A change of rows into a mirror with the key `id`."""
        commit_id = replace(MIRROR_COMMIT_ID, batch_id=batch_id, step=step)
        return self.step(commit_id, lambda target: target.merge(change, commit_id), schema)

    def evolve(self, change: SchemaChange, commit_id: CommitId) -> bool:
        """A change of columns."""
        return self.step(commit_id, lambda target: target.evolve(change, commit_id))

    def replace(self, rows: pa.Table, commit_id: CommitId) -> bool:
        """Other rows in the place of all."""
        return self.step(commit_id, lambda target: target.replace(rows.to_reader(), commit_id), rows.schema)

    def read(self) -> pa.Table:
        """What the target itself reads."""
        with closing(self.target()) as target:
            reader = target.read()
            assert reader.schema.equals(target.schema())
            return reader.read_all()


def numbers(*ids: int) -> pa.Table:
    """Rows of `INT_KEY`."""
    return pa.table({"id": pa.array(ids, pa.int32()), "value": pa.array(["x"] * len(ids))}, schema=INT_KEY)


def rows_of(schema: pa.Schema, rows: Iterable[Row]) -> pa.Table:
    """Plain rows as a table."""
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def change_of(
    upserts: Iterable[Row] = (),
    deletes: Iterable[int] = (),
    *,
    schema: pa.Schema = INT_KEY,
    **others: object,
) -> Change:
    """A change of a table with the key `id`; *others* are the other attributes of `Change`."""
    gone = rows_of(pa.schema([schema.field("id")]), [(key,) for key in deletes])
    return replace(Change(rows_of(schema, upserts), gone), **others)  # type: ignore[arg-type]


def net_change(changes: Sequence[RowChange], schema: pa.Schema, key_count: int) -> Change:
    """What is left of *changes*, in plain Python."""
    left: dict[Row, Row | None] = {}
    for before, after in changes:
        left |= {} if before is None else {before[:key_count]: None}
        left |= {} if after is None else {after[:key_count]: after}
    keys = pa.schema([schema.field(index) for index in range(key_count)])
    return Change(
        rows_of(schema, [row for row in left.values() if row is not None]),
        rows_of(keys, [key for key, row in left.items() if row is None]),
    )


# Every Arrow type that a column of a log can have, with the values at its edges.
COLUMNS: dict[str, tuple[pa.DataType, list[object]]] = {
    "tinyint": (pa.int8(), [-128, 127, None]),
    "smallint": (pa.int16(), [-(2**15), 2**15 - 1, None]),
    "int": (pa.int32(), [-(2**31), 2**31 - 1, None]),
    "bigint": (pa.int64(), [-(2**63), 2**63 - 1, None]),
    "bigint unsigned": (pa.decimal128(20, 0), [Decimal(0), Decimal(2**64 - 1), None]),
    "decimal(5,2)": (pa.decimal128(5, 2), [Decimal("-999.99"), Decimal("0.01"), None]),
    "decimal(38,10)": (pa.decimal128(38, 10), [Decimal("9" * 28 + ".0123456789"), Decimal("-1.5"), None]),
    "decimal(38,38)": (pa.decimal128(38, 38), [Decimal("0." + "9" * 38), Decimal(0), None]),
    "float": (pa.float32(), [1.5, -3.4028234663852886e38, None]),
    "double": (pa.float64(), [5e-324, -1.7976931348623157e308, None]),
    "bit": (pa.bool_(), [True, False, None]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
    "datetime": (pa.timestamp("us"), [-62135596800000000, 253402300799999999, None]),
    "timestamp": (pa.timestamp("us", "UTC"), [0, 2147483647999999, None]),
    "text": (pa.string(), ["", "é\0\U0010ffff" + "x" * 70000, None]),
    "blob": (pa.binary(), [b"", b"\xff\0" * 40000, None]),
    "position": (
        pa.struct([("file_no", pa.int64()), ("page", pa.int64()), ("chunk", pa.int32())]),
        [{"file_no": 1, "page": 2**40, "chunk": 3}, None, None],
    ),
}

NESTED: dict[str, tuple[pa.DataType, list[object]]] = {
    "geometry": (
        pa.struct([("srid", pa.int32()), ("wkb", pa.binary())]),
        [{"srid": 4326, "wkb": b"\x01\x01\0\0\0" + b"\0" * 16}, {"srid": 0, "wkb": b""}, None],
    ),
    "vector": (pa.list_(pa.float32()), [[1.5, -0.0, 3.4028234663852886e38], [], None]),
    "year": (pa.int32(), [1901, 0, None]),
}
ALL_COLUMNS = {**COLUMNS, **NESTED}


def all_types() -> pa.Table:
    """A column of every type, with the values at its edges, and a NULL."""
    schema = pa.schema([(name, kind) for name, (kind, _) in ALL_COLUMNS.items()])
    return pa.Table.from_arrays([pa.array(values, kind) for kind, values in ALL_COLUMNS.values()], schema=schema)


KEY_TYPES: dict[str, tuple[pa.DataType, list[object]]] = {
    "tinyint": (pa.int8(), [-128, 0, 127]),
    "bigint": (pa.int64(), [-(2**63), 2**53 + 1, 2**63 - 1]),
    # deltalake's statistics of these are wrong: whoever prunes by them misses rows.
    "bigint unsigned": (pa.decimal128(20, 0), [Decimal(0), Decimal(2**63 + 5), Decimal(2**64 - 1)]),
    "decimal(38,10)": (pa.decimal128(38, 10), [Decimal("9999999999999999999999999999.0123456789"), Decimal("-1")]),
    "decimal(16,1)": (pa.decimal128(16, 1), [Decimal("900719925474099.3"), Decimal("1.1")]),
    "varchar": (pa.string(), ["", "a", "A", "a ", "é" * 60, "\U0010ffff" * 40, "x" * 300, 'it\'s "quoted"\\']),
    "binary": (pa.binary(), [b"", b"\0", b"\xff" * 80, b"a"]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "datetime(6)": (
        pa.timestamp("us"),
        list(map(dt.datetime.fromisoformat, ["1969-12-31T23:59:59.999999", "2020-01-01T00:00:00.000001"])),
    ),
    "double": (pa.float64(), [5e-324, -1.5, 1e300]),
    "bit": (pa.bool_(), [False, True]),
    "timestamp(6)": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(2020, 1, 1, 0, 0, 0, 999999, tzinfo=dt.UTC), dt.datetime(1970, 1, 1, tzinfo=dt.UTC)],
    ),
}


COMPOSITE = pa.schema([("tenant", pa.string()), ("n", pa.int16()), ("raw", pa.binary()), ("value", pa.string())])
_KEY = st.tuples(st.sampled_from(["", "a", "A"]), st.integers(0, 3), st.sampled_from([b"", b"\xff"]))
_VALUE = st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=5))


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[list[RowChange]], dict[tuple[object, ...], Row]]:
    """Batches of changes that a server could have logged, and the table at the end."""
    model: dict[tuple[object, ...], Row] = {}
    batches: list[list[RowChange]] = []
    for _ in range(draw(st.integers(1, 4))):
        batch: list[RowChange] = []
        for _ in range(draw(st.integers(0, 12))):
            key, value = draw(_KEY), draw(_VALUE)
            before = model.pop(key, None)
            if before is None:
                model[key] = (*key, value)
                batch.append((None, model[key]))
            elif draw(st.booleans()):
                batch.append((before, None))
            else:
                free = draw(_KEY.filter(lambda other: other not in model))  # often the same key
                model[free] = (*free, value)
                batch.append((before, model[free]))
        batches.append(batch)
    return batches, model
