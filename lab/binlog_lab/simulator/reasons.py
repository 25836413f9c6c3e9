"""Reasons that a life has for errors: `Reasons`, which sees whether what an error states is true."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from binlog_format.classic.layout import MAGIC_SIZE
from binlog_format.errors import BinlogError, CorruptError, DataLossError, SwitchError
from binlog_lab.simulator.topics.model_broker import LATE, STILL_ENDING
from binlog_lab.simulator.verdict import DefectError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from binlog_lab.simulator.server import ModelServer
    from binlog_lab.simulator.visible_folder import VisibleFolder

_OF_LOSS = frozenset({"BINLOG_TABLE.INCOMPLETE", "BINLOG_START.POSITION_NOT_FOUND"})
"""The log that the job saw first had lost its beginning; or the other one ends before a batch that was begun."""

_OF_OTHER_PAST = frozenset({"BINLOG_TABLE.CONTRADICTED", "BINLOG_TABLE.KEYS_CHANGED"})
"""The job had taken what a crash took back; an old state of its file, or another server, has others of the same
numbers."""
_SHORTER = "BINLOG_DATA_LOSS.TRUNCATED_TRANSACTION"
"""The log is shorter while the new bytes of a page are there in part."""
_MISSING_GTIDS = "BINLOG_SWITCH.MISSING_GTIDS"
_OF_TORN = frozenset({_SHORTER, _MISSING_GTIDS})
"""The last page is taken for one that is not there."""
_OF_PARTS = frozenset(
    {
        *(_SHORTER, "BINLOG_DATA_LOSS.FILE_PURGED", "BINLOG_CORRUPT.HEADER"),
        *(f"BINLOG_CORRUPT.{what}" for what in ("BAD_CHUNK", "BAD_EVENT", "EVENT_CHECKSUM", "PAGE_CHECKSUM")),
    }
)
"""A later file shows that there is more than the reader sees of an earlier one, one that is gone is seen and not the
next one, or a file has bytes of two."""
_WITHIN_BATCH = "BINLOG_SWITCH.WITHIN_BATCH"
"""The job was killed in a batch, and the log that has the rest of it is gone, or lost the end."""
_NO_GTIDS = "BINLOG_SWITCH.NO_GTIDS"
_WITHOUT_GTIDS = frozenset({_NO_GTIDS, "BINLOG_DATA_LOSS.FILE_PURGED"})
"""A job that has an offset, and has taken no group yet, is to go on in another log, or its file is gone: nothing tells
whether there were groups."""
_NO_FILES = "BINLOG_START.NO_LOG_FILES"
"""Files of which nothing is there yet are no log yet, nor is a first one without the GTIDs before it."""
_OTHER_KIND = "BINLOG_OPTION.INVALID_VALUE"
_OF_MEANWHILE = frozenset({"BINLOG_SWITCH.PURGED", _MISSING_GTIDS, _NO_FILES, _OTHER_KIND})
"""Files went, or their pages were written, between two looks: of a switch, or at a log of which all went; the last
one for GTIDs of another vendor than a first file has of which only a part is there."""

_JOB_CHANGED = "BINLOG_SWITCH.JOB_CHANGED"
_OF_LATE_COMMIT = frozenset({_JOB_CHANGED, _NO_GTIDS, "BINLOG_SWITCH.PURGED"})
"""A switch was planned while a commit was decided, and not to be read yet; it may be the first one with a GTID."""
OF_FAULTS = frozenset(
    {
        *("BINLOG_STORAGE.NO_SPACE", "BINLOG_STORAGE.FAILED", "BINLOG_TABLE.WRITE_FAILED"),
        *("BINLOG_KAFKA.UNREACHABLE", "BINLOG_KAFKA.FAILED", "BINLOG_KAFKA.TRANSACTION_OPEN"),
        *("BINLOG_REGISTRY.UNREACHABLE", _JOB_CHANGED),
    }
)
"""Errors for a disk, a broker or a registry that fails; the last one for a commit that arrived late."""
_OF_LOST_OFFSET = frozenset({"BINLOG_OPTION.INVALID_VALUE", "BINLOG_TABLE.CHECKPOINT_BEHIND"})
"""A switch is decided, and the offset that it is about is not there; or tables have the batch that ended there."""
_OTHER_PUBLISHER = "BINLOG_KAFKA.OTHER_PUBLISHER"
_OF_LOST_TOPICS = frozenset({"BINLOG_KAFKA.OFFSETS_LOST", "BINLOG_KAFKA.TOPIC_NOT_FOUND"})


@dataclass(slots=True)
class Reasons:
    """Events of a life that an error may be about.

    Attributes:
        view: The log as the job sees it.
        may_have_lost: The log may have lost groups that the job has taken, or has been reading.
        began_late: The log had lost its beginning before the job saw it.
        is_stale: The job sees something of an earlier file, or of one that is gone.
        has_changed_meanwhile: Files have, while the job reads.
        is_torn: The last page is: the job sees only a part of its new bytes.
        rotten: Folders of servers with a damaged file.
        has_lost_topics: The broker has.
        has_lost_offset: A loss of power has taken a file with an offset, whose name could not be forced to the disk.
        is_old_log_cut: The log that the job was in lacks what it had not read: it is purged, gone, torn at its end, or
            seen as it was before.
        began_at: Number of the last group before the log, where nobody is to read it.
        is_purged: True if something is gone for good that is needed after a group with a number.
    """

    server: ModelServer
    view: VisibleFolder
    may_have_lost: bool = False
    began_late: bool = False
    is_stale: bool = False
    has_changed_meanwhile: bool = False
    is_torn: bool = False
    rotten: list[VisibleFolder] = field(default_factory=list)
    is_old_log_cut: bool = False
    has_lost_topics: bool = False
    has_lost_offset: bool = False
    began_at: int = 0
    is_purged: Callable[[int], bool] = field(init=False)

    def __post_init__(self) -> None:
        server = self.server
        self.is_purged = lambda taken: server.purged_to > max(taken, self.began_at) or server.is_out_of_reach(taken)

    def is_last(self, error: BinlogError, taken: int, faults: Sequence[str], *, clean: bool) -> bool:
        """True if the job cannot go on after *error*; False: the next run may.

        Args:
            taken: Number of the last group that the job has taken.
            faults: What has happened in the run.
            clean: Faults have ended.
        """
        if (faults and not clean and error.condition in OF_FAULTS) or self._is_late_commit(error, faults):
            return False
        if any("another publisher" in fault for fault in faults):
            if error.condition == _OTHER_PUBLISHER:
                return False
            if error.condition == _MISSING_GTIDS:
                return True  # the other one has published what the log so far has, and the new one lacks
        if error.condition in _OF_LOST_TOPICS and self.has_lost_topics:
            return True
        if self.has_changed_meanwhile and (isinstance(error, DataLossError) or error.condition in _OF_MEANWHILE):
            return False  # a file went while it was read; the next run tells whether anything is lost
        if self._is_rotten_at(error):
            return True
        if self._is_lost(taken) and (isinstance(error, DataLossError | SwitchError) or error.condition in _OF_LOSS):
            return True
        if self._is_last_of_its_kind(error.condition, taken):
            return True
        if (error.condition in _OF_PARTS and self.is_stale) or (error.condition in _OF_TORN and self.is_torn):
            return False  # once faults end, all of it is seen
        if error.condition == _NO_FILES and not self._has_start() and (self.rotten or not clean):
            return bool(self.rotten)
        raise DefectError(f"an error whose reason is not true: {error}") from error

    @staticmethod
    def _is_late_commit(error: BinlogError, faults: Sequence[str]) -> bool:
        late = [fault for fault in faults if STILL_ENDING in fault or LATE in fault]
        return error.condition in _OF_LATE_COMMIT and bool(late)

    def _is_last_of_its_kind(self, condition: str, taken: int) -> bool:
        return (
            (condition in (_WITHIN_BATCH, _SHORTER) and self.is_old_log_cut)
            or (condition in _WITHOUT_GTIDS and not taken)
            or (condition in _OF_OTHER_PAST and self.may_have_lost)
            or (condition in _OF_LOST_OFFSET and self.has_lost_offset)
        )

    def _is_rotten_at(self, error: BinlogError) -> bool:
        """True if a bit is damaged where *error* states that something is, or what it states follows from one."""
        if not self.rotten or not isinstance(error, CorruptError | DataLossError | SwitchError):
            return False
        at, size = error.at, self.server.log.page_size
        return at is None or not isinstance(error, CorruptError) or any(one.is_damaged(at, size) for one in self.rotten)

    def _has_start(self) -> bool:
        """True if the job sees all of the first file, and so much of one that its format shows."""
        if self.view.is_first_cut(self.server.log.page_size):
            return False
        paths = sorted(self.view.path.iterdir())
        page_size = self.server.log.page_size
        if page_size is not None:  # the list of GTIDs before an `.ibb` log is in the page after the header
            is_whole = (self.view.rotten.get(path.name, (2 * page_size, 0))[0] >= 2 * page_size for path in paths[:1])
            return any(is_whole) and not self.is_torn
        whole = (path for path in paths if self.view.rotten.get(path.name, (MAGIC_SIZE, 0))[0] >= MAGIC_SIZE)
        return any(path.stat().st_size >= MAGIC_SIZE for path in whole)

    def _is_lost(self, taken: int) -> bool:
        """True if a group is gone that the job had not taken, or that it had taken, or seen."""
        return self.is_purged(taken) or self.may_have_lost or self.began_late
