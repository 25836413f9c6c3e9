from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binlog_format.errors import TableError, UnsupportedError
from binlog_streaming.settings import Mode
from binlog_streaming.tables.delta import DeltaTarget
from binlog_streaming.tables.delta_merge import merge_condition, write_mirror
from binlog_streaming.tables.key_ranges import cover
from binlog_streaming.tables.mirror import Reduced, last_of_each_key, reduce_images
from binlog_streaming.tables.target import Ticket
from tests.streaming.tables.row_images import ABSENT, RowImagesOf

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.streaming.tables.row_images import Change, Row

INT_KEY = pa.schema([("id", pa.int32()), ("value", pa.string())])
FILE_SIZE = 64 << 20


def ticket(batch_id: int, keys: tuple[str, ...] = ("id",)) -> Ticket:
    return Ticket(
        query_id="q-1",
        batch_id=batch_id,
        source_table="shop.orders",
        mode=Mode.MIRROR,
        keys=keys,
        position="0:1:2",
        last_change=f"0:1:{batch_id}:0",
        gtid="0-1-7",
    )


def apply(uri: str, schema: pa.Schema, keys: Sequence[int], batch_id: int, changes: Sequence[Change]) -> bool:
    """What a batch does with a mirror; whether it wrote."""
    names = tuple(schema.names[key] for key in keys)
    target = DeltaTarget.find(uri, {}, file_size=FILE_SIZE)
    target.check_owner(ticket(batch_id, names))
    if target.is_done(ticket(batch_id, names)):
        return False
    target.check_schema(schema, ticket(batch_id, names))
    middle = len(changes) // 2
    pieces = [RowImagesOf.changes(part, schema) for part in (changes[:middle], changes[middle:]) if part]
    reduced = reduce_images(pieces, schema, keys, "shop.orders")
    target.ensure(schema, ticket(batch_id, names))
    return write_mirror(target, reduced, names, ticket(batch_id, names)) > 0


def rows_of(uri: str) -> list[Row]:
    table = DeltaTable(uri).to_pyarrow_table()
    return [tuple(row.values()) for row in table.to_pylist()]


def reduced(rows: Sequence[int], deleted: Sequence[int] = ()) -> Reduced:
    return Reduced(
        pa.table({"id": pa.array(rows, pa.int32()), "value": pa.array(["x"] * len(rows))}, schema=INT_KEY),
        pa.table({"id": pa.array(deleted, pa.int32())}),
    )


def test_last_image_of_a_key_decides() -> None:
    changes: list[Change] = [
        (None, (1, "a")),
        ((1, "a"), (1, "b")),
        (None, (2, "c")),
        ((2, "c"), None),
        ((3, "old"), None),
        (None, (3, "new")),
    ]
    result = reduce_images([RowImagesOf.changes(changes, INT_KEY)], INT_KEY, [0], "shop.orders")
    assert result.rows.to_pylist() == [{"id": 1, "value": "b"}, {"id": 3, "value": "new"}]
    assert result.deleted.to_pylist() == [{"id": 2}]


def test_key_update_deletes_the_old_key_and_inserts_the_new_one() -> None:
    """Also when one statement moves every key by one, so that each new key is another row's old key."""
    changes: list[Change] = [((n, str(n)), (n + 1, str(n))) for n in (3, 2, 1)]
    result = reduce_images([RowImagesOf.changes(changes, INT_KEY)], INT_KEY, [0], "shop.orders")
    assert sorted(result.rows.column("id").to_pylist()) == [2, 3, 4]
    assert result.deleted.to_pylist() == [{"id": 1}]


def test_ranks_win_over_the_order_of_pieces() -> None:
    """Pieces of two layouts that interleave in the log."""
    keys = pa.table({"k0": [1, 2, 1, 2]})
    assert last_of_each_key(keys).tolist() == [2, 3]
    assert last_of_each_key(keys, np.array([3, 0, 1, 2])).tolist() == [0, 3]


WIDE = pa.schema([("id", pa.int32()), ("value", pa.string()), ("note", pa.string())])
A = ABSENT


@pytest.mark.parametrize(
    ("changes", "rows", "deleted"),
    [
        ([((1, A, A), None)], [], [1]),
        ([((1, A, A), (A, "new", A)), ((1, A, A), None)], [], [1]),
        ([((1, A, A), (1, "new", "note"))], [(1, "new", "note")], []),
        ([((1, A, A), (7, "new", "note"))], [(7, "new", "note")], [1]),
        ([((1, A, A), (A, "new", A)), ((1, A, A), None), (None, (1, "x", None))], [(1, "x", None)], []),
        ([((1, A, A), (7, A, A)), ((7, A, A), None)], [], [1, 7]),
    ],
    ids=["delete", "update then delete", "whole update", "key update", "new row in its place", "key update, delete"],
)
def test_images_may_lack_columns_where_they_decide_nothing(
    changes: list[Change], rows: list[Row], deleted: list[int]
) -> None:
    """`binlog_row_image=MINIMAL`: the image before is the key, the one after may leave the key out."""
    result = reduce_images([RowImagesOf.changes(changes, WIDE)], WIDE, [0], "shop.orders")
    assert [tuple(row.values()) for row in result.rows.to_pylist()] == rows
    assert sorted(result.deleted.column("id").to_pylist()) == deleted


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ([(None, (1, "a", A))], r"shop\.orders: note: missing from the row images of 1 inserts and 0 updates"),
        ([((1, A, A), (A, "b", A))], r"shop\.orders: id, note: missing from the row images of 0 inserts and 1 updates"),
        # What was inserted is known, but `note` may be VIRTUAL and have changed with `value`.
        ([(None, (1, "a", "n")), ((1, A, A), (A, "b", A))], r"shop\.orders: id, note: .* 0 inserts and 1 updates"),
        ([(None, (A, "a", "b"))], r"key column id is missing from 1 row images \(the first is of kind INSERT\)"),
        ([((A, "a", A), None)], r"key column id is missing from 1 row images \(the first is of kind DELETE\)"),
        ([((A, "a", A), (A, "b", A))], r"key column id is missing from 2 row images .*kind UPDATE_BEFORE"),
    ],
    ids=["default", "kept or virtual", "virtual after insert", "key by default", "delete, no key", "update, no key"],
)
def test_columns_whose_value_is_not_in_the_log_are_refused(changes: list[Change], told: str) -> None:
    images = RowImagesOf.changes(changes, WIDE)
    with pytest.raises(UnsupportedError, match=rf"ROW_IMAGE\] .*{told}.*binlog_row_image=FULL"):
        reduce_images([images], WIDE, [0], "shop.orders")


def test_null_in_a_key_is_refused() -> None:
    images = RowImagesOf.changes([(None, (1, None))], INT_KEY)
    with pytest.raises(TableError, match=r"NULL_KEY\] shop\.orders: key column value is null in 1 row images"):
        reduce_images([images], INT_KEY, [1], "shop.orders")


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=60, unique=True), st.integers(1, 20))
def test_cover_holds_all_values_in_few_ranges(values: list[int], count_max: int) -> None:
    starts, ends = cover(np.array(sorted(values), np.int64), count_max)
    assert len(starts) == len(ends) <= count_max
    assert (starts <= ends).all()
    assert (ends[:-1] < starts[1:]).all()
    assert all(((starts <= value) & (value <= ends)).any() for value in values)
    assert set(starts.tolist()) | set(ends.tolist()) <= set(values)


def test_cover_cuts_at_the_widest_gaps() -> None:
    starts, ends = cover(np.array([1, 2, 3, 100, 101, 5000], np.int64), 3)
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == [(1, 3), (100, 101), (5000, 5000)]


class TestPruning:
    """Merges leave files alone that hold none of the changed keys."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> DeltaTarget:
        """Eight files of a hundred keys each, with a gap of a hundred between them."""
        for batch_id in range(8):
            start = batch_id * 200
            apply(str(tmp_path), INT_KEY, [0], batch_id, [(None, (start + n, "old")) for n in range(100)])
        target = DeltaTarget.find(str(tmp_path), {}, file_size=FILE_SIZE)
        assert target.table is not None
        assert len(target.table.file_uris()) == 8
        return target

    def test_new_keys_are_appended(self, target: DeltaTarget) -> None:
        assert merge_condition(target, reduced([150, 9999], deleted=[-5]), ["id"]) is None

    def test_condition_names_the_ranges_touched(self, target: DeltaTarget) -> None:
        condition = merge_condition(target, reduced([5, 7], deleted=[1450]), ["id"])
        assert condition == ' AND (t."id" BETWEEN 5 AND 5 OR t."id" BETWEEN 7 AND 7 OR t."id" BETWEEN 1450 AND 1450)'

    def test_condition_is_left_away_when_every_file_is_touched(self, target: DeltaTarget) -> None:
        assert merge_condition(target, reduced(list(range(0, 1600, 50))), ["id"]) == ""

    def test_untouched_files_stay(self, target: DeltaTarget) -> None:
        assert target.table is not None
        before = set(target.table.file_uris())
        write_mirror(target, reduced([5, 1450], deleted=[1405]), ["id"], ticket(8))
        after = DeltaTarget.find(target.uri, {}, file_size=FILE_SIZE)
        assert after.table is not None
        assert len(before & set(after.table.file_uris())) == 6
        rows = {row[0]: row[1] for row in rows_of(target.uri)}
        assert len(rows) == 799
        assert (rows[5], rows[1450], rows[6], 1405 in rows) == ("x", "x", "old", False)


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
    "timestamp(6)": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(2020, 1, 1, 0, 0, 0, 999999, tzinfo=dt.UTC), dt.datetime(1970, 1, 1, tzinfo=dt.UTC)],
    ),
}


@pytest.mark.parametrize("name", KEY_TYPES)
def test_every_key_type_finds_its_row(name: str, tmp_path: Path) -> None:
    """One file for each key, then updates and deletes of each: nothing is doubled, nothing is missed."""
    key_type, keys = KEY_TYPES[name]
    schema = pa.schema([("k", key_type), ("value", pa.int32())])
    uri = str(tmp_path / "t")
    for number, key in enumerate(keys):
        assert apply(uri, schema, [0], number, [(None, (key, 0))])
    for number, key in enumerate(keys, start=len(keys)):
        assert apply(uri, schema, [0], number, [((key, 0), (key, 1))])
    assert sorted(rows_of(uri)) == sorted((key, 1) for key in keys)
    assert apply(uri, schema, [0], 2 * len(keys), [((key, 1), None) for key in keys[1:]])
    assert rows_of(uri) == [(keys[0], 1)]


def test_odd_column_names_work(tmp_path: Path) -> None:
    schema = pa.schema(
        [('we"ird `id', pa.int32()), ("a.b", pa.string()), ("deleted", pa.int8()), ("ID s.c0", pa.int8())]
    )
    uri = str(tmp_path / "t")
    assert apply(uri, schema, [0, 1], 0, [(None, (1, "x", 0, 0)), (None, (2, "y", 0, 0))])
    assert apply(uri, schema, [0, 1], 1, [((1, "x", 0, 0), (1, "x", 5, 6)), ((2, "y", 0, 0), None)])
    assert rows_of(uri) == [(1, "x", 5, 6)]


def test_repeated_batch_changes_nothing(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    assert apply(uri, INT_KEY, [0], 0, [(None, (1, "a")), (None, (2, "b"))])
    assert apply(uri, INT_KEY, [0], 1, [((1, "a"), (1, "c"))])
    version = DeltaTable(uri).version()
    assert not apply(uri, INT_KEY, [0], 1, [((1, "a"), (1, "c"))])
    assert DeltaTable(uri).version() == version
    assert sorted(rows_of(uri)) == [(1, "c"), (2, "b")]


def test_nothing_left_of_a_batch_makes_no_commit(tmp_path: Path) -> None:
    """Rows inserted and deleted again in one batch, of a key range that no file has."""
    uri = str(tmp_path / "t")
    apply(uri, INT_KEY, [0], 0, [(None, (1, "a"))])
    version = DeltaTable(uri).version()
    assert not apply(uri, INT_KEY, [0], 1, [(None, (7, "x")), ((7, "x"), None)])
    assert DeltaTable(uri).version() == version


COMPOSITE = pa.schema([("tenant", pa.string()), ("n", pa.int16()), ("raw", pa.binary()), ("value", pa.string())])
_KEY = st.tuples(st.sampled_from(["", "a", "A"]), st.integers(0, 3), st.sampled_from([b"", b"\xff"]))
_VALUE = st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=5))


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[list[Change]], dict[tuple[object, ...], Row]]:
    """Batches of changes that a server could have logged, and the table at the end."""
    model: dict[tuple[object, ...], Row] = {}
    batches: list[list[Change]] = []
    for _ in range(draw(st.integers(1, 4))):
        batch: list[Change] = []
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


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories())
def test_mirror_equals_a_dict_however_the_changes_are_cut_into_batches(
    tmp_path_factory: pytest.TempPathFactory, history: tuple[list[list[Change]], dict[tuple[object, ...], Row]]
) -> None:
    batches, model = history
    uri = str(tmp_path_factory.mktemp("mirror") / "t")
    for batch_id, batch in enumerate(batches):
        apply(uri, COMPOSITE, [0, 1, 2], batch_id, batch)
    assert sorted(rows_of(uri), key=repr) == sorted(model.values(), key=repr)
