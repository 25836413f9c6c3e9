"""The table of options: `OPTIONS`, what the source knows by name; `docs/spark.md` describes each one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Queries(StrEnum):
    """Queries that an option applies to; others refuse it, unless it is one of `QUIET_OPTIONS`."""

    BOTH = "both"
    BATCH = "batch"
    STREAMING = "streaming"


@dataclass(frozen=True, slots=True)
class Option:
    """An option.

    Attributes:
        name: As the documentation spells it; any case will do.
        default: What holds when it is not given, in words; empty: nothing.
        queries: Where it counts.
    """

    name: str
    default: str = ""
    queries: Queries = Queries.BOTH


OPTIONS = (
    Option("path"),
    Option("archive"),
    Option("format", "detected"),
    Option("view", "changes or logs"),
    Option("table"),
    Option("tables", "all"),
    Option("excludeTables", "none"),
    Option("countOtherTables", "false"),
    Option("tellProblems", "false"),
    Option("definedTables", "none"),
    Option("startingOffsets", "earliest"),
    Option("startingGtid"),
    Option("startingTimestamp"),
    Option("endingOffsets", "latest"),
    Option("endingGtid"),
    Option("endingTimestamp", "", Queries.BATCH),
    Option("maxBytesPerTrigger", "all", Queries.STREAMING),
    Option("maxFilesPerTrigger", "all", Queries.STREAMING),
    Option("minPartitions", "by size"),
    Option("bound", "visible"),
    Option("failOnDataLoss", "true"),
    Option("failOnStatement", "true"),
    Option("ignoreDomainIds", "none"),
    Option("ignoreServerIds", "none"),
    Option("schemaFile"),
    Option("keptDefinitions"),
    Option("lowerCaseTableNames", "found out from the log"),
    Option("declaredTypes", "false"),
    Option("rules", "none"),
    Option("includeDdl", "false"),
    Option("includeQuery", "false"),
    Option("includeAbsent", "false"),
    Option("timeType", "text"),
    Option("zeroDates", "null"),
    Option("replaceInvalidText", "false"),
    Option("source"),
    Option("minSeverity", "any"),
    Option("categories", "all"),
    Option("sourceFiles", "all"),
    Option("formats", "all"),
    Option("sortWindow", "none"),
    Option("kafkaValue"),
    Option("topicPrefix"),
    Option("topic", "{prefix}.{database}.{table}"),
    Option("schemasEnable", "false"),
    Option("tombstones", "true"),
    Option("decimalHandling", "precise"),
    Option("unsignedBigintHandling", "long"),
    Option("binaryHandling", "bytes"),
    Option("timePrecision", "adaptive_time_microseconds"),
)
"""All options, in the order of the documentation."""

OPTION_NAMES = tuple(option.name for option in OPTIONS)
BATCH_ONLY = tuple(option.name for option in OPTIONS if option.queries is Queries.BATCH)
"""Refused in a streaming query. What limits a trigger has no meaning in a batch query, and is passed over there, as by
Spark's own sources."""
