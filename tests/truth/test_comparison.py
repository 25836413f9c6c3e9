"""The comparison notices what readers get wrong: mistakes are made in changes that are right."""

from __future__ import annotations

import base64
import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.truth.comparison import Comparison, TruthError
from tests.truth.reading import decoding_of_log, json_changes, typed_changes
from tests.truth.replay import replay, rows_that_differ
from tests.truth.truth_case import case
from tests.truth.truth_values import Number

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.truth.reading import Change

TYPES, OPS, MINIMAL = "mariadb-10.11/types_full", "mariadb-10.11/ops", "mariadb-10.11/ops_minimal"


@functools.cache
def changes(name: str) -> list[Change]:
    truth = case(name)
    return json_changes(truth.path, decoding=None if truth.has_names else decoding_of_log(truth.path))


def compared(name: str, found: list[Change]) -> None:
    truth = case(name)
    Comparison(truth, declared=not truth.has_names).compare(found, truth.logged())


def edited(
    name: str, table: str, edit: Callable[[dict[str, Any]], dict[str, Any]], *, op: str = "insert"
) -> list[Change]:
    """The changes with one image of a table edited."""
    found = list(changes(name))
    number = next(i for i, change in enumerate(found) if (change.table, change.op) == (table, op))
    change = found[number]
    assert change.after is not None
    after = edit(dict(change.after))
    assert repr(after) != repr(change.after)
    found[number] = replace(change, after=after)
    return found


@pytest.mark.parametrize("name", [TYPES, OPS, MINIMAL])
def test_right_changes_are_right(name: str) -> None:
    compared(name, changes(name))


@pytest.mark.parametrize(
    ("column", "table", "value"),
    [
        ("ti", "t.t_int", 128),
        ("bu", "t.t_int", "0"),
        ("f", "t.t_float", Number("1e-9")),
        ("d65_0", "t.t_decimal", "9" * 64),
        ("b64", "t.t_bit", 1),
        ("b1", "t.t_bit", 0),
        ("y", "t.t_year", 1900),
        ("e", "t.t_date", "2024-02-28"),
        ("t6", "t.t_time", "00:00:00.000001"),
        ("d3", "t.t_datetime", "0000-00-00T00:00:00.000"),
        ("s0", "t.t_timestamp", "1970-01-01T00:00:00Z"),
        ("b16", "t.t_char", ""),
        ("bincoll", "t.t_varchar", "Ã€Ã‰"),
        ("lat", "t.t_lob", "e"),
        ("e1", "t.t_enumset", 1),
        ("j", "t.t_json", {}),
        ("pn", "t.t_geo", None),
        ("u", "t.t_netid", base64.b64encode(bytes.fromhex("00123e4567e89b12d3a4564266554400")).decode()),
        ("mt", "t.t_compressed", "m" * 69999),
    ],
)
def test_wrong_value_is_noticed(column: str, table: str, value: object) -> None:
    with pytest.raises(TruthError, match=rf"(?s){table}.*{column}.*step"):
        compared(TYPES, edited(TYPES, table, lambda image: image | {column: value}))


def test_missing_extra_and_misplaced_columns_are_noticed() -> None:
    def without(image: dict[str, Any]) -> dict[str, Any]:
        del image["nn"]
        return image

    with pytest.raises(TruthError, match="nn is missing"):
        compared(TYPES, edited(TYPES, "t.t_int", without))
    with pytest.raises(TruthError, match="not the table's"):
        compared(TYPES, edited(TYPES, "t.t_int", lambda image: image | {"more": 1}))
    renamed = edited(TYPES, "t.t_int", lambda image: {{"ti": "tu", "tu": "ti"}.get(k, k): v for k, v in image.items()})
    with pytest.raises(TruthError, match="another order"):
        compared(TYPES, renamed)


@pytest.mark.parametrize("name", [TYPES, OPS, MINIMAL])
@pytest.mark.parametrize("number", [0, 200, 480, -1])
def test_lost_doubled_and_swapped_changes_are_noticed(name: str, number: int) -> None:
    good = changes(name)
    lost = [change for change in good if change is not good[number]]
    with pytest.raises(TruthError):
        compared(name, lost)
    with pytest.raises(TruthError):
        compared(
            name,
            [*good[: number % len(good)], *good[number % len(good) - len(good) :][:1], *good[number % len(good) :]],
        )
    at = number % (len(good) - 1)
    one, other = good[at], good[at + 1]
    swapped = [*good[:at], replace(other, order=one.order), replace(one, order=other.order), *good[at + 2 :]]
    with pytest.raises(TruthError):
        compared(name, swapped)


def test_row_that_was_rolled_back_is_noticed() -> None:
    good = changes(OPS)
    at = next(i for i, change in enumerate(good) if change.after and change.after.get("id") == 3003)
    undone = replace(good[at], after={"id": 3004, "p": "rolled back"}, order=(*good[at].order[:-1], 9))
    with pytest.raises(TruthError, match="more than the server has"):
        compared(OPS, [*good[: at + 1], undone, *good[at + 1 :]])


def test_changed_column_that_is_absent_is_noticed() -> None:
    good = list(changes(MINIMAL))
    at = next(i for i, c in enumerate(good) if c.op == "update" and c.absent and c.after and "v" in c.after)
    after = {name: value for name, value in (good[at].after or {}).items() if name != "v"}
    good[at] = replace(good[at], after=after, absent=tuple(sorted({*good[at].absent, "v"}, key=["id", "k", "v"].index)))
    with pytest.raises(TruthError, match=r"v changed from .* and is absent"):
        compared(MINIMAL, good)


def test_typed_value_of_another_type_is_noticed() -> None:
    truth = case(TYPES)
    good = typed_changes(truth.path, "t.t_int")
    assert good[0].after is not None
    wrong = [replace(good[0], after=good[0].after | {"bu": 0}), *good[1:]]  # a decimal it should be
    with pytest.raises(TruthError, match="bu"):
        Comparison(truth, typed=True).compare(wrong, truth.logged("t.t_int"))


@pytest.mark.parametrize("name", [TYPES, OPS, MINIMAL])
def test_replay_notices_a_lost_change(name: str) -> None:
    truth = case(name)
    good = changes(name)
    lost = [change for change in good if change is not good[-1]]
    declared = not truth.has_names
    assert rows_that_differ(truth, replay(truth, good), declared=declared) == []
    assert rows_that_differ(truth, replay(truth, lost), declared=declared) != []
