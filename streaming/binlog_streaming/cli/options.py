"""Options that several commands understand alike: which tables, how values are given, how large files are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from binlog_format.rows.decoding import TimeType, ZeroDates
from binlog_streaming.cli.output import JOB_PLACE, name_job


def _named(place: str) -> str:
    name_job(place)
    return place


JobArgument = Annotated[
    str,
    typer.Argument(
        metavar=JOB_PLACE, callback=_named, help="The job file; or the folder or URL that mirror writes to."
    ),
]
TablesOption = Annotated[
    str | None,
    typer.Option(metavar="RE", help="Regular expressions on database.table, separated by commas; default: all."),
]
ServerOption = Annotated[
    str,
    typer.Option(
        metavar="URL",
        help="The server that writes the job's log: mysql://user@host:3306/, without the password; or with "
        "?socket=PATH. TLS: ?ssl-mode=VERIFY_IDENTITY&ssl-ca=PATH.",
    ),
]
OptionalServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="The server that writes the log, as for snapshot: definitions of the tables are written into its log.",
    ),
]
PasswordFileOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A file with the password; without it BINLOG_STREAM_PASSWORD is used, then ~/.my.cnf, "
        "\\[binlog-stream] or \\[client].",
    ),
]
ExcludeTablesOption = Annotated[str | None, typer.Option(metavar="RE", help="The same, for tables to leave out.")]
SchemaFileOption = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        dir_okay=False,
        help="CREATE TABLE statements (mariadb-dump --no-data) for logs without binlog_row_metadata=FULL.",
    ),
]
LowerCaseOption = Annotated[
    int | None,
    typer.Option(
        "--lower-case-table-names",
        min=0,
        max=2,
        help="Result of SELECT @@lower_case_table_names on the server: with 1 and 2 Orders and orders are one table; "
        "default: as the log proves it.",
    ),
]
RulesOption = Annotated[
    str | None,
    typer.Option(
        metavar="RULES",
        help="Hidden parts of tables: a TOML file with [\\[tables]] (columns, drop_columns, mask, where), or "
        "the same as JSON.",
    ),
]
ZeroDatesOption = Annotated[ZeroDates, typer.Option(help="Handling of dates like 0000-00-00.")]
TimeTypeOption = Annotated[TimeType, typer.Option(help="TIME columns as text, or as a number of microseconds.")]
ReplaceInvalidTextOption = Annotated[
    bool, typer.Option("--replace-invalid-text", help="Put U+FFFD where text is not valid, instead of stopping.")
]
