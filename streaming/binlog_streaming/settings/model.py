"""Settings of a job: `Job` and its sections; every field is a setting that an operator may change in a job file.

Job files explain each setting, and so do the docs: `text.SECTIONS`, `source_texts.PUBLISH_SECTIONS` and
`source_texts.EVENT_SECTIONS` are where.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import msgspec

from binlog_connector.given_definitions import GivenDefinitions
from binlog_connector.rules.row_rule import GeneratedColumns, RowRule
from binlog_connector.rules.row_rules import bound_rule, defined_tables, table_rules
from binlog_connector.schema.expressions.computing import with_computed_values
from binlog_format.names import folds_table_names
from binlog_format.rows.decoding import Decoding, TimeType, ZeroDates
from binlog_streaming.settings.choices import (
    DEFAULT_FORMAT,
    Begin,
    Deletes,
    Evidence,
    Json,
    Merge,
    Mode,
    OnCascade,
    OnError,
    OnPartitionDrop,
    OnRowStatement,
    OnStatement,
    Rewritten,
    TableFormat,
    UnknownValues,
    parse_milliseconds,
)

if TYPE_CHECKING:
    from binlog_connector.log_definitions import SchemaFile


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Common parts of every table of the file.

    Attributes:
        PATHS: Settings that are paths; relative ones start at the folder of the job file.
    """

    PATHS: ClassVar[frozenset[str]] = frozenset()


START_OPTIONS = ("startingOffsets", "startingGtid", "startingTimestamp")
"""Options of which one may set where a new job begins."""

LowerCase = Literal[0, 1, 2]
"""Possible values of a server's `lower_case_table_names`."""


class JobLogSource(Section, frozen=True, rename="camel"):
    """`[source]`: the log; options have the names that they have in Spark's `format("binlog-stream")`.

    Those that a job decides itself are left out (`view`, `table`, `tables`), and those that a stream has not
    (`ending...`). Values are the source's to check.
    """

    PATHS = frozenset({"path", "schema_file"})

    path: str
    archive: str | None = None
    format: str | None = None
    exclude_tables: str | None = None
    starting_offsets: str | dict[str, int | str] | None = None
    starting_gtid: str | None = None
    starting_timestamp: str | int | None = None
    fail_on_data_loss: bool | None = None
    ignore_domain_ids: tuple[int, ...] | int | str | None = None
    ignore_server_ids: tuple[int, ...] | int | str | None = None
    schema_file: str | None = None
    lower_case_table_names: LowerCase | None = None
    zero_dates: ZeroDates | None = None
    replace_invalid_text: bool | None = None
    full_source_images: bool | None = None
    system_time_zone: str | None = None

    def options(self) -> dict[str, str]:
        """The options of the Spark source, without the path."""
        return source_options(self)

    @property
    def folds_names(self) -> bool | None:
        """True if names of tables in upper and lower case are the same; None: it is not set."""
        return folds_table_names(self.lower_case_table_names)

    @property
    def starts_at_the_beginning(self) -> bool:
        """A new checkpoint starts with the first change that is still in the log."""
        starts = (self.starting_offsets, self.starting_gtid, self.starting_timestamp)
        return starts in ((None, None, None), ("earliest", None, None))

    def decoding(self) -> Decoding:
        """Options for decoding rows; schemas are completed where the log is read."""
        return Decoding(
            zero_dates=self.zero_dates or ZeroDates.NULL,
            replace_invalid_text=bool(self.replace_invalid_text),
            full_source_images=bool(self.full_source_images),
            system_time_zone=self.system_time_zone,
            computes=with_computed_values,
        )


class Source(JobLogSource, frozen=True, rename="camel"):
    """`[source]` of a job that Spark runs."""

    max_bytes_per_trigger: int | str = "512m"
    max_files_per_trigger: int | None = None
    min_partitions: int | None = None
    bound: str | None = None
    declared_types: bool | None = None
    time_type: TimeType | None = None

    def decoding(self) -> Decoding:
        """Options for decoding rows; schemas are completed where the log is read."""
        time_type = self.time_type or TimeType.TEXT
        return replace(super().decoding(), time_type=time_type, declared_types=bool(self.declared_types))


EVIDENCE_AFTER = 10_000
"""Rows that are compared as a whole where something may have changed the target; that takes milliseconds."""

EVIDENCE_SAMPLE = 100
"""Rows of a step that always are, where they are cheap to read."""

NotNegative = Annotated[int, msgspec.Meta(ge=0)]


class TableRule(RowRule, frozen=True, kw_only=True):
    """`[[tables]]`: what becomes of the tables that `select` matches; the first rule that matches a table counts."""

    mode: Mode | tuple[Mode, ...] = Mode.MIRROR
    keys: tuple[str, ...] = ()
    target: str = "{database}/{table}"
    deletes: Deletes = Deletes.REMOVE
    on_truncate: OnStatement = OnStatement.APPLY
    on_drop: OnStatement = OnStatement.IGNORE
    on_partition_drop: OnPartitionDrop = OnPartitionDrop.FAIL
    unknown_values: UnknownValues = UnknownValues.FAIL
    rewritten: Rewritten = Rewritten.FAIL
    on_statement: OnRowStatement = OnRowStatement.FAIL
    foreign_keys: OnCascade = OnCascade.FAIL
    begin: Begin = Begin.CREATED
    partition_by: tuple[str, ...] = ()
    evidence: Evidence | None = None
    evidence_after: NotNegative | None = None
    evidence_sample: NotNegative | None = None

    @property
    def computed_is_null(self) -> bool:
        """True if generated columns are null where the log lacks them."""
        return self.generated is GeneratedColumns.NULL or self.unknown_values is UnknownValues.NULL

    @property
    def writes_unknown_as_null(self) -> bool:
        """True if a null in a target may be a value that the log lacks."""
        return self.computed_is_null or self.rewritten is Rewritten.NULL

    @property
    def nulls_generated(self) -> bool:
        """Always False: a target's mode decides on values that images lack."""
        return False

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes, also when there is only one."""
        return (self.mode,) if isinstance(self.mode, Mode) else self.mode


class Sink(Section, frozen=True):
    """`[sink]`: where the tables go."""

    PATHS = frozenset({"directory"})

    directory: str
    kind: Literal["tables"] = "tables"
    format: TableFormat = DEFAULT_FORMAT
    merge: Merge = Merge.AUTO
    row_ids: bool = False
    json: Json = Json.TEXT
    storage: dict[str, str] = {}
    catalog: dict[str, str] = {}
    target_file_size: int = 64 << 20
    retention: str = "7d"

    @property
    def retention_hours(self) -> float:
        """`retention` in hours."""
        return parse_milliseconds(self.retention) / 3_600_000


class Trigger(Section, frozen=True):
    """`[trigger]`: when a batch starts: every `interval`, or `available_now`: what is there now, then the job ends."""

    interval: str = "2s"
    available_now: bool = False

    @property
    def interval_ms(self) -> int:
        """`interval` in milliseconds."""
        return parse_milliseconds(self.interval)


class Metrics(Section, frozen=True):
    """`[metrics]`: what Prometheus may ask for, over HTTP, and OpenTelemetry is sent."""

    port: int | None = None
    host: str = "127.0.0.1"
    otlp: bool = False


class Lineage(Section, frozen=True):
    """`[lineage]`: what OpenLineage is told; the library's own configuration has its address."""

    namespace: str | None = None
    source: str | None = None


class Status(Section, frozen=True):
    """`[status]`: what a job cannot find out itself about how safe it is."""

    purge_after: str | None = None

    @property
    def purge_after_seconds(self) -> float | None:
        """`purge_after` in seconds."""
        return None if self.purge_after is None else parse_milliseconds(self.purge_after) / 1000


class Spark(Section, frozen=True):
    """`[spark]`: the session, when the job starts its own; what `spark-submit` was given wins."""

    master: str = "local[2]"
    settings: dict[str, str | int | float | bool] = {}


class JobSettings(Section, frozen=True, kw_only=True):
    """Settings of every job, whatever its source and its sink."""

    PATHS = frozenset({"checkpoint"})

    checkpoint: str
    name: str = "binlog-stream"
    errors_show_values: bool = False
    metrics: Metrics = Metrics()

    @property
    def kept_definitions(self) -> str | None:
        """File in which the job keeps definitions of its tables; None: it keeps none."""
        return None if "://" in self.checkpoint else f"{self.checkpoint.rstrip('/')}/{KEPT_DEFINITIONS_FILE}"


class Job(JobSettings, frozen=True):
    """A job file whose sink are tables; `publish_model.PublishJob` is one whose sink is Kafka."""

    source: Source
    sink: Sink
    on_error: OnError = OnError.STOP
    evidence: Evidence = Evidence.KEYS
    evidence_after: NotNegative = EVIDENCE_AFTER
    evidence_sample: NotNegative = EVIDENCE_SAMPLE
    tables: tuple[TableRule, ...] = (TableRule(),)
    trigger: Trigger = Trigger()
    lineage: Lineage = Lineage()
    status: Status = Status()
    spark: Spark = Spark()

    def decoding(self) -> Decoding:
        """Options for decoding and hiding rows; schemas are completed where the log is read.

        Raises:
            OptionError: `MISSING`: a rule's salt is not in the environment.
        """
        bound = (
            bound_rule(rule, keys=rule.keys, needs_key=set(rule.modes) != {Mode.CHANGELOG}) for rule in self.tables
        )
        return replace(self.source.decoding(), rules=table_rules(bound, self.source.exclude_tables))

    @property
    def default_evidence(self) -> Evidence:
        """`evidence`, unless the source leaves out changes that rows have had."""
        source = self.source
        leaves_out = source.ignore_domain_ids is not None or source.ignore_server_ids is not None
        return Evidence.OFF if leaves_out else self.evidence

    def given_definitions(self, file: SchemaFile | None = None) -> GivenDefinitions:
        """Definitions that the job has beside its log. *file*: its schema file, if that is asked."""
        return GivenDefinitions(file, self.kept_definitions, self.source.folds_names)

    def source_options(self) -> dict[str, str]:
        """The options of the Spark source, without the path: tables that no rule wants are left out there already."""
        wanted = ",".join([*(rule.select for rule in self.tables), GHOST_TABLES])
        asked = {"view": "tables", "tables": wanted, "countOtherTables": "true", "tellProblems": "true"}
        if self.defined_tables is not None:
            asked["definedTables"] = self.defined_tables
        if self.kept_definitions is not None:
            asked["keptDefinitions"] = self.kept_definitions
        return {**asked, **self.source.options()}

    @property
    def defined_tables(self) -> str | None:
        """Tables of which more has to be known than table maps have: expressions; None: there are none."""
        return defined_tables(self.tables)


KEPT_DEFINITIONS_FILE = "binlog-stream-definitions.json"
"""File in the checkpoint's directory, see `jobs.definitions.definition_keeper`."""
GHOST_TABLES = r".*\._.+_(gho|new)"
"""Names that gh-ost and pt-online-schema-change give to the table that will replace a table."""


def source_options(source: Section) -> dict[str, str]:
    """Options of the Spark source for a section `[source]`, without the path."""
    given = zip(source.__struct_encode_fields__, msgspec.structs.astuple(source), strict=True)
    return {name: _option_text(value) for name, value in given if name != "path" and value is not None}


def _option_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value)
    return json.dumps(value) if isinstance(value, dict) else str(value)
