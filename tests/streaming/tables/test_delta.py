from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from binlog_format.errors import SchemaError, TableError
from binlog_streaming.settings import Mode, Sink
from binlog_streaming.tables import maintenance
from binlog_streaming.tables.delta import DeltaTarget, is_commit_conflict
from binlog_streaming.tables.maintenance import maintain
from binlog_streaming.tables.target import Ticket, target_uri

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema([("id", pa.int32()), ("value", pa.string())])
TICKET = Ticket(
    query_id="q-1",
    batch_id=0,
    source_table="shop.orders",
    mode=Mode.CHANGELOG,
    keys=(),
    position="0:12:3",
    last_change="0:11:2:5",
    gtid="0-1-7",
)


def find(uri: str) -> DeltaTarget:
    return DeltaTarget.find(uri, {}, file_size=64 << 20)


def append(uri: str, ticket: Ticket, ids: list[int]) -> None:
    target = find(uri)
    target.ensure(SCHEMA, ticket)
    rows = pa.table({"id": pa.array(ids, pa.int32()), "value": pa.array(["x"] * len(ids))}, schema=SCHEMA)
    target.append(rows.to_reader(), ticket)


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


def test_every_type_comes_back_as_it_was(tmp_path: Path) -> None:
    schema = pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()])
    rows = pa.Table.from_arrays([pa.array(values, kind) for kind, values in COLUMNS.values()], schema=schema)
    target = find(str(tmp_path))
    target.ensure(schema, TICKET)
    target.append(rows.to_reader(), TICKET)
    assert find(str(tmp_path)).table is not None
    back = DeltaTable(str(tmp_path)).to_pyarrow_table()
    assert back.schema.equals(schema)
    assert back.equals(rows)
    find(str(tmp_path)).check_schema(schema, TICKET)


def test_columns_may_always_be_null(tmp_path: Path) -> None:
    """A zero date is null in a NOT NULL column."""
    schema = pa.schema([pa.field("day", pa.date32(), nullable=False)])
    target = find(str(tmp_path))
    target.ensure(schema, TICKET)
    target.append(pa.table({"day": pa.array([None], pa.date32())}).to_reader(), TICKET)
    assert DeltaTable(str(tmp_path)).to_pyarrow_table().to_pylist() == [{"day": None}]


def test_inexact_statistics_are_not_written(tmp_path: Path) -> None:
    """A reader that trusted them would skip the file that holds the row."""
    schema = pa.schema([("id", pa.decimal128(20, 0)), ("n", pa.int32())])
    target = find(str(tmp_path))
    target.ensure(schema, TICKET)
    rows = pa.table({"id": [Decimal(2**64 - 1)], "n": [1]}, schema=schema)
    target.append(rows.to_reader(), TICKET)
    (file,) = pa.table(DeltaTable(str(tmp_path)).get_add_actions(flatten=True)).to_pylist()
    assert file.get("min.id") is None
    assert file["min.n"] == 1
    assert find(str(tmp_path)).key_ranges("id") is None
    assert DeltaTable(str(tmp_path)).count() == 1


def test_columns_in_another_order_go_to_their_names(tmp_path: Path) -> None:
    append(str(tmp_path), TICKET, [1])
    turned = pa.schema([SCHEMA.field("value"), SCHEMA.field("id")])
    target = find(str(tmp_path))
    target.check_schema(turned, TICKET)
    target.append(pa.table({"value": ["y"], "id": [2]}, schema=turned).to_reader(), replace(TICKET, batch_id=1))
    assert sorted(row["id"] for row in DeltaTable(str(tmp_path)).to_pyarrow_table().to_pylist()) == [1, 2]


def test_commit_remembers_batch_and_position(tmp_path: Path) -> None:
    append(str(tmp_path), TICKET, [1])
    (last,) = DeltaTable(str(tmp_path)).history(1)
    remembered = {key: value for key, value in last.items() if key.startswith("binlog-stream.")}
    assert remembered == {
        "binlog-stream.batchId": "0",
        "binlog-stream.position": "0:12:3",
        "binlog-stream.lastChange": "0:11:2:5",
        "binlog-stream.gtid": "0-1-7",
    }
    assert find(str(tmp_path)).is_done(TICKET)
    assert not find(str(tmp_path)).is_done(replace(TICKET, batch_id=1))


@pytest.mark.parametrize(
    "older",
    [replace(TICKET, batch_id=2), replace(TICKET, batch_id=3, last_change="0:99:0:0")],
    ids=["earlier batch", "same number, other content"],
)
def test_checkpoint_older_than_the_table_is_refused(tmp_path: Path, older: Ticket) -> None:
    """A checkpoint from a backup plans its batches anew: skipping them would leave changes out."""
    for batch_id in range(4):
        append(str(tmp_path), replace(TICKET, batch_id=batch_id), [batch_id])
    table = find(str(tmp_path)).table
    assert table is not None
    table.optimize.compact()
    with pytest.raises(
        TableError, match=r"CHECKPOINT_BEHIND\] shop\.orders: .* holds batch 3.* at batch \d: "
    ) as caught:
        find(str(tmp_path)).is_done(older)
    assert caught.value.hint is not None
    assert find(str(tmp_path)).is_done(replace(TICKET, batch_id=3))


def test_crash_between_creation_and_first_commit_is_no_harm(tmp_path: Path) -> None:
    """The empty table is ours, and the batch is not in it yet."""
    find(str(tmp_path)).ensure(SCHEMA, TICKET)
    again = find(str(tmp_path))
    again.check_owner(TICKET)
    assert not again.is_done(TICKET)
    append(str(tmp_path), TICKET, [1])
    assert DeltaTable(str(tmp_path)).count() == 1


def test_write_with_an_old_look_fails_instead_of_doubling(tmp_path: Path) -> None:
    """Two processes with the same batch: a worker of a killed job may still be writing."""
    append(str(tmp_path), TICKET, [1])
    batch = replace(TICKET, batch_id=1)
    mine, other = find(str(tmp_path)), find(str(tmp_path))
    rows = pa.table({"id": pa.array([2], pa.int32()), "value": ["x"]}, schema=SCHEMA)
    other.append(rows.to_reader(), batch)
    assert not mine.is_done(batch)
    with pytest.raises(Exception, match="transaction") as caught:
        mine.append(rows.to_reader(), batch)
    assert is_commit_conflict(caught.value)
    assert find(str(tmp_path)).is_done(batch)
    assert DeltaTable(str(tmp_path)).count() == 2


def test_two_creations_at_once_are_a_conflict(tmp_path: Path) -> None:
    mine, other = find(str(tmp_path)), find(str(tmp_path))
    other.ensure(SCHEMA, TICKET)
    with pytest.raises(Exception, match="exists") as caught:
        mine.ensure(SCHEMA, TICKET)
    assert is_commit_conflict(caught.value)


@pytest.mark.parametrize(
    ("other", "condition"),
    [
        (replace(TICKET, query_id="q-2"), r"OTHER_WRITER\] shop\.orders: .* written by query q-1; .* query q-2"),
        (replace(TICKET, source_table="shop.items"), r"SAME_TARGET\] shop\.items: .* holds shop\.orders"),
        (replace(TICKET, mode=Mode.MIRROR), r"MODE_CHANGED\] .*made with mode changelog, the job now says mirror"),
        (replace(TICKET, keys=("id",)), r"KEYS_CHANGED\] "),
    ],
    ids=["checkpoint deleted", "two tables into one target", "mode changed", "keys changed"],
)
def test_target_of_somebody_else_is_refused(tmp_path: Path, other: Ticket, condition: str) -> None:
    append(str(tmp_path), TICKET, [1])
    with pytest.raises(TableError, match=condition) as caught:
        find(str(tmp_path)).check_owner(other)
    assert caught.value.hint is not None


def test_table_not_made_by_us_is_refused(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"id": [1]}))
    with pytest.raises(TableError, match=r"OTHER_WRITER\] .* by somebody else"):
        find(str(tmp_path)).check_owner(TICKET)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (pa.schema([*SCHEMA, ("more", pa.int8())]), "more byte is new"),
        (pa.schema([("id", pa.int32())]), "value is gone"),
        (pa.schema([("id", pa.int64()), ("value", pa.string())]), "id was integer, now long"),
    ],
)
def test_changed_columns_are_refused_by_name(tmp_path: Path, schema: pa.Schema, told: str) -> None:
    append(str(tmp_path), TICKET, [1])
    with pytest.raises(SchemaError, match=rf"SCHEMA_CHANGED\] shop\.orders: .*{told}"):
        find(str(tmp_path)).check_schema(schema, TICKET)


@pytest.mark.parametrize(
    ("database", "table", "path"),
    [
        ("shop", "orders", "shop/orders"),
        ("a/b", "..", "a@002fb/@002e@002e"),
        ("Größe", "x 😀%y", "Gr@00f6@00dfe/x@0020@d83d@de00@0025y"),
    ],
)
def test_names_cannot_leave_the_directory(database: str, table: str, path: str, tmp_path: Path) -> None:
    uri = target_uri(f"{tmp_path}/", "{database}/{table}", database=database, table=table, mode=Mode.MIRROR)
    assert uri == f"{tmp_path}/{path}"
    append(uri, TICKET, [1])
    assert (tmp_path / path / "_delta_log").is_dir()
    assert find(uri).is_done(TICKET)


def test_small_files_are_joined_and_old_ones_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "VACUUM_EVERY", 40)
    sink = Sink(directory=str(tmp_path), retention="0s")
    for batch_id in range(60):
        append(str(tmp_path), replace(TICKET, batch_id=batch_id), [batch_id])
        target = find(str(tmp_path))
        assert target.table is not None
        maintain(target.table, sink)
    table = DeltaTable(str(tmp_path))
    assert len(table.file_uris()) <= 2 * maintenance.COMPACT_EVERY
    assert sorted(row["id"] for row in table.to_pyarrow_table().to_pylist()) == list(range(60))
    assert len(list(tmp_path.glob("*.parquet"))) < 60
    assert table.transaction_version("binlog-stream/q-1") == 59
