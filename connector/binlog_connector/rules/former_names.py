"""Names that tables had before one that nobody asks for: `FormerNames`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from binlog_connector.schema.table_changes import DatabaseDropped, TableCreated, TableDropped, TableRenamed

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.snapshot_marks import SnapshotChange
    from binlog_connector.schema.table_changes import StatementChange


@dataclass(slots=True)
class FormerNames:
    """Takes all changes, in their order.

    `RENAME TABLE plain TO passing, passing TO orders` brings the rows of `plain`, whoever knows of `passing`.

    Attributes:
        is_asked: True for tables whose rows are read.
    """

    is_asked: Callable[[TableName], bool]
    _names: dict[TableName, TableName] = field(default_factory=dict)  # by the name that they have now

    def take(self, change: StatementChange | SnapshotChange) -> TableName | None:
        """Take a change; of a RENAME the last name that was asked for, or else the name before the statement."""
        match change:
            case TableRenamed():
                former = self._names.pop(change.old, change.old)
                if not self.is_asked(change.new):
                    self._names[change.new] = former
                return former
            case TableCreated() | TableDropped():
                self._names.pop(change.name, None)
            case DatabaseDropped():
                for name in [name for name in self._names if name.database == change.database]:
                    del self._names[name]
        return None
