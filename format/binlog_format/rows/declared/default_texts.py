"""Texts, bytes and labels that statements declare as defaults: `declared_text(column, default)`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from binlog_format.events.charsets import decode_text
from binlog_format.rows.declared.declared_types import DefaultKind, UnknownValueError, split_declared
from binlog_format.rows.values.text import set_text

if TYPE_CHECKING:
    from binlog_format.events.table_map import Column
    from binlog_format.rows.declared.declared_types import DeclaredDefault

_EXACT_NUMBER = re.compile(r"(-?)(?=[\d.])(\d*)(\.\d+)?", re.ASCII)


def declared_text(column: Column, default: DeclaredDefault) -> str | bytes:
    """The value of a column of text or bytes. Raises `UnknownValueError`."""
    name, numbers = split_declared(column.declared or "")
    if column.charset == "binary":
        return _binary(name, numbers[0] if numbers else 1, default)
    if default.kind in (DefaultKind.BITS, DefaultKind.BYTES):
        text = _characters(bytes.fromhex(default.text), column.charset or "")
    elif default.kind is DefaultKind.NUMBER:
        text = _digits(default.text)
    else:
        text = default.text
    if numbers and name in ("char", "varchar") and len(text) > numbers[0]:
        raise UnknownValueError("a text that the column does not hold")
    return text.rstrip(" ") if name == "char" else text


def _digits(number: str) -> str:
    """The text of a number: leading zeros are removed, and zeros after its decimal point are kept."""
    match = _EXACT_NUMBER.fullmatch(number)
    if match is None:
        raise UnknownValueError("a number for a text")
    sign, whole, fraction = match.groups(default="")
    text = (whole.lstrip("0") or "0") + fraction
    return sign + text if text.strip("0.") else text


def _characters(content: bytes, charset: str) -> str:
    if not content.isascii():
        raise UnknownValueError("bytes for a text")
    try:
        return decode_text(content, charset)
    except UnicodeDecodeError as error:
        raise UnknownValueError("bytes for a text") from error


def _binary(name: str, size: int, default: DeclaredDefault) -> bytes:
    if default.kind in (DefaultKind.BITS, DefaultKind.BYTES):
        content = bytes.fromhex(default.text)
    elif default.kind is DefaultKind.NUMBER:
        content = _digits(default.text).encode()
    elif not default.text.isascii():
        raise UnknownValueError("a text for bytes")
    else:
        content = default.text.encode()
    if name in ("binary", "varbinary") and len(content) > size:
        raise UnknownValueError("bytes that the column does not hold")
    return content.ljust(size, b"\0") if name == "binary" else content


def _labels(column: Column, default: DeclaredDefault) -> dict[str, str]:
    """The labels of an ENUM or SET, and what they are under when upper and lower case are one."""
    if column.enum_values is None or default.kind is not DefaultKind.TEXT:
        raise UnknownValueError("no label")
    folded: dict[str, str] = {}
    for label in column.enum_values:
        folded.setdefault(label.casefold(), label)
    return folded | {label: label for label in column.enum_values}


def _label(labels: dict[str, str], text: str) -> str:
    wanted = text if text in labels else text.rstrip(" ")
    found = labels.get(wanted) or labels.get(wanted.casefold())
    if found is None and wanted not in labels:
        raise UnknownValueError("no label")
    return found or wanted


def declared_label(column: Column, default: DeclaredDefault) -> str:
    """The value of an ENUM. Raises `UnknownValueError`."""
    return _label(_labels(column, default), default.text)


def declared_set(column: Column, default: DeclaredDefault) -> str:
    """The value of a SET. Raises `UnknownValueError`."""
    labels = _labels(column, default)
    if not default.text:
        return ""
    chosen = {_label(labels, part) for part in default.text.split(",")}
    return set_text(label for label in column.enum_values or () if label in chosen)
