"""Examination of a log for all that jobs need, such as all rows and names of columns: `log_findings`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format import open_log
from binlog_format.errors import AccessError, StorageError
from binlog_streaming.doctor.findings import DoctorFinding, Health
from binlog_streaming.jobs.log_tables import find_tables
from binlog_streaming.status.wording import bytes_text, count_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.log.log import Log
    from binlog_streaming.jobs.log_tables import FoundTable, OnProgress

NAMES_SHOWN_MAX = 5
_CONNECT_ANEW = "and connect applications anew; what is logged already stays as it is"


def log_findings(path: str, scan_size: int, on_progress: OnProgress | None = None) -> Iterator[DoctorFinding]:
    """Look at the log at *path*, the newest *scan_size* bytes of it for tables.

    Raises:
        BinlogError: It cannot be read.
    """
    with open_log(path) as log:
        yield from _files(log)
        if not log.traits.has_changes:
            return
    found = find_tables(path, scan_size=scan_size, on_progress=on_progress)
    yield from _row_format(found.tables, [str(one.first.error().reason) for one in found.tally.counts.values()])
    yield from _tables(found.tables)


def _finding(what: str, health: Health, found: str, fix: str = "") -> DoctorFinding:
    return DoctorFinding("log", what, health, found, fix)


def _files(log: Log) -> Iterator[DoctorFinding]:
    try:
        files = log.files()
    except (AccessError, StorageError) as error:
        yield _finding("files", Health.WRONG, str(error), error.hint or "")
        return
    size = sum(file.used_size for file in files)
    yield _finding("files", Health.OK, f"{log.format_name}, {count_text(len(files), 'file')}, {bytes_text(size)}")


def _row_format(tables: tuple[FoundTable, ...] | list[FoundTable], lacking: list[str]) -> Iterator[DoctorFinding]:
    if lacking:
        fix = f"SET GLOBAL binlog_format = 'ROW', {_CONNECT_ANEW}"
        text = f"{count_text(len(lacking), 'kind')} of changes without row events, for example: {lacking[0]}"
        yield _finding("binlog_format", Health.WRONG, text, fix)
    elif tables:
        yield _finding("binlog_format", Health.OK, "all changes are in row events")
    else:
        text = "no row changes in the part that was looked at"
        yield _finding("binlog_format", Health.WARNING, text, "See that binlog_format=ROW is set on the server")


def _tables(tables: tuple[FoundTable, ...] | list[FoundTable]) -> Iterator[DoctorFinding]:
    if not tables:
        return
    yield _about(
        "binlog_row_metadata",
        [table.name for table in tables if not table.layout.has_names],
        "the log does not name the columns of",
        f"SET GLOBAL binlog_row_metadata = 'FULL', {_CONNECT_ANEW}; or give a schemaFile (docs/schemas.md)",
        "columns have names",
    )
    yield _about(
        "binlog_row_image",
        [table.name for table in tables if table.has_partial_rows],
        "rows lack columns in",
        f"SET GLOBAL binlog_row_image = 'FULL', {_CONNECT_ANEW}",
        "rows have all columns",
    )
    yield _about(
        "primary keys",
        [table.name for table in tables if not table.layout.primary_key],
        "the log names no key for",
        "Add a primary key, or name columns that tell rows apart: keys in [[tables]]",
        "all tables have one",
    )
    for table in tables:
        if table.problem is not None:
            yield _finding(table.name, Health.WRONG, table.problem.reason, table.problem.hint or "")


def _about(what: str, names: list[str], text: str, fix: str, well: str) -> DoctorFinding:
    if not names:
        return _finding(what, Health.OK, well)
    more = f" and {len(names) - NAMES_SHOWN_MAX} more" if len(names) > NAMES_SHOWN_MAX else ""
    return _finding(what, Health.WARNING, f"{text} {', '.join(names[:NAMES_SHOWN_MAX])}{more}", fix)
