"""Tables that gh-ost and pt-online-schema-change make beside others: `ghost_of(name)`, `origin_of(name)`."""

from __future__ import annotations

import re

from binlog_connector.schema.definitions import TableName

# gh-ost builds `_X_gho` beside X, pt-online-schema-change `_X_new` (with more underscores when that is taken).
_GHOST = re.compile(r"_+(?P<table>.+)_(?:gho|new)")

# What becomes of X: `_X_del`, with a time in the name where asked for, `_X_old`; `_X_ghc` has rows about the work.
_RELATIVE = re.compile(r"_+(?P<table>.+?)(?:_\d{14})?_(?:gho|new|del|old|ghc)")


def ghost_of(name: TableName) -> TableName | None:
    """The table whose place *name* will take, if it is called like what gh-ost or pt-online-schema-change builds."""
    ghost = _GHOST.fullmatch(name.table)
    return None if ghost is None else TableName(name.database, ghost["table"])


def origin_of(name: TableName) -> TableName | None:
    """The table whose rows *name* has, had or will have, if it is called like what these tools make."""
    relative = _RELATIVE.fullmatch(name.table)
    return None if relative is None else TableName(name.database, relative["table"])
