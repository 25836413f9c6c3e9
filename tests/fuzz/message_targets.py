"""Targets that make messages of logs: in JSON and in Avro, of which there are as many, and which can be read."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import fastavro
from hypothesis import strategies as st

from binlog_connector.envelope.avro.avro_encoding import AvroEncoding
from binlog_connector.envelope.messages import MessagesView
from binlog_connector.envelope.options import EnvelopeOptions
from binlog_format.errors import BinlogError
from tests.fuzz.declaring import NUMBERS, Target
from tests.fuzz.row_targets import DECODINGS
from tests.fuzz.seeds import EDITS, Edit
from tests.fuzz.view_targets import spoiled_log

if TYPE_CHECKING:
    from binlog_connector.envelope.encoding import MessageEncoding
    from binlog_format.rows.decoding import Decoding

_OPTIONS = EnvelopeOptions("shop", transaction_metadata=True, schema_changes=True)


class KnownSchemas:
    """A registry in this process."""

    url = "http://registry:8081"

    def __init__(self) -> None:
        self._parsed: list[Any] = []
        self._texts: list[tuple[str, str]] = []

    def id_of(self, subject: str, schema: str) -> int:
        self._parsed.append(fastavro.parse_schema(json.loads(schema)))
        self._texts.append((subject, schema))
        return len(self._parsed) - 1

    def latest(self, subject: str) -> tuple[int, str] | None:
        found = [(number, text) for number, (name, text) in enumerate(self._texts) if name == subject]
        return found[-1] if found else None

    def read(self, message: bytes) -> None:
        """See that it is a value of its schema, whole."""
        content = io.BytesIO(message[5:])
        fastavro.schemaless_reader(content, self._parsed[int.from_bytes(message[1:5], "big")], None)
        assert content.read() == b""


def messages(number: int, event_number: int, edits: list[Edit], decoding: Decoding) -> None:
    """A spoiled log as messages."""
    schemas = KnownSchemas()
    avro = AvroEncoding(_OPTIONS, schemas, lambda kind, database, table: f"{kind}.{database}.{table}", "beat")
    as_json, as_avro = (_made(number, event_number, edits, decoding, encoding) for encoding in (None, avro))
    if as_json is None or as_avro is None:
        return
    statements = ("t",)  # of a table without rows only JSON has a message
    assert len([one for one in as_json if one["op"] not in statements]) == len(
        [one for one in as_avro if one["op"] not in statements]
    )
    for one in as_json:
        for part in ("key", "value"):
            json.loads(one[part] or "null")
    for one in as_avro:
        for part in ("key", "value"):
            if one[part] is not None:
                schemas.read(one[part])


def _made(
    number: int, event_number: int, edits: list[Edit], decoding: Decoding, encoding: MessageEncoding | None
) -> list[dict[str, Any]] | None:
    blocks = spoiled_log(number, event_number, edits).committed_blocks()
    try:
        batches = list(MessagesView(_OPTIONS, decoding=decoding, encoding=encoding).batches(blocks))
    except BinlogError:
        return None
    return [message for batch in batches for message in batch.to_pylist()]


TARGETS = {"messages": Target(messages, (NUMBERS, NUMBERS, EDITS, st.sampled_from(DECODINGS)))}
