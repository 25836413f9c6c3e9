"""Expressions on `database.table` without some tables: `without_tables(select, names)`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from binlog_format.views.table_filter import split_expressions

if TYPE_CHECKING:
    from collections.abc import Sequence

_FLAGS = re.compile(r"(?:\(\?[aiLmsux]+\))?")


def without_tables(select: str, names: Sequence[str]) -> str:
    """Expressions that match what *select* does, but none of *names* (`database.table`)."""
    # After the expression, so that it begins as it was written; a comma would end it.
    unwanted = "".join(rf"(?<!\A{re.escape(name)})".replace(",", r"\x2c") for name in names)
    patterns = split_expressions(select) if names else []
    return ",".join(f"{_as_one(pattern)}{unwanted}" for pattern in patterns) or select


def _as_one(pattern: str) -> str:
    if "|" not in _outside_groups(pattern):
        return pattern
    match = _FLAGS.match(pattern)  # they are at the start of an expression
    assert match is not None
    return f"{match[0]}(?:{pattern[match.end() :]})"


def _outside_groups(pattern: str) -> str:
    depth, text = 0, ""
    for char in re.sub(r"\\.", "", pattern):
        depth += (char in "([") - (char in ")]")
        text += char if depth == 0 else ""
    return text
