"""The job behind `binlog-stream mirror`: `mirror_job(path, directory)`, and `remember(job)`, which keeps it the same.

A folder belongs to one job: with other tables or another mode, tables would begin in the middle of the log.
"""

from __future__ import annotations

import os
from pathlib import Path

from binlog_format.errors import OptionError, storage_error
from binlog_format.position import Place
from binlog_streaming.checkpoint import read_checkpoint
from binlog_streaming.settings import check_job_values, parse_job
from binlog_streaming.settings_model import Job, Mode, OnError, Sink, Source, TableFormat, TableRule
from binlog_streaming.settings_text import job_text
from binlog_streaming.state_files import StateFolder

OWN_FOLDER = ".binlog-stream"
"""In the target directory. No database has a dot in its folder's name: there it is written otherwise."""

_FILE = "job.toml"


def mirror_job(
    path: str,
    directory: str,
    *,
    exclude_tables: str | None = None,
    table_format: TableFormat = TableFormat.DELTA,
    rule: TableRule | None = None,
    on_error: OnError = OnError.STOP,
) -> Job:
    """A job that keeps every wanted table of the log at *path* in *directory*`/<database>/<table>`.

    Args:
        path: Of the log.
        directory: Of the tables.
        exclude_tables: Tables to leave out.
        table_format: Of the tables.
        rule: Which tables, and how.
        on_error: What becomes of the job when one of its tables cannot go on.

    Raises:
        OptionError: `INVALID_VALUE`.
    """
    target = absolute_path(directory)
    job = Job(
        name="mirror",
        source=Source(path=absolute_path(path), exclude_tables=exclude_tables),
        on_error=on_error,
        tables=(rule or TableRule(),),
        sink=Sink(directory=target, format=table_format),
        checkpoint=f"{target}/{OWN_FOLDER}/checkpoint",
    )
    names = {"tables[0].mode": "--mode", "tables": "--tables", "source.excludeTables": "--exclude-tables"}
    check_job_values(job, names)
    return job


def remember(job: Job) -> None:
    """Write down what *job* is, or see that it is what was written down.

    A try that ended before it had written a table leaves the folder free: with other options it is begun anew.

    Raises:
        AccessError: It cannot be written.
        OptionError: `INVALID_VALUE`: the folder belongs to a job with other options.
    """
    directory = f"{job.sink.directory}/{OWN_FOLDER}"
    folder, path = StateFolder(directory), f"{directory}/{_FILE}"
    content = folder.read(_FILE)
    if content is not None:
        try:
            _compare(parse_job(content.decode(), file=Path(path)), job, path)
        except OptionError:
            if _has_tables(job):
                raise
            # Where the try would have gone on is not for these options.
            StateFolder(job.checkpoint).remove()
        else:
            return
    try:
        folder.write(_FILE, job_text(job).encode())
    except OSError as error:
        raise storage_error(path, "write", error) from error


def _has_tables(job: Job) -> bool:
    """Whether a batch was finished, or there is anything in the folder but its own."""
    checkpoint = read_checkpoint(job.checkpoint)
    if checkpoint is not None and checkpoint.batch_id is not None:
        return True
    return any(name != OWN_FOLDER for name in StateFolder(job.sink.directory).names(""))


def _compare(known: Job, job: Job, path: str) -> None:
    pairs = (
        ("PATH", known.source.path, job.source.path),
        ("--exclude-tables", known.source.exclude_tables, job.source.exclude_tables),
        ("--tables", known.tables[0].select, job.tables[0].select),
        ("--mode", known.tables[0].mode, job.tables[0].mode),
        ("--format", known.sink.format, job.sink.format),
    )
    for name, was, now in pairs:
        if was != now:
            raise OptionError(
                "INVALID_VALUE",
                f"{name}: this folder was begun with {_shown(was)}, now it is {_shown(now)}",
                at=Place(path),
                hint="Mirror into another folder, or give the same options; what begins later would miss the past",
            )


def _shown(value: str | Mode | tuple[Mode, ...] | None) -> str:
    return "nothing" if value is None else repr(str(value)) if isinstance(value, str) else repr(value)


def absolute_path(path: str) -> str:
    """*path* from the root on; a URL stays as it is."""
    return path.rstrip("/") if "://" in path else os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111
