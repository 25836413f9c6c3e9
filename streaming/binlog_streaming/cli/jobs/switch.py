"""`binlog-stream switch JOB.toml --to PATH`: a job goes on in the log of another server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from binlog_streaming.cli.options import JobArgument
from binlog_streaming.cli.output import Output, output_console, write_json_lines

if TYPE_CHECKING:
    from binlog_streaming.jobs.switch import Switch

TABLES_SHOWN_MAX = 10


def switch(
    job: JobArgument,
    to: Annotated[str, typer.Option("--to", metavar="PATH", help="The log of the server that goes on.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and report; change nothing.")] = False,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="What was done: for people (table) or as JSON (jsonl).")
    ] = Output.TABLE,
) -> None:
    """Move a stopped job, of tables or of topics, to the log of another server: after a failover, without a new copy.

    The other server is one that has replicated from the old one, or from the same primary, and has logged what it
    replicated (log_slave_updates, log_replica_updates). The place in its log is found by GTIDs, and checked both ways:
    the log has every transaction that the job has taken, and before that place none that the job has not. Else nothing
    is changed, and the error names the transactions.

    Tables, topics, partitions of keys and the checkpoint stay. source.path in the job file becomes PATH. The old log
    need not be there any more. If this is killed, the next start of the job, or the same command, completes it; called
    again, it does nothing.

    For example, after the primary is gone:

        binlog-stream switch job.toml --to /mnt/replica/binlog --dry-run
        binlog-stream switch job.toml --to /mnt/replica/binlog

    Exit status: 0 done, 2 refused, nothing was changed; 1 another named error.
    """
    # Decoder and tables take a second to import: not for other commands.
    from binlog_streaming.jobs.switch import complete_begun, job_to_switch, plan_switch

    if not dry_run:
        complete_begun(job_to_switch(job))
    plan = plan_switch(job, to)
    if not dry_run and not plan.is_done:
        plan.apply(_run)
    _tell(plan, dry_run=dry_run, output=output)


def _run(job: object) -> None:
    from binlog_connector.installing import require

    require("pyspark")
    from binlog_streaming.settings import Job
    from binlog_streaming.tables.job import TablesJob

    assert isinstance(job, Job)
    TablesJob(job, once=True).run()


def _tell(plan: Switch, *, dry_run: bool, output: Output) -> None:
    before, after = plan.before.offset, plan.after
    if output is Output.JSONL:
        fields: dict[str, object] = {
            "event": "switch",
            "done": not dry_run,
            "changed": not plan.is_done,
            "from": {"path": plan.before.path, "position": str(before.position), "gtid": str(before.gtid)},
            "to": {"path": plan.path, "position": str(after.position), "gtid": str(after.gtid)},
            "skip_gtid": str(after.skip_gtid),
            "same_log": plan.is_same_log,
            "finished_batch": plan.before.unfinished,
            "tables": list(plan.before.tables),
        }
        write_json_lines([fields])
        return
    console = output_console()

    def line(name: str, text: str) -> None:
        console.print(f"{name:<8} {text}", soft_wrap=True, markup=False, highlight=False)

    if plan.is_done:
        line("nothing", f"to do: {plan.job.name} is at {plan.shown_before} of {plan.path}")
        return
    line("from", f"{plan.before.path}: {plan.shown_before}")
    line("to", f"{plan.path}: {plan.shown_after}{' (the same log)' if plan.is_same_log else ''}")
    line("GTIDs", f"{before.gtid.advanced_by(before.skip_gtid)}: all taken, and all in both logs")
    if after.skip_gtid:
        line("skipped", f"{after.skip_gtid}: taken, and after that place in the other log")
    if plan.before.unfinished is not None:
        line("first", f"batch {plan.before.unfinished}, in which the job was cut off, {_was('completed', dry_run)}")
    names = plan.before.tables
    more = f" and {len(names) - TABLES_SHOWN_MAX} more" if len(names) > TABLES_SHOWN_MAX else ""
    line("tables", f"{', '.join(names[:TABLES_SHOWN_MAX])}{more}: stay as they are")
    line("job", f"source.path in {plan.file} {'is that already' if plan.new_text is None else _was('set', dry_run)}")
    if dry_run:
        line("dry run", "nothing was changed")


def _was(done: str, dry_run: bool) -> str:
    return f"would be {done}" if dry_run else f"was {done}"
