"""The disk of a job: real files, with each call of the operating system counted; calls fail, or end the process.

Example:
    ::

        disk = Disk(root, log, random.Random(7))
        disk.at_write[12] = disk.kill
        with disk.installed():
            job.run()  # Killed is raised at the twelfth call that changes something

A process that was killed changes nothing any more: every later call raises `Killed`, until `restart`. A loss of power
takes back what nothing has forced to the disk: contents of files without fsync, names without fsync of their folder,
newest first, as a file system with a journal does.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    Action = Callable[[], None]


class Killed(BaseException):
    """The process ends here: nothing that follows is done, and nobody handles it."""


@dataclass(frozen=True, slots=True)
class _NameChange:
    """A name that was made, moved or removed, and is not forced to the disk yet."""

    folder: str
    undo: Action


_REAL = {
    name: getattr(os, name)
    for name in ("open", "close", "fsync", "fdatasync", "replace", "rename", "link", "unlink", "remove", "mkdir")
} | {name: getattr(os, name) for name in ("rmdir", "scandir", "preadv")}
RARE_CALLS = ("rename", "link", "unlink")
"""Calls that are few among all."""
RARE_FAULTS = (
    *(("kill", "unlink"), ("kill", "link"), ("power", "open"), ("power", "unlink"), ("power", "link")),
    *(("power", "rename"), ("EIO", "open"), ("ENOSPC", "open"), ("EIO", "rename"), ("ENOSPC", "rename")),
)
"""Faults, each with its call, that are few among all."""
_REAL_OPEN = io.open
_REAL_ARROW_FILE = pa.OSFile


@dataclass(slots=True)
class Disk:
    """Files of one machine.

    Attributes:
        root: What the job writes is below it.
        log: Folder of the log that it reads.
        chance: Decides what a loss of power leaves.
        at_write: What happens at a call that changes something, by its number since the start of the process.
        at_nth: The same for the first, second... call of a name, such as `("link", 2)`.
        at_read: The same for calls that read the log.
        writes: Calls so far that changed something.
        reads: Calls so far that read the log.
        reached: Names of calls at which something happened.
        has_lost_offset: A loss of power has taken the name of a file with an offset.
    """

    root: Path
    log: Path
    chance: random.Random
    at_write: dict[int, Action] = field(default_factory=dict)
    at_nth: dict[tuple[str, int], Action] = field(default_factory=dict)
    at_read: dict[int, Action] = field(default_factory=dict)
    writes: int = 0
    reads: int = 0
    is_dead: bool = False
    reached: list[str] = field(default_factory=list)
    has_lost_offset: bool = False
    _here: str = ""
    _of_name: Counter[str] = field(default_factory=Counter)
    _root: str = field(init=False)
    _log: str = field(init=False)
    _names: list[_NameChange] = field(default_factory=list)
    _synced: dict[int, bytes] = field(default_factory=dict)
    _of_log: set[int] = field(default_factory=set)
    _of_others: set[int] = field(default_factory=set)
    _backups: int = 0
    _unfinished: str | None = None

    def __post_init__(self) -> None:
        self._root, self._log = str(self.root), str(self.log)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let the calls of this process go through the disk."""
        calls: dict[str, Any] = {name: getattr(self, f"_{name}") for name in _REAL if hasattr(self, f"_{name}")}
        calls |= {"rename": self._replace, "remove": self._unlink, "fdatasync": self._fsync}
        for name, call in calls.items():
            setattr(os, name, call)
        opened: Any = self._io_open
        io.open, pa.OSFile = opened, self._arrow_file
        try:
            yield
        finally:
            for name, call in _REAL.items():
                setattr(os, name, call)
            io.open, pa.OSFile = _REAL_OPEN, _REAL_ARROW_FILE

    # --- what happens to it --------------------------------------------------------------------------------------

    def kill(self) -> None:
        """End the process here."""
        self.reached.append(f"kill at {self._here}")
        self.is_dead = True
        if self._unfinished is not None:  # the kill came in the middle of the writes before this call
            size = Path(self._unfinished).stat().st_size
            os.truncate(self._unfinished, self.chance.randint(0, size))
        raise Killed

    def fail(self, number: int) -> Action:
        """An action: the call fails with that error of the system."""

        def action() -> None:
            self.reached.append(f"{errno.errorcode[number]} at {self._here}")
            raise OSError(number, os.strerror(number))

        return action

    def lose_power(self) -> None:
        """End the machine: the process, and what is not on the disk."""
        self.reached.append(f"power lost at {self._here}")
        self.is_dead = True
        self._undo_unsynced()
        raise Killed

    def elsewhere(self, call: str) -> None:
        """A call of a store of tables, or of a broker, that is elsewhere: before or after it has done its work."""
        self._write(call, "")

    def restart(self) -> None:
        """A new process."""
        self.is_dead = False
        self.writes = self.reads = 0
        self._of_name.clear()
        self.at_write.clear()
        self.at_nth.clear()
        self.at_read.clear()
        self._of_log.clear()

    def _undo_unsynced(self) -> None:
        kept = self.chance.randint(0, len(self._names))
        self.has_lost_offset |= any(Path(change.folder).name == "offsets" for change in self._names[kept:])
        for change in reversed(self._names[kept:]):
            with suppress(FileNotFoundError, OSError):
                change.undo()
        self._names.clear()
        for folder, _, names in os.walk(self.root):
            for name in sorted(names):
                path = Path(folder) / name
                with _REAL_OPEN(path, "rb") as file:
                    content = file.read()
                synced = self._synced.get(path.stat().st_ino)
                if synced == content or path.stat().st_ino in self._of_others:
                    continue
                left = [content[: self.chance.randint(0, len(content))], content, b"" if synced is None else synced]
                with _REAL_OPEN(path, "wb") as file:
                    file.write(self.chance.choice(left))

    # --- calls ---------------------------------------------------------------------------------------------------

    def _is_ours(self, path: object) -> bool:
        return str(path).startswith(self._root)

    def _write(self, call: str, path: object) -> None:
        if self.is_dead:
            raise Killed
        self.writes += 1
        self._of_name[call] += 1
        self._here = f"{call} {_shown(str(path))}" if path else call
        action = self.at_write.pop(self.writes, None) or self.at_nth.pop((call, self._of_name[call]), None)
        if action is not None:
            action()

    def _read(self, call: str) -> None:
        if self.is_dead:
            raise Killed
        self.reads += 1
        self._here = f"{call} log"
        action = self.at_read.pop(self.reads, None)
        if action is not None:
            action()

    def _open(self, path: Any, flags: int, mode: int = 0o777, **named: Any) -> int:
        if self._is_ours(path) and flags & (os.O_WRONLY | os.O_RDWR):
            self._write("open", path)
            self._note_creation(path)
            descriptor: int = _REAL["open"](path, flags, mode, **named)
            return descriptor
        is_of_log = not flags & (os.O_WRONLY | os.O_RDWR) and str(path).startswith(self._log)
        if is_of_log:
            self._read("open")
        descriptor = _REAL["open"](path, flags, mode, **named)
        if is_of_log:
            self._of_log.add(descriptor)
        return descriptor

    def _close(self, descriptor: int) -> None:
        self._of_log.discard(descriptor)
        _REAL["close"](descriptor)

    def _preadv(self, descriptor: int, buffers: Any, offset: int, *flags: int) -> int:
        if descriptor in self._of_log:
            self._read("read")
        count: int = _REAL["preadv"](descriptor, buffers, offset, *flags)
        return count

    def _scandir(self, path: Any = ".") -> Any:
        if str(path).startswith(self._log):
            self._read("list")
        return _REAL["scandir"](path)

    def _io_open(self, file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        if not isinstance(file, int) and self._is_ours(file) and set(mode) & set("wax+"):
            self._write("open", file)
            self._note_creation(file)
        return _REAL_OPEN(file, mode, *arguments, **named)

    def _arrow_file(self, path: str, mode: str = "rb", **named: Any) -> Any:
        if "w" in mode and self._is_ours(path):
            self._write("open", path)
            self._note_creation(path)
        return _REAL_ARROW_FILE(path, mode, **named)

    def _fsync(self, descriptor: Any) -> None:
        number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
        path = os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115 (at each fsync)
        if not self._is_ours(path):
            return
        is_folder = stat.S_ISDIR(os.fstat(number).st_mode)
        inode, content = (0, b"") if is_folder else self._content(path)
        self._unfinished = None if is_folder or self._synced.get(inode) == content else path
        try:
            self._write("fsync", path)
        finally:
            self._unfinished = None
        if is_folder:
            self._names = [change for change in self._names if change.folder != path]
        else:
            self._synced[inode] = content

    def _content(self, path: str) -> tuple[int, bytes]:
        with _REAL_OPEN(path, "rb") as file:
            return os.fstat(file.fileno()).st_ino, file.read()

    def _replace(self, source: Any, target: Any, **named: Any) -> None:
        if not self._is_ours(target):
            _REAL["replace"](source, target, **named)
            return
        self._write("rename", target)
        backup = self._backup(target)
        _REAL["replace"](source, target, **named)
        moved, there = str(source), str(target)

        def undo() -> None:
            _REAL["replace"](there, moved)
            if backup is not None:
                _REAL["link"](backup, there)

        self._names.append(_NameChange(_folder_of(there), undo))

    def _link(self, source: Any, target: Any, **named: Any) -> None:
        if self._is_ours(target):
            self._write("link", target)
        _REAL["link"](source, target, **named)
        if self._is_ours(target):
            if not self._is_ours(source):
                self._of_others.add(Path(target).stat().st_ino)
            there = str(target)
            self._names.append(_NameChange(_folder_of(there), lambda: _REAL["unlink"](there)))

    def _unlink(self, path: Any, **named: Any) -> None:
        if not self._is_ours(path) or named:
            _REAL["unlink"](path, **named)
            return
        if not os.access(path, os.F_OK):
            if self.is_dead:
                raise Killed
            _REAL["unlink"](path)  # which names the error
        self._write("unlink", path)
        backup, there = self._backup(path), str(path)
        _REAL["unlink"](path)
        if backup is not None:
            self._names.append(_NameChange(_folder_of(there), lambda: _REAL["link"](backup, there)))

    def _mkdir(self, path: Any, mode: int = 0o777, **named: Any) -> None:
        if self._is_ours(path) and not os.access(path, os.F_OK):
            self._write("mkdir", path)
        _REAL["mkdir"](path, mode, **named)
        if self._is_ours(path):
            there = str(path)
            self._names.append(_NameChange(_folder_of(there), lambda: _REAL["rmdir"](there)))

    def _note_creation(self, path: Any) -> None:
        if not os.access(path, os.F_OK):
            there = str(path)
            self._names.append(_NameChange(_folder_of(there), lambda: _REAL["unlink"](there)))

    def _backup(self, path: Any) -> str | None:
        """Another name for a file that loses this one; it keeps the inode, so numbers are not used again."""
        if not os.path.isfile(path):  # noqa: PTH113
            return None
        self._backups += 1
        name = f"{self.root}.backup-{self._backups}"
        _REAL["link"](path, name)
        return name

    def remove(self) -> None:
        """Remove all of it."""
        for path in self.root.parent.glob(f"{self.root.name}.backup-*"):
            _REAL["unlink"](path)
        shutil.rmtree(self.root, ignore_errors=True)


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def _shown(path: str) -> str:
    """The kind of a file, for the counts of what was reached: names of one kind are one."""
    name = path.rpartition("/")[2]
    folder = path.rpartition("/")[0].rpartition("/")[2]
    if "checkpoint" in path:
        return name if name.startswith(("binlog-stream", ".unfinished", "metadata")) else f"{folder}/*"
    if name.startswith("_commit_") or folder == "_delta_log":
        return "commit"
    return "table file"
