"""Address of a database server, and protection of connections: `ServerAddress.parse(url)`.

Credentials for a server: `find_credentials`, from the environment, a file, or `~/.my.cnf`; in no text or log.
"""

from __future__ import annotations

import configparser
import getpass
import os
import ssl
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from binlog_connector.kafka.connection import Secret, tls_context
from binlog_format.errors import OptionError, storage_error
from binlog_format.position import Place

_SCHEMES = ("mysql", "mariadb")
_DEFAULT_PORT = 3306
_PARAMETERS = ("socket", "ssl-mode", "ssl-ca", "ssl-cert", "ssl-key")
_EXAMPLE = "mysql://user@host:3306/, or mysql://user@localhost/?socket=/run/mysqld/mysqld.sock"


class SslMode(StrEnum):
    """TLS that a connection needs, under the names of the servers' own clients."""

    DISABLED = "DISABLED"
    PREFERRED = "PREFERRED"
    """Encrypted where the server can; nothing is verified."""
    REQUIRED = "REQUIRED"
    """Encrypted; nothing is verified."""
    VERIFY_CA = "VERIFY_CA"
    """The server's certificate is signed by an authority that is trusted."""
    VERIFY_IDENTITY = "VERIFY_IDENTITY"
    """It is also made out to the host's name."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A server, and who connects to it; without the password.

    Attributes:
        host: Name or address; unused where there is a socket.
        user: None: the one of `~/.my.cnf`, else that of the operating system.
        socket: Path of a Unix socket; None: TCP.
        ca_file: PEM file of certificates to trust; None: those that the system trusts.
        certificate_file: PEM file of the client's certificate.
        key_file: PEM file of its key.
    """

    host: str
    port: int = _DEFAULT_PORT
    user: str | None = None
    socket: str | None = None
    ssl_mode: SslMode = SslMode.PREFERRED
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None

    @staticmethod
    def parse(url: str) -> ServerAddress:
        """Read `mysql://user@host:port/?socket=...&ssl-mode=...&ssl-ca=...&ssl-cert=...&ssl-key=...`."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            # The text of the error may contain a password.
            raise _invalid("it is not a URL, or its port is not a number") from None
        _check(parts)
        given = dict(parse_qsl(parts.query, keep_blank_values=True))
        for name in given:
            if name not in _PARAMETERS:
                raise _invalid(f"unknown parameter {name}", f"Known are {', '.join(_PARAMETERS)}")
        if not parts.hostname and "socket" not in given:
            raise _invalid("no host")
        return ServerAddress(
            host=unquote(parts.hostname or "localhost"),
            port=port or _DEFAULT_PORT,
            user=unquote(parts.username) if parts.username else None,
            socket=given.get("socket"),
            ssl_mode=_ssl_mode(given),
            ca_file=given.get("ssl-ca"),
            certificate_file=given.get("ssl-cert"),
            key_file=given.get("ssl-key"),
        )

    def __str__(self) -> str:
        if self.socket is not None:
            return self.socket
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def tls_context(self) -> ssl.SSLContext | None:
        """TLS context of a connection; None: the client library's own choice, as nothing is required."""
        if self.ssl_mode in (SslMode.DISABLED, SslMode.PREFERRED):
            return None
        context = tls_context(self.ca_file, self.certificate_file, self.key_file)
        # Certificates that servers make for themselves lack what Python 3.13 asks for beyond a valid signature.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.check_hostname = self.ssl_mode is SslMode.VERIFY_IDENTITY
        if self.ssl_mode is SslMode.REQUIRED:
            context.verify_mode = ssl.CERT_NONE
        return context


def _check(parts: SplitResult) -> None:
    if parts.password is not None:
        hint = "Leave it out of the URL: set BINLOG_STREAM_PASSWORD, or use --password-file or ~/.my.cnf"
        raise _invalid("a password in a URL is visible in process lists and shell histories", hint)
    if parts.scheme not in _SCHEMES:
        raise _invalid("expected a URL that begins with mysql://")
    if parts.path not in ("", "/"):
        raise _invalid("its path is not empty", "--tables selects tables, by regular expressions on database.table")


def _ssl_mode(given: dict[str, str]) -> SslMode:
    has_ca, has_certificate, has_key = (name in given for name in ("ssl-ca", "ssl-cert", "ssl-key"))
    if has_certificate != has_key:
        raise _invalid("ssl-cert and ssl-key belong together")
    if "ssl-mode" not in given:
        return SslMode.VERIFY_IDENTITY if has_ca else SslMode.REQUIRED if has_certificate else SslMode.PREFERRED
    try:
        mode = SslMode(given["ssl-mode"].upper())
    except ValueError:
        raise _invalid("unknown ssl-mode", f"Known are {', '.join(SslMode)}") from None
    if mode in (SslMode.DISABLED, SslMode.PREFERRED) and (has_ca or has_certificate):
        raise _invalid(f"ssl-mode={mode} uses no certificates", "Use REQUIRED, VERIFY_CA or VERIFY_IDENTITY")
    return mode


def _invalid(reason: str, hint: str | None = None) -> OptionError:
    return OptionError("INVALID_VALUE", f"option server: {reason}", hint=hint or f"For example {_EXAMPLE}")


PASSWORD_VARIABLE = "BINLOG_STREAM_PASSWORD"
OPTION_FILE = "~/.my.cnf"
_OPTION_GROUPS = ("binlog-stream", "client")
"""Groups of the option file, the first one that has an option counts."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user and its password, which `repr` leaves out."""

    user: str
    password: str = field(repr=False)


def find_credentials(user: str | None, password_file: str | None = None) -> Credentials:
    """Find the credentials.

    The password is in *password_file*, else in `BINLOG_STREAM_PASSWORD`, else in `~/.my.cnf`; else it is empty, as for
    accounts that the server knows by the operating system's user.

    Args:
        user: None: the one of `~/.my.cnf`, else that of the operating system.
        password_file: Path of a file that contains the password; a line end after it does not count.
    """
    options = _option_file()
    known = user or options.get("user") or getpass.getuser()
    if password_file is not None:
        return Credentials(known, Secret(file=password_file).reveal())
    if PASSWORD_VARIABLE in os.environ:
        return Credentials(known, Secret(environment=PASSWORD_VARIABLE).reveal())
    return Credentials(known, options.get("password", ""))


def _option_file() -> dict[str, str]:
    """User and password of `~/.my.cnf`; the file need not exist."""
    path = Path(OPTION_FILE).expanduser()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise storage_error(path, "read", error) from error
    # Lines such as !includedir are for the servers' own programs.
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("!")]
    parser = configparser.RawConfigParser(allow_no_value=True, strict=False, default_section="")
    try:
        parser.read_string("\n".join(lines))
    except configparser.Error:
        # The text of the error contains lines of the file.
        raise OptionError("INVALID_VALUE", "not an option file of MariaDB or MySQL", at=Place(str(path))) from None
    found: dict[str, str] = {}
    for group in reversed(_OPTION_GROUPS):
        if parser.has_section(group):
            found.update({name: _unquoted(value) for name, value in parser.items(group) if value is not None})
    return found


def _unquoted(value: str) -> str:
    is_quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if is_quoted else value
