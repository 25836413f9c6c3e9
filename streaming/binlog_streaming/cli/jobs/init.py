"""`binlog-stream init PATH`: a commented job file for a log, on standard output."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from binlog_streaming.cli.jobs.check import MIB, SCAN_MIB, ScanOption
from binlog_streaming.cli.options import (
    LowerCaseOption,
    OptionalServerOption,
    PasswordFileOption,
    SchemaFileOption,
)
from binlog_streaming.cli.output import PathArgument, say
from binlog_streaming.cli.progress import progress_bar
from binlog_streaming.settings.choices import DEFAULT_FORMAT, TableFormat

if TYPE_CHECKING:
    from binlog_streaming.jobs.init import ServerSettings
    from binlog_streaming.settings.model import LowerCase


_DAY = 86_400
_UTC = "UTC"


class SinkKind(StrEnum):
    """Kind of a job's targets."""

    TABLES = "tables"
    KAFKA = "kafka"


ConnectorOption = Annotated[
    Path | None,
    typer.Option(
        "--from-debezium",
        metavar="OFFSETS",
        exists=True,
        dir_okay=False,
        help="Take over from a Debezium connector that was stopped: the answer of Kafka Connect to GET "
        "/connectors/NAME/offsets, or an engine's offset file (--for kafka).",
    ),
]


def init(  # noqa: PLR0913 - the options of the command
    path: PathArgument,
    sink: Annotated[SinkKind, typer.Option("--for", help="Kind of the job's targets.")] = SinkKind.TABLES,
    table_format: Annotated[
        TableFormat | None, typer.Option("--format", help="Kind of the tables; default: delta.")
    ] = None,
    schema_file: SchemaFileOption = None,
    lower_case_table_names: LowerCaseOption = None,
    from_debezium: ConnectorOption = None,
    scan: ScanOption = SCAN_MIB,
    server: OptionalServerOption = None,
    password_file: PasswordFileOption = None,
) -> None:
    """Write a job file for a log: its tables, with their keys and modes, and every setting explained.

    For example:

        binlog-stream init /var/lib/mysql > job.toml

    Tables with a primary key are mirrored, others get a changelog; tables with unknown columns are left out, and the
    file explains why. Relative paths in the file start at its folder: tables and checkpoint are beside it.

    With --server the definitions of these tables are written into the log of the server, which must write this log: the
    log lacks them for older tables (foreign keys, generated columns, UUID). No rows are copied. The file then has the
    server's lower_case_table_names, its time zone if that is UTC, and the time after which it removes log files.

    With --for kafka the job publishes the log to topics: set its bootstrap_servers and topic_prefix, and see
    docs/kafka.md. With --from-debezium it has the topic_prefix of that connector, and starts where it was stopped:
    docs/debezium.md.
    """
    if sink is SinkKind.KAFKA and table_format is not None:
        raise typer.BadParameter("topics have none: it is for --for tables", param_hint="--format")
    if sink is not SinkKind.KAFKA and from_debezium is not None:
        raise typer.BadParameter("it is for --for kafka", param_hint="--from-debezium")
    # Compiled code takes a moment to load: not for --help.
    from binlog_streaming.jobs.init import NO_SERVER, init_text, publish_init_text

    lower_case, settings = cast("LowerCase | None", lower_case_table_names), NO_SERVER
    if server is not None:
        found, settings = _settings_of(path, server, None if password_file is None else str(password_file), scan * MIB)
        lower_case = found if lower_case is None else lower_case
    from binlog_connector.following.debezium_offset import stored_offset

    schemas = None if schema_file is None else str(schema_file)
    with progress_bar("Looking for tables") as on_progress:
        if sink is SinkKind.KAFKA:
            text = publish_init_text(
                path,
                schema_file=schemas,
                lower_case_table_names=lower_case,
                server=settings,
                connector=None if from_debezium is None else stored_offset(from_debezium),
                scan_size=scan * MIB,
                on_progress=on_progress,
            )
        else:
            text = init_text(
                path,
                schema_file=schemas,
                lower_case_table_names=lower_case,
                server=settings,
                table_format=table_format or DEFAULT_FORMAT,
                scan_size=scan * MIB,
                on_progress=on_progress,
            )
    typer.echo(text, nl=False)


def _settings_of(path: str, server: str, password_file: str | None, scan_size: int) -> tuple[LowerCase, ServerSettings]:
    """Write definitions into the log of a server, and ask it for its settings."""
    from binlog_streaming.cli.definitions import facts_of
    from binlog_streaming.jobs.init import ServerSettings

    _bring_definitions(path, server, password_file, scan_size)
    facts = facts_of(server, password_file)
    settings = ServerSettings(_unambiguous(facts.system_time_zone), _duration(facts.expiry_seconds))
    return facts.lower_case_table_names, settings


def _unambiguous(system_time_zone: str) -> str | None:
    """The time zone of a server, if its name is that of one zone alone; GMT is London's, too, in winter."""
    if system_time_zone == _UTC:
        return _UTC
    say(
        f"The server's time zone SYSTEM is called {system_time_zone}, as several zones may be: set systemTimeZone in "
        '[source] to its whole name, such as "Europe/Berlin" (docs/ddl.md).',
        err=True,
    )
    return None


def _duration(seconds: int) -> str | None:
    """A time as a job file has it; None: there is no limit."""
    if not seconds:
        return None
    return f"{seconds // _DAY}d" if seconds % _DAY == 0 else f"{seconds}s"


def _bring_definitions(path: str, server: str, password_file: str | None, scan_size: int) -> None:
    """Write definitions of all tables with changes into the log, before it is examined."""
    from binlog_connector.schema.definitions import TableName
    from binlog_streaming.cli.definitions import bring_also
    from binlog_streaming.jobs.log_tables import find_tables
    from binlog_streaming.settings.model import Job, Sink, Source, TableRule

    with progress_bar("Looking for tables") as on_progress:
        found = find_tables(path, scan_size=scan_size, on_progress=on_progress)
    names = {TableName.parse(table.name) for table in found.tables}
    if names:
        every = Job(
            source=Source(path=path), sink=Sink(directory="."), checkpoint=".", tables=(TableRule(select=".*"),)
        )
        bring_also(every, server, password_file, among=names)
