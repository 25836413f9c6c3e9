"""Values of `expected.json` as readers should give them: `json_difference`, `typed_difference`.

The server's values are texts and bytes (README of the corpus). Each is turned into what a view has to give for the
column's declared type, independently of how the views come to it.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import re
import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    ColumnInfo = dict[str, str | None]

_DOUBLE_STRUCT = struct.Struct("<d")
_SRID_STRUCT = struct.Struct("<I")
_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
GEOMETRIES = (
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geometrycollection",
    "geomcollection",
)
_ADDRESSES = ("uuid", "inet4", "inet6")
_CODECS = {
    "utf8mb3": "utf-8",
    "utf8mb4": "utf-8",
    "utf16": "utf-16-be",
    "utf32": "utf-32-be",
    "ucs2": "utf-16-be",
    "sjis": "shift_jis",
    "gbk": "gbk",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "koi8r": "koi8-r",
    "ascii": "ascii",
}
# What Windows-1252 leaves open stands for itself in a server's latin1.
_LATIN1 = {byte: bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in range(256)}
_LATIN1_BYTES = {text: byte for byte, text in _LATIN1.items()}
DECIMAL_DIGITS_MAX = 38  # of Arrow's decimal128


@dataclass(frozen=True)
class Number:
    """A JSON number with a point or an exponent, as it is written."""

    text: str


@dataclass(frozen=True)
class _Digest:
    # A long value: the corpus has its size and hash.
    size: int
    sha256: str
    to_bytes: Callable[[Any], bytes]


@dataclass(frozen=True)
class _Float:
    value: float
    is_single: bool


def decoded(content: bytes, charset: str) -> str:
    """Text of *content* in the server's character set."""
    if charset == "latin1":
        return "".join(_LATIN1[byte] for byte in content)
    return content.decode(_CODECS[charset])


def encoded(text: str, charset: str) -> bytes:
    """The other way."""
    if charset == "latin1":
        return bytes(_LATIN1_BYTES[character] for character in text)
    return text.encode(_CODECS[charset])


def json_difference(got: object, truth: Any, column: ColumnInfo, *, declared: bool) -> str:
    """What is wrong with a value of the JSON view; empty: nothing.

    Args:
        got: From `json.loads` with `parse_float=Number`.
        truth: From `expected.json`.
        column: From `expected.json`.
        declared: The reader was told what columns were declared as, beyond the table map.
    """
    return _difference(got, _json_form(truth, column, declared=declared), _same_json)


def typed_difference(got: object, truth: Any, column: ColumnInfo, *, declared: bool) -> str:
    """The same for a value of a typed view, as Arrow gives it to Python."""
    return _difference(got, _typed_form(truth, column, declared=declared), _same_typed)


def _difference(got: object, form: object, same: Callable[[object, object], bool]) -> str:
    if isinstance(form, _Digest):
        try:
            content = form.to_bytes(got)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            return f"expected {form.size} bytes, got {_short(got)} ({error!r})"
        if len(content) == form.size and hashlib.sha256(content).hexdigest() == form.sha256:
            return ""
        return f"expected {form.size} bytes with SHA-256 {form.sha256}, got {len(content)} bytes: {_short(got)}"
    return "" if same(got, form) else f"expected {_short(form)}, got {_short(got)}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:120]}...{text[-60:]}"


def _same_json(got: object, form: object) -> bool:
    if isinstance(form, _Float):
        return isinstance(got, int | Number) and not isinstance(got, bool) and _same_float(got, form)
    if isinstance(form, list) and isinstance(got, list):
        return len(got) == len(form) and all(_same_json(*pair) for pair in zip(got, form, strict=True))
    return type(got) is type(form) and got == form


def _same_float(got: int | Number, form: _Float) -> bool:
    text = str(got) if isinstance(got, int) else got.text
    value = float(np.float32(text)) if form.is_single else float(text)
    shortest = str(np.float32(form.value)) if form.is_single else repr(form.value)
    return _DOUBLE_STRUCT.pack(value) == _DOUBLE_STRUCT.pack(form.value) and _digits(text) <= _digits(shortest)


def _digits(text: str) -> int:
    """Significant digits of a number."""
    mantissa = re.split("[eE]", text)[0].lstrip("-").replace(".", "").strip("0")
    return len(mantissa)


def _same_typed(got: object, form: object) -> bool:
    if isinstance(form, _Float):
        return isinstance(got, float) and _DOUBLE_STRUCT.pack(got) == _DOUBLE_STRUCT.pack(form.value)
    if isinstance(form, list) and isinstance(got, list):
        return len(got) == len(form) and all(_same_typed(*pair) for pair in zip(got, form, strict=True))
    return type(got) is type(form) and got == form


# --- what both views have in common ----------------------------------------------------------------------------------


def _json_form(truth: Any, column: ColumnInfo, *, declared: bool) -> object:
    form = _typed_form(truth, column, declared=declared)
    kind = column["type"]
    if isinstance(form, _Digest) and form.to_bytes is _as_is:
        return _Digest(form.size, form.sha256, _from_base64)
    if isinstance(form, bytes):
        return _base64(form)
    if isinstance(form, dict):  # geometry
        return {"srid": form["srid"], "wkb": _base64(form["wkb"])}
    if isinstance(form, datetime.date):
        assert kind in ("date", "datetime", "timestamp")
        return truth.replace(" ", "T") + ("Z" if kind == "timestamp" else "")
    if isinstance(form, Decimal):
        return str(without_zerofill(truth)) if kind == "decimal" else int(truth)
    return form


def _typed_form(truth: Any, column: ColumnInfo, *, declared: bool) -> object:
    if truth is None:
        return None
    kind, full = str(column["type"]), str(column["column_type"])
    if isinstance(truth, str):
        return _plain_form(truth, kind, full)
    if "f64le" in truth:
        value: float = _DOUBLE_STRUCT.unpack(bytes.fromhex(truth["f64le"]))[0]
        return _Float(value, kind == "float")
    if "json" in truth:
        return truth["json"]
    if "json_sha256" in truth:
        return _Digest(truth["json_len"], truth["json_sha256"], str.encode)
    if kind in _ADDRESSES and declared:
        return truth["text"]
    return _bytes_form(truth, kind, column["charset"], full, declared=declared)


def _plain_form(truth: str, kind: str, full: str) -> object:
    if kind == "decimal":
        precision = _argument(full)
        text = without_zerofill(truth)
        return Decimal(text) if precision <= DECIMAL_DIGITS_MAX else text
    if kind == "bit":
        bits = _argument(full)
        return int(truth) == 1 if bits == 1 else Decimal(truth) if bits == 64 else int(truth)
    if kind == "bigint" and "unsigned" in full:
        return Decimal(truth)
    if kind in _INTEGERS or kind == "year":
        return int(truth)
    if kind == "time":
        return truth
    return moment_of(truth, kind)


def _bytes_form(truth: dict[str, Any], kind: str, charset: str | None, full: str, *, declared: bool) -> object:
    if "sha256" in truth:
        if kind == "vector":
            return _Digest(truth["len"], truth["sha256"], _vector_bytes)
        charset_codec = charset
        if charset_codec is None:
            return _Digest(truth["len"], truth["sha256"], _as_is)
        return _Digest(truth["len"], truth["sha256"], lambda text: encoded(text, charset_codec))
    content = bytes.fromhex(truth["hex"])
    if kind in GEOMETRIES:
        (srid,) = _SRID_STRUCT.unpack_from(content)
        return {"srid": srid, "wkb": content[_SRID_STRUCT.size :]}
    if kind == "vector":
        return [_Float(float(value), is_single=True) for value in np.frombuffer(content, dtype="<f4")]
    if charset is None:
        return content
    return decoded(content, charset)


def _as_is(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError("not bytes")
    return value


def _from_base64(value: Any) -> bytes:
    return base64.b64decode(value, validate=True)


def _vector_bytes(value: Any) -> bytes:
    numbers = [number.text if isinstance(number, Number) else number for number in value]
    return np.array([np.float32(number) for number in numbers], dtype="<f4").tobytes()


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _argument(column_type: str) -> int:
    found = re.match(r"\w+\((\d+)", column_type)
    assert found is not None, column_type
    return int(found[1])


def without_zerofill(text: str) -> str:
    """A number without the zeros before it."""
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    whole, point, fraction = digits.partition(".")
    return sign + (whole.lstrip("0") or "0") + point + fraction


def moment_of(text: str, kind: str) -> datetime.date | None:
    """None for zero and partial dates, and for days that are in no calendar."""
    assert kind in ("date", "datetime", "timestamp"), kind
    try:
        if kind == "date":
            return datetime.date.fromisoformat(text)
        moment = datetime.datetime.strptime(text, "%Y-%m-%d %H:%M:%S" + (".%f" if "." in text else ""))  # noqa: DTZ007
    except ValueError:
        return None
    return moment.replace(tzinfo=datetime.UTC) if kind == "timestamp" else moment
