"""The message that states that nothing has happened: `heartbeat`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_connector.envelope.connect_schema import HEARTBEAT_KEY, HEARTBEAT_VALUE, compact

if TYPE_CHECKING:
    from binlog_connector.envelope.connect_schema import Schema
    from binlog_connector.envelope.options import EnvelopeOptions


def heartbeat(options: EnvelopeOptions, now_ns: int) -> tuple[bytes, bytes]:
    """Key and value.

    Args:
        options: What messages look like.
        now_ns: Nanoseconds since 1970 UTC.
    """
    key = _message({"serverName": options.topic_prefix}, HEARTBEAT_KEY if options.schemas else None)
    return key, _message({"ts_ms": now_ns // 1_000_000}, HEARTBEAT_VALUE if options.schemas else None)


def _message(payload: dict[str, object], schema: Schema | None) -> bytes:
    return compact(payload if schema is None else {"schema": schema, "payload": payload}).encode()
