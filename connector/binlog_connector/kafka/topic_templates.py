"""What names of topics are made of: `TopicTemplates`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicTemplates:
    """What names are made of: `{prefix}`, and in *tables* `{database}` and `{table}`, are filled in; as Debezium's.

    Attributes:
        prefix: What fills `{prefix}`.
        tables: Of changes.
        transactions: Of messages about transactions.
        schema_changes: Of messages about statements that change tables.
        heartbeat: Of heartbeats.
        offsets: Of offsets.
        setting: What users call *tables*.
    """

    prefix: str
    tables: str = "{prefix}.{database}.{table}"
    transactions: str = "{prefix}.transaction"
    schema_changes: str = "{prefix}"
    heartbeat: str = "__debezium-heartbeat.{prefix}"
    offsets: str = "{prefix}.offsets"
    setting: str = "sink.topic"
