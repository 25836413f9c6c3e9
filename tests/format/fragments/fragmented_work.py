"""Random work on tables whose row events are stored as fragments."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from binlog_format.events.layout import EventType
from binlog_lab.event_encoding.event_encoding import Origin, compress_event, encode_fragments
from tests.format.views.made_tables import works

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

    from tests.format.views.made_log import MadeGroup
    from tests.format.views.made_tables import Work

FRAGMENT_ORIGIN = Origin(1_700_000_009, 9)
ROW_TYPES = (EventType.WRITE_ROWS_V1, EventType.UPDATE_ROWS_V1, EventType.DELETE_ROWS_V1)
THRESHOLD_MIN = 41  # what precedes the content of a first fragment, a checksum, and one byte
COMPRESSED_TYPES = EventType.WRITE_ROWS_COMPRESSED_V1 - EventType.WRITE_ROWS_V1
FORMS = ("plain", "compressed", "cut", "cut", "cut", "cut as compressed", "compressed and cut")


def marked_as_compressed(event: bytes) -> bytes:
    """A row event as a server cuts it with `log_bin_compress`: the type of a compressed one, and plain rows."""
    return event[:4] + bytes([event[4] + COMPRESSED_TYPES]) + event[5:]


def _stored(draw: DrawFn, event: bytes) -> list[bytes]:
    if event[4] not in ROW_TYPES:
        return [event]
    form = draw(
        st.sampled_from(["plain", "compressed", "cut", "cut", "cut", "cut as compressed", "compressed and cut"])
    )
    if form.startswith("compressed"):
        event = compress_event(event)
    elif form == "cut as compressed":
        event = marked_as_compressed(event)
    if "cut" not in form:
        return [event]
    threshold = draw(st.integers(THRESHOLD_MIN, THRESHOLD_MIN + len(event) - 2))
    return encode_fragments(
        event, FRAGMENT_ORIGIN, threshold, number_first=draw(st.booleans()), has_checksum=draw(st.booleans())
    )


@st.composite
def fragmented_works(draw: DrawFn) -> tuple[Work, list[MadeGroup]]:
    """Work, and its groups with row events in fragments, compressed, or as they are."""
    work = draw(works())
    groups = [
        replace(group, events=[part for event in group.events for part in _stored(draw, event)])
        for group in work.groups
    ]
    return work, groups
