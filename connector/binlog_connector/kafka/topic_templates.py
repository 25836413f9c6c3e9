"""Templates for names of topics: `TopicTemplates`; checks of names: `is_topic_name`, `template_mistake`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")  # what Kafka takes

NAME_EXPECTED = "a name of letters, digits, dots, _ and -"


def is_topic_name(name: str) -> bool:
    """True if Kafka accepts *name* for a topic."""
    return _NAME.fullmatch(name) is not None


def template_mistake(template: str, places: Sequence[str]) -> str | None:
    """Describe what a valid *template* has; None: it is valid.

    Args:
        template: With places in braces.
        places: Those that are known.
    """
    try:
        filled = template.format_map(dict.fromkeys(places, "x"))
    except (KeyError, IndexError, ValueError):
        told = " and ".join(f"{{{place}}}" for place in places)
        return f"only {told} in braces"
    return None if is_topic_name(filled) else NAME_EXPECTED


@dataclass(frozen=True, slots=True)
class TopicTemplates:
    """Templates: `{prefix}`, and in *tables* `{database}` and `{table}`, are filled in; as Debezium's.

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
