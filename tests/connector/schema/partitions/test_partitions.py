"""Partitions in statements: their definitions, and which rows they hold."""

from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.expressions.expression import Expression
from binlog_connector.schema.history import SchemaHistory
from binlog_connector.schema.parsing.session import StatementSession
from binlog_connector.schema.partitions.definition import Partitioning
from binlog_connector.schema.partitions.rows import loses_rows, partition_rows
from binlog_connector.schema.table_changes import PartitionsDropped
from binlog_format.errors import SchemaError
from tests.connector.schema.layouts import block_of, query
from tests.connector.schema.test_ddl import after, columns, table
from tests.connector.schema.test_table_changes import changes

T = TableName("shop", "t")
BY_DAY = (
    "CREATE TABLE t (id INT, d DATE NOT NULL, PRIMARY KEY (id, d)) ENGINE=InnoDB PARTITION BY RANGE (TO_DAYS(d)) "
    "(PARTITION p1 VALUES LESS THAN (TO_DAYS('2024-01-01')) ENGINE = InnoDB COMMENT = 'a, (b',"
    " PARTITION `p 2` VALUES LESS THAN (TO_DAYS('2024-02-01')), PARTITION p3 VALUES LESS THAN MAXVALUE)"
)
BY_LIST = (
    "CREATE TABLE t (a INT, b DATE) PARTITION BY LIST (a) "
    "(PARTITION x VALUES IN (1, -2, NULL), PARTITION y VALUES IN (3), PARTITION z DEFAULT)"
)


def partitioning(*statements: str) -> Partitioning:
    found = table(after(*statements)).partitioning
    assert found is not None
    return found


def names(*statements: str) -> list[str]:
    found = partitioning(*statements)
    assert found.unknown == ""
    return [partition.name for partition in found.partitions]


def emptied(*partitions: str, if_exists: bool = False) -> PartitionsDropped:
    return PartitionsDropped((T,), "", partitions, if_exists=if_exists)


def rows(
    create: str, arrays: dict[str, pa.Array], *partitions: str, session: StatementSession | None = None
) -> list[int]:
    """Places of the rows that the partitions have."""
    definition = table(after(create, session=session or StatementSession("shop")))
    mask = partition_rows(definition, emptied(*partitions)).mask(pa.table(arrays))
    return [place for place, found in enumerate(mask.to_pylist()) if found]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("ADD PARTITION (PARTITION p4 VALUES LESS THAN (9))", ["p1", "p 2", "p3", "p4"]),
        ("ADD PARTITION IF NOT EXISTS (PARTITION P3 VALUES LESS THAN (9))", ["p1", "p 2", "p3"]),
        ("DROP PARTITION p1", ["p 2", "p3"]),
        ("DROP PARTITION P1, `P 2`", ["p3"]),
        ("DROP PARTITION IF EXISTS nothing, p3", ["p1", "p 2"]),
        ("TRUNCATE PARTITION p1, p3", ["p1", "p 2", "p3"]),
        ("TRUNCATE PARTITION ALL", ["p1", "p 2", "p3"]),
        ("REORGANIZE PARTITION `p 2`, p3 INTO (PARTITION x VALUES LESS THAN (1), PARTITION y VALUES LESS THAN (2))",
         ["p1", "x", "y"]),
        ("REORGANIZE PARTITION p1 INTO (PARTITION a VALUES LESS THAN (1), PARTITION b VALUES LESS THAN (2))",
         ["a", "b", "p 2", "p3"]),
        ("EXCHANGE PARTITION p1 WITH TABLE u", ["p1", "p 2", "p3"]),
        ("CONVERT PARTITION p1 TO TABLE u", ["p 2", "p3"]),
        ("CONVERT TABLE u TO PARTITION p4 VALUES LESS THAN (1)", ["p1", "p 2", "p3", "p4"]),
        ("REBUILD PARTITION p1, p3", ["p1", "p 2", "p3"]),
        ("OPTIMIZE PARTITION ALL", ["p1", "p 2", "p3"]),
        ("ANALYZE PARTITION p1, `drop`", ["p1", "p 2", "p3"]),
        ("CHECK PARTITION p1", ["p1", "p 2", "p3"]),
        ("REPAIR PARTITION p1", ["p1", "p 2", "p3"]),
        ("ADD COLUMN c INT PARTITION BY RANGE (c) (PARTITION q VALUES LESS THAN (1))", ["q"]),
    ],
)  # fmt: skip
def test_partitions_are_known_through_every_statement(statement: str, expected: list[str]) -> None:
    assert names(BY_DAY, f"ALTER TABLE t {statement}") == expected


def test_partitions_go_with_the_table() -> None:
    assert names(BY_DAY, "RENAME TABLE t TO u", "CREATE TABLE t LIKE u") == ["p1", "p 2", "p3"]
    assert table(after(BY_DAY, "ALTER TABLE t CONVERT PARTITION p1 TO TABLE u"), "u").partitioning is None
    assert table(after(BY_DAY, "ALTER TABLE t ADD x INT REMOVE PARTITIONING")).partitioning is None


def test_column_is_renamed_where_it_decides() -> None:
    renamed = partitioning(BY_DAY, "ALTER TABLE t CHANGE D day DATE NOT NULL, RENAME COLUMN id TO d")
    assert renamed.expressions == (Expression("TO_DAYS", operands=(Expression("column", "day"),)),)


def test_comments_for_servers_are_read() -> None:
    create = "CREATE TABLE t (a INT) /*!50100 PARTITION BY LIST (a) (PARTITION p VALUES IN (1,2) ENGINE = InnoDB) */"
    assert names(create) == ["p"]


@pytest.mark.parametrize(
    "clause",
    [
        "HASH (id) PARTITIONS 4",
        "LINEAR HASH (YEAR(d))",
        "KEY ALGORITHM=2 (id) PARTITIONS 3",
        "KEY ()",
        "SYSTEM_TIME INTERVAL 1 MONTH STARTS '2024-01-01' AUTO (PARTITION p0 HISTORY, PARTITION pn CURRENT)",
        "SYSTEM_TIME LIMIT 1000 PARTITIONS 3",
    ],
)
def test_partitions_that_only_the_server_knows_are_told_by_their_kind(clause: str) -> None:
    create = f"CREATE TABLE t (id INT, d DATE) PARTITION BY {clause}"
    known = partitioning(create, "ALTER TABLE t COALESCE PARTITION 2", "ALTER TABLE t ADD PARTITION PARTITIONS 6")
    assert known.kind in clause
    definition = table(after(create))
    with pytest.raises(SchemaError, match=rf"PARTITION_BOUNDS\] shop\.t: .* p0 .*: PARTITION BY {known.kind}"):
        partition_rows(definition, emptied("p0"))


def test_subpartitions_go_with_their_partition() -> None:
    create = (
        "CREATE TABLE t (id INT, d DATE) PARTITION BY RANGE (YEAR(d)) SUBPARTITION BY HASH (TO_DAYS(d)) SUBPARTITIONS 2"
        " (PARTITION p0 VALUES LESS THAN (2000) (SUBPARTITION s0, SUBPARTITION s1 ENGINE = InnoDB),"
        " PARTITION p1 VALUES LESS THAN MAXVALUE (SUBPARTITION s2, SUBPARTITION s3))"
    )
    days = pa.array([datetime.date(1999, 12, 31), datetime.date(2000, 1, 1)])
    assert (rows(create, {"d": days}, "p0"), rows(create, {"d": days}, "P1")) == ([0], [1])


@pytest.mark.parametrize(
    "clause",
    [
        "RANGE (a) (PARTITION p VALUES LESS THAN (1 << 2))",
        "RANGE (a) (PARTITION p VALUES LESS THAN",
        "LIST (a ^ 1) (PARTITION p VALUES IN (2))",
        "RANGE COLUMNS (a, b) (PARTITION p VALUES LESS THAN (1))",
        "LIST COLUMNS (v) (PARTITION p VALUES IN (_latin1 x'e9'))",
        # Of MariaDB 13.1: the server makes partitions that no statement names.
        "RANGE COLUMNS (v) INTERVAL (INTERVAL 1 MONTH) (PARTITION p VALUES LESS THAN ('2026-01-01'))",
        "RANDOM (a)",
        "RANGE",
    ],
)
def test_what_is_not_understood_makes_partitions_unknown_and_no_columns(clause: str) -> None:
    catalog = after(f"CREATE TABLE t (a INT, b INT, v VARBINARY(9)) PARTITION BY {clause}", "ALTER TABLE t ADD c INT")
    assert columns(catalog) == ["a int", "b int", "v varbinary(9)", "c int"]
    with pytest.raises(SchemaError, match=r"PARTITION_BOUNDS.*PARTITION BY is not understood"):
        partition_rows(table(catalog), emptied("p"))


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("ADD PARTITION (PARTITION q VALUES BELOW (1))", "a statement about its partitions is not understood"),
        ("DROP PARTITION nothing", "a statement about its partition nothing, which is not a known one"),
        ("REORGANIZE PARTITION p1 (PARTITION q VALUES LESS THAN (3))", "INTO expected"),
    ],
)
def test_statement_that_is_not_understood_makes_partitions_unknown(statement: str, reason: str) -> None:
    catalog = after(BY_DAY, f"ALTER TABLE t {statement}", "ALTER TABLE t DROP PARTITION p3, ADD c INT")
    assert reason in (table(catalog).partitioning or Partitioning("")).unknown
    assert names(BY_DAY, f"ALTER TABLE t {statement}", "ALTER TABLE t " + BY_DAY[BY_DAY.index("PARTITION BY") :])


def test_definition_is_that_from_before_the_statement() -> None:
    history = SchemaHistory()
    history.observe(block_of(query(BY_DAY), query("ALTER TABLE t DROP PARTITION p1"), query("DROP TABLE t")))
    create, drop, gone = history.statements
    assert history.definition_before(T, create) is None
    known = [history.definition_before(T, one) for one in (drop, gone)]
    counts = [len(one.partitioning.partitions) for one in known if one is not None and one.partitioning is not None]
    assert counts == [3, 2]


def test_rows_of_a_range_lie_between_its_bounds() -> None:
    days = pa.array([datetime.date(2023, 12, 31), datetime.date(2024, 1, 1), datetime.date(2024, 2, 1)])
    found = [rows(BY_DAY, {"d": days}, name) for name in ("p1", "p 2", "p3")]
    assert found == [[0], [1], [2]]
    assert rows(BY_DAY, {"d": days}, "p1", "p3") == [0, 2]
    dropped = table(after(BY_DAY, "ALTER TABLE t DROP PARTITION p1"))
    assert partition_rows(dropped, emptied("p 2")).mask(pa.table({"d": days})).to_pylist() == [True, True, False]


def test_null_is_in_the_lowest_range_or_where_a_list_has_it() -> None:
    numbers = pa.array([None, 1, -2, 3, 4])
    assert [rows(BY_LIST, {"a": numbers}, name) for name in "xyz"] == [[0, 1, 2], [3], [4]]
    ranges = BY_LIST[: BY_LIST.index("LIST")] + (
        "RANGE (a) (PARTITION x VALUES LESS THAN (-5), PARTITION y VALUES LESS THAN (5))"
    )
    assert [rows(ranges, {"a": numbers}, name) for name in "xy"] == [[0], [1, 2, 3, 4]]
    without = BY_LIST.replace(", NULL", "")
    assert rows(without, {"a": numbers}, "z") == [0, 4]


@pytest.mark.parametrize(
    "numbers",
    [
        pa.array([1, 3], pa.int16()),
        pa.array([1, 3], pa.uint64()),
        pa.array([Decimal(1), Decimal(3)], pa.decimal128(20, 0)),
        pa.chunked_array([[1], [3]]),
    ],
)
def test_whole_numbers_of_any_width_are_the_same(numbers: pa.Array) -> None:
    assert rows(BY_LIST, {"b": pa.array([None, None], pa.date32()), "A": numbers}, "y") == [1]


def test_numbers_beyond_64_bits_are_exact() -> None:
    create = (
        "CREATE TABLE t (a BIGINT UNSIGNED) PARTITION BY RANGE (a) "
        "(PARTITION x VALUES LESS THAN (18446744073709551614), PARTITION y VALUES LESS THAN MAXVALUE)"
    )
    numbers = pa.array([Decimal(2**64 - 3), Decimal(2**64 - 2), Decimal(2**64 - 1)], pa.decimal128(20, 0))
    assert rows(create, {"a": numbers}, "x") == [0]
    product = create.replace("RANGE (a)", "RANGE (a * 2)")
    assert rows(product, {"a": pa.array([2**63 - 2, 2**63 - 1])}, "x") == [0]


def test_unix_timestamps_are_in_utc_and_literals_in_the_time_zone_of_the_session() -> None:
    create = (
        "CREATE TABLE t (a TIMESTAMP) PARTITION BY RANGE (UNIX_TIMESTAMP(a)) "
        "(PARTITION x VALUES LESS THAN (UNIX_TIMESTAMP('2024-01-01 02:00:00')), PARTITION y VALUES LESS THAN MAXVALUE)"
    )
    times = {"a": pa.array([1704067199_000000, 1704067200_000000], pa.timestamp("us", "UTC"))}
    assert rows(create, times, "x", session=StatementSession("shop", time_zone="+02:00")) == [0]
    for zone, reason in ((None, "a time zone that the log does not record"), ("SYSTEM", "the time zone SYSTEM")):
        with pytest.raises(SchemaError, match=rf"UNIX_TIMESTAMP of a time in {reason}"):
            rows(create, times, "x", session=StatementSession("shop", time_zone=zone))
    in_system = table(after(create, session=StatementSession("shop", time_zone="SYSTEM")))
    mask = partition_rows(in_system, emptied("x"), "Africa/Cairo").mask(pa.table(times))
    assert mask.to_pylist() == [True, False]
    later = after(create, session=StatementSession("shop", time_zone="+02:00"))
    # A bound is what it was when its statement ran.
    assert partition_rows(table(later), emptied("x")).mask(pa.table(times)).to_pylist() == [True, False]


@pytest.mark.parametrize(
    ("create", "reason"),
    [
        ("(v VARCHAR(9)) PARTITION BY LIST COLUMNS (v) (PARTITION p VALUES IN ('a'))", "its collation decides"),
        ("(a INT) PARTITION BY RANGE (CEILING(a)) (PARTITION p VALUES LESS THAN (3))", "CEILING is not computed here"),
        ("(a DATETIME) PARTITION BY RANGE (YEARWEEK(a)) (PARTITION p VALUES LESS THAN (3))", "YEARWEEK is not"),
        ("(a TIMESTAMP(3)) PARTITION BY RANGE (UNIX_TIMESTAMP(a) * 2) (PARTITION p VALUES LESS THAN (3))", "fractions"),
        ("(a TIME) PARTITION BY RANGE COLUMNS (a) (PARTITION p VALUES LESS THAN ('10:00:00'))", "is a time"),
        (
            "(a DATE) PARTITION BY RANGE COLUMNS (a) (PARTITION p VALUES LESS THAN (20240101))",
            "not understood: 20240101",
        ),
        ("(a DATE) PARTITION BY RANGE COLUMNS (a) (PARTITION p VALUES LESS THAN ('2024-02-30'))", "2024-02-30"),
        ("(a INT) PARTITION BY RANGE (b) (PARTITION p VALUES LESS THAN (1))", "has no column b"),
        ("(a INT) PARTITION BY RANGE (a) (PARTITION q VALUES LESS THAN (1))", "partition p is not a known one"),
        ("(a INT)", "has no partitions"),
        ("SELECT 1 AS a", "no CREATE TABLE of it is known"),
    ],
)
def test_what_cannot_be_told_is_named_before_a_row_is_read(create: str, reason: str) -> None:
    definition = table(after(f"CREATE TABLE t {create}"))
    with pytest.raises(SchemaError, match=rf'PARTITION_BOUNDS\] shop\.t: .*{reason}.*on_partition_drop = "keep"'):
        partition_rows(definition, emptied("p"))
    with pytest.raises(SchemaError, match="no CREATE TABLE of it is known"):
        partition_rows(None, emptied("p"))


def test_partition_that_need_not_exist_has_no_rows() -> None:
    definition = table(after(BY_LIST))
    mask = partition_rows(definition, emptied("nothing", if_exists=True)).mask(pa.table({"a": [1, 2]}))
    assert mask.to_pylist() == [False, False]


REORGANIZED = "ALTER TABLE t REORGANIZE PARTITION {}"


@pytest.mark.parametrize(
    ("columns", "partition", "statement", "gone"),
    [
        ("a INT", "LIST (a)", "p, q INTO (PARTITION r VALUES IN (1, 3), PARTITION p VALUES IN (9))", [2, 4]),
        ("a INT", "LIST COLUMNS (a)", "p INTO (PARTITION r VALUES IN (2))", [1]),
        ("a INT", "LIST (a)", "p, q INTO (PARTITION r VALUES IN (4, 1 + 0), PARTITION s VALUES IN (3, 2))", []),
        ("a INT", "LIST (a)", "q INTO (PARTITION q DEFAULT)", None),
        ("a INT", "LIST (a)", "q, p INTO (PARTITION r VALUES IN (4, 1, 2, 3))", None),
        ("a VARCHAR(9)", "LIST COLUMNS (a)", "p INTO (PARTITION r VALUES IN (2), PARTITION s VALUES IN (1))", None),
    ],
)
def test_rows_that_no_reorganized_partition_takes_are_gone(
    columns: str, partition: str, statement: str, gone: list[int] | None
) -> None:
    """Live on both vendors: the server drops them, without a warning. *gone*: None: the statement can take none."""
    create = f"CREATE TABLE t ({columns}) PARTITION BY {partition}"
    values = "(PARTITION p VALUES IN (1, 2), PARTITION q VALUES IN (3, 4))"
    definition = table(after(f"{create} {values}"))
    (change,) = changes(REORGANIZED.format(statement))
    assert isinstance(change, PartitionsDropped)
    assert loses_rows(definition, change) is (gone is not None)
    if gone is not None:
        rows = pa.table({"a": [1, 2, 3, 4]})
        assert rows.filter(partition_rows(definition, change).mask(rows))["a"].to_pylist() == gone


@pytest.mark.parametrize("statement", ["x INTO (PARTITION x VALUES IN (1, -2))", "z INTO (PARTITION z VALUES IN (7))"])
def test_rows_of_null_and_default_stay_where_nobody_knows(statement: str) -> None:
    (change,) = changes(REORGANIZED.format(statement))
    assert isinstance(change, PartitionsDropped)
    with pytest.raises(SchemaError, match="rows of NULL or DEFAULT stay, in a partition that only the server knows"):
        loses_rows(table(after(BY_LIST)), change)


def test_null_date_is_not_guessed() -> None:
    """It may be a zero date, which readers have as null, too."""
    definition = table(after(BY_DAY))
    found = partition_rows(definition, emptied("p1"))
    with pytest.raises(SchemaError, match=r"partition p1 .*1 rows have null, which may be NULL, a zero date"):
        found.mask(pa.table({"d": pa.array([None], pa.date32())}))
    with pytest.raises(SchemaError, match=r"the rows have no column d"):
        found.mask(pa.table({"id": [1]}))
    with pytest.raises(SchemaError, match=r"dates expected, the rows have string"):
        found.mask(pa.table({"d": ["2024-01-01"]}))


def test_definition_without_columns_keeps_its_partitions() -> None:
    catalog = after(
        "CREATE TABLE t (KEY (a)) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (1)) SELECT 1 AS a",
        "ALTER TABLE t ADD PARTITION (PARTITION q VALUES LESS THAN (2))",
    )
    known = table(catalog)
    assert known.columns is None
    assert known.partitioning is not None
    assert len(known.partitioning.partitions) == 2
    assert replace(known.partitioning, partitions=()).expressions == (Expression("column", "a"),)
