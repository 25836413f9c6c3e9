"""Values that are too large for their topic, in files of their own: `OversizedValues`; `ClaimedValues` reads them.

Their messages keep key and headers, and have a claim in place of the value: where the file is, and what is in it. A
file is complete, safe from a loss of power, before its message can be visible; what a transaction that was not
committed leaves is a file that no message names.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.kafka.producer import CLAIM_HEADER, ClaimedFile
from binlog_format.errors import CorruptError, DataLossError, UnsupportedError, storage_error
from binlog_streaming.lake.table_places import store_by_environment

if TYPE_CHECKING:
    from binlog_connector.kafka.producer import Messages
    from binlog_format.position import Place, Position
    from binlog_streaming.lake.store import Store
    from binlog_streaming.settings.publish_model import KafkaSink
    from binlog_streaming.settings.source_models import TopicSource

_CLAIM_FORM = b"1"
_NAME = re.compile(r"(?:.*/)?((?!\.\.?/)[A-Za-z0-9._-]+/[0-9]{10}\.[0-9]{10}\.[0-9]{5}-([0-9a-f]{64}))")
"""Path or URL of a file: the last two parts, which are its name in the store, and the hash in them."""


class Claim(msgspec.Struct, frozen=True):
    """Value of a message, as JSON, whose own value is in a file.

    Attributes:
        claim: Path or URL of the file.
        sha256: Of its content, in hexadecimal digits.
    """

    claim: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class OversizedValues:
    """Stores values that are too large.

    Attributes:
        size_max: Bytes of the largest key and value that stay together in a message.
    """

    store: Store
    size_max: int

    @classmethod
    def of(cls, sink: KafkaSink) -> OversizedValues | None:
        """Open the place that *sink* names; None: all messages are sent whole."""
        settings = sink.oversized
        if settings.store is None:
            return None
        return cls(store_by_environment("sink.oversized.store", settings.store), settings.max_bytes)

    def reach(self) -> None:
        """See that the store answers; nothing is written."""
        _reach(self.store)

    def claimed(self, messages: Messages, end: Position) -> Messages:
        """The same messages, with claims in place of values that are too large.

        Args:
            messages: Of one topic.
            end: Of the event groups in the same transaction of Kafka, as in total orders; in names of files.
        """
        value_sizes = pc.binary_length(messages.values).fill_null(0).to_numpy()
        sizes = value_sizes + pc.binary_length(messages.keys).fill_null(0).to_numpy()
        is_large = (sizes > self.size_max) & (value_sizes > 0)
        if not is_large.any():
            return messages
        headers = [[] for _ in range(len(messages))] if messages.headers is None else list(messages.headers)
        claims = []
        for row in np.flatnonzero(is_large).tolist():
            claims.append(msgspec.json.encode(self._stored(messages.topic, end, messages.values[row].as_py())))
            headers[row] = [*headers[row], (CLAIM_HEADER, _CLAIM_FORM)]
        values = pc.replace_with_mask(messages.values, pa.array(is_large), pa.array(claims, messages.values.type))
        return replace(messages, values=values, headers=headers)

    def _stored(self, topic: str, end: Position, value: bytes) -> Claim:
        digest = hashlib.sha256(value).hexdigest()
        name = f"{topic}/{end.file_no:010}.{end.page:010}.{end.chunk:05}-{digest}"
        path = f"{self.store.uri.rstrip('/')}/{name}"
        try:
            self.store.create(name, value)  # if it is there, it has this content
        except OSError as error:
            raise storage_error(path, "write", error) from error
        return Claim(path, len(value), digest)


@dataclass(frozen=True, slots=True)
class ClaimedValues:
    """Reads values that are in files. *store*: place of the files; None: it is not known."""

    store: Store | None

    @classmethod
    def of(cls, source: TopicSource) -> ClaimedValues:
        """Open the place that *source* names."""
        return cls(None if source.claims is None else store_by_environment("source.claims", source.claims))

    def reach(self) -> None:
        """See that the store answers, if there is one."""
        if self.store is not None:
            _reach(self.store)

    def file_of(self, value: bytes | None, at: Place) -> ClaimedFile:
        """The file that a claim names; only its name counts, wherever the claim says that it is.

        Raises:
            UnsupportedError: `MESSAGE`: there is no store, or no such claim is published.
            DataLossError: When it is read, `CLAIM_GONE`: there is no such file.
            CorruptError: When it is read, `CLAIM`: it has another content.
        """
        if self.store is None:
            hint = "Name the place of the files in source.claims: it is sink.oversized.store of the job that publishes"
            raise UnsupportedError("MESSAGE", "its value is in a file: the message has a claim", at=at, hint=hint)
        name, claim = _named(value, at)
        return ClaimedFile(claim.bytes, partial(self._content, self.store, name, claim, at))

    @staticmethod
    def _content(store: Store, name: str, claim: Claim, at: Place) -> bytes:
        path = f"{store.uri.rstrip('/')}/{name}"
        try:
            content = store.read(name)
        except FileNotFoundError as error:
            reason = f"its value is in {path}, and there is no such file"
            hint = "Restore the file, or correct source.claims, and start again: nothing of the batch was written"
            raise DataLossError("CLAIM_GONE", reason, at=at, hint=hint) from error
        except OSError as error:
            raise storage_error(path, "read", error) from error
        if hashlib.sha256(content).hexdigest() != claim.sha256:
            reason = f"{path} has {len(content)} bytes that are not those of the message: their hash is another one"
            raise CorruptError("CLAIM", reason, at=at, hint="Restore the file from a backup of its store")
        return content


def _named(value: bytes | None, at: Place) -> tuple[str, Claim]:
    try:
        claim = msgspec.json.decode(value or b"", type=Claim)
    except msgspec.MsgspecError:
        claim = None
    found = None if claim is None else _NAME.fullmatch(claim.claim)
    if claim is None or found is None or found[2] != claim.sha256:
        hint = "Only messages of binlog-stream publish have this header: see who else writes into the topic"
        raise UnsupportedError("MESSAGE", f"it has the header {CLAIM_HEADER}, and no claim", at=at, hint=hint)
    return found[1], claim


def _reach(store: Store) -> None:
    try:
        next(store.files(), None)
    except OSError as error:
        raise storage_error(store.uri, "list", error) from error
