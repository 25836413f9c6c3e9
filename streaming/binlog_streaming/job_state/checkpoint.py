"""Progress of a job, from Spark's checkpoint: `read_checkpoint(state)`.

What else writes the tables of a job does so as a batch of it, in which nothing of the log is read: `begin_query`, then
`begin_batch` and `end_batch` write the files that Spark writes, in its order. A batch that has begun and not ended is
done again by Spark, which then has nothing to do.

Small files that jobs keep their state in, in a folder or an object store: `StateFolder(directory, storage)`.

State of a job without Spark, in its checkpoint: `BatchState`; `BatchStateFile` keeps it.

A batch is written down before anything of it is in a table, so that it can be done again, with the same number and the
same content, and once more when all of it is. Between the two lies whatever ended the process.
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import msgspec

from binlog_connector.crash_points import reached
from binlog_connector.following.offsets import SourceOffset
from binlog_format.errors import AccessError, OptionError, StorageError, storage_error
from binlog_format.messages import visible_json
from binlog_format.position import Place
from binlog_streaming.lake.table_places import store_at
from binlog_streaming.settings.publish_model import PublishJob
from binlog_streaming.settings.source_models import EventTablesJob, TopicTablesJob

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from binlog_format.errors import BinlogError
    from binlog_streaming.settings.job_file import AnyJob


_VERSION = "v1"
_NO_SETTINGS = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'
_ENDED = '{"nextBatchWatermarkMs":0}'
_HEADER_LINES = 2
"""Lines before the offsets in a file in `offsets`: the version of the file, and the batch's time and settings."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Contents of a checkpoint.

    Attributes:
        query_id: Of the streaming query; tables remember it.
        batch_id: The last batch that was written as a whole; None: none was.
        offset: Where that batch ended, and the next one begins.
        pending: Where the batch ends that was begun after it; it will be done again. None: none was begun.
        unplaced: Number of the newest batch that was written, and whose place the checkpoint lacks; None: none is.
    """

    query_id: str
    batch_id: int | None
    offset: SourceOffset | None
    pending: SourceOffset | None
    unplaced: int | None = None


def read_checkpoint(state: StateFolder) -> Checkpoint | None:
    """Read *state*, the checkpoint's directory; None: there is no checkpoint yet."""
    metadata = state.read("metadata")
    if metadata is None:
        return None
    try:
        query_id = str(json.loads(metadata)["id"])
        ended = _numbers(state, "commits")
        begun = max(_numbers(state, "offsets"), default=None)
        # A loss of power may take back the file that begins a batch, and leave the one that ends it.
        batch_id = max((number for number in ended if begun is not None and number <= begun), default=None)
        newest = max(ended, default=None)
        if begun is not None and begun > (-1 if batch_id is None else batch_id):
            # As for Spark: a batch is begun when the one before has ended.
            batch_id = begun - 1 if begun else None
        return Checkpoint(
            query_id,
            batch_id,
            None if batch_id is None else read_offset(state, batch_id),
            None if begun is None or begun == batch_id else read_offset(state, begun),
            newest if newest is not None and (begun is None or newest > begun) else None,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise OptionError(
            "INVALID_VALUE",
            f"not the checkpoint of a stream from a log: {error}",
            at=Place(state.directory),
            hint="Name another directory as checkpoint; a new one begins a new job",
        ) from error


def begin_query(state: StateFolder) -> str:
    """The id of the query whose checkpoint this is; where there is none yet, it gets one, and begins with no batch."""
    known = read_checkpoint(state)
    if known is not None:
        return known.query_id
    query_id = str(uuid.uuid4())
    state.write("metadata", json.dumps({"id": query_id}).encode())
    return query_id


def begin_batch(state: StateFolder, batch_id: int, offset: SourceOffset) -> bool:
    """Begin a batch that ends at *offset*; False: somebody else has begun it."""
    before = state.read(f"offsets/{batch_id - 1}")
    settings = _NO_SETTINGS if before is None else before.decode().splitlines()[1]
    content = "\n".join((_VERSION, settings, json.dumps(offset.to_json(), separators=(",", ":"))))
    return state.create(f"offsets/{batch_id}", content.encode())


def end_batch(state: StateFolder, batch_id: int) -> None:
    """A batch is written as a whole."""
    state.create(f"commits/{batch_id}", f"{_VERSION}\n{_ENDED}".encode())


def read_offset(state: StateFolder, batch_id: int) -> SourceOffset | None:
    """Read the end of a batch; None: the checkpoint does not have it."""
    content = state.read(f"offsets/{batch_id}")
    if content is None:
        return None
    lines = content.decode().splitlines()[_HEADER_LINES:]
    if len(lines) != 1:
        raise ValueError(f"offsets/{batch_id}: expected one source, got {len(lines)}")
    return SourceOffset.from_json(json.loads(lines[0]))


def _numbers(state: StateFolder, folder: str) -> list[int]:
    return [int(number) for number in state.names(folder) if number.isdecimal()]


_Content = TypeVar("_Content")


class StateFolder:
    """A directory of such files, which this user alone may read; it need not be there.

    Args:
        directory: Folder or URL.
        storage: Access to an object store, as for tables.
    """

    def __init__(self, directory: str, storage: Mapping[str, str]) -> None:
        self.directory = directory
        self._store = store_at(directory.rstrip("/"), storage, is_private=True)

    def read(self, name: str) -> bytes | None:
        """Content of a file; None: it is not there."""
        try:
            return self._store.read(name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise storage_error(f"{self.directory}/{name}", "read", error) from error

    def decoded(self, name: str, kind: type[_Content], title: str, hint: str) -> _Content | None:
        """Content of a JSON file; None: it is not there.

        Args:
            title: What the file is, for messages: `the record of a job`.
        """
        content = self.read(name)
        try:
            return None if content is None else msgspec.json.decode(content, type=kind)
        except msgspec.MsgspecError as error:
            place = Place(f"{self.directory.rstrip('/')}/{name}")
            raise OptionError("INVALID_VALUE", f"not {title}: {error}", at=place, hint=hint) from error

    def write(self, name: str, content: bytes) -> None:
        """Make a file, or put *content* in the place of what it holds; the directory is made when it is not there.

        Raises:
            StorageError, AccessError: It cannot be written; what was there before is there still.
        """
        try:
            self._store.write(name, visible_json(content) if name.endswith(".json") else content)
        except OSError as error:
            raise storage_error(f"{self.directory}/{name}", "write", error) from error

    def create(self, name: str, content: bytes) -> bool:
        """Make a file; False: there is one of this name, which stays as it is."""
        try:
            return self._store.create(name, content)
        except OSError as error:
            raise storage_error(f"{self.directory}/{name}", "write", error) from error

    def sync(self, name: str) -> None:
        """Make a file that Spark has written safe from a loss of power."""
        try:
            self._store.sync(name)
        except OSError as error:
            raise storage_error(f"{self.directory}/{name}", "write", error) from error

    def names(self, folder: str) -> Iterator[str]:
        """Files in a folder of it, those in folders there included; nothing where that is not there."""
        try:
            for file in self._store.files(folder):
                yield file.name.removeprefix(f"{folder}/")
        except OSError as error:
            raise storage_error(f"{self.directory}/{folder}", "read", error) from error

    def forget(self, name: str) -> None:
        """Remove a file, if it is there."""
        try:
            self._store.remove(name)
        except OSError as error:
            raise storage_error(f"{self.directory}/{name}", "remove", error) from error

    def remove(self) -> None:
        """Remove the directory and all that is in it, if it is there."""
        self._store.clear()


def state_of(job: AnyJob) -> StateFolder:
    """Folder of a job's state: its checkpoint, to which Spark and this program write."""
    return StateFolder(job.checkpoint, storage_of(job))


def storage_of(job: AnyJob) -> Mapping[str, str]:
    """Access to the object stores of a job; one that publishes has none."""
    return {} if isinstance(job, PublishJob) else job.sink.storage


def require_places(job: AnyJob) -> None:
    """See that this user can write where *job* writes, before the job begins."""
    for error in place_errors(job).values():
        raise error


def places_of(job: AnyJob) -> dict[str, str]:
    """Folders and URLs where *job* writes, by their setting."""
    places = {"checkpoint": job.checkpoint}
    if not isinstance(job, PublishJob):
        places["sink.directory"] = job.sink.directory
    elif job.sink.oversized.store is not None:
        places["sink.oversized.store"] = job.sink.oversized.store
    return places


def place_errors(job: AnyJob) -> dict[str, BinlogError]:
    """Errors by the setting of a place where this user cannot write, or has no room; their reasons begin with it.

    Of object stores only writing tells. A checkpoint that a job of another kind has is an error, too.
    """
    errors = _other_kind(job)
    for what, place in places_of(job).items():
        if "://" in place:
            continue
        nearest = nearest_place(place)
        if not nearest.is_dir():
            reason = f"{what}: {nearest} is a file, and no folder"
            errors[what] = StorageError("FAILED", reason, hint="Name another place, or remove it")
        elif not may_write(nearest):
            reason = f"{what}: user {os.geteuid()} may not write to {nearest}"
            errors[what] = AccessError("DENIED", reason, hint="Let it, or run the job as its owner")
        elif not _has_room(nearest):
            reason = f"{what}: there is no room left on the disk of {nearest}"
            errors[what] = StorageError("NO_SPACE", reason, hint="Make room, or name another place")
    return errors


def _other_kind(job: AnyJob) -> dict[str, BinlogError]:
    """The error for a checkpoint that a job of another kind has."""
    own = next((file for kind, file in STATE_FILES.items() if isinstance(job, kind)), DATABASE_STATE_FILE)
    for file in {DATABASE_STATE_FILE, *STATE_FILES.values()} - {own}:
        if state_of(job).read(file) is not None:
            reason = f"checkpoint: {job.checkpoint} is that of a job of another kind: it has {file}"
            return {"checkpoint": OptionError("INVALID_VALUE", reason, hint=OTHER_CHECKPOINT)}
    return {}


def _has_room(folder: Path) -> bool:
    disk = os.statvfs(folder)
    free = disk.f_bavail if os.geteuid() else disk.f_bfree
    return free > 0 or disk.f_blocks == 0  # a disk without blocks does not tell


def may_write(folder: Path) -> bool:
    """True if this process may make files in *folder*: its effective user, whom the kernel asks for when it does."""
    return os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids)


def nearest_place(place: str | Path) -> Path:
    """The folder *place*, or the nearest one above it that exists."""
    folder = Path(place)
    return next(existing for existing in (folder, *folder.parents) if existing.exists())


STATE_FILES = {EventTablesJob: "events.json", TopicTablesJob: "topics.json"}
"""Names in the checkpoint of what jobs remember, by their kind."""
DATABASE_STATE_FILE = "binlog-stream-job.json"
"""That of jobs that read the log of a database."""
VERSION = 1
OTHER_CHECKPOINT = "Name another directory as checkpoint; a new one begins a new job"
"""Hint where a checkpoint is that of another kind of job."""


class BatchStep(StrEnum):
    """Step that a job has just finished; the process may end between any two steps, and within the write of a table."""

    BEGUN = "begun"
    """The batch is in the checkpoint, and nothing of it in a table."""
    IN_TABLES = "in tables"
    """All of it is in the tables, and the checkpoint does not know."""
    FINISHED = "finished"
    """The checkpoint knows."""


class BatchState(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a job, and the settings that must not differ when it starts again.

    Attributes:
        query_id: What the job's tables know it by.
        rules: `[[tables]]`.
        batch_id: Number of the last batch; -1: there was none.
    """

    query_id: str
    directory: str
    format: str
    rules: tuple[Any, ...]
    batch_id: int = -1
    version: int = VERSION


State = TypeVar("State", bound=BatchState)


class BatchStateFile(Generic[State]):
    """The state of one job; a kind of jobs has a class of its own.

    Attributes:
        state: As it is in the checkpoint, or a new one.
        is_new: Whether the checkpoint has none.
    """

    FILE: ClassVar[str]
    """Its name in the checkpoint."""
    KIND: ClassVar[str]
    """Work of such a job: "reads ..."."""
    MIDDLE: ClassVar[str]
    """The unit in whose middle tables would begin."""

    def __init__(self, job: EventTablesJob | TopicTablesJob, kind: type[State]) -> None:
        self._folder = state_of(job)
        self._place = Place(f"{job.checkpoint}/{self.FILE}")
        kept = self._folder.decoded(self.FILE, kind, f"the checkpoint of a job that {self.KIND}", OTHER_CHECKPOINT)
        new = kind(
            query_id=str(uuid.uuid4()), directory=job.sink.directory, format=str(job.sink.format), rules=job.tables
        )
        self.is_new = kept is None
        self.state = kept or new
        for setting, was, is_now in (
            ("sink.directory", self.state.directory, new.directory),
            ("sink.format", self.state.format, new.format),
            ("tables", *map(self._lasting, (self.state.rules, new.rules))),
        ):
            if was != is_now:
                raise OptionError(
                    "INVALID_VALUE",
                    f"{setting}: this checkpoint was begun with other settings",
                    at=self._place,
                    hint=f"Tables would begin in the middle of {self.MIDDLE}: set it back, or start again with a new "
                    "checkpoint and another sink.directory",
                )

    def _lasting(self, rules: tuple[Any, ...]) -> tuple[Any, ...]:
        """*rules* without the settings that a job may change later."""
        return rules

    def begin(self, state: State) -> None:
        """Record a batch before any of it is in a table."""
        self._write(state)
        reached(BatchStep.BEGUN)

    def finish(self, state: State) -> None:
        """Record a batch after all of it is in the tables."""
        reached(BatchStep.IN_TABLES)
        self._write(state)
        reached(BatchStep.FINISHED)

    def _write(self, state: State) -> None:
        self._folder.write(self.FILE, msgspec.json.encode(state))
        self.state = state
