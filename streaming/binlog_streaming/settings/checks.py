"""Checks of a job that types alone do not make: `check_values`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from binlog_connector.envelope.options import CURRENT_MESSAGES, FIRST_MESSAGES, MessageOperation
from binlog_connector.following.debezium_offset import DEBEZIUM_OFFSET, DebeziumOffset
from binlog_connector.kafka.topic_names import NAME_EXPECTED, is_topic_name, template_mistake
from binlog_connector.options.source_options import SourceOptions
from binlog_connector.rules.row_rule import RuleError
from binlog_format.errors import OptionError, StartError
from binlog_format.views.filters import TableFilter
from binlog_streaming.settings.choices import Deletes, Mode, OnCascade, OnPartitionDrop, Rewritten, UnknownValues
from binlog_streaming.settings.model import START_OPTIONS, TableRule
from binlog_streaming.settings.publish_model import MessageFormat
from binlog_streaming.settings.sink_checks import (
    Mistake,
    check_duration,
    check_no_variants,
    check_oversized,
    check_partition_rules,
    check_partitions,
    check_sink,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_connector.rules.row_rule import RowRule
    from binlog_streaming.settings.lines import KeyPath
    from binlog_streaming.settings.model import Job, JobLogSource, Metrics, Sink, Status
    from binlog_streaming.settings.publish_model import (
        FollowedSource,
        KafkaSink,
        PublishJob,
        Registry,
        Security,
        TopicShape,
    )
    from binlog_streaming.settings.source_models import EventLogSource, TopicTablesJob

TOPIC_PLACES = {
    "topic": ("prefix", "database", "table"),
    "transaction_topic": ("prefix",),
    "schema_topic": ("prefix",),
    "heartbeat_topic": ("prefix",),
    "notification_topic": ("prefix",),
    "offsets_topic": ("prefix",),
}
"""Placeholders allowed in the names of topics."""

_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:,\[\]]+):\d{1,5}")
_REGISTRY_URL = re.compile(r"https?://[^\s/@?#]+(/[^\s@?#]*)?")
PORT_MAX = 65_535


def check_values(job: Job) -> None:
    """See that the values of *job* can be, each and together. Raises `Mistake`: the first one that cannot."""
    check_duration(("trigger", "interval"), job.trigger.interval)
    check_metrics(job.metrics)
    _check_status(job.status)
    check_source(job.source)
    _check_tables(job.sink, job.tables)


def _check_tables(sink: Sink, rules: Sequence[TableRule]) -> None:
    check_sink(sink)
    if not rules:
        raise Mistake(("tables",), "expected at least one rule, got none")
    _check_what_rules_hide(rules)
    for number, rule in enumerate(rules):
        _check_rule(rule, ("tables", number))
        check_partitions(rule.partition_by, sink.format, ("tables", number, "partition_by"))
        kept = next((mode for mode in rule.modes if mode is not Mode.CHANGELOG), None)
        if kept is not None and not sink.format.replaces_rows:
            raise Mistake(
                ("tables", number, "mode"),
                f"expected changelog beside sink.format {sink.format}, got {kept}",
                "Rows in plain Parquet files cannot be replaced: use format delta or iceberg for mirror and scd2",
            )


def check_publish_values(job: PublishJob) -> None:
    """The same for a job whose sink is Kafka. Raises `Mistake`: the first value that cannot be."""
    check_metrics(job.metrics)
    _check_status(job.status)
    check_source(job.source, "changes")
    _check_debezium_offset(job.source)
    _check_topics(job.sink)
    _check_security(job.sink.security, "sink")
    _check_registry(job.sink)
    check_oversized(job.sink.oversized)
    signals = job.sink.signal_table
    if signals is not None and not all(signals.partition(".")):
        raise Mistake(("sink", "signal_table"), f"expected database.table, got {signals!r}")
    if not job.tables:
        raise Mistake(("tables",), "expected at least one rule, got none")
    for number, rule in enumerate(job.tables):
        _check_row_rule(rule, ("tables", number))
        _check_messages_of(rule, job.sink, ("tables", number))
    _check_outbox(job)


def _check_outbox(job: PublishJob) -> None:
    outbox = job.outbox
    if outbox.table is None:
        return
    database, _, table = outbox.table.partition(".")
    if not table or not job.selected.accepts_name(database, table):
        hint = "Select it there: its rules for columns and rows hold for its events"
        raise Mistake(("outbox", "table"), f"expected a table that [[tables]] selects, got {outbox.table!r}", hint)
    mistake = template_mistake(outbox.topic, ("prefix", "route"))
    if mistake is not None:
        raise Mistake(("outbox", "topic"), f"expected {mistake}, got {outbox.topic!r}")


def check_topic_tables_values(job: TopicTablesJob) -> None:
    """The same for a job whose source are topics. Raises `Mistake`: the first value that cannot be."""
    check_metrics(job.metrics)
    _check_servers(job.source.bootstrap_servers, "source")
    _check_security(job.source.security, "source")
    try:
        TableFilter(job.source.topics)
    except OptionError as error:
        raise Mistake(("source", "topics"), error.reason.removeprefix("option tables: "), error.hint) from error
    _check_tables(job.sink, job.tables)
    check_no_variants(job.sink)
    default = TableRule()
    for number, rule in enumerate(job.tables):
        if rule.drops_generated:
            reason = 'expected fail or null beside source.kind = "kafka", got drop'
            hint = "Topics do not tell which columns are generated: name them in drop_columns of the job that publishes"
            raise Mistake(("tables", number, "generated"), reason, hint)
        if rule.hides:
            reason = 'expected no columns, drop_columns, mask and where beside source.kind = "kafka"'
            raise Mistake(
                ("tables", number), reason, "Put them into the job that publishes: topics are read as they are"
            )
        for name in _OF_LOGS:
            if getattr(rule, name) != getattr(default, name):
                hint = "Leave it out: topics do not tell of it"
                raise Mistake(("tables", number, name), 'expected nothing beside source.kind = "kafka"', hint)


_OF_LOGS = ("on_drop", "on_partition_drop", "on_statement", "foreign_keys")
"""Settings of rules that are about what only a log tells."""


def _check_servers(servers: str, section: str) -> None:
    for server in servers.split(","):
        if _SERVER.fullmatch(server.strip()) is None:
            raise Mistake((section, "bootstrap_servers"), f"expected host:port,host:port, got {servers!r}")


def _check_topics(sink: KafkaSink) -> None:
    _check_servers(sink.bootstrap_servers, "sink")
    if not is_topic_name(sink.topic_prefix):
        raise Mistake(("sink", "topic_prefix"), f"expected {NAME_EXPECTED}, got {sink.topic_prefix!r}")
    for name, known in TOPIC_PLACES.items():
        template: str | None = getattr(sink, name)
        mistake = None if template is None else template_mistake(template, known)
        if mistake is not None:
            raise Mistake(("sink", name), f"expected {mistake}, got {template!r}")
    if sink.source_name is not None and not is_topic_name(sink.source_name):
        raise Mistake(("sink", "source_name"), f"expected {NAME_EXPECTED}, got {sink.source_name!r}")
    if sink.message_version not in (None, *range(FIRST_MESSAGES, CURRENT_MESSAGES + 1)):
        expected = f"{FIRST_MESSAGES} to {CURRENT_MESSAGES}"
        raise Mistake(("sink", "message_version"), f"expected {expected}, got {sink.message_version}")
    for name, count in (("partitions", sink.partitions), ("replication", sink.replication)):
        if count is not None and count < 1:
            raise Mistake(("sink", name), f"expected at least 1, got {count}")
    for number, shape in enumerate(sink.topics):
        _check_shape(shape, ("sink", "topics", number))
    if sink.partitions is None and (sink.replication is not None or sink.topic_settings):
        name = "topic_settings" if sink.topic_settings else "replication"
        raise Mistake(("sink", name), "it is for topics that the job creates", "Ask for them with partitions = 1")
    if sink.heartbeat is not None:
        check_duration(("sink", "heartbeat"), sink.heartbeat)


def _check_shape(shape: TopicShape, path: KeyPath) -> None:
    try:
        re.compile(shape.select)
    except re.error as error:
        raise Mistake((*path, "select"), f"expected a regular expression, got {shape.select!r}: {error}") from error
    for name, count in (("partitions", shape.partitions), ("replication", shape.replication)):
        if count is not None and count < 1:
            raise Mistake((*path, name), f"expected at least 1, got {count}")


def _check_security(security: Security, section: str) -> None:
    path = (section, "security")
    _check_user(security, path)
    if not security.tls:
        of_tls = (name for name in ("ca_file", "certificate_file", "key_file") if getattr(security, name) is not None)
        for name in of_tls:
            raise Mistake((*path, name), "expected tls = true beside it", "Without tls nothing is encrypted")


_OPTION_NAMED = re.compile(r"option (\w+)(: )?")


def _check_status(status: Status) -> None:
    if status.purge_after is not None:
        check_duration(("status", "purge_after"), status.purge_after)


def check_metrics(metrics: Metrics) -> None:
    """See that there can be such a port. Raises `Mistake`: there cannot."""
    if metrics.port is not None and not 0 <= metrics.port <= PORT_MAX:
        raise Mistake(("metrics", "port"), f"expected a number from 0 to {PORT_MAX}, got {metrics.port}")


def _check_user(section: Security | Registry, path: KeyPath) -> None:
    has_password = (section.password_variable is not None) + (section.password_file is not None)
    if has_password != (section.user is not None):
        hint = "A user has a password: name its environment variable or its file, one of them"
        raise Mistake((*path, "user"), "expected a user with password_variable or password_file", hint)


def _check_registry(sink: KafkaSink) -> None:
    path, registry = ("sink", "registry"), sink.registry
    if sink.format is not MessageFormat.AVRO:
        for field in registry.__struct_fields__:
            if getattr(registry, field) is not None:
                raise Mistake(
                    (*path, field), f"expected nothing beside sink.format {sink.format}", 'Set format = "avro"'
                )
        return
    if not sink.envelope.may_be_avro:
        reason = f"expected debezium or cloudevents beside sink.format avro, got {sink.envelope}"
        raise Mistake(("sink", "envelope"), reason)
    if sink.envelope.is_event and MessageOperation.TRUNCATE not in sink.skipped:
        hint = "Leave it out: TRUNCATE is skipped then. The statement does not tell the columns that data would have"
        raise Mistake(("sink", "skipped_operations"), "expected t among them beside cloudevents in Avro", hint)
    if sink.schemas_enable:
        hint = "In Avro a message names its schema, which is in the registry"
        raise Mistake(("sink", "schemas_enable"), "expected false beside sink.format avro", hint)
    if registry.url is None:
        raise Mistake((*path, "url"), "sink.format avro needs a schema registry", 'Set url = "http://host:port"')
    for url in registry.url.split(","):
        if _REGISTRY_URL.fullmatch(url.strip()) is None:
            hint = "The user and the password are two settings: user, password_variable"
            raise Mistake((*path, "url"), f"expected http://host:port, got {_without_user(url)!r}", hint)
    _check_user(registry, path)


def _without_user(url: str) -> str:
    return re.sub(r"//[^/]*@", "//...@", url)


def check_source(source: JobLogSource | EventLogSource, view: str = "tables") -> None:
    """See that the Spark source takes the options of `[source]`. Raises `Mistake`: it does not."""
    try:
        options = SourceOptions.parse({"path": source.path, "view": view, **source.options()})
        options.check_streaming()
    except (OptionError, StartError) as error:
        named = _OPTION_NAMED.match(error.reason)
        path: KeyPath = ("source", named[1]) if named is not None else ("source",)
        reason = error.reason[named.end() :] if named is not None and named[2] else error.reason
        raise Mistake(path, reason, error.hint) from error


def _check_debezium_offset(source: FollowedSource) -> None:
    if source.debezium_offset is None:
        return
    path = ("source", DEBEZIUM_OFFSET)
    others = [name for name in START_OPTIONS if name in source.options()]
    if others:
        raise Mistake(path, f"expected no other start, got {others[0]} too", "Leave one of them")
    try:
        DebeziumOffset.parse(source.debezium_offset)
    except ValueError as error:
        raise Mistake(
            path, f"expected the offset of a connector: {error}", "docs/debezium.md says how to get it"
        ) from error


def _check_row_rule(rule: RowRule, path: KeyPath) -> None:
    _check_select(rule.select, path)
    try:
        rule.check()
    except RuleError as error:
        key = (error.setting,) if error.key is None else (error.setting, error.key)
        raise Mistake((*path, *key), str(error), error.hint) from error


def _check_select(select: str, path: KeyPath) -> None:
    try:
        TableFilter(select)
    except OptionError as error:
        reason = error.reason.removeprefix("option tables: ")
        raise Mistake((*path, "select"), reason, error.hint) from error


def _check_rule(rule: TableRule, path: KeyPath) -> None:
    _check_row_rule(rule, path)
    if not rule.modes:
        raise Mistake((*path, "mode"), "expected at least one mode, got none")
    if len(set(rule.modes)) < len(rule.modes):
        raise Mistake((*path, "mode"), f"expected each mode once, got {', '.join(rule.modes)}")
    if len(rule.modes) > 1 and "{mode}" not in rule.target:
        raise Mistake(
            (*path, "target"),
            f"several modes need {{mode}} in the target, got {rule.target!r}",
            'For example target = "{mode}/{database}/{table}"',
        )
    try:
        rule.target.format(database="d", table="t", mode="m")
    except (KeyError, IndexError, ValueError) as error:
        known = "{database}, {table} and {mode}"
        raise Mistake((*path, "target"), f"expected only {known} in braces, got {rule.target!r}") from error
    check_partition_rules(rule.partition_by, path)
    _check_what_modes_need(rule, path)


def _check_messages_of(rule: RowRule, sink: KafkaSink, path: KeyPath) -> None:
    # A statement writes no generated columns.
    setting = next((name for name in ("columns", "drop_columns", "mask", "where") if getattr(rule, name)), None)
    if setting is None or not sink.query:
        return
    raise Mistake(
        (*path, setting),
        "expected query = false in [sink] beside rules that hide something",
        "The text of a statement holds the values that it writes, whatever tables it is about: leave query out",
    )


def _check_what_rules_hide(rules: Sequence[TableRule]) -> None:
    # What foreign keys and dropped partitions do is derived from whole rows.
    if not any(rule.hides for rule in rules):
        return
    for number, rule in enumerate(rules):
        if rule.foreign_keys is OnCascade.APPLY:
            raise Mistake(
                ("tables", number, "foreign_keys"),
                'expected fail or ignore beside columns, drop_columns, mask, where and generated = "drop", got apply',
                "What foreign keys do is derived from whole rows of parents and children: use a job of its own",
            )
        if rule.on_partition_drop is OnPartitionDrop.APPLY and rule.hides:
            raise Mistake(
                ("tables", number, "on_partition_drop"),
                'expected fail or keep beside columns, drop_columns, mask, where and generated = "drop", got apply',
                "Which rows go with a partition is derived from whole rows",
            )


def _check_what_modes_need(rule: TableRule, path: KeyPath) -> None:
    # A setting that changes nothing is a wish that would not come true.
    modes = " and ".join(rule.modes)
    if rule.deletes is Deletes.MARK and Mode.MIRROR not in rule.modes:
        raise Mistake(
            (*path, "deletes"),
            f'expected mode mirror beside deletes = "mark", got {modes}',
            "A changelog and scd2 keep what was deleted anyway: leave deletes out",
        )
    if set(rule.modes) != {Mode.CHANGELOG}:
        return
    if rule.keys:
        raise Mistake(
            (*path, "keys"),
            "expected mode mirror or scd2 beside keys, got changelog",
            "A changelog holds every change, whatever row it is of: leave keys out",
        )
    if rule.unknown_values is not UnknownValues.FAIL:
        raise Mistake(
            (*path, "unknown_values"),
            f"expected mode mirror or scd2 beside unknown_values = {str(rule.unknown_values)!r}, got changelog",
            "Rows of a changelog stay as they were written, new columns are null in them: leave unknown_values out",
        )
    if rule.rewritten is not Rewritten.FAIL:
        raise Mistake(
            (*path, "rewritten"),
            f"expected mode mirror or scd2 beside rewritten = {str(rule.rewritten)!r}, got changelog",
            "Rows of a changelog stay as they were written: leave rewritten out",
        )
