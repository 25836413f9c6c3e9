"""Changes to JSON documents of which only the text is there, as targets hold them: `text_changes`, `changed_text`.

A change is about a place in objects and arrays, and those are plain in the text. What it does not touch keeps its
characters, so nothing has to be known of types that text does not show (decimals, dates); what it brings is written as
columns are. So the text is the one that the server's own document has after the change.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import as_bytes
from binlog_format.messages import row_value
from binlog_format.rows.column_types import BadValueError
from binlog_format.rows.json.json_columns import document_texts
from binlog_format.rows.json.json_diffs import Leg, changes_in, parse_path
from binlog_format.rows.json.json_document import BadJsonError, key_order, string_document
from binlog_format.rows.json.json_layout import JsonOperation

if TYPE_CHECKING:
    from collections.abc import Sequence

_SIZE_BYTES = 4
_DECODER = json.JSONDecoder(strict=False)
_SPACE = " \t\r\n"


@dataclass(frozen=True, slots=True)
class TextChange:
    """A change to a document.

    Attributes:
        legs: Where; at least one.
        value: Text of the new value; None: there is none.
        key: Text of the last leg, where that is a key.
    """

    operation: JsonOperation
    legs: tuple[Leg, ...]
    value: str | None
    key: str | None


def text_changes(contents: Sequence[bytes]) -> list[tuple[TextChange, ...]]:
    """The changes that each of *contents* lists, as `changed_document` takes them.

    Raises:
        BadJsonError: One of them is damaged.
    """
    found: list[list[tuple[JsonOperation, tuple[Leg, ...], int | None, int | None]]] = []
    documents: list[bytes] = []
    for content in contents:
        found.append([])
        for operation, path, node in changes_in(content):
            legs = tuple(parse_path(path))
            if not legs:
                raise BadJsonError("a change to a part has the path of the whole document")
            numbers: list[int | None] = []
            for document in (
                None if node is None else bytes([node.kind]) + node.content,
                string_document(legs[-1]) if isinstance(legs[-1], str) else None,
            ):
                numbers.append(None if document is None else len(documents))
                documents += [] if document is None else [document]
            found[-1].append((operation, legs, numbers[0], numbers[1]))
    texts = [*texts_of(documents), None]
    return [
        tuple(
            TextChange(operation, legs, texts[-1 if value is None else value], texts[-1 if key is None else key])
            for operation, legs, value, key in changes
        )
        for changes in found
    ]


def changed_text(text: str, changes: Sequence[TextChange]) -> str:
    """The text of a document after changes. Raises `BadJsonError`: it is no document, or they do not fit it."""
    root = _Part(text.strip(_SPACE))
    for change in changes:
        parent = root
        for leg in change.legs[:-1]:
            parent = parent.members()[parent.found(leg)]
        parent.apply(change)
    return root.written()


def texts_of(documents: Sequence[bytes]) -> list[str]:
    """The texts of documents, as the server prints them. Raises `BadJsonError`: one is no document."""
    if not documents:
        return []
    sizes = np.array([len(document) for document in documents], dtype=np.int64)
    places = np.cumsum(sizes + _SIZE_BYTES) - sizes - _SIZE_BYTES
    parts = (len(document).to_bytes(_SIZE_BYTES, "little") + document for document in documents)
    try:
        texts, ends = document_texts(as_bytes(b"".join(parts)), places.astype(np.int32), _SIZE_BYTES)
        whole = texts.tobytes()
        return [whole[start:end].decode() for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]
    except BadValueError as error:
        raise BadJsonError(f"a new value: {error.reason}") from error
    except UnicodeDecodeError as error:
        raise BadJsonError("a new value is not utf8mb4") from error


class _Part:
    """A value in a text, opened only where a change is made in it."""

    __slots__ = ("key_texts", "keys", "text", "values")

    def __init__(self, text: str) -> None:
        self.text = text
        self.keys: list[str] = []
        self.key_texts: list[str] = []
        self.values: list[_Part] | None = None

    @property
    def is_object(self) -> bool:
        return self.text.startswith("{")

    @property
    def is_array(self) -> bool:
        return self.text.startswith("[")

    def members(self) -> list[_Part]:
        """The values in an object or array; changes to the list count."""
        if self.values is None:
            self.values = self._opened() if self.is_object or self.is_array else []
        return self.values

    def found(self, leg: Leg) -> int:
        """The member to which a step of a path leads."""
        count = len(self.members())
        if self.is_object and isinstance(leg, str) and leg in self.keys:
            return self.keys.index(leg)
        if self.is_array and isinstance(leg, int) and -count <= leg < count:
            return leg % count
        raise BadJsonError(f"there is no {row_value(repr(leg))} where a path leads")

    def apply(self, change: TextChange) -> None:
        """Make a change to one of the members."""
        leg, members = change.legs[-1], self.members()
        if change.operation is JsonOperation.REMOVE:
            index = self.found(leg)
            del members[index]
            if self.is_object:
                del self.keys[index], self.key_texts[index]
            return
        assert change.value is not None
        if change.operation is JsonOperation.REPLACE:
            members[self.found(leg)] = _Part(change.value)
        elif self.is_object and isinstance(leg, str):
            assert change.key is not None
            if leg in self.keys:
                raise BadJsonError(f"the key {row_value(repr(leg))}, to be inserted, is there already")
            place = key_order(leg.encode())
            index = next((at for at, key in enumerate(self.keys) if key_order(key.encode()) > place), len(members))
            self.keys.insert(index, leg)
            self.key_texts.insert(index, change.key)
            members.insert(index, _Part(change.value))
        elif self.is_array and isinstance(leg, int):
            members.insert(max(0, len(members) + leg) if leg < 0 else leg, _Part(change.value))
        else:
            raise BadJsonError(f"there is no place for {row_value(repr(leg))}")

    def written(self) -> str:
        """The text, with all changes, as the server prints it."""
        if self.values is None or not (self.is_object or self.is_array):
            return self.text
        texts = [value.written() for value in self.values]
        if self.is_array:
            return f"[{', '.join(texts)}]"
        return "{" + ", ".join(f"{key}: {text}" for key, text in zip(self.key_texts, texts, strict=True)) + "}"

    def _opened(self) -> list[_Part]:
        values: list[_Part] = []
        end = "}" if self.is_object else "]"
        place = self._after_space(1)
        while self._at(place) != end:
            if values:
                place = self._after_space(self._past(place, ","))
            if self.is_object:
                key, after = self._value_at(place)
                if not isinstance(key, str):
                    raise BadJsonError(f"the key at character {place} is no text")
                self.keys.append(key)
                self.key_texts.append(self.text[place:after])
                place = self._after_space(self._past(self._after_space(after), ":"))
            _, after = self._value_at(place)
            values.append(_Part(self.text[place:after]))
            place = self._after_space(after)
        if place + 1 != len(self.text):
            raise BadJsonError(f"something follows the document at character {place + 1}")
        return values

    def _value_at(self, place: int) -> tuple[object, int]:
        try:
            value, after = _DECODER.raw_decode(self.text, place)
        except (ValueError, RecursionError) as error:
            raise BadJsonError(f"there is no JSON value at character {place}") from error
        return value, after

    def _past(self, place: int, wanted: str) -> int:
        if self._at(place) != wanted:
            raise BadJsonError(f"there is no {wanted!r} at character {place}")
        return place + 1

    def _at(self, place: int) -> str:
        return self.text[place : place + 1]

    def _after_space(self, place: int) -> int:
        while self._at(place) and self._at(place) in _SPACE:
            place += 1
        return place
