"""Messages of keys, read again: `key_condition` for SQL, `key_text` for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_streaming.snapshot.sql_text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlog_streaming.prove.column_forms import ColumnForm


def key_values(message: bytes) -> Iterator[bytes | None]:
    """The values of a message, in order; None: NULL."""
    at = 0
    while at < len(message):
        if message[at : at + 1] == b"N":
            yield None
            at += 1
            continue
        colon = message.index(b":", at)
        end = colon + 1 + int(message[at:colon])
        yield message[colon + 1 : end]
        at = end


def key_literals(forms: Sequence[ColumnForm], message: bytes) -> list[str]:
    """The values of a key as SQL."""
    return [_literal(form, value) for form, value in zip(forms, key_values(message), strict=True)]


def key_condition(forms: Sequence[ColumnForm], message: bytes) -> str:
    """SQL that is true for the row with a key."""
    literals = key_literals(forms, message)
    return " AND ".join(f"{quoted(form.name)} <=> {literal}" for form, literal in zip(forms, literals, strict=True))


def key_text(forms: Sequence[ColumnForm], message: bytes) -> str:
    """A key for people: `id = 7, name = 'x'`."""
    parts = []
    for form, value in zip(forms, key_values(message), strict=True):
        literal = _literal(form, value)
        text = repr((value or b"").decode()) if literal.startswith("_utf8mb4") else literal
        parts.append(f"{form.name} = {text}")
    return ", ".join(parts)


def _literal(form: ColumnForm, value: bytes | None) -> str:
    assert form.literal is not None, "keys have columns with literals alone"
    return "NULL" if value is None else form.literal(value)
