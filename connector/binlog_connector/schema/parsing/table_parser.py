"""CREATE TABLE and ALTER TABLE: `parse_create_table`, `parse_alter_table`, from after the keyword TABLE."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from binlog_connector.schema.definitions import PRIMARY, SEQUENCE_ENGINE, KeyPart
from binlog_connector.schema.operations import (
    OF_DATABASE,
    AlterTable,
    ColumnChange,
    CreateTable,
    KeySpec,
    TableOptions,
    engine_moves_rows,
)
from binlog_connector.schema.parsing.columns import parse_column
from binlog_connector.schema.parsing.defaults import parse_default
from binlog_connector.schema.parsing.keys import (
    accept_if_exists,
    at_key,
    at_period,
    parse_key,
    parse_period,
    skip_action,
)
from binlog_connector.schema.parsing.lexer import TokenKind, TokenReader
from binlog_connector.schema.parsing.session import column_name, parse_default_charset, table_name
from binlog_connector.schema.partitions.definition import PartitionChange
from binlog_connector.schema.partitions.parser import parse_converted_table, parse_partition_change, parse_partitioning
from binlog_format.names import folded_name

if TYPE_CHECKING:
    from binlog_connector.schema.definitions import Period, TableName
    from binlog_connector.schema.foreign_keys import ForeignKey
    from binlog_connector.schema.parsing.columns import ParsedColumn
    from binlog_connector.schema.parsing.session import StatementSession

_SELECT_WORDS = ("SELECT", "VALUES", "WITH", "TABLE")


@dataclass(slots=True)
class _Elements:
    columns: list[ParsedColumn] = field(default_factory=list)
    keys: list[KeySpec] = field(default_factory=list)
    foreign_keys: list[ForeignKey] = field(default_factory=list)
    period: Period | None = None

    def take_key(self, key: KeySpec | ForeignKey | None) -> None:
        if isinstance(key, KeySpec):
            self.keys.append(key)
        elif key is not None:
            self.foreign_keys.append(key)

    def take_column(self, column: ParsedColumn) -> None:
        self.columns.append(column)
        if column.key:
            self.keys.append(KeySpec(PRIMARY if column.key == "primary" else "", True, (KeyPart(column.name),)))
        if column.reference is not None:
            self.foreign_keys.append(column.reference)


def parse_create_table(reader: TokenReader, session: StatementSession) -> CreateTable:
    """Read what follows CREATE TABLE. Raises `DdlSyntaxError`: it is not understood."""
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = table_name(reader, session)
    elements, like = _Elements(), None
    if reader.accept("LIKE"):
        like = table_name(reader, session)
    elif reader.at_symbol("(") and reader.peek(1).word == "LIKE":
        reader.take()
        reader.take()
        like = table_name(reader, session)
        reader.expect_symbol(")")
    elif reader.at_symbol("(") and reader.peek(1).word not in ("SELECT", "WITH", "("):
        # A foreign key looks for its parent beside its own table.
        _parse_elements(reader, elements, replace(session, database=name.database))
    options = replace(_parse_options(reader, session), like=like)
    columns, keys, foreign_keys = tuple(elements.columns), tuple(elements.keys), tuple(elements.foreign_keys)
    return CreateTable(name, columns, keys, options, if_not_exists, foreign_keys, elements.period)


def _parse_elements(reader: TokenReader, elements: _Elements, session: StatementSession) -> None:
    reader.expect_symbol("(")
    while True:
        _parse_element(reader, elements, session)
        if reader.accept_symbol(")"):
            return
        reader.expect_symbol(",")


def _parse_element(reader: TokenReader, elements: _Elements, session: StatementSession) -> None:
    if at_key(reader):
        elements.take_key(parse_key(reader, session))
    elif at_period(reader):
        elements.period = parse_period(reader) or elements.period
    else:
        elements.take_column(parse_column(reader, column_name(reader), session))


def _parse_options(reader: TokenReader, session: StatementSession) -> TableOptions:
    options = TableOptions()
    while not reader.at_end():
        if reader.accept("PARTITION", "BY"):
            options = replace(options, partitioning=parse_partitioning(reader, session))
        elif reader.accept("WITH", "SYSTEM", "VERSIONING"):
            options = replace(options, versioned=True)
        elif reader.at_any("ENGINE", "SEQUENCE"):
            options = replace(options, engine=_engine(reader, options.engine))
        elif reader.accept("UNION"):
            options = replace(options, union=_union(reader, session))
        elif reader.at_any(*_SELECT_WORDS) or (reader.at_symbol("(") and reader.peek(1).word in _SELECT_WORDS):
            return replace(options, selects=True)
        else:
            charset = parse_default_charset(reader, session)
            if charset is None:
                _skip_option(reader)
            elif charset not in ("", OF_DATABASE):
                options = replace(options, charset=charset)
    return options


def _engine(reader: TokenReader, before: str | None) -> str | None:
    """The engine after ENGINE or SEQUENCE; *before*: the one stated before it. A sequence is one in any engine."""
    if reader.accept("SEQUENCE"):
        reader.accept_symbol("=")
        is_sequence = not reader.accept("DEFAULT") and reader.number() > 0
        return SEQUENCE_ENGINE if is_sequence else before
    reader.take()
    reader.accept_symbol("=")
    text = reader.take().text if reader.peek().kind is TokenKind.STRING else reader.name()
    return before if before == SEQUENCE_ENGINE else text.lower()


def _union(reader: TokenReader, session: StatementSession) -> tuple[TableName, ...]:
    # A MERGE table of no database has the tables of the session's.
    reader.accept_symbol("=")
    reader.expect_symbol("(")
    tables = []
    while not reader.accept_symbol(")"):
        tables.append(table_name(reader, session))
        reader.accept_symbol(",")
    return tuple(tables)


def _skip_option(reader: TokenReader) -> None:
    if reader.at_symbol(")"):
        raise reader.error("a table option expected")
    reader.skip()
    if reader.accept_symbol("="):
        reader.skip()


def parse_alter_table(reader: TokenReader, session: StatementSession) -> AlterTable:
    """Read what follows ALTER TABLE. Raises `DdlSyntaxError`: it is not understood."""
    accept_if_exists(reader)
    result = AlterTable(table_name(reader, session))
    if reader.accept("WAIT"):
        reader.number()
    else:
        reader.accept("NOWAIT")
    while not reader.at_end():
        # Partitions may follow other actions without a comma.
        change = parse_partition_change(reader, session)
        result = replace(result, partitions=change) if change is not None else _action(reader, result, session)
        if not reader.accept_symbol(",") and reader.at_symbol(")"):
            raise reader.error("the next action expected")
    return replace(result, changes=tuple(_with_own_default(change, result) for change in result.changes))


def _with_own_default(change: ColumnChange, alter: AlterTable) -> ColumnChange:
    """The change of a column of which the same statement sets the default, too: a new one, or one that it moves.

    MariaDB sql/sql_table.cc: mysql_prepare_alter_table. Of other columns both servers refuse that, MySQL 9.7 of all.
    """
    column = change.column
    found = [default for name, default in alter.defaults if folded_name(name) == folded_name(column.name)]
    if not found or not (change.old_name is None or change.is_placed):
        return change
    default = found[0] and (found[0] if column.type == "timestamp" else replace(found[0], time_zone=None))
    return replace(change, column=replace(column, default=default))


def _action(reader: TokenReader, alter: AlterTable, session: StatementSession) -> AlterTable:
    # A foreign key looks for its parent beside its own table.
    own = replace(session, database=alter.name.database)
    if reader.accept("ADD"):
        return _add(reader, alter, own)
    if reader.accept("DROP"):
        return _drop(reader, alter)
    if reader.accept("MODIFY"):
        reader.accept("COLUMN")
        if_possible = accept_if_exists(reader)
        name = column_name(reader)
        return _changed(reader, alter, ColumnChange(parse_column(reader, name, own), name), if_possible)
    if reader.accept("CHANGE"):
        reader.accept("COLUMN")
        if_possible = accept_if_exists(reader)
        old = column_name(reader)
        column = parse_column(reader, column_name(reader), own)
        return _changed(reader, alter, ColumnChange(column, old), if_possible)
    if reader.accept("RENAME"):
        return _rename(reader, alter, session)
    if reader.accept("CONVERT"):
        return _convert(reader, alter, session)
    if reader.accept("ALTER"):
        return _alter_column(reader, alter, session)
    charset = parse_default_charset(reader, session)
    if charset is not None:
        return replace(alter, charset=charset or alter.charset)
    return _other_action(reader, alter, session)


def _alter_column(reader: TokenReader, alter: AlterTable, session: StatementSession) -> AlterTable:
    if not reader.accept("COLUMN") and reader.at_any("INDEX", "KEY", "CHECK", "CONSTRAINT"):
        skip_action(reader)
        return alter
    accept_if_exists(reader)
    name = column_name(reader)
    if reader.accept("SET", "DEFAULT"):
        # Where the column is no TIMESTAMP, the time zone does not matter.
        default = replace(parse_default(reader, session)[0], time_zone=session.time_zone)
        alter = replace(alter, defaults=(*alter.defaults, (name, default)))
    elif reader.accept("DROP", "DEFAULT"):
        alter = replace(alter, defaults=(*alter.defaults, (name, None)))
    skip_action(reader)
    return alter


def _other_action(reader: TokenReader, alter: AlterTable, session: StatementSession) -> AlterTable:
    """ENGINE, ALGORITHM, ORDER BY, tablespaces: the columns stay, but not all rows do."""
    if reader.accept("EXCHANGE", "PARTITION"):
        partition = reader.name()
        _expect(reader, "WITH")
        _expect(reader, "TABLE")
        other = table_name(reader, session)
        moves = f"EXCHANGE PARTITION {partition} WITH TABLE {other} exchanges rows that the log does not name"
        alter = replace(alter, other_table=other, moved_partition=partition, moves_rows=moves)
    elif reader.at_any("ENGINE", "SEQUENCE"):
        engine = _engine(reader, alter.engine)
        alter = replace(alter, engine=engine, moves_rows=alter.moves_rows or engine_moves_rows(engine))
    elif reader.accept("UNION"):
        alter = replace(alter, union=_union(reader, session), moves_rows=alter.moves_rows or engine_moves_rows("merge"))
    elif reader.at("DISCARD") or reader.at("IMPORT"):
        what = f"{reader.take().word} TABLESPACE"
        alter = replace(alter, moves_rows=f"{what} takes or brings rows that the log does not name")
    elif reader.at("ORDER", "BY"):
        skip_action(reader)
    else:
        _skip_option(reader)  # the next one may follow without a comma
    return alter


def _add(reader: TokenReader, alter: AlterTable, session: StatementSession) -> AlterTable:
    if reader.accept("SYSTEM", "VERSIONING"):
        return replace(alter, versioning=True)
    if at_key(reader):
        elements = _Elements()
        elements.take_key(parse_key(reader, session))
        return _with_elements(alter, elements)
    if at_period(reader):
        return replace(alter, period=parse_period(reader) or alter.period)
    reader.accept("COLUMN")
    if_possible = accept_if_exists(reader)
    if not reader.at_symbol("("):
        column = parse_column(reader, column_name(reader), session)
        return _changed(reader, alter, ColumnChange(column), if_possible)
    elements = _Elements()
    _parse_elements(reader, elements, session)
    for column in elements.columns:
        alter = _with_change(alter, ColumnChange(column, if_possible=if_possible))
    return _with_elements(alter, elements)


def _with_elements(alter: AlterTable, elements: _Elements) -> AlterTable:
    return replace(
        alter,
        new_keys=(*alter.new_keys, *elements.keys),
        new_foreign_keys=(*alter.new_foreign_keys, *elements.foreign_keys),
    )


def _changed(reader: TokenReader, alter: AlterTable, change: ColumnChange, if_possible: bool) -> AlterTable:
    if reader.accept("FIRST"):
        change = replace(change, first=True)
    elif reader.accept("AFTER"):
        change = replace(change, after=reader.name())
    elements = _Elements()
    elements.take_column(change.column)
    return _with_elements(_with_change(alter, replace(change, if_possible=if_possible)), elements)


def _with_change(alter: AlterTable, change: ColumnChange) -> AlterTable:
    # MariaDB sql/sql_table.cc: handle_if_exists_options: of what IF NOT EXISTS adds, only the first of a name counts,
    # also after a column that gets this name, or would get it.
    name = folded_name(change.column.name)
    alike = [other for other in alter.changes if folded_name(other.column.name) == name]
    if alike and change.if_possible and change.old_name is None:
        return alter
    added = next((other for other in alike if other.old_name is None), None)
    if added is None or change.if_possible:
        return replace(alter, changes=(*alter.changes, change))
    # mysql_prepare_alter_table: what is changed to the name of a new column is that column, declared again.
    again = replace(change, old_name=None, if_possible=added.if_possible)
    where_it_is = (replace(change, if_possible=True),) if added.if_possible else ()
    others = (other for other in alter.changes if other is not added)
    return replace(alter, changes=(*others, again, *where_it_is))


def _drop(reader: TokenReader, alter: AlterTable) -> AlterTable:
    if reader.accept("SYSTEM", "VERSIONING"):
        moves = "DROP SYSTEM VERSIONING removes the versions that have ended, which the log does not name"
        return replace(alter, versioning=False, moves_rows=moves)
    if reader.accept("PRIMARY", "KEY"):
        return replace(alter, dropped_keys=(*alter.dropped_keys, PRIMARY))
    if reader.accept("INDEX") or reader.accept("KEY"):
        accept_if_exists(reader)
        return replace(alter, dropped_keys=(*alter.dropped_keys, reader.name()))
    if reader.accept("FOREIGN", "KEY"):
        accept_if_exists(reader)
        return replace(alter, dropped_foreign_keys=(*alter.dropped_foreign_keys, reader.name()))
    if reader.accept("CONSTRAINT"):
        accept_if_exists(reader)
        name = reader.name()
        dropped = (*alter.dropped_foreign_keys, name)
        return replace(alter, dropped_keys=(*alter.dropped_keys, name), dropped_foreign_keys=dropped)
    if at_period(reader):
        drops = reader.peek(2).word != "SYSTEM_TIME"
        skip_action(reader)
        return replace(alter, drops_period=alter.drops_period or drops)
    if reader.at("CHECK"):
        skip_action(reader)
        return alter
    reader.accept("COLUMN")
    if_exists = accept_if_exists(reader)
    name = column_name(reader)
    _ = reader.accept("RESTRICT") or reader.accept("CASCADE")
    return replace(alter, dropped=(*alter.dropped, (name, if_exists)))


def _rename(reader: TokenReader, alter: AlterTable, session: StatementSession) -> AlterTable:
    # RENAME COLUMN TO x would be a table: COLUMN is a reserved word, TO is not the old name of anything here.
    if reader.accept("COLUMN"):
        if_exists, old = accept_if_exists(reader), reader.name()
        _expect(reader, "TO")
        there = (*alter.renamed_if_there, old) if if_exists else alter.renamed_if_there
        return replace(alter, column_renames=(*alter.column_renames, (old, reader.name())), renamed_if_there=there)
    if reader.accept("INDEX") or reader.accept("KEY"):
        accept_if_exists(reader)
        old = reader.name()
        _expect(reader, "TO")
        return replace(alter, key_renames=(*alter.key_renames, (old, reader.name())))
    _ = reader.accept("TO") or reader.accept("AS") or reader.accept_symbol("=")
    return replace(alter, new_name=table_name(reader, session))


def _expect(reader: TokenReader, word: str) -> None:
    if not reader.accept(word):
        raise reader.error(f"{word} expected")


def _convert(reader: TokenReader, alter: AlterTable, session: StatementSession) -> AlterTable:
    if reader.accept("PARTITION"):
        partition = reader.name()
        _expect(reader, "TO")
        _expect(reader, "TABLE")
        table = table_name(reader, session)
        moves = f"CONVERT PARTITION {partition} TO TABLE {table} moves rows that the log does not name"
        change = PartitionChange(removed=(partition,))
        return replace(alter, partition_to=table, moved_partition=partition, partitions=change, moves_rows=moves)
    if reader.accept("TABLE"):
        table = table_name(reader, session)
        _expect(reader, "TO")
        change = parse_converted_table(reader, session)
        moves = f"CONVERT TABLE {table} TO PARTITION moves rows that the log does not name"
        return replace(alter, table_to_partition=table, partitions=change, moves_rows=moves)
    _expect(reader, "TO")
    charset = parse_default_charset(reader, session)
    if charset is None:
        raise reader.error("CHARACTER SET expected")
    charset = parse_default_charset(reader, session) or charset
    is_alone = session.may_skip_conversions and reader.at_end() and alter == AlterTable(alter.name)
    default = None if session.last_charset_counts else alter.charset
    return replace(alter, charset=default, converted_to=charset, convert_may_be_skipped=is_alone)
