"""Targets that were written and are gone: `check_folders` before a batch, `target_gone` for whoever looks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from binlog_format.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_streaming.plan.batch_plan import Component
    from binlog_streaming.plan.table_selection import SelectedTable
    from binlog_streaming.settings import Mode


def check_folders(components: Iterable[Component], directory: str) -> None:
    """See that the folders of targets are there that a batch goes on with, before anything of it is written.

    Whether there is a table in a folder, and what is in an object store, is seen when the target is looked at.

    Args:
        components: Of the batch.
        directory: Of the sink.

    Raises:
        TableError: `TARGET_GONE`.
    """
    if "://" in directory:
        return
    for component in components:
        for table in component.tables.values():
            for mode in sorted(table.known):
                uri = table.uri(directory, mode)
                if not Path(uri).exists():
                    raise target_gone(table, mode, uri)


def target_gone(table: SelectedTable, mode: Mode, uri: str) -> TableError:
    """The error for a target that is not there any more."""
    return TableError(
        "TARGET_GONE",
        f"{table.name}: {uri} was written by this job ({mode}), and is not there any more",
        hint="It would begin in the middle of the log. Bring it back; or build it again with binlog-stream replay; or "
        "delete the checkpoint and the other tables too, and let the job build all of them anew",
    )
