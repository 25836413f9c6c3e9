"""`binlog-stream replay JOB.toml`: tables as they were at a GTID."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from binlog_connector.installing import require
from binlog_format.messages import count_text
from binlog_streaming.cli.jobs.run import BatchOutputOption
from binlog_streaming.cli.jobs.running import run_job
from binlog_streaming.cli.options import JobArgument
from binlog_streaming.cli.output import Output, say, write_json_lines

if TYPE_CHECKING:
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_streaming.jobs.replay_run import Replay, ReplayResult


def replay(
    job: JobArgument,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="GTID",
            help="Begin after these. Default: the position of the tables; without tables, the start of the log.",
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="GTID", help="End with these, included. Default: the present end of the log."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Folder or URL for the tables. Default: the job's own sink.directory."),
    ] = None,
    hand_over: Annotated[
        bool,
        typer.Option("--hand-over", help="The job continues where the replay ends; it must have no checkpoint yet."),
    ] = False,
    set_aside: Annotated[
        bool,
        typer.Option(
            "--set-aside",
            help="Bring the tables that the job set aside to its position, so that it continues with them.",
        ),
    ] = False,
    output: BatchOutputOption = Output.TABLE,
) -> None:
    r"""Build or repair the tables of a job from one part of the log: as they were at a GTID.

    Write GTIDs as in gtid_binlog_pos (MariaDB: the last one of each domain, 0-1-575,1-2-7) or gtid_executed (MySQL:
    the set of all, uuid:1-77). A domain or server that --to does not name is not read.

    Tables that do not exist are built. Tables that are at --from are continued; tables that are at --to already are
    left alone; with any other nothing is written: the error names its position. Tables record their position in the
    property binlog-stream.gtidPosition.

    A replay that was stopped or killed continues when it is started again with the same options. The tables then belong
    to the replay, not to the job: a job goes on from there by --hand-over. Tables that a job set aside (on_error) come
    back by --set-aside, once the reason is mended; the job must not run meanwhile.

    Exit status: as that of run --once; 1 also if a table was set aside on the way, and so is not at --to.

    For example, the tables as they were after 0-1-575, beside those of the job:

        binlog-stream replay job.toml --to 0-1-575 --target lake-then
    """
    from binlog_streaming.jobs.mirror import absolute_path, job_at
    from binlog_streaming.jobs.replay_run import ReplayRequest, plan_replay

    if set_aside and (start, end, target, hand_over) != (None, None, None, False):
        raise typer.BadParameter("expected no other option beside it", param_hint="--set-aside")
    require("pyspark")  # before anything is written
    directory = None if target is None else absolute_path(target)
    request = ReplayRequest(job_at(job), _point("--from", start), _point("--to", end), directory, hand_over)
    if set_aside:
        request = ReplayRequest.of_set_aside(request.job)
    if end is not None and not request.end:
        raise typer.BadParameter("expected GTIDs, got nothing", param_hint="--to")
    replay = plan_replay(request)
    _say_plan(replay, output)
    if not replay.is_empty:
        record = replay.record
        run_job(replay.job, once=True, output=output, held=record.continued, from_first=record.from_first)
    _end(replay, replay.finish(), output)


def _point(name: str, text: str | None) -> GtidPoint | None:
    from binlog_format.gtids.gtid_set import parse_gtids

    try:
        return None if text is None else parse_gtids(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=name) from error


def _say_plan(replay: Replay, output: Output) -> None:
    record = replay.record
    alone = [f"{database}.{table}" for database, table in record.left_alone]
    if output is Output.JSONL:
        fields = {"from": record.first, "to": record.last, "resumed": replay.is_resumed, "left_alone": alone}
        write_json_lines([{"event": "replay", "tables": len(record.tables), **fields}])
        return
    again = ", begun before" if replay.is_resumed else ""
    say(f"replay from {record.first or 'the start'} to {record.last or 'the end'}{again}")
    if alone:
        say(f"left alone, they hold it already: {', '.join(alone)}")


def _end(replay: Replay, result: ReplayResult, output: Output) -> None:
    _say_end(replay, result, output)
    if result.set_aside:
        raise typer.Exit(1)


def _say_end(replay: Replay, result: ReplayResult, output: Output) -> None:
    record, stopped = replay.record, result.set_aside
    if output is Output.JSONL:
        aside = [{"table": str(table.name), "at": table.gtid or table.position} for table in stopped]
        fields = {"gtid_position": record.last, "handed_over": record.hand_over}
        if aside:
            fields["set_aside"] = aside
        write_json_lines([{"event": "replayed", "targets": result.targets, **fields}])
        return
    set_aside = ", ".join(f"{table.name} (set aside at {table.gtid or table.position})" for table in stopped)
    end = record.last or "the end of the log"
    say(f"{count_text(result.targets, 'target')} at {end}" + (f"; not there: {set_aside}" if set_aside else ""))
    if record.hand_over:
        say(f"To continue job {replay.request.job.name!r} from there: binlog-stream run JOB.toml")
