r"""Whether expressions on `database.table` let in more tables than others: `added_patterns(before, now)`.

Whether one regular expression matches all that another one does cannot be told in general. What people write is simple:
names, and names with something open at their end; for all else the answer is that it may let in more.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from binlog_format.views.table_filter import split_expressions

if TYPE_CHECKING:
    from collections.abc import Sequence

_LITERAL = re.compile(r"(?:\\[^A-Za-z0-9]|[A-Za-z0-9_@#$%&~ -]|[^\x00-\x7f])*")
_FLAGS = re.compile(r"(?:\(\?[aiLmsux]+\))?")
_QUANTIFIERS = frozenset("*?{")


def added_patterns(before: str, now: str) -> list[str]:
    """The expressions of *now* that may match a table which none of *before* matches.

    Args:
        before: Regular expressions, separated by commas.
        now: The same.
    """
    known = split_expressions(before)
    return [pattern for pattern in split_expressions(now) if not _is_covered(pattern, known)]


def without_tables(select: str, names: Sequence[str]) -> str:
    """Expressions that match what *select* does, but none of *names* (`database.table`)."""
    # Behind the expression, so that it begins as it was written; a comma would end it.
    unwanted = "".join(rf"(?<!\A{re.escape(name)})".replace(",", r"\x2c") for name in names)
    patterns = split_expressions(select) if names else []
    return ",".join(f"{_as_one(pattern)}{unwanted}" for pattern in patterns) or select


def _as_one(pattern: str) -> str:
    if "|" not in _outside_groups(pattern):
        return pattern
    match = _FLAGS.match(pattern)  # they stand at the start of an expression
    assert match is not None
    return f"{match[0]}(?:{pattern[match.end() :]})"


def _is_covered(pattern: str, known: Sequence[str]) -> bool:
    if pattern in known:
        return True
    start, is_whole = _literal_start(pattern)
    if is_whole:
        return any(re.fullmatch(one, start) for one in known)
    return any(_takes_all_from(one, pattern, start) for one in known if one.endswith(".*"))


def _takes_all_from(known: str, pattern: str, start: str) -> bool:
    # *known* is open at its end, for example shop\..*, and *start* is what all matches of *pattern* begin with.
    prefix, is_whole = _literal_start(known.removesuffix(".*"))
    if not is_whole:
        return False
    return not prefix or (start.startswith(prefix) and "|" not in _outside_groups(pattern))


def _literal_start(pattern: str) -> tuple[str, bool]:
    """The text that all matches of *pattern* begin with, as far as it stands there, and whether that is all."""
    match = _LITERAL.match(pattern)
    assert match is not None
    text = match[0]
    is_whole = len(text) == len(pattern)
    if not is_whole and pattern[len(text)] in _QUANTIFIERS:
        text = re.sub(r"(?:\\.|[^\\])$", "", text)  # the last character is the quantifier's
    return re.sub(r"\\(.)", r"\1", text), is_whole


def _outside_groups(pattern: str) -> str:
    depth, text = 0, ""
    for char in re.sub(r"\\.", "", pattern):
        depth += (char in "([") - (char in ")]")
        text += char if depth == 0 else ""
    return text
