"""What servers make of values when a column gets another type: seen on MariaDB 10.11 and MySQL 9.7."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from decimal import Decimal as D

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_connector.schema.alteration import Defaults, altered, created
from binlog_connector.schema.definitions import ColumnDefinition, TableDefinition
from binlog_connector.schema.effects.column_effects import ColumnChanged, alter_effects
from binlog_connector.schema.effects.conversion import Circumstances, Converted, Effect, Same, Unknown
from binlog_connector.schema.effects.numbers import decimal_text
from binlog_connector.schema.log_ddl import DdlStatement
from binlog_connector.schema.operations import AlterTable, CreateTable
from binlog_connector.schema.parsing.ddl import parse_ddl
from binlog_connector.schema.parsing.session import StatementSession
from binlog_connector.schema.table_changes import TableAltered, table_changes
from binlog_format.position import Position
from binlog_format.rows.declared.declared_types import Moment
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding, ZeroDates
from binlog_format.vendor import Vendor

MARIADB, MYSQL = Vendor.MARIADB, Vendor.MYSQL


def moment(*numbers: int) -> dt.datetime:
    return dt.datetime(*numbers)  # type: ignore[arg-type]  # noqa: DTZ001 - columns without a time zone


def how(vendor: Vendor = MARIADB, *, strict: bool = True, zone: str | None = None) -> Circumstances:
    version = 110809 if vendor is MARIADB else 90704
    moment = Moment(0, 0, zone)
    return Circumstances(vendor, strict, vendor is MARIADB, DEFAULT_DECODING, moment, server_version=version)


def table(columns: str, vendor: Vendor = MARIADB) -> TableDefinition:
    (create,) = parse_ddl(f"CREATE TABLE w.t ({columns})", StatementSession("w", vendor=vendor))
    assert isinstance(create, CreateTable)
    return created(create, Defaults(vendor, "utf8mb4"))


def effects(columns: str, action: str, given: Circumstances | None = None, sql_mode: int = 0) -> dict[str, Effect]:
    return {name: change.effect for name, change in changes(columns, action, given or how(), sql_mode).items()}


def changes(columns: str, action: str, given: Circumstances, sql_mode: int = 0) -> dict[str, ColumnChanged]:
    before = table(columns, given.vendor)
    (alter,) = parse_ddl(f"ALTER TABLE w.t {action}", StatementSession("w", vendor=given.vendor))
    assert isinstance(alter, AlterTable)
    after = altered(before, alter, Defaults(given.vendor, "utf8mb4"))
    return alter_effects(before, after, alter, given, sql_mode)


def effect(old: str, new: str, given: Circumstances | None = None) -> Effect:
    return effects(f"id INT PRIMARY KEY, c {old}", f"MODIFY c {new}", given)["c"]


SAME = [
    ("INT", "BIGINT"),
    ("BIGINT", "TINYINT"),  # a strict session has refused what does not fit
    ("VARCHAR(10)", "VARCHAR(20)"),
    ("CHAR(5)", "VARCHAR(5)"),
    ("VARCHAR(10)", "VARCHAR(10) CHARACTER SET latin1"),
    ("ENUM('a','b')", "ENUM('b','x','a')"),
    ("SET('a','b')", "SET('a','x','b')"),
    ("DATETIME", "DATETIME(3)"),
    ("VARBINARY(3)", "VARBINARY(5)"),
    ("DECIMAL(10,2)", "DECIMAL(12,4)"),
    ("INT NULL", "INT NOT NULL"),
    ("FLOAT", "DOUBLE"),
    ("POINT", "GEOMETRY"),
    ("GEOMETRY", "LINESTRING"),  # servers have refused others, or took them as they are
]


@pytest.mark.parametrize(("old", "new"), SAME)
def test_values_stay(old: str, new: str) -> None:
    assert isinstance(effect(old, new), Same)


LAX = how(strict=False)
ROUNDING = replace(how(), cuts_fractions=False)
LAST_MOMENT = dt.datetime.max  # noqa: DTZ901 - of a column without a time zone
CONVERSIONS = [
    ("DECIMAL(10,4)", "DECIMAL(5,2)", how(), [D("1.2550"), D("-1.2550"), None], [D("1.26"), D("-1.26"), None]),
    ("DECIMAL(10,4)", "DECIMAL(5,2)", LAX, [D("1234.5600"), D("-1234.0000")], [D("999.99"), D("-999.99")]),
    ("DECIMAL(10,4)", "INT", how(), [D("2.5000"), D("-2.5000")], [3, -3]),
    ("DECIMAL(40,2)", "DECIMAL(40,4)", how(), ["1.25"], ["1.2500"]),
    ("DOUBLE", "INT", how(), [2.5, 3.5, -0.5], [2, 4, 0]),
    ("DOUBLE", "DECIMAL(10,2)", how(), [1.005, 0.1], [D("1.01"), D("0.10")]),
    ("FLOAT(10,4)", "DOUBLE(10,1)", how(), [2.25, 2.75], [2.2, 2.8]),
    ("INT", "TINYINT UNSIGNED", LAX, [-5, 300, None], [0, 255, None]),
    ("INT", "YEAR", how(), [0, 5, 70, 2024], [0, 2005, 1970, 2024]),
    ("INT(6) UNSIGNED ZEROFILL", "VARCHAR(10)", how(), [42], ["000042"]),
    ("DECIMAL(10,4)", "VARCHAR(20)", how(), [D("0.0001"), D("-0.5000")], ["0.0001", "-0.5000"]),
    ("DOUBLE", "VARCHAR(40)", how(), [0.1, 1e-10, 123456.789, 2.0], ["0.1", "0.0000000001", "123456.789", "2"]),
    ("FLOAT", "VARCHAR(40)", how(), [16777216.0, 0.30000001192092896], ["16777200", "0.3"]),
    ("INT", "BINARY(3)", how(), [7], [b"7\0\0"]),
    ("BIGINT", "DOUBLE", how(), [2**53 + 1], [float(2**53)]),
    ("DOUBLE", "FLOAT", LAX, [1e300], [3.4028234663852886e38]),
    ("DATE", "INT", how(), [dt.date(2024, 1, 2)], [20240102]),
    ("YEAR", "VARCHAR(4)", how(), [2024, 0], ["2024", "0000"]),
    ("VARCHAR(20)", "INT", how(), ["12", " -3 "], [12, -3]),
    ("VARCHAR(20)", "DECIMAL(5,1)", how(), ["1.25", "-1.25"], [D("1.3"), D("-1.3")]),
    ("VARCHAR(10)", "CHAR(10)", how(), ["a  ", "b"], ["a", "b"]),
    ("VARCHAR(10)", "VARCHAR(3)", how(), ["abc  "], ["abc"]),
    ("VARCHAR(10)", "VARCHAR(3)", LAX, ["abcdef"], ["abc"]),
    ("VARCHAR(9)", "VARCHAR(9) CHARACTER SET latin1", LAX, ["\u6f22\u00e9"], ["?\u00e9"]),
    ("VARCHAR(9)", "VARCHAR(9) CHARACTER SET utf8mb3", LAX, ["\U0001f600\u6f22"], ["?\u6f22"]),
    ("VARBINARY(4)", "BINARY(4)", how(), [b"ab"], [b"ab\0\0"]),
    ("BINARY(2)", "BINARY(4)", how(), [b"ab"], [b"ab\0\0"]),
    ("VARCHAR(10)", "VARBINARY(10)", how(), ["\u00e9"], [b"\xc3\xa9"]),
    ("ENUM('new','paid')", "ENUM('Paid','New')", how(), ["new", "paid"], ["New", "Paid"]),
    ("SET('a','b','c')", "SET('c','b','a')", how(), ["a,c", ""], ["c,a", ""]),
    ("VARCHAR(10)", "ENUM('open','closed')", how(), ["Open", "CLOSED", "open "], ["open", "closed", "open"]),
    ("ENUM('a','b')", "INT", how(), ["b", "a"], [2, 1]),
    ("INT", "ENUM('a','b')", how(), [2], ["b"]),
    ("TIME(3)", "TIME", how(), ["10:00:00.999", "-10:00:00.500"], ["10:00:00", "-10:00:00"]),
    ("TIME(3)", "TIME", how(MYSQL), ["10:00:00.999", "-10:00:00.500"], ["10:00:01", "-10:00:01"]),
    ("TIME(3)", "TIME", how(), ["-00:00:00.400"], ["00:00:00"]),
    ("TIME", "TIME(2)", how(), ["-838:59:59"], ["-838:59:59.00"]),
    ("TIME(6)", "TIME(1)", ROUNDING, ["838:59:59.999999", "-10:00:00.950"], ["838:59:59.9", "-10:00:01.0"]),
    ("DATE", "DATETIME", how(), [dt.date(2024, 1, 2)], [moment(2024, 1, 2)]),
    ("DATETIME(6)", "DATETIME", how(MYSQL, strict=False), [LAST_MOMENT], [None]),
    ("DATETIME(6)", "DATETIME(1)", ROUNDING, [LAST_MOMENT], [LAST_MOMENT.replace(microsecond=900_000)]),
    ("DATETIME(6)", "DATE", how(MYSQL, strict=False), [LAST_MOMENT], [None]),
    ("VARCHAR(40)", "DATETIME(3)", how(MYSQL, strict=False), [str(LAST_MOMENT)], [None]),
    ("VARCHAR(40)", "DATE", how(MYSQL, strict=False), [str(LAST_MOMENT)], [None]),
    ("DATE", "VARCHAR(10)", how(), [dt.date(999, 1, 2)], ["0999-01-02"]),
    ("DATETIME", "VARCHAR(30)", how(), [moment(2024, 1, 2, 3, 4, 5)], ["2024-01-02 03:04:05"]),
    ("VARCHAR(20)", "DATE", how(), ["2024-02-29"], [dt.date(2024, 2, 29)]),
    ("INT", "TIME", how(), [-10203, 838], ["-01:02:03", "00:08:38"]),
    ("INT", "DATE", LAX, [20240229, 240229, 20230229, 5], [dt.date(2024, 2, 29), dt.date(2024, 2, 29), None, None]),
    ("INT", "BIT(8)", LAX, [5, -1, 256], [5, 255, 255]),
    ("INT", "SET('a','b')", LAX, [3, 6], ["a,b", "b"]),
    ("INT", "SET('a','b')", how(MYSQL, strict=False), [3, 6], ["a,b", ""]),
    ("INT", "ENUM('10','1','2')", how(MYSQL), [1, 2], ["1", "2"]),
    ("INT", "ENUM('10','1','2')", how(), [1, 2], ["10", "1"]),
    ("BIT(16)", "VARCHAR(5)", how(), [97], ["97"]),
    ("BIT(16)", "TEXT", how(), [24930], ["ab"]),
    ("DECIMAL(10,4)", "TIME(3)", how(), [D("-1.2500")], ["-00:00:01.250"]),
    ("TIME(3)", "INT", how(), ["-10:20:30.900"], [-102030]),
    ("TIME(3)", "INT", how(MYSQL), ["-10:20:30.900"], [-102031]),
    ("TIME(3)", "DECIMAL(12,4)", how(), ["-00:00:00.500"], [D("-0.5000")]),
    ("DATETIME", "BIGINT", how(), [moment(1969, 12, 31, 23, 59, 58)], [19691231235958]),
    ("VARCHAR(20)", "TIME", LAX, ["1:2", "a", "12:60:00", "900:"], ["01:02:00", *["00:00:00"] * 2, "00:09:00"]),
    ("VARCHAR(20)", "INT", LAX, ["1.5", "x", "12abc", "1e3"], [1, 0, 12, 1]),
    ("VARCHAR(20)", "INT", how(MYSQL, strict=False), ["1.5", "x", "12abc", "1e3"], [2, 0, 12, 1000]),
    ("VARCHAR(60)", "DECIMAL(40,10)", LAX, ["-1e400"], [f"-{'9' * 30}.{'9' * 10}"]),
    ("CHAR(10)", "CHAR(4)", LAX, ["ab  cd"], ["ab"]),
    ("DOUBLE", "VARCHAR(40)", how(), [8.2e15, -8.2e15, 999999999999999.0], ["8.2e15", "-8.2e15", "999999999999999"]),
    ("BIGINT UNSIGNED", "SET('a','b','c')", LAX, [D((1 << 63) + 5)], ["a,c"]),
    ("INT", "DATE", LAX, [8331008], [None]),
    ("VARCHAR(20)", "YEAR", LAX, ["0", "0000", "7", "1899"], [2000, 0, 2007, 0]),
    ("VARCHAR(20)", "INET6", LAX, ["x", "::1"], [None, "::1"]),
    ("VARCHAR(20)", "INET6 NOT NULL", LAX, ["x", "::1", None], ["::", "::1", "::"]),
    ("INT", "INET4 NOT NULL", LAX, [5], ["0.0.0.0"]),
    ("VARCHAR(9) CHARACTER SET utf16", "YEAR", LAX, ["abc", "7"], [0, 2007]),
    ("VARBINARY(9)", "INT", LAX, [b"7\xff", b"\xff"], [7, 0]),
    ("VARBINARY(9)", "VARCHAR(9)", LAX, [b"a\xffb"], ["a?b"]),
    ("VARBINARY(9)", "VARCHAR(9)", how(MYSQL, strict=False), [b"a\xffb"], ["a"]),
    ("UUID", "BINARY(16)", how(), ["61626364-6566-6768-696a-6b6c6d6e6f70"], [b"abcdefghijklmnop"]),
    ("VARCHAR(9) CHARACTER SET latin1", "VARBINARY(9)", how(), ["\u00e9"], [b"\xe9"]),
    ("ENUM('a','\u00e9') CHARACTER SET ucs2", "VARBINARY(9)", how(), ["a", "\u00e9"], [b"\0a", b"\0\xe9"]),
    ("SET('x','y') CHARACTER SET utf32", "BLOB", how(), ["x,y"], [b"\0\0\0x\0\0\0,\0\0\0y"]),
    ("ENUM('a') CHARACTER SET gbk", "VARBINARY(9)", how(), ["a"], [b"a"]),
    ("INT NULL", "INT NOT NULL", LAX, [None, 7], [0, 7]),
    ("TIME NULL", "TIME(1) NOT NULL", LAX, [None], ["00:00:00.0"]),
    ("VARCHAR(5) NULL", "VARCHAR(5) NOT NULL", LAX, [None, "a"], ["", "a"]),
    ("INET4", "INET6", how(), ["1.2.3.4"], ["::ffff:1.2.3.4"]),
    (
        "CHAR(36)",
        "UUID",
        how(),
        ["123E4567-E89B-12D3-A456-426655440000"],
        ["123e4567-e89b-12d3-a456-426655440000"],
    ),
]


@pytest.mark.parametrize(("old", "new", "given", "before", "after"), CONVERSIONS)
def test_values_become_what_the_server_makes_of_them(
    old: str, new: str, given: Circumstances, before: list[object], after: list[object]
) -> None:
    found = effect(old, new, given)
    assert isinstance(found, Converted)
    kinds = {"DECIMAL(10,4)": pa.decimal128(10, 4), "DATE": pa.date32(), "DATETIME": pa.timestamp("us")}
    values = found.convert(pa.array(before, kinds.get(old)))
    assert values.unknown is None or not values.unknown.any()
    assert values.array.to_pylist() == after


def test_null_becomes_the_time_of_the_statement_in_a_timestamp_that_must_not_be_null() -> None:
    for session in (how(), how(strict=False), how(MYSQL)):
        found = effect("INT NULL", "TIMESTAMP NOT NULL", replace(session, moment=Moment(1_700_000_000, 5, "+00:00")))
        assert isinstance(found, Converted)
        after = found.convert(pa.array([None], pa.int32()))
        assert after.unknown is None or not after.unknown.any()
        assert after.array.cast(pa.int64()).to_pylist() == [1_700_000_000_000_000]
    was_null = effect("DATETIME NULL", "TIMESTAMP NOT NULL", how(zone="+00:00"))
    assert isinstance(was_null, Converted)
    unknown = was_null.convert(pa.array([None], pa.timestamp("us"))).unknown
    assert unknown is not None
    assert unknown.all()  # it may be 0000-00-00, too


@pytest.mark.parametrize(
    ("new", "texts"),
    [
        # Each is something that one of the servers, or a version of it, reads in its own way.
        ("DATE", ["2024--05-11", "+86101", "596.27", "991228 b", "19701109a", "1T2", "2024-01-02\u00e9"]),
        ("DATETIME", ["839:11:28.5 b", "69-02-13  :00.9", "2024-01-02 03:04:05.6789012", "2024-01-02 03:04:05+02:00"]),
        ("DATETIME", ["2001.11.11 232309.499999"]),
        (
            "TIME",
            [
                "2023-02-29 09:00:23.8",
                "+52",
                ":29",
                "007.E0",
                "99109 :24",
                "69/11/28T1:",
                "1 10:00:00",
                "2023-10-31 b",
                "9999-00-1 13:13:12,",
            ],
        ),
        ("INT", ["\n7"]),
        ("YEAR", ["+7", "20e2"]),
        ("ENUM('a','2')", ["A", "+1", "\u00c0", "a\0"]),
        ("SET('a','2')", ["A,2", "111345 "]),
    ],
)
def test_text_that_servers_do_not_agree_on_is_unknown(new: str, texts: list[str]) -> None:
    found = effect("VARCHAR(60)", new, LAX)
    assert isinstance(found, Converted)
    unknown = found.convert(pa.array(texts)).unknown
    assert unknown is not None
    assert unknown.all()


@pytest.mark.parametrize("old", ["TIMESTAMP(6) NULL", "DATETIME(6)"])
def test_last_moment_of_a_timestamp_is_not_rounded_to_one_that_it_lacks(old: str) -> None:
    moments = [moment(2038, 1, 19, 3, 14, 7, 999_999), moment(2038, 1, 19, 3, 14, 7, 400_000)]
    kind = pa.timestamp("us", tz="UTC" if old.startswith("TIMESTAMP") else None)
    rounded = [None, dt.datetime(2038, 1, 19, 3, 14, 7, tzinfo=dt.UTC)]
    # MySQL makes 0000-00-00 of it, and what MariaDB does depends on the version and the processor.
    mysql, mariadb = how(MYSQL, strict=False, zone="+00:00"), replace(ROUNDING, moment=Moment(0, 0, "+00:00"))
    for circumstances, unknown in ((mysql, [False, False]), (mariadb, [True, False])):
        found = effect(old, "TIMESTAMP NULL", circumstances)
        assert isinstance(found, Converted)
        after = found.convert(pa.array(moments, pa.timestamp("us")).cast(kind))
        assert after.array.to_pylist() == rounded
        assert (after.unknown.tolist() if after.unknown is not None else [False, False]) == unknown


@pytest.mark.parametrize("charset", ["ucs2", "utf16", "utf32"])
def test_text_of_a_number_may_be_no_place_in_a_list_of_wide_labels(charset: str) -> None:
    found = effect("ENUM('x','1')", f"ENUM('a') CHARACTER SET {charset}", LAX)
    assert isinstance(found, Converted)
    after = found.convert(pa.array(["x", "1"]))
    assert after.array[0].as_py() == ""
    assert after.unknown is not None
    assert after.unknown.tolist() == [False, True]


@pytest.mark.parametrize("text", ["1e 5", "1e", "1E+", "7 e5"])
@pytest.mark.parametrize("vendor", Vendor)
def test_exponent_with_white_space_in_it_is_read_by_some_servers(vendor: Vendor, text: str) -> None:
    found = effect("VARCHAR(9)", "DECIMAL(20,5)", how(vendor, strict=False))
    assert isinstance(found, Converted)
    unknown = found.convert(pa.array([text])).unknown
    assert (unknown is not None and unknown.tolist() == [True]) == (text != "7 e5")


@pytest.mark.parametrize(("version", "kept"), [(50722, 1), (80012, 2)])
def test_texts_become_json_as_the_server_prints_it(version: int, kept: int) -> None:
    found = effect("TEXT", "JSON", replace(how(MYSQL), server_version=version))
    assert isinstance(found, Converted)
    texts = [' {"bb":[true,-1,"\\u00e9"], "c":1,"c":2}', None, "[ ]", "[0.30000000000000004]", "[1.0]"]
    whole_double = "[1.0]" if kept == 2 else None  # 5.7 shows 1
    after = found.convert(pa.array(texts))
    assert after.array.to_pylist() == [f'{{"c": {kept}, "bb": [true, -1, "é"]}}', None, "[]", None, whole_double]
    assert after.unknown is not None
    assert after.unknown.tolist() == [False, False, False, True, whole_double is None]


def test_moment_that_a_timestamp_lacks_becomes_none_or_is_unknown() -> None:
    before = [moment(1900, 1, 1), moment(2200, 1, 1), moment(1900, 1, 1, 0, 0, 0, 500_000), moment(2100, 1, 1)]
    found = effect("DATETIME(6)", "TIMESTAMP(6) NULL", how(strict=False, zone="+00:00"))
    assert isinstance(found, Converted)
    after = found.convert(pa.array(before, pa.timestamp("us")))
    assert after.array.null_count == len(before)
    assert after.unknown is not None
    # MariaDB keeps the fraction of a second, and newer versions have moments after 2038.
    assert after.unknown.tolist() == [False, False, True, True]


def test_time_gets_the_date_of_the_statement() -> None:
    given = replace(how(), moment=Moment(1_700_000_000, 0, "-10:00"))  # still 2023-11-14 there
    found = effect("TIME", "DATETIME", given)
    assert isinstance(found, Converted)
    assert found.convert(pa.array(["25:00:00", "-01:00:00"])).array.to_pylist() == [
        moment(2023, 11, 15, 1),
        moment(2023, 11, 13, 23),
    ]


def test_null_of_a_date_may_be_no_null() -> None:
    before = pa.array([None, dt.date(2024, 1, 2)], pa.date32())
    for new in ("INT", "VARCHAR(20)", "TIME"):
        found = effect("DATE", new)
        assert isinstance(found, Converted)
        unknown = found.convert(before).unknown
        assert unknown is not None
        assert unknown.tolist() == [True, False]


def test_fractions_of_moments_are_cut_by_one_server_and_rounded_by_the_other() -> None:
    before = pa.array([moment(2024, 12, 31, 23, 59, 59, 999_999)], pa.timestamp("us"))
    for vendor, after in ((MARIADB, moment(2024, 12, 31, 23, 59, 59)), (MYSQL, moment(2025, 1, 1))):
        found = effect("DATETIME(6)", "DATETIME", how(vendor))
        assert isinstance(found, Converted)
        assert found.convert(before).array.to_pylist() == [after]


def test_time_zone_of_the_session_moves_values() -> None:
    before = pa.array([moment(2024, 7, 1, 12)], pa.timestamp("us", tz="UTC"))
    for zone, hour in (("+02:00", 14), ("-03:30", 8), ("Europe/Berlin", 14)):
        found = effect("TIMESTAMP NULL", "DATETIME", how(zone=zone))
        assert isinstance(found, Converted)
        assert found.convert(before).array.to_pylist()[0].hour == hour
    for unknown in (None, "SYSTEM", "Nowhere/Else"):
        assert isinstance(effect("TIMESTAMP NULL", "DATETIME", how(zone=unknown)), Unknown)


@pytest.mark.parametrize(
    ("old", "new", "values"),
    [
        ("VARCHAR(20)", "INT", ["1.5", "x", "99999999999"]),
        ("VARCHAR(20)", "DATE", ["2024-13-01", "2024-01-02 10:00:00 +02:00", "1 May"]),
        ("VARCHAR(20)", "ENUM('a','b')", ["c"]),
        ("VARCHAR(20)", "SET('a','b')", ["4", "c"]),
        ("VARCHAR(20)", "UUID", ["no"]),
        ("VARCHAR(20)", "INET6", ["1.2.3.4"]),
    ],
)
def test_value_whose_result_is_not_known_is_marked(old: str, new: str, values: list[str]) -> None:
    found = effect(old, new)
    assert isinstance(found, Converted)
    assert found.may_fail
    after = found.convert(pa.array(values))
    assert after.unknown is not None
    assert after.unknown.all()
    assert after.array.null_count == len(values)


@pytest.mark.parametrize(
    ("old", "new"), [("UUID", "INT"), ("TIME", "DATETIME"), ("JSON", "INT"), ("INT", "POINT"), ("POINT", "TEXT")]
)
def test_what_is_not_on_the_list_is_unknown(old: str, new: str) -> None:
    assert isinstance(effect(old, new), Unknown)


def test_conversion_of_all_columns_is_a_change_of_the_table() -> None:
    position = Position(0, 1, 0)
    (change,) = table_changes(DdlStatement(position, 0, "ALTER TABLE t CONVERT TO CHARACTER SET latin1", "w"))
    assert isinstance(change, TableAltered)
    assert change
    found = effects("id INT PRIMARY KEY, a VARCHAR(9), b INT", "CONVERT TO CHARACTER SET latin1", LAX)
    assert {name: type(one) for name, one in found.items()} == {"id": Same, "a": Converted, "b": Same}


@pytest.mark.parametrize(
    ("labels", "old", "new", "keeps"),
    [
        ("'a', 'b'", "latin1", "utf8mb4", True),
        ("'a', 'é'", "utf8mb3", "utf8mb4", True),
        ("'a', 'é'", "latin1", "utf8mb4", False),
        ("'a', 'é'", "utf8mb4", "latin1", False),
        ("'a', 'b'", "utf8mb4", "utf16", False),
        ("'a', 'b'", "ucs2", "utf8mb4", False),
        ("'a', '@'", "utf8mb4", "swe7", False),
    ],
)
@pytest.mark.parametrize("kind", ["ENUM", "SET"])
def test_servers_read_the_bytes_of_labels_in_the_new_character_set(
    kind: str, labels: str, old: str, new: str, keeps: bool
) -> None:
    """Live in `tests/connector/schema/test_live_server.py`."""
    columns = f"id INT PRIMARY KEY, c {kind}({labels}) CHARACTER SET {old}"
    found = effects(columns, f"CONVERT TO CHARACTER SET {new}", LAX)["c"]
    assert isinstance(found, Same) == keeps
    mysql = how(MYSQL, strict=False)
    of_mysql = effects(columns, f"CONVERT TO CHARACTER SET {new}", mysql)["c"]
    assert isinstance(of_mysql, Same) == keeps


@pytest.mark.parametrize(("charset", "has"), [("ascii", False), ("cp1251", False), ("latin2", True), ("utf8mb3", True)])
def test_labels_with_characters_that_their_character_set_lacks_are_not_known(charset: str, has: bool) -> None:
    """The server has a question mark there, and rows that had the label have that."""
    columns = table(f"c ENUM('x', 'é') CHARACTER SET {charset}, d VARCHAR(9)").columns
    assert columns is not None
    assert (columns[0].enum_values is not None) is has
    assert columns[0].knows("enum_values") is has


@pytest.mark.parametrize(
    ("vendor", "old", "greatest"),
    [(MYSQL, "DECIMAL(20)", (1 << 63) - 1), (MYSQL, "DECIMAL(20) UNSIGNED", None), (MARIADB, "DECIMAL(20)", None)],
)
def test_mysql_reads_a_decimal_as_a_bigint_of_its_own_sign(vendor: Vendor, old: str, greatest: int | None) -> None:
    """In a session that is not strict (MySQL 5.6 to 9.7); in others the statement fails."""
    wide = (1 << 64) - 1
    found = effect(old, "BIGINT UNSIGNED", how(vendor, strict=False))
    assert isinstance(found, Converted)
    values = found.convert(pa.array([D(wide), D(7)], pa.decimal128(20, 0)))
    assert values.array.to_pylist() == [greatest or wide, 7]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("VARBINARY(9)", "ENUM('a') CHARACTER SET utf32"),
        ("BLOB", "SET('a') CHARACTER SET ucs2"),
        ("ENUM('a') CHARACTER SET binary", "VARCHAR(9) CHARACTER SET utf16"),
        ("SET('a') CHARACTER SET binary", "ENUM('a') CHARACTER SET ucs2"),
        ("TEXT CHARACTER SET utf16le", "ENUM('b','a') CHARACTER SET binary"),
        ("SET('b','a') CHARACTER SET ucs2", "SET('x','a') CHARACTER SET binary"),
    ],
)
def test_labels_between_bytes_and_characters_of_several_bytes_are_not_converted(old: str, new: str) -> None:
    """Live on both vendors: `12:00:00` is two characters of utf32, and none of its labels."""
    assert isinstance(effect(old, new, LAX), Unknown)
    assert isinstance(effect(old, new.partition(" CHAR")[0], LAX), Converted)


@pytest.mark.parametrize(("old", "new"), [("YEAR(2)", "VARCHAR(9)"), ("YEAR(2)", "YEAR"), ("YEAR", "YEAR(2)")])
def test_values_of_a_year_of_two_digits_are_not_converted(old: str, new: str) -> None:
    """SELECT on MariaDB shows two digits, and so do conversions; old versions of MySQL make it YEAR(4)."""
    assert isinstance(effect(old, new, LAX), Unknown)
    assert isinstance(effect(old, f"{old} COMMENT 'a'", LAX), Same)
    assert not isinstance(effect(old, new, how(MYSQL)), Unknown)


@pytest.mark.parametrize("kind", ["ENUM", "SET"])
def test_numbers_of_labels_are_not_known_where_two_have_one_text(kind: str) -> None:
    """An empty label, and no label, are the same text; so are `('', 'b')` and `('b')` of a set."""
    for label, text, is_known in (("", "", False), ("c", "", True), ("c", "b", True)):
        effect = effects(f"id INT PRIMARY KEY, c {kind}('{label}', 'b')", "MODIFY c INT", LAX)["c"]
        assert isinstance(effect, Converted)
        values = effect.convert(pa.array([text]))
        assert (values.unknown is None or not any(values.unknown)) is is_known


@pytest.mark.parametrize(("vendor", "charset", "known"), [(MYSQL, "ascii", False), (MARIADB, "utf8mb4", True)])
def test_labels_become_texts_of_another_character_set(vendor: Vendor, charset: str, known: bool) -> None:
    columns = "id INT PRIMARY KEY, c ENUM('x', 'é') CHARACTER SET latin1"
    effect = effects(columns, f"MODIFY c VARCHAR(9) CHARACTER SET {charset}", how(vendor, strict=False))["c"]
    assert isinstance(effect, Converted)
    values = effect.convert(pa.array(["x", "é"]))
    assert (values.unknown is None or not any(values.unknown)) is known


@pytest.mark.parametrize(
    ("old", "new", "given", "is_known"),
    [
        ("INT", "INT NOT NULL", LAX, True),
        ("INT DEFAULT NULL", "INT NOT NULL DEFAULT 3", LAX, True),
        ("INT DEFAULT 7", "INT NOT NULL", LAX, False),
        ("DATE DEFAULT '2020-01-01'", "DATE NOT NULL", LAX, False),
        ("VARCHAR(9) DEFAULT 'ab'", "VARCHAR(20) NOT NULL", LAX, False),
        ("INT DEFAULT 7", "BIGINT NOT NULL", LAX, True),
        ("INT DEFAULT 7", "INT NOT NULL", how(MYSQL, strict=False), True),
    ],
)
def test_null_may_become_the_old_default_where_mariadb_alters_in_place(
    old: str, new: str, given: Circumstances, is_known: bool
) -> None:
    found = effect(old, new, given)
    assert isinstance(found, Converted | Same)
    if not is_known:
        assert isinstance(found, Converted)
        side = pa.array([None], {"INT": pa.int32(), "DATE": pa.date32()}.get(old.partition(" ")[0], pa.string()))
        assert found.convert(side).unknown is not None


@pytest.mark.parametrize("new", ["ENUM('a','a ') CHARACTER SET binary", "SET('a','b') CHARACTER SET binary"])
def test_texts_with_spaces_at_their_ends_are_unknown_where_labels_are_bytes(new: str) -> None:
    found = effect("VARCHAR(9) CHARACTER SET latin1", new)
    assert isinstance(found, Converted)
    unknown = found.convert(pa.array(["a", "a "])).unknown
    assert unknown is not None
    assert unknown.tolist() == [False, True]


def test_generated_columns_follow_what_they_are_computed_from() -> None:
    columns = "id INT PRIMARY KEY, a DECIMAL(10,4), b INT, s INT AS (b + 1) STORED, t DECIMAL(10,4) AS (A * 2)"
    found = effects(columns, "MODIFY a DECIMAL(10,2), CHANGE b c BIGINT")
    assert isinstance(found["t"], Unknown)
    assert isinstance(found["s"], Same)
    assert isinstance(effects(columns, "MODIFY s INT AS (b + 2) STORED")["s"], Unknown)
    assert isinstance(effects(columns, "MODIFY s INT AS (B + 1) STORED")["s"], Same)
    assert isinstance(effects(columns, "MODIFY b INT AS (id) STORED")["b"], Unknown)
    texts = "id INT PRIMARY KEY, v VARCHAR(9), g VARCHAR(9) AS (concat(v, 'X'))"
    assert isinstance(effects(texts, "MODIFY g VARCHAR(9) AS (concat(v, 'x'))")["g"], Unknown)


def test_null_that_becomes_a_zero_date_changes_what_is_computed_of_it() -> None:
    columns = "id INT PRIMARY KEY, d DATE, n INT, g INT AS (YEAR(d)) STORED, h INT AS (n + 1)"
    found = effects(columns, "MODIFY d DATE NOT NULL, MODIFY n INT NOT NULL")
    assert isinstance(found["d"], Same)
    assert isinstance(found["g"], Unknown)


def test_generated_column_refers_to_the_column_that_has_the_name_now() -> None:
    columns = "id INT PRIMARY KEY, a INT, g VARCHAR(9) AS (concat('<', a)), h VARCHAR(9) AS (concat(g, '>'))"
    found = effects(columns, "DROP COLUMN a, ADD COLUMN A INT")
    assert isinstance(found["g"], Unknown)
    assert isinstance(found["h"], Unknown)  # through `g`
    assert all(isinstance(effect, Same) for effect in effects(columns, "ADD COLUMN b INT").values())


@pytest.mark.parametrize("action", ["ALTER a SET DEFAULT 6", "MODIFY a INT DEFAULT 6", "MODIFY a INT"])
def test_expressions_over_a_default_have_another_value_with_another_default(action: str) -> None:
    columns = "id INT PRIMARY KEY, a INT DEFAULT 5, v INT AS (a + DEFAULT(a)), w INT AS (v + 1) STORED, x INT AS (a)"
    found = effects(columns, action)
    assert isinstance(found["v"], Unknown)
    assert isinstance(found["w"], Unknown)  # through `v`
    assert isinstance(found["x"], Same)
    assert isinstance(effects(columns, "ALTER a SET DEFAULT 5")["v"], Same)


def test_column_that_begins_to_count_numbers_rows_that_have_zero() -> None:
    found = effects("id INT, k INT", "MODIFY id INT AUTO_INCREMENT PRIMARY KEY")["id"]
    assert isinstance(found, Converted)
    unknown = found.convert(pa.array([1, 0], pa.int32())).unknown
    assert unknown is not None
    assert unknown.tolist() == [False, True]
    kept = effects("id INT, k INT", "MODIFY id INT AUTO_INCREMENT PRIMARY KEY", sql_mode=1 << 19)["id"]
    assert isinstance(kept, Converted)
    assert kept.convert(pa.array([1, 0], pa.int32())).array.to_pylist() == [1, 0]


@pytest.mark.parametrize(
    ("vendor", "version", "is_compared"),
    [
        (MARIADB, None, False),
        (MARIADB, 100211, False),
        (MARIADB, 101105, False),
        (MARIADB, 110405, False),
        (MARIADB, 110809, True),
        (Vendor.MYSQL, 80012, False),
        (Vendor.MYSQL, 90704, True),
    ],
)
def test_servers_that_were_not_compared_are_not_taken_for_those_that_were(
    vendor: Vendor, version: int | None, *, is_compared: bool
) -> None:
    loose = replace(how(vendor, strict=False), server_version=version)
    for old, new, fit, misfit in (
        ("VARCHAR(40)", "INT", "12", "12a"),
        ("BIGINT", "DECIMAL(4)", 12, 1 << 40),
        ("BIGINT", "TIME", 1212, -56709294),
        ("VARCHAR(40)", "SET('1','2')", "1", "853716"),
        ("DECIMAL(12,4)", "DECIMAL(4,2)", D("1.2500"), D("123.4500")),
    ):
        found = effect(old, new, loose)
        assert isinstance(found, Converted)
        values = found.convert(pa.array([fit, misfit, None]))
        unknown = [False] * 3 if values.unknown is None else values.unknown.tolist()
        assert unknown == [False, not is_compared, False], (old, new)


@pytest.mark.parametrize("version", [None, 50624, 80012, 90704])
def test_integers_beyond_a_range_become_its_nearest_end_on_all_servers(version: int | None) -> None:
    loose = replace(how(Vendor.MYSQL, strict=False), server_version=version)
    values = pa.array([12, -1, 1 << 40, -(1 << 40), None], pa.int64())
    for new, expected in (
        ("SMALLINT", [12, -1, 32767, -32768, None]),
        ("INT UNSIGNED", [12, 0, 4294967295, 0, None]),
        ("BIGINT UNSIGNED", [12, 0, 1 << 40, 0, None]),
    ):
        found = effect("BIGINT", new, loose)
        assert isinstance(found, Converted)
        converted = found.convert(values)
        assert converted.array.to_pylist() == expected
        assert converted.unknown is None or not any(converted.unknown.tolist())


@pytest.mark.parametrize("digits", ["8,2", "10,2", "6,2", "12,4"])
@pytest.mark.parametrize("vendor", Vendor)
def test_floats_of_other_digits_stay_or_are_rounded_whether_or_not_the_table_is_copied(
    vendor: Vendor, digits: str
) -> None:
    found = effect("DOUBLE(8,4)", f"DOUBLE({digits})", how(vendor))
    assert isinstance(found, Converted)
    values = found.convert(pa.array([1.25, 1.2356, -0.0, None]))
    assert values.unknown is not None
    assert values.unknown.tolist() == [False, digits != "12,4", True, False]


@pytest.mark.parametrize(("other", "copies"), [("DECIMAL(9,1)", True), ("TEXT", True), ("DECIMAL(9,2) NULL", False)])
def test_floats_are_rounded_to_fewer_digits_where_the_server_copies_the_table(other: str, copies: bool) -> None:
    found = effects("d DOUBLE(8,4), e DECIMAL(9,2)", f"MODIFY d DOUBLE(8,2), MODIFY e {other}")["d"]
    assert isinstance(found, Converted)
    values = found.convert(pa.array([1.2356, None]))
    assert (values.unknown is None) == copies
    assert not copies or values.array.to_pylist() == [1.24, None]


@pytest.mark.parametrize(
    ("vendor", "version", "sign"), [(MYSQL, None, -1.0), (MARIADB, 110809, 1.0), (MARIADB, 100211, None)]
)
@pytest.mark.parametrize("text", ["-0", "-00", "-0.0", " -0", "-0e3"])
def test_zero_below_keeps_its_sign_in_mysql(vendor: Vendor, version: int | None, sign: float | None, text: str) -> None:
    found = effect("VARCHAR(9)", "DOUBLE", replace(how(vendor), server_version=version))
    assert isinstance(found, Converted)
    values = found.convert(pa.array([text]))
    if sign is None:
        assert values.unknown is not None
        assert values.unknown.tolist() == [True]
    else:
        assert math.copysign(1.0, values.array[0].as_py()) == sign


@pytest.mark.parametrize(("vendor", "version"), [(Vendor.MYSQL, 50722), (Vendor.MARIADB, 100108), (Vendor.MYSQL, None)])
def test_labels_that_an_enum_loses_become_an_empty_text_on_all_servers(vendor: Vendor, version: int | None) -> None:
    loose = replace(how(vendor, strict=False), server_version=version)
    found = effect("ENUM('a','b','x y')", "ENUM('z','A','b')", loose)
    assert isinstance(found, Converted)
    converted = found.convert(pa.array(["b", "x y", "", None, "a"]))
    assert converted.array.to_pylist()[:4] == ["b", "", "", None]
    assert converted.unknown is not None
    assert converted.unknown.tolist() == [False] * 4 + [True]  # that depends on the collation


def test_numbers_become_labels_in_another_way_before_mariadb_10_2() -> None:
    for version, expected in ((100108, Unknown), (100211, Converted)):
        assert isinstance(effect("INT", "ENUM('10','1','2')", replace(how(), server_version=version)), expected)
        assert isinstance(effect("INT", "SET('1','2')", replace(how(), server_version=version)), expected)


@pytest.mark.parametrize(
    ("version", "expected"), [(100108, [1980, 2008]), (100211, [1979, 2007]), (None, [1979, 2007])]
)
def test_fraction_of_a_year_is_rounded_before_mariadb_10_2(version: int | None, expected: list[int]) -> None:
    found = effect("DOUBLE", "YEAR", replace(how(), server_version=version))
    assert isinstance(found, Converted)
    assert found.convert(pa.array([79.5, 7.578])).array.to_pylist() == expected


@pytest.mark.parametrize("is_explicit", [False, None])
def test_timestamp_takes_null_by_a_setting_of_the_session(is_explicit: bool | None) -> None:
    """A null may be 0000-00-00 too: what it becomes is not known in either case."""
    session = StatementSession("w", vendor=MARIADB, explicit_timestamps=is_explicit)
    before = table("id INT PRIMARY KEY, a TIMESTAMP NULL, b TIMESTAMP, c TIMESTAMP NULL")
    (alter,) = parse_ddl("ALTER TABLE w.t MODIFY a TIMESTAMP, MODIFY c TIMESTAMP NULL", session)
    assert isinstance(alter, AlterTable)
    found = alter_effects(before, altered(before, alter, Defaults(MARIADB, "utf8mb4")), alter, how())
    assert isinstance(found["a"].effect, Converted)
    values = found["a"].effect.convert(pa.array([0, None], pa.timestamp("us", "UTC")))
    assert values.unknown is not None
    assert values.unknown.tolist() == [False, True]
    assert {name: isinstance(change.effect, Same) for name, change in found.items() if name != "a"} == {
        "id": True,
        "b": True,
        "c": True,
    }


def test_utf8_of_mariadb_may_be_either_character_set() -> None:
    found = effect("VARCHAR(9)", "VARCHAR(9) CHARACTER SET utf8", LAX)
    assert isinstance(found, Converted)
    values = found.convert(pa.array(["\U0001f600", "\u6f22", None]))
    assert values.unknown is not None
    assert values.unknown.tolist() == [True, False, False]


def test_chars_get_their_spaces_in_sessions_that_pad_them() -> None:
    found = effects("a CHAR(3), b CHAR(3), c VARCHAR(3)", "MODIFY a VARCHAR(9), MODIFY b CHAR(5)", sql_mode=1 << 31)
    assert isinstance(found["a"], Unknown)
    assert isinstance(found["b"], Same)
    assert isinstance(found["c"], Same)


def test_unknown_attribute_is_not_taken_for_none() -> None:
    before = table("id INT PRIMARY KEY, a DECIMAL(10,4), b INT")
    assert before.columns is not None
    unknown = tuple(replace(column, unknown=frozenset({"generated", "default"})) for column in before.columns)
    before = replace(before, columns=unknown)
    (alter,) = parse_ddl("ALTER TABLE w.t MODIFY a DECIMAL(10,2)", StatementSession("w"))
    assert isinstance(alter, AlterTable)
    after = altered(before, alter, Defaults(MARIADB, "utf8mb4"))
    found = alter_effects(before, after, alter, how())
    assert isinstance(found["b"].effect, Unknown)  # it may be generated from `a`
    binary = replace(before, columns=(ColumnDefinition("b", "binary(16)", unknown=frozenset({"declared"})),))
    (alter,) = parse_ddl("ALTER TABLE w.t MODIFY b VARCHAR(40)", StatementSession("w"))
    assert isinstance(alter, AlterTable)
    after = altered(binary, alter, Defaults(MARIADB, "utf8mb4"))
    assert isinstance(alter_effects(binary, after, alter, how())["b"].effect, Unknown)  # it may be a UUID


@given(st.lists(st.decimals(-(10**12), 10**12, allow_nan=False, places=9) | st.none()))
def test_decimals_are_shown_with_all_digits(values: list[D | None]) -> None:
    shown = decimal_text(pa.array(values, pa.decimal128(30, 9)).cast(pa.decimal256(76, 9)))
    expected = [None if value is None else f"{abs(value) if value == 0 else value:.9f}" for value in values]
    assert shown.to_pylist() == expected


@pytest.mark.parametrize("new", ["DATETIME", "TIMESTAMP", "DATETIME(3)", "VARCHAR(40)", "BIGINT", "DATE"])
def test_what_becomes_of_dates_that_are_texts_is_not_computed(new: str) -> None:
    texts = replace(how(), decoding=Decoding(zero_dates=ZeroDates.TEXT))
    assert isinstance(effect("DATE NOT NULL", f"{new} NOT NULL", texts), Same if new == "DATE" else Unknown)
    if new in ("DATETIME", "TIMESTAMP", "DATETIME(3)", "DATE"):
        assert isinstance(effect("VARCHAR(30)", new, texts), Unknown)


def test_a_null_that_must_be_none_is_no_number_where_dates_are_texts() -> None:
    lax = replace(how(strict=False), decoding=Decoding(zero_dates=ZeroDates.TEXT))
    for kind in ("DATE", "DATETIME", "TIMESTAMP"):
        found = effect(f"{kind} NULL", f"{kind} NOT NULL", lax)
        assert isinstance(found, Converted)
        values = found.convert(pa.array(["2024-01-01", None]))
        assert values.unknown is not None
        assert values.unknown.tolist() == [False, True]
