"""Guarantee for consumers of topics: `Delivery`; for settings, which load no client."""

from __future__ import annotations

from enum import StrEnum


class Delivery(StrEnum):
    """Guarantee for consumers."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    """For brokers without transactions: after an error or a kill, all messages since the last record are sent again."""
