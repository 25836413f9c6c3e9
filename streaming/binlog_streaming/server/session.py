"""A session on a live server, with named errors: `connect(address, credentials)` -> `ServerSession`.

Named errors for what a server answers: `named_error(error)`, and the numbers that code decides by.
"""

from __future__ import annotations

import contextlib
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pymysql
from pymysql.constants import CLIENT
from pymysql.cursors import Cursor

from binlog_format.errors import ServerError
from binlog_format.messages import row_value
from binlog_format.position import Place
from binlog_format.vendor import Vendor, server_version_of
from binlog_streaming.server.address import ServerAddress, SslMode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlog_format.vendor import Version
    from binlog_streaming.server.address import Credentials

    Row = tuple[Any, ...]


LOCK_WAIT_TIMEOUT = 1205
DEADLOCK = 1213
CACHE_FULL = 1197
STATEMENT_CACHE_FULL = 1705
NO_SUCH_TABLE = 1146
NO_SUCH_COLUMN = 1054
TABLE_CHANGED = 1412
NOWAIT_REFUSED = 3572
NO_SUCH_INDEX = 1176
NO_SUCH_LOG_PLACE = 1220
_LOST = {2006, 2013, 2055, 1053, 1927, 1080, 1152}
_UNREACHABLE = {2002, 2003, 2005}
_AUTHENTICATION = {1045, 1698, 1130, 1251, 1862, 1820, 2059, 2061, 3118, 4151}
DENIED = frozenset({1044, 1142, 1143, 1227, 1370})
_TLS = {2026, 3159}
# Entries of keys, values that a column does not take, syntax "near" a value.
_QUOTES_VALUES = {1062, 1064, 1264, 1265, 1292, 1366, 1406, 1411, 1451, 1452, 1526, 1586, 1761, 1762, 3140, 3819, 4025}


def number_of(error: pymysql.MySQLError) -> int:
    """The server's or the client's number of an error; 0: it has none."""
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0


def named_error(error: pymysql.MySQLError, server: str) -> ServerError:
    """The named error for what the server at *server* answered.

    Server and client library put no password into their texts: `using password: YES` is all that they tell.
    """
    number = number_of(error)
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    told = row_value(text) if number in _QUOTES_VALUES else text
    reason, at = f"{told} (error {number})", Place(server)
    if number in _AUTHENTICATION:
        hint = (
            "The password comes from --password-file, BINLOG_STREAM_PASSWORD or ~/.my.cnf, in this order. "
            "An account that must use TLS (REQUIRE SSL) is refused in the same words: ?ssl-mode=REQUIRED in the URL"
        )
        return ServerError("AUTHENTICATION", reason, at=at, hint=hint)
    if number in _TLS or (number in _UNREACHABLE and "SSL" in text):
        return ServerError("TLS", reason, at=at, hint="See ssl-mode and ssl-ca of the URL (docs/snapshot.md)")
    if number in _LOST:
        return ServerError(
            "UNREACHABLE", f"the connection was lost: {reason}", at=at, hint="Start it again: it goes on"
        )
    if number in _UNREACHABLE:
        return ServerError("UNREACHABLE", reason, at=at, hint="Does the server run, and is this its host and port?")
    if number == LOCK_WAIT_TIMEOUT:
        hint = "Who holds it: SHOW FULL PROCESSLIST, information_schema.INNODB_TRX. End that, then start again"
        return ServerError("LOCKED", f"another session holds a lock: {reason}", at=at, hint=hint)
    if number in DENIED:
        return ServerError("DENIED", reason, at=at, hint="Rights that a snapshot needs are in docs/snapshot.md")
    return ServerError("FAILED", reason, at=at)


TABLE_WAIT_SECONDS = 10
"""Seconds that a statement waits for a table that another session has locked; the servers' default is a day or more."""
_CONNECT_SECONDS = 10
_PROGRAM = "binlog-stream"


@dataclass(frozen=True, slots=True)
class ServerVersion:
    """Version of a server. *number*: such as (10, 11, 19)."""

    text: str
    vendor: Vendor
    number: Version

    @staticmethod
    def parse(text: str) -> ServerVersion:
        """Read `SELECT VERSION()`."""
        vendor = Vendor.MARIADB if "mariadb" in text.lower() else Vendor.MYSQL
        return ServerVersion(text, vendor, server_version_of(text))

    @property
    def is_mariadb(self) -> bool:
        """True of MariaDB, false of MySQL."""
        return self.vendor is Vendor.MARIADB

    def __str__(self) -> str:
        return self.text if self.is_mariadb else f"MySQL {self.text}"


class ServerSession:
    """A connection, in autocommit, with text as UTF-8 and times in UTC; `with` closes it.

    A statement that failed leaves the session as it was; after `UNREACHABLE` it can only be closed.
    """

    def __init__(self, connection: pymysql.connections.Connection, address: ServerAddress) -> None:
        self._connection = connection
        self.address = address
        self.version = ServerVersion.parse(str(self.value("SELECT VERSION()")))

    def __enter__(self) -> ServerSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def connection(self) -> pymysql.connections.Connection:
        """The client library's own, for `raw_rows`."""
        return self._connection

    @property
    def is_open(self) -> bool:
        """True if the connection has not been lost."""
        return bool(self._connection.open)

    @property
    def place(self) -> Place:
        """The server's address, for errors."""
        return Place(str(self.address))

    def execute(self, statement: str, *values: object) -> int:
        """Run a statement and return how many rows it changed or gave; *values* stand for `%s` in it."""
        with self.named_errors():
            return self.try_execute(statement, *values)

    def rows(self, statement: str, *values: object) -> list[Row]:
        """Rows of a query, all at once."""
        with self.named_errors():
            return self.try_rows(statement, *values)

    def dict_rows(self, statement: str) -> list[dict[str, Any]]:
        """Rows of a query whose columns depend on the server's version, by their names in lower case."""
        with self.named_errors():
            return self.try_dict_rows(statement)

    def try_dict_rows(self, statement: str) -> list[dict[str, Any]]:
        """`dict_rows` for callers that decide by the error's number."""
        with self._connection.cursor(Cursor) as cursor:
            cursor.execute(statement)
            names = [str(column[0]).lower() for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def value(self, statement: str, *values: object) -> Any:
        """The first column of the first row of a query; None: it has no row."""
        rows = self.rows(statement, *values)
        return rows[0][0] if rows else None

    def variable(self, name: str) -> str | None:
        """A global variable as text; None: the server does not have it."""
        rows = self.rows("SHOW GLOBAL VARIABLES LIKE %s", name.replace("_", r"\_"))
        return str(rows[0][1]) if rows else None

    def expiry_seconds(self) -> float:
        """Time for which the server keeps a log file that it no longer writes; 0: it removes none by time."""
        seconds = float(self.variable("binlog_expire_logs_seconds") or 0)
        return seconds or 86_400 * float(self.variable("expire_logs_days") or 0)

    def try_execute(self, statement: str, *values: object) -> int:
        """`execute` for callers that decide by the error's number."""
        with self._connection.cursor(Cursor) as cursor:
            return int(cursor.execute(statement, values or None))

    def try_rows(self, statement: str, *values: object) -> list[Row]:
        """`rows` for callers that decide by the error's number."""
        with self._connection.cursor(Cursor) as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall())

    def allowed_rows(self, statement: str) -> list[Row] | None:
        """Rows of an answer; None: the account may not ask."""
        try:
            return self.try_rows(statement)
        except pymysql.MySQLError as error:
            if number_of(error) in DENIED:
                return None
            raise named_error(error, str(self.address)) from error

    def try_script(self, statements: Sequence[str]) -> list[int]:
        """Run statements one after the other in one turn of the network; how many rows each changed or gave.

        After the first one that fails none is run.
        """
        with self._connection.cursor(Cursor) as cursor:
            counts = [int(cursor.execute("; ".join(statements)))]
            while cursor.nextset():
                counts.append(int(cursor.rowcount))
            return counts

    def filled(self, statement: str, *values: object) -> str:
        """A statement with *values* in the place of its `%s`, quoted."""
        with self._connection.cursor(Cursor) as cursor:
            return str(cursor.mogrify(statement, values))

    @contextlib.contextmanager
    def named_errors(self) -> Iterator[None]:
        """Turn what the client library raises into a `ServerError`."""
        try:
            yield
        except pymysql.MySQLError as error:
            raise named_error(error, str(self.address)) from error

    def roll_back(self) -> None:
        """End a transaction without a trace; of a lost connection the server does it."""
        with contextlib.suppress(pymysql.MySQLError):
            self._connection.rollback()

    def close(self) -> None:
        """Close the session; uncommitted changes are rolled back on the server."""
        with contextlib.suppress(pymysql.MySQLError):
            self._connection.close()


def connect(address: ServerAddress, credentials: Credentials) -> ServerSession:
    """Open a session."""
    try:
        connection = _Connection(
            host=address.host,
            port=address.port,
            unix_socket=address.socket,
            user=credentials.user,
            password=credentials.password.encode(),
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=_CONNECT_SECONDS,
            program_name=_PROGRAM,
            client_flag=CLIENT.MULTI_STATEMENTS,
            ssl=address.tls_context(),
            ssl_disabled=address.ssl_mode is SslMode.DISABLED,
        )
    except pymysql.MySQLError as error:
        # Without its cause: the client library's frames hold the password, and tools that show frames would too.
        raise named_error(error, str(address)) from None
    try:
        session = ServerSession(connection, address)
        _check_tls(session)
        session.execute(f"SET SESSION time_zone = '+00:00', lock_wait_timeout = {TABLE_WAIT_SECONDS}")
    except BaseException:
        connection.close()
        raise
    return session


class _Connection(pymysql.connections.Connection):  # type: ignore[misc]
    def _create_ssl_ctx(self, sslp: ssl.SSLContext | dict[str, object]) -> ssl.SSLContext:
        # Where nothing is verified, the authorities that the system trusts are not loaded: that takes 25 ms.
        if isinstance(sslp, ssl.SSLContext):
            return sslp
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context


def _check_tls(session: ServerSession) -> None:
    # A server without TLS is refused here too, whatever the client library does about it.
    if session.address.tls_context() is None:
        return
    if not session.rows("SHOW SESSION STATUS LIKE 'Ssl_cipher'")[0][1]:
        mode = session.address.ssl_mode
        raise ServerError("TLS", f"the connection is not encrypted, and ssl-mode={mode} asks for it", at=session.place)
