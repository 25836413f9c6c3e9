"""From what Spark raises back to the named error: `named_error`."""

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
