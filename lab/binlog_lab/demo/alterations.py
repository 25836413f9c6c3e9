"""ALTER TABLE statements on the shop's tables in the middle of the demo: `ALTERATIONS`, in order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from binlog_lab.demo.shop import CUSTOMERS, ORDER_LINES, ORDERS, TABLES
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlog_lab.event_encoding.value_encoding import Value

    Row = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Alteration:
    """One ALTER TABLE.

    Attributes:
        share: It comes when this share of all work is done.
        brief: What it does, in a few words.
        clauses: What follows the table's name.
        after: The table from then on; what is added comes after the other columns.
        added: What existing rows hold in columns that come new.
        renamed: Old names of columns, and new ones.
    """

    share: float
    brief: str
    clauses: str
    after: TableSpec
    added: Mapping[str, Value] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)

    @property
    def statement(self) -> str:
        """The whole statement."""
        return f"ALTER TABLE `{self.after.database}`.`{self.after.table}` {self.clauses}"

    def row(self, before: Row) -> Row:
        """The existing row *before* after the statement."""
        return (*before, *self.added.values())


def _with(spec: TableSpec, **changed: ColumnSpec) -> TableSpec:
    columns = tuple(changed.get(column.name, column) for column in spec.columns)
    return replace(spec, columns=columns)


ADD_POINTS = Alteration(
    0.2,
    "customers ADD 2 columns",
    "ADD COLUMN `points` int NOT NULL DEFAULT 100, ADD COLUMN `channel` varchar(20) NOT NULL DEFAULT 'café'",
    replace(CUSTOMERS, columns=(*CUSTOMERS.columns, ColumnSpec("points", "int"), ColumnSpec("channel", "varchar(20)"))),
    added={"points": 100, "channel": "café"},
)
RENAME_DISCOUNT = Alteration(
    0.35,
    "orders RENAME COLUMN",
    "RENAME COLUMN `discount` TO `rebate`",
    _with(ORDERS, discount=ColumnSpec("rebate", "float", nullable=True)),
    renamed={"discount": "rebate"},
)
WIDEN_QUANTITY = Alteration(
    0.35,
    "order_lines MODIFY to BIGINT",
    "MODIFY COLUMN `quantity` bigint NOT NULL",
    _with(ORDER_LINES, quantity=ColumnSpec("quantity", "bigint")),
)

ALTERATIONS = (ADD_POINTS, RENAME_DISCOUNT, WIDEN_QUANTITY)


def final_tables() -> tuple[TableSpec, ...]:
    """The shop's tables after all alterations."""
    after = {alteration.after.full_name: alteration.after for alteration in ALTERATIONS}
    return tuple(after.get(spec.full_name, spec) for spec in TABLES)
