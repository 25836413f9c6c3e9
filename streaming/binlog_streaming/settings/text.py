"""A job as a commented job file: `job_text(job)`, which `settings.load_job` reads back as the same job."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from binlog_streaming.settings.model import Job, Lineage, Metrics, Sink, Source, Spark, Status, TableRule, Trigger
from binlog_streaming.settings.table_settings import TABLES, Setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from binlog_streaming.settings.publish_model import PublishJob
    from binlog_streaming.settings.source_models import EventTablesJob

_WIDTH = 100
_HEAD = """\
# A job: one log {what}. See what it would do, and run it:
#
#     binlog-stream check job.toml
#     binlog-stream {command} job.toml
#
# Relative paths start at this file's folder. ${{NAME}} is taken from the environment, ${{NAME:-value}} with a default.
# Settings that are commented out show their defaults, or an example where there is none. All of them are here."""


ERRORS_SHOW_VALUES = Setting(
    "errors_show_values",
    "Let errors, log lines, the status page and state files quote values of rows; by default they have (hidden) there. "
    "Names of tables and columns, keys' columns and places in the log are always shown.",
)
CHECKPOINT = Setting(
    "checkpoint",
    "Progress of the job. It belongs to the tables below: with another (or a new) checkpoint, a job refuses to write "
    "into existing tables, because it would double or lose rows.",
)
TOP = (
    Setting("name", "Name of the job in Spark, in messages and in metrics; default: the name of this file.", '"shop"'),
    CHECKPOINT,
    Setting(
        "on_error",
        "Effect of an error in one table (a statement that is not understood, lost column names, another writer, an "
        "incompatible type): stop (the job), or set_aside (this table stays as it is and is named; all others "
        "continue).",
    ),
    Setting(
        "evidence",
        "Check of the rows that changes replace, in complete tables: keys (an update or a delete must find a row "
        "with its key, an insert must find none; otherwise the table stops), rows (that row must also equal the "
        "image before the change, in all columns of the image), or off.",
    ),
    Setting(
        "evidence_after",
        "Number of rows that are compared completely after a start, a snapshot, a statement that changes the table, "
        "or a commit of another program to a target; with evidence = off none are.",
    ),
    Setting(
        "evidence_sample",
        "Largest number of rows of each step that are compared completely if this costs almost nothing: in a small "
        "file.",
    ),
    ERRORS_SHOW_VALUES,
)
SOURCE = (
    Setting("path", "Directory of the server's binlog files, one file of it, or a URL (s3://...)."),
    Setting("format", "The format that the log must have: innodb or classic; default: detected.", '"classic"'),
    Setting(
        "archive",
        "An archive of the log (binlog-stream archive): files that the server has purged are read from there.",
        '"s3://backup/binlogs"',
    ),
    Setting(
        "excludeTables",
        "Tables to leave out, whatever [[tables]] selects: regular expressions on database.table, separated by "
        "commas, each for the whole name.",
        r"'mysql\..*'",
    ),
    Setting(
        "startingOffsets",
        "Start of a new job: earliest (the oldest file of the log), latest (the present end), or a place such as { "
        "file_no = 3, page = 12, chunk = 0 }. A job that has begun continues where it stopped.",
        '"earliest"',
    ),
    Setting(
        "startingGtid", "Or start after these transactions: 0-1-100,1-2-7 (MariaDB), uuid:1-77 (MySQL).", '"0-1-100"'
    ),
    Setting(
        "startingTimestamp",
        "Or start with the first transaction committed at this time or later.",
        "2026-01-31T12:00:00Z",
    ),
    Setting("maxBytesPerTrigger", "Bytes of the log in one batch; this bounds the memory that a batch takes."),
    Setting("maxFilesPerTrigger", "Files of the log in one batch; default: as many as there are.", "1"),
    Setting("minPartitions", "Least number of parts in which a batch is read; default: by size.", "2"),
    Setting(
        "bound",
        "End of reading: visible (all complete transactions on disk), or sealed (innodb: only files that crash "
        "recovery can no longer change; minutes to hours later).",
        '"visible"',
    ),
    Setting(
        "failOnDataLoss",
        "Stop if log data disappeared before it was read; false: continue after the gap, with a warning.",
        "true",
    ),
    Setting("ignoreDomainIds", "GTID domains (MariaDB) to leave out.", "[7]"),
    Setting("ignoreServerIds", "Servers whose transactions are left out.", "[42]"),
    Setting(
        "schemaFile",
        "CREATE TABLE statements (mariadb-dump --no-data) for logs without binlog_row_metadata=FULL.",
        '"schema.sql"',
    ),
    Setting(
        "lowerCaseTableNames",
        "Result of SELECT @@lower_case_table_names on the server: with 1 and 2 Orders and orders are one table. "
        "Default: taken from the log if it proves it; required if a statement spells a table otherwise than its rows.",
        "1",
    ),
    Setting(
        "declaredTypes",
        "UUID, INET4, INET6 and VECTOR columns of MariaDB have the types that statements in the log declare; false: "
        "they are bytes, as in table maps. Default: true for a new job; an existing job keeps its types.",
        "true",
    ),
    Setting("timeType", "Type of TIME columns: text, or micros (a number of microseconds).", '"text"'),
    Setting(
        "zeroDates",
        "Handling of 0000-00-00 and similar dates: null, error, or text (then all dates are texts; only for new jobs).",
        '"null"',
    ),
    Setting(
        "replaceInvalidText", "Put U+FFFD where text is not valid in its character set, instead of stopping.", "false"
    ),
    Setting(
        "fullSourceImages",
        "In the log of a replica: its sources have binlog_row_image=FULL in all sessions (and MariaDB 10.5 or newer), "
        "so that VIRTUAL columns have their values; false: some may be missing (docs/modes.md).",
        "false",
    ),
    Setting(
        "systemTimeZone",
        "The time zone SYSTEM of the server, which no log has: UTC, an offset, or a name. Without it, values that a "
        "statement computes in that time zone are unknown (docs/ddl.md).",
        '"Europe/Berlin"',
    ),
)
SINK = (
    Setting("kind", "tables; or kafka, whose settings are others: binlog-stream init LOG --for kafka."),
    Setting("directory", "Folder or URL; with its tables, and nothing else, in it."),
    Setting("format", "Kind of the tables: delta, iceberg, or parquet (in a folder, for changelogs only)."),
    Setting(
        "merge",
        "Removal of superseded rows: rewrite (their files are written anew; every reader can read them), mark "
        "(Delta: in deletion vectors; Iceberg: in position delete files, or in vectors; the cost depends on the "
        "changes and not on the size of the table; for readers that support these, such as Spark and DuckDB), or "
        "auto (small tables stay plain, large ones are marked once writing anew costs more).",
    ),
    Setting(
        "row_ids",
        "New tables keep an id for each row, by which incremental readers know it: Delta's row tracking, or Iceberg's "
        "format version 3, which needs a REST catalog.",
    ),
    Setting(
        "json",
        "Type of JSON columns in new tables, and of JSON columns that are added: text, or variant (Delta: readers look "
        "into a value without parsing it; a text that is no JSON stops the job).",
    ),
    Setting(
        "storage",
        "Access options of an object store, under the names of obstore and deltalake; for Iceberg tables see catalog.",
        '{ AWS_REGION = "eu-central-1" }',
    ),
    Setting(
        "catalog",
        "Catalog of Iceberg tables, and access to their files, under the names of pyiceberg; without it there is a "
        "catalog in the directory, which must be a folder. Unity Catalog for Delta tables that it manages: type = "
        '"unity", uri, warehouse, token.',
        '{ type = "rest", uri = "https://catalog.example/", warehouse = "lake" }',
    ),
    Setting("target_file_size", "Bytes; with smaller files merges rewrite less, and readers open more files."),
    Setting("retention", "Time for which replaced files are kept, for readers of older versions."),
)
TRIGGER = (
    Setting("interval", "A batch starts this often, when there is something new: 500ms, 2s, 1m, ..."),
    Setting("available_now", "true (or --once): read the present log, then end."),
)
METRICS = (
    Setting("port", "Prometheus reads metrics at http://host:port/metrics; 0: a free port; default: none.", "9187"),
    Setting(
        "host",
        "Address to listen at; there is no password, so other addresses than this machine are your responsibility.",
    ),
    Setting("otlp", "Push metrics to OpenTelemetry too, to the address in OTEL_EXPORTER_OTLP_ENDPOINT."),
)
LINEAGE = (
    Setting(
        "namespace",
        "Namespace of the job in OpenLineage; default: no events are sent. OPENLINEAGE_URL in the environment is "
        "the address.",
        '"shop"',
    ),
    Setting(
        "source",
        "Name of the server in other tools: the namespace of the source tables; default: made from source.path.",
        '"mysql://db.example:3306"',
    ),
)
STATUS = (
    Setting(
        "purge_after",
        "Time for which the server keeps a file after its last write to it (binlog_expire_logs_seconds): then the "
        "job's status shows how long the job is safe.",
        '"7d"',
    ),
)
SPARK = (
    Setting("master", "Spark's master; spark-submit's own settings override these."),
    Setting("settings", "Spark's settings.", '{ "spark.driver.memory" = "1g" }'),
)
RULES_COMMENT = (
    "Tables and their settings. The first entry that matches a table is used: put exceptions first. Tables without "
    "a matching entry are left out."
)


@dataclass(frozen=True, slots=True)
class JobForm:
    """Form of the job files of one kind.

    Attributes:
        what: What the job does with its log.
        command: What runs it.
        rules: Settings of `[[tables]]`, explained once.
        shown: Those of them that are shown also where they have their default.
        sections: Sections after the rules: name, settings, and those that are shown also where they have their default.
    """

    what: str
    command: str
    top: tuple[Setting, ...]
    source: tuple[Setting, ...]
    rules: tuple[Setting, ...]
    shown: tuple[str, ...]
    sections: tuple[tuple[str, tuple[Setting, ...], tuple[str, ...]], ...]
    rules_comment: str = RULES_COMMENT

    def text(
        self,
        job: Job | PublishJob | EventTablesJob,
        *,
        rule_comments: Mapping[int, Sequence[str]] | None = None,
        exclude_comment: str = "",
    ) -> str:
        """Write *job* down.

        Args:
            job: The job; what has its default is commented out.
            rule_comments: Lines above a rule, by its number.
        """
        comments = rule_comments or {}
        source = [
            replace(setting, comment=f"{setting.comment} {exclude_comment}".rstrip())
            if setting.name == "excludeTables"
            else setting
            for setting in self.source
        ]
        parts = [_HEAD.format(what=self.what, command=self.command)]
        parts += [settings_text(self.top, job, always=("checkpoint",))]
        parts += ["[source]", settings_text(source, job.source, always=("path",)), comment_text(self.rules_comment)]
        for number, rule in enumerate(job.tables):
            lines = [line for text in comments.get(number, ()) for line in comment_text(text).splitlines()]
            parts += ["\n".join([*lines, "[[tables]]"])]
            parts += [settings_text(self.rules, rule, always=self.shown, told=number == 0)]
        for name, settings, always in self.sections:
            parts += [f"[{name}]", settings_text(settings, attrgetter(name)(job), always=always)]
        # A header belongs to what comes below it.
        text = "\n".join(part if part.endswith("]") else f"{part}\n" for part in parts)
        return f"{text.rstrip()}\n"


job_text = JobForm(
    "kept as tables",
    "run",
    TOP,
    SOURCE,
    TABLES,
    ("select", "mode", "target"),
    (
        ("sink", SINK, ("directory", "format")),
        ("trigger", TRIGGER, ()),
        ("metrics", METRICS, ()),
        ("lineage", LINEAGE, ()),
        ("status", STATUS, ()),
        ("spark", SPARK, ()),
    ),
).text
"""Write a job down that keeps tables."""


def toml_text(text: str) -> str:
    """*text* in quotes, with backslashes as they are where that can be."""
    if "\\" in text and "'" not in text and text.isprintable():
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def settings_text(
    settings: Iterable[Setting], section: msgspec.Struct, *, always: Sequence[str], told: bool = True
) -> str:
    """The lines of a section.

    Args:
        always: What is shown also where it has its default.
        told: Explain everything; else only what is not the default is shown, without a word.
    """
    fields = {field.encode_name: field for field in msgspec.structs.fields(section)}
    paragraphs: list[str] = []
    for setting in settings:
        field = fields[setting.name]
        value = getattr(section, field.name)
        default = default_of(field)
        is_given = setting.name in always or value != default
        if not is_given and not told:
            continue
        shown = setting.example if setting.example is not None and not is_given else toml_value(value)
        line = f"{'' if is_given else '# '}{setting.name} = {shown}"
        paragraphs.append(f"{comment_text(setting.comment)}\n{line}" if told else line)
    return ("\n\n" if told else "\n").join(paragraphs)


def default_of(field: msgspec.structs.FieldInfo) -> object:
    """Default value of a setting; None also if a value is required."""
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return None if field.required else field.default


def toml_value(value: object) -> str:
    """*value* as a job file has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return toml_text(str(value))
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {toml_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    return str(value)


def comment_text(text: str) -> str:
    """*text* as lines of a comment."""
    lines, line = [], "#"
    for word in text.split():
        if len(line) + 1 + len(word) > _WIDTH:
            lines.append(line)
            line = "#"
        line = f"{line} {word}"
    return "\n".join([*lines, line])


SECTIONS: dict[type[msgspec.Struct], tuple[Setting, ...]] = {
    Job: TOP,
    Source: SOURCE,
    TableRule: TABLES,
    Sink: SINK,
    Trigger: TRIGGER,
    Metrics: METRICS,
    Lineage: LINEAGE,
    Status: STATUS,
    Spark: SPARK,
}
"""All settings, as they are explained."""
