"""The errors for what a log does not tell row by row: `statement_error`, `events_lost_error`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from binlog_connector.schema.table_changes import RowsMoved
from binlog_format.errors import DataLossError, UnsupportedError
from binlog_format.events.account_statements import contains_password

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_connector.schema.table_changes import RowsChanged

STATEMENT_SHOWN_MAX = 200
"""Characters of a statement in messages, and of one that the view `tables` passes on."""

STATEMENT_HINT = (
    "Set binlog_format=ROW on the server, for all sessions (those that are open keep the old format), and take the "
    "tables anew from the server from a position after the last such statement"
)

SEQUENCE_HINT = (
    "A sequence has one row, which the server creates and alters without row events: leave it out "
    "(option source.excludeTables)"
)
_ABOUT_SEQUENCE = re.compile(
    r"\s*(?:SET\s+STATEMENT\b.*?\bFOR\s+)?(?:CREATE|ALTER)\b[^(]*?\bSEQUENCE\b", re.IGNORECASE | re.DOTALL
)

_HIDDEN = "its text is left out, as rules hide values of rows"
_SECRET = "its text is left out, as it contains a password"

MOVED_HINT = (
    "Take the tables anew from the server from a position after the statement; "
    'on_statement = "ignore" for them goes on without these rows'
)


def statement_error(
    statement: DdlStatement, names: Sequence[TableName] | None, changed: RowsChanged, *, tells_text: bool = True
) -> UnsupportedError:
    """The error for a statement that changes rows of which the log has none: `STATEMENT_FORMAT`, `ROWS_NOT_LOGGED`.

    Args:
        statement: Of the log.
        names: Tables of the reader that it concerns; None: any.
        changed: What it does.
        tells_text: Whether the statement, which holds the values that it writes, is in the message.
    """
    text = shown(statement) if tells_text else _HIDDEN
    about = "any table" if names is None else ", ".join(map(str, names))
    if isinstance(changed, RowsMoved):
        return UnsupportedError(
            "ROWS_NOT_LOGGED",
            f"{_place(statement)}: {about}: {changed.reason}: {text}",
            hint=MOVED_HINT,
        )
    why = f" ({changed.reason})" if changed.reason else ""
    return UnsupportedError(
        "STATEMENT_FORMAT",
        f"{_place(statement)}: a statement that changes rows of {about}{why} is logged as text, not row by row: {text}",
        hint=SEQUENCE_HINT if _ABOUT_SEQUENCE.match(statement.text) else STATEMENT_HINT,
    )


def events_lost_error(statement: DdlStatement) -> DataLossError:
    """The error for an INCIDENT event: `LOST_EVENTS`."""
    return DataLossError(
        "LOST_EVENTS",
        f"{_place(statement)}: the server recorded an incident: changes were made that are not in the log: "
        f"{shown(statement)}",
        hint="Take the tables anew from the server and begin after this event",
    )


def shown(statement: DdlStatement) -> str:
    """The first characters of the statement, in one line; not of one with a password."""
    if contains_password(statement.text):
        return _SECRET
    text = " ".join(statement.text[: STATEMENT_SHOWN_MAX + 1].split())
    return f"{text[:STATEMENT_SHOWN_MAX]}..." if len(statement.text) > STATEMENT_SHOWN_MAX else text


def _place(statement: DdlStatement) -> str:
    gtid = "" if statement.gtid is None else f"GTID {statement.gtid}, "
    return f"{gtid}position {statement.position}, event {statement.event_no}"
