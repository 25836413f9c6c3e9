"""Partitions of a table: `Partitioning`; changes to them by ALTER TABLE: `PartitionChange`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from binlog_connector.schema.expressions.expression import Expression  # noqa: TC001 - msgspec looks it up
from binlog_format.names import folded_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

RANGE, LIST = "RANGE", "LIST"


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition.

    Attributes:
        name: Upper and lower case are the same.
        values: Of RANGE the one bound below which its rows are, of LIST all its values; each has as many parts as the
            table is partitioned by.
    """

    name: str
    values: tuple[tuple[Expression, ...], ...]


@dataclass(frozen=True, slots=True)
class Partitioning:
    """Partitions of a table.

    Attributes:
        kind: `RANGE`, `LIST`, `HASH`, `KEY`, `SYSTEM_TIME`.
        by_columns: COLUMNS: values are compared as those of the columns are, else as whole numbers.
        expressions: What it is partitioned by: columns, or one expression; of RANGE and LIST only.
        partitions: In order; of RANGE and LIST only.
        unknown: Why partitions and their values are not known; empty: they are.
    """

    kind: str
    by_columns: bool = False
    expressions: tuple[Expression, ...] = ()
    partitions: tuple[Partition, ...] = ()
    unknown: str = ""

    def renamed(self, names: Mapping[str, str]) -> Partitioning:
        """The same, where columns have other names. *names*: new names by the old ones, which are case-folded."""
        return replace(self, expressions=tuple(expression.renamed(names) for expression in self.expressions))

    def places(self, names: Iterable[str]) -> dict[str, int | None]:
        """The place of each partition that is asked for; None: there is none of that name."""
        known = {folded_name(partition.name): place for place, partition in enumerate(self.partitions)}
        return {name: known.get(folded_name(name)) for name in names}


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """Change to partitions by one ALTER TABLE.

    Attributes:
        removed: Names of those that go, be it without their rows; new ones take the place of the first.
        emptied: Names of those whose rows go, but for rows that `added` take; None: of all (TRUNCATE PARTITION ALL).
        if_possible: IF [NOT] EXISTS: what cannot be done is left.
        is_anew: PARTITION BY, REMOVE PARTITIONING: `partitioning` holds from now on.
        partitioning: The new one; None: it has none.
        unknown: What is not understood; empty: nothing.
    """

    removed: tuple[str, ...] = ()
    added: tuple[Partition, ...] = ()
    emptied: tuple[str, ...] | None = ()
    if_possible: bool = False
    is_anew: bool = False
    partitioning: Partitioning | None = None
    unknown: str = ""

    def applied(self, before: Partitioning | None) -> Partitioning | None:
        """Partitions of the table after the change."""
        if self.is_anew:
            return self.partitioning
        if not (self.removed or self.added or self.unknown):
            return before
        if before is None:
            return Partitioning("", unknown="the CREATE TABLE that is known has no partitions")
        if before.unknown or before.kind not in (RANGE, LIST):
            return before
        if self.unknown:
            return replace(before, unknown=self.unknown)
        if not all(partition.values for partition in self.added):
            return replace(before, unknown="a partition without values")
        found = before.places(self.removed)
        missing = [name for name, place in found.items() if place is None]
        if missing and not self.if_possible:
            return replace(before, unknown=f"a statement about its partition {missing[0]}, which is not a known one")
        if self.if_possible and any(
            place is not None for place in before.places(partition.name for partition in self.added).values()
        ):
            return before
        gone = {place for place in found.values() if place is not None}
        first = min(gone, default=len(before.partitions))
        left = [partition for place, partition in enumerate(before.partitions) if place not in gone]
        return replace(before, partitions=(*left[:first], *self.added, *left[first:]))
