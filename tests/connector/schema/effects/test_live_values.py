"""Random values that a live server converts: each is what the conversion makes of it, or unknown.

Texts are made of what means something to a server: numbers, dates, times, and what is nearly one of these. The same
seed gives the same values; `python -m tests.connector.schema.effects.test_live_values SERVER SEED` asks another server
(`binlog_lab.demo.mariadb.installed.find_server`), or for other values. With a third word, `strict`, a table has those
values alone that the server converts in a strict session.
"""

from __future__ import annotations

import random
import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pymysql
import pytest

from binlog_format.rows.declared.declared_types import Moment
from binlog_format.vendor import Vendor, server_version_of
from binlog_lab.demo.mariadb.installed import find_server
from tests.connector.schema.effects.test_measured_values import Measured, array, converted, how
from tests.judge.servers import LiveServer
from tests.servers import mariadb_of_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pymysql.cursors import Cursor

    from binlog_connector.schema.effects.conversion import Circumstances

VALUES = 60
ZONES = {"+00:00": 0, "+05:30": 330}
NEW = (
    *(
        "INT",
        "TINYINT UNSIGNED",
        "BIGINT UNSIGNED",
        "DECIMAL(12,4)",
        "DECIMAL(40,10)",
        "DOUBLE",
        "FLOAT",
        "YEAR",
        "BIT(8)",
    ),
    *(
        "YEAR",
        "DATE",
        "TIME",
        "TIME(3)",
        "DATETIME",
        "DATETIME(3)",
        "TIMESTAMP(6) NULL",
        "TIMESTAMP NULL",
        "VARCHAR(3)",
        "VARBINARY(5)",
    ),
    *(
        "ENUM('a','b','c')",
        "ENUM('10','1','2')",
        "SET('a','b','c')",
        "SET('1','x','2')",
        "CHAR(4) CHARACTER SET latin1",
    ),
)
UNKNOWN_SHARE_MAX = 0.1
_ENDS = (
    "9999-12-31 23:59:59",
    "2038-01-19 03:14:07",
    "1970-01-01 00:00:00",
    "2106-02-07 06:28:15",
    "2024-01-01 23:59:59",
)
"""Last and first seconds of types: what is rounded there may have no place."""
_AT_ROW = re.compile(r"at row (\d+)")


class Values:
    """Random literals. *seed*: decides which."""

    def __init__(self, seed: str) -> None:
        self._chance = random.Random(seed)
        self.kinds: dict[str, Callable[[], str]] = {
            "VARCHAR(40)": self._text,
            "VARBINARY(40)": self._text,
            "CHAR(40) CHARACTER SET latin1": self._text,
            "VARCHAR(40) CHARACTER SET utf16": self._text,
            "BIGINT": lambda: self._of("", "-") + self._digits(1, 2, 4, 6, 7, 8, 10, 12, 14, 18),
            "BIGINT UNSIGNED": lambda: self._of("18446744073709551615", self._digits(1, 6, 8, 14, 19)),
            "TINYINT": lambda: self._digits(1, 2),
            "DECIMAL(6,2)": lambda: f"{self._digits(1, 2)}.{self._of('00', '49', '50', '99')}",
            "FLOAT": lambda: f"{self._digits(1, 2)}{self._of('', '.5', '.25')}",
            "DECIMAL(20,6)": lambda: f"{self._of('', '-')}{self._digits(1, 4, 6, 8, 12, 14)}.{self._digits(1, 2, 6)}",
            "DOUBLE": lambda: f"{self._of('', '-')}{self._digits(1, 2, 6, 8)}{self._of('', '.5', '.25', 'e-7', 'e12')}",
            "BIT(40)": lambda: str(self._chance.choice((self._chance.getrandbits(8), self._chance.getrandbits(40)))),
            "YEAR": lambda: str(self._chance.randint(1901, 2155)),
            "TIME(6)": lambda: f"'{self._clock()}'",
            "DATETIME(6)": lambda: f"'{self._moment()}'",
            "DATE": lambda: f"'{self._moment()[:10]}'",
        }

    def _of(self, *choices: str) -> str:
        return self._chance.choice(choices)

    def _digits(self, *sizes: int) -> str:
        return "".join(self._chance.choices("0123456789", k=self._chance.choice(sizes)))

    def _two(self) -> str:
        return self._of(
            "0", "1", "00", "01", "02", "09", "11", "12", "13", "23", "24", "28", "29", "30", "31", "59", "60"
        )

    def _number(self) -> str:
        text = self._of("", "", "", "-", "+", " ") + self._of(self._digits(1, 2, 4, 6, 8, 10, 14, 19), "007", "0000")
        text += self._of("", "", "", ".", ".5", f".{self._digits(1, 3, 7)}")
        return text + self._of("", "", "", "", f"e{self._of('', '-')}{self._of('0', '1', '3', '30', '400')}")

    def _date(self) -> str:
        between = self._of("-", "-", "-", "/", ".", ":", "")
        return between.join((self._of("2024", "1999", "24", "99", "70", "0001", "0", "123"), self._two(), self._two()))

    def _clock(self) -> str:
        hours = self._of(self._two(), self._two(), "100", "838", "839")
        end = self._of("", "", ".", f".{self._digits(1, 3, 6, 7)}", ".499999", ".5", ".999999")
        return self._of(f"{hours}:{self._two()}:{self._two()}", f"{hours}:{self._two()}", hours * 2 + self._two()) + end

    def _moment(self) -> str:
        below = self._of("000000", "400000", "500000", "960000", "999999", "123456")
        if self._chance.random() < 0.2:
            return f"{self._of(*_ENDS)}.{below}"
        year = self._of("0001", "0999", "1900", "1969", "1970", "1999", "2024", "2038", "2106", "9999")
        day = f"{self._chance.randint(1, 12):02}-{self._chance.randint(1, 28):02}"
        clock = f"{self._chance.randint(0, 23):02}:{self._of('00', '59')}:{self._of('00', '59')}"
        return f"{year}-{day} {clock}.{below}"

    def _text(self) -> str:
        words = self._of("", "a", "abc", "\u00e9", "-", ".", "::", "b,a", "a,b,a", "B", "x,", "1,2", "a b")
        text = self._of(self._number(), self._number(), self._date(), self._clock(), words)
        text = self._of(text, text, f"{self._date()}{self._of(' ', ' ', 'T')}{self._clock()}")
        text = self._of(
            text, text, text, text, text + self._of("a", " ", " b", "\u00e9", ":", "..", "x1", "+02:00", "Z")
        )
        return f"'{text[:38]}'"


class Asked:
    """A live server, and what it made of values. *server*: it runs."""

    def __init__(self, server: LiveServer, *, strict: bool) -> None:
        self._strict = strict
        self._vendor = Vendor.MYSQL if server.is_mysql else Vendor.MARIADB
        major, minor, patch = server_version_of(server.version)
        self._version = major * 10_000 + minor * 100 + patch
        self._cursor: Cursor = server.connect().cursor()
        self._do("CREATE DATABASE IF NOT EXISTS live CHARACTER SET utf8mb4", "USE live")
        self._do("SET sql_log_bin = 0", "SET max_error_count = 1000")

    def _do(self, *statements: str) -> tuple[tuple[Any, ...], ...]:
        for statement in statements:
            self._cursor.execute(statement)
        return tuple(self._cursor.fetchall())

    def made(self, old: str, values: list[str], zone: str) -> Iterator[tuple[str, list[Measured], Circumstances]]:
        """By new type, values before and after; and how the server converted them."""
        self._do(f"SET time_zone = '{zone}'", "SET sql_mode = ''", "DROP TABLE IF EXISTS before_it")
        self._do(f"CREATE TABLE before_it (id INT PRIMARY KEY, c {old}) ENGINE = MyISAM")
        for number, value in enumerate(values):
            self._do(f"INSERT IGNORE INTO before_it VALUES ({number}, {value})")
        before = self._texts("before_it", old, zone)
        for new in NEW:
            self._do("DROP TABLE IF EXISTS t", "CREATE TABLE t LIKE before_it", "INSERT INTO t SELECT * FROM before_it")
            if not self._altered(new):
                continue  # this server does not do it at all
            ((now, _),) = self._do("SELECT UNIX_TIMESTAMP(), ''")
            given = how(self._vendor, strict=self._strict)
            given = replace(given, moment=Moment(int(now), 0, zone), server_version=self._version)
            after = self._texts("t", new, zone)
            known = {key: text for key in after if (text := before[key]) is not None}
            yield new, [Measured(text, after[key], False) for key, text in known.items()], given

    def _altered(self, new: str) -> bool:
        """Whether c of t has another type now; rows that a strict session refuses are no more in t."""
        if not self._strict:
            return not self._refusal("t", new)
        self._do("DROP TABLE IF EXISTS tried", "CREATE TABLE tried LIKE t", "INSERT INTO tried SELECT * FROM t")
        if self._refusal("tried", new):
            return False
        misfits = {row[1] for _, _, text in self._do("SHOW WARNINGS") if (row := _AT_ROW.search(str(text)))}
        keys = [key for key, _ in self._do("SELECT id, '' FROM t ORDER BY id")]
        self._do(*[f"DELETE FROM t WHERE id = {keys[int(row) - 1]}" for row in misfits])
        if self._refusal("t", new, strict=True):  # which does not say at which row
            for key, _ in self._do("SELECT id, '' FROM t"):
                self._do("DROP TABLE IF EXISTS one", "CREATE TABLE one LIKE t")
                self._do(f"INSERT INTO one SELECT * FROM t WHERE id = {key}")
                if self._refusal("one", new, strict=True):
                    self._do(f"DELETE FROM t WHERE id = {key}")
            return not self._refusal("t", new, strict=True)
        return True

    def _refusal(self, table: str, new: str, *, strict: bool = False) -> str:
        self._do(f"SET sql_mode = '{'STRICT_ALL_TABLES' if strict else ''}'")
        try:
            self._do(f"ALTER TABLE {table} MODIFY c {new}, ALGORITHM=COPY")
        except pymysql.Error as error:
            return str(error)
        finally:
            if strict:
                self._do("SET sql_mode = ''")
        return ""

    def _texts(self, table: str, declared: str, zone: str) -> dict[int, str | None]:
        shown = {"BIT": "c + 0", "FLOAT": "c * 1E0"}.get(declared.partition("(")[0], "c")
        if "BINARY" in declared:
            shown = "HEX(c)"
        elif declared.startswith("TIMESTAMP"):
            shown = f"IF(c = 0, c, CONVERT_TZ(c, '{zone}', '+00:00'))"
        return dict(self._do(f"SELECT id, CAST({shown} AS CHAR CHARACTER SET utf8mb4) FROM {table} ORDER BY id"))


def compared(server: LiveServer, seed: str, *, strict: bool) -> tuple[list[tuple[object, ...]], float]:
    """Values that are converted otherwise, and the share of those that are not known."""
    values, asked = Values(seed), Asked(server, strict=strict)
    wrong: list[tuple[object, ...]] = []
    known = unknown = 0
    for old, value in values.kinds.items():
        zone = list(ZONES)[len(old) % 2]
        for new, pairs, given in asked.made(old, [value() for _ in range(VALUES)], zone):
            result = converted(old, new, pairs, given) if pairs else None
            if result is None:
                unknown += len(pairs)
                continue
            after, open_ones = result
            expected = array([pair.after for pair in pairs], after.type, new).to_pylist()
            rows = zip(pairs, open_ones, after.to_pylist(), expected, strict=True)
            wrong += [(old, new, row[0].before, *row[2:]) for row in rows if not row[1] and not _is_equal(*row[2:])]
            known, unknown = known + int((~open_ones).sum()), unknown + int(open_ones.sum())
    return wrong, unknown / (known + unknown)


def _is_equal(found: object, right: object) -> bool:
    if isinstance(found, float) and isinstance(right, float):
        return abs(found - right) <= 1e-14 * abs(right)  # the server's text of it may lack the last digit
    return found == right


@pytest.mark.server
@pytest.mark.parametrize("strict", [False, True])
def test_random_values_become_what_a_live_server_makes_of_them(*, strict: bool) -> None:
    installed = mariadb_of_path()
    with LiveServer(installed) as server:
        wrong, share = compared(server, "7", strict=strict)
    assert not wrong
    assert share < UNKNOWN_SHARE_MAX


if __name__ == "__main__":
    with LiveServer(find_server(sys.argv[1])) as live:
        sys.exit("\n".join(map(str, compared(live, sys.argv[2], strict="strict" in sys.argv)[0])) or None)
