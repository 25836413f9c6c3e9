"""What types alone do not say about a job: `check_values`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from binlog_connector.spark.options import SourceOptions
from binlog_format.errors import OptionError, StartError
from binlog_format.views.table_filter import TableFilter
from binlog_streaming.settings_model import Mode, TableFormat, parse_milliseconds

if TYPE_CHECKING:
    from binlog_streaming.settings_lines import KeyPath
    from binlog_streaming.settings_model import Job, TableRule

FILE_SIZE_MIN = 1 << 20
PORT_MAX = 65_535


class Mistake(Exception):
    """A value that cannot be.

    Args:
        path: Its key.
        reason: What was expected, and what is there.
        hint: What the operator can do.
    """

    def __init__(self, path: KeyPath, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason
        self.hint = hint


def check_values(job: Job) -> None:
    """See that the values of *job* can be, each and together.

    Raises:
        Mistake: The first one that cannot.
    """
    for path, text in ((("trigger", "interval"), job.trigger.interval), (("sink", "retention"), job.sink.retention)):
        try:
            parse_milliseconds(text)
        except ValueError as error:
            raise Mistake(path, str(error)) from error
    if job.sink.target_file_size < FILE_SIZE_MIN:
        size = job.sink.target_file_size
        raise Mistake(("sink", "target_file_size"), f"expected at least {FILE_SIZE_MIN} bytes, got {size}")
    if job.metrics.port is not None and not 0 <= job.metrics.port <= PORT_MAX:
        raise Mistake(("metrics", "port"), f"expected a number from 0 to {PORT_MAX}, got {job.metrics.port}")
    _check_source(job)
    if not job.tables:
        raise Mistake(("tables",), "expected at least one rule, got none")
    for number, rule in enumerate(job.tables):
        _check_rule(rule, ("tables", number))
        if job.sink.format is TableFormat.PARQUET and Mode.MIRROR in rule.modes:
            raise Mistake(
                ("tables", number, "mode"),
                "expected changelog beside sink.format parquet, got mirror",
                "Rows in plain Parquet files cannot be replaced: use format delta or iceberg for mirrors",
            )


_OPTION_NAMED = re.compile(r"options? (\w+)")


def _check_source(job: Job) -> None:
    try:
        options = SourceOptions.parse({"path": job.source.path, "view": "tables", **job.source.options()})
        options.check_streaming()
    except (OptionError, StartError) as error:
        named = _OPTION_NAMED.match(error.reason)
        path: KeyPath = ("source", named[1]) if named is not None else ("source",)
        reason = error.reason if named is None or error.reason.startswith("options") else error.reason[named.end() :]
        raise Mistake(path, reason.removeprefix(": "), error.hint) from error


def _check_rule(rule: TableRule, path: KeyPath) -> None:
    try:
        TableFilter(rule.select)
    except OptionError as error:
        reason = error.reason.removeprefix("option tables: ")
        raise Mistake((*path, "select"), reason, error.hint) from error
    if not rule.modes:
        raise Mistake((*path, "mode"), "expected at least one mode, got none")
    if len(set(rule.modes)) < len(rule.modes):
        raise Mistake((*path, "mode"), f"expected each mode once, got {', '.join(rule.modes)}")
    if len(rule.modes) > 1 and "{mode}" not in rule.target:
        raise Mistake(
            (*path, "target"),
            f"several modes need {{mode}} in the target, got {rule.target!r}",
            'For example target = "{mode}/{database}/{table}"',
        )
    try:
        rule.target.format(database="d", table="t", mode="m")
    except (KeyError, IndexError, ValueError) as error:
        known = "{database}, {table} and {mode}"
        raise Mistake((*path, "target"), f"expected only {known} in braces, got {rule.target!r}") from error
