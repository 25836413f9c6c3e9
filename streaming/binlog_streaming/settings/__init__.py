"""A job of a TOML file: `load_job(path)` -> `Job`, `load_publish_job(path)` -> `PublishJob`.

The section `[sink]` tells which of the two it is.

A name or a value that cannot be is an error of one line, which names the file, the line, the key and the nearest name
that exists.
"""

from __future__ import annotations

import codecs
import os
import re
import tomllib
import typing
from functools import partial
from typing import cast

import msgspec
from msgspec.structs import replace

from binlog_format.errors import OptionError, StartError, storage_error
from binlog_format.messages import SHOW_VALUES
from binlog_format.names import folded_name
from binlog_format.position import Place
from binlog_format.source_file import with_archive, with_places
from binlog_format.views.filters import as_folded
from binlog_streaming.settings.checks import check_publish_values, check_topic_tables_values, check_values
from binlog_streaming.settings.choices import (
    Begin,
    Deletes,
    Json,
    Merge,
    Mode,
    OnCascade,
    OnError,
    OnPartitionDrop,
    OnRowStatement,
    OnStatement,
    Rewritten,
    TableFormat,
    UnknownValues,
    parse_milliseconds,
)
from binlog_streaming.settings.job_file import AnyJob, JobFile, TomlTable, resolved_path
from binlog_streaming.settings.lines import KeyPath, key_lines, key_text
from binlog_streaming.settings.model import (
    Job,
    JobLogSource,
    Lineage,
    Metrics,
    Section,
    Sink,
    Source,
    Spark,
    Status,
    TableRule,
    Trigger,
)
from binlog_streaming.settings.publish_model import KafkaSink, PublishJob
from binlog_streaming.settings.sink_checks import Mistake
from binlog_streaming.settings.source_models import (
    Arguments,
    EventRule,
    EventTablesJob,
    TopicTablesJob,
    check_event_tables_values,
)

if typing.TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = [
    "Arguments",
    "Begin",
    "Deletes",
    "EventRule",
    "EventTablesJob",
    "Job",
    "Json",
    "KafkaSink",
    "Lineage",
    "Merge",
    "Metrics",
    "Mode",
    "OnCascade",
    "OnError",
    "OnPartitionDrop",
    "OnRowStatement",
    "OnStatement",
    "PublishJob",
    "Rewritten",
    "Sink",
    "Source",
    "Spark",
    "Status",
    "TableFormat",
    "TableRule",
    "TopicTablesJob",
    "Trigger",
    "UnknownValues",
    "check_job_values",
    "job_from",
    "load_any_job",
    "load_job",
    "load_publish_job",
    "parse_job",
    "parse_milliseconds",
    "tables_job",
]

_SectionT = typing.TypeVar("_SectionT", bound=Section)

_CHECKS: dict[type[AnyJob], Callable[[typing.Any], None]] = {
    Job: check_values,
    PublishJob: check_publish_values,
    TopicTablesJob: check_topic_tables_values,
    EventTablesJob: check_event_tables_values,
}
"""Check of the values of a job, by its kind."""
_COMMANDS = {"tables": "binlog-stream run", "kafka": "binlog-stream publish"}
"""Command that runs a job, by the kind of its sink."""


def load_job(path: Path) -> Job:
    """Read a job file whose sink are tables."""
    return tables_job(load_any_job(path), path)


def load_publish_job(path: Path) -> PublishJob:
    """Read a job file whose sink is Kafka."""
    job = load_any_job(path)
    if isinstance(job, PublishJob):
        return job
    raise _other_sink(job, "kafka", path)


def load_any_job(path: Path) -> AnyJob:
    """Read a job file; relative paths in it start at its folder, `${NAME}` and `${NAME:-default}` are filled in.

    Raises:
        OptionError: `UNKNOWN` name, `INVALID_VALUE`, or something `MISSING`.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        hint = "binlog-stream init LOG > job.toml writes one"
        raise StartError("PATH_NOT_FOUND", f"{path}: there is no such job file", hint=hint) from error
    except IsADirectoryError as error:
        raise OptionError("INVALID_VALUE", "not a job file: it is a folder", at=Place(str(path))) from error
    except OSError as error:
        raise storage_error(path, "read", error) from error
    return parse_any_job(_text_of(data, path), file=path)


def _text_of(data: bytes, path: Path) -> str:
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        reason = f"not a job file: byte {error.start} is no text in UTF-8"
        hint = "Save the file as UTF-8"
        raise OptionError("INVALID_VALUE", reason, at=Place(f"{path}:{line}"), hint=hint) from error


def parse_job(text: str, *, file: Path) -> Job:
    """`load_job` for text; *file* is named in errors, and relative paths start at its folder."""
    return tables_job(parse_any_job(text, file=file), file)


def parse_any_job(text: str, *, file: Path) -> AnyJob:
    """`load_any_job` for text; *file* is named in errors, and relative paths start at its folder."""
    try:
        content: TomlTable = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        told = _TOML_PLACE.fullmatch(str(error))
        if told is None:
            line, reason = text.count("\n") + 1, str(error).removesuffix(" (at end of document)")
        else:
            line, reason = int(told["line"]), f"{told['reason']} at column {told['column']}"
        reason = f"not TOML: {reason[:1].lower()}{reason[1:]}"
        # The line itself is not told: it may have a password in it.
        raise OptionError("INVALID_VALUE", reason, at=Place(f"{file}:{line}")) from error
    return _any_job_from(content, file=file, lines=key_lines(text))


def job_from(content: TomlTable, *, file: Path) -> Job:
    """`load_job` for parsed TOML; *file* is named in errors, and relative paths start at its folder."""
    return tables_job(_any_job_from(content, file=file), file)


def _any_job_from(content: TomlTable, *, file: Path, lines: typing.Mapping[KeyPath, int] | None = None) -> AnyJob:
    job = _job_of(content, file, lines)
    if job.errors_show_values:
        os.environ[SHOW_VALUES] = "1"  # for the processes that the job starts, too
    return _with_folded_expressions(job)


def _with_folded_expressions(job: AnyJob) -> AnyJob:
    """The same job; `select` and `excludeTables` match in any case where the server folds names, and tables have these.

    Else a table that is to be masked would be that of the next rule, and an outbox a table as all others.
    """
    if not isinstance(job, (Job, PublishJob)):
        return job
    folds = job.source.folds_names
    source = replace(job.source, exclude_tables=as_folded(job.source.exclude_tables, folds))
    tables = tuple(replace(rule, select=as_folded(rule.select, folds)) for rule in job.tables)
    job = replace(job, source=source, tables=tables)
    if not folds or not isinstance(job, PublishJob):
        return job
    outbox, signals = (name and folded_name(name) for name in (job.outbox.table, job.sink.signal_table))
    return replace(job, outbox=replace(job.outbox, table=outbox), sink=replace(job.sink, signal_table=signals))


def _job_of(content: TomlTable, file: Path, lines: typing.Mapping[KeyPath, int] | None) -> AnyJob:
    """Make a job of parsed TOML.

    Args:
        file: Named in errors; relative paths start at its folder.
        lines: In which line keys are; None: errors name no lines.
    """
    job_file = JobFile(file, dict(lines or {}))
    content = cast("TomlTable", job_file.expand(content, ()))
    job_file.check_keys(content, ())
    job_file.choose_root(content)
    is_publish = job_file.root is PublishJob
    if is_publish:
        content["sink"] = job_file.with_own_names(cast("TomlTable", content["sink"]))
    if isinstance(content.get("tables"), dict):
        content["tables"] = [content["tables"]]
        job_file.single_tables = True
    job_file.check_names(job_file.root, content, ())
    try:
        job = msgspec.convert({"name": file.stem, **content}, job_file.root)
        _CHECKS[job_file.root](job)
        return _with_paths(job, file.absolute().parent)
    except msgspec.ValidationError as error:
        raise job_file.type_error(error) from error
    except Mistake as mistake:
        raise job_file.error("INVALID_VALUE", mistake.path, mistake.reason, mistake.hint) from mistake


def _with_paths(section: _SectionT, folder: Path) -> _SectionT:
    """*section* and its own sections, with paths that start at *folder* if they are relative."""
    if isinstance(section, JobLogSource) and section.archive is not None:
        # One text from here on: whoever opens the log, on whatever machine, opens both.
        section = msgspec.structs.replace(section, path=with_archive(section.path, section.archive), archive=None)
    changed: dict[str, object] = {}
    for name in section.__struct_fields__:
        value = getattr(section, name)
        if isinstance(value, Section):
            changed[name] = _with_paths(value, folder)
        elif name in section.PATHS and value is not None:
            changed[name] = with_places(value, partial(resolved_path, folder=folder))
    return msgspec.structs.replace(section, **changed)


def tables_job(job: AnyJob, file: Path) -> Job:
    """*job*, which keeps tables in step with a log."""
    if isinstance(job, Job):
        return job
    if isinstance(job, TopicTablesJob | EventTablesJob):
        is_topics = isinstance(job, TopicTablesJob)
        raise OptionError(
            "INVALID_VALUE",
            "source.kind: expected log, got kafka" if is_topics else "source: expected a database's log, got another",
            at=Place(str(file)),
            hint=f"This job is for {_COMMANDS['tables']} {file}",
        )
    raise _other_sink(job, "tables", file)


def _other_sink(job: AnyJob, expected: str, file: Path) -> OptionError:
    hint = f"This job is for {_COMMANDS[job.sink.kind]} {file}"
    return OptionError(
        "INVALID_VALUE", f"sink.kind: expected {expected}, got {job.sink.kind}", at=Place(str(file)), hint=hint
    )


def check_job_values(job: AnyJob, names: typing.Mapping[str, str]) -> None:
    """The same look at values, for a job without a file.

    Args:
        names: What settings are called where the user gave them, by key; others are called by their key.
    """
    try:
        _CHECKS[type(job)](job)
    except Mistake as mistake:
        key = key_text(mistake.path)
        name = next((name for known, name in names.items() if key.startswith(known)), key)
        raise OptionError("INVALID_VALUE", f"{name}: {mistake.reason}", hint=mistake.hint) from mistake


_TOML_PLACE = re.compile(r"(?P<reason>.*) \(at line (?P<line>\d+), column (?P<column>\d+)\)", re.DOTALL)
