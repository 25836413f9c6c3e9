"""GTID sets against plain sets of numbers; texts as the server has them; errors that state what is wrong.

GTIDs of whole group tables against plain Python, of both vendors.
"""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.block import GROUP_DTYPE
from binlog_format.errors import DataLossError, OptionError
from binlog_format.gtids.gtid import Gtid, GtidPosition, GtidSource
from binlog_format.gtids.gtid_history import covered_groups, gtid_of, gtids_of
from binlog_format.gtids.gtid_set import (
    NO_GTIDS,
    SEQNO_MAX,
    AnyGtid,
    GtidPoint,
    GtidSet,
    MysqlGtid,
    check_kind,
    gtids_purged,
    parse_gtid,
    parse_gtids,
)
from binlog_format.views.columns import gtid_texts

if TYPE_CHECKING:
    from binlog_format.block import Table


A, B = "88ee60ec-e4d9-11f1-baee-02fc00000001", "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
SOURCES = [GtidSource(A), GtidSource(A, "tag_one"), GtidSource(B, "_9"), GtidSource(B)]

Naive = dict[GtidSource, set[int]]
NAIVE_SETS = st.dictionaries(st.sampled_from(SOURCES), st.sets(st.integers(1, 30), min_size=1))


def made(naive: Naive) -> GtidSet:
    """The set, from single numbers in any order."""
    numbers = [(source, (number, number)) for source, found in naive.items() for number in found]
    random.Random(1).shuffle(numbers)
    return GtidSet.of(numbers)


def plain(gtids: GtidPoint) -> Naive:
    assert isinstance(gtids, GtidSet)
    for intervals in gtids.intervals.values():
        assert intervals
        assert all(first <= last for first, last in intervals)
        assert all(left[1] + 1 < right[0] for left, right in itertools.pairwise(intervals))
    return {
        source: {number for first, last in intervals for number in range(first, last + 1)}
        for source, intervals in gtids.intervals.items()
    }


@given(NAIVE_SETS, NAIVE_SETS)
def test_sets_do_what_plain_sets_do(left: Naive, right: Naive) -> None:
    a, b = made(left), made(right)
    assert plain(a) == left
    assert bool(a) == bool(left)
    united = {source: left.get(source, set()) | right.get(source, set()) for source in {**left, **right}}
    assert plain(a.advanced_by(b)) == united
    rest = {source: numbers - right.get(source, set()) for source, numbers in left.items()}
    assert plain(a.without(b)) == {source: numbers for source, numbers in rest.items() if numbers}
    assert plain(a.of_sources(right)) == {source: left[source] for source in left if source in right}
    for source in SOURCES:
        for number in range(1, 32):
            assert a.covers(MysqlGtid(source, number)) == (number in left.get(source, set()))


@given(NAIVE_SETS, st.randoms(use_true_random=False))
def test_text_says_the_set_however_it_is_written(naive: Naive, rng: random.Random) -> None:
    gtids = made(naive)
    assert GtidSet.parse(str(gtids)) == gtids
    parts = [f"{source}:{number}" for source, numbers in naive.items() for number in numbers]
    rng.shuffle(parts)
    spaced = rng.choice([",", " ,\n", ", ,"]).join(part.upper() if rng.random() < 0.5 else part for part in parts)
    assert GtidSet.parse(spaced) == gtids
    assert parse_gtids(spaced) == (gtids if naive else NO_GTIDS)


def test_text_is_the_one_that_the_server_prints() -> None:
    text = f"{A}:1-154:tag_one:1-2,{B}:5:7:a_long_tag_of_32_characters_xyz:3"
    assert str(GtidSet.parse(text)) == text
    said = f"{{}} {B.upper()}:A_long_tag_of_32_characters_xyz:3:_9:5 - 7:8, {A}:tag_one:2:1,{B}:7:5-5,{A}:2-154:1-3"
    assert str(GtidSet.parse(said.removeprefix("{} "))) == (
        f"{A}:1-154:tag_one:1-2,{B}:5:7:_9:5-8:a_long_tag_of_32_characters_xyz:3"
    )
    assert str(GtidSet.parse(A.replace("-", "") + ":1")) == f"{A}:1"
    assert str(GtidSet({})) == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("abc:1", "UUID before the first colon, got 'abc'"),
        (A, "has no numbers after it"),
        (f"{A}:", "got ''"),
        (f"{A}:tag", "88ee60ec-e4d9-11f1-baee-02fc00000001:tag has no numbers"),
        (f"{A}:tag:other:1", ":tag has no numbers"),
        (f"{A}:1-5:tag", ":tag has no numbers"),
        (f"{A}:5-3", "the smaller one first"),
        (f"{A}:0", "numbers go from 1 to"),
        (f"{A}:{SEQNO_MAX + 1}", "numbers go from 1 to"),
        (f"{A}:1-2-3", "got '1-2-3'"),
        (f"{A}:9tag:1", "got '9tag'"),
        (f"{A}:{'t' * 33}:1", "33 characters, there may be 32"),
        (f"{A}:1,0-1-5", "UUID before the first colon, got '0-1-5'"),
        (f"{A}:\u0661", "expected a number"),
    ],
)
def test_what_is_wrong_with_a_text_is_said(text: str, said: str) -> None:
    with pytest.raises(ValueError, match="GTID set") as raised:
        parse_gtids(text)
    assert said in str(raised.value)


def test_one_gtid_is_read_in_both_forms() -> None:
    assert parse_gtid("0-1-100") == Gtid(0, 1, 100)
    assert parse_gtid(f" {A.upper()}:77") == MysqlGtid(GtidSource(A), 77)
    assert parse_gtid(f"{A}:Tag_one:77") == MysqlGtid(SOURCES[1], 77)
    assert str(parse_gtid(f"{A}:tag_one:77")) == f"{A}:tag_one:77"
    for text in (f"{A}:1-2", f"{A}:1:3", f"{A}:1,{B}:1"):
        with pytest.raises(ValueError, match="expected one transaction"):
            parse_gtid(text)
    with pytest.raises(ValueError, match="expected domain-server-seqno"):
        parse_gtid("77")


def test_points_of_either_vendor_meet_only_when_one_is_empty() -> None:
    position, gtids = GtidPosition.of([Gtid(0, 1, 5)]), GtidSet.parse(f"{A}:1-5")
    assert parse_gtids("0-1-5") == position
    for empty in (GtidPosition({}), GtidSet({})):
        for point in (position, gtids):
            assert point.advanced_by(empty) == point
            assert empty.advanced_by(point) == point
            assert point.without(empty) == point
            assert not empty.without(point)
            check_kind(point, empty)
    for left, right in ((position, gtids), (gtids, position)):
        with pytest.raises(ValueError, match="two kinds of servers"):
            left.advanced_by(right)
        assert left.without(right) == left
        with pytest.raises(OptionError, match="INVALID_VALUE"):
            check_kind(left, right)
    assert not position.covers(MysqlGtid(GtidSource(A), 5))
    assert not gtids.covers(Gtid(0, 1, 5))


def test_purged_transactions_are_named() -> None:
    before, start = GtidSet.parse(f"{A}:1-100,{B}:1-5"), GtidSet.parse(f"{A}:1-60,{B}:1-9")
    error = gtids_purged(before, start, before.without(start))
    assert isinstance(error, DataLossError)
    assert f"{A}:61-100 has been purged" in error.reason
    position = GtidPosition.parse("0-1-100,1-1-5")
    error = gtids_purged(position, GtidPosition.parse("1-1-7"), position.without(GtidPosition.parse("1-1-7")))
    assert error.reason.endswith("what lies between has been purged, up to 0-1-100")


GROUP_SOURCES = (
    GtidSource("88ee60ec-e4d9-11f1-baee-02fc00000001"),
    GtidSource("88ee60ec-e4d9-11f1-baee-02fc00000001", "tag_one"),
    GtidSource("aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"),
)
NUMBERS = st.integers(1, 12) | st.integers(1, 2**63 - 2)
MYSQL_GTIDS = st.builds(MysqlGtid, st.sampled_from(GROUP_SOURCES), NUMBERS)
MARIADB_GTIDS = st.builds(Gtid, st.integers(0, 2), st.integers(1, 2), st.integers(1, 12) | st.integers(1, 2**64 - 1))
GTIDS = st.lists(st.none() | MYSQL_GTIDS, max_size=25) | st.lists(st.none() | MARIADB_GTIDS, max_size=25)
SETS = st.builds(lambda gtids: GtidSet.of((g.source, (g.seqno, g.seqno)) for g in gtids), st.lists(MYSQL_GTIDS))


def table_of(gtids: list[AnyGtid | None]) -> Table:
    groups = np.zeros(len(gtids), dtype=GROUP_DTYPE)
    groups["gtid_source"] = -1
    for row, gtid in zip(groups, gtids, strict=True):
        row["has_gtid"] = gtid is not None
        if isinstance(gtid, MysqlGtid):
            row["gtid_source"], row["seqno"] = GROUP_SOURCES.index(gtid.source), gtid.seqno
        elif gtid is not None:
            row["domain"], row["server_id"], row["seqno"] = gtid.domain, gtid.server, gtid.seqno
    return groups


@given(GTIDS)
def test_rows_give_their_gtids_back_as_objects_and_as_text(gtids: list[AnyGtid | None]) -> None:
    groups = table_of(gtids)
    assert [gtid_of(row, GROUP_SOURCES) for row in groups] == gtids
    texts = gtid_texts(groups, GROUP_SOURCES)
    texts.validate(full=True)
    assert texts.to_pylist() == [None if gtid is None else str(gtid) for gtid in gtids]


def test_text_of_a_source_that_is_not_given_is_refused() -> None:
    with pytest.raises(AssertionError, match="group 1 counts in a source"):
        gtid_texts(table_of([None, MysqlGtid(GROUP_SOURCES[2], 1)]), GROUP_SOURCES[:2])


@given(GTIDS, SETS)
def test_covered_groups_are_those_whose_gtid_is_covered(gtids: list[AnyGtid | None], point: GtidSet) -> None:
    covered = covered_groups(point, table_of(gtids), GROUP_SOURCES)
    assert covered.tolist() == [gtid is not None and point.covers(gtid) for gtid in gtids]


@given(GTIDS)
def test_gtids_of_a_table_are_those_of_its_rows(gtids: list[AnyGtid | None]) -> None:
    found = gtids_of(table_of(gtids), GROUP_SOURCES)
    known = [gtid for gtid in gtids if gtid is not None]
    if not known:
        assert found == NO_GTIDS
    elif isinstance(known[0], MysqlGtid):
        assert found == GtidSet.of((g.source, (g.seqno, g.seqno)) for g in known if isinstance(g, MysqlGtid))
    else:
        assert found == GtidPosition.of(g for g in known if isinstance(g, Gtid))
