"""`binlog-stream snapshot --definitions`, and `--server` of commands that bring definitions beside what they do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from binlog_format.messages import count_text
from binlog_streaming.cli.jobs.snapshot_report import is_confirmed
from binlog_streaming.cli.output import escaped, output_console, say
from binlog_streaming.status.wording import names_text

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from binlog_connector.schema.definitions import TableName
    from binlog_streaming.server.address import Credentials, ServerAddress
    from binlog_streaming.settings.model import Job, LowerCase
    from binlog_streaming.settings.publish_model import PublishJob
    from binlog_streaming.snapshot.definitions import BroughtDefinitions


def bring_definitions_of(
    job: Job | PublishJob, address: ServerAddress, credentials: Credentials, tables: str | None, *, yes: bool
) -> None:
    """Show whose definitions are written into the log, ask, and do it.

    Args:
        tables: Only these of them; None: all.
        yes: Nobody is to be asked.
    """
    from binlog_streaming.server.session import connect
    from binlog_streaming.snapshot.definitions import bring_definitions, plan_definitions

    console = output_console()
    with connect(address, credentials) as session:
        names = plan_definitions(session, job, tables)
        console.print(f"server   {escaped(str(address))}, {escaped(str(session.version))}")
        console.print("writes   into the database binlog_stream: definitions, no rows", soft_wrap=True)
        console.print(f"tables   {escaped(names_text(list(map(str, names))))}", soft_wrap=True)
        if yes or is_confirmed("writes on the server"):
            for line in _lines(bring_definitions(session, job, names)):
                console.print(escaped(line), soft_wrap=True)


def bring_also(job: Job, server: str, password_file: str | None, *, among: Container[TableName]) -> None:
    """Write definitions into the log beside the command's own work, and report it on standard error.

    Args:
        password_file: Has the password; None: it is found otherwise.
        among: Only tables of these names.
    """
    from binlog_connector.installing import require

    require("pymysql")
    from binlog_streaming.server.address import ServerAddress, find_credentials
    from binlog_streaming.server.session import connect
    from binlog_streaming.snapshot.definitions import bring_definitions, plan_definitions

    address = ServerAddress.parse(server)
    with connect(address, find_credentials(address.user, password_file)) as session:
        brought = bring_definitions(session, job, plan_definitions(session, job, None, among))
    for line in _lines(brought):
        say(line, err=True)


class ServerFacts(NamedTuple):
    """Facts about a server that its log does not state.

    Attributes:
        lower_case_table_names: As the server has it.
        system_time_zone: What its time zone `SYSTEM` is called there, often by letters that several zones have (CST).
        expiry_seconds: Time for which it keeps a file that it no longer writes; 0: it removes none by time.
    """

    lower_case_table_names: LowerCase
    system_time_zone: str
    expiry_seconds: int


def facts_of(server: str, password_file: str | None) -> ServerFacts:
    """The facts about a server. *password_file*: has the password; None: it is found otherwise."""
    from binlog_streaming.server.address import ServerAddress, find_credentials
    from binlog_streaming.server.session import connect

    address = ServerAddress.parse(server)
    with connect(address, find_credentials(address.user, password_file)) as session:
        ((folds, zone),) = session.rows("SELECT @@GLOBAL.lower_case_table_names, @@GLOBAL.system_time_zone")
        return ServerFacts(cast("LowerCase", int(str(folds))), str(zone), int(session.expiry_seconds()))


def _lines(brought: BroughtDefinitions) -> Iterator[str]:
    yield f"{count_text(len(brought.names), 'definition is', 'definitions are')} in the log"
    if brought.hidden:
        told = names_text(list(map(str, brought.hidden)))
        yield f"warning  tables that this account may not read, or that are gone: {told}"
