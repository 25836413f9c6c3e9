"""Settings of a whole server, as its administrator may have them: `some_settings`, `set_globally`."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pymysql

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Mapping

    from tests.judge.servers import LiveServer

SHARE = 0.2
"""Of rounds that have a setting."""
VALUES: Mapping[str, tuple[str, ...]] = {
    "binlog_cache_size": ("4096",),
    "binlog_checksum": ("NONE", "CRC32"),
    "character_set_server": ("latin1", "cp1251", "utf8mb3", "ucs2"),
    "default_storage_engine": ("MyISAM",),
    "default_week_format": ("3",),
    "div_precision_increment": ("0", "12"),
    "explicit_defaults_for_timestamp": ("0", "1"),
    "innodb_default_row_format": ("redundant", "compact"),
    "innodb_strict_mode": ("0",),
    "lc_time_names": ("de_DE",),
    "max_binlog_size": ("4096", "16384"),
    "time_zone": ("SYSTEM", "-03:30", "+13:00"),
}
MARIADB_VALUES: Mapping[str, tuple[str, ...]] = {
    "alter_algorithm": ("COPY", "INPLACE"),
    "binlog_alter_two_phase": ("1",),
    "binlog_annotate_row_events": ("0",),
    "gtid_domain_id": ("7",),
    "log_bin_compress": ("1",),
    "log_bin_compress_min_len": ("10",),
    "mysql56_temporal_format": ("0",),
    "old_mode": ("", "NO_PROGRESS_INFO", "ZERO_DATE_TIME_CAST"),
}
MYSQL_VALUES: Mapping[str, tuple[str, ...]] = {
    "binlog_order_commits": ("0",),
    "binlog_row_value_options": ("PARTIAL_JSON",),
    "binlog_rows_query_log_events": ("0", "1"),
    "binlog_transaction_compression": ("1",),
    "collation_server": ("utf8mb4_general_ci", "utf8mb4_0900_as_cs"),
    "sql_generate_invisible_primary_key": ("1",),
}


def some_settings(chance: random.Random, *, is_mysql: bool) -> dict[str, str]:
    """Settings of a server, with their values; often none."""
    if chance.random() < 0.3:
        return {}
    known = {**VALUES, **(MYSQL_VALUES if is_mysql else MARIADB_VALUES)}
    return {name: chance.choice(known[name]) for name in sorted(known) if chance.random() < SHARE}


@contextmanager
def set_globally(server: LiveServer, settings: Mapping[str, str]) -> Iterator[None]:
    """A server with other settings, but for those that it lacks; sessions that begin meanwhile have them."""
    before = {}
    try:
        for name, value in settings.items():
            with suppress(pymysql.err.MySQLError):
                ((was,),) = server.ask(f"SELECT @@global.{name}")
                _set(server, name, value)
                before[name] = was
        yield
    finally:
        for name, value in reversed(before.items()):
            _set(server, name, str(value))


def _set(server: LiveServer, name: str, value: str) -> None:
    literal = value if value.isdecimal() else f"'{value}'"
    for one in server.all:
        one.ask(f"SET GLOBAL {name} = {literal}")
