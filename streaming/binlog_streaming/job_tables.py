"""What a job would make of one table: `report_table`; it asks the job's own sink, which refuses what it would then."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_format.errors import BinlogError, UnsupportedError
from binlog_format.rows.arrow_schema import arrow_schema
from binlog_format.views.changefeed import changefeed_schema
from binlog_streaming.settings_model import Mode, TableFormat
from binlog_streaming.tables.mirror import key_columns
from binlog_streaming.tables.sinks import sink_type
from binlog_streaming.tables.target import Ticket, target_uri

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from binlog_streaming.log_tables import FoundTable
    from binlog_streaming.settings_model import Job, TableRule


@dataclass(frozen=True, slots=True)
class TargetReport:
    """A table that the job would write.

    Attributes:
        mode: What it would hold.
        uri: Where.
        exists: Whether it is there already.
    """

    mode: str
    uri: str
    exists: bool


@dataclass(frozen=True, slots=True)
class TableReport:
    """A table of the log, and what would become of it.

    Attributes:
        name: `database.table`.
        rule: Number of the entry in `[[tables]]`, from 0.
        keys: Key columns; empty where none are known.
        keys_said_by: `primary key`, `job file`, or None.
        columns: Name and type of each column, in order; empty where they are not known.
        targets: One for each mode.
        changes: Rows inserted, updated and deleted in the part of the log that was looked at.
        problems: Why the job would stop at it.
        warnings: What may surprise.
    """

    name: str
    rule: int
    keys: tuple[str, ...]
    keys_said_by: str | None
    columns: tuple[tuple[str, str], ...]
    targets: tuple[TargetReport, ...]
    changes: int
    problems: tuple[str, ...]
    warnings: tuple[str, ...]


def report_table(job: Job, found: FoundTable, rule_number: int, query_id: str | None) -> TableReport:
    """What *job* would make of a table.

    Args:
        job: The settings.
        found: The table.
        rule_number: Which of the job's rules is its.
        query_id: Of the job's checkpoint; None: it has none yet.

    Raises:
        OptionError: The sink cannot be used at all: its library is missing, or it does not write there.
    """
    rule = job.tables[rule_number]
    problems: list[str] = []
    schema: pa.Schema | None = None
    keys: tuple[str, ...] = ()
    try:
        if found.problem is not None:
            raise found.problem
        schema = arrow_schema(found.layout, job.source.decoding())
        keys = _keys(found, rule)
    except BinlogError as error:
        problems.append(_told(found.name, error))
    warnings = _warnings(found, rule, keys)
    if found.has_partial_rows and Mode.MIRROR in rule.modes and not problems:
        # Whether they are still to come is known only of a job that begins at the beginning.
        is_ahead = query_id is None and job.source.starts_at_the_beginning
        (problems if is_ahead else warnings).append(_told(found.name, _partial_rows(found.name)))
    targets: list[TargetReport] = []
    for mode in rule.modes:
        ticket = _ticket(found, mode, keys, query_id)
        target, problem = _look(job, found, rule, ticket, None if problems else schema)
        targets.append(target)
        problems.extend([] if problem is None else [problem])
    return TableReport(
        name=found.name,
        rule=rule_number,
        keys=keys,
        keys_said_by=("job file" if rule.keys else "primary key") if keys else None,
        columns=() if schema is None else tuple((field.name, str(field.type)) for field in schema),
        targets=tuple(targets),
        changes=found.changes,
        problems=tuple(problems),
        warnings=tuple(warnings),
    )


def _keys(found: FoundTable, rule: TableRule) -> tuple[str, ...]:
    layout = found.layout
    indices = key_columns(layout, rule.keys) if Mode.MIRROR in rule.modes else layout.primary_key
    return tuple(str(layout.columns[index].name) for index in indices)


def _warnings(found: FoundTable, rule: TableRule, keys: Sequence[str]) -> list[str]:
    warnings = []
    if not found.layout.primary_key:
        consequence = f": rows are told apart by {', '.join(keys)}" if Mode.MIRROR in rule.modes and keys else ""
        warnings.append(f"{found.name}: the log names no primary key for it{consequence}")
    if not found.layout.has_names:
        warnings.append(f"{found.name}: the log does not name its columns (binlog_row_metadata=FULL on the server)")
    if found.definitions > 1:
        times = "once" if found.definitions == 2 else f"{found.definitions - 1} times"
        warnings.append(
            f"{found.name}: its columns change {times} in the log; a job that reads across such a change stops there "
            "(BINLOG_SCHEMA.SCHEMA_CHANGED)"
        )
    return warnings


def _partial_rows(name: str) -> UnsupportedError:
    return UnsupportedError(
        "ROW_IMAGE",
        f"{name}: rows in the log came without all their columns; mode mirror needs whole rows",
        hint="Set binlog_row_image=FULL on the server, or use mode changelog for this table",
    )


def _ticket(found: FoundTable, mode: Mode, keys: tuple[str, ...], query_id: str | None) -> Ticket:
    return Ticket(
        query_id=query_id or "none yet",
        batch_id=0,
        source_table=found.name,
        mode=mode,
        keys=keys if mode is Mode.MIRROR else (),
        position="",
        last_change="",
        gtid=None,
    )


def _look(
    job: Job, found: FoundTable, rule: TableRule, ticket: Ticket, schema: pa.Schema | None
) -> tuple[TargetReport, str | None]:
    """A target, and why the sink would refuse to write there."""
    layout, mode = found.layout, ticket.mode
    uri = target_uri(job.sink.directory, rule.target, database=layout.database, table=layout.table, mode=mode)
    if job.sink.format is TableFormat.ICEBERG and not _has_catalog(job.sink.directory):
        return TargetReport(str(mode), uri, exists=False), None  # a look would make the catalog
    target = sink_type(job.sink.format).at(job.sink, uri)
    try:
        exists = target.properties() is not None
        if schema is None:
            return TargetReport(str(mode), uri, exists), None
        target.check_owner(ticket)
        target.check_schema(changefeed_schema(layout) if mode is Mode.CHANGELOG else schema, ticket)
    except BinlogError as error:
        return TargetReport(str(mode), uri, exists), _told(found.name, error)
    finally:
        target.close()
    return TargetReport(str(mode), uri, exists), None


def _has_catalog(directory: str) -> bool:
    from binlog_streaming.tables.iceberg_catalog import CATALOG_FILE

    return (Path(directory) / CATALOG_FILE).exists()


def _told(name: str, error: BinlogError) -> str:
    hint = f". {error.hint}" if error.hint is not None else ""
    reason = error.reason if name in error.reason else f"{name}: {error.reason}"
    return f"[{error.condition}] {reason}{hint}"
