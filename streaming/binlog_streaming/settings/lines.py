"""Lines of keys in a TOML file: `key_lines(text)`; the place of a value: `value_span(text, path)`.

`tomllib` gives values without places. This scanner looks only for keys and trusts the rest: it is for text that
`tomllib` has read without complaint.
"""

from __future__ import annotations

import re
import tomllib

KeyPath = tuple[str | int, ...]
"""Names of tables and keys, and numbers in arrays: `("tables", 0, "mode")`."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_KEY_PART = re.compile(r'"(?:\\.|[^"\\])*"|\'[^\']*\'|[A-Za-z0-9_-]+')
_TEXT = re.compile(
    r'''
    """(?:\\.|[^\\])*?"{3,5} |  # many lines, with escapes
    \'{3}.*?\'{3,5} |  # many lines as they are
    "(?:\\.|[^"\\])*" |
    \'[^\']*\'
    ''',
    re.DOTALL | re.VERBOSE,
)
_BARE = re.compile(r"[^,\]}\n#]*")


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line, from 1, of every key, table header and array item. *text*: TOML that `tomllib` can read."""
    return _Scanner(text).scan()


def value_span(text: str, path: KeyPath) -> slice:
    """The place of a key's value in the text.

    Args:
        text: TOML that `tomllib` can read.
        path: Of a key whose value is neither an array nor a table.

    Raises:
        KeyError: There is no such key.
    """
    scanner = _Scanner(text)
    scanner.scan()
    return scanner.values[path]


def key_text(path: KeyPath) -> str:
    """*path* as people write it: `tables[0].mode`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._lines: dict[KeyPath, int] = {}
        self._item_counts: dict[KeyPath, int] = {}  # of arrays of tables
        self._counted_to = 0
        self._line = 1
        self.values: dict[KeyPath, slice] = {}

    def scan(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._key_value(table)
            self._skip(_BLANK)
        return self._lines

    def _header(self) -> KeyPath:
        line = self._line_here()
        is_array = self._text.startswith("[[", self._at)
        self._at += 2 if is_array else 1
        self._skip(_SPACE)
        names = self._key()
        self._at += 2 if is_array else 1
        path: KeyPath = ()
        for number, name in enumerate(names):
            path = (*path, name)
            if is_array and number == len(names) - 1:
                self._lines.setdefault(path, line)
                self._item_counts[path] = self._item_counts.get(path, 0) + 1
            if path in self._item_counts:
                path = (*path, self._item_counts[path] - 1)
            self._lines.setdefault(path, line)
        return path

    def _key_value(self, table: KeyPath) -> None:
        line = self._line_here()
        path = table
        for name in self._key():
            path = (*path, name)
            self._lines.setdefault(path, line)
        self._at += 1  # =
        self._skip(_SPACE)
        self._value(path)

    def _key(self) -> list[str]:
        # Ends before what comes after the key: = or ].
        names = []
        while True:
            found = _KEY_PART.match(self._text, self._at)
            assert found is not None
            self._at = found.end()
            part = found[0]
            names.append(str(tomllib.loads(f"k = {part}")["k"]) if part[0] in "\"'" else part)
            self._skip(_SPACE)
            if self._text[self._at] != ".":
                return names
            self._at += 1
            self._skip(_SPACE)

    def _value(self, path: KeyPath) -> None:
        first = self._text[self._at]
        if first == "[":
            self._items(path, "]")
        elif first == "{":
            self._items(path, "}")
        else:
            found = _TEXT.match(self._text, self._at) or _BARE.match(self._text, self._at)
            assert found is not None
            self._at = found.end()
            self.values[path] = slice(found.start(), found.start() + len(found[0].rstrip()))

    def _items(self, path: KeyPath, closing: str) -> None:
        self._at += 1
        number = 0
        while True:
            self._skip(_BLANK)
            if self._text[self._at] == closing:
                self._at += 1
                return
            if closing == "]":
                self._lines[(*path, number)] = self._line_here()
                self._value((*path, number))
                number += 1
            else:
                self._key_value(path)
            self._skip(_BLANK)
            if self._text[self._at] == ",":
                self._at += 1

    def _skip(self, blank: re.Pattern[str]) -> None:
        found = blank.match(self._text, self._at)
        assert found is not None
        self._at = found.end()

    def _line_here(self) -> int:
        self._line += self._text.count("\n", self._counted_to, self._at)
        self._counted_to = self._at
        return self._line
