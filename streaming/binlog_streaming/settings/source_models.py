"""A job whose source is a structured log: `EventTablesJob`; what types alone do not check of it.

Settings of a job whose sources are topics: `TopicTablesJob` and its section; its sink is that of `model.Job`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from binlog_format.errors import OptionError
from binlog_format.structured.event_filter import SourceRules
from binlog_streaming.settings.checks import check_metrics, check_source
from binlog_streaming.settings.model import JobSettings, Section, Sink, TableRule, source_options
from binlog_streaming.settings.publish_model import Security
from binlog_streaming.settings.sink_checks import (
    Mistake,
    check_no_variants,
    check_partition_rules,
    check_partitions,
    check_sink,
)

if TYPE_CHECKING:
    from binlog_streaming.settings.lines import KeyPath


class Arguments(StrEnum):
    """Form of the arguments of events."""

    JSON = "json"
    """One column of text: events of all sources fit into one table."""
    COLUMNS = "columns"
    """A typed column for each: events of each source have a table of their own."""


class EventLogSource(Section, frozen=True, rename="camel"):
    """`[source]`: a structured log; options have the names that they have in Spark's `format("binlog-stream")`."""

    PATHS = frozenset({"path"})

    path: str
    format: str | None = None
    starting_offsets: str | dict[str, int | str] | None = None
    starting_timestamp: str | int | None = None
    fail_on_data_loss: bool = True
    skip_damaged: bool = False
    max_bytes_per_trigger: int | str = "16m"

    def options(self) -> dict[str, str]:
        """The options of the Spark source, without the path."""
        given = source_options(self)
        given.pop("skipDamaged", None)  # what a job does itself
        return given


class EventRule(Section, frozen=True):
    """`[[tables]]`: events that go into tables; each rule takes all that it selects, whatever others take."""

    arguments: Arguments = Arguments.JSON
    target: str | None = None
    min_severity: str | int | None = None
    categories: str | None = None
    source_files: str | None = None
    formats: str | None = None
    partition_by: tuple[str, ...] = ()

    @property
    def sources(self) -> SourceRules:
        """The sources that it selects."""
        least = None if self.min_severity is None else str(self.min_severity)
        return SourceRules(least, self.categories, self.source_files, self.formats)

    @property
    def place(self) -> str:
        """`target`, or its default."""
        default = "logs" if self.arguments is Arguments.JSON else "{category}/{file}_{line}"
        return self.target or default


class EventTablesJob(JobSettings, frozen=True):
    """A job file whose source is a structured log and whose sink are tables."""

    source: EventLogSource
    sink: Sink
    tables: tuple[EventRule, ...] = (EventRule(),)

    def source_options(self) -> dict[str, str]:
        """The options of the Spark source."""
        return {"path": self.source.path, "view": "logs", **self.source.options()}


PLACES = ("category", "severity", "function", "file", "line", "source_id")
"""Placeholders allowed in targets."""


def check_event_tables_values(job: EventTablesJob) -> None:
    """See that the values of *job* can be, each and together. Raises `Mistake`: the first one that cannot."""
    check_metrics(job.metrics)
    check_source(job.source, "logs")
    check_sink(job.sink)
    check_no_variants(job.sink)
    if not job.tables:
        raise Mistake(("tables",), "expected at least one rule, got none")
    for number, rule in enumerate(job.tables):
        _check_rule(rule, ("tables", number))
        check_partitions(rule.partition_by, job.sink.format, ("tables", number, "partition_by"))
    places = [rule.place for rule in job.tables]
    for number, place in enumerate(places):
        if place in places[:number]:
            reason = f"expected another target than that of an earlier rule, got {place!r}"
            raise Mistake(("tables", number, "target"), reason, "Each rule writes tables of its own")


def _check_rule(rule: EventRule, path: KeyPath) -> None:
    try:
        rule.place.format(**dict.fromkeys(PLACES, "x"))
    except (KeyError, IndexError, ValueError) as error:
        known = ", ".join(f"{{{place}}}" for place in PLACES)
        raise Mistake((*path, "target"), f"expected only {known} in braces, got {rule.place!r}") from error
    check_partition_rules(rule.partition_by, path)
    try:
        rule.sources.check()
    except OptionError as error:
        name, _, reason = error.reason.removeprefix("option ").partition(": ")
        raise Mistake((*path, name), reason, error.hint) from error


class TopicSource(Section, frozen=True):
    """`[source]`: the brokers, and topics that `publish` has written, with schemas.

    Attributes:
        bootstrap_servers: Some of the brokers: `host:port,host:port`.
        topics: Comma separated regular expressions, each for the whole name of a topic.
        claims: Folder, or URL, with the values that are too large for a message; None: there are none.
        security: How brokers are trusted, and who we are for them.
    """

    PATHS = frozenset({"claims"})

    kind: Literal["kafka"]
    bootstrap_servers: str
    topics: str
    claims: str | None = None
    security: Security = Security()


class TopicTablesJob(JobSettings, frozen=True):
    """A job file whose source are topics and whose sink are tables."""

    source: TopicSource
    sink: Sink
    tables: tuple[TableRule, ...] = (TableRule(),)
