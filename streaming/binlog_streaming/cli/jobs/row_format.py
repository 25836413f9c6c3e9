"""Warnings on standard error about changes that a log does not tell row by row: `RowFormatWarnings`.

Under rules, statements that would show what these hide end the command there too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from binlog_connector.rules.revealing_statements import RevealingStatements
from binlog_connector.schema.log_ddl import ServerRuns
from binlog_connector.schema.row_format import RowFormat, Tally
from binlog_format.messages import visible
from binlog_format.views.filters import ALL_GROUPS, GroupFilter
from binlog_streaming.cli.output import with_job

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_connector.rules.row_rules import TableRules
    from binlog_format.block import Block
    from binlog_format.log.log import Log
    from binlog_format.views.filters import TableFilter


class RowFormatWarnings:
    """One line for each table and kind, and one with their numbers at the end. *folds_names*: see `RowFormat`."""

    def __init__(
        self, tables: TableFilter, *, folds_names: bool | None = None, rules: TableRules | None = None
    ) -> None:
        self._tells_texts = rules is None
        self._revealing = None if rules is None else RevealingStatements(rules, folds_names=folds_names)
        self._row_format = RowFormat(tables, folds_names=folds_names)
        self._tally = Tally()
        self._console = Console(stderr=True, emoji=False, highlight=False, markup=False, soft_wrap=True)

    def observed(self, blocks: Iterable[Block], log: Log, groups: GroupFilter = ALL_GROUPS) -> Iterator[Block]:
        """The same *blocks* of *log*, of plain events. Raises `SchemaError`: see `RevealingStatements`."""
        server_runs = ServerRuns(log)
        for block in blocks if self._revealing is None else self._revealing.refused(blocks, groups, server_runs):
            for lacking in self._row_format.lacking(block, groups, server_runs):
                for name in self._tally.take(lacking):
                    about = "" if name is None else f"{name}: "
                    self._say(f"{about}{lacking.error(tells_text=self._tells_texts).reason}")
            yield block

    def finish(self) -> None:
        """Print the number of statements, if there was more than one."""
        numbers = (
            (self._tally.statements, "statements change rows without row events: these changes are missing here"),
            (self._tally.incidents, "incidents: the server lost events"),
        )
        for number, what in numbers:
            if number > 1:
                self._say(f"{number:,} {what}")

    def _say(self, text: str) -> None:
        self._console.print(visible(with_job(f"warning: {text}")), style="yellow")
