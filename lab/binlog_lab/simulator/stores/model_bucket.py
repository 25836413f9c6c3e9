"""An object store in memory: `ModelBucket`, whose requests are refused, late, or done without an answer.

A request goes as the client of the product sends it: one that was refused is sent again after a while, and so is one
without an answer, though it may have been done. Then a PUT on the condition that the name is free finds the name taken,
and one on the condition that the object is as it was finds another one: each by the client's own first attempt. A
request that the client has given up may be done later, when others have been. Of PUTs these have conditions: nothing
protects what one without a condition replaces, when it arrives late.

Objects are files of a folder, too, for whoever reads an archive. The client of obstore gives way to
another one by `installed`.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from obstore.exceptions import AlreadyExistsError, BaseError, GenericError, NotFoundError, PreconditionError

from binlog_lab.simulator.machine import replaced
from binlog_streaming.lake import bucket_store
from binlog_streaming.lake.delta import maintenance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path
    from random import Random

    from binlog_lab.simulator.disk import Disk
    from binlog_lab.simulator.machine import Clock


Answer = TypeVar("Answer")

URI = "s3://life"
"""Address of the bucket."""
BUCKET_FAULTS = ("refused", *("answers lost",) * 5, *("late",) * 8)
"""Faults of a bucket, as often as they come up."""
_CALLS_OF_A_REQUEST = 3
_ATTEMPTS_MAX = 10
"""Attempts after which obstore gives a request up."""
_PAUSE_SECONDS = 5.0
_TROUBLES = (1, 3, 8, 45)
"""Attempts that are refused, requests without an answer, or before one that is late. The last is longer than a
client's patience."""


class BucketObject(NamedTuple):
    """An object: its content, the tag of this version of it, and when it was written."""

    content: bytes
    tag: str
    modified: float


@dataclass(slots=True)
class ModelBucket:
    """A bucket.

    Attributes:
        folder: It has the objects as files.
        clock: That waits take time from.
        disk: Of the machine of its clients, where requests that change something are counted as calls.
        chance: Decides how long things take.
        objects: By name.
        at_request: What happens at a request, by its number in the process.
        at_method: What happens at the next request of a method.
        is_faulty: Faults happen, and requests count; else somebody looks who is not of the life.
    """

    folder: Path
    clock: Clock
    disk: Disk
    chance: Random
    objects: dict[str, BucketObject] = field(default_factory=dict)
    at_request: dict[int, Callable[[], None]] = field(default_factory=dict)
    at_method: dict[str, Callable[[], None]] = field(default_factory=dict)
    is_faulty: bool = False
    _requests: int = 0
    _versions: int = 0
    _refusals: int = 0
    _silence: int = 0
    _is_late: bool = False
    _late: list[tuple[int, Callable[[], object]]] = field(default_factory=list)

    @contextmanager
    def with_faults(self) -> Iterator[None]:
        """Let a process have it. What was sent by one before it, and is not done yet, stays on its way."""
        self.is_faulty = True
        try:
            yield
        finally:
            self.is_faulty = False
            self._late = [(due - self._requests, change) for due, change in self._late]
            self._requests = self._refusals = self._silence = 0
            self._is_late = False
            self.at_request.clear()
            self.at_method.clear()

    # --- what happens to it --------------------------------------------------------------------------------------

    def happen(self, kind: str, at: int) -> None:
        """Let a fault, one of `BUCKET_FAULTS`, happen in the next process, which has fewer requests than calls."""
        self.at_request[1 + at // _CALLS_OF_A_REQUEST] = self._actions()[kind]

    def happen_at(self, kind: str, method: str) -> None:
        """Let a fault happen at the next request of a method."""
        self.at_method[method] = self._actions()[kind]

    def _actions(self) -> dict[str, Callable[[], None]]:
        """Faults, by kind."""
        return {"refused": self.refuse, "answers lost": self.lose_answers, "late": self.delay}

    def refuse(self) -> None:
        """Refuse requests for a while."""
        self._refusals = self.chance.choice(_TROUBLES)

    def lose_answers(self) -> None:
        """Do the next changes, and tell nobody: their client sends them again."""
        self._silence = self.chance.choice(_TROUBLES)

    def delay(self) -> None:
        """Do the next change that has a condition later, when its client has given it up."""
        self._is_late = True

    # --- requests ------------------------------------------------------------------------------------------------

    def request(self, method: str, answer: Callable[[], Answer], *, is_conditional: bool = False) -> Answer:
        """A request of a client, and the answer.

        Args:
            method: As in HTTP.
            answer: Does what is asked for.
            is_conditional: It is done only if the object is as the client knows it.
        """
        if not self.is_faulty:
            return answer()
        self._requests += 1
        at = self.at_request.pop(self._requests, None) or self.at_method.pop(method, None)
        if at is not None:
            at()
        self._take_late()
        self._wait(method)
        if method in ("GET", "LIST"):
            return answer()
        if self._is_late and is_conditional:
            self._is_late = False
            self._late.append((self._requests + self.chance.choice(_TROUBLES), answer))
            self._note("reached late", method)
            raise self._no_answer(method)
        self._pass(f"{method}, before")
        result = answer()
        if self._silence:
            self._silence -= 1
            self._note("did not tell", method)
            result = answer()
        self._pass(f"{method}, after")
        return result

    def _take_late(self) -> None:
        """Do what was sent before and arrives now; nobody waits for its answer."""
        arrived = [change for due, change in self._late if due <= self._requests]
        self._late = [(due, change) for due, change in self._late if due > self._requests]
        for change in arrived:
            with suppress(BaseError):
                change()

    def _wait(self, method: str) -> None:
        if self._refusals:
            self._note("refused", method)
        for _ in range(_ATTEMPTS_MAX):
            if not self._refusals:
                return
            self._refusals -= 1
            self.clock.sleep(_PAUSE_SECONDS)
        raise GenericError(f"{method}: 503 Slow Down, after {_ATTEMPTS_MAX} attempts")

    def _pass(self, when: str) -> None:
        try:
            self.disk.elsewhere(when)
        except OSError as error:
            raise self._no_answer(when) from error

    def _no_answer(self, method: str) -> GenericError:
        self.clock.sleep(_PAUSE_SECONDS)
        return GenericError(f"{method}: no answer")

    def _note(self, what: str, method: str) -> None:
        self.disk.reached.append(f"bucket {what} at {method}")

    # --- objects -------------------------------------------------------------------------------------------------

    def get(self, name: str) -> BucketObject:
        """An object. Raises `NotFoundError`: there is none."""
        found = self.objects.get(name)
        if found is None:
            raise NotFoundError(name)
        return found

    def put(self, name: str, content: bytes) -> None:
        """Make an object, or replace it."""
        self._versions += 1
        self.objects[name] = BucketObject(content, f'"{self._versions}"', self.clock.time())
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # whoever has it open reads on in what it was
        path.write_bytes(content)

    def create(self, name: str, content: bytes) -> None:
        """Make an object. Raises `AlreadyExistsError`: there is one."""
        if name in self.objects:
            raise AlreadyExistsError(name)
        self.put(name, content)

    def exchange(self, name: str, tag: str, content: bytes) -> None:
        """Replace a version of an object. Raises `PreconditionError`: there is another one."""
        if name not in self.objects or self.objects[name].tag != tag:
            raise PreconditionError(name)
        self.put(name, content)

    def delete(self, name: str) -> None:
        """Remove an object, if it is there."""
        if self.objects.pop(name, None) is not None:
            (self.folder / name).unlink()


_NEVER = 1 << 62
_OF_SPARK = ("checkpoint/offsets/", "checkpoint/commits/")


@dataclass(frozen=True, slots=True)
class BucketPlace:
    """A place in a bucket: what the product calls a store of obstore."""

    bucket: ModelBucket
    prefix: str


@dataclass(frozen=True, slots=True)
class _Got:
    """An answer to `get`."""

    found: BucketObject

    @property
    def meta(self) -> dict[str, str | None]:
        """Facts about the object."""
        return {"e_tag": self.found.tag, "version": None}

    def bytes(self) -> bytes:
        """Its content."""
        return self.found.content


class _BucketClient:
    """Stands in for the module `obstore`."""

    def get(self, place: BucketPlace, name: str) -> _Got:
        """An object."""
        return _Got(place.bucket.request("GET", lambda: place.bucket.get(place.prefix + name)))

    def get_range(self, place: BucketPlace, name: str, *, start: int, length: int) -> bytes:
        """Bytes of an object."""
        return self.get(place, name).bytes()[start : start + length]

    def head(self, place: BucketPlace, name: str) -> dict[str, int]:
        """Facts about an object."""
        return {"size": len(self.get(place, name).bytes())}

    def put(
        self,
        place: BucketPlace,
        name: str,
        content: bytes,
        *,
        mode: str | dict[str, str] | None = None,
        use_multipart: bool,
    ) -> None:
        """Make an object, or replace it."""
        assert not use_multipart
        bucket, full = place.bucket, place.prefix + name
        if mode is None:
            bucket.request("PUT", lambda: bucket.put(full, content))
        elif mode == "create":
            # Batches are written down by Spark, whose client gives no request up.
            may_be_late = not any(folder in full for folder in _OF_SPARK)
            bucket.request("PUT if free", lambda: bucket.create(full, content), is_conditional=may_be_late)
        else:
            assert isinstance(mode, dict)
            tag = mode["e_tag"]
            bucket.request("PUT if as known", lambda: bucket.exchange(full, tag, content), is_conditional=True)

    def list(self, place: BucketPlace, prefix: str | None, *, offset: str | None) -> Iterator[list[dict[str, Any]]]:
        """Objects whose names begin with *prefix*, by name, in pages."""
        bucket, before = place.bucket, place.prefix + (prefix or "")
        after = "" if offset is None else place.prefix + offset

        def answer() -> list[dict[str, Any]]:
            names = sorted(name for name in bucket.objects if name.startswith(before) and name > after)
            return [_meta(name.removeprefix(place.prefix), bucket.objects[name]) for name in names]

        yield bucket.request("LIST", answer)

    def delete(self, place: BucketPlace, name: str) -> None:
        """Remove an object."""
        place.bucket.request("DELETE", lambda: place.bucket.delete(place.prefix + name))


def installed(bucket: ModelBucket) -> AbstractContextManager[None]:
    """Let the product have *bucket* for every address of an object store.

    Checkpoints of Delta tables are not made: they go through a client of deltalake's own.
    """

    def from_url(uri: str, **_: object) -> BucketPlace:
        return BucketPlace(bucket, f"{uri.removeprefix(f'{URI}/')}/")

    return replaced(
        [
            (bucket_store, "obstore", _BucketClient()),
            (bucket_store, "from_url", from_url),
            (maintenance, "CHECKPOINT_EVERY", _NEVER),
        ]
    )


def _meta(name: str, found: BucketObject) -> dict[str, Any]:
    return {"path": name, "size": len(found.content), "last_modified": datetime.fromtimestamp(found.modified, UTC)}
