"""What consumers of topics can rely on: `Delivery`; for settings, which load no client."""

from __future__ import annotations

from enum import StrEnum


class Delivery(StrEnum):
    """What a consumer can rely on."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    """For brokers without transactions: after an error or a kill all messages since the last record come again."""
