"""Damage in structured logs, for tests: `NOISE`, `damaged_log`, `damaged_before_first_event`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_lab.simulator.structured.program import FIRST_NS, NAME, LoggingProgram
from tests.format.structured.logs import event, source

if TYPE_CHECKING:
    from pathlib import Path

NOISE = {
    "too short": b"\x02\x00\x00\x00xy",
    "zeros": bytes(40),
    "text": b"\x07garbage text of a crashed program\n",
    "after a source that no event has room for": source((1 << 63) + 1).entry() + bytes(40),
}
"""Bytes that are no entry, nor the start of one, and be it that they come after one."""


def damaged_before_first_event(directory: Path, noise: bytes, *, instead_of_start: bool) -> list[int]:
    """Two files, and no event of the second one before *noise*; the events of both."""
    with LoggingProgram(directory) as program:
        program.log(5)
        program.rotate()
        metadata = (directory / NAME).read_bytes()
        (directory / NAME).write_bytes(noise + metadata if instead_of_start else metadata + noise)
        program.log(5)
        return list(range(program.count))


def damaged_log(directory: Path) -> list[int]:
    """A log with 30 events between four kinds of damage; those that are given where damage is skipped.

    The last event before bytes that are no entry is not: it may have been cut off.
    """
    with LoggingProgram(directory) as program:
        program.log(10)
        program.append(b"\xff\x00\x00\x00" + bytes(60))  # an entry that claims more than there is, then zeros
        program.repeat_metadata()
        program.log(10)
        program.append(event(999, FIRST_NS))  # of a source that nobody defined
        program.append(event(1, FIRST_NS, b"\x01"))  # arguments that are too short
        program.repeat_metadata()
        program.log(5)
        program.rotate()
        program.append(b"\x02\x00\x00\x00xy")  # too short for any entry
        program.log(5)
        return [number for number in range(program.count) if number != 9]
