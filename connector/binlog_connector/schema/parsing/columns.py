"""Column definitions in statements: `parse_column` gives a `ParsedColumn`, `resolved` makes it a `ColumnDefinition`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from binlog_connector.schema.definitions import ColumnDefinition, is_numeric
from binlog_connector.schema.foreign_keys import parse_reference
from binlog_connector.schema.parsing.defaults import (
    IMPLICIT_TIMESTAMP,
    SYSTEM_TIME,
    TIME_TYPES,
    expression_words,
    held_time,
    is_ignored,
    parse_default,
)
from binlog_connector.schema.parsing.lexer import MODE_MAXDB, MODE_ORACLE, MODE_REAL_AS_FLOAT, TokenKind
from binlog_connector.schema.parsing.session import BINARY, NATIONAL, UTF8MB4, charset_name, charset_of_collation_name
from binlog_format.events.charsets import can_hold
from binlog_format.names import folded_name
from binlog_format.rows.declared.declared_types import AUTO_INCREMENT, Generated, character_size
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from binlog_connector.schema.foreign_keys import ForeignKey
    from binlog_connector.schema.parsing.lexer import Token, TokenReader
    from binlog_connector.schema.parsing.session import StatementSession
    from binlog_format.rows.declared.declared_types import DeclaredDefault

_ALIASES = {
    "integer": "int",
    "int1": "tinyint",
    "int2": "smallint",
    "int3": "mediumint",
    "int4": "int",
    "int8": "bigint",
    "middleint": "mediumint",
    "dec": "decimal",
    "numeric": "decimal",
    "fixed": "decimal",
    "number": "decimal",
    "float4": "float",
    "float8": "double",
    "character": "char",
    "nchar": "char",
    "varcharacter": "varchar",
    "varchar2": "varchar",
    "nvarchar": "varchar",
    "raw": "varbinary",
    "clob": "longtext",
    "xmltype": "longtext",
    "geomcollection": "geometrycollection",
    "long": "mediumtext",
}
_NATIONAL_WORDS = frozenset({"national", "nchar", "nvarchar"})
# MariaDB: `mariadb_schema.date` is that type whatever the session's mode is (sql/sql_schema.cc); what a server writes
# in a mode that changes types has it.
_TYPE_SCHEMAS = {"mariadb_schema": 0, "oracle_schema": MODE_ORACLE, "maxdb_schema": MODE_MAXDB}
CHARACTER_TYPES = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"})
_BINARY_OF = {
    "char": "binary",
    "varchar": "varbinary",
    "tinytext": "tinyblob",
    "text": "blob",
    "mediumtext": "mediumblob",
    "longtext": "longblob",
}
_BINARY = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_BINARY_IN_LOG = frozenset({"uuid", "inet6", "inet4", "vector"})

_TEXT_SIZES = ((1 << 8, "tiny"), (1 << 16, ""), (1 << 24, "medium"), (1 << 32, "long"))
_VARCHAR_BYTES_MAX = 65535
_CHAR_CHARACTERS_MAX = 255
_FLOAT_DIGITS_MAX = 24

# Attributes that a value follows, with or without `=`; the value may be a keyword that means something elsewhere.
_WITH_VALUE = frozenset({"COLUMN_FORMAT", "STORAGE", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE", "SRID"})


@dataclass(frozen=True, slots=True)
class ParsedColumn:
    """A column as a statement has it, before the defaults of its table.

    Attributes:
        type: Name of the type in lower case, aliases resolved.
        numbers: In the parentheses after it.
        values: Of ENUM and SET; None where one of them is not text.
        unsigned: Whether UNSIGNED, ZEROFILL or SERIAL is there.
        charset: CHARACTER SET, or that of COLLATE; None: the table's default.
        nullable: None: the definition does not contain it.
        key: `primary`, `unique` or empty.
        system_role: `start`, `end` or empty.
        versioned: WITH SYSTEM VERSIONING, which makes its table versioned.
        default: What follows DEFAULT, and AUTO_INCREMENT; None: nothing does.
        generated: It is computed from other columns.
        expression: Of a generated column, or of a default; see `ColumnDefinition`.
        comment: COMMENT; empty: none.
        json_check: There is a CHECK of `json_valid` on itself alone: how MariaDB shows a JSON column.
        unknown: Attributes of the column that the session decides, and the log does not tell.
    """

    name: str
    type: str
    numbers: tuple[int, ...] = ()
    values: tuple[str, ...] | None = None
    unsigned: bool = False
    charset: str | None = None
    nullable: bool | None = None
    key: str = ""
    invisible: bool = False
    system_role: str = ""
    json_check: bool = False
    versioned: bool = False
    default: DeclaredDefault | None = None
    generated: Generated | None = None
    reference: ForeignKey | None = None
    zerofill: bool = False
    compressed: bool = False
    expression: tuple[str, ...] = ()
    comment: str = ""
    unknown: frozenset[str] = frozenset()


def parse_column(reader: TokenReader, name: str, session: StatementSession) -> ParsedColumn:
    """Read the type and the attributes of column *name*, up to a `,`, a `)`, FIRST or AFTER."""
    spec = _parse_type(reader, name, session)
    while not (reader.at_clause_end() or reader.at_any("FIRST", "AFTER")):
        spec = _attribute(reader, spec, session)
    if spec.default == AUTO_INCREMENT:
        return spec
    if spec.default is not None and spec.type in TIME_TYPES:
        spec = replace(spec, default=held_time(spec.default, spec.type, (*spec.numbers, 0)[0], session))
    return _timed(spec, session) if spec.type == "timestamp" else spec


def _timed(spec: ParsedColumn, session: StatementSession) -> ParsedColumn:
    """A TIMESTAMP, whose default depends on more of the session than others do, as does whether it takes NULL."""
    default = spec.default
    if spec.nullable is None and spec.generated is None and not session.explicit_timestamps:
        is_known = session.explicit_timestamps is not None
        spec = replace(spec, nullable=False) if is_known else replace(spec, unknown=frozenset(["nullable"]))
    if default is None and spec.nullable is not True and not session.explicit_timestamps:
        return replace(spec, default=IMPLICIT_TIMESTAMP)
    return spec if default is None else replace(spec, default=replace(default, time_zone=session.time_zone))


def _parse_type(reader: TokenReader, name: str, session: StatementSession) -> ParsedColumn:
    token = reader.peek()
    word = reader.name().lower()
    if token.kind is not TokenKind.WORD:
        raise reader.error(f"the type of column {name!r} expected before this")
    if word in _TYPE_SCHEMAS and reader.accept_symbol("."):
        word = reader.name().lower()
        session = replace(session, sql_mode=_TYPE_SCHEMAS[token.text.lower()])
    if word == "serial":
        return ParsedColumn(name, "bigint", (20,), unsigned=True, nullable=False, key="unique", default=AUTO_INCREMENT)
    if word in ("bool", "boolean"):
        return ParsedColumn(name, "tinyint", (1,))
    spec = ParsedColumn(name, word, charset=NATIONAL if word in _NATIONAL_WORDS else None)
    if word == "national":
        word = reader.name().lower()
    type_name = _two_words(reader, _ALIASES.get(word, word))
    if type_name in ("enum", "set"):
        return replace(spec, type=type_name, values=_values(reader.group()))
    numbers = _numbers(reader)
    type_name = _by_mode(word, type_name, numbers, session)
    if type_name == "float" and len(numbers) == 1:
        type_name, numbers = ("float" if numbers[0] <= _FLOAT_DIGITS_MAX else "double"), ()
    if type_name in ("text", "blob") and numbers == (0,):
        spec = spec if session.sizes_empty_texts is not None else replace(spec, unknown=frozenset(["declared"]))
        numbers = () if session.sizes_empty_texts is False else numbers
    return replace(spec, type=type_name, numbers=numbers)


def _two_words(reader: TokenReader, name: str) -> str:
    if name == "double":
        reader.accept("PRECISION")
    elif name == "char" and (reader.accept("VARYING") or reader.accept("VARCHAR")):
        return "varchar"
    elif name == "char" and reader.accept("LARGE", "OBJECT"):
        return "longtext"
    elif name == "mediumtext" and reader.accept("VARBINARY"):
        return "mediumblob"
    elif name == "mediumtext":
        _ = reader.accept("VARCHAR") or reader.accept("CHAR", "VARYING") or reader.accept("CHARACTER", "VARYING")
    elif name == "varchar" and reader.accept("VARYING"):
        return "varchar"
    return name


def _by_mode(word: str, name: str, numbers: tuple[int, ...], session: StatementSession) -> str:
    if word == "real":
        return "float" if session.sql_mode & MODE_REAL_AS_FLOAT else "double"
    if word == "number" and not numbers:
        return "double"
    if session.has_oracle_types and word == "date":
        return "datetime"
    if session.has_oracle_types and word == "blob" and not numbers:
        return "longblob"
    if session.sql_mode & MODE_MAXDB and word == "timestamp":
        return "datetime"
    return name


def _numbers(reader: TokenReader) -> tuple[int, ...]:
    if not reader.at_symbol("("):
        return ()
    # Servers read the whole number of `DECIMAL(19.5)` (`field_length` of sql/sql_yacc.yy).
    whole = (token.text.partition(".")[0] for token in reader.group() if token.kind is TokenKind.NUMBER)
    return tuple(int(text) for text in whole if text.isdecimal())


def _values(tokens: list[Token]) -> tuple[str, ...] | None:
    others = (token for token in tokens if token.kind is not TokenKind.STRING)
    if not all(token.kind is TokenKind.SYMBOL and token.text == "," for token in others):
        return None
    return tuple(token.text for token in tokens if token.kind is TokenKind.STRING)


def _attribute(reader: TokenReader, spec: ParsedColumn, session: StatementSession) -> ParsedColumn:
    if reader.at_symbol("("):  # arguments of a function after ON UPDATE
        reader.group()
        return spec
    word = reader.peek().word
    if word in ("CHARACTER", "CHAR", "CHARSET", "COLLATE", "ASCII", "UNICODE", "BYTE"):
        return _charset_attribute(reader, spec, session)
    if word == "GENERATED" or word == "AS":
        return _generated(reader, spec, session)
    if word == "CHECK":
        reader.take()
        check = reader.group()
        return replace(spec, json_check=spec.json_check or _is_json_check(check, spec.name))
    if reader.accept("REFERENCES"):
        return replace(spec, reference=replace(parse_reference(reader, session, "", (spec.name,)), inline=True))
    if reader.accept("DEFAULT"):
        is_literal = not reader.at_symbol("(")
        default, words = parse_default(reader, session)
        # A column that is numbered stays so: servers take DEFAULT NULL for it, and nothing else.
        is_kept = spec.default != AUTO_INCREMENT and not (is_literal and is_ignored(default, spec.type, session))
        return replace(spec, default=default, expression=words) if is_kept else spec
    reader.take()
    if word == "COMMENT":
        reader.accept_symbol("=")
        return replace(spec, comment=reader.take().text)
    if word in _WITH_VALUE:
        reader.accept_symbol("=")
        reader.skip()
        return spec
    if word in ("STORED", "PERSISTENT") and spec.generated is not None:
        return replace(spec, generated=Generated.STORED)
    if word == "AUTO_INCREMENT":
        return replace(spec, nullable=False, default=AUTO_INCREMENT)  # but for a NULL after it
    if word == "SERIAL" and reader.accept("DEFAULT", "VALUE"):
        return replace(spec, nullable=False, key=spec.key or "unique", default=AUTO_INCREMENT)
    return _flag(reader, spec, word)


def _flag(reader: TokenReader, spec: ParsedColumn, word: str) -> ParsedColumn:
    """Meaning of one keyword, already taken; others do not matter for the layout."""
    if word in ("UNSIGNED", "ZEROFILL"):
        return replace(spec, unsigned=True, zerofill=spec.zerofill or word == "ZEROFILL")
    if word == "NOT" and reader.accept("NULL"):
        return replace(spec, nullable=False)
    if word == "NULL":
        return replace(spec, nullable=True)
    if word == "PRIMARY" and reader.accept("KEY"):
        return replace(spec, key="primary")
    if word == "KEY":
        return replace(spec, key="primary")
    if word == "UNIQUE":
        reader.accept("KEY")
        return replace(spec, key=spec.key or "unique")
    if word == "INVISIBLE":
        return replace(spec, invisible=True)
    if word == "COMPRESSED":
        return replace(spec, compressed=True)
    if word == "WITH" and reader.at("SYSTEM", "VERSIONING"):
        return replace(spec, versioned=True)
    if word in ("ON", "CONSTRAINT", "WITH", "WITHOUT"):
        # ON UPDATE now(), CONSTRAINT name CHECK, WITH[OUT] SYSTEM VERSIONING: what follows is no attribute by itself.
        if not reader.at("CHECK"):
            reader.take()
        return spec
    return spec


def _charset_attribute(reader: TokenReader, spec: ParsedColumn, session: StatementSession) -> ParsedColumn:
    word = reader.take().word
    if word == "ASCII":
        return replace(spec, charset="latin1")
    if word == "UNICODE":
        return replace(spec, charset="ucs2")
    if word == "BYTE":
        return replace(spec, charset=BINARY)
    if word == "COLLATE":
        reader.accept_symbol("=")
        return replace(spec, charset=charset_of_collation_name(_value(reader), session) or spec.charset)
    if word != "CHARSET" and not reader.accept("SET"):
        return spec
    reader.accept_symbol("=")
    if reader.accept("DEFAULT"):
        return spec
    return replace(spec, charset=charset_name(_value(reader), session))


def _value(reader: TokenReader) -> str:
    if reader.peek().kind is TokenKind.STRING:
        return reader.take().text
    return reader.name()


def _generated(reader: TokenReader, spec: ParsedColumn, session: StatementSession) -> ParsedColumn:
    if reader.accept("GENERATED"):
        reader.accept("ALWAYS")
    if not reader.accept("AS"):
        return spec
    if reader.accept("ROW"):
        role = "start" if reader.accept("START") else "end"
        if role == "end":
            reader.accept("END")
        return replace(spec, system_role=role, nullable=False, default=SYSTEM_TIME)
    return replace(spec, generated=Generated.VIRTUAL, expression=expression_words(reader.group(), session))


def _is_json_check(tokens: list[Token], name: str) -> bool:
    texts = [folded_name(token.text) for token in tokens if not (token.kind is TokenKind.SYMBOL and token.text in "()")]
    return texts == ["json_valid", folded_name(name)]


def resolved(spec: ParsedColumn, default_charset: str | None, vendor: Vendor | None = None) -> ColumnDefinition:
    """The column that a server makes of *spec* in a table with *default_charset*."""
    name, numbers, charset = spec.type, spec.numbers, None
    if name == "json" or (name == "longtext" and spec.json_check and vendor is not Vendor.MYSQL):
        name, numbers, charset = "json", (), None if vendor is Vendor.MYSQL else UTF8MB4
    elif name in CHARACTER_TYPES:
        charset = spec.charset or default_charset
        if charset == BINARY:
            name = _BINARY_OF.get(name, name)
    elif name in _BINARY or name in _BINARY_IN_LOG:
        charset = BINARY
    name, numbers = _fitted(name, numbers, charset)
    labels = _labels(spec.values, charset) if name in ("enum", "set") else None
    if labels is not None and charset is not None and charset != BINARY and not can_hold("".join(labels), charset):
        labels = None  # the server has others: a lax session puts a question mark where a character is missing
    unknown = {"enum_values"} if spec.values and labels is None and name in ("enum", "set") else set()
    return ColumnDefinition(
        spec.name,
        name + (f"({','.join(map(str, numbers))})" if numbers else ""),
        spec.nullable is not False,
        unsigned=(spec.unsigned or name == "year") if is_numeric(name) else None,
        charset=charset,
        enum_values=labels,
        invisible=spec.invisible,
        system_role=spec.system_role,
        default=spec.default,
        generated=spec.generated,
        zerofill=spec.zerofill,
        compressed=spec.compressed,
        expression=() if spec.generated is None else spec.expression,
        comment=spec.comment,
        unknown=spec.unknown | unknown,
    )


def _labels(values: tuple[str, ...] | None, charset: str | None) -> tuple[str, ...] | None:
    """Labels of an ENUM or SET: servers drop spaces at their ends, but where they are bytes; None: not known."""
    if values is None or charset == BINARY:
        return values
    labels = tuple(value.rstrip(" ") for value in values)
    return None if charset is None and labels != values else labels


def _fitted(name: str, numbers: tuple[int, ...], charset: str | None) -> tuple[str, tuple[int, ...]]:
    """Sizes as the server reckons with them: what is too long becomes a text, TEXT(n) the smallest that n fits in."""
    if name == "decimal":
        precision, scale = (*numbers, 0)[:2] if numbers else (0, 0)
        return name, (precision or 10, scale)
    if name in ("char", "binary", "bit"):
        numbers = numbers or (1,)
    if numbers[:1] == (0,) and (name == "bit" or name in TIME_TYPES or is_numeric(name)):
        return name, (1,) if name == "bit" else ()  # as if no number was given
    if not numbers:
        return name, numbers
    wide = character_size(charset or BINARY)
    if name in ("text", "blob"):
        return sized_text(name, numbers[0] * wide), ()
    too_long = name in ("varchar", "varbinary") and numbers[0] * wide > _VARCHAR_BYTES_MAX
    if too_long or (name in ("char", "binary") and numbers[0] > _CHAR_CHARACTERS_MAX):
        return sized_text("text" if "char" in name else "blob", numbers[0] * wide), ()
    return name, numbers


def sized_text(name: str, size: int) -> str:
    """The smallest `text` or `blob` that holds *size* bytes."""
    for limit, prefix in _TEXT_SIZES:
        if size < limit:
            return prefix + name
    return "long" + name
