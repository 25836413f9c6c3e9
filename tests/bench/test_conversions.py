"""The benchmark of conversions gives a number, and sees values that are not converted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench.registry import chosen, set_share
from bench.tables import conversions
from binlog_connector.schema.effects.conversion import Values

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "lake.alter.rows_per_s"


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    set_share(0.001)
    yield
    set_share(1.0)


def test_it_gives_a_number() -> None:
    assert chosen([NAME])[0].measure() > 0


def test_values_that_are_not_rounded_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversions, "_conversion", lambda: Values)
    with pytest.raises(Exception, match=r"rescal|data loss|other values"):
        chosen([NAME])[0].measure()
