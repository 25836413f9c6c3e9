"""The shop: four tables of different shape, and rows for them: `TABLES`, `RowMaker`.

`ALTERATIONS` are ALTER TABLE statements on them in the middle of the demo, in order; `alterations` changes tables.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from binlog_lab.event_encoding.value_encoding import Value

    Row = tuple[Value, ...]


DATABASE = "shop"

CUSTOMERS = TableSpec(
    DATABASE,
    "customers",
    (
        ColumnSpec("id", "int unsigned"),
        ColumnSpec("name", "varchar(80)"),
        ColumnSpec("email", "varchar(120)", nullable=True),
        ColumnSpec("country", "char(2)", charset="latin1"),
        ColumnSpec("tier", "enum('basic','silver','gold')"),
        ColumnSpec("credit", "decimal(12,2)"),
        ColumnSpec("born", "date", nullable=True),
        ColumnSpec("created", "timestamp(6)"),
        ColumnSpec("notes", "text", nullable=True),
    ),
    ("id",),
)
ORDERS = TableSpec(
    DATABASE,
    "orders",
    (
        ColumnSpec("id", "bigint"),
        ColumnSpec("customer_id", "int unsigned"),
        ColumnSpec("status", "enum('new','paid','shipped','cancelled')"),
        ColumnSpec("placed", "datetime(3)"),
        ColumnSpec("total", "decimal(14,2)"),
        ColumnSpec("discount", "float", nullable=True),
        ColumnSpec("shipped", "timestamp", nullable=True),
    ),
    ("id",),
)
ORDER_LINES = TableSpec(
    DATABASE,
    "order_lines",
    (
        ColumnSpec("order_id", "bigint"),
        ColumnSpec("line_no", "smallint unsigned"),
        ColumnSpec("sku", "varchar(40)", charset="latin1"),
        ColumnSpec("quantity", "mediumint"),
        ColumnSpec("price", "decimal(10,2)"),
        ColumnSpec("weight", "double", nullable=True),
    ),
    ("order_id", "line_no"),
)
EVENTS = TableSpec(
    DATABASE,
    "events",
    (
        ColumnSpec("id", "bigint"),
        ColumnSpec("happened", "datetime(6)"),
        ColumnSpec("kind", "varchar(32)"),
        ColumnSpec("customer_id", "int unsigned", nullable=True),
        ColumnSpec("duration", "time(3)", nullable=True),
        ColumnSpec("fingerprint", "bigint unsigned"),
        ColumnSpec("score", "tinyint"),
        ColumnSpec("payload", "blob", nullable=True),
    ),
    ("id",),
)
TABLES = (CUSTOMERS, ORDERS, ORDER_LINES, EVENTS)

_FIRST = (
    "Ada",
    "Bjørn",
    "Chloé",
    "Dmitri",
    "Έλενα",
    "Fatima",
    "Grace",
    "浩",
    "İpek",
    "José",
    "Käthe",
    "Łukasz",
    "美咲",
)
_LAST = ("Adams", "Brontë", "Çelik", "Dvořák", "Eriksson", "García", "Hölderlin", "Ιωάννου", "李", "Müller", "Nguyễn")
_NOTES = ("pays late", "prefers e-mail 📧", "moved to Zürich", "„Stammkunde“", "VIP ⭐⭐⭐", "", "no calls before 9:00")
_COUNTRIES = ("DE", "FR", "JP", "GR", "TR", "US", "VN", "PL")
_TIERS = ("basic", "silver", "gold")
_KINDS = ("page-view", "search", "add-to-cart", "checkout", "login", "logout", "推荐", "error")
_SKUS = ("GR\u00dcN", "BLEU", "ROT", "NOIR", "CAF\u00c9")
_CHANNELS = ("web", "app", "télé", "店舗")

_START = datetime.datetime(2026, 1, 1)  # noqa: DTZ001 (DATETIME columns have no zone)
_START_UTC = _START.replace(tzinfo=datetime.UTC)
_CENTURY_START = datetime.date(1930, 1, 1)


class RowMaker:
    """Makes rows of the shop's tables, and changes rows, from one source of random numbers."""

    def __init__(self, numbers: random.Random) -> None:
        self._numbers = numbers
        self._types: dict[str, dict[str, str]] = {}
        for spec in TABLES:
            self.follow(spec)

    def follow(self, spec: TableSpec) -> None:
        """Make rows of a table as it is from now on."""
        self._types[spec.table] = {column.name: column.sql_type for column in spec.columns}

    def customer(self, customer_id: int) -> Row:
        """A new customer."""
        pick, chance = self._numbers.choice, self._numbers.random
        name = f"{pick(_FIRST)} {pick(_LAST)}"
        added = (int(chance() * 500), pick(_CHANNELS)) if "points" in self._types["customers"] else ()
        return (
            customer_id,
            name,
            f"customer{customer_id}@example.org" if chance() < 0.9 else None,
            pick(_COUNTRIES),
            pick(_TIERS),
            self._money(-50_000, 1_000_000),
            _CENTURY_START + datetime.timedelta(days=int(chance() * 28_000)) if chance() < 0.7 else None,
            _START_UTC + datetime.timedelta(microseconds=int(chance() * 3e13)),
            pick(_NOTES) if chance() < 0.4 else None,
            *added,
        )

    def changed_customer(self, row: Row) -> Row:
        """The customer with other credit, and sometimes another tier or note; with points, a few more of them."""
        chance = self._numbers.random()
        tier = self._other(_TIERS, row[4]) if chance < 0.2 else row[4]
        notes = self._other(_NOTES, row[8]) if chance > 0.7 else row[8]
        added = row[9:]
        if added:
            points, channel = added
            assert isinstance(points, int)
            added = (points + int(self._numbers.random() * 20), channel)
        return (*row[:4], tier, self._other_money(row[5], 1_000_000), *row[6:8], notes, *added)

    def order(self, order_id: int, customer_id: int) -> Row:
        """A new order."""
        chance = self._numbers.random
        return (
            order_id,
            customer_id,
            "new",
            _START + datetime.timedelta(milliseconds=int(chance() * 3e10)),
            self._money(100, 50_000_00),
            int(chance() * 200) / 4 if chance() < 0.3 else None,
            None,
        )

    def changed_order(self, row: Row) -> Row:
        """The order with another status; when shipped, also the time of it."""
        status = self._other(("new", "paid", "shipped", "cancelled"), row[2])
        second = int(self._numbers.random() * 3e7)
        shipped = _START_UTC + datetime.timedelta(seconds=second) if status == "shipped" else None
        return (*row[:2], status, *row[3:6], shipped)

    def order_line(self, order_id: int, line_no: int) -> Row:
        """A line of an order."""
        chance = self._numbers.random
        return (
            order_id,
            line_no,
            f"{self._numbers.choice(_SKUS)}-{int(chance() * 9000) + 1000}",
            int(chance() * 40) - 5 if chance() < 0.8 else self._quantity(),
            self._money(1, 99_999),
            chance() * 30 if chance() < 0.8 else None,
        )

    def changed_order_line(self, row: Row) -> Row:
        """The line at another price."""
        return (*row[:4], self._other_money(row[4], 99_999), row[5])

    def event(self, event_id: int, customer_id: int | None) -> Row:
        """An event in the shop."""
        chance = self._numbers.random
        return (
            event_id,
            _START + datetime.timedelta(microseconds=int(chance() * 3e13)),
            self._numbers.choice(_KINDS),
            customer_id,
            datetime.timedelta(milliseconds=int(chance() * 3.6e8) - 7_200_000) if chance() < 0.6 else None,
            self._numbers.getrandbits(64),
            int(chance() * 256) - 128,
            self._numbers.randbytes(int(chance() * 48)) if chance() < 0.5 else None,
        )

    def changed_event(self, row: Row) -> Row:
        """The event with another score."""
        score = row[6]
        assert isinstance(score, int)
        return (*row[:6], (score + 129 + int(self._numbers.random() * 254)) % 256 - 128, row[7])

    def _quantity(self) -> int:
        # As large as the column's type allows.
        size = 64 if self._types["order_lines"]["quantity"] == "bigint" else 24
        return self._numbers.getrandbits(size) - (1 << size - 1)

    def _money(self, low: int, high: int) -> Decimal:
        return Decimal(low + int(self._numbers.random() * (high - low))).scaleb(-2)

    def _other_money(self, value: Value, high: int) -> Decimal:
        made = self._money(0, high)
        return made if made != value else made + Decimal("0.01")

    def _other(self, values: tuple[str, ...], value: Value) -> str:
        made = self._numbers.choice(values)
        return made if made != value else values[(values.index(made) + 1) % len(values)]


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
