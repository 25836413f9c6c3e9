"""The source's options: what a user may write, read and checked once by `SourceOptions.parse`.

Names are case-insensitive, as everywhere in Spark; `option_table.OPTIONS` lists them. Nothing is ignored in silence: an
option or a value that does not exist is an `OptionError`, starts that contradict each other are a `StartError`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from binlog_connector.following.starts import Edge, StartMoment
from binlog_connector.given_definitions import GivenDefinitions
from binlog_connector.options.option_values import (
    BATCH_ONLY,
    OPTION_NAMES,
    choice,
    count,
    flag,
    folds_names,
    invalid,
    moment,
    nearest,
    numbers,
    offset,
    point,
    size,
    system_time_zone,
)
from binlog_connector.options.view_options import ALL_EVENTS, KAFKA_VALUE, EventOptions, MessageOptions, check_log
from binlog_format.errors import OptionError, StartError
from binlog_format.format_traits import FORMAT_TRAITS
from binlog_format.log_format import Bound
from binlog_format.rows.decoding import TimeType, ZeroDates
from binlog_format.source_file import refuse_keys, with_archive
from binlog_format.views.filters import TableFilter, as_folded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlog_connector.following.starts import Start
    from binlog_connector.log_definitions import SchemaFile
    from binlog_connector.rules.row_rules import TableRules
    from binlog_format.log.log import Log

_NAME_BY_LOWER = {name.lower(): name for name in OPTION_NAMES}
MIN_PARTITIONS_MAX = 100_000
"""Above this, planning alone would take longer than reading."""


class View(StrEnum):
    """Meaning of a row."""

    CHANGES = "changes"
    CHANGEFEED = "changefeed"
    EVENTS = "events"
    TRANSACTIONS = "transactions"
    TABLES = "tables"
    LOGS = "logs"


_ROW_VIEWS = (View.CHANGES, View.CHANGEFEED)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """All options of one query, checked.

    Attributes:
        path: Directory of the binlog files, one file, or a URL; with the archive that the option `archive` names.
        format: Format that the log must have; None: whatever it is.
        table: The one table (`database.table`) whose columns are typed; None: rows are JSON.
        tables: Comma-separated regular expressions on `database.table`; None: all.
        exclude_tables: The same, for what to leave out; None: nothing.
        counts_others: Rows of `tables` for tables that are left out, too, where foreign keys apply to their changes.
        tells_problems: Rows of `tables` for tables that cannot be understood, instead of an error.
        defined_tables: Comma-separated regular expressions: of these tables all is wanted that statements define, also
            where table maps leave nothing open; None: of none.
        start: Where a new query begins.
        end: Where a query ends; `Edge.LATEST`: a batch query at the end of the log, a streaming query never.
        bytes_per_trigger_max: Bytes of the files that one micro-batch reads; None: all that is there.
        files_per_trigger_max: Files that one micro-batch reads from; None: all that are there.
        partitions_min: Least number of partitions to cut a read into; None: by size.
        bound: How far reading may go.
        fail_on_data_loss: Whether data that has gone ends the query (or is skipped, with a warning).
        fail_on_statement: Whether statements that change wanted rows, and have no row events, end the query.
        ignored_domains: GTID domains (MariaDB) that are left out.
        ignored_servers: Servers whose transactions are left out.
        schema_file: A dump of CREATE TABLEs; None: the log alone counts.
        kept_definitions: File in which a job keeps definitions of tables; None: there is none.
        folds_names: Names of tables in upper and lower case are the same; None: as the log proves it.
        declared_types: Columns have the types that definitions state, where table maps have binary strings.
        rules: What of the tables is hidden; None: nothing is.
        include_ddl: Rows of `changes` for DDL and TRUNCATE.
        include_query: The column `query` of `changes`.
        include_absent: The column `_absent` of `changefeed`.
        include_sequence: The column `_seq` of `changefeed`.
        messages: Rows of `changes` are messages for Kafka that look like this; None: they are not.
        zero_dates: What becomes of dates that are none.
        replace_invalid_text: Bytes invalid in their character set become U+FFFD; else they are an error.
        full_source_images: See `Decoding`.
        system_time_zone: See `Decoding`.
        events: What is wanted of a structured log.
    """

    path: str
    format: str | None = None
    view: View = View.CHANGES
    table: str | None = None
    tables: str | None = None
    exclude_tables: str | None = None
    counts_others: bool = False
    tells_problems: bool = False
    defined_tables: str | None = None
    start: Start = Edge.EARLIEST
    end: Start = Edge.LATEST
    bytes_per_trigger_max: int | None = None
    files_per_trigger_max: int | None = None
    partitions_min: int | None = None
    bound: Bound = Bound.VISIBLE
    fail_on_data_loss: bool = True
    fail_on_statement: bool = True
    ignored_domains: tuple[int, ...] = ()
    ignored_servers: tuple[int, ...] = ()
    schema_file: str | None = None
    kept_definitions: str | None = None
    folds_names: bool | None = None
    declared_types: bool = False
    rules: TableRules | None = field(default=None, compare=False)
    include_ddl: bool = False
    include_query: bool = False
    include_absent: bool = False
    include_sequence: bool = False
    messages: MessageOptions | None = None
    time_type: TimeType = TimeType.TEXT
    zero_dates: ZeroDates = ZeroDates.NULL
    replace_invalid_text: bool = False
    full_source_images: bool = False
    system_time_zone: str | None = None
    events: EventOptions = ALL_EVENTS
    given: frozenset[str] = field(default=frozenset(), compare=False)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Check what the user gave. Raises `StartError`: `CONFLICTING_OPTIONS`: two starts, or two ends."""
        given = _with_folded_expressions(_by_known_name(options))
        if not given.get("path"):
            raise OptionError(
                "MISSING",
                "option path: it is not set",
                hint='Give the directory of the binlog files: .option("path", "/var/lib/mysql") or .load("...")',
            )
        path = with_archive(given["path"], given["archive"]) if given.get("archive") else given["path"]
        refuse_keys(path)
        view = View(choice(given, "view", View, View.CHANGES))
        table = _table(given.get("table"), view)
        _check_filters(given.get("tables"), given.get("excludeTables"), table)
        _check_defined_tables(given)
        _check_changes_only(given, view)
        _check_changefeed_only(given, view)
        _check_rows_only(given, view)
        format_name = choice(given, "format", FORMAT_TRAITS, "") or None
        include_ddl = flag(given, "includeDdl", default=False)
        rules = _rules(given, view)
        return cls(
            path=path,
            format=format_name,
            view=view,
            table=table,
            tables=given.get("tables"),
            exclude_tables=given.get("excludeTables"),
            counts_others=flag(given, "countOtherTables", default=False),
            tells_problems=flag(given, "tellProblems", default=False),
            defined_tables=_defined_tables(given, rules),
            start=_edge(given, "starting", Edge.EARLIEST),
            end=_edge(given, "ending", Edge.LATEST),
            bytes_per_trigger_max=size(given, "maxBytesPerTrigger"),
            files_per_trigger_max=count(given, "maxFilesPerTrigger", 2**31 - 1),
            partitions_min=count(given, "minPartitions", MIN_PARTITIONS_MAX),
            bound=_bound(given, format_name),
            fail_on_data_loss=flag(given, "failOnDataLoss", default=True),
            fail_on_statement=flag(given, "failOnStatement", default=True),
            ignored_domains=numbers(given, "ignoreDomainIds"),
            ignored_servers=numbers(given, "ignoreServerIds"),
            schema_file=given.get("schemaFile") or None,
            kept_definitions=given.get("keptDefinitions") or None,
            folds_names=folds_names(given),
            declared_types=flag(given, "declaredTypes", default=False),
            rules=rules,
            include_ddl=include_ddl,
            include_query=_include_query(given, include_ddl=include_ddl),
            include_absent=flag(given, "includeAbsent", default=False),
            include_sequence=flag(given, "includeSequence", default=False),
            messages=MessageOptions.parse(given, view),
            time_type=TimeType(choice(given, "timeType", TimeType, TimeType.TEXT)),
            zero_dates=ZeroDates(choice(given, "zeroDates", ZeroDates, ZeroDates.NULL)),
            replace_invalid_text=flag(given, "replaceInvalidText", default=False),
            full_source_images=flag(given, "fullSourceImages", default=False),
            system_time_zone=system_time_zone(given),
            events=EventOptions.parse(given),
            given=frozenset(given),
        )

    def check_batch(self) -> None:
        """See that a batch query can have these options."""
        if self.start is Edge.LATEST:
            hint = "After latest there is nothing yet; readStream waits for it"
            raise invalid("startingOffsets", "latest", "earliest or an offset in a batch query", hint=hint)
        if self.end is Edge.EARLIEST:
            hint = "Before earliest there is nothing"
            raise invalid("endingOffsets", "earliest", "latest or an offset", hint=hint)

    def check_streaming(self) -> None:
        """See that a streaming query can have these options."""
        ends = [(name, "that is a time") for name in BATCH_ONLY if name in self.given]
        if isinstance(self.end, Edge) and "endingOffsets" in self.given:
            ends.append(("endingOffsets", f"at {self.end}"))
        for name, where in ends:
            raise OptionError(
                "INVALID_VALUE",
                f"option {name}: a streaming query has no end {where}",
                hint="Use spark.read, or Trigger.AvailableNow, which ends with what is there when it starts; a query "
                "with that trigger can end at endingGtid, or at a position",
            )

    def of_log(self, log: Log) -> SourceOptions:
        """These options, with the default view of the log's format where none is given."""
        is_open = "view" not in self.given and self.view not in log.traits.views
        view = View(log.traits.views[0]) if is_open else self.view
        check_log(log, self.given, view)
        return self if view is self.view else replace(self, view=view)

    def given_definitions(self, file: SchemaFile | None) -> GivenDefinitions:
        """Definitions that the query has beside its log. *file*: of `schema_file`, read."""
        return GivenDefinitions(file, self.kept_definitions, self.folds_names)

    @property
    def refuses_statements(self) -> bool:
        """True if reading ends at changes of wanted tables that are not logged row by row."""
        return self.fail_on_statement and self.view in _ROW_VIEWS

    @property
    def table_expressions(self) -> str | None:
        """The option `tables`, or an expression that means the one table of the option `table`."""
        return self.tables if self.table is None else re.escape(self.table)


def _by_known_name(options: Mapping[str, str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for key, value in options.items():
        name = _NAME_BY_LOWER.get(key.lower())
        if name is None:
            raise OptionError(
                "UNKNOWN",
                f"option {key}: there is no such option",
                hint=nearest(key.lower(), _NAME_BY_LOWER) or f"Options are {', '.join(OPTION_NAMES)}",
            )
        given[name] = value.strip()
    return given


def _table(table: str | None, view: View) -> str | None:
    if table is None:
        if view is View.CHANGEFEED:
            raise OptionError(
                "MISSING",
                "option table: view changefeed has the columns of one table",
                hint='Name it: .option("table", "database.table"), or use view changes for many tables',
            )
        return None
    database, dot, name = table.partition(".")
    if not (database and dot and name):
        raise invalid("table", table, "database.table, for example shop.orders")
    return table


def _with_folded_expressions(given: dict[str, str]) -> dict[str, str]:
    folds = folds_names(given)
    asked = ((name, as_folded(given.get(name), folds)) for name in ("tables", "excludeTables", "definedTables"))
    return given | {name: expressions for name, expressions in asked if expressions is not None}


def _check_filters(tables: str | None, exclude: str | None, table: str | None) -> None:
    for name, value in (("tables", tables), ("excludeTables", exclude)):
        if value is not None and table is not None:
            hint = "option table names the only table; leave one of the two"
            raise invalid(name, value, "nothing beside option table", hint=hint)
    TableFilter(tables, exclude)


def _defined_tables(given: Mapping[str, str], rules: TableRules | None) -> str | None:
    asked = (given.get("definedTables"), None if rules is None else rules.defined_tables)
    return ",".join(filter(None, asked)) or None


def _check_defined_tables(given: Mapping[str, str]) -> None:
    try:
        TableFilter(given.get("definedTables"))
    except OptionError as error:
        reason = error.reason.replace("option tables", "option definedTables", 1)
        raise OptionError("INVALID_VALUE", reason, hint=error.hint) from error


def _check_changes_only(given: Mapping[str, str], view: View) -> None:
    for name in ("includeDdl", "includeQuery"):
        if view is not View.CHANGES and given.get(name, "false").lower() != "false":
            hint = "View events shows the text of all statements" if view is View.EVENTS else "Use view changes"
            raise invalid(name, given[name], f"nothing beside view {view}", hint=hint)


def _check_changefeed_only(given: Mapping[str, str], view: View) -> None:
    for name in ("includeAbsent", "includeSequence"):
        if view is not View.CHANGEFEED and given.get(name, "false").lower() != "false":
            has_it = view is View.CHANGES and name == "includeAbsent"
            hint = "View changes has the column absent" if has_it else "Use view changefeed"
            raise invalid(name, given[name], f"nothing beside view {view}", hint=hint)


def _check_rows_only(given: Mapping[str, str], view: View) -> None:
    if view not in _ROW_VIEWS and "failOnStatement" in given:
        named = " or ".join(_ROW_VIEWS)
        raise invalid(
            "failOnStatement", given["failOnStatement"], f"nothing beside view {view}", hint=f"It is for {named}"
        )


def _rules(given: Mapping[str, str], view: View) -> TableRules | None:
    if not given.get("rules"):
        return None
    if view not in _ROW_VIEWS:
        hint = "It shows events as they are logged; changes and changefeed show rows under rules"
        raise invalid("rules", given["rules"], f"nothing beside view {view}", hint=hint)
    if given.get("includeQuery", "false").lower() != "false":
        hint = "The text of a statement holds the values that it writes, whatever tables it is about"
        raise invalid("includeQuery", given["includeQuery"], "nothing beside option rules", hint=hint)
    from binlog_connector.rules.row_rules import read_rules  # not all queries have rules

    return read_rules(given["rules"], needs_key=KAFKA_VALUE in given, folds_names=folds_names(given))


def _include_query(given: Mapping[str, str], *, include_ddl: bool) -> bool:
    include_query = flag(given, "includeQuery", default=include_ddl)
    if include_ddl and not include_query and KAFKA_VALUE not in given:
        hint = "The text of a DDL statement is in the column query"
        raise invalid("includeQuery", given["includeQuery"], "true or nothing beside includeDdl", hint=hint)
    return include_query


def _bound(given: Mapping[str, str], format_name: str | None) -> Bound:
    bound = Bound(choice(given, "bound", Bound, Bound.VISIBLE))
    if bound is Bound.SEALED and format_name is not None and not FORMAT_TRAITS[format_name].has_sealed_bound:
        named = " or ".join(name for name, traits in FORMAT_TRAITS.items() if traits.has_sealed_bound)
        raise invalid("bound", bound, f"visible beside format {format_name}", hint=f"sealed is for {named} logs")
    return bound


def _edge(given: Mapping[str, str], which: str, default: Edge) -> Start:
    names = [name for name in (f"{which}Offsets", f"{which}Gtid", f"{which}Timestamp") if name in given]
    if len(names) > 1:
        raise StartError(
            "CONFLICTING_OPTIONS",
            f'option {names[0]} ("{given[names[0]]}") and option {names[1]} ("{given[names[1]]}"): '
            f"a query has one {'start' if which == 'starting' else 'end'}",
            hint="Leave out all but one",
        )
    if not names:
        return default
    (name,) = names
    value = given[name]
    if name.endswith("Gtid"):
        return point(name, value)
    if name.endswith("Timestamp"):
        return StartMoment(moment(name, value), name)
    if value.startswith("{") or ":" in value:
        return offset(name, value)
    return Edge(choice(given, name, Edge, default))
