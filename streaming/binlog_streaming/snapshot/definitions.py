"""Definitions of tables without their rows, written into the server's log: `plan_definitions`, `bring_definitions`.

A job knows from a table's definition what no row event has: foreign keys, generated columns, types such as UUID. Where
the CREATE TABLE is older than the log, one event group with a mark brings the definition, as it is at the mark's place.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pymysql

from binlog_connector.schema.definitions import TableName
from binlog_format.views.filters import SNAPSHOT_DATABASE
from binlog_streaming.server.session import DENIED, NO_SUCH_TABLE, named_error, number_of
from binlog_streaming.snapshot.log_identity import begin_writing, check_is_writer
from binlog_streaming.snapshot.marks import NO_CHUNK, Mark, MarkKind, MarksTable
from binlog_streaming.snapshot.server_checks import check_databases, check_mark_rights, check_server
from binlog_streaming.snapshot.server_tables import find_server_tables, no_table_found
from binlog_streaming.snapshot.source_table import locked_definition, read_columns

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.settings.model import Job
    from binlog_streaming.settings.publish_model import PublishJob


@dataclass(frozen=True, slots=True)
class BroughtDefinitions:
    """Definitions that were written.

    Attributes:
        names: Tables whose definitions are in the log now.
        hidden: Tables that were dropped meanwhile, or that the account may not read.
    """

    names: tuple[TableName, ...]
    hidden: tuple[TableName, ...]


def plan_definitions(
    session: ServerSession, job: Job | PublishJob, tables: str | None, among: Container[TableName] | None = None
) -> tuple[TableName, ...]:
    """Choose the definitions that a job needs: its own tables', and those to which their foreign keys lead.

    Args:
        session: On the server that writes the job's log.
        tables: Only these of them: regular expressions on `database.table`.
        among: Only tables of these names; None: all.
    """
    check_server(session)
    check_is_writer(session, job.source.path, job.source.format)
    found = [table for table in find_server_tables(session, job, tables) if among is None or table.name in among]
    if not found:
        raise no_table_found(session, job, tables)
    check_mark_rights(session)
    check_databases(session, {SNAPSHOT_DATABASE})
    names = [table.name for table in found]
    return (*names, *parents_of(session, names))


def parents_of(session: ServerSession, names: Iterable[TableName]) -> tuple[TableName, ...]:
    """Other tables that foreign keys of *names* lead to, through any number of tables."""
    return _above(_parents(session), names)


def _above(parents: Mapping[TableName, Sequence[TableName]], names: Iterable[TableName]) -> tuple[TableName, ...]:
    known = dict.fromkeys(names)
    given, ahead = len(known), list(known)
    while ahead:
        for parent in parents.get(ahead.pop(), ()):
            if parent not in known:
                known[parent] = None
                ahead.append(parent)
    return tuple(known)[given:]


def needed_before(session: ServerSession, names: Sequence[TableName]) -> tuple[TableName, ...]:
    """Tables whose definitions decide what happens to rows of *names*, and would come later than these, or not at all.

    Args:
        names: Tables that come with their definitions, in order.
    """
    parents, places = _parents(session), {name: place for place, name in enumerate(names)}
    later = {parent for name in names for parent in parents.get(name, ()) if places.get(parent, -1) > places[name]}
    return (*_above(parents, names), *(name for name in names if name in later))


def parents_first(session: ServerSession, names: Iterable[TableName]) -> tuple[TableName, ...]:
    """Order *names*, each after those that its foreign keys lead to, except in a circle.

    While a table has not all its rows yet, nobody can tell which rows go with its own.
    """
    parents, given = _parents(session), dict.fromkeys(names)
    found: dict[TableName, None] = {}
    begun: set[TableName] = set()
    ahead = list(reversed(given))
    while ahead:
        name = ahead[-1]
        begun.add(name)
        before = [parent for parent in parents.get(name, ()) if parent in given and parent not in begun]
        if before:
            ahead += reversed(before)
        else:
            found[ahead.pop()] = None
    return tuple(found)


def _parents(session: ServerSession) -> dict[TableName, list[TableName]]:
    """Tables that foreign keys lead to, by the table that has the key."""
    links = session.rows(
        "SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME, REFERENCED_TABLE_SCHEMA, REFERENCED_TABLE_NAME"
        " FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_NAME IS NOT NULL"
        " ORDER BY TABLE_SCHEMA, TABLE_NAME, REFERENCED_TABLE_SCHEMA, REFERENCED_TABLE_NAME"
    )
    parents: dict[TableName, list[TableName]] = {}
    for schema, table, parent_schema, parent in links:
        parents.setdefault(TableName(schema, table), []).append(TableName(parent_schema, parent))
    return parents


def visible_parents(session: ServerSession, names: Iterable[TableName]) -> tuple[TableName, ...]:
    """`parents_of`, without those that the account may not look at."""
    return tuple(name for name in parents_of(session, names) if read_columns(session, *name))


def bring_definitions(session: ServerSession, job: Job | PublishJob, names: Sequence[TableName]) -> BroughtDefinitions:
    """Write the definitions of tables into the server's log, each in an event group of its own; no rows are read.

    Args:
        session: On the server; it is set up for this.
        job: Whose log it must be.
    """
    begin_writing(session, job.source)
    return write_definitions(session, names)


def write_definitions(session: ServerSession, names: Sequence[TableName]) -> BroughtDefinitions:
    """Write definitions like `bring_definitions`, after `begin_writing`."""
    marks = MarksTable(session)
    brought, hidden = [], []
    for name in names:
        try:
            session.try_execute("START TRANSACTION")
            detail = locked_definition(session, *name)
            mark = Mark(str(uuid.uuid4()), MarkKind.DEFINITION, name, "", NO_CHUNK, 0, detail)
            session.try_script((marks.statement(mark), "COMMIT"))
        except pymysql.MySQLError as error:
            session.roll_back()
            number = number_of(error)
            if number not in DENIED and number != NO_SUCH_TABLE:
                raise named_error(error, str(session.address)) from error
            hidden.append(name)
        else:
            brought.append(name)
    return BroughtDefinitions(tuple(brought), tuple(hidden))
