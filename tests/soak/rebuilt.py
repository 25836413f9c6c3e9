"""Tables made again from the messages of their topics: `Rebuilt`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlog_lab.demo.proof.topics import TopicChange


class Rebuilt:
    """A table as a consumer makes it of its topic.

    Args:
        columns: Those that it had from the beginning, the key first; others come and go.
        is_keyed: Whether the first one is the key; else equal rows are counted.

    Attributes:
        rows: When all changes were taken.
        changes: How many.
        broken: Keys with a change that does not begin where the one before it ended: that loses one, or has one twice.
    """

    def __init__(self, columns: Sequence[str], *, is_keyed: bool) -> None:
        self._columns, self._is_keyed = columns, is_keyed
        self.rows: Counter[tuple[Any, ...]] = Counter()
        self.changes, self.broken = 0, list[str]()

    def take(self, changes: Iterator[TopicChange]) -> Iterator[TopicChange]:
        """Take them, and pass them on."""
        by_key: dict[Any, tuple[Any, ...]] = {}
        for change in changes:
            self.changes += 1
            before, after = (
                row and tuple(row[name] for name in self._columns) for row in (change.before, change.after)
            )
            if self._is_keyed:
                key = (before or after or (None,))[0]
                if by_key.get(key) != before:
                    self.broken.append(f"key {key} at {change.gtid}: a change before it is missing, or there twice")
                by_key.pop(key, None)
                if after:
                    by_key[after[0]] = after
            else:
                self.rows.update([after] if after else [])
                self.rows.subtract([before] if before else [])
            yield change
        if self._is_keyed:
            self.rows = Counter(by_key.values())
        self.rows = +self.rows
