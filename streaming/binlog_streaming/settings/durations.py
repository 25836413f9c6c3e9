"""Durations in settings: `parse_milliseconds`."""

from __future__ import annotations

import re

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")


def parse_milliseconds(text: str) -> int:
    """A duration such as `500ms`, `2s`, `1.5h` or `7d`.

    Raises:
        ValueError: It is none.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"duration: expected a number with ms, s, m, h or d, such as 2s, got {text!r}")
    return round(float(match[1]) * _UNITS_MS[match[2]])
