"""A job for a log, chosen by what is in it: `init_text(path)`, `publish_init_text(path)`, a commented job file."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, NamedTuple

from binlog_connector.schema.history import SchemaHistory
from binlog_format import open_log
from binlog_format.errors import BinlogError
from binlog_format.names import folds_table_names
from binlog_format.rows.columns import arrow_schema
from binlog_format.source_file import with_places
from binlog_streaming.job_state.record_keeper import begins_with_first
from binlog_streaming.jobs.log_tables import find_tables
from binlog_streaming.jobs.mirror import SYSTEM_DATABASES, SYSTEM_TABLES, absolute_path
from binlog_streaming.settings.choices import DEFAULT_FORMAT, Begin, Mode, TableFormat
from binlog_streaming.settings.model import Job, LowerCase, Sink, Source, Status, TableRule
from binlog_streaming.settings.publish_model import OFFSETS_TOPIC, FollowedSource, KafkaSink, PublishJob
from binlog_streaming.settings.source_models import EventLogSource, EventTablesJob
from binlog_streaming.settings.source_texts import event_job_text, publish_job_text
from binlog_streaming.settings.text import job_text
from binlog_streaming.topics.record import require_changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_connector.following.debezium_offset import StoredOffset
    from binlog_connector.schema.row_format import Tally
    from binlog_format.structured.event_log import EventLog
    from binlog_streaming.jobs.log_tables import FoundTable, OnProgress

TABLES_SHOWN_MAX = 200
"""Tables named in a comment; a log can hold thousands."""


class ServerSettings(NamedTuple):
    """Settings of a job that only its server knows; None: they are not known.

    Attributes:
        system_time_zone: `source.systemTimeZone`.
        purge_after: `status.purge_after`.
    """

    system_time_zone: str | None = None
    purge_after: str | None = None


NO_SERVER = ServerSettings()
logger = logging.getLogger(__name__)
_OLDER_TABLES = [
    "Tables with rows that are older than the log wait (begin) until these are copied, by:",
    "  binlog-stream snapshot JOB.toml --server mysql://USER@HOST/",
    'Without the server: begin = "empty", and the tables lack these rows.',
]


_OLDER_CHANGES = ["Statements changed them (below), so they wait (begin) for a snapshot; earlier changes are left out."]


def init_text(
    path: str,
    *,
    schema_file: str | None = None,
    lower_case_table_names: LowerCase | None = None,
    server: ServerSettings = NO_SERVER,
    table_format: TableFormat = DEFAULT_FORMAT,
    scan_size: int,
    on_progress: OnProgress | None = None,
) -> str:
    """A job file for the log at *path*, which can run as it is.

    Tables with a primary key are mirrored; those without, and those whose rows come in parts that nobody can put
    together, get a changelog; those whose columns nobody knows are left out. Comments explain why.
    """
    with open_log(path) as opened:
        if opened.events is not None:
            return _event_init_text(opened.events, path, table_format)
    schemas = SchemaHistory.from_schema_file(schema_file, folds_names=folds_table_names(lower_case_table_names))
    log = find_tables(path, schemas=schemas, scan_size=scan_size, on_progress=on_progress)
    found = log.tables
    unknown, known = _sorted_out(found)
    keyed = [table for table in known if _is_mirrored(table, table_format)]
    keyless = [table for table in known if table not in keyed]
    rules: list[TableRule] = []
    comments: dict[int, list[str]] = {}
    is_older = table_format.replaces_rows and not begins_with_first(path)
    if keyless:
        select = ",".join(_expression(table) for table in keyless)
        comments[len(rules)] = [*_why_changelog(keyless, table_format), _listed(keyless)]
        # A job would stop at a statement; from a snapshot on it has all changes.
        begin = Begin.SNAPSHOT if is_older and _has_statements(log.tally, keyless) else Begin.CREATED
        comments[len(rules)] += _OLDER_CHANGES if begin is Begin.SNAPSHOT else []
        rules.append(TableRule(select=select, mode=Mode.CHANGELOG, begin=begin))
    if keyed or not keyless:
        is_mirror = table_format.replaces_rows
        whole = "; of one without a primary key the whole row tells rows apart" if is_mirror else ""
        comments[len(rules)] = [
            _listed(keyed) if keyed else "The log has no changes of tables yet: all that will come.",
            f"Tables that are created later are taken too{whole}.",
        ]
        comments[len(rules)] += _statements(log.tally)
        # A job would stop at a table that is older than the log.
        begin = Begin.SNAPSHOT if is_older else Begin.CREATED
        comments[len(rules)] += _OLDER_TABLES if begin is Begin.SNAPSHOT else []
        rules.append(TableRule(mode=Mode.MIRROR if is_mirror else Mode.CHANGELOG, begin=begin))
    job = Job(
        name="binlog-stream",
        source=Source(
            path=with_places(path, absolute_path),
            exclude_tables=_excluded(unknown),
            schema_file=None if schema_file is None else absolute_path(schema_file),
            lower_case_table_names=lower_case_table_names,
            system_time_zone=server.system_time_zone,
        ),
        sink=Sink(directory="tables", format=table_format),
        checkpoint="checkpoint",
        tables=tuple(rules),
        status=Status(purge_after=server.purge_after),
    )
    return job_text(job, rule_comments=comments, exclude_comment=_why_excluded(unknown))


SOURCES_SHOWN_MAX = 20
"""Sources named in a comment; a large program has thousands."""


def _event_init_text(events: EventLog, path: str, table_format: TableFormat) -> str:
    """A job for a structured log: all its events in one table."""
    state = events.state_at(events.end_position())
    sources = sorted(state.sources.values(), key=lambda source: (source.category, source.file, source.line))
    comments = [f"There are {len(sources)} sources so far" + (":" if sources else ".")]
    for source in sources[:SOURCES_SHOWN_MAX]:
        texts = [text.decode("utf-8", "replace") for text in (source.category, source.file, source.format)]
        comments.append(f'  {texts[0]}: {texts[1]}:{source.line} "{texts[2]}"'.replace("\n", " "))
    if len(sources) > SOURCES_SHOWN_MAX:
        comments.append(f"  and {len(sources) - SOURCES_SHOWN_MAX} more")
    job = EventTablesJob(
        source=EventLogSource(path=absolute_path(path)),
        sink=Sink(directory="tables", format=table_format),
        checkpoint="checkpoint",
    )
    return event_job_text(job, rule_comments={0: comments})


def publish_init_text(
    path: str,
    *,
    schema_file: str | None = None,
    lower_case_table_names: LowerCase | None = None,
    server: ServerSettings = NO_SERVER,
    connector: StoredOffset | None = None,
    scan_size: int,
    on_progress: OnProgress | None = None,
) -> str:
    """A job file that publishes the log at *path* to Kafka; the brokers are for the user to name.

    With the offset of a Debezium *connector* it takes over its topics, where that was stopped.

    Tables whose columns nobody knows are left out; comments explain why, and name which tables have no key.
    """
    with open_log(path) as opened:
        require_changes(opened)
    schemas = SchemaHistory.from_schema_file(schema_file, folds_names=folds_table_names(lower_case_table_names))
    log = find_tables(path, schemas=schemas, scan_size=scan_size, on_progress=on_progress)
    unknown, known = _sorted_out(log.tables)
    comments = [_listed(known) if known else "The log has no changes of tables yet: all that will come."]
    comments += ["Tables that are created later are taken too."]
    keyless = [table for table in known if not table.layout.primary_key]
    if keyless:
        comments.append(
            f"The log knows no primary key of {_names(keyless)}: their messages have no key, and all of a topic go to "
            'one partition. Where columns tell rows apart, name them in a rule of their own: keys = ["..."].'
        )
    comments += _statements(log.tally)
    job = PublishJob(
        source=FollowedSource(
            path=with_places(path, absolute_path),
            declared_types=True,
            exclude_tables=_excluded(unknown),
            schema_file=None if schema_file is None else absolute_path(schema_file),
            lower_case_table_names=lower_case_table_names,
            system_time_zone=server.system_time_zone,
            debezium_offset=None if connector is None else connector.fields,
        ),
        sink=KafkaSink(
            kind="kafka",
            bootstrap_servers="127.0.0.1:9092",
            topic_prefix="binlog" if connector is None else connector.topic_prefix,
            offsets_topic=OFFSETS_TOPIC,
        ),
        checkpoint="checkpoint",
        status=Status(purge_after=server.purge_after),
    )
    return publish_job_text(job, rule_comments={0: comments}, exclude_comment=_why_excluded(unknown))


def _sorted_out(found: Sequence[FoundTable]) -> tuple[list[FoundTable], list[FoundTable]]:
    # Of the users' tables those whose columns nobody knows, and all others.
    users = [table for table in found if table.layout.database not in SYSTEM_DATABASES]
    unknown = [table for table in users if _unknown_reason(table) is not None]
    if unknown:
        logger.warning("left out: %s", _not_described(unknown))
    return unknown, [table for table in users if table not in unknown]


def _excluded(unknown: Sequence[FoundTable]) -> str:
    return ",".join([SYSTEM_TABLES, *map(_expression, unknown)])


def _unknown_reason(table: FoundTable) -> str | None:
    # Why nobody knows what the rows of a table are; None: they are known.
    if table.problem is not None:
        return _line(table.problem.reason)
    try:
        arrow_schema(table.layout)
    except BinlogError as error:
        return _line(error.reason)
    return None


def _is_mirrored(table: FoundTable, table_format: TableFormat) -> bool:
    return bool(table.layout.primary_key) and not table.unknown_columns and table_format.replaces_rows


def _expression(table: FoundTable) -> str:
    # A comma would end the expression.
    return re.escape(table.name).replace(",", r"\x2c")


def _why_changelog(keyless: Sequence[FoundTable], table_format: TableFormat) -> list[str]:
    if not table_format.replaces_rows:
        return [f"Plain {table_format.capitalize()} files hold changelogs only."]
    reasons = []
    without = [table for table in keyless if not table.layout.primary_key]
    if without:
        reasons.append(
            f"The log knows no primary key of {_names(without)}: so every change is kept, and not the rows as they "
            'are. Where columns tell rows apart, mirror them: mode = "mirror" and keys = ["..."]; without keys a '
            "mirror compares whole rows, and reads and writes all of the table where some change."
        )
    partial = [table for table in keyless if table.layout.primary_key]
    if partial:
        reasons.append(
            f"Rows of {_names(partial)} came without all their columns (binlog_row_image on the server is not FULL), "
            "and what they hold there is not known: mirror needs that, changelog does not."
        )
    return reasons


def _why_excluded(unknown: Sequence[FoundTable]) -> str:
    reason = "Here: tables of the server's own."
    return f"{reason} And {_not_described(unknown)}." if unknown else reason


def _not_described(unknown: Sequence[FoundTable]) -> str:
    return (
        f"{_names(unknown)}, as the log does not describe their columns ({_unknown_reason(unknown[0])}). To have them, "
        "let init bring their definitions (init --server URL), give a schemaFile (init --schema-file), or set "
        "binlog_row_metadata=FULL on the server"
    )


def _has_statements(tally: Tally, tables: Sequence[FoundTable]) -> bool:
    names = {None if name is None else str(name) for name, _ in tally.counts}
    return None in names or any(table.name in names for table in tables)


def _statements(tally: Tally) -> list[str]:
    lines = []
    for (name, condition), count in list(tally.counts.items())[:TABLES_SHOWN_MAX]:
        about = "any table" if name is None else _line(str(name))
        first = _line(count.first.error().reason)
        lines.append(f"WARNING: a job stops at changes of {about} that are in no row event ({condition}): {first}")
    if lines:
        lines.append("Set binlog_format=ROW on the server, and begin after the last such statement (startingGtid);")
        lines.append("or leave these tables out (excludeTables): tools such as pt-heartbeat log theirs so on purpose.")
    return lines


def _listed(tables: Sequence[FoundTable]) -> str:
    told = []
    for table in tables[:TABLES_SHOWN_MAX]:
        keys = ", ".join(str(table.layout.columns[index].name) for index in table.layout.primary_key)
        told.append(f"{_line(table.name)} ({f'key {_line(keys)}' if keys else 'no key'}, {table.changes:,} changes)")
    more = f", and {len(tables) - TABLES_SHOWN_MAX} more" if len(tables) > TABLES_SHOWN_MAX else ""
    return f"Found in the log: {', '.join(told)}{more}."


def _names(tables: Sequence[FoundTable]) -> str:
    names = ", ".join(_line(table.name) for table in tables[:TABLES_SHOWN_MAX])
    return f"{names} and {len(tables) - TABLES_SHOWN_MAX} more" if len(tables) > TABLES_SHOWN_MAX else names


def _line(name: str) -> str:
    # A comment ends with its line, and must not hold control characters.
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in name)
