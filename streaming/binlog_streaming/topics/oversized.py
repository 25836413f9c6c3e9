"""Values that are too large for their topic, in files of their own: `OversizedValues`.

Their messages keep key and headers, and have a claim in place of the value: where the file is, and what is in it. A
file is complete, safe from a loss of power, before its message can be visible; what a transaction that was not
committed leaves is a file that no message names.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_format.errors import OptionError, storage_error
from binlog_streaming.lake.storage.table_places import store_at

if TYPE_CHECKING:
    from binlog_connector.kafka.producer import Messages
    from binlog_format.position import Position
    from binlog_streaming.lake.storage.store import Store
    from binlog_streaming.settings.publish_model import KafkaSink

CLAIM_HEADER = "__binlog_stream.claim"
"""Header of a message whose value is a claim; no other message has it."""
_CLAIM_FORM = b"1"


class Claim(msgspec.Struct, frozen=True):
    """Value of a message, as JSON, whose own value is in a file.

    Attributes:
        claim: Path or URL of the file.
        bytes: Its size.
        sha256: Of its content, in hexadecimal digits.
    """

    claim: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class OversizedValues:
    """Stores values that are too large.

    Attributes:
        store: Place of the files.
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
        try:
            return cls(store_at(settings.store, {}), settings.max_bytes)
        except OptionError as error:
            raise OptionError(
                "INVALID_VALUE",
                f"sink.oversized.store: {settings.store} cannot be reached: {error.reason}",
                hint="Access to object stores is set in the environment: AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL ...",
            ) from error

    def reach(self) -> None:
        """See that the store answers; nothing is written."""
        try:
            next(self.store.files(), None)
        except OSError as error:
            raise storage_error(self.store.uri, "list", error) from error

    def claimed(self, messages: Messages, end: Position) -> Messages:
        """The same messages, with claims in place of values that are too large.

        Args:
            messages: Of one topic.
            end: Of the event groups that are in the same transaction of Kafka; in names of files.
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
