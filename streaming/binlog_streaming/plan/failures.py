"""Named errors: one that Spark raised is found again with `named_error`, and gets its table with `naming`."""

from __future__ import annotations

import re

from binlog_format.errors import BinlogError

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
