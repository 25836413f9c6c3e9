"""A job that writes tables of a structured log, as a commented job file: `event_job_text(job)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_streaming.settings.event_source_model import EventLogSource, EventRule, EventTablesJob
from binlog_streaming.settings.table_settings import Setting
from binlog_streaming.settings.text import METRICS, SINK, comment_text, head_text, joined_parts, settings_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    import msgspec

TOP = (
    Setting("name", "Name of the job in messages and in metrics; default: the name of this file.", '"app"'),
    Setting(
        "checkpoint",
        "Progress of the job. It belongs to the tables below: with another (or a new) checkpoint, a job refuses to "
        "write into existing tables, because it would double or lose rows.",
    ),
)

EVENT_SOURCE = (
    Setting("path", "Folder of one program's log files, one file of it, a pattern (log/app.blog*), or a URL."),
    Setting("format", "structured; default: detected, but for a URL.", '"structured"'),
    Setting(
        "startingOffsets",
        "Start of a new job: earliest (the oldest file of the log), latest (the present end), or a "
        "place such as { file_no = 1710072000000000000, page = 12, chunk = 0 }. A job that has begun continues "
        "where it stopped.",
        '"latest"',
    ),
    Setting("startingTimestamp", "Or start with the first event at this time or later.", '"2026-01-31T12:00:00Z"'),
    Setting("failOnDataLoss", "Stop if log data disappeared before it was read."),
    Setting("maxBytesPerTrigger", "Bytes of the log in one batch; this bounds the memory that a batch takes."),
)
EVENT_RULES = (
    Setting(
        "arguments",
        "json: one column of text, so that events of all sources fit into one table. columns: a typed column for "
        "each "
        "argument; events of each source (a place in the program that logs) then go into a table of their own.",
    ),
    Setting(
        "target",
        "Place in the sink's directory. {category}, {severity}, {function}, {file}, {line} and {source_id} are those "
        'of the source of an event. Default: logs; with arguments = "columns": {category}/{file}_{line}.',
        '"{category}/{severity}"',
    ),
    Setting("min_severity", "The least severity: trace, debug, info, warning, error, critical.", '"warning"'),
    Setting("categories", "Regular expressions, separated by commas, each for the whole category.", '"net,db.*"'),
    Setting("source_files", "The same for the source file, with its folders.", "'.*/server\\.cpp'"),
    Setting("formats", "One regular expression for the whole format string.", "'.*failed.*'"),
    Setting("partition_by", "Partitions of new tables, as in jobs of databases.", '["category"]'),
)
_RULES_COMMENT = "Tables and their events. Each entry takes all events that it selects, whatever other entries take."


def event_job_text(job: EventTablesJob, *, comments: Sequence[str] = ()) -> str:
    """Write *job* down.

    Args:
        job: The job; what has its default is commented out.
        comments: Lines above the rules.
    """
    parts = [head_text("as tables of its events", "run"), settings_text(TOP, job, always=("checkpoint",))]
    parts += ["[source]", settings_text(EVENT_SOURCE, job.source, always=("path",))]
    parts += [comment_text(_RULES_COMMENT)]
    lines = [line for text in comments for line in comment_text(text).splitlines()]
    for number, rule in enumerate(job.tables):
        parts += ["\n".join([*(lines if number == 0 else ()), "[[tables]]"])]
        parts += [settings_text(EVENT_RULES, rule, always=("arguments",), told=number == 0)]
    sink = tuple(one for one in SINK if one.name not in ("kind", "merge"))
    parts += ["[sink]", settings_text(sink, job.sink, always=("directory", "format"))]
    parts += ["[metrics]", settings_text(METRICS, job.metrics, always=())]
    return joined_parts(parts)


EVENT_SECTIONS: dict[type[msgspec.Struct], tuple[Setting, ...]] = {
    EventTablesJob: TOP,
    EventLogSource: EVENT_SOURCE,
    EventRule: EVENT_RULES,
}
"""All settings, as they are explained; those of the sink and of metrics are in `text`."""
