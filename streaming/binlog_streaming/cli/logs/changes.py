"""`binlog-stream changes`: the changed rows of a log."""

from __future__ import annotations

import itertools
import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from binlog_format.errors import OptionError, SchemaError
from binlog_format.messages import count_text
from binlog_format.names import folds_table_names
from binlog_format.rows.decoding import Decoding, TimeType, ZeroDates
from binlog_format.views.filters import TableFilter, as_folded, check_table_name
from binlog_streaming.cli.file_output import FileFormat, write_file
from binlog_streaming.cli.logs.ranges import EndOption, StartOption, opened_log
from binlog_streaming.cli.options import (
    ExcludeTablesOption,
    LowerCaseOption,
    ReplaceInvalidTextOption,
    RulesOption,
    SchemaFileOption,
    TablesOption,
    TimeTypeOption,
    ZeroDatesOption,
)
from binlog_streaming.cli.output import PathArgument, escaped, output_console, print_rows
from binlog_streaming.cli.tabular import (
    json_rows,
    limited,
    position_text,
    shortened,
    tables_there,
    warned_of_none,
    write_batches,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from rich.console import Console

    from binlog_connector.envelope.options import EnvelopeOptions
    from binlog_connector.options.message_view import MessageLines
    from binlog_format import Log
    from binlog_format.log.log import ReadRange
    from binlog_format.views.changefeed import ChangefeedView
    from binlog_format.views.changes import ChangesView

    _AnyView = ChangesView | ChangefeedView | MessageLines

TABLE_ROWS = 50
"""Rows printed for people when no limit is given."""
_VALUE_WIDTH = 40


class ShownView(StrEnum):
    """Meaning of a row."""

    CHANGES = "changes"
    CHANGEFEED = "changefeed"


class ChangesOutput(StrEnum):
    """Form of the changes in the output."""

    TABLE = "table"
    JSONL = "jsonl"
    PARQUET = "parquet"
    ARROW = "arrow"
    DEBEZIUM = "debezium"
    FLAT = "flat"


_MESSAGES = (ChangesOutput.DEBEZIUM, ChangesOutput.FLAT)
_TO_FILE = (ChangesOutput.PARQUET, ChangesOutput.ARROW)
OP_COLORS = {"insert": "green", "update": "yellow", "delete": "red"}

_FileArgument = Annotated[
    Path | None, typer.Argument(help="File to write, with --output parquet or arrow.", show_default=False)
]
_OutputOption = Annotated[
    ChangesOutput,
    typer.Option(
        "--output",
        "-o",
        help="For people (table), for programs (jsonl: one JSON object a line), or into FILE (parquet; arrow: an "
        "Arrow IPC file). As messages, one JSON object a line: in Debezium's envelope "
        "(debezium), or as flat rows with their operation (flat).",
    ),
]
_TopicPrefixOption = Annotated[
    str, typer.Option(help="First part of the topics' names, with --output debezium or flat.")
]
_SchemasOption = Annotated[
    bool, typer.Option("--schemas", help="Each key and value carries its schema, with --output debezium or flat.")
]
_ViewOption = Annotated[
    ShownView,
    typer.Option(
        help="changes: one row a change, with the images before and after it. changefeed: one row an image of one "
        "table, in the table's own columns."
    ),
]

_IncludeAbsentOption = Annotated[
    bool,
    typer.Option(
        "--include-absent", help="With --view changefeed: a column _absent names the columns that an image lacks."
    ),
]

_TableOption = Annotated[
    str | None, typer.Option(help="One table, database.table; its images are then typed in parquet and arrow.")
]
_LimitOption = Annotated[
    int | None, typer.Option(min=0, help=f"Rows to give; default: all, and {TABLE_ROWS} as table.")
]


def changes(  # noqa: PLR0913 - the options of the command
    path: PathArgument,
    file: _FileArgument = None,
    output: _OutputOption = ChangesOutput.TABLE,
    *,
    tables: TablesOption = None,
    exclude_tables: ExcludeTablesOption = None,
    view: _ViewOption = ShownView.CHANGES,
    table: _TableOption = None,
    include_absent: _IncludeAbsentOption = False,
    schema_file: SchemaFileOption = None,
    lower_case_table_names: LowerCaseOption = None,
    rules: RulesOption = None,
    start: StartOption = None,
    end: EndOption = None,
    limit: _LimitOption = None,
    zero_dates: ZeroDatesOption = ZeroDates.NULL,
    time_type: TimeTypeOption = TimeType.TEXT,
    replace_invalid_text: ReplaceInvalidTextOption = False,
    topic_prefix: _TopicPrefixOption = "binlog",
    schemas: _SchemasOption = False,
) -> None:
    """Print the changed rows of a log, in commit order, or write them into a Parquet or Arrow file.

    For example:

        binlog-stream changes /var/lib/mysql --tables 'shop[.]orders' --limit 10
        binlog-stream changes /var/lib/mysql changes.parquet --output parquet

    docs/reading.md explains what it prints.
    """
    # Compiled code takes a moment to load: not for --help.
    from binlog_connector.envelope.options import EnvelopeFormat, EnvelopeOptions
    from binlog_connector.rules.row_rules import decoding_under, read_rules
    from binlog_connector.schema.history import SchemaHistory
    from binlog_format.log.log import ReadRange
    from binlog_streaming.cli.jobs.row_format import RowFormatWarnings

    _check(view, table, output, file)
    folds_names = folds_table_names(lower_case_table_names)
    tables, exclude_tables = (as_folded(expressions, folds_names) for expressions in (tables, exclude_tables))
    dump = None if schema_file is None else str(schema_file)
    history = SchemaHistory.from_schema_file(dump, folds_names=folds_names)
    hidden = None if rules is None else read_rules(rules, needs_key=output in _MESSAGES, folds_names=folds_names)
    decoding = decoding_under(hidden, history, zero_dates, time_type, replace_invalid_text=replace_invalid_text)
    with opened_log(path) as log:
        part = ReadRange.of(log, start, end)
        typed_table = table if view is ShownView.CHANGEFEED or file is not None else None
        if table is not None and typed_table is None:
            tables = ",".join(filter(None, (tables, re.escape(table))))
        accepted = TableFilter(tables, exclude_tables)
        selected: _AnyView = _view(view, typed_table, accepted, part, decoding, include_absent=include_absent)
        if output in _MESSAGES:
            form = EnvelopeFormat(output.value)
            envelope = EnvelopeOptions(topic_prefix, format=form, schemas=schemas, folds_names=folds_names)
            selected = _messages(envelope, accepted, part, decoding)
        named = re.escape(typed_table) if typed_table is not None else tables
        warned = TableFilter(named, exclude_tables)
        warnings = RowFormatWarnings(warned, folds_names=folds_names, rules=hidden)
        blocks = warnings.observed(part.blocks(log), log, part.groups)
        batches = selected.batches(history.following(blocks, path, part.start))
        if file is None and limit != 0 and (tables or table):
            batches = _some(batches, table, tables, log, part, is_all=start is None and end is None)
        if file is not None:
            _write_file(limited(batches, limit), selected, table, FileFormat(output.value), file)
        elif output is not ChangesOutput.TABLE:
            write_batches(batches, selected, limit)
        else:
            _print_table(batches, selected, TABLE_ROWS if limit is None else limit, log)
        warnings.finish()


def _check(view: ShownView, table: str | None, output: ChangesOutput, file: Path | None) -> None:
    """See that options go together."""
    if view is ShownView.CHANGEFEED and table is None:
        raise OptionError("MISSING", "--view changefeed needs --table: its rows have the columns of that table")
    if (output in _TO_FILE) != (file is not None):
        raise OptionError("MISSING", "--output parquet and --output arrow need a FILE, and nothing else takes one")
    if output in _MESSAGES and view is ShownView.CHANGEFEED:
        raise OptionError("INVALID_VALUE", f"--output {output} makes messages of changes: leave out --view")
    check_table_name("--table", table)


def _some(
    batches: Iterator[pa.RecordBatch],
    table: str | None,
    tables: str | None,
    log: Log,
    part: ReadRange,
    *,
    is_all: bool,
) -> Iterator[pa.RecordBatch]:
    """*batches*; where they hold nothing of the tables that were named, that is reported."""
    if table is None or not is_all:
        return warned_of_none(batches, str(table or tables), log, part, is_all=is_all)
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        hint = tables_there(log, part, table)
        raise SchemaError("TABLE_NOT_FOUND", f"the log has no changes of table {table}", hint=hint)
    return itertools.chain([first], batches)


def _view(
    view: ShownView,
    table: str | None,
    tables: TableFilter,
    part: ReadRange,
    decoding: Decoding,
    *,
    include_absent: bool,
) -> ChangesView | ChangefeedView:
    from binlog_format.views.changefeed import ChangefeedView
    from binlog_format.views.changes import ChangesView

    if view is ShownView.CHANGEFEED:
        assert table is not None
        return ChangefeedView(
            table=table, tables=tables, groups=part.groups, decoding=decoding, include_absent=include_absent
        )
    if include_absent:
        hint = "ShownView changes has the column absent"
        raise OptionError("INVALID_VALUE", "--include-absent is for --view changefeed", hint=hint)
    return ChangesView(table=table, tables=tables, groups=part.groups, decoding=decoding)


def _messages(options: EnvelopeOptions, tables: TableFilter, part: ReadRange, decoding: Decoding) -> MessageLines:
    from binlog_connector.envelope.messages import MessagesView
    from binlog_connector.options.message_view import MessageLines

    view = MessagesView(options, tables=tables, groups=part.groups, decoding=decoding)
    return MessageLines(view, options.topic_prefix)


def _write_file(
    batches: Iterator[pa.RecordBatch], view: _AnyView, table: str | None, file_format: FileFormat, file: Path
) -> None:
    def schema_without_rows() -> pa.Schema:
        if table is None:
            return view.schema(None)
        raise SchemaError(
            "TABLE_NOT_FOUND",
            f"there are no changes of table {table} here, and nothing else describes its columns",
            hint="binlog-stream changes without FILE shows which tables have changes",
        )

    rows = write_file(batches, schema_without_rows, file_format, file)
    output_console().print(f"{count_text(rows, 'row')} written to {escaped(str(file))}")


def _print_table(batches: Iterator[pa.RecordBatch], view: _AnyView, limit: int, log: Log) -> None:
    # One row more than is shown tells whether there are more.
    rows = list(itertools.islice(json_rows(batches, view), limit + 1))
    console = output_console()
    if not rows:
        console.print("No changes.")
        return
    shown = rows[:limit]
    if "before" in rows[0] and "op" in rows[0]:
        _print_changes(console, shown, log)
    else:
        _print_images(console, shown)
    if len(rows) > limit:
        console.print(f"The first {count_text(limit, 'row')}; --limit shows more, --output jsonl all.", style="dim")


def _print_changes(console: Console, rows: list[dict[str, object]], log: Log) -> None:
    cells = [
        (
            position_text(row["position"], log),
            str(row["gtid"] or ""),
            str(row["commit_time"]),
            escaped(f"{row['database']}.{row['table']}"),
            f"[{OP_COLORS[op]}]{op}[/]",
            escaped(change_text(row["before"], row["after"])),
        )
        for row in rows
        for op in (str(row["op"]),)
    ]
    columns = ("position", "gtid", "commit time", "table", "op", "change")
    print_rows(console, columns, cells, last_width=_VALUE_WIDTH // 2)


def _print_images(console: Console, rows: list[dict[str, object]]) -> None:
    for row in rows:
        row["_position"] = position_text(row["_position"])
    columns = [escaped(name) for name in rows[0]]
    cells = [[escaped(_short(value)) for value in row.values()] for row in rows]
    print_rows(console, columns, cells, labelled=columns, last_width=_VALUE_WIDTH // 2)


def change_text(before: object, after: object) -> str:
    """A change on one line: an update shows its first column, which is mostly the key, and what has changed."""
    if isinstance(before, dict) and isinstance(after, dict):
        known = [
            f"{name}={_short(value)}" for name, value in list(before.items())[:1] if after.get(name, value) == value
        ]
        missing = object()
        changed = [
            f"{name}: {_short(before[name]) + ' -> ' if name in before else ''}{_short(value)}"
            for name, value in after.items()
            if before.get(name, missing) != value
        ]
        return " ".join(known + changed)
    image = before if isinstance(before, dict) else after
    assert isinstance(image, dict)
    return " ".join(f"{name}={_short(value)}" for name, value in image.items())


def _short(value: object) -> str:
    return shortened(value, _VALUE_WIDTH)
