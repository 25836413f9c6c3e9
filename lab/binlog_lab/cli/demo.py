"""`binlog-stream demo`: the main job on a live log, compared with the expected rows one by one."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

# Names of `binlog_lab.demo.run.DemoSource`, which takes Spark with it: not for --help.
_SOURCES = ("workload", "mariadb")
_SINKS = ("delta", "iceberg", "kafka")
_STORES = ("folder", "s3")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)


def demo(
    source: Annotated[
        str,
        typer.Option(
            metavar="|".join(_SOURCES),
            help="The project's own workload, or a MariaDB server from PATH under load.",
        ),
    ] = "workload",
    sink: Annotated[str, typer.Option(metavar="|".join(_SINKS), help="Format of the tables; or topics.")] = "delta",
    store: Annotated[
        str,
        typer.Option(
            metavar="|".join(_STORES),
            help="Place of the tables: in a folder, or in an S3 server (Iceberg: with a REST catalog).",
        ),
    ] = "folder",
    rows: Annotated[
        int, typer.Option(min=1000, help="Row changes of the workload, or of the server's load, about.")
    ] = 150_000,
    seconds: Annotated[
        float, typer.Option(min=1, help="Time in which they are written; a slow machine takes longer.")
    ] = 40.0,
    directory: Annotated[
        Path, typer.Option(help="Folder for log, tables and checkpoint; files of the last demo are deleted.")
    ] = Path("demo-output"),
    keep: Annotated[bool, typer.Option(help="Keep the tables at the end.")] = True,
) -> None:
    """Keep tables in step with a live log, and compare every row with the expected ones.

    Meanwhile tables are altered, and the job is killed in the middle of a batch and started again. Exit status 0 only
    if all rows are equal. A picture of rates and lag stays at DIRECTORY/demo.png.

    For example:

        binlog-stream demo --source mariadb --sink iceberg --store s3

    With --source mariadb the server's tables are older than its log: `binlog-stream snapshot` completes them under
    load, and `binlog-stream prove` must prove that all of them are equal in the end.

    With --sink kafka the log is published to a Kafka broker, the publisher is killed again and again, and the tables
    are rebuilt from the topics.
    """
    for name, value, known in (("--source", source, _SOURCES), ("--sink", sink, _SINKS), ("--store", store, _STORES)):
        if value not in known:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(known)}", param_hint=name)
    if sink == "kafka" and store != "folder":
        raise typer.BadParameter("topics are in a broker of the demo's own", param_hint="--store")
    # Spark takes a second to import: only where it is needed.
    from binlog_lab.demo.run import DemoOptions, DemoSource, DemoStore, run_demo
    from binlog_streaming.settings import TableFormat

    if sink == "kafka":
        from binlog_lab.demo.publish_run import run_publish_demo

        with ended_by_signals():
            is_equal = run_publish_demo(DemoSource(source), directory, rows=rows, seconds=seconds, keep=keep)
        raise typer.Exit(int(not is_equal))
    options = DemoOptions(
        source=DemoSource(source),
        sink=TableFormat(sink),
        rows=rows,
        seconds=seconds,
        directory=directory,
        keep=keep,
        store=DemoStore(store),
    )
    with ended_by_signals():
        is_equal = run_demo(options)
    if not is_equal:
        raise typer.Exit(1)


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Signals end what is done in here in order, as an interrupt from the terminal does: with all its processes."""

    def end(number: int, frame: FrameType | None) -> None:
        del frame
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
