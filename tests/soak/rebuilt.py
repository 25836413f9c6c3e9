"""Tables made again from the messages of their topics: `Rebuilt`."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from binlog_lab.demo.proof.topics import TopicChange

_NUMBER = re.compile(r"\d+$")


class Rebuilt:
    """A table as a consumer makes it of its topic.

    Args:
        columns: Those that it had from the beginning, the key first; others come and go.
        is_keyed: Whether the first one is the key; else equal rows are counted.

    Attributes:
        rows: When all changes were taken.
        broken: Changes that are there twice, or after a later one of their partition; and those that do not begin where
            the one before of their key ended.
    """

    def __init__(self, columns: Sequence[str], *, is_keyed: bool) -> None:
        self._columns, self._is_keyed = columns, is_keyed
        self.rows: Counter[tuple[Any, ...]] = Counter()
        self.changes, self.broken = 0, list[str]()
        self._last: dict[tuple[int, str], tuple[int, str, str]] = {}

    def take(self, changes: Iterable[TopicChange]) -> None:
        """Take all of them."""
        by_key: dict[Any, tuple[Any, ...]] = {}
        for change in changes:
            self.changes += 1
            self._look_at_order(change)
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
        if self._is_keyed:
            self.rows = Counter(by_key.values())
        self.rows = +self.rows

    def _look_at_order(self, change: TopicChange) -> None:
        # `sequence` is a place in one log. After a switch it is one in another log; GTIDs go on.
        digits = _NUMBER.findall(change.gtid)[-1]
        whose = change.partition, change.gtid.removesuffix(digits)
        place = int(digits), change.sequence, change.op
        last = self._last.get(whose)
        if last is not None and (place[:2] < last[:2] or place == last):
            self.broken.append(f"{change.gtid} {change.op} at {change.sequence}: it comes after {last}")
        self._last[whose] = place
