"""CREATE TABLE as a server writes it anew in row format: for LIKE a temporary table, and for CREATE TABLE ... SELECT.

`is_server_text(content)`: it is in UTF-8, whatever the client has. `leaves_charset_out(create, text, session)`: it does
not say which character set the table has, as a server writes only those options of a table that the statement gave.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from binlog_format.vendor import LIKE_NAMES_ENGINE_SINCE

if TYPE_CHECKING:
    from binlog_connector.schema.operations import CreateTable
    from binlog_connector.schema.parsing.session import StatementSession

# sql/sql_show.cc: store_create_info. Texts have their quotes doubled, and no ends of lines.
_TEXT = r"'(?:[^'\n]|'')*+'"
_QUOTED = r'`(?:[^`]|``)*+`|"(?:[^"]|"")*+"'
_NAME = rf"(?:{_QUOTED}|[\w$]++)"
_GROUP = rf"\((?:{_TEXT}|[^'()\n])*+\)"
# What follows a type, or the first column of a key. Keys of tables have lines of their own; in small letters, DEFAULT
# is a function of an expression alone, and has a bracket.
_REST = rf"(?:{_TEXT}|{_QUOTED}|(?!\b(?:(?:PRIMARY|UNIQUE|REFERENCES)\b|[Dd]efault ))(?:[^'`\"\n,]|,(?!\n)))*+"
# Each column but texts states NULL or a default, each type its numbers where there is a default for them.
_SIZED = rf"(?:(?:var)?(?:char|binary)|enum|set|decimal|bit){_GROUP}"
_TEXTS = r"(?:tiny|medium|long)?(?:text|blob)"
_UNSIZED = (
    rf"(?!(?:var)?(?:char|binary)\b|(?:enum|set|decimal|numeric|bit|integer|bool|boolean)\b)[a-z]+[0-9]?(?:{_GROUP})?"
)
_STATED = r"(?=[^\n]* (?:NULL|DEFAULT|AS)\b)"
_COLUMN = rf"{_NAME} (?:{_TEXTS}(?= |,\n|\n)|(?:{_SIZED}|{_UNSIZED})(?= ){_STATED}){_REST}"
_KEY = rf"(?:PRIMARY KEY|(?:UNIQUE |FULLTEXT |SPATIAL )?KEY {_NAME}|CONSTRAINT {_NAME} CHECK) \({_REST}"
_LINE = rf"  (?:{_KEY}|{_COLUMN})"
_OPTION = rf" {_NAME}=(?:{_TEXT}|{_GROUP}|[\w.-]++)| /\*![^*\n]*+\*/"
_SERVER_TEXT = re.compile(
    rf"CREATE (?:OR REPLACE )?TABLE (?:IF NOT EXISTS )?{_NAME}(?:\.{_NAME})? \(\n{_LINE}(?:,\n{_LINE})*\n\)"
    rf"(?P<options>(?:{_OPTION})*)(?: START TRANSACTION)?"
)
_NAMES_ENGINE = re.compile(r" (?:ENGINE|TYPE)=(?!(?!InnoDB\b|MyISAM\b)(?i:innodb|myisam)\b)")
"""A server spells engines in its own way, whatever a statement has."""
_BARE_INTEGER = re.compile(rf"\n  {_NAME} (?:tiny|small|medium|big)?int(?!\()")

# sql/sql_class.h: MODE_POSTGRESQL to MODE_MAXDB, MODE_NO_TABLE_OPTIONS to MODE_ANSI. Options are left out in them.
_WITHOUT_OPTIONS = 0b11111 << 8 | 0b11111 << 14


def is_server_text(content: bytes) -> bool:
    """True if a statement looks as a server writes CREATE TABLE: a line for each column and key, in UTF-8."""
    try:
        return _SERVER_TEXT.fullmatch(content.decode()) is not None
    except UnicodeDecodeError:
        return False


def leaves_charset_out(create: CreateTable, text: str, session: StatementSession) -> bool:
    """True if the table may have any character set: *text* is that of LIKE a temporary table, or looks just like it.

    Statements of people have the character set, or what no temporary table has, or another form. CREATE TABLE ...
    SELECT leaves the character set out where it is the database's; of MySQL, it has no engine if none was given.
    """
    options = create.options
    if session.vendor is None or session.fills_table or options.charset is not None or options.partitioning is not None:
        return False
    if options.versioned or create.foreign_keys:
        return False
    match = _SERVER_TEXT.fullmatch(text)
    if match is None or _BARE_INTEGER.search(text) is not None:
        return False  # MySQL 8.0.19 and later write integers so; table maps of these have character sets
    is_old = (session.server_version or 0) < LIKE_NAMES_ENGINE_SINCE[session.vendor]
    return is_old or bool(session.sql_mode & _WITHOUT_OPTIONS) or _NAMES_ENGINE.search(match["options"]) is not None
