"""A server's bad days: every table of the job is equal to the server's, or somebody is told which one is not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.streaming.bad_days.scenarios import beginnings, foreign_keys, order, partitions, statements
from tests.streaming.bad_days.verdicts import Kind
from tests.streaming.bad_days.week import Week

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from binlog_lab.demo.mariadb.server import MariaDbServer
    from tests.streaming.bad_days.scenario import Scenario
    from tests.streaming.bad_days.week import Result

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.thorough]

TOPICS = (statements, beginnings, partitions, foreign_keys, order)
SCENARIOS = {
    f"{topic.__name__.rpartition('.')[2]}-{scenario.name}": scenario.numbered(number)
    for number, (topic, scenario) in enumerate(((topic, one) for topic in TOPICS for one in topic.SCENARIOS), 1)
}


def week_of(scenario: Scenario) -> str:
    """What days have in common that are lived together."""
    return scenario.name if scenario.is_alone else json.dumps([scenario.barriers, scenario.source])


WEEKS: dict[str, list[Scenario]] = {}
for _scenario in SCENARIOS.values():
    WEEKS.setdefault(week_of(_scenario), []).append(_scenario)


def test_names_are_unique() -> None:
    assert len({scenario.name for scenario in SCENARIOS.values()}) == len(SCENARIOS)


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    """Of the weeks so far: each is lived once, and its job runs once."""
    return {}


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_table_is_silently_wrong(
    shared_server: MariaDbServer, spark: SparkSession, tmp_path: Path, results: dict[str, Result], name: str
) -> None:
    scenario = SCENARIOS[name]
    key = week_of(scenario)
    if key not in results:
        week = Week(shared_server, spark, tmp_path, WEEKS[key])
        week.live()
        results[key] = week.run("job", WEEKS[key], **({} if scenario.is_alone else {"on_error": "set_aside"}))
    check(scenario, results[key])


def check(scenario: Scenario, result: Result) -> None:
    """See that the verdicts are what the scenario wants."""
    found = result.verdicts(scenario)
    told = {name: f"{verdict.kind}: {verdict.why}" for name, verdict in found.items()}
    kinds = {verdict.kind for verdict in found.values()}
    assert found, "no table to look at"
    if scenario.refused is None or (scenario.may_go_on and kinds == {Kind.EQUAL}):
        assert kinds == {Kind.EQUAL}, told
        return
    named = Kind.REFUSED if scenario.is_alone else Kind.ASIDE
    assert named in kinds, told
    assert kinds <= {named, Kind.EQUAL}, told
    reasons = [verdict.why for verdict in found.values() if verdict.kind is named]
    assert all(scenario.refused.is_met_by(reason) for reason in reasons), told
