"""What types alone do not check of a job whose source is a structured log: `check_event_tables_values`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.errors import OptionError
from binlog_streaming.settings.checks import check_metrics, check_source
from binlog_streaming.settings.sink_checks import Mistake, check_partition_rules, check_partitions, check_sink

if TYPE_CHECKING:
    from binlog_streaming.settings.event_source_model import EventRule, EventTablesJob
    from binlog_streaming.settings.lines import KeyPath

PLACES = ("category", "severity", "function", "file", "line", "source_id")
"""What may be in braces in targets."""


def check_event_tables_values(job: EventTablesJob) -> None:
    """See that the values of *job* can be, each and together.

    Raises:
        Mistake: The first one that cannot.
    """
    check_metrics(job.metrics)
    check_source(job.source, "logs")
    check_sink(job.sink)
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
