"""The job of `binlog-stream mirror`: `mirror_job(path, directory)`, and `remember(job)`, which keeps it the same.

A folder belongs to one job: with other tables or another mode, tables would begin in the middle of the log. Commands
that take a job file take such a folder, or URL, too: `job_at(place)`.

The job of `binlog-stream publish LOG --to HOST:PORT/PREFIX`: `publish_job`, and `write_down(job)`.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from binlog_format.errors import OptionError, storage_error
from binlog_format.position import Place
from binlog_format.source_file import with_places
from binlog_streaming.job_state.checkpoint import StateFolder, read_checkpoint, state_of
from binlog_streaming.job_state.record import with_declared_types
from binlog_streaming.settings import PublishJob, check_job_values, load_any_job, load_job, parse_job
from binlog_streaming.settings.choices import DEFAULT_FORMAT, Mode, OnError, TableFormat
from binlog_streaming.settings.model import Job, Sink, Source, TableRule
from binlog_streaming.settings.publish_model import OFFSETS_TOPIC, FollowedSource, KafkaSink, TopicRule
from binlog_streaming.settings.source_texts import publish_job_text
from binlog_streaming.settings.text import job_text
from binlog_streaming.topics.record import begun_with, check_log, check_same

if TYPE_CHECKING:
    from binlog_streaming.settings.job_file import AnyJob


SYSTEM_DATABASES = ("mysql", "sys")
"""Databases of the server's own tables whose changes may be logged: by a load of time zones, by RDS's heartbeat."""
SYSTEM_TABLES = ",".join(rf"{database}\..*" for database in SYSTEM_DATABASES)
"""Their tables, as `excludeTables` has them."""
ALL_TABLES = ".*"
"""Selection of a command to which no other is given."""
OWN_FOLDER = ".binlog-stream"
"""Own folder in the target directory. No database has a dot in its folder's name: there it is written otherwise."""

_FILE = "job.toml"
"""In the own folder; of a job that publishes, in the checkpoint's folder."""


def mirror_job(
    path: str,
    directory: str,
    *,
    checkpoint: str | None = None,
    exclude_tables: str | None = None,
    table_format: TableFormat = DEFAULT_FORMAT,
    rule: TableRule | None = None,
    on_error: OnError = OnError.STOP,
) -> Job:
    """A job that keeps every wanted table of the log at *path* in *directory*`/<database>/<table>`.

    Args:
        directory: Of the tables; folder or URL.
        checkpoint: Folder of the checkpoint; None: the one that the directory's job has, or `default_checkpoint`.
        exclude_tables: None: where all tables are wanted, the server's own, unless a job before them had these.
        on_error: What becomes of the job when one of its tables cannot go on.
    """
    target = absolute_path(directory)
    rule = rule or TableRule()
    known = remembered(target)
    if exclude_tables is None and rule.select == ALL_TABLES and (known is None or known.source.exclude_tables):
        exclude_tables = SYSTEM_TABLES
    if checkpoint is None:
        checkpoint = default_checkpoint(target) if known is None else known.checkpoint
    job = Job(
        name="mirror",
        source=Source(path=with_places(path, absolute_path), exclude_tables=exclude_tables),
        on_error=on_error,
        tables=(rule,),
        sink=Sink(directory=target, format=table_format),
        checkpoint=absolute_path(checkpoint),
    )
    names = {"tables[0].mode": "--mode", "tables": "--tables", "source.excludeTables": "--exclude-tables"}
    check_job_values(job, names)
    return job


def default_checkpoint(directory: str) -> str:
    """Default place of the checkpoint: in the folder of the tables.

    Spark writes it, and without jars of its own it knows no object store; so for tables in one it is among the user's
    own state (`$XDG_STATE_HOME`, else `~/.local/state`).
    """
    if "://" not in directory:
        return f"{directory}/{OWN_FOLDER}/checkpoint"
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    digest = hashlib.blake2b(directory.encode(), digest_size=4).hexdigest()
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", directory)
    return absolute_path(f"{home}/binlog-stream/{name}-{digest}")


def remembered(directory: str) -> Job | None:
    """The job that a folder or URL belongs to, as it was written down there, wherever the folder is now; None: none.

    Raises:
        OptionError: `INVALID_VALUE`: it is none.
    """
    content = _own_folder(directory).read(_FILE)
    if content is None:
        return None
    job = parse_job(content.decode(), file=Path(f"{directory}/{OWN_FOLDER}/{_FILE}"))
    moved = msgspec.structs.replace(job, sink=msgspec.structs.replace(job.sink, directory=directory))
    if job.checkpoint != default_checkpoint(job.sink.directory):
        return moved
    return msgspec.structs.replace(moved, checkpoint=default_checkpoint(directory))


def job_at(place: str) -> Job:
    """The job of a job file whose sink are tables; or the one that a folder or URL of `mirror` belongs to.

    It states what its columns become, as it was begun (`with_declared_types`).
    """
    return with_declared_types(load_job(Path(place)) if _is_job_file(place) else _job_of_folder(place))


def any_job_at(place: str) -> AnyJob:
    """The same for jobs with any source and sink."""
    job = load_any_job(Path(place)) if _is_job_file(place) else _job_of_folder(place)
    return with_declared_types(job) if isinstance(job, Job) else job


def job_text_at(place: str) -> str:
    """Text of the job file at *place*, where `any_job_at` has found a job."""
    if not _is_job_file(place):
        return (_own_folder(absolute_path(place)).read(_FILE) or b"").decode()
    try:
        return Path(place).read_text(encoding="utf-8")
    except OSError as error:
        raise storage_error(place, "read", error) from error


def write_job_text(place: str, text: str) -> None:
    """Put *text* in the place of the job file's, at once; who may read and write it stays."""
    if _is_job_file(place):
        file = Path(place).resolve()
        try:
            mode = file.stat().st_mode
            StateFolder(str(file.parent), {}).write(file.name, text.encode())
            file.chmod(mode)
        except OSError as error:
            raise storage_error(place, "write", error) from error
    else:
        _own_folder(absolute_path(place)).write(_FILE, text.encode())


def _is_job_file(place: str) -> bool:
    return "://" not in place and not Path(place).is_dir()


def _job_of_folder(place: str) -> Job:
    job = remembered(absolute_path(place))
    if job is None:
        raise OptionError(
            "INVALID_VALUE",
            f"expected a job file, or a folder of binlog-stream mirror: there is no {OWN_FOLDER}/{_FILE}",
            at=Place(place),
        )
    return job


def remember(job: Job) -> None:
    """Write down what *job* is, or see that it is what was written down.

    A try that ended before it had written a table leaves the folder free: with other options it is begun anew.

    Raises:
        OptionError: `INVALID_VALUE`: the folder belongs to a job with other options.
    """
    try:
        known = remembered(job.sink.directory)
        if known is not None:
            _compare(known, job)
    except OptionError:
        if _has_tables(job):
            raise
        # Where the try would have gone on is not for these options; a folder that is no checkpoint is not ours.
        is_ours = job.checkpoint == default_checkpoint(job.sink.directory)
        if is_ours or read_checkpoint(state_of(job)) is not None:
            state_of(job).remove()
        known = None
    if known is None or known.checkpoint != job.checkpoint:
        _own_folder(job.sink.directory).write(_FILE, job_text(job).encode())


def _own_folder(directory: str) -> StateFolder:
    # Access to an object store comes from the environment: `mirror` has no job file to name it in.
    return StateFolder(f"{directory}/{OWN_FOLDER}", {})


def _has_tables(job: Job) -> bool:
    """True if a batch was finished, or the folder contains more than its own."""
    checkpoint = read_checkpoint(state_of(job))
    if checkpoint is not None and checkpoint.batch_id is not None:
        return True
    names = StateFolder(job.sink.directory, job.sink.storage).names("")
    return any(not name.startswith(f"{OWN_FOLDER}/") for name in names)


def _compare(known: Job, job: Job) -> None:
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
                at=Place(f"{job.sink.directory}/{OWN_FOLDER}/{_FILE}"),
                hint="Mirror into another folder, or give the same options; what begins later would miss the past",
            )


def _shown(value: str | Mode | tuple[Mode, ...] | None) -> str:
    return "nothing" if value is None else repr(str(value)) if isinstance(value, str) else repr(value)


def absolute_path(path: str) -> str:
    """*path* from the root on; a URL stays as it is."""
    return path.rstrip("/") if "://" in path else os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111


PARTITIONS = 1
"""Number of partitions of the topics that the job creates: one keeps all changes of a table in order."""


def publish_job(path: str, to: str, *, tables: str | None = None, exclude_tables: str | None = None) -> PublishJob:
    """A job that publishes the log at *path*, exactly once, to topics that it creates.

    Args:
        to: `host:port/prefix`; several brokers with commas before the slash.
        tables: Which tables; None: all but the server's own.
    """
    servers, slash, prefix = to.removeprefix("kafka://").partition("/")
    if not slash or not prefix:
        raise OptionError(
            "INVALID_VALUE",
            f"--to: expected HOST:PORT/PREFIX, got {to!r}",
            hint="For example 127.0.0.1:9092/shop: the topics are shop.<database>.<table>",
        )
    if tables is None and exclude_tables is None:
        exclude_tables = SYSTEM_TABLES
    sink = KafkaSink(
        kind="kafka", bootstrap_servers=servers, topic_prefix=prefix, partitions=PARTITIONS, offsets_topic=OFFSETS_TOPIC
    )
    job = PublishJob(
        name=prefix,
        source=FollowedSource(path=with_places(path, absolute_path), exclude_tables=exclude_tables),
        sink=sink,
        checkpoint=default_checkpoint(f"kafka://{servers}/{prefix}"),
        tables=(TopicRule(select=tables or ALL_TABLES),),
    )
    names = {"sink": "--to", "tables": "--tables", "source.excludeTables": "--exclude-tables"}
    check_job_values(job, names)
    record = begun_with(job)
    if record is not None:  # one of an older version has its offsets elsewhere
        offsets = msgspec.structs.replace(sink, offsets_topic=record.offsets_topic)
        job = msgspec.structs.replace(job, sink=offsets)
    return job


def write_down(job: PublishJob) -> str:
    """Write *job* beside its checkpoint as a job file; its path."""
    record = begun_with(job)
    if record is not None:
        check_same(record, job)
        check_log(record, job, None)
    state_of(job).write(_FILE, publish_job_text(job).encode())
    return f"{job.checkpoint}/{_FILE}"
