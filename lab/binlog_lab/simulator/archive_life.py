"""The life of a server whose log is archived, and of a job that reads log and archive as one: `ArchiveLife`."""

from __future__ import annotations

from contextlib import nullcontext
from random import Random
from typing import TYPE_CHECKING

from binlog_format.formats.manifest import MANIFEST_NAME, ArchivedFile, Manifest
from binlog_lab.simulator.any_life import RUNS_TO_CATCH_UP
from binlog_lab.simulator.disk import Killed
from binlog_lab.simulator.life import Life
from binlog_lab.simulator.script import Act
from binlog_lab.simulator.stores.model_bucket import BUCKET_FAULTS, URI
from binlog_lab.simulator.verdict import DefectError, group_number
from binlog_lab.simulator.visible_folder import Look
from binlog_streaming.archive.run import ArchiveRun

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.simulator.script import LifeStep, Script

_FAULTS = ("", *("kill",) * 3, "power", "EIO", "ENOSPC", "meanwhile", "meanwhile")
_FIRST_CALLS = 25
"""Calls of an archiver among which a fault is put."""
_CLAIM_FAULTS = ("kill", "power", "EIO", "ENOSPC")
_BUCKET_CLAIM_FAULTS = ("refused", "late", "answers lost")
_PURGE_SHARE = 0.5
"""Share of the lives at whose end the server purges what is archived, before the job has read it."""


class ArchiveLife(Life):
    """A life with an archive from the server's first file on; nothing takes groups back."""

    def __init__(self, script: Script, folder: Path) -> None:
        super().__init__(script, folder)
        bucket = self._bucket
        self._place = (folder / "job" if bucket is None else bucket.folder) / "archive"
        self._uri = str(self._place) if bucket is None else f"{URI}/archive"
        with self._surroundings():
            self._lived.add_archive(self._place)
        self.outcome.kind = f"{self._lived.kind}, with an archive{'' if bucket is None else ' in a bucket'}"
        self._contents: dict[str, bytes] = {}  # of the server's files, as they were last
        self._last_in_file: dict[int, int] = {}  # the number of the last group up to the end of each
        self._was_stale = False  # an archiver saw a later file, and an earlier one as it was before
        self._purged: set[int] = set()
        self._has_ended = False
        self._reasons.is_purged = lambda _: self._has_gap()

    def _begin(self) -> None:
        super()._begin()
        self._remember()
        self._archive(clean=True)

    def _do(self, step: LifeStep) -> None:
        if step.act is Act.ARCHIVE:
            self.outcome.reached.add(str(step.act))
            self._archive_step(step)
        elif step.act is Act.CLAIM:
            self.outcome.reached.add(str(step.act))
            self._claim_step(step)
        else:
            super()._do(step)

    def _of_server(self, step: LifeStep) -> str:
        before = set(self._server.log.last_in_file)
        told = super()._of_server(step)
        self._purged |= before - set(self._server.log.last_in_file)
        self._remember()
        return told

    def _remember(self) -> None:
        self._last_in_file |= self._server.log.last_in_file
        self._contents |= {path.name: path.read_bytes() for path in sorted(self._server.log.folder.iterdir())}

    # --- runs of the archiver ------------------------------------------------------------------------------------

    def _archive_step(self, step: LifeStep) -> None:
        bucket = self._bucket
        faults, others = (_FAULTS, None) if bucket is None else ((*_FAULTS, *BUCKET_FAULTS), bucket.happen)
        self._put_fault(step, step.chance, "archiver", faults, _FIRST_CALLS, others)
        self._archive()

    def _claim_step(self, step: LifeStep) -> None:
        if self._bucket is None:
            kind = step.chance.choice(_CLAIM_FAULTS)
            self._disk.at_nth["rename", 1] = self._disk_actions()[kind]
        else:  # each kind once in a life: few have an archive in a bucket
            kind = _BUCKET_CLAIM_FAULTS[step.number % len(_BUCKET_CLAIM_FAULTS)]
            self._bucket.happen_at(kind, "PUT if as known")
        self._tell(f"{step.number}. archiver runs, {kind} at its claim")
        self._archive()

    def _archive(self, *, clean: bool = False) -> bool:
        """Let the archiver take what is there; True: it has ended by itself."""
        self._reasons.has_changed_meanwhile = False
        self._was_stale |= self._reasons.is_stale
        error, faults = self._process(
            lambda: ArchiveRun(str(self._view.path), self._uri).run(once=True),
            nullcontext() if self._bucket is None else self._bucket.with_faults(),
        )
        if error is None:
            self._tell(f"   it ended{f', {faults}' if faults else ''}")
        elif isinstance(error, Killed):
            self._tell(f"   {faults[-1]}")
        else:
            named = self._named(error)
            self._has_ended |= self._reasons.is_last(named, 0, faults, clean=clean)
        self._was_stale |= self._reasons.is_stale
        self._check()
        return error is None

    def _catch_up(self) -> None:
        self._server.log.flush()
        self._remember()
        self._show(Look.ALL, Random(0))
        runs = 0
        while not self._has_ended:
            self._tell("at the end, archiver runs")
            runs += 1
            if self._archive(clean=True):
                break
            if runs == RUNS_TO_CATCH_UP:
                raise DefectError("the archiver does not come to the end of the log")
        if not self._has_ended:
            self._check_whole()
            if Random(f"purge {self.script.seed}").random() < _PURGE_SHARE:
                before = set(self._server.log.last_in_file)
                self._tell(f"server: purges files {self._server.purge(1)}")
                self._purged |= before - set(self._server.log.last_in_file)
                self.outcome.reached.add("archive alone")
        super()._catch_up()

    # --- verdicts ------------------------------------------------------------------------------------------------

    def _manifest(self) -> Manifest:
        path = self._place / MANIFEST_NAME
        return Manifest.from_bytes(path.read_bytes(), str(path)) if path.exists() else Manifest("")

    def _has_gap(self) -> bool:
        """True if the server has purged a file that is not archived whole."""
        return not self._purged <= {file.file_no for file in self._manifest().files if file.is_complete}

    def _check(self) -> None:
        """See that what is archived is what the server has written, without a gap."""
        manifest = self._manifest()
        numbers = [file.file_no for file in manifest.files]
        if numbers != list(range(numbers[0], numbers[0] + len(numbers)) if numbers else ()):
            raise DefectError(f"the archive has files {numbers}")
        for file in manifest.files:
            found, written = (
                _masked(content, manifest.unstable_byte) for content in (self._content(file), self._contents[file.name])
            )
            is_short = file.is_sealed and len(found) < len(written) and not (self._was_stale and self._has_groups(file))
            if written[: len(found)] != found or is_short:
                raise DefectError(
                    f"of {file.name} {len(found)} bytes are archived, sealed: {file.is_sealed}; the server has written "
                    f"{len(written)}, which are others or more"
                )

    def _check_whole(self) -> None:
        """See that all is archived but the end of files that the server may change."""
        complete = {file.name for file in self._manifest().files if file.is_complete}
        names = sorted(path.name for path in self._view.path.iterdir())
        lacking = [name for name in names[: -1 if self._server.log.page_size is None else -2] if name not in complete]
        if lacking:
            raise DefectError(f"the archiver has ended, and {lacking} are not archived")

    def _has_groups(self, file: ArchivedFile) -> bool:
        """True if a file lacks no group: of its last event a later file does not tell."""
        last = max(group_number(gtids, self._seen_terms) for gtids in (file.gtids_before, file.gtids))
        return last >= self._last_in_file[file.file_no]

    def _content(self, file: ArchivedFile) -> bytes:
        return b"".join((self._place / part.name).read_bytes() for part in file.parts)


def _masked(content: bytes, byte: int | None) -> bytes:
    """*content* with a zero at a byte that the server changes later."""
    return content if byte is None or byte >= len(content) else content[:byte] + b"\0" + content[byte + 1 :]
