"""`binlog-stream check JOB.toml`: what a job would do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.table import Table

from binlog_connector.installing import require, require_java
from binlog_format.errors import BinlogError
from binlog_format.messages import count_text
from binlog_streaming.cli.options import JobArgument
from binlog_streaming.cli.output import Output, OutputOption, escaped, output_console, say, write_json_lines
from binlog_streaming.cli.progress import progress_bar
from binlog_streaming.cli.status.observing import (
    PageOptions,
    StatusOption,
    StatusTokenOption,
    address_error,
)
from binlog_streaming.jobs.tables import merged_notes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from binlog_streaming.jobs.check import JobReport, LogReport
    from binlog_streaming.jobs.publish_check import PublishReport, TopicReport
    from binlog_streaming.jobs.tables import TableReport
    from binlog_streaming.settings import EventTablesJob, Job, PublishJob, TopicTablesJob


def _rows(
    report: JobReport | PublishReport,
    job: Mapping[str, object],
    things: Iterable[Mapping[str, object]],
    problems: Iterable[str],
) -> list[Mapping[str, object]]:
    """A report for programs. *things*: rows of what the job writes."""
    return [
        {"kind": "job", **job},
        {"kind": "log", **msgspec.to_builtins(report.log)},
        {"kind": "start", **msgspec.to_builtins(report.start)},
        *things,
        *({"kind": "left_out", "name": name} for name in report.left_out),
        *({"kind": "warning", "text": text} for text in report.warnings),
        *({"kind": "problem", "text": text} for text in problems),
        {"kind": "result", "can_run": not report.problems, "scan_size": report.scan_size},
    ]


def _print(facts: Iterable[tuple[str, str]], table: Table | None, notes: Iterable[str], verdict: str) -> None:
    """A report for people. *notes*: lines after the table, with their markup."""
    console = output_console()
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for head, text in facts:
        grid.add_row(head, escaped(text))
    console.print(grid)
    console.print()
    if table is not None:
        console.print(table)
    for note in notes:
        console.print(note, soft_wrap=True)
    console.print(f"\n{verdict}", style="bold")


def _notes(head: str, texts: Iterable[str]) -> list[str]:
    return [f"{head} {escaped(text)}" for text in texts]


_WARNING, _PROBLEM, _SET_ASIDE = "[yellow]warning:[/]", "[red bold]problem:[/]", "[yellow]set aside:[/]"


def _publish_rows(job: PublishJob, report: PublishReport) -> list[Mapping[str, object]]:
    sink = job.sink
    names = {"bootstrap_servers": sink.bootstrap_servers, "topic_prefix": sink.topic_prefix, "delivery": sink.delivery}
    things = [] if report.registry is None else [{"kind": "registry", "url": report.registry}]
    things += [{"kind": "topic", **msgspec.to_builtins(topic)} for topic in report.topics]
    problems = (*report.places, *report.changed, *report.statements, *report.outbox)
    return _rows(report, {"name": job.name, **names}, things, problems)


def _print_publish(job: PublishJob, report: PublishReport) -> None:
    log, start, sink = report.log, report.start, job.sink
    count = count_text(len(log.files), "file")
    said_by = "it has published nothing yet" if start.is_new else "the offset in Kafka"
    facts = [
        ("job", job.name),
        ("log", f"{log.path} ({log.format}, {count}, {count_text(log.size, 'byte')})"),
        ("start", f"{start.position}{f' (after GTID {start.gtid})' if start.gtid else ''}: {said_by}"),
        ("", f"after that: {count_text(start.size_behind, 'byte')} of the log"),
        ("into", f"{sink.bootstrap_servers}, topics {sink.topic_prefix}..., {sink.delivery}"),
    ]
    if report.registry is not None:
        facts.append(("schemas", f"{report.registry} (it answers)"))
    notes = [f"\nNot selected: {escaped(', '.join(report.left_out))}"] if report.left_out else []
    notes += [*_notes(_WARNING, report.warnings), *_notes(_PROBLEM, report.problems)]
    _print(facts, _topics(report.topics) if report.topics else None, notes, _verdict(report.problems))


def _topics(reports: tuple[TopicReport, ...]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("topic", "table", "key", "partitions"):
        table.add_column(name, overflow="fold")
    for report in reports:
        partitions = "not there yet" if report.partitions is None else str(report.partitions)
        keys = ", ".join(report.keys) or ("" if report.table is None else "none")
        table.add_row(escaped(report.topic), escaped(report.table or ""), escaped(keys), partitions)
    return table


COLUMNS_SHOWN_MAX = 12
MIB = 1 << 20

ScanOption = Annotated[
    int,
    typer.Option("--scan", metavar="MIB", min=1, help="Search tables in the newest files, up to this number of MiB."),
]
SCAN_MIB = 1024


def check(
    job: JobArgument,
    output: OutputOption = Output.TABLE,
    scan: ScanOption = SCAN_MIB,
    status: StatusOption = None,
    status_token_file: StatusTokenOption = None,
) -> None:
    """Report what a job would do: read its file, look at its log, tables and checkpoint, and change nothing.

    Shown are the log (format, files, GTIDs), where the job would start (its checkpoint, or fresh), and each table with
    its columns, keys, modes and targets; for a job that publishes, also its offset and its topics; for a job that reads
    topics, the messages to read; for a structured log, the tables of its sources. The ports of its metrics, and of a
    page with --status, are tried for a moment, unless the job runs.

    For example:

        binlog-stream check job.toml

    Exit status: that of `run`: 0 it can run (warnings do not count), 1 it could not, 2 a mistake in the job file, or a
    setting that is another one than when the job began, and must not be. That PySpark or Java are missing is a warning:
    a job may be looked at on another machine.
    """
    # Compiled code takes a moment to load: not for --help.
    from binlog_streaming.jobs.mirror import any_job_at
    from binlog_streaming.settings import EventTablesJob, PublishJob, TopicTablesJob

    checked = any_job_at(job)
    error = address_error(checked, PageOptions(status, status_token_file))
    unreachable = () if error is None else (str(error),)
    if isinstance(checked, TopicTablesJob):
        ends_with = _check_topics(checked, output, unreachable)
    elif isinstance(checked, EventTablesJob):
        ends_with = _check_events(checked, output, unreachable)
    elif isinstance(checked, PublishJob):
        ends_with = _check_publish(checked, output, scan * MIB, unreachable)
    else:
        _warn_without_spark()
        ends_with = _check_tables(checked, output, scan * MIB, unreachable)
    if ends_with:
        raise typer.Exit(ends_with)


def _warn_without_spark() -> None:
    # A job may be looked at where it does not run.
    try:
        require("pyspark")
        require_java()
    except BinlogError as error:
        say(f"warning: {error}; the job does not start on this machine", err=True)


def _status(problems: Sequence[str]) -> int:
    """The exit status of `run`, which ends with the first problem."""
    from binlog_streaming.plan.failures import named_error

    error = named_error(problems[0]) if problems else None
    return 2 if error is not None and error.is_wrong_use else int(bool(problems))


def _verdict(problems: Sequence[str], good: str = "It can run.") -> str:
    return f"It could not run: {count_text(len(problems), 'problem')}." if problems else good


def _check_tables(job: Job, output: Output, scan_size: int, unreachable: tuple[str, ...]) -> int:
    from binlog_streaming.jobs.check import check_job

    with progress_bar("Looking for tables") as on_progress:
        report = check_job(job, scan_size=scan_size, on_progress=on_progress)
    report = replace(report, places=(*unreachable, *report.places))
    if output is Output.JSONL:
        write_json_lines(_table_rows(job, report))
    else:
        _print_tables(job, report)
    return _status(report.problems)


def _check_publish(job: PublishJob, output: Output, scan_size: int, unreachable: tuple[str, ...]) -> int:
    from binlog_streaming.jobs.publish_check import check_publish_job

    with progress_bar("Looking for tables") as on_progress:
        report = check_publish_job(job, scan_size=scan_size, on_progress=on_progress)
    report = replace(report, places=(*unreachable, *report.places))
    if output is Output.JSONL:
        write_json_lines(_publish_rows(job, report))
    else:
        _print_publish(job, report)
    return _status(report.problems)


def _print_end(job: EventTablesJob | TopicTablesJob, output: Output, unreachable: tuple[str, ...]) -> int:
    """Print if a job without a report of its own can run; the exit status."""
    from binlog_streaming.job_state.checkpoint import place_errors

    problems = [*unreachable, *map(str, place_errors(job).values())]
    if output is Output.JSONL:
        write_json_lines({"kind": "problem", "text": text} for text in problems)
        write_json_lines([{"kind": "result", "can_run": not problems}])
        return _status(problems)
    for text in problems:
        say(f"problem: {text}")
    say(_verdict(problems))
    return _status(problems)


def _check_events(job: EventTablesJob, output: Output, unreachable: tuple[str, ...]) -> int:
    """Report where *job* would continue, and the tables for the waiting events; nothing is written."""
    from binlog_streaming.event_tables.run import EventTablesRun

    waiting = EventTablesRun(job).waiting()
    position = str(waiting.offset.position)
    if output is Output.JSONL:
        write_json_lines([{"kind": "log", "path": job.source.path, "position": position, "bytes": waiting.size}])
        write_json_lines(
            {"kind": "table", "target": place, "sources": count} for place, count in waiting.tables.items()
        )
        return _print_end(job, output, unreachable)
    say(f"{job.name}: {job.source.path} -> {job.sink.directory} ({job.sink.format})")
    say(f"from {position}, {count_text(waiting.size, 'byte')} to read")
    for place, count in waiting.tables.items():
        say(f"{place}: events of {count_text(count, 'source')}")
    return _print_end(job, output, unreachable)


def _check_topics(job: TopicTablesJob, output: Output, unreachable: tuple[str, ...]) -> int:
    """Report where *job* would continue; nothing is written."""
    from binlog_streaming.topic_tables.run import TopicTablesRun

    waiting = TopicTablesRun(job).waiting()
    if output is Output.JSONL:
        write_json_lines(
            {"kind": "partition", "topic": partition.topic, "partition": partition.number, "offset": offset, "end": end}
            for partition, (offset, end) in sorted(waiting.items())
        )
        return _print_end(job, output, unreachable)
    say(f"{job.name}: {job.source.bootstrap_servers} -> {job.sink.directory} ({job.sink.format})")
    for partition, (offset, end) in sorted(waiting.items()):
        say(f"{partition}: from offset {offset}, {end - offset:,} to read")
    return _print_end(job, output, unreachable)


def _table_rows(job: Job, report: JobReport) -> list[Mapping[str, object]]:
    names = {"name": job.name, "directory": job.sink.directory, "format": str(job.sink.format)}
    things = []
    for table in report.tables:
        columns = [{"name": name, "type": type_name} for name, type_name in table.columns]
        things.append({"kind": "table", **msgspec.to_builtins(table), "columns": columns})
    return _rows(report, names, things, (*report.places, *report.changed, *report.statements))


def _print_tables(job: Job, report: JobReport) -> None:
    log = report.log
    names = log.files[0] if len(log.files) == 1 else f"{log.files[0]} to {log.files[-1]}" if log.files else "none"
    count = count_text(len(log.files), "file")
    facts = [
        ("job", job.name),
        ("log", log.path),
        ("", f"{log.format}, {count} ({names}), {count_text(log.size, 'byte')}"),
        ("GTIDs", _gtids_text(log)),
        ("start", _start_text(report)),
        ("", f"after that: {count_text(report.start.size_behind, 'byte')} of the log"),
        ("into", f"{job.sink.directory} ({job.sink.format})"),
    ]
    notes = [f"\nNot wanted: {escaped(', '.join(report.left_out))}"] if report.left_out else []
    of_tables = merged_notes((table.name, text) for table in report.tables for text in table.warnings)
    notes += _notes(_WARNING, (*of_tables, *report.warnings))
    of_tables = merged_notes((table.name, text) for table in report.tables for text in table.problems)
    notes += _notes(_SET_ASIDE, of_tables if report.sets_aside else ())
    problems = (*report.places, *report.changed, *(() if report.sets_aside else of_tables), *report.statements)
    notes += _notes(_PROBLEM, problems)
    aside = sum(bool(table.problems) for table in report.tables) if report.sets_aside else 0
    good = f"It can run: {count_text(len(report.tables) - aside, 'table')}"
    verdict = _verdict(problems, f"{good}, {aside:,} would be set aside." if aside else f"{good}.")
    _print(facts, _tables(report.tables) if report.tables else None, notes, verdict)


def _gtids_text(log: LogReport) -> str:
    first = f"after {log.gtid_before}" if log.gtid_before else "from the first transaction"
    return f"{first} to {log.gtid}" if log.gtid else "none"


def _start_text(report: JobReport) -> str:
    start = report.start
    gtid = f" (after GTID {start.gtid})" if start.gtid else ""
    if start.said_by is not None:
        there = "a new checkpoint" if start.is_fresh else "a checkpoint without a finished batch"
        return f"{start.position}{gtid}, by {start.said_by}: {start.checkpoint} is {there}"
    again = ", which was begun before and is done again" if start.is_repeated else ""
    return f"{start.position}{gtid}, batch {start.batch_id}{again}: from the checkpoint {start.checkpoint}"


def _tables(reports: tuple[TableReport, ...]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("table", no_wrap=True)
    table.add_column("rule", justify="right")
    table.add_column("keys")
    table.add_column("columns", overflow="fold", ratio=2)
    table.add_column("mode and target", overflow="fold", ratio=2)
    for report in reports:
        shown = [f"{name} {type_name}" for name, type_name in report.columns[:COLUMNS_SHOWN_MAX]]
        more = len(report.columns) - len(shown)
        columns = ", ".join([*shown, *([f"and {more} more"] if more else [])]) or "not known"
        lines = [f"{target.mode} {target.uri}{' (is there)' if target.exists else ''}" for target in report.targets]
        targets = "\n".join(map(escaped, [*lines, *([report.proof] if report.proof else [])]))
        keys = ", ".join(report.keys) or "none"
        name = f"{report.name}{'' if report.complete is not False else ' (not complete)'}"
        table.add_row(escaped(name), str(report.rule), escaped(keys), escaped(columns), targets)
    return table
