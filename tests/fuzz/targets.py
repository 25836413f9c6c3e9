"""What is fuzzed: for each family of kernels functions that any bytes may be given to: `TARGETS`.

A target gives nothing and raises nothing but on a fault: named errors are what damaged bytes are for. An `IndexError`
of a kernel that runs with checks (`memory_kernels`), any other exception, and too much memory or time are faults.
Each target is declared once, with the strategies of its arguments; both engines make arguments of those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fuzz import (
    event_targets,
    log_targets,
    message_targets,
    row_targets,
    structured_targets,
    text_targets,
    value_targets,
    view_targets,
)

if TYPE_CHECKING:
    from tests.fuzz.declaring import Target

TARGETS: dict[str, Target] = {
    **log_targets.TARGETS,
    **event_targets.TARGETS,
    **row_targets.TARGETS,
    **value_targets.TARGETS,
    **text_targets.TARGETS,
    **view_targets.TARGETS,
    **structured_targets.TARGETS,
    **message_targets.TARGETS,
}
"""By name."""
