"""Random histories: `Life` makes one statement after the other, and looks what the server made of it.

The same seed on the same server gives the same history. A statement may fail; that is part of a history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.judge.histories.alterations import Alterations
from tests.judge.histories.changes import Changes
from tests.judge.histories.columns import kinds_of
from tests.judge.histories.model import look
from tests.judge.histories.pairs import STRICT
from tests.judge.histories.surroundings import Surroundings

if TYPE_CHECKING:
    import random

    from tests.judge.histories.history import Session
    from tests.judge.histories.model import Table

IMAGES = ("FULL", "FULL", "FULL", "MINIMAL", "NOBLOB", "FULL_NODUP")
MODES = (STRICT, STRICT, "", "ALLOW_INVALID_DATES", "STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE", "ANSI_QUOTES")


CHANGES_ROWS = ("INSERT", "REPLACE", "UPDATE", "DELETE", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "XA", "SET ")


class Life:
    """What happens in a history.

    Args:
        folds_names: The server does not tell letters of another case apart in names of tables.
    """

    def __init__(self, session: Session, chance: random.Random, *, folds_names: bool = False) -> None:
        self.session = session
        self.chance = chance
        self.kinds = kinds_of(session.server.installed.vendor)
        self.tables: dict[str, Table] = {}
        self._folds_names = folds_names
        self._metadata = self._image = ""
        self._is_known = False
        self._changes = Changes(self)
        self._alterations = Alterations(self)
        self._surroundings = Surroundings(self)

    @property
    def is_mysql(self) -> bool:
        """Whether the server is MySQL."""
        return self.session.server.is_mysql

    def do(self, text: str, label: str = "") -> bool:
        """Run a statement; whether the server did it."""
        self._is_known &= text.startswith(CHANGES_ROWS)
        return not self.session.do(text, label)

    def look(self) -> None:
        """See what tables there are now."""
        if not self._is_known:
            self.tables = look(self.session)
            self._is_known = True

    def begin(self) -> None:
        """Databases, settings, the first tables and rows."""
        database = self.session.history.database
        charset = self.chance.choice(("", "", " CHARACTER SET latin1", " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"))
        self.do(f"CREATE DATABASE {database}{charset}")
        self.do(f"USE {database}")
        metadata = ("FULL", "FULL", "FULL", "MINIMAL") if self.is_mysql else ("FULL", "FULL", "NO_LOG", "MINIMAL")
        self._metadata = self.chance.choice(metadata)
        self.do(f"SET GLOBAL binlog_row_metadata = {self._metadata}")
        self.set_image()
        self.do(f"SET sql_mode = '{self.chance.choice(MODES)}'")
        self.do("SET timestamp = 1700000000")
        for _ in range(self.chance.randint(1, 2)):
            self._alterations.create()
        self.go_on(3)

    def go_on(self, steps: int) -> None:
        """Some statements more."""
        self.do(f"SET GLOBAL binlog_row_metadata = {self._metadata}")
        for _ in range(steps):
            self.look()
            if not self.tables:
                self._alterations.create()
                continue
            self.chance.choices((self._changes.any, self._alterations.any, self._surroundings.any), (50, 36, 14))[0]()

    def set_image(self) -> None:
        """Log other row images from now on."""
        self._image = self.chance.choice(IMAGES)
        self.do(f"SET binlog_row_image = {self._image}")

    def altered(self) -> None:
        """A statement was run that this has not seen."""
        self._is_known = False

    def fill(self, name: str, table: Table) -> None:
        """Rows for a new table."""
        self._changes.insert(name, table)
        self._changes.insert(name, table)

    def spelled(self, name: str) -> str:
        """The name of a table, in some spelling that the server takes for the same."""
        if self._folds_names and self.chance.random() < 0.4:
            return self.chance.choice((name.upper(), name.capitalize()))
        return name

    def some_table(self) -> tuple[str, Table]:
        """A table, and how it is called in a statement."""
        name = self.chance.choice(sorted(self.tables))
        return name if "." in name else self.spelled(name), self.tables[name]
