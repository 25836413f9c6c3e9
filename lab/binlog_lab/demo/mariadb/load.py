"""A mixed load on the shop's tables of a real server: `ServerLoad`, several connections at once."""

from __future__ import annotations

import datetime
import math
import random
import threading
import time
from typing import TYPE_CHECKING

import pymysql

from binlog_lab.demo.shop import CUSTOMERS, DATABASE, EVENTS, ORDER_LINES, ORDERS, TABLES, RowMaker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pymysql.connections import Connection
    from pymysql.cursors import Cursor

    from binlog_lab.demo.shop import Alteration
    from binlog_lab.event_encoding.table_encoding import TableSpec
    from binlog_lab.event_encoding.value_encoding import Value

    Row = tuple[Value, ...]

FILL_ROWS = 400
"""Customers, orders and events of one `fill`."""
IDS_PER_CONNECTION = 10_000_000
BULK_ROWS = 8000
"""Rows of a large transaction; some are made by each load."""
_POLL_SECONDS = 0.02
BULK_SHARE = 0.002
ROLLBACK_SHARE = 0.05
# Deadlock, lock wait timeout; a table altered since the transaction began, a column that has just got another name:
# the transaction is rolled back and forgotten.
_LOST_TO_OTHERS = (1213, 1205, 1412, 1054)


class ServerLoad:
    """Works on the shop's tables, which are there.

    Args:
        connect: Gives a new connection; takes `database` and `autocommit`.
        connections: How many work at once.
        rate: Row changes a second of all together, at most.
        seed: Of all random numbers; how the connections meet is up to the server.
    """

    def __init__(
        self, connect: Callable[..., Connection], *, connections: int, rate: float = math.inf, seed: int = 1
    ) -> None:
        self.seconds_per_change = connections / rate
        """Shortest time per change of one connection."""
        self.limit = math.inf
        """Row changes, those of `fill` included, after which the connections wait until this is raised."""
        self._workers = [_Worker(number, connect, random.Random(seed + number), self) for number in range(connections)]
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._changes = {spec.full_name: 0 for spec in TABLES}
        self._failure: Exception | None = None
        self._connect = connect
        self.is_stopping = threading.Event()
        self.alterations: list[Alteration] = []
        """Done so far."""

    def fill(self) -> None:
        """Put rows into the tables."""
        self._workers[0].fill()

    def start(self, seconds: float = math.inf) -> None:
        """Begin; after *seconds* the load ends by itself."""
        deadline = time.monotonic() + seconds
        for worker in self._workers:
            thread = threading.Thread(target=self._run, args=(worker, deadline), name="demo-client", daemon=True)
            thread.start()
            self._threads.append(thread)

    def alter(self, alteration: Alteration) -> None:
        """Alter a table, in the midst of it all; returns when it is done."""
        with self._connect(database=DATABASE) as connection, connection.cursor() as cursor:
            cursor.execute(alteration.statement)
        self.alterations.append(alteration)

    def stop(self) -> None:
        """End it now."""
        self.is_stopping.set()
        for thread in self._threads:
            thread.join()

    def is_running(self) -> bool:
        """True if a connection still works."""
        return any(thread.is_alive() for thread in self._threads)

    def join(self) -> None:
        """Wait for the end, and raise what went wrong."""
        for thread in self._threads:
            thread.join()
        if self._failure is not None:
            raise self._failure

    def changes(self) -> dict[str, int]:
        """Row changes committed so far, by `database.table`."""
        with self._lock:
            return dict(self._changes)

    def total(self) -> int:
        """All row changes committed so far."""
        return sum(self.changes().values())

    def committed(self, changes: dict[str, int]) -> None:
        """A worker has committed."""
        with self._lock:
            for name, count in changes.items():
                self._changes[name] += count

    def pick_customer(self, numbers: random.Random) -> int:
        """Id of a customer that is probably there."""
        return numbers.choice(self._workers).some_id(CUSTOMERS, numbers)

    def pick_order(self, numbers: random.Random) -> int:
        """Id of an order that is probably there."""
        return numbers.choice(self._workers).some_id(ORDERS, numbers)

    def pick_event(self, numbers: random.Random) -> int:
        """Id of an event that may be there."""
        return numbers.choice(self._workers).some_id(EVENTS, numbers)

    def _run(self, worker: _Worker, deadline: float) -> None:
        try:
            worker.run(deadline)
        except Exception as error:  # raised again by join(), on the thread that asks
            self._failure = error


class _Worker:
    # One connection; the ids of its rows are its own.
    def __init__(
        self, number: int, connect: Callable[..., Connection], numbers: random.Random, load: ServerLoad
    ) -> None:
        self._connect = connect
        self._numbers = numbers
        self._rows = RowMaker(numbers)
        self._load = load
        self._first_id = number * IDS_PER_CONNECTION + 1
        self._counts = {spec.table: 0 for spec in TABLES}
        self._columns = {spec.table: _column_list(spec) for spec in TABLES}
        self._altered = 0
        self._pending: dict[str, int] = {}

    def some_id(self, spec: TableSpec, numbers: random.Random) -> int:
        return self._first_id + int(numbers.random() * max(1, self._counts[spec.table]))

    def fill(self) -> None:
        with self._connect(database=DATABASE, autocommit=False) as connection, connection.cursor() as cursor:
            self._insert(cursor, CUSTOMERS, [self._rows.customer(self._new_id(CUSTOMERS)) for _ in range(FILL_ROWS)])
            for _ in range(FILL_ROWS):
                self._order(cursor)
            self._insert(cursor, EVENTS, [self._rows.event(self._new_id(EVENTS), None) for _ in range(FILL_ROWS)])
            self._commit(connection)

    def run(self, deadline: float) -> None:
        scripts = (self._place_order, self._change_orders, self._change_customers, self._sign_up, self._browse)
        rarer = (self._forget_events, self._cancel_order, self._renumber_lines, self._rename_customer)
        with self._connect(database=DATABASE, autocommit=False) as connection, connection.cursor() as cursor:
            while time.monotonic() < deadline and not self._load.is_stopping.is_set():
                if self._load.total() >= self._load.limit:
                    self._load.is_stopping.wait(_POLL_SECONDS)
                    continue
                began = time.monotonic()
                self._follow_alterations()
                chance = self._numbers.random()
                script = self._numbers.choice(rarer if chance > 0.8 else scripts)
                if chance < BULK_SHARE:
                    script = self._numbers.choice((self._import_events, self._score_events))
                try:
                    script(cursor)
                except pymysql.err.OperationalError as error:
                    if error.args[0] not in _LOST_TO_OTHERS:
                        raise
                    self._rollback(connection)
                    continue
                if self._numbers.random() < ROLLBACK_SHARE:
                    self._rollback(connection)
                else:
                    pace = sum(self._pending.values()) * self._load.seconds_per_change
                    self._commit(connection)
                    self._load.is_stopping.wait(max(0.0, began + pace - time.monotonic()))

    def _commit(self, connection: Connection) -> None:
        connection.commit()
        self._load.committed(self._pending)
        self._pending = {}

    def _rollback(self, connection: Connection) -> None:
        connection.rollback()
        self._pending = {}

    def _new_id(self, spec: TableSpec) -> int:
        self._counts[spec.table] += 1
        return self._first_id + self._counts[spec.table] - 1

    def _follow_alterations(self) -> None:
        for alteration in self._load.alterations[self._altered :]:
            self._altered += 1
            self._rows.follow(alteration.after)
            self._columns[alteration.after.table] = _column_list(alteration.after)

    def _insert(self, cursor: Cursor, spec: TableSpec, rows: Sequence[Row]) -> None:
        columns = self._columns[spec.table]
        places = ", ".join(["%s"] * len(rows[0]))
        self._count(spec, cursor.executemany(f"INSERT INTO `{spec.table}` ({columns}) VALUES ({places})", rows))

    def _execute(self, cursor: Cursor, spec: TableSpec, sql: str, arguments: Sequence[object]) -> None:
        self._count(spec, cursor.execute(sql, arguments))

    def _count(self, spec: TableSpec, changes: int | None) -> None:
        self._pending[spec.full_name] = self._pending.get(spec.full_name, 0) + (changes or 0)

    # --- transactions --------------------------------------------------------------------------------------------

    def _order(self, cursor: Cursor) -> int:
        customer = self._load.pick_customer(self._numbers)
        order_id = self._new_id(ORDERS)
        self._insert(cursor, ORDERS, [self._rows.order(order_id, customer)])
        lines = [self._rows.order_line(order_id, number) for number in range(1, 2 + int(self._numbers.random() * 5))]
        self._insert(cursor, ORDER_LINES, lines)
        return customer

    def _place_order(self, cursor: Cursor) -> None:
        customer = self._order(cursor)
        sql = "UPDATE customers SET credit = credit - %s, tier = %s WHERE id = %s"
        tier = self._numbers.choice(("basic", "silver", "gold"))
        self._execute(cursor, CUSTOMERS, sql, (1 + int(self._numbers.random() * 90), tier, customer))
        self._insert(cursor, EVENTS, [self._rows.event(self._new_id(EVENTS), customer)])

    def _change_orders(self, cursor: Cursor) -> None:
        first = self._load.pick_order(self._numbers)
        status = self._numbers.choice(("paid", "shipped", "cancelled"))
        shipped = datetime.datetime(2026, 3, 1 + int(self._numbers.random() * 28), tzinfo=datetime.UTC)
        sql = "UPDATE orders SET status = %s, shipped = %s WHERE id BETWEEN %s AND %s"
        when = shipped if status == "shipped" else None
        self._execute(cursor, ORDERS, sql, (status, when, first, first + int(self._numbers.random() * 12)))

    def _change_customers(self, cursor: Cursor) -> None:
        sql = "UPDATE customers SET notes = %s, born = NULL WHERE id = %s"
        for _ in range(3):
            note = f"note {int(self._numbers.random() * 1000)} ✓"
            self._execute(cursor, CUSTOMERS, sql, (note, self._load.pick_customer(self._numbers)))

    def _sign_up(self, cursor: Cursor) -> None:
        self._insert(cursor, CUSTOMERS, [self._rows.customer(self._new_id(CUSTOMERS)) for _ in range(3)])

    def _browse(self, cursor: Cursor) -> None:
        visitor = self._load.pick_customer(self._numbers)
        count = 1 + int(self._numbers.random() * 20)
        self._insert(cursor, EVENTS, [self._rows.event(self._new_id(EVENTS), visitor) for _ in range(count)])

    def _forget_events(self, cursor: Cursor) -> None:
        first = self._load.pick_event(self._numbers)
        self._execute(cursor, EVENTS, "DELETE FROM events WHERE id BETWEEN %s AND %s", (first, first + 20))

    def _cancel_order(self, cursor: Cursor) -> None:
        order_id = self._load.pick_order(self._numbers)
        self._execute(cursor, ORDER_LINES, "DELETE FROM order_lines WHERE order_id = %s", (order_id,))
        self._execute(cursor, ORDERS, "DELETE FROM orders WHERE id = %s", (order_id,))

    def _renumber_lines(self, cursor: Cursor) -> None:
        sql = "UPDATE order_lines SET line_no = line_no + 1 WHERE order_id = %s ORDER BY line_no DESC"
        self._execute(cursor, ORDER_LINES, sql, (self._load.pick_order(self._numbers),))

    def _rename_customer(self, cursor: Cursor) -> None:
        sql = "UPDATE customers SET id = %s WHERE id = %s"
        self._execute(cursor, CUSTOMERS, sql, (self._new_id(CUSTOMERS), self._load.pick_customer(self._numbers)))

    def _import_events(self, cursor: Cursor) -> None:
        rows = [self._rows.event(self._new_id(EVENTS), None) for _ in range(BULK_ROWS)]
        self._insert(cursor, EVENTS, rows)

    def _score_events(self, cursor: Cursor) -> None:
        first = self._load.pick_event(self._numbers)
        sql = "UPDATE events SET score = -score, duration = NULL WHERE id BETWEEN %s AND %s AND score > -128"
        self._execute(cursor, EVENTS, sql, (first, first + BULK_ROWS))


def _column_list(spec: TableSpec) -> str:
    return ", ".join(f"`{column.name}`" for column in spec.columns)
