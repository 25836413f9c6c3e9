"""Time zones that sessions name: `known_zone(name, decoding.system_time_zone)`."""

from __future__ import annotations

import datetime
import re
import zoneinfo
from dataclasses import dataclass

from binlog_format.rows.declared.declared_types import UnknownValueError

_SYSTEM = "SYSTEM"
_OFFSET = re.compile(r"([+-])(\d{1,2}):(\d\d)", re.ASCII)
_UTC_NAMES = frozenset({"utc", "gmt", "etc/utc", "etc/gmt", "zulu"})
_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - a DATETIME has no time zone either
_MICROSECOND = datetime.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class KnownZone:
    """A time zone whose times can be computed.

    Attributes:
        name: As the session has it, or of the time zone database.
        offset: From UTC, microseconds, where it is always the same; None: the database has it.
    """

    name: str
    offset: int | None

    def local(self, micros: int) -> int:
        """The time in the zone at a moment; both are microseconds since 1970."""
        if self.offset is not None:
            return micros + self.offset
        moment = (_EPOCH + micros * _MICROSECOND).replace(tzinfo=datetime.UTC)
        return micros + _offset(moment.astimezone(zoneinfo.ZoneInfo(self.name)))

    def utc(self, micros: int) -> int:
        """The moment of a time in the zone. Raises `UnknownValueError`: it was there twice, or not at all."""
        if self.offset is not None:
            return micros - self.offset
        time = (_EPOCH + micros * _MICROSECOND).replace(tzinfo=zoneinfo.ZoneInfo(self.name))
        offset = _offset(time)
        if offset != _offset(time.replace(fold=1)):
            raise UnknownValueError(f"a time that the time zone {self.name} has twice, or not at all")
        return micros - offset


def _offset(time: datetime.datetime) -> int:
    offset = time.utcoffset()
    assert offset is not None, "it has a time zone"
    return offset // _MICROSECOND


def known_zone(name: str | None, system: str | None = None) -> KnownZone:
    """The time zone of a session.

    Args:
        name: `+02:00`, a name, `SYSTEM`; None: the log does not record it.
        system: What `SYSTEM` is, as `Decoding.system_time_zone`; None: not known.

    Raises:
        UnknownValueError: It is not known.
    """
    if name is None:
        raise UnknownValueError("a time in a time zone that the log does not record")
    if name.upper() == _SYSTEM:
        if system is None:
            raise UnknownValueError("a time in the time zone SYSTEM (option systemTimeZone states which it is)")
        return known_zone(system)
    if name.casefold() in _UTC_NAMES:
        return KnownZone(name, 0)
    match = _OFFSET.fullmatch(name)
    if match is not None:
        minutes = int(match[2]) * 60 + int(match[3])
        return KnownZone(name, (-minutes if match[1] == "-" else minutes) * 60_000_000)
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UnknownValueError(f"a time in the time zone {name}, which is not known here") from error
    return KnownZone(name, None)
