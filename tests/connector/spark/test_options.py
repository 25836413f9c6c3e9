from __future__ import annotations

import re

import pytest

from binlog_connector.envelope.options import EnvelopeFormat, EnvelopeOptions
from binlog_connector.following.offsets import SourceOffset
from binlog_connector.following.starts import Edge, StartMoment
from binlog_connector.kafka.topic_names import TopicTemplates
from binlog_connector.options.option_values import BATCH_ONLY, OPTION_NAMES
from binlog_connector.options.source_options import SourceOptions, View
from binlog_format.errors import BinlogError, OptionError, StartError
from binlog_format.gtids.gtid import GtidPosition
from binlog_format.log_format import Bound
from binlog_format.position import Position
from binlog_format.rows.decoding import TimeType, ZeroDates


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
        ("failOnStatement", "no", "expected true or false"),
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
        ("startingTimestamp", "yesterday", "a time, for example 2026-01-31T12:00:00Z or seconds since 1970"),
        ("endingGtid", "0-1", "expected domain-server-seqno"),
        ("maxFilesPerTrigger", "0", "a number from 1"),
        ("bound", "seal", "Did you mean sealed?"),
        ("ignoreDomainIds", "1,x", '"x" is none'),
        ("ignoreServerIds", "4294967296", "numbers separated by commas"),
        ("includeDdl", "1", "expected true or false"),
        ("timeType", "string", "expected text or micros"),
        ("zeroDates", "keep", "expected null or error or text"),
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


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"endingGtid": "0-1-5", "endingOffsets": "latest"}, "a query has one end"),
        ({"view": "events", "includeDdl": "true"}, "nothing beside view events"),
        ({"includeDdl": "true", "includeQuery": "false"}, "true or nothing beside includeDdl"),
        ({"includeAbsent": "true"}, "nothing beside view changes.*has the column absent"),
        ({"includeSequence": "true"}, "nothing beside view changes.*Use view changefeed"),
        ({"bound": "sealed", "format": "classic"}, "visible beside format classic"),
    ],
)
def test_conflicts_are_named(options: dict[str, str], told: str) -> None:
    with pytest.raises(BinlogError, match=told):
        parse(**options)


def test_some_ends_are_for_batch_queries() -> None:
    assert BATCH_ONLY == ("endingTimestamp",)
    for name, value in {"endingTimestamp": "7", "endingOffsets": "latest"}.items():
        options = parse(**{name: value})
        options.check_batch()
        with pytest.raises(OptionError, match=f"option {name}: a streaming query has no end"):
            options.check_streaming()
    for name, value in {"endingGtid": "0-1-5", "endingOffsets": '{"file_no": 1, "page": 2, "chunk": 0}'}.items():
        options = parse(**{name: value})
        options.check_batch()
        options.check_streaming()


def test_new_options_are_typed() -> None:
    options = parse(
        startingTimestamp="1767225600", maxFilesPerTrigger="5", bound="SEALED", ignoreDomainIds="7, 1,7",
        includeDdl="true", timeType="micros", zeroDates="error", replaceInvalidText="true", fullSourceImages="true",
    )  # fmt: skip
    assert (options.start, options.files_per_trigger_max) == (StartMoment(1767225600), 5)
    assert (options.bound, options.ignored_domains) == (Bound.SEALED, (1, 7))
    assert (options.include_ddl, options.include_query) == (True, True)
    assert (options.time_type, options.zero_dates) == (TimeType.MICROS, ZeroDates.ERROR)
    assert options.replace_invalid_text
    assert options.full_source_images


@pytest.mark.parametrize("zone", ["UTC", "+05:30", "America/New_York"])
def test_time_zone_of_the_server(zone: str) -> None:
    assert parse(systemTimeZone=zone).system_time_zone == zone


@pytest.mark.parametrize("zone", ["SYSTEM", "CEST", "2", "Europe/Nowhere", "../zone"])
def test_time_zone_that_is_none_is_refused(zone: str) -> None:
    with pytest.raises(OptionError, match=r"option systemTimeZone: expected UTC, an offset as \+02:00, or a name"):
        parse(systemTimeZone=zone)


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


def test_statements_are_refused_where_rows_are_asked_for() -> None:
    assert parse().refuses_statements
    assert parse(view="changefeed", table="shop.orders").refuses_statements
    assert not parse(failOnStatement="false").refuses_statements
    assert not parse(view="events").refuses_statements
    with pytest.raises(OptionError, match=r"failOnStatement.*nothing beside view tables"):
        parse(view="tables", failOnStatement="false")


def test_messages_have_the_defaults_of_a_publishing_job() -> None:
    assert parse().messages is None
    messages = parse(kafkaValue="Flat", topicPrefix="shop", includeDdl="true").messages
    assert messages is not None
    assert messages.envelope == EnvelopeOptions("shop", format=EnvelopeFormat.FLAT, schema_changes=True)
    assert messages.topics == TopicTemplates("shop", setting="topic")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"kafkaValue": "avro", "topicPrefix": "a"}, "option kafkaValue: expected debezium or flat"),
        ({"kafkaValue": "flat"}, "option topicPrefix: messages name their source"),
        ({"kafkaValue": "flat", "topicPrefix": "a b"}, "option topicPrefix: expected a name of letters"),
        ({"kafkaValue": "flat", "topicPrefix": "a", "topic": "{schema}"}, "option topic: expected only {prefix} and"),
        ({"kafkaValue": "flat", "topicPrefix": "a", "topic": "{table}!"}, "option topic: expected a name of letters"),
        ({"kafkaValue": "flat", "topicPrefix": "a", "view": "events"}, "option kafkaValue: expected nothing beside"),
        ({"kafkaValue": "flat", "topicPrefix": "a", "table": "a.b"}, "option table: expected nothing beside kafkaV"),
        ({"kafkaValue": "flat", "topicPrefix": "a", "timeType": "text"}, "option timeType: expected nothing beside"),
        ({"kafkaValue": "flat", "topicPrefix": "a", "decimalHandling": "x"}, "option decimalHandling: expected prec"),
        ({"tombstones": "true"}, "option tombstones: expected nothing without kafkaValue"),
        ({"includeDdl": "true", "includeQuery": "false"}, "option includeQuery: expected true"),
    ],
)
def test_options_of_messages_that_cannot_be_are_named(options: dict[str, str], reason: str) -> None:
    with pytest.raises(OptionError, match=re.escape(reason)):
        parse(**options)
