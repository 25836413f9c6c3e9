"""Durations, sizes, times and names as people read them, on a terminal and on the page."""

from __future__ import annotations

import re
import time

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))
# What moves the cursor, ends a line, or turns the direction of what follows.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


_ACCESS = re.compile(r"(?<=://)[^/@\s]+@")
"""A user, a password or a key, in a URL."""


def duration_text(seconds: float) -> str:
    """Two units at most: `1.2 s`, `47 s`, `6 min`, `2 h 5 min`, `3 d 4 h`."""
    if seconds < 9.95:
        return f"{max(seconds, 0):.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    for number, (unit, size) in enumerate(_UNITS):
        if seconds >= size:
            whole, rest = divmod(int(seconds), size)
            if unit == "min":
                return f"{whole} min {rest} s" if whole < 10 and rest else f"{whole} min"
            smaller, smaller_size = _UNITS[number + 1]
            part = rest // smaller_size
            return f"{whole} {unit} {part} {smaller}" if part and whole < 100 else f"{whole} {unit}"
    return f"{seconds:.0f} s"


def bytes_text(size: float) -> str:
    """Size in the largest decimal unit that it fills."""
    value, unit = float(size), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"


def clock_text(seconds: float, now: float) -> str:
    """`12:03 UTC` of the same day, else with its date."""
    when = time.gmtime(seconds)
    form = "%H:%M UTC" if time.gmtime(now)[:3] == when[:3] else "%Y-%m-%d %H:%M UTC"
    return time.strftime(form, when)


def count_text(number: int, one: str, several: str | None = None) -> str:
    """`1 table`, `2 tables`."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def without_access(text: str) -> str:
    """*text* without the users, passwords and keys that URLs in it may contain."""
    return _ACCESS.sub("", text)


def visible(text: str) -> str:
    """*text* with everything spelled out that would not be seen, or would change how other text is shown."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
