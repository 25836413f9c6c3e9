"""The project's own workload: `Workload.actions()` is what sessions do, `expected_tables()` what must come of it.

Several sessions work on the shop's tables at once, their transactions interleave; some are rolled back, wholly or to a
savepoint; a few have tens of thousands of rows. Tables are altered while they work. The same seed does the same things.
"""

from __future__ import annotations

import random
from collections import deque
from typing import TYPE_CHECKING

from binlog_format.gtids.gtid import Gtid
from binlog_lab.demo.actions import BeginAction, CommitAction, Ddl, TransactionAction
from binlog_lab.demo.proof.expected_rows import ExpectedTable, to_arrow
from binlog_lab.demo.proof.history import ComparedTableState, ServerTableHistory
from binlog_lab.demo.shop import CUSTOMERS, DATABASE, EVENTS, ORDER_LINES, ORDERS, TABLES, RowMaker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from binlog_lab.demo.actions import Action
    from binlog_lab.demo.shop import Alteration
    from binlog_lab.event_encoding.table_encoding import TableSpec
    from binlog_lab.event_encoding.value_encoding import Value

    Row = tuple[Value, ...]
    Script = Callable[["TransactionAction"], Iterator[None]]

SESSIONS = 6
BULK_SESSION = SESSIONS
"""Number of the session that does the large transactions."""
BULK_STATEMENT_ROWS = 2000
CHANGES_ITS_MIND = 0.04
"""Share of the ordinary transactions that are rolled back."""
LINES_MAX = 30
"""No order has a line with a higher number."""


class Workload:
    """Workload of the sessions, and its expected result.

    Args:
        changes: Row changes to be committed, about.
        first_gtid: GTID of the first group; the others count on from it.
        alterations: ALTER TABLE statements that come in the middle, in order of their shares.
    """

    def __init__(
        self,
        changes: int,
        *,
        seed: int = 1,
        first_gtid: Gtid | None = None,
        alterations: Sequence[Alteration] = (),
    ) -> None:
        self.changes = changes
        self.committed = 0
        self._numbers = random.Random(seed)
        self._rows = RowMaker(self._numbers)
        self._next_gtid = first_gtid or Gtid(0, 1, 1)
        self._tables = {spec.table: ComparedTableState(spec) for spec in TABLES}
        self._customers, self._orders, self._lines, self._events = (
            self._tables[spec.table] for spec in (CUSTOMERS, ORDERS, ORDER_LINES, EVENTS)
        )
        self._histories = {spec.table: ServerTableHistory(spec) for spec in TABLES}
        self._last_ids = {spec.table: 0 for spec in TABLES}
        self._actions: deque[Action] = deque()
        self._bulk_plan = self._plan_bulk()
        self._alterations = deque(alterations)

    def actions(self) -> Iterator[Action]:
        """Everything that the sessions do, in order; lazily, so that it can be done live."""
        yield from self._setup()
        running: dict[int, tuple[TransactionAction, Iterator[None]]] = {}
        while self.committed < self.changes or running or self._alterations:
            session = int(self._numbers.random() * (SESSIONS + 1))
            if session not in running:
                # An ALTER TABLE waits for those who use the table, and whoever comes later waits for it.
                script = None if self._alter([one for one, _ in running.values()]) else self._next_script(session)
                if script is not None:
                    transaction = TransactionAction(session, self._actions.append)
                    self._actions.append(BeginAction(session))
                    running[session] = (transaction, script(transaction))
            elif next(running[session][1], StopIteration) is StopIteration:
                self._end(running.pop(session)[0])
            while self._actions:
                yield self._actions.popleft()

    def expected_tables(self, committed_at: Mapping[str, int]) -> list[ExpectedTable]:
        """Expected rows of the tables when all actions are done.

        Args:
            committed_at: When each transaction was committed, by GTID, in seconds since 1970 UTC.
        """
        return [
            ExpectedTable(
                f"{DATABASE}.{name}",
                state.spec.primary_key,
                to_arrow(state.spec, state.rows.values()),
                self._histories[name].changes_table(),
                self._histories[name].versions_table(committed_at),
            )
            for name, state in self._tables.items()
        ]

    def changes_by_table(self) -> dict[str, int]:
        """Row changes committed so far."""
        return {f"{DATABASE}.{name}": history.changes for name, history in self._histories.items()}

    def _setup(self) -> Iterator[Action]:
        yield Ddl(f"CREATE DATABASE `{DATABASE}` CHARACTER SET utf8mb4", self._take_gtid())
        for spec in TABLES:
            yield Ddl(spec.create_statement(), self._take_gtid())
        transaction = TransactionAction(BULK_SESSION, self._actions.append)
        self._actions.append(BeginAction(BULK_SESSION))
        customers = (self._rows.customer(self._new_id(CUSTOMERS)) for _ in range(max(20, self.changes // 100)))
        transaction.insert(self._customers, list(customers))
        self._end(transaction)
        while self._actions:
            yield self._actions.popleft()

    def _end(self, transaction: TransactionAction) -> None:
        if transaction.session != BULK_SESSION and self._numbers.random() < CHANGES_ITS_MIND:
            transaction.give_up()
        if transaction.fails or not transaction.done:
            transaction.rollback()
            return
        gtid = self._take_gtid()
        for table, before, after in transaction.done:
            self._histories[table.spec.table].add(before, after, str(gtid))
        self.committed += len(transaction.done)
        self._actions.append(CommitAction(transaction.session, gtid, len(transaction.done)))
        transaction.release()

    def _alter(self, running: list[TransactionAction]) -> bool:
        # Whether an ALTER TABLE has its turn; it is done as soon as no transaction uses the table.
        if not self._alterations or self.committed < self._alterations[0].share * self.changes:
            return False
        alteration = self._alterations[0]
        table = self._tables[alteration.after.table]
        if not any(transaction.uses(table) for transaction in running):
            self._alterations.popleft()
            table.alter(alteration)
            self._histories[alteration.after.table].alter(alteration)
            self._rows.follow(alteration.after)
            self._actions.append(Ddl(alteration.statement, self._take_gtid(), alteration.brief))
        return True

    def _next_script(self, session: int) -> Script | None:
        if self.committed >= self.changes:
            return None
        if session == BULK_SESSION:
            if self._bulk_plan and self.committed >= self._bulk_plan[0][0] * self.changes:
                return self._bulk_plan.popleft()[1]
            return None
        scripts: tuple[tuple[Script, int], ...] = (
            (self._place_order, 30),
            (self._change_orders, 15),
            (self._change_customers, 15),
            (self._sign_up, 8),
            (self._browse, 15),
            (self._forget_events, 5),
            (self._cancel_order, 5),
            (self._renumber_lines, 4),
            (self._rename_customer, 2),
            (self._think_twice, 4),
        )
        (script,) = self._numbers.choices([script for script, _ in scripts], [weight for _, weight in scripts])
        return script

    def _take_gtid(self) -> Gtid:
        gtid = self._next_gtid
        self._next_gtid = Gtid(gtid.domain, gtid.server, gtid.seqno + 1)
        return gtid

    def _new_id(self, spec: TableSpec) -> int:
        self._last_ids[spec.table] += 1
        return self._last_ids[spec.table]

    def _up_to(self, most: int) -> int:
        return 1 + int(self._numbers.random() * most)

    # --- what ordinary sessions do -------------------------------------------------------------------------------

    def _place_order(self, transaction: TransactionAction) -> Iterator[None]:
        """An order, its lines, what that means for the customer, and an event."""
        for customer in self._customers.pick(self._numbers, 1):
            transaction.hold(self._customers, customer)
            number = customer[0]
            assert isinstance(number, int)
            order_id = self._new_id(ORDERS)
            transaction.insert(self._orders, [self._rows.order(order_id, number)])
            yield
            lines = [self._rows.order_line(order_id, line_no) for line_no in range(1, 1 + self._up_to(6))]
            transaction.insert(self._lines, lines)
            yield
            transaction.update(self._customers, [(customer, self._rows.changed_customer(customer))])
            yield
            transaction.insert(self._events, [self._rows.event(self._new_id(EVENTS), number)])

    def _change_orders(self, transaction: TransactionAction) -> Iterator[None]:
        for _ in range(self._up_to(2)):
            orders = self._orders.pick(self._numbers, self._up_to(12))
            transaction.update(self._orders, [(row, self._rows.changed_order(row)) for row in orders])
            yield

    def _change_customers(self, transaction: TransactionAction) -> Iterator[None]:
        for _ in range(self._up_to(3)):
            rows = self._customers.pick(self._numbers, self._up_to(4))
            transaction.update(self._customers, [(row, self._rows.changed_customer(row)) for row in rows])
            yield

    def _sign_up(self, transaction: TransactionAction) -> Iterator[None]:
        rows = [self._rows.customer(self._new_id(CUSTOMERS)) for _ in range(self._up_to(5))]
        transaction.insert(self._customers, rows)
        yield

    def _browse(self, transaction: TransactionAction) -> Iterator[None]:
        visitors: list[int | None] = [None]
        visitors += [row[0] for row in self._customers.pick(self._numbers, 3) if isinstance(row[0], int)]
        count = self._up_to(20)
        rows = [self._rows.event(self._new_id(EVENTS), self._numbers.choice(visitors)) for _ in range(count)]
        transaction.insert(self._events, rows)
        yield

    def _forget_events(self, transaction: TransactionAction) -> Iterator[None]:
        transaction.delete(self._events, self._events.pick(self._numbers, self._up_to(25)))
        yield

    def _cancel_order(self, transaction: TransactionAction) -> Iterator[None]:
        for order in self._orders.pick(self._numbers, 1):
            transaction.hold(self._orders, order)
            transaction.delete(self._lines, self._lines_of(order))
            yield
            transaction.delete(self._orders, [order])

    def _renumber_lines(self, transaction: TransactionAction) -> Iterator[None]:
        """UPDATE ... SET line_no = line_no + 1 ORDER BY line_no DESC: keys move to where other rows have just been."""
        for order in self._orders.pick(self._numbers, 1):
            transaction.hold(self._orders, order)
            lines = self._lines_of(order)
            if lines and lines[-1][1] != LINES_MAX:
                pairs = [(row, (row[0], int(str(row[1])) + 1, *row[2:])) for row in reversed(lines)]
                transaction.update(self._lines, pairs)
            yield

    def _rename_customer(self, transaction: TransactionAction) -> Iterator[None]:
        """A customer gets another key."""
        pairs = [(row, (self._new_id(CUSTOMERS), *row[1:])) for row in self._customers.pick(self._numbers, 1)]
        transaction.update(self._customers, pairs)
        yield

    def _think_twice(self, transaction: TransactionAction) -> Iterator[None]:
        """Rows after a savepoint are taken back, the others stay; a row is inserted, changed and deleted again."""
        transaction.insert(self._events, [self._rows.event(self._new_id(EVENTS), None)])
        savepoint = transaction.savepoint()
        yield
        rows = [self._rows.event(self._new_id(EVENTS), None) for _ in range(self._up_to(40))]
        transaction.insert(self._events, rows)
        yield
        transaction.rollback_to(savepoint)
        short_lived = self._rows.event(self._new_id(EVENTS), None)
        transaction.insert(self._events, [short_lived])
        changed = self._rows.changed_event(short_lived)
        transaction.update(self._events, [(short_lived, changed)])
        yield
        transaction.delete(self._events, [changed])

    def _lines_of(self, order: Row) -> list[Row]:
        # Whoever holds the order may take its lines.
        keys = ((order[0], line_no) for line_no in range(1, LINES_MAX + 1))
        return [self._lines.rows[key] for key in keys if key in self._lines.rows]

    # --- what the bulk session does ------------------------------------------------------------------------------

    def _plan_bulk(self) -> deque[tuple[float, Script]]:
        # When (share of all changes) what is started; sizes are shares of all changes too.
        return deque(
            [
                (0.05, self._import_events),
                (0.25, self._failing_import),
                (0.35, self._score_events),
                (0.60, self._raise_prices),
                (0.75, self._purge_events),
            ]
        )

    def _import_events(self, transaction: TransactionAction) -> Iterator[None]:
        for count in _parts(self.changes // 8):
            transaction.insert(self._events, [self._rows.event(self._new_id(EVENTS), None) for _ in range(count)])
            yield

    def _failing_import(self, transaction: TransactionAction) -> Iterator[None]:
        """Most of it lies in the log already when it is rolled back."""
        yield from self._import_events(transaction)
        transaction.give_up()

    def _score_events(self, transaction: TransactionAction) -> Iterator[None]:
        for count in _parts(self.changes // 12):
            rows = self._events.pick(self._numbers, count)
            transaction.update(self._events, [(row, self._rows.changed_event(row)) for row in rows])
            yield

    def _raise_prices(self, transaction: TransactionAction) -> Iterator[None]:
        for count in _parts(self.changes // 60):
            orders = self._orders.pick(self._numbers, count)
            lines = []
            for order in orders:
                transaction.hold(self._orders, order)
                lines += self._lines_of(order)
            transaction.update(self._lines, [(row, self._rows.changed_order_line(row)) for row in lines])
            yield

    def _purge_events(self, transaction: TransactionAction) -> Iterator[None]:
        for count in _parts(self.changes // 20):
            transaction.delete(self._events, self._events.pick(self._numbers, count))
            yield


def _parts(count: int) -> list[int]:
    # Statements of a large transaction.
    full, rest = divmod(count, BULK_STATEMENT_ROWS)
    return [BULK_STATEMENT_ROWS] * full + ([rest] if rest else [])
