"""Which test raises which condition: `tests/conditions.toml`, and that it still does.

A test that the file names fails unless code of the product made an error with that condition while it ran.
"""

from __future__ import annotations

import functools
import sys
import tomllib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = Path(__file__).parent / "conditions.toml"
_REBUILT = "_rebuild"
"""Makes an error once more, where it comes from another process."""


@functools.cache
def raising_tests() -> dict[str, str]:
    """The id of a test for each condition."""
    found: dict[str, str] = tomllib.loads(FILE.read_text())
    return found


@functools.cache
def _conditions_of_tests() -> dict[str, frozenset[str]]:
    named: dict[str, set[str]] = {}
    for condition, test in raising_tests().items():
        named.setdefault(test, set()).add(condition)
    return {test: frozenset(conditions) for test, conditions in named.items()}


@contextmanager
def raises_its_conditions(test: str) -> Iterator[None]:
    """See that the product makes the errors that *test* is named for, within this context."""
    expected = _conditions_of_tests().get(test)
    if expected is None:
        yield
        return
    from binlog_format.errors import BinlogError

    made, original = set[str](), BinlogError.__init__

    def noting(error: BinlogError, *arguments: Any, **named: Any) -> None:
        original(error, *arguments, **named)
        frame = sys._getframe(1)
        is_product = str(frame.f_globals["__name__"]).startswith("binlog_")
        if is_product and frame.f_code.co_name != _REBUILT:
            made.add(error.condition)

    BinlogError.__init__ = noting  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        BinlogError.__init__ = original  # type: ignore[method-assign]
    assert expected <= made, f"{FILE.name} names this test for {sorted(expected - made)}"
