"""Columns as messages hold them, with Debezium's types: `connect_column` gives the schema and how values are made.

Where Debezium is silently wrong, this stops with a named error: a BIGINT UNSIGNED above 2**63 - 1 as `long`, a date
beyond what nanoseconds can count, a TIME that is no time of day as Connect's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.envelope.connect_schema import field_of, schema_of, wrapping
from binlog_connector.envelope.connect_times import (
    PLAIN_STYLE,
    ValueForm,
    ValueRefusal,
    present_mask,
    refuse_values,
    temporal_form,
    value_offsets,
    value_words,
)
from binlog_connector.envelope.message_kernels import write_unscaled
from binlog_connector.envelope.options import BinaryHandling, DecimalHandling, EnvelopeOptions, UnsignedBigintHandling
from binlog_format.errors import UnsupportedError
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.kernels import empty_bytes
from binlog_format.rows.arrow_arrays import fixed_array, struct_array, text_array
from binlog_format.rows.column_types import column_name
from binlog_format.rows.declared.completion import LayoutCompletion
from binlog_format.rows.declared.declared_types import DefaultKind, split_declared
from binlog_format.rows.declared.default_literals import DATETIME_TYPES, TIMESTAMP_TYPES
from binlog_format.rows.declared.default_values import layout_defaults
from binlog_format.rows.decoding import ZeroDates
from binlog_format.rows.json.json_rows import BinaryText, JsonRows, JsonStyle, json_column
from binlog_format.views.row_images import JsonTexts

if TYPE_CHECKING:
    from binlog_connector.envelope.connect_schema import Schema
    from binlog_connector.envelope.connect_times import Convert
    from binlog_format.events.table_map import Column, TableLayout
    from binlog_format.rows.decoding import Decoding


@dataclass(frozen=True, slots=True)
class ConnectColumn:
    """A column of a table as messages hold it.

    Attributes:
        full_name: `database.table.column`, for errors.
        schema: Its field in a schema of Kafka Connect.
        key_schema: The same in the schema of a key.
        style: How its values are written as JSON.
    """

    name: str
    full_name: str
    schema: Schema
    key_schema: Schema
    style: JsonStyle
    _convert: Convert

    def values(self, column: pa.Array) -> pa.Array:
        """Convert the values of `Images.column` to those of messages."""
        try:
            return self._convert(column)
        except ValueRefusal as refusal:
            reason = f"{self.full_name}: value {refusal.index}: {refusal.reason}"
            raise UnsupportedError("MESSAGE_VALUE", reason, hint=refusal.hint) from refusal


class DeclaredColumn(NamedTuple):
    """Facts about a column in its schema, where statements have declared it.

    Attributes:
        default: A scalar of its Arrow type; None: it has none, or the value depends on the row.
        comment: COMMENT; empty: none.
    """

    default: pa.Scalar | None = None
    comment: str = ""


NOT_DECLARED = DeclaredColumn()


def declared_columns(layout: TableLayout, decoding: Decoding) -> list[DeclaredColumn]:
    """Declarations of the columns of *layout* that are in schemas of messages."""
    if not layout.completion:
        return [NOT_DECLARED] * len(layout.columns)
    said = LayoutCompletion.from_json(layout.completion).columns
    defaults = layout_defaults(layout, decoding)
    found = []
    for column, completion, default in zip(layout.columns, said, defaults, strict=True):
        kind = None if completion.default is None else completion.default.kind
        value = None if kind in (None, DefaultKind.NULL) else default.value
        if kind is DefaultKind.NOW and not column.nullable:
            value = _begin_of_time(column)
        found.append(DeclaredColumn(value, completion.comment))
    return found


def _begin_of_time(column: Column) -> pa.Scalar | None:
    # Debezium's value of CURRENT_TIMESTAMP.
    if column.type in TIMESTAMP_TYPES:
        return pa.scalar(0, pa.timestamp("us", "UTC"))
    return pa.scalar(0, pa.timestamp("us")) if column.type in DATETIME_TYPES else None


def connect_column(
    layout: TableLayout,
    index: int,
    kind: pa.DataType,
    options: EnvelopeOptions,
    zero_dates: ZeroDates,
    declared: DeclaredColumn = NOT_DECLARED,
) -> ConnectColumn:
    """Choose the form of a column in messages.

    Args:
        kind: Arrow type of the column, TIME as microseconds.
        zero_dates: Where zero dates are null, no date column is certain to have values.
    """
    column = layout.columns[index]
    assert column.name is not None, "an Arrow schema has names"
    form = _form(column, kind, options)
    is_date = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    optional = column.nullable or (is_date and zero_dates is ZeroDates.NULL)
    doc = declared.comment or form.doc
    schema = schema_of(form.kind, optional=optional, name=form.name, parameters=form.parameters, doc=doc)
    if declared.default is not None:
        schema |= _default_of(form, declared.default, kind)
    if form.fields:
        schema = {"type": form.kind, "fields": list(form.fields), **{k: v for k, v in schema.items() if k != "type"}}
    if form.items is not None:
        schema = {"type": form.kind, "items": schema_of(form.items), **{k: v for k, v in schema.items() if k != "type"}}
    field = field_of(column.name, schema)
    # Zero dates are refused in keys (`TableEnvelope`), so only NULL can be null there.
    of_key = {**field, "optional": column.nullable} if options.dates_of_keys_have_values else field
    return ConnectColumn(column.name, column_name(layout, index), field, of_key, form.style, form.convert)


def _default_of(form: ValueForm, default: pa.Scalar, kind: pa.DataType) -> Schema:
    """The default as the schema has it: as a value in JSON."""
    try:
        values = form.convert(pa.array([default.as_py()], default.type).cast(kind))
    except (ValueRefusal, pa.ArrowException):
        return {}  # a value that no message can hold
    rows = JsonRows([json_column("default", values, style=form.style)], 1)
    found: Schema = json.loads(JsonTexts.of_rows(rows, *wrapping(None)).data.tobytes())
    return found


def _form(column: Column, kind: pa.DataType, options: EnvelopeOptions) -> ValueForm:
    form = _current_form(column, kind, options)
    return _first_form(column, form) if options.is_first_version else form


def _first_form(column: Column, form: ValueForm) -> ValueForm:
    """The form of version 1."""
    if form.kind == "struct":
        form = _geometry(is_point=column.geometry_type == _POINT)
    if form.name in _LABELLED:
        return replace(form, parameters={"allowed": ",".join(column.enum_values or ())})
    if form.name == _DECIMAL and column.type is ColumnType.LONGLONG:
        return replace(form, parameters={"scale": "0"})
    if form.kind in ("float", "double", "struct", "array"):
        single = ValueForm("float") if column.type is ColumnType.FLOAT else form
        return replace(single, style=PLAIN_STYLE, doc=None)
    return form


def _current_form(column: Column, kind: pa.DataType, options: EnvelopeOptions) -> ValueForm:
    types = pa.types
    if types.is_boolean(kind):
        return ValueForm("boolean")
    if column.type is ColumnType.BIT:
        return _bits(column)
    if column.type is ColumnType.NEWDECIMAL:
        return _decimals(column, options.decimal_handling)
    if types.is_date(kind) or types.is_timestamp(kind) or column.type in (ColumnType.TIME, ColumnType.TIME2):
        return temporal_form(column, kind, options.time_precision)
    if types.is_decimal(kind):
        return _unsigned_bigint(options.unsigned_bigint_handling)
    if types.is_integer(kind):
        if column.type is ColumnType.YEAR:
            return ValueForm("int32", "io.debezium.time.Year")
        return ValueForm({8: "int16", 16: "int16", 32: "int32", 64: "int64"}[kind.bit_width])
    if types.is_floating(kind):
        return _floats(column, kind)
    if types.is_binary(kind):
        return _binary(options.binary_handling)
    if types.is_struct(kind):
        form = _geometry(is_point=_is_point(column))
        return replace(form, convert=lambda values: _no_zero_srid(form.convert(values)))
    if types.is_list(kind):
        return ValueForm("array", "io.debezium.data.FloatVector", items="float", style=_FLOAT)
    return _text(column)


# --- text and bytes --------------------------------------------------------------------------------------------------


def _text(column: Column) -> ValueForm:
    declared = split_declared(column.declared or "")[0]
    if column.type in (ColumnType.ENUM, ColumnType.SET) and column.enum_values is not None:
        name = _LABELLED[0] if column.type is ColumnType.ENUM else _LABELLED[1]
        labels = (label.replace(",", r"\,") for label in column.enum_values)
        return ValueForm("string", name, {"allowed": ",".join(labels)})
    if column.type is ColumnType.JSON or declared == "json":
        return ValueForm("string", "io.debezium.data.Json")
    if declared == "uuid":
        return ValueForm("string", "io.debezium.data.Uuid")
    return ValueForm("string")


_LABELLED = ("io.debezium.data.Enum", "io.debezium.data.EnumSet")
_BINARY_TEXTS = {
    BinaryHandling.BASE64: BinaryText.BASE64,
    BinaryHandling.BASE64_URL_SAFE: BinaryText.BASE64_URL,
    BinaryHandling.HEX: BinaryText.HEX,
}


def _binary(handling: BinaryHandling) -> ValueForm:
    if handling is BinaryHandling.BYTES:
        return ValueForm("bytes")
    return ValueForm("string", style=JsonStyle(binary=_BINARY_TEXTS[handling]))


def _bits(column: Column) -> ValueForm:
    count = (column.metadata & 0xFF) + 8 * (column.metadata >> 8)

    def convert(values: pa.Array) -> pa.Array:
        # Debezium: low byte first.
        words = value_words(values, 2 if pa.types.is_decimal(values.type) else 1)
        width = (count + 7) // 8
        content = np.ascontiguousarray(words[:, :1]).view(np.uint8).reshape(-1, 8)[:, :width]
        offsets = np.arange(len(values) + 1, dtype=np.int32) * width
        return text_array(pa.binary(), offsets, np.ascontiguousarray(content).reshape(-1), present_mask(values))

    return ValueForm("bytes", "io.debezium.data.Bits", {"length": str(count)}, convert=convert)


_OPTIONAL_SRID = field_of("srid", schema_of("int32", optional=True))
_POINT_SIZE = 21  # byte order, type, x, y
_POINT = 1


def _is_point(column: Column) -> bool:
    if column.geometry_type is not None:
        return column.geometry_type == _POINT
    return split_declared(column.declared or "")[0] == "point"  # binlog_row_metadata=NO_LOG


def _geometry(*, is_point: bool) -> ValueForm:
    fields: tuple[Schema, ...] = (field_of("wkb", schema_of("bytes")), _OPTIONAL_SRID)
    if not is_point:
        name = "io.debezium.data.geometry.Geometry"
        return ValueForm("struct", name, fields=fields, convert=_wkb_first, doc="Geometry")
    fields = (
        *(field_of(axis, schema_of("double")) for axis in ("x", "y")),
        field_of("wkb", schema_of("bytes", optional=True)),
        _OPTIONAL_SRID,
    )
    style = JsonStyle(fields={"x": _FLOAT, "y": _FLOAT})
    name = "io.debezium.data.geometry.Point"
    return ValueForm("struct", name, fields=fields, convert=_points, doc="Geometry (POINT)", style=style)


def _wkb_first(values: pa.Array) -> pa.Array:
    srid, wkb = values.flatten()
    kind = pa.struct([("wkb", wkb.type), ("srid", srid.type)])
    return struct_array(kind, [wkb, srid], present_mask(values))


def _no_zero_srid(values: pa.Array) -> pa.Array:
    *others, srid = values.flatten()
    srid = pc.if_else(pc.equal(srid, 0), pa.scalar(None, srid.type), srid)
    return struct_array(values.type, [*others, srid], present_mask(values))


def _points(values: pa.Array) -> pa.Array:
    srid, wkb = values.flatten()
    present = present_mask(values)
    sizes = np.diff(value_offsets(wkb))
    odd = np.flatnonzero(present & (sizes != _POINT_SIZE))
    if len(odd):
        raise ValueRefusal(int(odd[0]), f"a point of {sizes[odd[0]]} bytes, not {_POINT_SIZE}", "Leave the table out")
    content = np.frombuffer(wkb.buffers()[2] or b"", dtype=np.uint8)[value_offsets(wkb)[0] : value_offsets(wkb)[-1]]
    points = content.reshape(-1, _POINT_SIZE)
    axes = []
    for start in (5, 13):
        numbers = np.zeros(len(values))
        if len(points):
            little = np.ascontiguousarray(points[:, start : start + 8])
            big_endian = points[:, 0] == 0
            numbers[present] = np.where(big_endian, little.view(">f8")[:, 0], little.view("<f8")[:, 0])
        axes.append(fixed_array(pa.float64(), numbers, present))
    kind = pa.struct([("x", pa.float64()), ("y", pa.float64()), ("wkb", wkb.type), ("srid", srid.type)])
    return struct_array(kind, [*axes, wkb, srid], present)


# --- numbers ---------------------------------------------------------------------------------------------------------

_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_FLOAT = JsonStyle(fraction=True)


def _floats(column: Column, kind: pa.DataType) -> ValueForm:
    if kind != pa.float32():
        return ValueForm("double", style=_FLOAT)
    _, numbers = split_declared(column.declared or "")
    if len(numbers) != 2:
        return ValueForm("float", style=_FLOAT)
    # FLOAT(M,D)
    return ValueForm("double", style=_FLOAT, convert=lambda values: values.cast(pa.float64()))


def _decimals(column: Column, handling: DecimalHandling) -> ValueForm:
    precision, scale = column.metadata & 0xFF, column.metadata >> 8
    if handling is DecimalHandling.STRING:
        return ValueForm("string")
    if handling is DecimalHandling.DOUBLE:
        # Through text: Arrow's own way does not round to the nearest.
        return ValueForm("double", style=_FLOAT, convert=lambda values: values.cast(pa.string()).cast(pa.float64()))
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}

    def convert(values: pa.Array) -> pa.Array:
        # More than 38 digits come as text.
        return _unscaled(values.cast(pa.decimal256(precision, scale)) if pa.types.is_string(values.type) else values)

    return ValueForm("bytes", _DECIMAL, parameters, convert=convert)


_BIGINT_DIGITS = 20


def _unsigned_bigint(handling: UnsignedBigintHandling) -> ValueForm:
    if handling is UnsignedBigintHandling.PRECISE:
        parameters = {"scale": "0", "connect.decimal.precision": str(_BIGINT_DIGITS)}
        return ValueForm("bytes", _DECIMAL, parameters, convert=_unscaled)

    def convert(values: pa.Array) -> pa.Array:
        numbers, present = np.ascontiguousarray(value_words(values, 2)[:, 0]).view(np.int64), present_mask(values)
        refuse_values(
            present & (numbers < 0),
            lambda index: str(int(numbers[index : index + 1].view(np.uint64)[0])),
            "is more than an int64 holds",
            "Set option bigint.unsigned.handling.mode=precise",
        )
        return fixed_array(pa.int64(), numbers, present)

    return ValueForm("int64", convert=convert)


def _unscaled(values: pa.Array) -> pa.Array:
    words = value_words(values, values.type.byte_width // 8)
    offsets = np.empty(len(values) + 1, dtype=np.int32)
    out = empty_bytes(words.nbytes)
    present = present_mask(values)
    write_unscaled(words, present.view(np.uint8), offsets, out)
    return text_array(pa.binary(), offsets, out[: offsets[-1]], present)
