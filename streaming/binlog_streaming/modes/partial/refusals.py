"""Errors of steps whose row images lack columns: `generated_absent`, `kind_unknown`, `lacking_columns`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.errors import UnsupportedError
from binlog_streaming.modes.partial.absent_columns import GENERATED_HINT, UNCLEAR_HINT

if TYPE_CHECKING:
    from collections.abc import Sequence


def generated_absent(
    source_table: str, names: Sequence[str], count: int, *, hint: str = GENERATED_HINT
) -> UnsupportedError:
    """The error for generated columns that row images lack."""
    why = "generated columns that row images lack: the server computes them anew and does not log them"
    return lacking_columns(source_table, names, count, why, hint=hint)


def kind_unknown(source_table: str, names: Sequence[str], count: int) -> UnsupportedError:
    """The error for columns that images after updates lack, and that may be generated."""
    why = (
        "missing from images of updates, and it is not known whether these columns are generated: others are "
        "unchanged then, and generated ones the server computes anew"
    )
    return lacking_columns(source_table, names, count, why, hint=UNCLEAR_HINT)


def lacking_columns(source_table: str, names: Sequence[str], count: int, why: str, *, hint: str) -> UnsupportedError:
    """The error for columns that row images lack.

    Args:
        source_table: `database.table`.
        names: Of the columns.
        count: Of rows.
        why: What they are missing from, and what is not known of them.
        hint: What the operator can do.
    """
    return UnsupportedError("ROW_IMAGE", f"{source_table}: {', '.join(names)}: {why} ({count} rows)", hint=hint)
