"""Generated columns that are not computed, and values that are unknown: each has its reason.

Generated columns of row images whose logged values tell nothing: they get those that are computed.
"""

from __future__ import annotations

import datetime
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from binlog_connector.schema.expressions.computing import with_computed_values
from binlog_connector.schema.expressions.generated_values import GeneratedValues
from binlog_connector.schema.expressions.operands import NotComputedError
from binlog_connector.schema.operations import CreateTable
from binlog_connector.schema.parsing.ddl import parse_ddl
from binlog_connector.schema.parsing.lexer import MODE_NO_BACKSLASH_ESCAPES, MODE_ORACLE
from binlog_connector.schema.parsing.session import StatementSession
from binlog_format.gtids.gtid import Gtid
from binlog_format.rows.declared.completion import ColumnCompletion, LayoutCompletion
from binlog_format.rows.declared.declared_types import Generated
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding
from binlog_format.rows.images import Images, read_images
from binlog_format.vendor import Vendor
from binlog_format.views.filters import GroupFilter, TableFilter
from binlog_format.views.selection import Selection
from binlog_lab.event_encoding.event_encoding import Origin
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableEncoder, TableSpec
from tests.connector.schema.test_ddl import after, table
from tests.format.views.made_log import MadeGroup, MadeLog, xid

EMPTY_STRING_IS_NULL = 1 << 32
TABLE = (
    "CREATE TABLE t (id INT, i INT, b BIGINT, p DECIMAL(10,2), f DOUBLE, y YEAR, ts TIMESTAMP NULL, d DATE,"
    " v VARCHAR(40), w VARCHAR(40) CHARACTER SET latin1, bin VARBINARY(9), z INT ZEROFILL, j JSON, `case` INT,"
    " `a-b` INT) CHARSET utf8mb4"
)


def generated(expression: str, declared: str = "VARCHAR(99)") -> GeneratedValues:
    made = table(after(TABLE, f"ALTER TABLE t ADD g {declared} AS ({expression}) VIRTUAL"))
    (column,) = (column for column in made.columns or () if column.name == "g")
    return GeneratedValues(column, made, Vendor.MARIADB, DEFAULT_DECODING)


def computed(expression: str, declared: str = "VARCHAR(99)", **columns: pa.Array) -> list[object]:
    """Values; `?` where they are unknown."""
    found = generated(expression, declared).values(columns, len(next(iter(columns.values()))))
    unknown = np.zeros(len(found.array), np.bool_) if found.unknown is None else found.unknown
    return ["?" if open_ else value for value, open_ in zip(found.array.to_pylist(), unknown, strict=True)]


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("i ^ 2", "not understood"),
        ("i / 2", "not understood"),
        ("v COLLATE utf8mb4_bin", "not understood"),
        ("v LIKE 'a%'", "not understood"),
        ("`case` + 1", "not understood"),
        ("`a-b` + 1", "not understood"),
        ("RAND()", "RAND is not computed"),
        ("RAND(i)", "RAND is not computed"),
        ("HOUR(NOW())", "NOW is not computed"),
        ("CONCAT(CURRENT_TIMESTAMP)", "CURRENT_TIMESTAMP is not computed"),
        ("DAYNAME(d)", "DAYNAME is not computed"),
        ("i + ghost", "no column ghost"),
    ],
)
def test_expressions_that_are_not_understood_are_named(expression: str, reason: str) -> None:
    with pytest.raises(NotComputedError, match=reason):
        generated(expression).check()


@pytest.mark.parametrize(
    ("expression", "declared", "reason"),
    [
        ("f * 2", "DOUBLE", "f, which is a DOUBLE"),
        ("y + 1", "INT", "y, which is a YEAR"),
        ("YEAR(ts)", "INT", "ts, which is a TIMESTAMP"),
        ("CONCAT(bin)", "VARCHAR(9)", "the text of a BYTES"),
        ("f", "DOUBLE", "f, which is a DOUBLE"),
        ("IF(i, ts, NULL)", "DATETIME", "ts, which is a TIMESTAMP"),
        ("BIN_TO_UUID(v)", "CHAR(36)", "TEXT where a BYTES"),
        ("HEX(p)", "CHAR(36)", "HEX of a number with a fraction"),
        ("CONCAT(z)", "VARCHAR(9)", "unusual"),
        ("CONCAT(v)", "VARCHAR(9) CHARACTER SET utf16", "character set"),
        ("LEFT(v, i)", "VARCHAR(9)", "no constant"),
        ("LEFT(v)", "VARCHAR(9)", "other arguments"),
        ("v + 1", "INT", "TEXT where a NUMBER"),
        ("IF(i, v, 1)", "VARCHAR(9)", "NUMBER and a TEXT in one place"),
        ("d", "VARBINARY(20)", "DATE in a column of varbinary"),
        ("CONCAT(IF(i, 1, 2.5))", "VARCHAR(9)", "text of a NUMBER"),
        ("LENGTH(CONCAT(v, w))", "INT", "several|unknown character set"),
        ("JSON_EXTRACT(j, '$.*')", "INT", "path"),
        ("d + INTERVAL 1 MICROSECOND", "DATETIME(6)", "an INTERVAL in MICROSECOND"),
        ("d + INTERVAL p DAY", "DATE", "INTERVAL of a number with a fraction"),
        ("v + INTERVAL 1 DAY", "DATE", "TEXT where a DATE"),
        ("p * p * p * p * p * p * p", "DECIMAL(65,14)", "digits"),
    ],
)
def test_columns_that_are_not_computed_are_named(expression: str, declared: str, reason: str) -> None:
    column = generated(expression, declared)
    kinds = {
        "f": pa.float64(),
        "d": pa.date32(),
        "ts": pa.timestamp("us"),
        "bin": pa.binary(),
        "p": pa.decimal128(10, 2),
    }
    kinds |= dict.fromkeys("vwj", pa.string())
    with pytest.raises(NotComputedError, match=reason):
        column.values({name: pa.nulls(1, kinds.get(name, pa.int32())) for name in column.sources}, 1)


def test_values_that_depend_on_the_server_are_unknown() -> None:
    big = pa.array([1, 1 << 62], pa.int64())
    assert computed("b * 4", "BIGINT", b=big) == [4, "?"]
    assert computed("b", "TINYINT", b=big) == [1, "?"]
    assert computed("LOWER(v)", v=pa.array(["AB", "Ä"])) == ["ab", "?"]
    assert computed("v = 'abc'", "INT", v=pa.array(["abc", "abd", "ABC", "abc ", "äbc"])) == [1, 0, "?", "?", "?"]
    assert computed("v", "VARCHAR(3)", v=pa.array(["abc", "abcd"])) == ["abc", "?"]
    assert computed("v", "VARCHAR(9) CHARACTER SET latin1", v=pa.array(["abc", "ä"])) == ["abc", "?"]
    assert computed("i DIV i", "INT", i=pa.array([3, 0], pa.int32())) == [1, "?"]
    documents = pa.array(['{"a": 5}', '{"a": 1.5}', '{"a": "5"}', '{"a": 1, "a": 2}', "{}", "no", None])
    assert computed("JSON_EXTRACT(j, '$.a')", "INT", j=documents) == [5, "?", "?", "?", None, "?", None]


def test_what_decides_alone_is_known() -> None:
    """One side of AND and OR may be unknown, if the other one decides."""
    texts, numbers = pa.array(["abc", "ABC", "ABC"]), pa.array([0, 0, 1], pa.int32())
    assert computed("v = 'abc' AND i", "INT", v=texts, i=numbers) == [0, 0, "?"]
    assert computed("v = 'abc' OR i", "INT", v=texts, i=numbers) == [1, "?", 1]
    assert computed("v IN ('xyz', 'abc')", "INT", v=texts) == [1, "?", "?"]
    assert computed("NOT (v NOT IN ('xyz', 'abc'))", "INT", v=texts) == [1, "?", "?"]


def test_any_column_may_be_null() -> None:
    columns = {"f": pa.array([0.5, None]), "bin": pa.array([b"", None]), "y": pa.array([0, None], pa.int16())}
    for name, array in columns.items():
        assert computed(f"IF({name} IS NULL, 1, NULL)", "INT", **{name: array}) == [None, 1]
    moments = pa.array([0, None], pa.timestamp("us", tz="UTC"))
    assert computed("ts IS NULL", "INT", ts=moments) == [0, "?"]  # it may be 0000-00-00


def test_texts_that_are_all_null_join_to_an_empty_one() -> None:
    first, second = pa.array(["a", None, None, "b"]), pa.array(["c", None, "d", None])
    assert computed("CONCAT_WS(', ', v, w)", v=first, w=second) == ["a, c", "", "d", "b"]


def test_null_that_may_be_a_zero_date_is_unknown() -> None:
    days = pa.array([0, None, None], pa.date32())
    assert computed("YEAR(d)", "INT", d=days) == [1970, "?", "?"]
    column, doubtful = generated("IF(d IS NULL, 1, NULL)", "INT"), {"d": np.array([False, False, True])}
    found = column.values({"d": days}, 3, doubtful)
    assert found.unknown is not None
    assert (found.array.to_pylist(), found.unknown.tolist()) == ([None, 1, None], [False, False, True])


def test_interval_ends_within_the_calendar() -> None:
    days = [datetime.date(2024, 1, 31), datetime.date(2023, 11, 30), datetime.date(9999, 12, 1), datetime.date(1, 2, 3)]
    array = pa.array(days, pa.date32())
    assert computed("d + INTERVAL 1 MONTH", "DATE", d=array) == [
        datetime.date(2024, 2, 29),
        datetime.date(2023, 12, 30),
        "?",
        datetime.date(1, 3, 3),
    ]
    assert computed("DATE_SUB(d, INTERVAL '1' YEAR)", "DATE", d=array)[2:] == [datetime.date(9998, 12, 1), "?"]
    assert computed("SUBDATE(d, INTERVAL -2 WEEK)", "DATE", d=array)[0] == datetime.date(2024, 2, 14)
    assert computed("d + INTERVAL 90 SECOND", "DATETIME", d=array)[0] == datetime.datetime(2024, 1, 31, 0, 1, 30)  # noqa: DTZ001
    assert computed("d + INTERVAL 999999999 YEAR", "DATE", d=array) == ["?"] * 4


def test_sessions_that_give_words_another_meaning_leave_none() -> None:
    def words(text: str, session: StatementSession) -> tuple[str, ...]:
        (created,) = parse_ddl(f"CREATE TABLE t (v VARCHAR(9), g VARCHAR(9) AS (CONCAT(v, {text})))", session)
        assert isinstance(created, CreateTable)
        return created.columns[1].expression

    mariadb, mysql = Vendor.MARIADB, Vendor.MYSQL
    assert words("'a'", StatementSession("shop", vendor=mariadb)) == ("CONCAT", "(", "v", ",", "'a", ")")
    assert words("''", StatementSession("shop", vendor=mariadb))
    assert not words("''", StatementSession("shop", EMPTY_STRING_IS_NULL, vendor=mariadb))
    assert not words("'a'", StatementSession("shop", MODE_ORACLE, vendor=mariadb))
    assert not words("'\\'", StatementSession("shop", MODE_NO_BACKSLASH_ESCAPES, vendor=mysql))


def test_values_of_another_type_than_the_column_has_are_named() -> None:
    """A target may keep the type of a column that was dropped and added again."""
    for array in (pa.array([1.5]), pa.array(["x"])):
        with pytest.raises(NotComputedError, match=r"no place in the types|of column i"):
            computed("i + 1", "INT", i=array)


ORIGIN = Origin(1_700_000_000, 1)
NUMBERS_TABLE = TableSpec(
    "shop", "t", (ColumnSpec("i", "int"), *(ColumnSpec(name, "int", nullable=True) for name in "gh"))
)
INSERTED, BEFORE, AFTER = (1, None, None), (1, 2, 4), (5, 2, 4)
NO_EXPRESSION: tuple[str, ...] = ()


def images(kind: Generated, g: tuple[str, ...], h: tuple[str, ...]) -> Images:
    """Images of an insert and an update, as a replica logs them."""
    encoder = TableEncoder(NUMBERS_TABLE, 1)
    events = [
        encoder.table_map(ORIGIN),
        *encoder.insert([INSERTED], ORIGIN),
        *encoder.update([(BEFORE, AFTER)], ORIGIN),
    ]
    (block,) = MadeLog([MadeGroup(Gtid(0, 1, 1), 1_700_000_000, [*events, xid()])]).blocks()
    (touched,) = Selection(TableFilter(), GroupFilter()).of(block)
    declared = [("i", None, NO_EXPRESSION), ("g", kind, g), ("h", kind, h)]
    completion = LayoutCompletion(
        tuple(
            ColumnCompletion(name, "int", False, generated=how, sources=("i",), expression=words)
            for name, how, words in declared
        )
    )
    columns = tuple(
        replace(column, name=name) for column, (name, _, _) in zip(touched.layout.columns, declared, strict=True)
    )
    layout = replace(touched.layout, columns=columns, completion=completion.to_json())
    return read_images(
        block.data, block.events, touched.events, layout, decoding=Decoding(computes=with_computed_values)
    )


def test_values_that_a_replica_logs_are_computed() -> None:
    """It logs NULL, or the value from before, of columns that its source lacks."""
    found = images(Generated.REPLICATED, ("i", "+", "1"), ("i", "*", "4"))
    assert found.column(1).to_pylist() == [2, 2, 6]
    assert found.column(2).to_pylist() == [4, 4, 20]


@pytest.mark.parametrize("other", [("g", "*", "2"), ("i", "^", "4")])
def test_values_of_values_that_may_tell_nothing_are_not(other: tuple[str, ...]) -> None:
    found = images(Generated.REPLICATED, ("i", "+", "1"), other)
    assert found.column(1).to_pylist() == [2, 2, 6]
    assert found.column(2).null_count >= 1


def test_values_that_a_server_does_not_log_are_computed_of_others_that_are() -> None:
    found = images(Generated.UNLOGGED, ("i", "+", "1"), ("g", "*", "2"))
    assert found.column(1).to_pylist() == [2, 2, 2]
    assert found.column(2).to_pylist() == [4, 4, 4]
