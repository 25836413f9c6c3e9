"""Schema files: `read_schema_file(path)`: a dump of CREATE TABLEs becomes a `Catalog`."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_connector.schema.catalog import Catalog
from binlog_connector.schema.definitions import TableDefinition
from binlog_connector.schema.operations import CreateTable, UseDatabase
from binlog_connector.schema.parsing.ddl import DDL_WORDS, parse_ddl
from binlog_connector.schema.parsing.lexer import DdlSyntaxError, Lexer
from binlog_connector.schema.parsing.session import StatementSession
from binlog_format.errors import OptionError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.vendor import Vendor

_HINT = "Make it with mariadb-dump --no-data --databases NAME, or put USE NAME; before the tables"
# A quote without its end goes on to the end of the text: it is looked for once.
_QUOTED = r"'(?:[^'\\]++|\\.|'')*+(?:'|\\?\Z)|\"(?:[^\"\\]++|\\.|\"\")*+(?:\"|\\?\Z)|`(?:[^`]++|``)*+(?:`|\Z)"
_COMMENT = r"--(?=\s|\Z)[^\n]*+|\#[^\n]*+|/\*.*?(?:\*/|\Z)"
# A command of the client, not a statement: what ends statements from here on.
_DELIMITER = re.compile(r"(?:\s++|--(?=\s|\Z)[^\n]*+|#[^\n]*+)*+DELIMITER[ \t]+(\S+)[^\n]*", re.IGNORECASE)
# The head of a dump of one database, which has no USE.
_HEAD = re.compile(r"^-- Host: .*\bDatabase: (\S+)[ \t]*$", re.MULTILINE)


def read_schema_file(path: str, *, vendor: Vendor | None = None, ignore_case: bool = False) -> Catalog:
    """Read a dump: `mariadb-dump --no-data`, `mysqldump --no-data`, SHOW CREATE TABLEs with a `;` after each.

    Views, triggers, routines, comments, settings and rows are passed over.

    Args:
        path: Of a UTF-8 text.
        vendor: On whose server it was made; None: on either.
        ignore_case: See `Catalog`.

    Raises:
        OptionError: `INVALID_VALUE`: there is no such file, it holds no CREATE TABLE, or names are not UTF-8.
        SchemaError: `DDL_NOT_PARSED`: nothing names the database of a table.
    """
    try:
        # A dump of rows may hold bytes that are no text; what is read here never does.
        text = Path(path).read_text("utf-8", "surrogateescape")
    except OSError as error:
        raise OptionError("INVALID_VALUE", f"option schemaFile: {path}: {error.strerror}") from error
    catalog = parse_dump(text, vendor=vendor, ignore_case=ignore_case, source=path)
    if not catalog.tables:
        raise OptionError("INVALID_VALUE", f"option schemaFile: {path}: there is no CREATE TABLE in it", hint=_HINT)
    return catalog


def parse_dump(
    text: str, *, vendor: Vendor | None = None, ignore_case: bool = False, source: str = "schema file"
) -> Catalog:
    """Like `read_schema_file`, for its text; *source* is its name for messages."""
    head = _HEAD.search(text)
    session = StatementSession(head.group(1) if head else "", vendor=vendor)
    catalog = Catalog(ignore_case=ignore_case)
    for start, statement in _statements(text):
        keyword = _keyword_place(statement, vendor)
        if keyword is None:
            continue
        for operation in parse_ddl(statement, session):
            if isinstance(operation, UseDatabase):
                session = StatementSession(operation.database, vendor=vendor)
            elif isinstance(operation, CreateTable) and not operation.name.database:
                line = text.count("\n", 0, start + keyword) + 1
                reason = f"{source}: line {line}: nothing names the database of the table {operation.name.table}"
                raise SchemaError("DDL_NOT_PARSED", reason, hint=_HINT)
            else:
                catalog.apply(operation, vendor)
    _check_text(catalog, source)
    return catalog


@functools.cache
def _statement_pattern(delimiter: str) -> re.Pattern[str]:
    first, whole = re.escape(delimiter[0]), re.escape(delimiter)
    plain = rf"[^{first}'\"`\#/-]++"
    return re.compile(rf"(?:{plain}|{_QUOTED}|{_COMMENT}|(?!{whole}).)*+", re.DOTALL)


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Start and text of each statement; strings of rows are skipped at the speed of the pattern."""
    delimiter, place = ";", 0
    while place < len(text):
        command = _DELIMITER.match(text, place)
        if command is not None:
            delimiter, place = command.group(1), command.end()
            continue
        match = _statement_pattern(delimiter).match(text, place)
        assert match is not None, "it matches an empty text too"
        yield place, match.group()
        place = match.end() + len(delimiter)


def _keyword_place(statement: str, vendor: Vendor | None) -> int | None:
    """Place of the first keyword of a statement that may define tables; None: it is another."""
    try:
        first = Lexer(statement, vendor=vendor).first()
    except DdlSyntaxError:
        return None  # it begins with a quote: no statement does
    return first.start if first is not None and (first.word in DDL_WORDS or first.word == "USE") else None


def _check_text(catalog: Catalog, source: str) -> None:
    for name, state in catalog.tables.items():
        if isinstance(state, TableDefinition):
            texts = [*name, *(column.name for column in state.columns or ())]
            texts += [text for column in state.columns or () for text in column.enum_values or ()]
            if not all(text.isprintable() or text.encode("utf-8", "replace").decode() == text for text in texts):
                raise OptionError(
                    "INVALID_VALUE", f"option schemaFile: {source}: names of table {name.table!r} are not UTF-8"
                )
