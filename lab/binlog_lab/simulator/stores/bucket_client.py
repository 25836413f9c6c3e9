"""The client of a bucket in memory, in the place of obstore: `installed`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from binlog_lab.simulator.machine import replaced
from binlog_lab.simulator.stores.model_bucket import URI
from binlog_streaming.lake import bucket_store
from binlog_streaming.lake.delta import maintenance

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from binlog_lab.simulator.stores.model_bucket import BucketObject, ModelBucket

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
