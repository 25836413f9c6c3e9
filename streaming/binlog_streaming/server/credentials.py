"""Credentials for a server: `find_credentials`, from the environment, a file, or `~/.my.cnf`; in no text or log."""

from __future__ import annotations

import configparser
import getpass
import os
from dataclasses import dataclass, field
from pathlib import Path

from binlog_connector.kafka.connection import Secret
from binlog_format.errors import OptionError, storage_error
from binlog_format.position import Place

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

    Raises:
        OptionError: `MISSING`: the environment variable is empty; `INVALID_VALUE`: no option file.
        BinlogError: A file cannot be read.
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
