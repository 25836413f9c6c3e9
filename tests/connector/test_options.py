from __future__ import annotations

import pytest

from binlog_connector.spark.offsets import SourceOffset
from binlog_connector.spark.options import OPTION_NAMES, Edge, SourceOptions, View
from binlog_format.errors import BinlogError, OptionError, StartError
from binlog_format.gtid import GtidPosition
from binlog_format.position import Position


def parse(**options: str) -> SourceOptions:
    return SourceOptions.parse({"path": "/logs", **options})


def test_only_the_path_is_needed() -> None:
    assert parse() == SourceOptions(
        path="/logs",
        format=None,
        view=View.CHANGES,
        table=None,
        tables=None,
        exclude_tables=None,
        start=Edge.EARLIEST,
        bytes_per_trigger_max=None,
        partitions_min=None,
        fail_on_data_loss=True,
    )


def test_names_and_choices_take_any_case() -> None:
    """Spark hands over names in lower case, whatever the user wrote."""
    options = SourceOptions.parse(
        {"PATH": "/logs", "maxbytespertrigger": "64M", "View": "Tables", "FAILONDATALOSS": "FALSE"}
    )
    assert (options.bytes_per_trigger_max, options.view, options.fail_on_data_loss) == (64 << 20, View.TABLES, False)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("startingOffset", "startingOffsets"),
        ("maxBytesPerTriger", "maxBytesPerTrigger"),
        ("exclude_tables", "excludeTables"),
    ],
)
def test_unknown_option_names_the_nearest(given: str, meant: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse(**{given: "1"})
    assert raised.value.condition == "BINLOG_OPTION.UNKNOWN"
    assert (
        str(raised.value) == f"[BINLOG_OPTION.UNKNOWN] option {given}: there is no such option. Did you mean {meant}?"
    )


def test_unknown_option_unlike_any_lists_all() -> None:
    with pytest.raises(OptionError, match=", ".join(OPTION_NAMES)):
        parse(xyz="1")


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("view", "change", "Did you mean changes?"),
        ("format", "ibb", "expected innodb or classic"),
        ("failOnDataLoss", "yes", "expected true or false"),
        ("startingOffsets", "begin", "expected earliest or latest"),
        ("startingOffsets", '{"file_no": 3}', "offset: page: expected a number, got None"),
        ("startingOffsets", '{"file_no": 3', "expected an offset, for example"),
        ("startingOffsets", '{"file_no":0,"page":1,"chunk":-1}', "offset: chunk: expected a number, got -1"),
        ("startingOffsets", '{"file_no":0,"page":1,"chunk":0,"pos":1}', "offset: unknown field pos"),
        ("startingGtid", "0-1", "expected domain-server-seqno"),
        ("startingGtid", "0-1-5,0-2-6", "domain 0 is there twice"),
        ("maxBytesPerTrigger", "0", "a size in bytes"),
        ("maxBytesPerTrigger", "12x", "a size in bytes"),
        ("maxBytesPerTrigger", "99999999999t", "a size in bytes"),
        ("minPartitions", "0", "a number from 1"),
        ("minPartitions", "two", "a number from 1"),
        ("table", "orders", "database.table"),
        ("table", "shop.", "database.table"),
        ("tables", "shop.(orders", "missing )"),
        ("excludeTables", "*b", "nothing to repeat"),
    ],
)
def test_wrong_value_says_what_is_expected(name: str, value: str, told: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse(**{name: value})
    assert raised.value.condition == "BINLOG_OPTION.INVALID_VALUE"
    assert f"option {name}: " in str(raised.value)
    assert f'"{value}"' in str(raised.value)
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_query_has_one_start() -> None:
    with pytest.raises(StartError) as raised:
        parse(startingOffsets="latest", startingGtid="0-1-5")
    assert raised.value.condition == "BINLOG_START.CONFLICTING_OPTIONS"


def test_table_and_tables_exclude_each_other() -> None:
    with pytest.raises(OptionError, match=r"option tables: expected nothing beside option table"):
        parse(table="shop.orders", tables="shop.*")


@pytest.mark.parametrize(("options", "name"), [({"view": "changefeed"}, "table"), ({"path": ""}, "path")])
def test_missing_option_says_how_to_give_it(options: dict[str, str], name: str) -> None:
    with pytest.raises(OptionError, match=f"option {name}: .*option\\(") as raised:
        parse(**options)
    assert raised.value.condition == "BINLOG_OPTION.MISSING"


def test_starts_are_typed() -> None:
    assert parse(startingOffsets="LATEST").start is Edge.LATEST
    assert parse(startingGtid="0-1-100, 1-2-7").start == GtidPosition.parse("0-1-100,1-2-7")
    assert parse(startingOffsets='{"file_no": 3, "page": 12, "chunk": 0}').start == SourceOffset(Position(3, 12, 0))


def test_offset_of_a_later_version_is_refused() -> None:
    with pytest.raises(BinlogError) as raised:
        parse(startingOffsets='{"version": 2, "file_no": 3, "page": 12, "chunk": 0}')
    assert raised.value.condition == "BINLOG_UNSUPPORTED.VERSION"


def test_table_is_an_expression_for_itself_alone() -> None:
    """A dot or another sign in a table's name must not match other tables."""
    assert parse(table="shop.or+ders").table_expressions == r"shop\.or\+ders"
    assert parse(tables=r"shop\..*").table_expressions == r"shop\..*"
