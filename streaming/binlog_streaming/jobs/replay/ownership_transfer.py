"""The end of a replay: the job continues where it ended, `transfer_checkpoint`, or takes tables back, `give_back`."""

from __future__ import annotations

import errno
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from binlog_connector.schema.definitions import TableName
from binlog_format.errors import OptionError
from binlog_format.position import Place
from binlog_streaming.job_state.checkpoint import read_checkpoint
from binlog_streaming.job_state.record_keeper import RecordKeeper
from binlog_streaming.job_state.state_files import state_of
from binlog_streaming.jobs.replay.record import RECORD_FILE, ReplayCheckpoint
from binlog_streaming.jobs.replay.tables import ReplayTables
from binlog_streaming.plan.table_selection import TableSelection
from binlog_streaming.settings.choices import OnError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_streaming.jobs.replay.record import ReplayRecord
    from binlog_streaming.settings.choices import Mode
    from binlog_streaming.settings.model import Job


def transfer_checkpoint(
    job: Job, replay_job: Job, tables: tuple[tuple[str, str], ...], targets: Iterable[tuple[str, str, Mode]]
) -> None:
    """Make *job* continue where a replay ended: the replay's checkpoint becomes that of the job.

    Args:
        job: It has no checkpoint.
        replay_job: It has been run.
        tables: Those that it is about: database and name.
        targets: Those of them that exist: database, name, mode.
    """
    checkpoint = replay_job.checkpoint
    known = read_checkpoint(state_of(replay_job))
    assert known is not None, "a job that has run once has a checkpoint"
    assert known.offset is not None, "without one the job would begin at its start again"
    built = RecordKeeper(replay_job)
    built.changes()
    # The settings in its record are those of the replay.
    keeper = RecordKeeper(msgspec.structs.replace(job, checkpoint=checkpoint))
    keeper.inherit(built.record)
    keeper.record_batch(tables, targets)
    _move(Path(checkpoint), Path(job.checkpoint))
    ReplayCheckpoint(state_of(job)).forget(RECORD_FILE)


def _move(source: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(source, to)  # noqa: PTH104 (onto an empty folder too)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        near = to.with_name(f"{to.name}.new")
        shutil.copytree(source, near, dirs_exist_ok=True)
        os.rename(near, to)  # noqa: PTH104
        shutil.rmtree(source)


def set_aside_by(job: Job) -> tuple[Job, GtidPoint]:
    """The job of those tables alone that *job* set aside, and up to where *job* has come.

    Raises:
        OptionError: `INVALID_VALUE`: there are none, or *job* is within a batch.
        BinlogError: What its record and its checkpoint raise.
    """
    keeper, checkpoint = RecordKeeper(job), read_checkpoint(state_of(job))
    keeper.changes()
    names = [one.name for one in keeper.record.set_aside]
    if checkpoint is None or checkpoint.offset is None or not names:
        raise OptionError("INVALID_VALUE", "--set-aside: the job has set no table aside", at=Place(job.checkpoint))
    if checkpoint.pending is not None:
        raise OptionError(
            "INVALID_VALUE",
            f"--set-aside: the job was cut off within batch {checkpoint.batch_id}",
            at=Place(job.checkpoint),
            hint="Let it finish the batch first: binlog-stream run JOB.toml --once",
        )
    selected = TableSelection(job.tables, job.source.exclude_tables)
    rules = ((name, selected.rule(name)) for name in names)
    tables = tuple(msgspec.structs.replace(rule, select=re.escape(str(name))) for name, rule in rules if rule)
    end = checkpoint.offset.gtid.advanced_by(checkpoint.offset.skip_gtid)
    return msgspec.structs.replace(job, tables=tables, on_error=OnError.STOP), end


def give_back(job: Job, replay_job: Job, record: ReplayRecord) -> int:
    """Return tables that a replay has brought to the position of *job* to it.

    Args:
        job: It set them aside.
        replay_job: It has been run.
        record: Of the replay; it is removed.

    Returns:
        How many targets they have.
    """
    owner = read_checkpoint(state_of(job))
    assert owner is not None, "a job that set tables aside has a checkpoint"
    tables, built = ReplayTables(replay_job, [TableName(*name) for name in record.tables]), RecordKeeper(replay_job)
    tables.record_position(record.last, record.query_id)
    tables.transfer(tables.there(), owner.query_id)
    tables.go_on(owner.query_id)
    there = [(one.name.database, one.name.table, one.mode) for one in tables.there()]
    built.changes()
    keeper = RecordKeeper(job)
    keeper.changes()
    keeper.resume_tables(built.record, there)
    ReplayCheckpoint(state_of(replay_job)).remove()
    return len(there)
