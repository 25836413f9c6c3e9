"""Places of a position's GTIDs in a log: `DomainStarts`; and `Taken`, the groups that filters skip.

MariaDB's sequence numbers may go back within a domain, so no comparison of numbers tells what comes after a GTID: only
its place in the log does. MySQL counts in sets, which tell it by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from binlog_format.gtids.gtid_set import GtidSet
from binlog_format.position import Position

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from binlog_format.block import Table

NOT_REACHED = Position(2**62, 0, 0)
"""After everything: the log has not come to a GTID yet."""


@dataclass(frozen=True, slots=True)
class DomainStarts:
    """The place in a log, for each domain, after which no group has been taken.

    Attributes:
        places: By domain, a place after the last group that has been taken and not after the next one of that domain;
            `NOT_REACHED`: all groups that are there have been taken. Of other domains nothing has been.
    """

    places: Mapping[int, Position]

    def __bool__(self) -> bool:
        return bool(self.places)

    def __str__(self) -> str:
        return ",".join(f"{domain}={self.places[domain]}" for domain in sorted(self.places))

    @classmethod
    def parse(cls, text: str) -> DomainStarts:
        """Read what `str()` writes: `0=3:12:4,1=4:1:0`.

        Raises:
            ValueError: *text* has another form.
        """
        found = {}
        for part in text.split(",") if text else ():
            domain, _, place = part.partition("=")
            if not (domain.isascii() and domain.isdecimal()):
                raise ValueError(f"starts of domains {text!r}: expected domain=position, for example 0=3:12:4")
            found[int(domain)] = Position.parse(place)
        return cls(found)

    def is_open(self, domain: int) -> bool:
        """True if the log has not reached the GTID of a domain yet."""
        return self.places.get(domain) == NOT_REACHED

    def covered(self, groups: Table) -> NDArray[np.bool_]:
        """True for each row of a group table (`GROUP_DTYPE`) that has been taken; never for one without GTID."""
        covered = np.zeros(len(groups), dtype=np.bool_)
        for domain, place in self.places.items():
            covered |= (groups["domain"] == domain) & _is_before(groups, place)
        covered &= groups["has_gtid"] & (groups["gtid_source"] < 0)
        return covered

    def after(self, position: Position) -> DomainStarts:
        """The part that still matters at *position*: domains that start later."""
        return DomainStarts({domain: place for domain, place in self.places.items() if place > position})


NO_STARTS = DomainStarts({})

Taken: TypeAlias = DomainStarts | GtidSet
"""Groups that have been taken already, whatever the order of their GTIDs."""


def _is_before(groups: Table, place: Position) -> NDArray[np.bool_]:
    file_no, page = groups["file_no"], groups["page"]
    in_page = (page == place.page) & (groups["chunk"] < place.chunk)
    is_before = (file_no < place.file_no) | ((file_no == place.file_no) & ((page < place.page) | in_page))
    return np.asarray(is_before)
