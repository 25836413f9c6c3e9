"""How a target is declared: `Target`; and what targets share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hypothesis import strategies as st

from binlog_format.events.layout import EVENT_HEADER_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_format.block import Block
    from binlog_format.vendor import Vendor

NUMBERS = st.integers(0, 1023)
"""Numbers that choose one of a few things, by what is left of a division."""


class Target(NamedTuple):
    """What is fuzzed.

    Attributes:
        function: Is given arguments; an exception is a fault.
    """

    function: Callable[..., None]
    strategies: tuple[st.SearchStrategy[object], ...]


def with_body(event: bytes, body: bytes, kind: int | None = None) -> bytes:
    """*event* with another body, and the size that fits; of another type where *kind* is given."""
    size = (EVENT_HEADER_SIZE + len(body)).to_bytes(4, "little")
    type_ = event[4:5] if kind is None else bytes([kind])
    return event[:4] + type_ + event[5:9] + size + event[13:EVENT_HEADER_SIZE] + body


def of_vendor(block: Block, vendor: Vendor) -> Block:
    """*block* as a server of *vendor* wrote it."""
    return replace(block, vendor=vendor)
