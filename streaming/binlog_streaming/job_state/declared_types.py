"""Use of the declared types in a job's columns: `with_declared_types(job)`.

A UUID, INET4, INET6 or VECTOR of MariaDB is a binary string to its table map. Jobs used to keep these bytes, and one
that has begun so goes on so: its tables have such columns. A new one keeps what statements in the log declare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from binlog_streaming.job_state.checkpoint import read_checkpoint
from binlog_streaming.job_state.record import DECLARED_TYPES, RECORD_FILE, JobRecord
from binlog_streaming.job_state.state_files import state_of

if TYPE_CHECKING:
    from binlog_streaming.settings.model import Job


def with_declared_types(job: Job) -> Job:
    """The same job with `source.declaredTypes`, as it was begun where the job file leaves it open.

    Raises:
        OptionError: `INVALID_VALUE`: the checkpoint is none.
        BinlogError: It cannot be read.
    """
    if job.source.declared_types is not None:
        return job
    source = msgspec.structs.replace(job.source, declared_types=_was_begun_with(job))
    return msgspec.structs.replace(job, source=source)


def _was_begun_with(job: Job) -> bool:
    state = state_of(job)
    checkpoint = read_checkpoint(state)
    if checkpoint is None or (checkpoint.pending or checkpoint.offset) is None:
        return True
    content = state.read(RECORD_FILE)
    if content is None:
        return False  # of a version that kept no record
    try:
        return msgspec.json.decode(content, type=JobRecord).options.get(DECLARED_TYPES) == "true"
    except msgspec.MsgspecError:
        return False  # `RecordKeeper` names what is wrong with it
