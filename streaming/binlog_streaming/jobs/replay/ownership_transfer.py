"""The end of a replay after which the job goes on: `transfer_checkpoint`."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from binlog_streaming.job_state.checkpoint import read_checkpoint
from binlog_streaming.job_state.record_keeper import RecordKeeper
from binlog_streaming.job_state.state_files import state_of
from binlog_streaming.jobs.replay.record import RECORD_FILE, ReplayCheckpoint

if TYPE_CHECKING:
    from collections.abc import Iterable

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
