"""Commands that take their words apart themselves, as the programs do whose place they take: `VerbatimCommand`."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


class VerbatimCommand(TyperCommand):
    """Leaves all words in `args` of the context."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse nothing. Typer has a click of its own or takes the one installed, so *ctx* has no type to name."""
        ctx.args = list(args)
        return []
