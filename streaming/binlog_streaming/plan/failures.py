"""Named errors: one that Spark raised is found again with `named_error`, and gets its table with `naming`.

`unexpected` makes one of an exception that nobody foresaw, wherever `naming_unexpected` is around it.
"""

from __future__ import annotations

import re
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_format.errors import BinlogError, TableError
from binlog_format.messages import library_text, shown_cause
from binlog_streaming.modes.shards import IndivisibleError

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMED = re.compile(r"\[(?P<family>BINLOG_[A-Z_]+)\.(?P<subclass>[A-Z_]+)\] (?P<reason>[^\n]*)")


def named_error(text: str) -> BinlogError | None:
    """The first named error that *text* (a message of Spark, with tracebacks of workers in it) mentions; None: none.

    Its place and hint are part of the reason: as text they cannot be told apart any more.
    """
    families = {family.FAMILY: family for family in BinlogError.__subclasses__()}
    for match in _NAMED.finditer(text):
        family = families.get(match["family"])
        if family is not None and match["subclass"] in family.SUBCLASSES:
            return family(match["subclass"], match["reason"].strip())
    return None


def naming(error: BinlogError, source_table: str) -> BinlogError:
    """*error*, with the table in its reason: a damaged page, for example, does not know for whom it was read."""
    if source_table in error.reason:
        return error
    return type(error)(error.subclass, f"{source_table}: {error.reason}", at=error.at, hint=error.hint)


def unexpected(error: Exception, place: str) -> TableError:
    """The named error for an exception that nobody foresaw; to be raised from it.

    Args:
        error: What a library, or this program, raised.
        place: The table, and what was done to it.

    Raises:
        MemoryError: *error* is one: it is of the machine, not of the table.
    """
    if isinstance(error, MemoryError):
        raise error
    what = library_text(error)
    # A task of Spark gives errors back without their tracebacks.
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if f"{__name__.partition('.')[0]}/" in frame.filename][-1:]
    places = dict.fromkeys(f"{Path(frame.filename).name}:{frame.lineno}" for frame in (*ours, *frames[-1:]))
    return TableError(
        "UNEXPECTED_ERROR",
        f"{place}: {type(error).__name__}{': ' if what else ''}{what} ({', '.join(places)})",
        hint="Please report it. Nothing of the step is in the table, and it will be tried again when the job starts "
        'again; on_error = "set_aside" lets all other tables go on',
    )


@contextmanager
def naming_unexpected(place: str) -> Iterator[None]:
    """Turn unexpected errors into a named error.

    Args:
        place: As of `unexpected`.

    Raises:
        IndivisibleError: As it is: it is no error.
    """
    try:
        yield
    except (BinlogError, IndivisibleError):
        raise
    except Exception as error:
        raise unexpected(error, place) from shown_cause(error)
