"""Output of `check` for a job that publishes: `print_report`, `json_rows`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from rich.table import Table

from binlog_streaming.cli.output import escaped

if TYPE_CHECKING:
    from rich.console import Console

    from binlog_streaming.jobs.publish_check import PublishReport, TopicReport
    from binlog_streaming.settings import PublishJob


def json_rows(job: PublishJob, report: PublishReport) -> list[dict[str, object]]:
    """The report for programs."""
    sink = job.sink
    rows: list[dict[str, object]] = [
        {
            "kind": "job",
            "name": job.name,
            "bootstrap_servers": sink.bootstrap_servers,
            "topic_prefix": sink.topic_prefix,
            "delivery": sink.delivery,
        },
        {"kind": "log", **msgspec.to_builtins(report.log)},
        {"kind": "start", **msgspec.to_builtins(report.start)},
    ]
    if report.registry is not None:
        rows.append({"kind": "registry", "url": report.registry})
    rows.extend({"kind": "topic", **msgspec.to_builtins(topic)} for topic in report.topics)
    rows.extend({"kind": "left_out", "name": name} for name in report.left_out)
    rows.extend({"kind": "warning", "text": text} for text in report.warnings)
    rows.extend({"kind": "problem", "text": text} for text in (*report.changed, *report.statements))
    rows.append({"kind": "result", "can_run": not report.problems, "scan_size": report.scan_size})
    return rows


def print_report(console: Console, job: PublishJob, report: PublishReport) -> None:
    """The report for people."""
    log, start, sink = report.log, report.start, job.sink
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column(overflow="fold")
    count = "1 file" if len(log.files) == 1 else f"{len(log.files)} files"
    said_by = "it has published nothing yet" if start.is_new else "the offset in Kafka"
    facts.add_row("job", escaped(job.name))
    facts.add_row("log", escaped(f"{log.path} ({log.format}, {count}, {log.size:,} bytes)"))
    facts.add_row("start", escaped(f"{start.position}{f' (after GTID {start.gtid})' if start.gtid else ''}: {said_by}"))
    facts.add_row("", f"{start.size_behind:,} bytes of the log come after that")
    facts.add_row("into", escaped(f"{sink.bootstrap_servers}, topics {sink.topic_prefix}..., {sink.delivery}"))
    if report.registry is not None:
        facts.add_row("schemas", escaped(f"{report.registry} (it answers)"))
    console.print(facts)
    console.print()
    if report.topics:
        console.print(_topics(report.topics))
    if report.left_out:
        console.print(f"\nNot selected: {escaped(', '.join(report.left_out))}", soft_wrap=True)
    for text in report.warnings:
        console.print(f"[yellow]warning:[/] {escaped(text)}", soft_wrap=True)
    for text in report.problems:
        console.print(f"[red bold]problem:[/] {escaped(text)}", soft_wrap=True)
    verdict = f"It could not run: {len(report.problems)} problems." if report.problems else "It can run."
    console.print(f"\n{verdict}", style="bold")


def _topics(reports: tuple[TopicReport, ...]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("topic", "table", "key", "partitions"):
        table.add_column(name, overflow="fold")
    for report in reports:
        partitions = "not there yet" if report.partitions is None else str(report.partitions)
        keys = ", ".join(report.keys) or ("" if report.table is None else "none")
        table.add_row(escaped(report.topic), escaped(report.table or ""), escaped(keys), partitions)
    return table
