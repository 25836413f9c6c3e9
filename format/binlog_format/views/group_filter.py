"""Which event groups are wanted: `GroupFilter`, by GTID."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.block import Table
    from binlog_format.gtid import GtidPosition


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """Drops the groups that a GTID position covers, and those that another one does not reach.

    Attributes:
        skip: Everything up to here has been taken; None: nothing has.
        until: Only what this position covers is wanted; None: everything. A domain that it does not name is not
            wanted. A group without GTID is covered by nothing: it is kept by `skip`, dropped by `until`.
    """

    skip: GtidPosition | None = None
    until: GtidPosition | None = None

    def keep(self, groups: Table) -> NDArray[np.bool_] | None:
        """True for each wanted row of a group table; None when all are."""
        if self.skip is None and self.until is None:
            return None
        keep = np.ones(len(groups), dtype=np.bool_)
        if self.skip is not None:
            keep &= ~_covered(self.skip, groups)
        if self.until is not None:
            keep &= _covered(self.until, groups)
        return keep


def _covered(position: GtidPosition, groups: Table) -> NDArray[np.bool_]:
    covered = np.zeros(len(groups), dtype=np.bool_)
    for domain, last in position.last.items():
        covered |= (groups["domain"] == domain) & (groups["seqno"] <= np.uint64(last.seqno))
    covered &= groups["has_gtid"]
    return covered
