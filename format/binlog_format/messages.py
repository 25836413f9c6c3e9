"""Texts of messages, without commands for terminals (`visible`), passwords and values of rows (`row_value`).

Whatever is shown, logged or kept as state, and is not made of rows, goes through these functions. Counts in it are made
by `count_text`; `odd_clock` has words about times that cannot be.
"""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    SpellOption = Callable[[str, str | None], str | None]

_CLOSEST = 3
_OF_EXPRESSIONS = re.compile(r"[\\()\[\]{}^$*+?|]")
_OPTION = re.compile(r"\boption (?P<name>[A-Za-z][\w.]*\w)(?:=(?P<value>\w+))?")


def told_options(text: str, spell: SpellOption) -> str:
    """*text* with its options as the user knows them.

    Messages name a setting in one form, `option NAME` or `option NAME=value`, with the name that Spark's options have,
    or that a job file has (`option sink.format`). Spark shows them so; the command line and jobs spell them anew. The
    form survives as text what errors go through on their way out of Spark's workers.

    Args:
        spell: Gives the user's form of a name and its value (None: only the name); None: leave it as it is.
    """
    return _OPTION.sub(lambda found: spell(found["name"], found["value"]) or found[0], text)


def count_text(number: int, singular: str, plural: str | None = None) -> str:
    """`1 table`, `2 tables`."""
    return f"{number:,} {singular if number == 1 else plural or f'{singular}s'}"


def closest_names(asked: str, names: Iterable[str]) -> str:
    """The three of *names* that are most like *asked*, a regular expression, and the number of the others."""
    import difflib  # takes a moment to load: only for mistakes

    known = sorted(set(names))
    plain = _OF_EXPRESSIONS.sub("", asked)
    close = difflib.get_close_matches(plain, known, n=_CLOSEST, cutoff=0.0)
    more = f" and {len(known) - len(close):,} more" if len(known) > len(close) else ""
    return f"{', '.join(close)}{more}" if close else "none"


def visible(text: str) -> str:
    """*text* on one line, with escapes for what commands a terminal: a server's users name tables as they like."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


_HIDDEN_IN_JSON = re.compile(
    rb"\x7f|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xa9]|\xef\xbb\xbf"
)


def visible_json(data: bytes | bytearray | memoryview) -> bytes:
    """JSON (UTF-8) with escapes for characters that command a terminal or turn text around; the same values."""
    found = bytes(data)
    if found.isascii() and b"\x7f" not in found:
        return found
    return _HIDDEN_IN_JSON.sub(lambda match: f"\\u{ord(match[0].decode()):04x}".encode(), found)


# `user:password@` before the host, or a key as a parameter.
_USER_INFO = re.compile(r"(?<=://)[^/@\s:]*:[^/@\s]*@")
_KEY_PARAMETER = re.compile(
    r"([?&][^=&?\s]*(?:secret|passw|pwd|token|signature|\bsig\b|credential|key)[^=&\s]*=)[^&\s'\"]+", re.IGNORECASE
)


KEYS_IN_URL = "the URL has a password or a key in it, which checkpoints and messages would show"
"""Reason of the errors for such URLs; what the URL has is not repeated."""


def has_keys(text: str) -> bool:
    """True if *text* contains a URL with a password or a key in it."""
    return "://" in text and bool(_USER_INFO.search(text) or _KEY_PARAMETER.search(text))


def without_keys(text: str) -> str:
    """*text* with the passwords and keys masked that URLs in it contain."""
    if "://" not in text:
        return text
    return _KEY_PARAMETER.sub(r"\1***", _USER_INFO.sub("***@", text))


def printable(text: str) -> str:
    """*text* as people may see it: on one line, without passwords and keys."""
    return visible(without_keys(text))


SHOW_VALUES = "BINLOG_STREAM_ERRORS_SHOW_VALUES"
"""Environment variable that is 1 where messages show values of rows; processes that Spark starts inherit it."""
HIDDEN = "(hidden)"
"""Stands in messages for values of rows."""


def shows_values() -> bool:
    """True if messages of this process may show values of rows (`errors_show_values` of jobs)."""
    return os.environ.get(SHOW_VALUES) == "1"


def row_value(text: str) -> str:
    """Text of a row's value for a message, or `HIDDEN`.

    Every message that quotes a value of a row, a part of one, or a text of a library that may quote one, gets it here.
    """
    return text if shows_values() else HIDDEN


_ABOUT_VALUES = (ValueError, TypeError, ArithmeticError, LookupError, AssertionError)


def library_text(error: BaseException) -> str:
    """First line of what a library's exception says; `HIDDEN` if it is about a value, which such texts quote."""
    text = str(error).strip().partition("\n")[0]
    return row_value(text) if text and isinstance(error, _ABOUT_VALUES) else text


def shown_cause(error: BaseException) -> BaseException | None:
    """*error* as the cause of a named one; None where values are hidden: tracebacks print the texts of causes."""
    return error if shows_values() else None


_SECOND_MIN = 315_532_800
"""1980: no program of today logged before."""
_SECONDS_AHEAD_MAX = 24 * 3600


def odd_clock(seconds: Iterable[int]) -> str | None:
    """Words about the first of some times (since 1970 UTC) that cannot be; None: all can."""
    last = time.time() + _SECONDS_AHEAD_MAX
    odd = next((second for second in seconds if not _SECOND_MIN <= second <= last), None)
    if odd is None:
        return None
    told = datetime.fromtimestamp(odd, UTC).isoformat()
    return f"an event has the time {told}: the clock of the program that logs, or its clock sync, is wrong"
