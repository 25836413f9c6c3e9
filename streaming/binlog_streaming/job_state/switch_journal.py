"""The journal of a switch to another server's log: `SwitchJournal`; whoever works with the job next completes it.

A switch changes several files of a checkpoint. So all that it will change is first written into one file, at once:
before that nothing has happened, after that it happens, whenever the process ends.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from binlog_connector.crash_points import reached
from binlog_connector.following.kept_definitions import KeptDefinitions  # noqa: TC001 - msgspec looks it up
from binlog_connector.following.offsets import SourceOffset
from binlog_format.errors import OptionError
from binlog_format.position import Place
from binlog_streaming.job_state.checkpoint import begin_batch, end_batch, read_checkpoint
from binlog_streaming.job_state.record import RECORD_FILE
from binlog_streaming.settings.model import KEPT_DEFINITIONS_FILE

if TYPE_CHECKING:
    from binlog_streaming.job_state.checkpoint import StateFolder

JOURNAL_FILE = "binlog-stream-switch.json"
"""Journal in the checkpoint's directory; Spark ignores it."""
VERSION = 1


class SwitchStep(StrEnum):
    """Step of a switch that was just finished; the process may end between any two steps."""

    JOB_FILE = "job file"
    """The job file names the other log."""
    JOURNAL = "journal"
    """The journal is there: the switch has been decided."""
    DEFINITIONS = "definitions"
    """Definitions of tables are those of the other log's place."""
    OFFSET = "offset"
    """The batch without changes that leads to the other log has begun."""
    COMMIT = "commit"
    """The job is at the other log's place."""
    RECORD = "record"
    """The job's record names the other log."""


class SwitchJournal(msgspec.Struct, frozen=True, kw_only=True):
    """A switch that has been decided.

    Attributes:
        before: The job's offset in the log so far, as `SourceOffset.to_json` gives it.
        after: Its offset in the other log.
        definitions: Definitions of its tables there; None: it keeps none.
    """

    path: str
    before: dict[str, int | str]
    after: dict[str, int | str]
    definitions: KeptDefinitions | None
    version: int = VERSION

    def __post_init__(self) -> None:
        """Check what a file may have wrong; its reader names the error."""
        if self.version > VERSION:
            raise ValueError(f"version {self.version}, this program reads up to {VERSION}")
        _ = self.offsets

    @property
    def offsets(self) -> tuple[SourceOffset, SourceOffset]:
        """`before` and `after`."""
        return SourceOffset.from_json(self.before), SourceOffset.from_json(self.after)


def read_journal(state: StateFolder) -> SwitchJournal | None:
    """Read the journal of a switch that is not complete; None: there is none."""
    hint = "It was damaged, or written by a later version: complete the switch with that one"
    return state.decoded(JOURNAL_FILE, SwitchJournal, "the journal of a switch", hint)


def write_journal(state: StateFolder, journal: SwitchJournal) -> None:
    """Decide a switch. Raises `StorageError` or `AccessError`: it cannot be written, and nothing has happened."""
    state.write(JOURNAL_FILE, msgspec.json.encode(journal))
    reached(SwitchStep.JOURNAL)


def complete_switch(state: StateFolder) -> None:
    """Complete the switch of a job with tables, if one has been decided; whoever calls this has the job's lock."""
    journal = read_journal(state)
    if journal is None:
        return
    checkpoint = read_checkpoint(state)
    if checkpoint is None or checkpoint.batch_id is None or checkpoint.offset is None:
        raise OptionError(
            "INVALID_VALUE",
            f"a switch to {journal.path} was decided, and the checkpoint that it is about is not there any more",
            at=Place(f"{state.directory}/{JOURNAL_FILE}"),
            hint="Bring the checkpoint back; or delete this file too, to begin anew",
        )
    keep_moved_definitions(state, journal)
    after = journal.offsets[1]
    if checkpoint.offset != after:
        # As Spark writes a batch: one in which nothing of the log is read.
        begin_batch(state, checkpoint.batch_id + 1, after)
        reached(SwitchStep.OFFSET)
        end_batch(state, checkpoint.batch_id + 1)
        reached(SwitchStep.COMMIT)
    end_switch(state, journal)


def keep_moved_definitions(state: StateFolder, journal: SwitchJournal) -> None:
    """Keep what defines the job's tables at the place in the other log."""
    if journal.definitions is None:
        state.forget(KEPT_DEFINITIONS_FILE)
    else:
        state.write(KEPT_DEFINITIONS_FILE, msgspec.json.encode(journal.definitions))
    reached(SwitchStep.DEFINITIONS)


def end_switch(state: StateFolder, journal: SwitchJournal) -> None:
    """Put the other log's path into the job's record, and remove the journal: the job is at its place there."""
    record_path(state, journal.path)
    reached(SwitchStep.RECORD)
    state.forget(JOURNAL_FILE)


def record_path(state: StateFolder, path: str) -> None:
    """Put the path of the log into the job's record, of whatever kind the job is."""
    content = state.read(RECORD_FILE)
    if content is not None:
        record = msgspec.json.decode(content) | {"path": path}
        state.write(RECORD_FILE, msgspec.json.format(msgspec.json.encode(record), indent=2))
