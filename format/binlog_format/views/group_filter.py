"""Selection of event groups: `GroupFilter`, by GTID, by origin and by time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.gtids.domain_starts import DomainStarts
from binlog_format.gtids.gtid_history import covered_groups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.block import Block
    from binlog_format.gtids.domain_starts import Taken

    Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """Drops the groups that have been taken at a GTID position or set, those that another one does not reach, and more.

    Attributes:
        skip: What has been taken; None: nothing has.
        until: Only what this covers is wanted; None: everything. A domain or source that it does not name is not
            wanted. A group without GTID is covered by nothing: it is kept by `skip`, dropped by `until`.
        ignored_domains: GTID domains (MariaDB) whose groups are dropped; a group without GTID is in none.
        ignored_servers: Servers whose groups are dropped: those on which they were committed first.
        first_second: Groups that were committed before are dropped: seconds since 1970 UTC.
        last_second: Groups that were committed later are dropped.
    """

    skip: Taken | None = None
    until: Taken | None = None
    ignored_domains: tuple[int, ...] = ()
    ignored_servers: tuple[int, ...] = ()
    first_second: int | None = None
    last_second: int | None = None

    def keep(self, block: Block) -> Mask | None:
        """True for each wanted group of *block*; None when all are."""
        masks = list(self._masks(block)) if self != ALL_GROUPS else []
        if not masks:
            return None
        keep: Mask = np.logical_and.reduce(masks)
        return keep

    def _masks(self, block: Block) -> list[Mask]:
        groups = block.groups
        masks: list[Mask] = []
        if self.skip is not None:
            masks.append(~_covered(self.skip, block))
        if self.until is not None:
            masks.append(_covered(self.until, block))
        if self.ignored_domains:
            is_of_domain = groups["has_gtid"] & (groups["gtid_source"] < 0)
            masks.append(~(is_of_domain & np.isin(groups["domain"], self.ignored_domains)))
        if self.ignored_servers:
            # The header of the first event records it of groups without GTID too.
            servers = block.events["server_id"][groups["first_event"]]
            masks.append(~np.isin(servers, self.ignored_servers))
        if self.first_second is not None:
            masks.append(groups["timestamp"].astype(np.int64) >= self.first_second)
        if self.last_second is not None:
            masks.append(groups["timestamp"].astype(np.int64) <= self.last_second)
        return masks


def _covered(taken: Taken, block: Block) -> Mask:
    if isinstance(taken, DomainStarts):
        return taken.covered(block.groups)
    return covered_groups(taken, block.groups, block.gtid_sources)


ALL_GROUPS = GroupFilter()
"""Filter that takes all groups."""
