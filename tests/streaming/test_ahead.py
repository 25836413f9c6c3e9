"""Work that a thread does ahead."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from binlog_streaming.prefetch import prefetch

if TYPE_CHECKING:
    from collections.abc import Iterator


class Maker:
    """Makes numbers, and knows how far it has come."""

    def __init__(self, count: int, *, fails: bool = False) -> None:
        self.begun = [threading.Event() for _ in range(count + 1)]
        self.threads: set[int] = set()
        self._fails = fails

    def numbers(self) -> Iterator[int]:
        for number, begun in enumerate(self.begun):
            self.threads.add(threading.get_ident())
            begun.set()
            if number == len(self.begun) - 1:
                break
            yield number
        if self._fails:
            raise OSError("no space left")


def test_all_items_come_in_their_order() -> None:
    """Also falsy ones, and none at all."""
    assert list(prefetch([0, None, "", 3])) == [0, None, "", 3]
    assert list(prefetch(())) == []


@pytest.mark.parametrize("count", [1, 2, 7])
def test_the_next_items_are_made_while_the_caller_works(count: int) -> None:
    """By another thread, and not more than those."""
    maker = Maker(4)
    for number in prefetch(maker.numbers(), count):
        assert all(begun.wait(300) for begun in maker.begun[number + 1 : number + 1 + count])
        assert not any(begun.is_set() for begun in maker.begun[number + 1 + count :])
    assert threading.get_ident() not in maker.threads


def test_an_error_comes_after_the_items_before_it() -> None:
    """Nothing that was made is lost, nothing after it is made."""
    numbers = prefetch(Maker(3, fails=True).numbers())
    assert [next(numbers) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(OSError, match="no space left"):
        next(numbers)


@pytest.mark.parametrize("count", [1, 2])
def test_who_stops_early_leaves_no_thread(count: int) -> None:
    """Whether by an error of its own, or for good."""
    before = threading.active_count()
    maker = Maker(4)
    made = maker.numbers()
    numbers = prefetch(made, count)
    assert next(numbers) == 0
    numbers.close()
    assert threading.active_count() == before
    assert not maker.begun[count + 1].is_set()
