"""One form of bytes for the values of a column, in SQL and in Arrow: `column_form(column, kind)` -> `ColumnForm`.

Equal values have equal bytes on both sides, and different ones different bytes:

* numbers, times and dates as text, with all digits that the type has; a decimal without its point; FLOAT and DOUBLE as
  the eight bytes of the double, which the servers give as a coordinate of a point;
* text as UTF-8, whatever its character set is; bytes as they are; of what may be long, the SHA-256 of it.

A target has null where a value is in no calendar (0000-00-00, a zero month), so such a value is NULL here as well.

Comparison of a table's columns: `table_forms(source, schema, rule)` -> `TableForms`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.rules.rules_on_tables import BoundRule
from binlog_format.names import folded_name
from binlog_format.rows.arrow_arrays import text_array
from binlog_format.rows.json.variants import is_variant
from binlog_streaming.lake.evolution import cast_array
from binlog_streaming.lake.row_values import comparable
from binlog_streaming.prove.rows import BUCKETS, Rows, buckets_of, digests_of, hashes_of, messages_of
from binlog_streaming.snapshot.sql_text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from binlog_format.kernels import Int64s, Uint64s
    from binlog_streaming.settings.model import TableRule
    from binlog_streaming.snapshot.source_table import SourceColumn, SourceTable

    Values = Callable[[pa.Array], pa.Array]
    Literal = Callable[[bytes], str]
    Column = Callable[[str], pa.Array]
    """Values of a column of the target, by its name there."""


_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit"})
_FLOATS = frozenset({"float", "double"})
_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "enum", "set"})
_LONG_TEXTS = frozenset({"mediumtext", "longtext"})
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "vector"})
_LONG_BYTES = frozenset({"mediumblob", "longblob"})
_ADDRESSES = {"uuid": 16, "inet4": 4, "inet6": 16}
_SHAPES = frozenset(
    {
        *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"),
        *("geometrycollection", "geomcollection"),
    }
)
_TYPE = re.compile(r"(\w+)(?:\((\d+)(?:,(\d+))?\))?")
_FRACTION = 6
_MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class ColumnForm:
    """Conversion of a column's values to bytes.

    Attributes:
        name: Of the column, as the server has it.
        sql: An expression that gives the bytes, or NULL.
        values: From an array of the target's to text or bytes, or null.
        literal: From the bytes of a value to SQL for it; None: the bytes do not tell it.
    """

    name: str
    sql: str
    values: Values
    literal: Literal | None

    @property
    def part(self) -> str:
        """SQL for what the column adds to a message."""
        # As bytes whatever it is: otherwise the server takes the bytes of a double, beside text alone, for text.
        return f"IFNULL(CONCAT(LENGTH({self.sql}), ':', CAST({self.sql} AS BINARY)), 'N')"


def column_form(column: SourceColumn, kind: pa.DataType, *, is_mariadb: bool) -> ColumnForm | None:
    """The form of a column; None: there is none, and it cannot be compared."""
    found = _TYPE.match(column.column_type.lower())
    if found is None:
        return None
    base, sql = found[1], quoted(column.name)
    if base in _INTEGERS:
        return ColumnForm(column.name, f"({sql} + 0)", _number_texts, _plain)
    if base in _FLOATS:
        return ColumnForm(column.name, f"SUBSTR(ST_AsBinary(POINT({sql}, 0)), 6, 8)", _double_bytes, _double)
    if base == "decimal":
        scale = int(found[3] or 0)
        number = f"CAST({sql} AS DECIMAL({found[2]},{scale}))"  # ZEROFILL shows more digits
        return ColumnForm(column.name, f"REPLACE({number}, '.', '')", _decimal_texts, partial(_decimal, scale))
    if base in ("date", "datetime", "timestamp"):
        return _moment_form(column.name, base, sql, int(found[2] or 0), kind)
    if base == "time":
        digits = int(found[2] or 0)
        padding = _padding(digits) if pa.types.is_integer(kind) else ""
        return ColumnForm(column.name, _padded(f"CAST({sql} AS CHAR)", padding), _time_texts, _as_quoted)
    if base in _TEXTS | _LONG_TEXTS or base == "json":
        return _text_form(column.name, base, sql, kind, is_mariadb=is_mariadb)
    if base in _BYTES | _LONG_BYTES:
        return _bytes_form(column.name, base, sql)
    if base in _ADDRESSES and pa.types.is_binary(kind):
        return ColumnForm(column.name, f"CAST({sql} AS BINARY({_ADDRESSES[base]}))", _unchanged, _bytes)
    if base in _ADDRESSES:
        return ColumnForm(column.name, f"CAST({sql} AS CHAR)", _unchanged, _as_quoted)
    if base in _SHAPES and pa.types.is_struct(kind):
        return ColumnForm(column.name, f"UNHEX(SHA2({sql}, 256))", lambda array: digests_of(_shape_bytes(array)), None)
    return None


def target_form(name: str, kind: pa.DataType, other: pa.DataType) -> ColumnForm | None:
    """The form of a column that two targets have; None: there is none for these types, and it cannot be compared."""
    forms = _form_of_type(name, kind), _form_of_type(name, other)
    if forms[0] is None or forms[1] is None or forms[0][0] != forms[1][0]:
        return None
    return forms[0][1]


def _form_of_type(name: str, kind: pa.DataType) -> tuple[str, ColumnForm] | None:
    """A form, and a name for values that have the same one."""
    types = pa.types
    if types.is_integer(kind) or types.is_boolean(kind) or (types.is_decimal(kind) and kind.scale == 0):
        return "number", ColumnForm(name, "", _whole_texts, _plain)
    if types.is_decimal(kind):
        return f"decimal {kind.scale}", ColumnForm(name, "", _decimal_texts, partial(_decimal, kind.scale))
    if types.is_floating(kind):
        return "double", ColumnForm(name, "", _double_bytes, _double)
    if types.is_timestamp(kind) or types.is_date(kind):
        what = "date" if types.is_date(kind) else "moment"
        return what, ColumnForm(name, "", _moment_texts, _as_quoted)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text", ColumnForm(name, "", _unchanged, _text)
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return "bytes", ColumnForm(name, "", _unchanged, _bytes)
    if is_variant(kind):
        return "variant", ColumnForm(name, "", partial(_variant_digests, name), None)
    if types.is_struct(kind) and kind.num_fields == len(("srid", "wkb")):
        return "shape", ColumnForm(name, "", lambda array: digests_of(_shape_bytes(array)), None)
    if types.is_list(kind) or types.is_large_list(kind):
        return "vector", ColumnForm(name, "", lambda array: comparable(array)[0], _bytes)
    return None


def _text_form(name: str, base: str, sql: str, kind: pa.DataType, *, is_mariadb: bool) -> ColumnForm | None:
    if base == "json" and not is_mariadb:
        text = f"CAST({sql} AS CHAR CHARACTER SET utf8mb4)"
    else:
        text = f"CONVERT({sql} USING utf8mb4)"
    if is_variant(kind):
        # MySQL prints a document always alike; other text is as it was written, which a variant does not keep.
        is_known = base == "json" and not is_mariadb
        return (
            ColumnForm(name, f"UNHEX(SHA2({text}, 256))", partial(_variant_digests, name), None) if is_known else None
        )
    if base in _TEXTS:
        return ColumnForm(name, text, _unchanged, _text)
    return ColumnForm(name, f"UNHEX(SHA2({text}, 256))", digests_of, None)


def _bytes_form(name: str, base: str, sql: str) -> ColumnForm:
    if base in _BYTES:
        return ColumnForm(name, sql, lambda array: comparable(array)[0], _bytes)
    return ColumnForm(name, f"UNHEX(SHA2({sql}, 256))", digests_of, None)


def _moment_form(name: str, base: str, sql: str, digits: int, kind: pa.DataType) -> ColumnForm:
    is_text = pa.types.is_string(kind)  # zeroDates = "text"
    text = f"CAST({sql} AS CHAR)" if is_text else _moment_sql(base, sql, digits)
    return ColumnForm(name, text, _moment_texts, _as_quoted)


def _moment_sql(base: str, sql: str, digits: int) -> str:
    text = f"CAST({sql} AS CHAR)"
    if base == "timestamp":
        zero = "0000-00-00 00:00:00" + (f".{'0' * digits}" if digits else "")
        return _padded(f"NULLIF({text}, '{zero}')", _padding(digits))
    last_day = f"DAY(LAST_DAY(CONCAT(LEFT({text}, 8), '01')))"
    is_day = f"MONTH({sql}) > 0 AND DAY({sql}) > 0 AND (DAY({sql}) < 29 OR DAY({sql}) <= {last_day})"
    return f"IF({is_day}, {_padded(text, _padding(digits) if base == 'datetime' else '')}, NULL)"


def _padded(text: str, padding: str) -> str:
    return f"CONCAT({text}, '{padding}')" if padding else text


def _padding(digits: int) -> str:
    # Of a fraction of a second, up to microseconds.
    return ("" if digits else ".") + "0" * (_FRACTION - digits)


def _plain(value: bytes) -> str:
    return value.decode()


def _decimal(scale: int, value: bytes) -> str:
    digits = value.decode()
    return f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits


def _double(value: bytes) -> str:
    return repr(float(np.frombuffer(value, "<f8")[0]))


def _as_quoted(value: bytes) -> str:
    return f"'{value.decode()}'"


def _text(value: bytes) -> str:
    return f"_utf8mb4 X'{value.hex()}'"


def _bytes(value: bytes) -> str:
    return f"X'{value.hex()}'"


def _unchanged(array: pa.Array) -> pa.Array:
    return array


def _variant_digests(name: str, array: pa.Array) -> pa.Array:
    return digests_of(cast_array(array, pa.field(name, pa.string())))


def _number_texts(array: pa.Array) -> pa.Array:
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    return array.cast(pa.string())


def _whole_texts(array: pa.Array) -> pa.Array:
    return _decimal_texts(array) if pa.types.is_decimal(array.type) else _number_texts(array)


def _double_bytes(array: pa.Array) -> pa.Array:
    doubles = array.cast(pa.float64())
    valid = doubles.is_valid().to_numpy(zero_copy_only=False)
    numbers = doubles.fill_null(0.0).to_numpy(zero_copy_only=False).astype("<f8")
    places = np.arange(len(array) + 1, dtype=np.int32) * numbers.itemsize
    return text_array(pa.binary(), places, numbers.view(np.uint8), valid)


def _decimal_texts(array: pa.Array) -> pa.Array:
    if pa.types.is_string(array.type):
        return pc.replace_substring(array, ".", "")
    scale = array.type.scale
    # Arrow writes small decimals with an exponent, and whole numbers never.
    whole = pa.Array.from_buffers(pa.decimal128(38, 0), len(array), array.buffers(), offset=array.offset)
    texts = whole.cast(pa.string())
    sign = pc.if_else(pc.starts_with(texts, "-"), "-", "")
    digits = pc.utf8_lpad(pc.utf8_ltrim(texts, "-"), scale + 1, "0")
    return pc.binary_join_element_wise(sign, digits, "")


def _moment_texts(array: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.timestamp("us"))
    return array.cast(pa.string())


def _time_texts(array: pa.Array) -> pa.Array:
    if not pa.types.is_integer(array.type):
        return array
    size = pc.abs(array)
    sign = pc.if_else(pc.less(array, 0), "-", "")
    seconds = pc.divide(size, _MICROS)
    minutes = pc.divide(seconds, 60)
    hours = pc.divide(minutes, 60)
    rest = (
        (hours, 2),
        (pc.subtract(minutes, pc.multiply(hours, 60)), 2),
        (pc.subtract(seconds, pc.multiply(minutes, 60)), 2),
        (pc.subtract(size, pc.multiply(seconds, _MICROS)), _FRACTION),
    )
    hour, minute, second, fraction = (pc.utf8_lpad(part.cast(pa.string()), width, "0") for part, width in rest)
    clock = pc.binary_join_element_wise(hour, minute, second, ":")
    return pc.binary_join_element_wise(sign, pc.binary_join_element_wise(clock, fraction, "."), "")


def _shape_bytes(array: pa.Array) -> pa.Array:
    # As the servers keep it: the SRID, low byte first, then the WKB.
    srid, wkb = array.flatten()
    valid = srid.is_valid().to_numpy(zero_copy_only=False)
    numbers = srid.fill_null(0).to_numpy(zero_copy_only=False).astype("<u4")
    places = np.arange(len(array) + 1, dtype=np.int32) * numbers.itemsize
    heads = text_array(pa.binary(), places, np.ascontiguousarray(numbers).view(np.uint8), valid)
    return pc.binary_join_element_wise(heads, wkb.cast(pa.binary()), b"")


@dataclass(frozen=True, slots=True)
class TableForms:
    """Columns that are compared.

    Attributes:
        names: What they are called in the target.
        key_columns: Those of *columns* that tell rows apart; empty: all of them together do.
        missing: Columns that the target lacks and should have.
        hidden: Columns that the job's rules do not show, or mask: they are not compared.
        unknown: Columns of types that have no form.
    """

    columns: tuple[ColumnForm, ...]
    names: tuple[str, ...]
    key_columns: tuple[ColumnForm, ...]
    missing: tuple[str, ...]
    hidden: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def row_sql(self) -> str:
        """SQL for the message of a row."""
        return _message_sql(self.columns)

    @property
    def key_sql(self) -> str:
        """SQL for the message of a row's key."""
        return _message_sql(self.key_columns or self.columns)

    def rows(self, column: Column, signs: Int64s) -> tuple[Rows, Int64s]:
        """Rows of the target as keys and hashes, and the bucket of each.

        Args:
            signs: Of each row: 1 where it counts, -1 where it is taken out.
        """
        forms = dict(zip(self.columns, (form.values(column(name)) for form, name in self._named), strict=True))
        row_messages = messages_of(list(forms.values()), len(signs))
        keys = row_messages
        if self.key_columns:
            keys = messages_of([forms[form] for form in self.key_columns], len(signs))
        return Rows(keys.texts(), hashes_of(row_messages), signs), buckets_of(keys, BUCKETS)

    def column_hashes(self, column: Column, row_count: int) -> list[Uint64s]:
        """Hashes of each compared column's parts of the rows' messages."""
        return [hashes_of(messages_of([form.values(column(name))], row_count)) for form, name in self._named]

    @property
    def _named(self) -> Sequence[tuple[ColumnForm, str]]:
        return tuple(zip(self.columns, self.names, strict=True))


def table_forms(
    source: SourceTable, schema: pa.Schema, rule: TableRule, keys: Sequence[str], *, is_mariadb: bool
) -> TableForms:
    """Choose the columns of a table that are compared.

    Args:
        schema: Columns of the target.
        keys: Columns that tell rows apart; none: nobody knows such.
    """
    shown, held = BoundRule(rule), {folded_name(name): name for name in schema.names}
    forms: dict[str, ColumnForm] = {}
    names, missing, hidden, unknown = [], [], [], []
    for column in source.columns:
        name = held.get(folded_name(column.name))
        is_dropped = rule.drops_generated and column.is_generated
        if is_dropped or not shown.shows(column.name) or shown.mask(column.name) is not None:
            hidden.append(column.name)
        elif name is None:
            missing.append(column.name)
        elif (form := column_form(column, schema.field(name).type, is_mariadb=is_mariadb)) is None:
            unknown.append(column.name)
        else:
            forms[folded_name(column.name)] = form
            names.append(name)
    key_columns = tuple(forms[folded_name(key)] for key in keys if folded_name(key) in forms)
    if len(key_columns) < len(keys) or any(form.literal is None for form in key_columns):
        key_columns = ()
    return TableForms(tuple(forms.values()), tuple(names), key_columns, tuple(missing), tuple(hidden), tuple(unknown))


def _message_sql(forms: Sequence[ColumnForm]) -> str:
    return f"CONCAT({', '.join(form.part for form in forms)})"
