"""Help texts from docstrings, whose paragraphs flow to the terminal's width: `help_of(command)`."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PANEL = "Tables kept in step"
"""The heading of the commands about jobs."""


def help_of(command: Callable[..., None]) -> str:
    """The docstring of *command*: lines of a paragraph are joined, indented ones stay as they are."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(
        paragraph if paragraph.startswith(" ") else " ".join(paragraph.split("\n")) for paragraph in paragraphs
    )
