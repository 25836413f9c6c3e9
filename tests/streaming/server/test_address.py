"""Where a server is, and who connects: from URLs, the environment and option files."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

from binlog_format.errors import OptionError, StorageError
from binlog_streaming.server.address import Credentials, ServerAddress, SslMode, find_credentials

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("mysql://db/", ServerAddress("db")),
        ("mariadb://cdc@db.example.com:3307", ServerAddress("db.example.com", 3307, "cdc")),
        ("mysql://a%40b@[::1]:3306/", ServerAddress("::1", 3306, "a@b")),
        (
            "mysql://root@localhost/?socket=/run/my%20sql.sock",
            ServerAddress("localhost", 3306, "root", "/run/my sql.sock"),
        ),
        ("mysql://?socket=/run/sock", ServerAddress("localhost", socket="/run/sock")),
        ("mysql://db/?ssl-mode=verify_ca", ServerAddress("db", ssl_mode=SslMode.VERIFY_CA)),
        ("mysql://db/?ssl-ca=/ca", ServerAddress("db", ssl_mode=SslMode.VERIFY_IDENTITY, ca_file="/ca")),
    ],
)
def test_urls(url: str, address: ServerAddress) -> None:
    assert ServerAddress.parse(url) == address


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("db.example.com", "begins with mysql://"),
        ("postgres://db/", "begins with mysql://"),
        ("mysql://", "no host"),
        ("mysql://db/shop", "its path is not empty"),
        ("mysql://db:port/", "its port is not a number"),
        ("mysql://db/?sslmode=REQUIRED", "unknown parameter sslmode"),
        ("mysql://db/?ssl-mode=ON", "unknown ssl-mode"),
        ("mysql://db/?ssl-cert=/c", "belong together"),
        ("mysql://db/?ssl-mode=DISABLED&ssl-ca=/ca", "uses no certificates"),
    ],
)
def test_wrong_urls(url: str, reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        ServerAddress.parse(url)


@pytest.mark.parametrize(
    "url", ["mysql://u:hidden@db/", "mysql://:hidden@db/", "mysql://u:hidden@db:x/", "hidden://u:hidden@db/"]
)
def test_a_password_in_a_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(OptionError) as raised:
        ServerAddress.parse(url)
    assert "hidden" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_what_tls_verifies() -> None:
    checks = {}
    for mode in SslMode:
        context = ServerAddress("db", ssl_mode=mode).tls_context()
        checks[mode] = context and (context.verify_mode, context.check_hostname)
    assert checks == {
        SslMode.DISABLED: None,
        SslMode.PREFERRED: None,
        SslMode.REQUIRED: (ssl.CERT_NONE, False),
        SslMode.VERIFY_CA: (ssl.CERT_REQUIRED, False),
        SslMode.VERIFY_IDENTITY: (ssl.CERT_REQUIRED, True),
    }


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("BINLOG_STREAM_PASSWORD", raising=False)
    return tmp_path


OPTION_FILE = """
!includedir /etc/my.cnf.d
[client]
user = everyone
password = "of # everyone%"
[mysqldump]
quick
[binlog-stream]
user = cdc
"""


def test_passwords_come_from_a_file_the_environment_or_the_option_file(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_credentials("root") == Credentials("root", "")
    (home / ".my.cnf").write_text(OPTION_FILE)
    assert find_credentials(None) == Credentials("cdc", "of # everyone%")
    assert find_credentials("root") == Credentials("root", "of # everyone%")
    monkeypatch.setenv("BINLOG_STREAM_PASSWORD", "of the environment")
    assert find_credentials("root") == Credentials("root", "of the environment")
    (home / "secret").write_text("of the file \n")
    assert find_credentials("root", str(home / "secret")) == Credentials("root", "of the file ")
    assert "of the" not in repr(find_credentials("root"))


def test_an_empty_variable_and_a_broken_option_file_are_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".my.cnf").write_text("password = hidden\n")
    with pytest.raises(OptionError, match="not an option file") as raised:
        find_credentials(None)
    assert "hidden" not in str(raised.value)
    (home / ".my.cnf").unlink()
    monkeypatch.setenv("BINLOG_STREAM_PASSWORD", "")
    with pytest.raises(OptionError, match="BINLOG_STREAM_PASSWORD"):
        find_credentials(None)


def test_password_file_that_is_not_there_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as missing:
        find_credentials("cdc", str(tmp_path / "nowhere"))
    told = "cannot read the secret in it: No such file or directory. Name a file that is there"
    assert str(missing.value) == f"[BINLOG_STORAGE.NOT_FOUND] {tmp_path / 'nowhere'}: {told}"
