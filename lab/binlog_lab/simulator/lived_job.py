"""The job of a life, with what it writes to: `LivedJob`; `LivedTablesJob` has tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar, cast

from binlog_format.source_file import ARCHIVE_MARK
from binlog_lab.simulator.disk import RARE_CALLS, RARE_FAULTS
from binlog_lab.simulator.scheduler import ModelSession
from binlog_lab.simulator.stores.model_bucket import BUCKET_FAULTS
from binlog_lab.simulator.verdict import TableVerdict, group_number
from binlog_streaming.job_state.checkpoint import read_checkpoint, state_of
from binlog_streaming.jobs.switch import complete_begun, job_to_switch, plan_switch
from binlog_streaming.settings import Job, PublishJob
from binlog_streaming.tables.job import TablesJob

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from binlog_connector.following.offsets import SourceOffset
    from binlog_format.errors import BinlogError
    from binlog_lab.simulator.model_tables import ModelLake
    from binlog_lab.simulator.scheduler import Conduct
    from binlog_lab.simulator.server import StateAfterGroup
    from binlog_lab.simulator.server_log import Terms
    from binlog_lab.simulator.stores.model_bucket import ModelBucket

AnyLived = TypeVar("AnyLived", Job, PublishJob)


class LivedJob(ABC, Generic[AnyLived]):
    """A job, which is run again and again.

    Args:
        terms: Servers that wrote the groups of its log.

    Attributes:
        job: Its settings, as they are now.
        name: The same, and how, for people.
        faults: Kinds of what may happen in a run, as often as they do.
        rare_calls: Calls at which faults are put on purpose.
        rare_faults: Kinds of faults, each with its call, that are put on purpose at the end of lives.
        first_calls: Calls of a run among which a fault is put, evenly; a short run has fewer, and no fault then.
        is_atomic: What it writes belongs to its offset at any time, and not only between runs.
    """

    job: AnyLived
    kind: str
    name: str
    faults: tuple[str, ...]
    first_calls: ClassVar[int] = 90
    rare_calls: tuple[str, ...] = RARE_CALLS
    rare_faults: tuple[tuple[str, str], ...]
    is_atomic: ClassVar[bool] = False

    def __init__(self, file: Path, terms: Terms) -> None:
        self._file = file
        self._terms = terms
        self._load()

    @abstractmethod
    def run(self, conduct: Conduct) -> str:
        """Let it take what is there; tells what it did."""

    @abstractmethod
    def offsets(self) -> tuple[SourceOffset | None, SourceOffset | None]:
        """Its offset, and that after what it has begun; None: there is none."""

    @abstractmethod
    def check(self, history: Mapping[int, StateAfterGroup], *, began_late: bool) -> None:
        """See that what it has written is what the server had at its offset.

        Args:
            began_late: The log had lost its beginning: changes may lack, but none may be wrong.

        Raises:
            DefectError: It is not.
        """

    @contextmanager
    @abstractmethod
    def installed(self) -> Iterator[None]:
        """Let the product write to where this life has it."""

    @abstractmethod
    def switch_to(self, path: Path, conduct: Conduct) -> None:
        """Let it go on in the log at *path*, as `binlog-stream switch` does."""

    def happen(self, kind: str, at: int) -> None:
        """Let something happen at a call of what it writes to; *kind* is one of `faults` that only such jobs have."""
        raise NotImplementedError(f"{kind} at {at}")

    def happen_at(self, kind: str, call: str) -> None:
        """Let something happen at the next call of a name; *kind* is one of `rare_faults` that only such jobs have."""
        raise NotImplementedError(f"{kind} at {call}")

    def restart(self) -> None:
        """A new process."""

    def is_set_back(self, error: BinlogError) -> bool:
        """True if *error* tells truly that its log has to be set back, and somebody has done so."""
        del error
        return False

    def move_to(self, path: Path | str) -> None:
        """Set the log at *path* in its settings, before it has begun."""
        text = self._file.read_text().replace(f'"{self.job.source.path}"', f'"{path}"')
        self._file.write_text(text)
        self._load()

    def add_archive(self, place: Path) -> None:
        """Let it read an archive, too, from now on."""
        path = f'path = "{self.job.source.path}"\n'
        self._file.write_text(self._file.read_text().replace(path, f'{path}archive = "{place}"\n'))
        self._load()

    @property
    def log(self) -> str:
        """The log that it reads, without the archive."""
        return self.job.source.path.partition(ARCHIVE_MARK)[0]

    @property
    def taken(self) -> int:
        """Number of the last group that it has taken."""
        return self._number(self.offsets()[0])

    @property
    def reached(self) -> int:
        """Number of the last group that it has taken, or begun to take."""
        return max(map(self._number, self.offsets()))

    @property
    def files_reached(self) -> set[int]:
        """Numbers of the files in which it is, or will be after what it has begun."""
        return {offset.position.file_no for offset in self.offsets() if offset is not None}

    def _number(self, offset: SourceOffset | None) -> int:
        return 0 if offset is None else group_number(str(offset.gtid), self._terms)

    def _load(self) -> None:
        self.job = cast("AnyLived", job_to_switch(str(self._file)))


class LivedTablesJob(LivedJob[Job]):
    """A job with tables.

    Args:
        lake: Where they are; None: they are Delta tables.
        bucket: The object store with its checkpoint, and with Delta tables; None: they are in folders.
    """

    faults: tuple[str, ...] = ("", "", "kill", "kill", "kill", "power", "EIO", "ENOSPC", "meanwhile", "meanwhile")
    rare_faults: tuple[tuple[str, str], ...] = (
        *RARE_FAULTS,
        *(("EIO", "commit, after"), ("ENOSPC", "commit, after")) * 2,
    )

    def __init__(self, file: Path, terms: Terms, lake: ModelLake | None, bucket: ModelBucket | None = None) -> None:
        super().__init__(file, terms)
        source = self.job.source
        self.kind = f"{'Delta' if lake is None else 'model'} tables{'' if bucket is None else ', in a bucket'}"
        if bucket is not None:
            self.faults += BUCKET_FAULTS
            self.rare_faults = (("refused", "PUT if free"), ("late", "PUT if free"), ("answers lost", "PUT if free"))
        self.name = f"{self.kind}; {source.max_bytes_per_trigger} bytes a batch"
        self._lake = lake
        self._bucket = bucket
        self._verdict = TableVerdict(self.job, lake, terms)

    def begin_with_snapshots(self) -> None:
        """Let tables begin with a snapshot; there are no changelogs, which begin with the log."""
        text = self._file.read_text().replace("[[tables]]", '[[tables]]\nbegin = "snapshot"')
        self._file.write_text(text.replace(", 'changelog'", ""))
        self._load()
        self._verdict = TableVerdict(self.job, self._lake, self._terms)

    def run(self, conduct: Conduct) -> str:
        """See `LivedJob`."""
        session = ModelSession(conduct)
        _run(self.job, session)
        return f"{session.batches} batches"

    def offsets(self) -> tuple[SourceOffset | None, SourceOffset | None]:
        """See `LivedJob`."""
        checkpoint = read_checkpoint(state_of(self.job))
        return (None, None) if checkpoint is None else (checkpoint.offset, checkpoint.pending)

    def check(self, history: Mapping[int, StateAfterGroup], *, began_late: bool) -> None:
        """See `LivedJob`."""
        self._verdict.check(history, self.taken, began_late=began_late)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """See `LivedJob`."""
        with ExitStack() as places:
            if self._lake is not None:
                places.enter_context(self._lake.installed())
            if self._bucket is not None:
                places.enter_context(self._bucket.with_faults())
            yield

    def happen(self, kind: str, at: int) -> None:
        """See `LivedJob`."""
        assert self._bucket is not None, "others have faults of the disk"
        self._bucket.happen(kind, at)

    def happen_at(self, kind: str, call: str) -> None:
        """See `LivedJob`."""
        assert self._bucket is not None, "others have faults of the disk"
        self._bucket.happen_at(kind, call)

    def switch_to(self, path: Path, conduct: Conduct) -> None:
        """See `LivedJob`."""
        complete_begun(job_to_switch(str(self._file)))
        plan = plan_switch(str(self._file), str(path))
        if not plan.is_done:
            plan.apply(lambda job: _run(job, ModelSession(conduct)))
        self._load()


def _run(job: Job, session: ModelSession) -> None:
    TablesJob(job, once=True, session=cast("SparkSession", session)).run()
