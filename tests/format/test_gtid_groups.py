"""GTIDs of whole group tables against plain Python, of both vendors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.block import GROUP_DTYPE
from binlog_format.gtids.gtid import Gtid, GtidPosition, GtidSource
from binlog_format.gtids.gtid_history import covered_groups, gtid_of, gtids_of
from binlog_format.gtids.gtid_set import NO_GTIDS, AnyGtid, GtidSet, MysqlGtid
from binlog_format.views.columns import gtid_texts

if TYPE_CHECKING:
    from binlog_format.block import Table

SOURCES = (
    GtidSource("88ee60ec-e4d9-11f1-baee-02fc00000001"),
    GtidSource("88ee60ec-e4d9-11f1-baee-02fc00000001", "tag_one"),
    GtidSource("aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"),
)
NUMBERS = st.integers(1, 12) | st.integers(1, 2**63 - 2)
MYSQL_GTIDS = st.builds(MysqlGtid, st.sampled_from(SOURCES), NUMBERS)
MARIADB_GTIDS = st.builds(Gtid, st.integers(0, 2), st.integers(1, 2), st.integers(1, 12) | st.integers(1, 2**64 - 1))
GTIDS = st.lists(st.none() | MYSQL_GTIDS, max_size=25) | st.lists(st.none() | MARIADB_GTIDS, max_size=25)
SETS = st.builds(lambda gtids: GtidSet.of((g.source, (g.seqno, g.seqno)) for g in gtids), st.lists(MYSQL_GTIDS))


def table_of(gtids: list[AnyGtid | None]) -> Table:
    groups = np.zeros(len(gtids), dtype=GROUP_DTYPE)
    groups["gtid_source"] = -1
    for row, gtid in zip(groups, gtids, strict=True):
        row["has_gtid"] = gtid is not None
        if isinstance(gtid, MysqlGtid):
            row["gtid_source"], row["seqno"] = SOURCES.index(gtid.source), gtid.seqno
        elif gtid is not None:
            row["domain"], row["server_id"], row["seqno"] = gtid.domain, gtid.server, gtid.seqno
    return groups


@given(GTIDS)
def test_rows_give_their_gtids_back_as_objects_and_as_text(gtids: list[AnyGtid | None]) -> None:
    groups = table_of(gtids)
    assert [gtid_of(row, SOURCES) for row in groups] == gtids
    texts = gtid_texts(groups, SOURCES)
    texts.validate(full=True)
    assert texts.to_pylist() == [None if gtid is None else str(gtid) for gtid in gtids]


def test_text_of_a_source_that_is_not_given_is_refused() -> None:
    with pytest.raises(AssertionError, match="group 1 counts in a source"):
        gtid_texts(table_of([None, MysqlGtid(SOURCES[2], 1)]), SOURCES[:2])


@given(GTIDS, SETS)
def test_covered_groups_are_those_whose_gtid_is_covered(gtids: list[AnyGtid | None], point: GtidSet) -> None:
    covered = covered_groups(point, table_of(gtids), SOURCES)
    assert covered.tolist() == [gtid is not None and point.covers(gtid) for gtid in gtids]


@given(GTIDS)
def test_gtids_of_a_table_are_those_of_its_rows(gtids: list[AnyGtid | None]) -> None:
    found = gtids_of(table_of(gtids), SOURCES)
    known = [gtid for gtid in gtids if gtid is not None]
    if not known:
        assert found == NO_GTIDS
    elif isinstance(known[0], MysqlGtid):
        assert found == GtidSet.of((g.source, (g.seqno, g.seqno)) for g in known if isinstance(g, MysqlGtid))
    else:
        assert found == GtidPosition.of(g for g in known if isinstance(g, Gtid))
