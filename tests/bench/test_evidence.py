"""The benchmark of evidence works on a part of its data."""

from __future__ import annotations

from bench.registry import chosen, set_share


def test_it_gives_a_ratio() -> None:
    (one,) = chosen(["lake.evidence.keys.ratio"])
    set_share(0.005)
    try:
        assert one.measure() > 0
    finally:
        set_share(1.0)
