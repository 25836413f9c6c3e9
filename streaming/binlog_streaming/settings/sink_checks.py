"""Checks of values of any job: `Mistake`; of a sink of tables: `check_sink`; of large messages: `check_oversized`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_streaming.settings.choices import Json, Merge, parse_milliseconds, partition_rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_streaming.settings.choices import TableFormat
    from binlog_streaming.settings.lines import KeyPath
    from binlog_streaming.settings.model import Sink
    from binlog_streaming.settings.publish_model import Oversized

FILE_SIZE_MIN = 1 << 20
CLAIM_SIZE_MAX = 8192
"""Bytes of a message whose value is in a file: the longest path, and a key."""


class Mistake(Exception):
    """A value that cannot be. *reason*: what was expected, and what is there."""

    def __init__(self, path: KeyPath, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason
        self.hint = hint


def check_duration(path: KeyPath, text: str) -> None:
    """See that *text* is a duration. Raises `Mistake`: it is not."""
    try:
        parse_milliseconds(text)
    except ValueError as error:
        raise Mistake(path, str(error)) from error


def check_sink(sink: Sink) -> None:
    """See that the values of a sink of tables can be. Raises `Mistake`: the first one that cannot."""
    check_duration(("sink", "retention"), sink.retention)
    if sink.target_file_size < FILE_SIZE_MIN:
        size = sink.target_file_size
        raise Mistake(("sink", "target_file_size"), f"expected at least {FILE_SIZE_MIN} bytes, got {size}")
    _check_catalog(sink)
    _check_merge(sink)
    _check_row_ids(sink)
    if sink.json is Json.VARIANT and not sink.format.has_variants:
        raise _no_variants(f"beside sink.format {sink.format}", "Variants are in Delta tables alone: leave json out")


def check_oversized(oversized: Oversized) -> None:
    """See that the values of `[sink.oversized]` can be. Raises `Mistake`: the first one that cannot."""
    path = ("sink", "oversized", "max_bytes")
    if oversized.max_bytes < CLAIM_SIZE_MAX:
        reason = f"expected at least {CLAIM_SIZE_MAX}, got {oversized.max_bytes}"
        raise Mistake(path, reason, "A claim has to fit into a message")


def check_partition_rules(parts: Sequence[str], path: KeyPath) -> None:
    """See that the parts of `partition_by` can be understood. Raises `Mistake`: the first one that cannot."""
    for number, part in enumerate(parts):
        try:
            partition_rule(part)
        except ValueError as error:
            raise Mistake((*path, "partition_by", number), str(error)) from error


def check_partitions(parts: Sequence[str], table_format: TableFormat, path: KeyPath) -> None:
    """See that a format can be partitioned like this. Raises `Mistake`: it cannot."""
    if parts and not table_format.has_partitions:
        raise Mistake(
            path, f"expected nothing beside sink.format {table_format}", "Leave it out, or use format delta or iceberg"
        )
    for part in map(partition_rule, parts):
        if part.function != "identity" and not table_format.has_partition_functions:
            raise Mistake(
                path,
                f"expected columns beside sink.format {table_format}, got {part}",
                f"{table_format.capitalize()} is partitioned by values alone: name a column, "
                'or use sink.format = "iceberg"',
            )


_UNITY = {"type", "uri", "warehouse"}


def _check_catalog(sink: Sink) -> None:
    if sink.format.has_managed_tables and sink.catalog:
        if _UNITY <= sink.catalog.keys() <= _UNITY | {"token"} and sink.catalog["type"] == "unity":
            return
        raise Mistake(
            ("sink", "catalog"),
            'expected type = "unity", uri, warehouse, and token or nothing else, beside sink.format delta',
            "Delta tables can be managed by Unity Catalog: name its API and its catalog; or keep the tables in Iceberg",
        )
    if not sink.format.has_catalog:
        if sink.catalog:
            raise Mistake(
                ("sink", "catalog"),
                f"expected nothing beside sink.format {sink.format}, which has no catalog",
                "Leave it out, or keep the tables in Iceberg or Delta",
            )
        return
    if "://" in sink.directory and not sink.catalog:
        raise Mistake(
            ("sink", "directory"),
            f"expected a folder, got {sink.directory}",
            "Iceberg tables in an object store need a catalog: [sink.catalog]",
        )


def _check_merge(sink: Sink) -> None:
    if sink.merge is not Merge.MARK:
        return
    if not sink.format.replaces_rows:
        raise Mistake(
            ("sink", "merge"),
            f"expected auto or rewrite beside sink.format {sink.format}, got {sink.merge}",
            "Rows of plain files cannot be marked: leave merge out",
        )


def check_no_variants(sink: Sink) -> None:
    """See that JSON stays text in tables of what is no server's log. Raises `Mistake`: it does not."""
    if sink.json is not Json.TEXT:
        raise _no_variants("beside such a source", "Its JSON is text: leave json out")


def _no_variants(where: str, hint: str) -> Mistake:
    return Mistake(("sink", "json"), f"expected text {where}, got {Json.VARIANT}", hint)


def _check_row_ids(sink: Sink) -> None:
    if not sink.row_ids:
        return
    if not sink.format.replaces_rows:
        raise Mistake(
            ("sink", "row_ids"),
            f"expected false beside sink.format {sink.format}",
            "Rows of plain files have no ids: leave row_ids out",
        )
    if sink.format.has_catalog and sink.catalog.get("type", "").casefold() != "rest":
        raise Mistake(
            ("sink", "row_ids"),
            "expected false without a REST catalog",
            "Iceberg tables with ids are of version 3, which only REST catalogs can keep here: set catalog, or leave "
            "row_ids out",
        )
